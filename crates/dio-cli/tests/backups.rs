//! The recipes of docs/backups.md: each command line is taken from the document and run, on a small
//! scale, and what it has backed up is compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dio_test::{as_user, postgresql_programs, random_file, run, same_bytes, skip};

use crate::judge_support::succeeds;
use crate::run_support::*;

const DOCUMENT: &str = include_str!("../../../docs/backups.md");

/// The paths that the recipes name, and where they are below the scratch directory.
const PATHS: &[(&str, &str)] = &[
    ("/usr/bin/dio", "dio"),
    ("/srv/data", "data"),
    ("/srv/backup", "backup"),
    ("/etc/restic/password", "password"),
    ("/etc/pgbackrest.conf", "pgbackrest.conf"),
    ("/var/lib/borg", "borg"),
    ("/var/lib/postgresql", "postgresql"),
    ("/var/lib/mysql", "mysql"),
    ("/run/postgresql", "run"),
    ("/run/mysqld/mysqld.sock", "run/mysqld.sock"),
];

/// A directory with data, an empty backup, and the program `dio`, for every user.
struct Site(Scratch);

impl Site {
    /// `None`, told, if the programs are not installed.
    fn new(programs: &[&str]) -> Option<Site> {
        if !can_mount() {
            return None;
        }
        let present = |program: &&&str| {
            run(Command::new("sh").args(["-c", &format!("command -v {program}")])).status.success()
        };
        if let Some(missing) = programs.iter().find(|program| !present(program)) {
            skip!("no {missing}: cargo xtask setup");
            return None;
        }
        let site = Site(Scratch::new());
        for directory in ["data", "data/below", "backup", "borg", "postgresql", "mysql", "run"] {
            fs::create_dir(site.at(directory)).unwrap();
        }
        random_file(site.at("data/large"), 3_000_001, 1);
        for number in 0..20 {
            random_file(site.at(&format!("data/below/{number}")), 1000 * number, number);
        }
        dio_test::copy_program(DIO, site.at("dio"));
        Some(site)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.at(name)
    }

    /// Gives directories to a user.
    fn give(&self, user: &str, names: &[&str]) {
        let paths = names.iter().map(|name| self.at(name));
        // With the user's group, which is the only one that there is below `dio run` without root.
        succeeds(Command::new("chown").arg(format!("{user}:")).args(paths), "chown");
    }

    /// `text` with the paths of this site.
    fn translated(&self, text: &str) -> String {
        PATHS.iter().fold(text.to_owned(), |text, (path, name)| {
            text.replace(path, self.at(name).to_str().unwrap())
        })
    }

    /// The command that systemd would run by the drop-in of this name, in this site.
    fn recipe(&self, name: &str) -> Command {
        let begin = format!("# /etc/systemd/system/{name}.d/dio.conf\n");
        let (_, rest) = DOCUMENT.split_once(&begin).unwrap_or_else(|| panic!("no {name}"));
        let text = self.translated(rest.split("```").next().unwrap()).replace("\\\n", " ");
        let values = |key: &str| {
            let lines: Vec<String> = text
                .lines()
                .filter_map(|line| line.strip_prefix(key)?.strip_prefix('='))
                .map(str::to_owned)
                .collect();
            lines
        };
        let lines = values("ExecStart");
        let [empty, line] = &lines[..] else { panic!("{name}: {lines:?}") };
        assert!(empty.is_empty(), "{name}: a drop-in first takes away the old command");
        assert!(!text.contains(['"', '\'', '%']), "{name}: this test reads plain words only");
        let mut words = line.split_whitespace();
        let program = words.next().unwrap();
        let mut command = match values("User").pop() {
            Some(user) => self.as_user(&user, program),
            None => Command::new(program),
        };
        command.args(words).current_dir("/").env("LC_ALL", "C");
        for pair in values("Environment").iter().flat_map(|line| line.split_whitespace()) {
            let (key, value) = pair.split_once('=').unwrap();
            command.env(key, value);
        }
        command
    }

    /// A command of a user, who may open `/dev/fuse` as on a machine that udev has set up.
    fn as_user(&self, user: &str, program: &str) -> Command {
        let fuse = self.at("fuse");
        let prepare = format!(
            "rm -f {0}; mknod -m 666 {0} c 10 229; mount --bind {0} /dev/fuse; exec \"$@\"",
            fuse.display()
        );
        let user = as_user(user, program);
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-ec", &prepare, "sh"]).arg(user.get_program());
        command.args(user.get_args());
        command
    }

