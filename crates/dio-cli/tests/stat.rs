//! `dio stat` against a server without a mount: a directory of any file system has a device number,
//! by which the server is found.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use dio::Class;
use dio_mount::control::{self, Commands, Control, Exports};
use dio_mount::stats::{Gauge, Operation, Stats, Wait};
use serde_json::Value;

struct Fake {
    dir: tempfile::TempDir,
    stats: Arc<Stats>,
    control: Control,
}

impl Fake {
    fn start() -> Fake {
        let dir = tempfile::tempdir().unwrap();
        let stats = Stats::new();
        stats.describe("mountpoint", "/mnt/db");
        stats.describe("source", "/srv/db");
        stats.gauge(Gauge::Inodes, || 321);
        let commands = Commands { settings: Box::new(String::new), set: Box::new(|_| Ok(())) };
        let run = dir.path().join("run");
        let control =
            control::start_in(&run, dir.path(), &stats, commands, &Exports::default()).unwrap();
        Fake { dir, stats, control }
    }

    /// Counts one read of 1 MiB and three waits of 2 ms.
    fn work(&self) {
        let file = self.stats.file(7, "tables/users.ibd");
        let _timer = self.stats.begin(Operation::Read);
        file.read(Class::Direct, 1 << 20, Duration::from_millis(1));
        (0..3).for_each(|_| file.waited(Wait::File, Duration::from_millis(2)));
    }

    fn command(&self, args: &[&str]) -> Command {
        stat(&self.dir.path().join("run"), args, self.dir.path())
    }

    fn stat(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

fn stat(run: &Path, args: &[&str], mountpoint: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
    command.arg("stat").args(args).arg(mountpoint).env("DIO_RUNTIME_DIR", run);
    command
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn row<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let line = text
        .lines()
        .find(|line| line.starts_with(name))
        .unwrap_or_else(|| panic!("no {name} in:\n{text}"));
    line.split_whitespace().collect()
}

#[test]
fn once_since_the_mount_began() {
    let fake = Fake::start();
    fake.work();
    let table = text(&fake.stat(&[]));
    assert!(table.starts_with("/mnt/db  source /srv/db  since the mount, "), "{table}");
    assert!(table.contains(", 321 inodes"), "{table}");
    assert_ne!(row(&table, "file")[1], "0");
    assert_eq!(row(&table, "file")[2..4], ["2.0", "ms"]);
    assert_eq!(row(&table, "range")[1..], ["0", "-", "0.00"]);
    assert!(!table.contains("users.ibd") && !table.contains('\x1b'), "{table}");
    let files = text(&fake.stat(&["--files"]));
    assert!(files.contains("  tables/users.ibd  (closed)\n"), "{files}");
}

#[test]
fn a_path_below_will_do() {
    let fake = Fake::start();
    let run = fake.dir.path().join("run");
    fs::create_dir(fake.dir.path().join("below")).unwrap();
    let output = stat(&run, &["--json"], &fake.dir.path().join("below")).output().unwrap();
    let object: Value = serde_json::from_str(&text(&output)).unwrap();
    assert_eq!(object["mount"]["mountpoint"], "/mnt/db");
}

#[test]
fn json_has_the_numbers() {
    let fake = Fake::start();
    fake.work();
    let object: Value = serde_json::from_str(&text(&fake.stat(&["--json", "--files"]))).unwrap();
    assert_eq!(object["since"], "mount");
    assert_eq!(object["operations"]["read"]["count"], 1);
    assert_eq!(object["total"]["bytes"]["read"], 1 << 20);
    assert_eq!(object["total"]["read_requests"]["direct"], 1);
    assert_eq!(
        object["total"]["blocks"],
        serde_json::json!({
            "file": 3, "range": 0, "queue": 0, "room": 0, "device": 0, "throttle": 0
        })
    );
    assert!((object["total"]["blocked_seconds"]["file"].as_f64().unwrap() - 0.006).abs() < 1e-9);
    assert_eq!(object["files"][0]["path"], "tables/users.ibd");
    assert_eq!(object["files"][0]["blocks"]["file"], 3);
    assert_eq!(object["gauges"]["inodes"], 321);
    let seconds = object["interval_seconds"].as_f64().unwrap();
    let rate = object["total"]["blocks_per_second"]["file"].as_f64().unwrap();
    assert!((rate * seconds - 3.0).abs() < 1e-6, "{object}");
}

#[test]
fn live_reports_are_of_their_interval() {
    let fake = Fake::start();
    (0..50).for_each(|_| fake.work());
    let stop = AtomicBool::new(false);
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                drop(fake.stats.begin(Operation::Getattr));
                thread::yield_now();
            }
        });
        let output = fake.stat(&["--json", "--interval", "0.05", "--count", "4"]);
        stop.store(true, Ordering::Relaxed);
        output
    });
    let output = text(&output);
    let reports: Vec<Value> =
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports.len(), 4);
    // On a busy machine a report may come late, and the next one sooner after it.
    let intervals: Vec<f64> =
        reports.iter().map(|report| report["interval_seconds"].as_f64().unwrap()).collect();
    assert!(intervals.iter().sum::<f64>() >= 0.16, "{intervals:?}");
    for report in &reports {
        assert_eq!(report["since"], "previous");
        assert!(report["operations"].get("read").is_none(), "that was before: {report}");
        assert_eq!(report["total"]["requests"], serde_json::json!({}));
    }
    assert!(
        reports.iter().any(|report| report["operations"]["getattr"]["count"].as_u64() > Some(0)),
        "{reports:?}"
    );
    let blocks = text(&fake.stat(&["--count", "2", "--interval", "0.01"]));
    assert_eq!(blocks.matches("/mnt/db  source /srv/db  last ").count(), 2);
    assert!(blocks.contains("\n\n/mnt/db ") && !blocks.contains('\x1b'), "{blocks}");
}

