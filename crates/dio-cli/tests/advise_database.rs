//! `dio advise database` with real servers: what it asks of them, what it sees of their load, and
//! bad input. The rules themselves are tested in dio-advise.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use dio_test::{as_user, postgresql_programs};
use serde_json::Value;
use tempfile::TempDir;

use crate::own::{is_root, skip};

/// Directories of servers, which other users may enter.
fn scratch() -> TempDir {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    dir
}

fn advise(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
    command.args(["advise", "database"]).args(words).env("LC_ALL", "C.UTF-8");
    command.stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The advice, after a check of its schema.
fn advice(words: &[&str]) -> Value {
    let output = advise(&[words, &["--json"]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
    for field in ["way", "confidence"] {
        assert!(advice["verdict"][field].is_string(), "{advice}");
    }
    for field in ["apply", "why"] {
        assert!(advice["verdict"][field].is_array(), "{advice}");
    }
    assert_eq!(advice["memory"]["rows"].as_array().unwrap().len(), 5);
    advice
}

fn setting(advice: &Value, name: &str) -> Value {
    let settings = advice["settings"].as_array().unwrap();
    settings.iter().find(|setting| setting["name"] == name).cloned().unwrap_or_default()
}

/// A server, which is ended with this.
struct Server {
    child: Child,
    signal: &'static str,
}

impl Server {
    /// Starts a server and waits until `question` succeeds.
    fn start(mut server: Command, signal: &'static str, question: impl Fn() -> Command) -> Server {
        let silent = server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Server { child: silent.spawn().unwrap(), signal };
        let patience = Instant::now() + Duration::from_secs(60);
        while !question().output().unwrap().status.success() {
            assert!(Instant::now() < patience, "the server does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let id = self.child.id().to_string();
        let _ = Command::new("kill").args([self.signal, &id]).status();
        let _ = self.child.wait();
    }
}

fn succeeds(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
}

#[test]
fn postgresql_is_asked_and_watched() {
    let Some(programs) = postgresql_programs() else {
        return skip!("no PostgreSQL: cargo xtask setup");
    };
    if !is_root() {
        return skip!("needs root");
    }
    let dir = scratch();
    let at = dir.path();
    succeeds(Command::new("chown").arg("postgres").arg(at));
    let data = at.join("data");
    let program = |name: &str| {
        let mut command = as_user("postgres", programs.join(name));
        command.current_dir("/").env("PGHOST", at).env("PGDATABASE", "postgres").env("LC_ALL", "C");
        command
    };
    succeeds(program("initdb").args(["-A", "trust", "-N", "-D"]).arg(&data));
    let place = data.to_str().unwrap();
    // Before it ever ran.
    let still = advice(&["--postgresql", place, "--no-synctest"]);
    assert_eq!(still["system"], "postgresql");
    assert!(still["missing"].to_string().contains("the server does not run"), "{still}");
    assert_eq!(setting(&still, "shared_buffers")["now"], "128MB");

    let mut server = program("postgres");
    server.arg("-D").arg(&data).arg("-k").arg(at).args(["-c", "listen_addresses="]);
    server.args(["-c", "shared_buffers=16MB", "-c", "full_page_writes=off"]);
    let server = Server::start(server, "-INT", || program("pg_isready"));
    succeeds(program("pgbench").args(["-i", "-q", "-s", "2"]));
    let mut load = program("pgbench");
    // Longer than looking at the disk takes on a busy machine.
    load.args(["-n", "-c", "4", "-T", "120"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut load = load.spawn().unwrap();
    let running =
        advice(&["--postgresql", place, "--for", "3s", "--no-synctest", "--clients", "4"]);
    let _ = load.kill();
    load.wait().unwrap();
    // The words of its start count, not only its file of settings.
    assert_eq!(setting(&running, "shared_buffers")["now"], "16MB");
    assert_eq!(setting(&running, "full_page_writes")["now"], "off");
    assert_eq!(setting(&running, "full_page_writes")["advised"], "on");
    assert_eq!(running["memory"]["is_measured"], true, "{running}");
    let log = &running["load"]["classes"]["log"];
    let number = |field: &str| log[field].as_u64().unwrap();
    assert!(number("writes") > 10 && number("syncs") > 10, "{running}");
    assert!(number("written_bytes") >= number("writes") * 8192, "{log}");
    assert_eq!(number("misaligned_writes"), 0, "{log}");

    let connection = format!("host={} user=postgres dbname=postgres", at.display());
    let asked = advice(&[&connection, "--for", "0", "--no-synctest"]);
    assert_eq!(setting(&asked, "shared_buffers")["now"], "16MB");
    assert_eq!(asked["directory"], fs::canonicalize(&data).unwrap().to_str().unwrap());
    drop(server);
    let refused = advise(&[&connection, "--for", "0", "--no-synctest"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("psql: "), "{}", said(&refused));
}

#[test]
fn mariadb_is_asked_and_its_disk_is_measured() {
    if !Path::new("/usr/sbin/mariadbd").exists() || !is_root() {
        return skip!("no MariaDB, or no root: cargo xtask setup");
    }
    let dir = scratch();
    let (data, socket) = (dir.path().join("data"), dir.path().join("socket"));
    let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
    succeeds(
        Command::new("mariadb-install-db")
            .args(["--no-defaults", "--user=root", "--skip-test-db"])
            .arg("--auth-root-authentication-method=normal")
            .arg(option("datadir", &data)),
    );
    let mut server = Command::new("/usr/sbin/mariadbd");
    server.args(["--no-defaults", "--user=root", "--skip-networking"]);
    server.args(["--innodb-buffer-pool-size=20M", "--innodb-flush-method=fsync"]);
    server.arg(option("datadir", &data)).arg(option("socket", &socket));
    let ping = || {
        let mut ping = Command::new("mariadb");
        ping.args(["--no-defaults", "--user=root", "-e", "SELECT 1"]);
        ping.arg(option("socket", &socket));
        ping
    };
    let _server = Server::start(server, "-TERM", ping);
    let place = data.to_str().unwrap();
    let running = advice(&["--mariadb", place, "--for", "1s"]);
    assert_eq!(setting(&running, "innodb_flush_method")["now"], "fsync");
    assert_eq!(setting(&running, "innodb_flush_method")["advised"], "O_DIRECT");
    assert_eq!(setting(&running, "innodb_buffer_pool_size")["now"], "20M");
    assert_eq!(running["verdict"]["way"], "direct", "{running}");
    assert!(!running["missing"].to_string().contains("synctest"), "{running}");
    let connection = format!("mariadb://root@{}", socket.display());
    let output = advise(&[&connection, "--for", "0", "--no-synctest"]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("[mariadbd]\n") && text.contains("innodb_flush_method = O_DIRECT"));
    assert!(text.contains("buffer pool had"), "{text}");
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(names.len(), 2, "nothing is left: {names:?}");
}

#[test]
fn a_proof_loads_a_server_of_its_own() {
    let Some(programs) = postgresql_programs() else {
        return skip!("no PostgreSQL: cargo xtask setup");
    };
    if !is_root() || !Path::new("/dev/fuse").exists() {
        return skip!("needs root and FUSE");
    }
    let dir = scratch();
    succeeds(Command::new("chown").arg("postgres").arg(dir.path()));
    let data = dir.path().join("data");
    let mut initdb = as_user("postgres", programs.join("initdb"));
    succeeds(initdb.current_dir("/").args(["-A", "trust", "-N", "-D"]).arg(&data));
    let place = data.to_str().unwrap();
    let words = ["--postgresql", place, "--no-synctest", "--clients", "4", "--prove"];
    let proved = advice(&[&words[..], &["--rounds", "1"]].concat());
    let ways = proved["ways"].as_array().unwrap();
    assert_eq!((&ways[0]["way"], &ways[1]["way"]), (&"cached".into(), &"concurrent".into()));
    assert!(ways.iter().all(|way| way["measured_tps"].as_f64().unwrap() > 0.0), "{proved}");
    assert_eq!(proved["verdict"]["confidence"], "high");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left");
}

#[test]
fn what_is_no_database_says_why() {
    let dir = scratch();
    let place = dir.path().to_str().unwrap();
    for (words, status, why) in [
        (&["--postgresql", "/absent"][..], 1, "/absent: No such file or directory"),
        (&["--postgresql", place], 1, "no PG_VERSION"),
        (&["shop"], 2, "postgresql://"),
        (&["--postgresql", place, "--mariadb", place], 2, "cannot be used with"),
        (&[], 2, "required"),
        (&["--postgresql", place, "--clients", "0"], 2, "0 is not in"),
    ] {
        let output = advise(words);
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{words:?}: {}", said(&output));
    }
}
