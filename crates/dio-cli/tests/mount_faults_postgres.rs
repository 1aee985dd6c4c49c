//! PostgreSQL judges a server that is killed under load: its processes are told, the dead mount can be taken away, and on a new
//! mount it recovers every transaction whose end was told to a client.

mod judge_support;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use dio_test::{judge_fully, skip};
use judge_support::postgres::{Cluster, acknowledged, adds_up, programs};
use judge_support::{DIO, Stage, each_mode, fed_as_it_is, succeeds};

/// How long processes may take to notice that their files are gone.
const PATIENCE: Duration = Duration::from_secs(60);

const CLIENTS: i64 = 4;

/// psql clients that count, each in a row of its own and in rows of a table without end, and log what they were told.
struct Counting {
    clients: Vec<Child>,
    logs: Vec<PathBuf>,
}

impl Counting {
    fn start(cluster: &Cluster) -> Counting {
        let tables = "CREATE TABLE counter (client int PRIMARY KEY, n int NOT NULL);
            CREATE TABLE told (client int, n int, filler text);
            INSERT INTO counter SELECT client, 0 FROM generate_series(1, 4) client";
        succeeds(cluster.program("psql").args(["-XAtq", "-c", tables]), &cluster.name);
        let log = |client| cluster.sockets.join(format!("client{client}"));
        let start = |client| {
            let count = format!(
                "WITH next AS (UPDATE counter SET n = n + 1 WHERE client = {client} RETURNING n)
                 INSERT INTO told SELECT {client}, n, repeat(md5(n::text), 20) FROM next RETURNING n;\n"
            );
            let mut psql = cluster.program("psql");
            psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1"]);
            fed_as_it_is(psql.stdout(File::create(log(client)).unwrap()).stderr(Stdio::null()), &count.repeat(200_000))
        };
        Counting { clients: (1..=CLIENTS).map(start).collect(), logs: (1..=CLIENTS).map(log).collect() }
    }

    /// What each was told, once all have noticed that nobody answers.
    fn end(self, name: &str) -> Vec<BTreeSet<i64>> {
        for mut client in self.clients {
            assert!(!client.wait().unwrap().success(), "{name}: a client was not interrupted");
        }
        let told = |log: &PathBuf| fs::read_to_string(log).unwrap().lines().map(|n| n.parse().unwrap()).collect();
        self.logs.iter().map(told).collect()
    }
}

/// Everything that was told is there; of each client at most one that was not told.
fn verify(cluster: &Cluster, told: &[BTreeSet<i64>]) {
    for (client, told) in (1..).zip(told) {
        assert!(!told.is_empty(), "{}: client {client} did nothing", cluster.name);
        let found: BTreeSet<i64> =
            cluster.ask(&format!("SELECT n FROM told WHERE client = {client}")).into_iter().collect();
        let lost: Vec<&i64> = told.difference(&found).collect();
        assert!(lost.is_empty(), "{}: client {client} was told of {lost:?}", cluster.name);
        let counted = cluster.ask(&format!("SELECT n FROM counter WHERE client = {client}"));
        assert_eq!(counted, [found.len() as i64], "{}: client {client}", cluster.name);
        assert!(
            found.len() <= told.len() + 1,
            "{}: client {client}: {} told, {} there",
            cluster.name,
            told.len(),
            found.len()
        );
        let damaged = cluster.ask("SELECT count(*) FROM told WHERE filler <> repeat(md5(n::text), 20)");
        assert_eq!(damaged, [0], "{}", cluster.name);
    }
}

/// The dead mount goes as soon as the last process has given up its files.
fn unmount(stage: &Stage) {
    let start = Instant::now();
    loop {
        let output = dio_test::run(Command::new(DIO).arg("umount").arg(stage.mounted.path()));
        if output.status.success() {
            return;
        }
        assert!(output.stderr.contains("busy"), "{}: {output:?}", stage.name);
        assert!(start.elapsed() < PATIENCE, "{}: {output:?}", stage.name);
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn survives(mut stage: Stage, programs: &Path) {
    let mut cluster = Cluster::create(&stage, programs);
    let mut postmaster = cluster.start();
    succeeds(&mut cluster.pgbench(&["-i", "-q", "-s", if judge_fully() { "10" } else { "1" }]), &stage.name);
    let counting = Counting::start(&cluster);
    let bench = cluster.pgbench(&["-n", "-c", "4", "-j", "2", "-T", "600"]).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(if judge_fully() { 60 } else { 2 }));
    stage.mounted.kill();
    let report = bench.wait_with_output().unwrap();
    let done = acknowledged(&String::from_utf8_lossy(&report.stdout));
    assert!(done > 0, "{}: {}", stage.name, String::from_utf8_lossy(&report.stderr));
    let told = counting.end(&stage.name);
    let log = cluster.log();
    let words = ["Transport endpoint is not connected", "Input/output error", "Software caused connection abort"];
    assert!(words.iter().any(|word| log.contains(word)), "{}: {log}", stage.name);
    // It may have ended by itself.
    let _ = postmaster.0.kill();
    postmaster.0.wait().unwrap();
    unmount(&stage);

    stage.mount_again();
    cluster.data = stage.at("data");
    let postmaster = cluster.start();
    verify(&cluster, &told);
    adds_up(&cluster, done, CLIENTS);
    succeeds(&mut cluster.pgbench(&["-n", "-c", "2", "-t", "20"]), &stage.name);
    cluster.stop(postmaster);
    let mut check = cluster.program("pg_checksums");
    let below = stage.unmount();
    succeeds(check.arg("--check").arg("-D").arg(below.source.join("data")), &below.name);
}

#[test]
fn every_transaction_that_was_told_survives_a_killed_server() {
    let Some(programs) = programs() else {
        skip!("no PostgreSQL: cargo xtask setup");
        return;
    };
    each_mode(|stage| survives(stage, &programs));
}
