//! `dio bench oltp` with tiny sizes: tests the contents of its reports, that pages are checked, and
//! that no file or mount is left behind.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Output, Stdio};

use crate::mount_support::{Scene, dio, mounts, until};
use dio_test::skip;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const TINY: &str = "oltp --files 2 --size 4M --clients 3 --reads 3 --writes 2 --ramp-up 0.2 \
                    --steady 0.6 --ramp-down 0.2 --every 0.1 --json";

fn oltp(flags: &str, directory: &Path) -> Output {
    dio("bench", TINY).args(flags.split_whitespace()).arg("--dir").arg(directory).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

#[track_caller]
fn assert_nothing_left(directory: &Path) {
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
    assert!(!mounts().iter().any(|(at, _)| at.starts_with(directory)), "{:?}", mounts());
    let backing = |device: std::fs::DirEntry| {
        std::fs::read_to_string(device.path().join("loop/backing_file")).ok()
    };
    let mut loops = std::fs::read_dir("/sys/class/block")
        .unwrap()
        .filter_map(|device| backing(device.unwrap()));
    assert!(
        !loops.any(|file| Path::new(file.trim()).starts_with(directory)),
        "a loop device is left"
    );
}

/// Checks that every run has transactions, a time series through all phases, and pages that were
/// compared afterwards.
fn assert_measured(row: &Value) {
    for run in row["runs"].as_array().unwrap() {
        let tps = run["tps"].as_f64().unwrap();
        assert!(tps > 0.0 && run["pages_checked"].as_u64().unwrap() > 0, "{run:#}");
        assert!(
            run["log_writes_per_second"].as_f64().unwrap() <= tps * 2.0,
            "several commits share a write: {run:#}"
        );
        let response = &run["response"];
        assert!(
            response["p50"].as_f64().unwrap() <= response["p99"].as_f64().unwrap(),
            "{response}"
        );
        assert!(response["mean"].as_f64().unwrap() > 0.0, "{response}");
        let points = run["points"].as_array().unwrap();
        let has = |phase: &str| points.iter().any(|point| point["phase"] == phase);
        assert!(has("ramp_up") && has("steady") && has("ramp_down"), "{points:?}");
        assert!(points.iter().any(|point| point["tps"].as_f64().unwrap() > 0.0));
    }
}

#[test]
fn bare_files_need_no_privileges_and_leave_nothing() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let out = tempfile::tempdir().unwrap();
    let (csv, plots) = (out.path().join("series.csv"), out.path().join("plots"));
    let flags =
        format!("--storage bare --rounds 2 --csv {} --plots {}", csv.display(), plots.display());
    let report = json(&oltp(&flags, directory.path()));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!((rows.len(), rows[0]["runs"].as_array().unwrap().len()), (1, 2));
    assert_measured(&rows[0]);
    assert_eq!(report["reference"][2]["tps"], 652.12);
    let series = std::fs::read_to_string(csv).unwrap();
    assert!(
        series.starts_with("storage,round,seconds,phase,tps,") && series.contains("\nbare,2,"),
        "{series}"
    );
    assert!(std::fs::read_to_string(plots.join("throughput.svg")).unwrap().starts_with("<svg"));
    assert!(plots.join("cpu-bare.svg").exists());
    assert_nothing_left(directory.path());
}

#[test]
fn all_storages_hold_the_same_pages_and_are_taken_down() {
    let Some(scene) = Scene::new() else { return };
    let directory = scene.path("bench");
    std::fs::create_dir(&directory).unwrap();
    let storages = "--storage raw,bare,buffered,direct-file,direct-range,concurrent";
    let output = oltp(&format!("--rounds 1 --memory 256M {storages}"), &directory);
    if String::from_utf8_lossy(&output.stderr).contains("losetup") {
        skip!("no loop device: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let report = json(&output);
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["contender"].as_str().unwrap()).collect();
    assert_eq!(names, ["raw", "bare", "buffered", "direct_file", "direct_range", "concurrent"]);
    rows.iter().for_each(assert_measured);
    assert_eq!(rows[0]["to_first"], 1.0);
    assert!(
        rows[0]["file_blocks_per_second"].is_null()
            && rows[5]["file_blocks_per_second"].is_number()
    );
    assert_nothing_left(&directory);
    let found = std::process::Command::new("find")
        .args(["/sys/fs/cgroup", "-name", "dio-bench-*"])
        .output()
        .unwrap();
    assert!(
        found.stdout.is_empty(),
        "control groups are left: {}",
        String::from_utf8_lossy(&found.stdout)
    );
}

#[test]
fn who_is_ended_by_a_signal_takes_the_mount_and_the_files_with_him() {
    let Some(scene) = Scene::new() else { return };
    let directory = scene.path("bench");
    std::fs::create_dir(&directory).unwrap();
    let flags = "oltp --storage concurrent --size 4M --rounds 1 --steady 600 --dir";
    let mut child = dio("bench", flags).arg(&directory).stdout(Stdio::null()).spawn().unwrap();
    until("it is mounted", || {
        mounts().iter().any(|(at, kind)| at.starts_with(&directory) && kind == "fuse.dio")
    });
    // By then its clients are at work.
    std::thread::sleep(std::time::Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    assert_nothing_left(&directory);
}

#[test]
fn what_makes_no_measurement_is_an_error() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let flags = format!("--storage raw --raw {}", file.display());
    let output = oltp(&flags, directory.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is no block device"), "{output:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    let output = dio("bench", "oltp --storage bare --size 5000 --dir")
        .arg(directory.path())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("a page must be"), "{output:?}");
}