    fn run(&self, name: &str) -> String {
        succeeds(&mut self.recipe(name), name)
    }

    /// A command with the environment of a recipe.
    fn with_environment_of(&self, name: &str, words: &[&str]) -> Command {
        let recipe = self.recipe(name);
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir("/");
        for (key, value) in recipe.get_envs() {
            command.env(key, value.unwrap_or_default());
        }
        command
    }

    fn is_like_data(&self, restored: &Path) {
        succeeds(Command::new("diff").arg("-r").arg(self.at("data")).arg(restored), "diff");
        same_bytes(self.at("data/large"), restored.join("large"));
    }
}

/// A server of a database, which is killed when this is dropped.
struct DatabaseServer(Child);

impl DatabaseServer {
    /// Starts a server and waits until `ready` succeeds.
    fn start(mut command: Command, log: &Path, mut ready: impl FnMut() -> Command) -> Self {
        let output = fs::File::create(log).unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let mut server = DatabaseServer(command.spawn().unwrap());
        let patience = Instant::now() + Duration::from_secs(120);
        while !run(&mut ready()).status.success() {
            let ended = server.0.try_wait().unwrap();
            let log = || fs::read_to_string(log).unwrap_or_default();
            assert!(ended.is_none() && Instant::now() < patience, "{ended:?}: {}", log());
            std::thread::sleep(Duration::from_millis(100));
        }
        server
    }
}

impl Drop for DatabaseServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn restic() {
    let Some(site) = Site::new(&["restic"]) else { return };
    fs::write(site.at("password"), "secret\n").unwrap();
    let restic = |words: &[&str]| {
        let words = [&["restic", "--no-cache"], words].concat();
        succeeds(&mut site.with_environment_of("restic-backup.service", &words), "restic")
    };
    restic(&["init"]);
    site.run("restic-backup.service");
    restic(&["check", "--read-data"]);
    let target = site.at("restored");
    restic(&["restore", "latest", "--target", target.to_str().unwrap()]);
    site.is_like_data(&target.join(site.at("data").strip_prefix("/").unwrap()));
    site.0.no_server_stays();
}

#[test]
fn borg() {
    let Some(site) = Site::new(&["borg"]) else { return };
    let borg = |words: &[&str]| {
        let mut command = site.with_environment_of("borg-backup.service", words);
        succeeds(command.current_dir(site.at("")), "borg")
    };
    borg(&["borg", "init", "-e", "none"]);
    site.run("borg-backup.service");
    let list = borg(&["borg", "list", "--short"]);
    let archive = format!("::{}", list.trim());
    borg(&["borg", "check", "--verify-data"]);
    fs::create_dir(site.at("restored")).unwrap();
    let mut extract =
        site.with_environment_of("borg-backup.service", &["borg", "extract", &archive]);
    succeeds(extract.current_dir(site.at("restored")), "borg");
    site.is_like_data(&site.at("restored").join(site.at("data").strip_prefix("/").unwrap()));
}

#[test]
fn rsync() {
    let Some(site) = Site::new(&["rsync"]) else { return };
    site.run("rsync-backup.service");
    fs::remove_file(site.at("data/below/1")).unwrap();
    fs::write(site.at("data/below/2"), "new").unwrap();
    site.run("rsync-backup.service");
    site.is_like_data(&site.at("backup/rsync"));
}

#[test]
fn rclone() {
    let Some(site) = Site::new(&["rclone"]) else { return };
    site.run("rclone-backup.service");
    site.is_like_data(&site.at("backup/rclone"));
    fs::remove_file(site.at("data/below/1")).unwrap();
    fs::write(site.at("data/below/2"), "new").unwrap();
    site.run("rclone-backup.service");
    site.is_like_data(&site.at("backup/rclone"));
    site.0.no_server_stays();
}

