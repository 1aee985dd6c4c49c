//! PostgreSQL tests a server that is killed under load: its processes get errors, the dead mount
//! can be removed, and on a new mount it recovers every transaction whose end was reported to a
//! client. The same is tested when the file system below is shut down.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::judge_support::postgres::{Cluster, Postmaster, acknowledged, adds_up};
use crate::judge_support::{DIO, Stage, each_mode, fed_as_it_is, succeeds};
use crate::own::{MIB, Mounted as Volume};
use dio_test::{MODES, judge_fully, postgresql_programs, skip};

/// Longest time that processes may take to notice that their files are gone.
const PATIENCE: Duration = Duration::from_secs(60);

const CLIENTS: i64 = 4;

/// psql clients that count, each in a row of its own and by appending rows to a table, and that log
/// each acknowledged number.
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
            fed_as_it_is(
                psql.stdout(File::create(log(client)).unwrap()).stderr(Stdio::null()),
                &count.repeat(200_000),
            )
        };
        Counting {
            clients: (1..=CLIENTS).map(start).collect(),
            logs: (1..=CLIENTS).map(log).collect(),
        }
    }

    /// The numbers that have been acknowledged to each client by now.
    fn told(&self) -> Vec<BTreeSet<i64>> {
        // Whole lines only.
        let lines = |text: String| {
            text.split_inclusive('\n').filter_map(|n| n.strip_suffix('\n')?.parse().ok()).collect()
        };
        self.logs.iter().map(|log| lines(fs::read_to_string(log).unwrap())).collect()
    }

    /// Waits until all clients have noticed that the server is gone.
    fn end(&mut self, name: &str) {
        for client in &mut self.clients {
            assert!(!client.wait().unwrap().success(), "{name}: a client was not interrupted");
        }
    }
}

/// Checks that all promised numbers are there, and for each client at most one number that was not
/// acknowledged.
fn verify(cluster: &Cluster, promised: &[BTreeSet<i64>], told: &[BTreeSet<i64>]) {
    for (client, (promised, told)) in (1..).zip(promised.iter().zip(told)) {
        assert!(!promised.is_empty(), "{}: client {client} did nothing", cluster.name);
        let found: BTreeSet<i64> = cluster
            .ask(&format!("SELECT n FROM told WHERE client = {client}"))
            .into_iter()
            .collect();
        let lost: Vec<&i64> = promised.difference(&found).collect();
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
        let damaged =
            cluster.ask("SELECT count(*) FROM told WHERE filler <> repeat(md5(n::text), 20)");
        assert_eq!(damaged, [0], "{}", cluster.name);
    }
}

/// Unmounts the dead mount, which is possible as soon as the last process has closed its files.
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

/// A cluster under load.
struct Scene {
    stage: Stage,
    cluster: Cluster,
    postmaster: Postmaster,
    counting: Counting,
    bench: Child,
}

