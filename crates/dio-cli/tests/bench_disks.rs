//! `dio bench disks` with tiny sizes: that the limits hold, what it reports, and that nothing is left behind.

mod mount_support;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Output, Stdio};

use dio_test::skip;
use mount_support::{dio, mounts, until};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

const TINY: &str = "disks --targets 1,2 --rate 20M --stripe 256K --warm-up 0.1 --steady 0.5 --rounds 1 --json";

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs it; `None`, said aloud, where this machine does not let it.
fn bench(flags: &str, directory: &Path) -> Option<Output> {
    if !geteuid().is_root() {
        skip!("loop devices and control groups need root");
        return None;
    }
    let output = dio("bench", flags).arg("--dir").arg(directory).output().unwrap();
    let text = said(&output);
    if ["losetup", "blkio", "mkfs.ext4", "'mount'"].iter().any(|part| text.contains(part)) {
        skip!("no slow disks here: {text}");
        return None;
    }
    Some(output)
}

#[track_caller]
fn assert_nothing_left(directory: &Path) {
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
    assert!(!mounts().iter().any(|(at, _)| at.starts_with(directory)), "{:?}", mounts());
    let backing = |device: std::fs::DirEntry| std::fs::read_to_string(device.path().join("loop/backing_file")).ok();
    let loops = || std::fs::read_dir("/sys/class/block").unwrap().filter_map(|device| backing(device.unwrap()));
    // The kernel lets go of one when the last of its users is gone, which may be some time after he has ended.
    until("no loop device is left", || !loops().any(|file| Path::new(file.trim()).starts_with(directory)));
}

#[test]
fn every_way_is_bound_by_the_limits_and_everything_is_taken_down() {
    let (directory, out) = (directory(), tempfile::tempdir().unwrap());
    let plots = out.path().join("plots");
    let flags = format!("{TINY} --plots {}", plots.display());
    let Some(output) = bench(&flags, directory.path()) else { return };
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("standard output is JSON");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!((rows.len(), report["benchmark"].as_str()), (12, Some("disks")));
    for row in rows {
        let limit = row["targets"].as_f64().unwrap() * f64::from(20 << 20);
        let rate = row["bytes_per_second"]["median"].as_f64().unwrap();
        // A limit lets some more pass at first, which counts in half a second.
        assert!(rate > 0.0 && rate < limit * 1.4, "{row:#}");
        let run = &row["runs"][0];
        let (asked, moved) = (run["bytes"].as_f64().unwrap(), run["device_bytes"].as_f64().unwrap());
        assert!(moved > asked * 0.7 && moved < asked * 1.5, "the devices moved it: {row:#}");
        assert!(run["own_cpu_seconds"].as_f64().unwrap() > 0.0 && row["to_raw"].as_f64().unwrap() > 0.0, "{row:#}");
    }
    assert!(std::fs::read_to_string(plots.join("throughput-write.svg")).unwrap().contains("direct"));
    let (result, page) = (out.path().join("disks.json"), out.path().join("page.html"));
    std::fs::write(&result, &output.stdout).unwrap();
    let made = dio("report", "-o").args([&page, &result]).status().unwrap();
    assert!(made.success() && std::fs::read_to_string(&page).unwrap().contains("limits of the disks together"));
    assert_nothing_left(directory.path());
}

#[test]
fn who_is_ended_by_a_signal_leaves_no_disks() {
    let directory = directory();
    // Whether it can be had at all.
    let Some(_) =
        bench("disks --targets 1 --rate 1M --stripe 64K --steady 0.1 --rounds 1 --ways raw", directory.path())
    else {
        return;
    };
    let flags = "disks --targets 2 --rate 1M --stripe 64K --ways direct --steady 60 --dir";
    let mut child = dio("bench", flags).arg(directory.path()).stdout(Stdio::null()).spawn().unwrap();
    until("a disk is in use", || mounts().iter().filter(|(at, _)| at.starts_with(directory.path())).count() == 2);
    std::thread::sleep(std::time::Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    assert_nothing_left(directory.path());
}

#[test]
fn what_makes_no_measurement_is_an_error() {
    let directory = directory();
    for flags in ["disks --targets 0 --dir", "disks --stripe 5000 --dir", "disks --steady 0 --dir"] {
        let output = dio("bench", flags).arg(directory.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
    assert_nothing_left(directory.path());
}