#[test]
fn prometheus_text_goes_to_a_file() {
    let fake = Fake::start();
    fake.work();
    let printed = text(&fake.stat(&["--prometheus"]));
    assert!(
        printed.contains("\ndio_blocks_total{mountpoint=\"/mnt/db\",on=\"file\"} 3\n"),
        "{printed}"
    );
    let out = fake.dir.path().join("out");
    fs::create_dir(&out).unwrap();
    let path = out.join("dio.prom");
    let name = path.to_str().unwrap();
    assert_eq!(text(&fake.stat(&["--prometheus", "--output", name])), "");
    let written = fs::read_to_string(&path).unwrap();
    assert!(written.contains("\ndio_inodes{mountpoint=\"/mnt/db\"} 321\n"), "{written}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 1, "no temporary is left");
    let missing = out.join("missing/dio.prom");
    let output = fake.stat(&["--prometheus", "--output", missing.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let message = format!("dio: cannot write '{}': No such file or directory\n", missing.display());
    assert_eq!(String::from_utf8_lossy(&output.stderr), message);
}

#[test]
fn what_is_no_mount_is_said() {
    let dir = tempfile::tempdir().unwrap();
    for (path, message) in [
        ("/proc", "dio: '/proc' is not on a dio mount, but on proc\n"),
        ("/no/such/path", "dio: cannot look at '/no/such/path': No such file or directory\n"),
    ] {
        let output = stat(dir.path(), &[], Path::new(path)).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        assert_eq!(String::from_utf8_lossy(&output.stderr), message);
    }
    for wrong in [
        &["--output", "x"][..],
        &["--interval", "0"],
        &["--count", "0"],
        &["--json", "--prometheus"],
    ] {
        let output = stat(dir.path(), wrong, Path::new("/")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn the_end_of_the_server_ends_it() {
    let fake = Fake::start();
    let mut command = fake.command(&["--json", "--interval", "0.02"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The command has connected when it has printed a report.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    drop(fake.control);
    lines.for_each(|line| drop(line.unwrap()));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.starts_with("dio: cannot ask the server of '"), "{message}");
}

#[test]
fn a_closed_pipe_ends_it_quietly() {
    let fake = Fake::start();
    let mut child = fake
        .command(&["--interval", "0.01"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
