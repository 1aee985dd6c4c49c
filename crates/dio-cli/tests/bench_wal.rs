//! `dio bench wal` and `dio wal bench` with tiny sizes: they measure real logs and servers, and
//! leave nothing behind.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::mount_support::{Scene, dio, mounts};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn commits_are_held_against_flushes_by_every_method() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let flags = "wal --clients 1,4 --methods fdatasync,rwf_dsync --one-by-one --seconds 0.05 \
                 --size 2M --runs 2 --json --dir";
    let report = json(&dio("bench", flags).arg(directory.path()).output().unwrap());
    assert_eq!(report["benchmark"], "wal");
    let rows = report["commits"].as_array().unwrap();
    assert_eq!((rows.len(), report["flushes"].as_array().unwrap().len()), (12, 4));
    for row in rows {
        let (limit, clients) = (&row["limit"], row["clients"].as_f64().unwrap());
        let together = if row["grouped"] == true { clients } else { 1.0 };
        assert_eq!(
            (limit["records_per_block"].as_f64(), limit["records_per_flush"].as_f64()),
            (Some(32.0), Some(together))
        );
        let (flushes, most) = (
            limit["flushes_per_second"].as_f64().unwrap(),
            limit["commits_per_second"].as_f64().unwrap(),
        );
        assert!(flushes > 0.0 && (most / (flushes * together) - 1.0).abs() < 1e-6, "{row:#}");
        assert!(limit["reached"].as_f64().unwrap() > 0.0, "{row:#}");
    }
    assert!(
        report["stream"]["of_disk"]["median"].as_f64().unwrap() > 0.0
            && report.get("postgresql").is_none()
    );
    assert!(names(directory.path()).is_empty());
}

#[test]
fn a_log_that_is_in_the_directory_is_left_alone() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let log = dio_wal::Log::open(directory.path(), &dio_wal::Options::new()).unwrap();
    log.commit(log.append(b"precious").unwrap()).unwrap();
    // The log makes its next segment in the background, at any time.
    let of_others = || {
        names(directory.path())
            .into_iter()
            .filter(|name| !name.contains(".wal"))
            .collect::<Vec<_>>()
    };
    assert_eq!(of_others(), Vec::<String>::new());
    let bench = |flags: &str| {
        let flags = format!("bench --clients 1,3 --seconds 0.05 --runs 1 {flags}");
        dio("wal", &flags).arg(directory.path()).output().unwrap()
    };
    let report = json(&bench("--method fdatasync,open_sync --direct both --record 8000 --json"));
    assert_eq!(
        (&report["benchmark"], &report["record_bytes"], &report["stream"]),
        (&"wal".into(), &8000.into(), &Value::Null)
    );
    assert_eq!(report["commits"].as_array().unwrap().len(), 8);
    let said = bench("--method fdatasync,open_sync");
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(
        text.contains("of limit") && text.contains("with 3 clients the best of these: Method::"),
        "{text}"
    );
    assert_eq!(of_others(), Vec::<String>::new());
    log.commit(log.append(b"and more").unwrap()).unwrap();
    log.close().unwrap();
    assert!(dio("wal", "verify --quiet").arg(directory.path()).status().unwrap().success());
}

#[test]
fn what_cannot_be_measured_is_an_error_of_its_own_status() {
    let run = |flags: &str| {
        let output = dio("wal", flags).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = run("bench /nonexistent");
    assert!(
        status == Some(2) && said.contains("/nonexistent") && said.contains("No such file"),
        "{said}"
    );
    let (status, said) = run("bench --clients 0 /var/tmp");
    assert!(status == Some(2) && said.contains("must be positive"), "{said}");
    let (status, said) = run("bench --method telepathy /var/tmp");
    assert!(status == Some(2) && said.contains("one of fsync, fdatasync"), "{said}");
}

/// Starts a measurement, waits until something is in its directory, interrupts it, and checks that
/// nothing is left.
#[track_caller]
fn assert_nothing_left(command: &mut Command, directory: &Path, until: impl Fn() -> bool) {
    let mut bench = command.spawn().unwrap();
    let begin = Instant::now();
    while !until() {
        assert!(
            begin.elapsed() < Duration::from_secs(120) && bench.try_wait().unwrap().is_none(),
            "nothing happens"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&bench), Signal::INT).unwrap();
    assert!(!bench.wait().unwrap().success());
    assert_eq!(names(directory), Vec::<String>::new());
    assert!(!mounts().iter().any(|(at, _)| at.starts_with(directory)), "{:?}", mounts());
}

#[test]
fn an_interrupted_log_leaves_nothing() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut command = dio("wal", "bench --seconds 100");
    assert_nothing_left(command.arg(directory.path()), directory.path(), || {
        !names(directory.path()).is_empty()
    });
}

const TINY: &str = "wal --postgresql=alone --postgresql-size 16M --runs 1";

#[test]
fn postgresql_writes_its_log_in_every_way_and_the_cache_shows_it() {
    let Some(scene) = Scene::new() else { return };
    let directory = scene.path("bench");
    std::fs::create_dir(&directory).unwrap();
    let flags = format!(
        "{TINY} --postgresql-clients 1,2 --methods open_sync,rwf_dsync --seconds 1 --json --dir"
    );
    let report = json(&dio("bench", &flags).arg(&directory).output().unwrap());
    assert!(report["commits"].as_array().unwrap().is_empty() && report["stream"].is_null());
    let rows = report["postgresql"]["rows"].as_array().unwrap();
    let shown: Vec<(&str, u64)> = rows
        .iter()
        .map(|row| (row["place"].as_str().unwrap(), row["clients"].as_u64().unwrap()))
        .collect();
    assert_eq!(
        shown,
        [("cached", 1), ("direct", 1), ("mount", 1), ("cached", 2), ("direct", 2), ("mount", 2)]
    );
    for row in rows {
        assert_eq!(row["method"], "open_sync");
        assert!(
            row["tps"]["median"].as_f64().unwrap() > 0.0
                && row["p99_seconds"]["median"].as_f64().unwrap() > 0.0
        );
        // A server that starts reads the log through the page cache, which leaves a few pages.
        let cached = row["resident_pages"].as_u64().unwrap() > 100;
        assert_eq!(cached, row["place"] == "cached", "{row:#}");
    }
    assert_eq!(names(&directory), Vec::<String>::new());
    assert!(!mounts().iter().any(|(at, _)| at.starts_with(&directory)), "{:?}", mounts());
}

#[test]
fn an_interrupted_server_and_its_mount_are_taken_down() {
    let Some(scene) = Scene::new() else { return };
    let directory = scene.path("bench");
    std::fs::create_dir(&directory).unwrap();
    let flags = format!("{TINY} --postgresql-log mount --methods fdatasync --seconds 100 --dir");
    // The socket of a server whose log is below the mount. The server that makes the data has no
    // socket.
    let serves = || {
        let mounts = mounts();
        let at = mounts.iter().map(|(at, _)| at).find(|at| at.starts_with(&directory));
        at.is_some_and(|at| at.with_file_name(".s.PGSQL.5432").exists())
    };
    assert_nothing_left(dio("bench", &flags).arg(&directory), &directory, serves);
}