/// A cluster at `postgresql/main` of the site, which archives its WAL.
fn cluster(site: &Site) -> Option<DatabaseServer> {
    let Some(programs) = postgresql_programs() else {
        skip!("no PostgreSQL: cargo xtask setup");
        return None;
    };
    let backup = site.at("backup");
    site.give("postgres", &["postgresql", "backup", "run"]);
    let (data, sockets) = (site.at("postgresql/main"), site.at("run"));
    let settings = format!(
        "[global]\nrepo1-path={0}/pgbackrest\nlog-path={0}\nlock-path={0}\nspool-path={0}\n\
         start-fast=y\n[main]\npg1-path={1}\npg1-socket-path={2}\n",
        backup.display(),
        data.display(),
        sockets.display()
    );
    fs::write(site.at("pgbackrest.conf"), settings).unwrap();
    let program = |name: &str| {
        let mut command = as_user("postgres", programs.join(name));
        command.current_dir("/").env("LC_ALL", "C").env("PGHOST", site.at("run"));
        command
    };
    let mut initdb = program("initdb");
    succeeds(initdb.args(["-A", "trust", "-k", "--locale=C", "-D"]).arg(&data), "initdb");
    let mut server = program("postgres");
    server.arg("-D").arg(&data).arg("-k").arg(&sockets);
    let archive = format!(
        "archive_command=pgbackrest --config={} --stanza=main archive-push %p",
        site.at("pgbackrest.conf").display()
    );
    for setting in ["listen_addresses=", "shared_buffers=16MB", "archive_mode=on", &archive] {
        server.args(["-c", setting]);
    }
    let ready = || program("pg_isready");
    let server = DatabaseServer::start(server, &site.at("log"), ready);
    let table = "create table t as select generate_series(1, 10000) as n";
    succeeds(program("psql").args(["-X", "-c", table, "postgres"]), "psql");
    Some(server)
}

#[test]
fn pg_basebackup() {
    let Some(site) = Site::new(&["pg_basebackup"]) else { return };
    let Some(_server) = cluster(&site) else { return };
    succeeds(&mut pgbackrest(&site, "stanza-create"), "pgbackrest");
    site.run("pg-basebackup.service");
    let mut verify = as_user("postgres", postgresql_programs().unwrap().join("pg_verifybackup"));
    succeeds(verify.current_dir("/").arg(site.at("backup/pg_basebackup")), "pg_verifybackup");
}

fn pgbackrest(site: &Site, verb: &str) -> Command {
    let mut command = as_user("postgres", "pgbackrest");
    let settings = site.at("pgbackrest.conf");
    command.current_dir("/").arg(format!("--config={}", settings.display()));
    command.args(["--stanza=main", verb]);
    command
}

#[test]
fn pg_back_rest() {
    let Some(site) = Site::new(&["pgbackrest"]) else { return };
    let Some(_server) = cluster(&site) else { return };
    succeeds(&mut pgbackrest(&site, "stanza-create"), "pgbackrest");
    site.run("pgbackrest-backup.service");
    let said = succeeds(&mut pgbackrest(&site, "info"), "pgbackrest");
    assert!(said.contains("full backup: ") && said.contains("status: ok"), "{said}");
    succeeds(&mut pgbackrest(&site, "verify"), "pgbackrest");
}

#[test]
fn mariabackup() {
    let programs = ["mariadb-backup", "mariadb", "mariadb-install-db", "/usr/sbin/mariadbd"];
    let Some(site) = Site::new(&programs) else { return };
    let data = format!("--datadir={}", site.at("mysql").display());
    let socket = format!("--socket={}", site.at("run/mysqld.sock").display());
    let mut install = Command::new("mariadb-install-db");
    install.args(["--no-defaults", "--user=root", "--auth-root-authentication-method=normal"]);
    succeeds(install.arg(&data), "mariadb-install-db");
    let mut server = Command::new("/usr/sbin/mariadbd");
    server.args(["--no-defaults", "--user=root", "--skip-networking", &data, &socket]);
    let client = |statement: &str| {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "-uroot", &socket, "-e", statement]);
        command
    };
    let server = DatabaseServer::start(server, &site.at("log"), || client("select 1"));
    let table = "create database d; \
                 create table d.t as select table_name from information_schema.columns";
    succeeds(&mut client(table), "mariadb");
    site.run("mariabackup.service");
    let target = format!("--target-dir={}", site.at("backup/mariabackup").display());
    let mut prepare = Command::new("mariadb-backup");
    succeeds(prepare.args(["--prepare", &target]), "mariadb-backup");
    drop(server);
    let data = format!("--datadir={}", site.at("backup/mariabackup").display());
    let mut restored = Command::new("/usr/sbin/mariadbd");
    restored.args(["--no-defaults", "--user=root", "--skip-networking", &data, &socket]);
    let _server = DatabaseServer::start(restored, &site.at("log"), || client("select 1 from d.t"));
}
