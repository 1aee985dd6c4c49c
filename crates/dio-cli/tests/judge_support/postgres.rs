//! PostgreSQL as Debian packages it: a cluster of its own below a mount, run as its own user.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dio_test::as_user;

use super::{Stage, succeeds};

/// The user as which Debian runs PostgreSQL, which refuses to run as root.
pub const USER: &str = "postgres";

/// Longest time that a start, including recovery, may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A postmaster. It is killed when this is dropped, for example by a failed test.
pub struct Postmaster(pub Child);

impl Drop for Postmaster {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cluster below the mount.
pub struct Cluster {
    /// Name for messages.
    pub name: String,
    pub programs: PathBuf,
    pub data: PathBuf,
    /// Directory of the sockets, outside of the mount.
    pub sockets: PathBuf,
}

impl Cluster {
    /// Makes a cluster below a mount by initdb.
    pub fn create(stage: &Stage, programs: &Path) -> Cluster {
        let sockets = stage.beside("s");
        succeeds(Command::new("chown").arg(USER).arg(&sockets), &stage.name);
        let (name, data) = (stage.name.clone(), stage.directory_of(USER, "data"));
        let cluster = Cluster { name, programs: programs.to_owned(), data, sockets };
        let mut initdb = cluster.program("initdb");
        initdb.args(["-A", "trust", "-k", "-E", "UTF8", "--locale=C", "-D"]).arg(&cluster.data);
        succeeds(&mut initdb, &cluster.name);
        cluster
    }

    pub fn program(&self, name: &str) -> Command {
        let mut command = as_user(USER, self.programs.join(name));
        command
            .current_dir("/")
            .env("PGHOST", &self.sockets)
            .env("PGDATABASE", "postgres")
            .env("LC_ALL", "C");
        command
    }

    /// Starts the postmaster and waits until it has recovered. For a moment after a kill, other
    /// processes still use the shared memory of the killed postmaster; the start is then tried
    /// again.
    pub fn start(&self) -> Postmaster {
        let patience = Instant::now() + PATIENCE;
        loop {
            let log = std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(self.sockets.join("log"))
                .unwrap();
            let mut postmaster = self.program("postgres");
            postmaster.arg("-D").arg(&self.data).arg("-k").arg(&self.sockets).stdin(Stdio::null());
            for setting in [
                "listen_addresses=",
                "shared_buffers=16MB",
                "max_wal_size=64MB",
                "checkpoint_timeout=30s",
            ] {
                postmaster.args(["-c", setting]);
            }
            let child = postmaster.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
            let mut child = Postmaster(child);
            while child.0.try_wait().unwrap().is_none() {
                if dio_test::run(&mut self.program("pg_isready")).status.success() {
                    return child;
                }
                assert!(Instant::now() < patience, "{}: not ready: {}", self.name, self.log());
                std::thread::sleep(Duration::from_millis(100));
            }
            assert!(Instant::now() < patience, "{}: does not start: {}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn log(&self) -> String {
        let log = std::fs::read_to_string(self.sockets.join("log")).unwrap_or_default();
        log.lines().rev().take(20).collect::<Vec<_>>().join("\n")
    }

    pub fn pgbench(&self, arguments: &[&str]) -> Command {
        let mut pgbench = self.program("pgbench");
        pgbench.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        pgbench
    }

    /// Returns the numbers that a query prints in one line.
    pub fn ask(&self, query: &str) -> Vec<i64> {
        let answer =
            succeeds(self.program("psql").args(["-XAt", "-F", " ", "-c", query]), &self.name);
        answer.split_whitespace().map(|number| number.parse().unwrap()).collect()
    }

    /// Stops the postmaster by a fast shutdown.
    pub fn stop(&self, mut postmaster: Postmaster) {
        succeeds(Command::new("kill").args(["-INT", &postmaster.0.id().to_string()]), &self.name);
        let status = postmaster.0.wait().unwrap();
        assert!(status.success(), "{}: {status}: {}", self.name, self.log());
    }
}

/// The number of transactions whose end was reported to a client.
pub fn acknowledged(report: &str) -> i64 {
    let line = report
        .lines()
        .find_map(|line| line.strip_prefix("number of transactions actually processed: "));
    let number = line
        .and_then(|line| line.split('/').next())
        .unwrap_or_else(|| panic!("no count in {report}"));
    number.trim().parse().unwrap()
}

/// Checks the transactions of pgbench. `told` transactions were acknowledged to `clients` clients
/// in all: they are there, and at most one more of each client, and all sums agree.
#[track_caller]
pub fn adds_up(cluster: &Cluster, told: i64, clients: i64) {
    let sums = "SELECT (SELECT count(*) FROM pgbench_history), (SELECT coalesce(sum(delta), 0) FROM pgbench_history),
        (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches),
        (SELECT sum(tbalance) FROM pgbench_tellers)";
    let found = cluster.ask(sums);
    let [count, total, ..] = found[..] else { panic!("{}: {found:?}", cluster.name) };
    assert!(
        (told..=told + clients).contains(&count),
        "{}: {told} acknowledged, {count} there",
        cluster.name
    );
    assert!(found[2..].iter().all(|sum| *sum == total), "{}: {found:?}", cluster.name);
}
