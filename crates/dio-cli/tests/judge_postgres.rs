//! PostgreSQL judges durability: its postmaster is killed under load, and after recovery everything that was acknowledged
//! is there and adds up, with the checksums of all pages right.

mod judge_support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dio_test::{as_user, judge_fully, skip};
use judge_support::{Stage, each_mode, succeeds};

/// The user by whose hands Debian runs it; it refuses to be root.
const USER: &str = "postgres";

/// How long starting, and recovering, may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Debian's directory of the programs, by version; the newest.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    versions.flatten().map(|entry| entry.path().join("bin")).filter(|bin| bin.join("initdb").is_file()).max()
}

/// A postmaster; one that a failed test leaves is killed.
struct Postmaster(Child);

impl Drop for Postmaster {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cluster below the mount.
struct Cluster<'a> {
    stage: &'a Stage,
    programs: &'a Path,
    data: PathBuf,
    /// Of the sockets, beside the mount.
    sockets: PathBuf,
}

impl Cluster<'_> {
    fn program(&self, name: &str) -> Command {
        let mut command = as_user(USER, self.programs.join(name));
        command.current_dir("/").env("PGHOST", &self.sockets).env("PGDATABASE", "postgres").env("LC_ALL", "C");
        command
    }

    fn create(&self) {
        let mut initdb = self.program("initdb");
        initdb.args(["-A", "trust", "-k", "-E", "UTF8", "--locale=C", "-D"]).arg(&self.data);
        succeeds(&mut initdb, &self.stage.name);
    }

    /// Starts the postmaster and waits until it has recovered. One that was killed leaves others who hold its shared memory
    /// for a moment: then it is started again.
    fn start(&self) -> Postmaster {
        let patience = Instant::now() + PATIENCE;
        loop {
            let log = std::fs::OpenOptions::new().append(true).create(true).open(self.sockets.join("log")).unwrap();
            let mut postmaster = self.program("postgres");
            postmaster.arg("-D").arg(&self.data).arg("-k").arg(&self.sockets).stdin(Stdio::null());
            for setting in ["listen_addresses=", "shared_buffers=16MB", "max_wal_size=64MB", "checkpoint_timeout=30s"] {
                postmaster.args(["-c", setting]);
            }
            let child = postmaster.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
            let mut child = Postmaster(child);
            while child.0.try_wait().unwrap().is_none() {
                if dio_test::run(&mut self.program("pg_isready")).status.success() {
                    return child;
                }
                assert!(Instant::now() < patience, "{}: not ready: {}", self.stage.name, self.log());
                std::thread::sleep(Duration::from_millis(100));
            }
            assert!(Instant::now() < patience, "{}: does not start: {}", self.stage.name, self.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.sockets.join("log")).unwrap_or_default();
        log.lines().rev().take(20).collect::<Vec<_>>().join("\n")
    }

    fn pgbench(&self, arguments: &[&str]) -> Command {
        let mut pgbench = self.program("pgbench");
        pgbench.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        pgbench
    }

    /// One line of numbers.
    fn ask(&self, query: &str) -> Vec<i64> {
        let answer = succeeds(self.program("psql").args(["-XAt", "-F", " ", "-c", query]), &self.stage.name);
        answer.split_whitespace().map(|number| number.parse().unwrap()).collect()
    }

    /// Fast shutdown.
    fn stop(&self, mut postmaster: Postmaster) {
        succeeds(Command::new("kill").args(["-INT", &postmaster.0.id().to_string()]), &self.stage.name);
        let status = postmaster.0.wait().unwrap();
        assert!(status.success(), "{}: {status}: {}", self.stage.name, self.log());
    }
}

/// Transactions whose end was told to a client.
fn acknowledged(report: &str) -> i64 {
    let line = report.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: "));
    let number = line.and_then(|line| line.split('/').next()).unwrap_or_else(|| panic!("no count in {report}"));
    number.trim().parse().unwrap()
}

const CLIENTS: i64 = 4;

fn survives(stage: Stage, programs: &Path) {
    let seconds = if judge_fully() { 60 } else { 3 };
    let sockets = stage.beside("s");
    succeeds(Command::new("chown").arg(USER).arg(&sockets), &stage.name);
    let cluster = Cluster { stage: &stage, programs, data: stage.directory_of(USER, "data"), sockets };
    cluster.create();
    let mut postmaster = cluster.start();
    succeeds(&mut cluster.pgbench(&["-i", "-q", "-s", if judge_fully() { "10" } else { "1" }]), &stage.name);
    let load = ["-n", "-c", "4", "-j", "2", "-T", "600"];
    let bench = cluster.pgbench(&load).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(seconds));
    // The child is the postmaster itself, not a shell around it.
    postmaster.0.kill().unwrap();
    postmaster.0.wait().unwrap();
    let report = bench.wait_with_output().unwrap();
    let told = acknowledged(&String::from_utf8_lossy(&report.stdout));
    assert!(told > 0, "{}: {}", stage.name, String::from_utf8_lossy(&report.stderr));

    let postmaster = cluster.start();
    let sums = "SELECT (SELECT count(*) FROM pgbench_history), (SELECT coalesce(sum(delta), 0) FROM pgbench_history),
        (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches),
        (SELECT sum(tbalance) FROM pgbench_tellers)";
    let found = cluster.ask(sums);
    let [count, total, ..] = found[..] else { panic!("{}: {found:?}", stage.name) };
    assert!((told..=told + CLIENTS).contains(&count), "{}: {told} acknowledged, {count} there", stage.name);
    assert!(found[2..].iter().all(|sum| *sum == total), "{}: {found:?}", stage.name);
    succeeds(&mut cluster.pgbench(&["-n", "-c", "2", "-t", "20"]), &stage.name);
    cluster.stop(postmaster);
    succeeds(cluster.program("pg_checksums").arg("--check").arg("-D").arg(&cluster.data), &stage.name);
    let mut check = cluster.program("pg_checksums");
    let below = stage.unmount();
    succeeds(check.arg("--check").arg("-D").arg(below.source.join("data")), &below.name);
}

#[test]
fn everything_acknowledged_survives_a_killed_postmaster() {
    let Some(programs) = programs() else {
        skip!("no PostgreSQL: cargo xtask setup");
        return;
    };
    each_mode(|stage| survives(stage, &programs));
}