impl Scene {
    fn new(stage: Stage, programs: &Path) -> Scene {
        let cluster = Cluster::create(&stage, programs);
        let postmaster = cluster.start();
        succeeds(
            &mut cluster.pgbench(&["-i", "-q", "-s", if judge_fully() { "10" } else { "1" }]),
            &stage.name,
        );
        let counting = Counting::start(&cluster);
        let bench = cluster.pgbench(&["-n", "-c", "4", "-j", "2", "-T", "600"]).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(if judge_fully() { 20 } else { 1 }));
        let scene = Scene { stage, cluster, postmaster, counting, bench };
        scene.until_all_were_told();
        scene
    }

    /// Waits until some transactions have been acknowledged to each client, however slow the disk
    /// is.
    fn until_all_were_told(&self) {
        let start = Instant::now();
        let history = "SELECT count(*) FROM pgbench_history";
        while self.counting.told().iter().any(|told| told.len() < 10)
            || self.cluster.ask(history)[0] < 10
        {
            assert!(
                start.elapsed() < PATIENCE,
                "{}: clients wait: {}",
                self.stage.name,
                self.cluster.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for the end of all processes that use the failed mount, and unmounts it. Returns the
    /// number of transactions that were acknowledged to pgbench.
    fn clear(&mut self, words: &[&str]) -> i64 {
        let name = &self.stage.name;
        self.counting.end(name);
        let mut report = String::new();
        self.bench.stdout.take().unwrap().read_to_string(&mut report).unwrap();
        self.bench.wait().unwrap();
        let log = fs::read_to_string(self.cluster.sockets.join("log")).unwrap();
        assert!(words.iter().any(|word| log.contains(word)), "{name}: {}", self.cluster.log());
        // The postmaster may have ended by itself.
        let _ = self.postmaster.0.kill();
        self.postmaster.0.wait().unwrap();
        unmount(&self.stage);
        acknowledged(&report)
    }

    /// Recovers on a new mount, and checks that all promised data is there.
    fn recover(mut self, promised: &[BTreeSet<i64>], done: Option<i64>) {
        let (mut stage, mut cluster, told) = (self.stage, self.cluster, self.counting.told());
        stage.mount_again();
        cluster.data = stage.at("data");
        self.postmaster = cluster.start();
        verify(&cluster, promised, &told);
        if let Some(done) = done {
            assert!(done > 0, "{}", stage.name);
            adds_up(&cluster, done, CLIENTS);
        }
        succeeds(&mut cluster.pgbench(&["-n", "-c", "2", "-t", "20"]), &stage.name);
        cluster.stop(self.postmaster);
        let mut check = cluster.program("pg_checksums");
        let below = stage.unmount();
        succeeds(check.arg("--check").arg("-D").arg(below.source.join("data")), &below.name);
    }
}

fn installed() -> Option<PathBuf> {
    let found = postgresql_programs();
    if found.is_none() {
        skip!("no PostgreSQL: cargo xtask setup");
    }
    found
}

#[test]
fn every_transaction_that_was_told_survives_a_killed_server() {
    let Some(programs) = installed() else { return };
    each_mode(|stage| {
        let mut scene = Scene::new(stage, &programs);
        scene.stage.mounted.kill();
        // As docs/mount.md says: operations in progress through io_uring are cancelled.
        let words = [
            "Transport endpoint is not connected",
            "Input/output error",
            "Software caused connection abort",
            "Operation canceled",
        ];
        let done = scene.clear(&words);
        let told = scene.counting.told();
        scene.recover(&told, Some(done));
    });
}

/// As in a power cut, the file system below loses what was not durable.
#[test]
fn every_transaction_that_was_told_survives_a_shutdown_of_the_file_system() {
    let Some(programs) = installed() else { return };
    let all = MODES.map(|mode| [(mode, "ext4"), (mode, "xfs")]);
    // The other combinations are tested only when everything is to be judged: each takes ten
    // seconds.
    for (mode, kind) in
        all.into_iter().flatten().filter(|judged| judge_fully() || *judged == ("dio", "xfs"))
    {
        let format: &[&str] =
            if kind == "xfs" { &["mkfs.xfs", "-q", "-f"] } else { &["mkfs.ext4", "-q", "-F"] };
        let Some(volume) = Volume::new(format, 2048 * MIB) else { return };
        let (scratch, source) = (dio_test::file_systems()[0].dir(), volume.path.join("source"));
        fs::create_dir(&source).unwrap();
        for path in [volume.path.parent().unwrap(), &volume.path] {
            fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        let stage = Stage::over(source, scratch, format!("{mode} on {kind}"), mode);
        let mut scene = Scene::new(stage, &programs);
        // Acknowledgements during the shutdown are no promises, see `fault_support`.
        let promised = scene.counting.told();
        volume.shut_down();
        scene.clear(&["Input/output error"]);
        volume.come_back();
        scene.recover(&promised, None);
    }
}
