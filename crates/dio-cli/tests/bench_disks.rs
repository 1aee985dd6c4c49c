//! `dio bench disks` with tiny sizes: tests that the limits hold, the contents of its reports, and
//! that no file, device or mount is left behind.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::mount_support::{dio, mounts, until};
use dio_test::skip;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

const TINY: &str =
    "disks --targets 1,2 --rate 20M --stripe 256K --warm-up 0.1 --steady 0.5 --rounds 1 --json";

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs the benchmark. Returns `None`, and prints why, if this machine does not permit it.
fn bench(flags: &str, directory: &Path) -> Option<Output> {
    if !geteuid().is_root() {
        skip!("loop devices and control groups need root");
        return None;
    }
    let output = dio("bench", flags).arg("--dir").arg(directory).output().unwrap();
    let text = said(&output);
    if ["losetup", "cannot be slowed down", "mkfs.ext4", "'mount'"]
        .iter()
        .any(|part| text.contains(part))
    {
        skip!("no slow disks here: {text}");
        return None;
    }
    Some(output)
}

#[track_caller]
fn assert_nothing_left(directory: &Path) {
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
    assert!(!mounts().iter().any(|(at, _)| at.starts_with(directory)), "{:?}", mounts());
    let backing = |device: std::fs::DirEntry| {
        std::fs::read_to_string(device.path().join("loop/backing_file")).ok()
    };
    let loops = || {
        std::fs::read_dir("/sys/class/block").unwrap().filter_map(|device| backing(device.unwrap()))
    };
    // The kernel frees a loop device when its last user is gone, which may be some time after the
    // user has ended.
    until("no loop device is left", || {
        !loops().any(|file| Path::new(file.trim()).starts_with(directory))
    });
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
        // A limit lets some more bytes pass at first, which counts in half a second.
        assert!(rate > 0.0 && rate < limit * 1.4, "{row:#}");
        let run = &row["runs"][0];
        let (asked, moved) =
            (run["bytes"].as_f64().unwrap(), run["device_bytes"].as_f64().unwrap());
        assert!(moved > asked * 0.7 && moved < asked * 1.5, "the devices moved it: {row:#}");
        assert!(
            run["own_cpu_seconds"].as_f64().unwrap() > 0.0 && row["to_raw"].as_f64().unwrap() > 0.0,
            "{row:#}"
        );
    }
    assert!(
        std::fs::read_to_string(plots.join("throughput-write.svg")).unwrap().contains("direct")
    );
    let (result, page) = (out.path().join("disks.json"), out.path().join("page.html"));
    std::fs::write(&result, &output.stdout).unwrap();
    let made = dio("report", "-o").args([&page, &result]).status().unwrap();
    assert!(
        made.success()
            && std::fs::read_to_string(&page).unwrap().contains("limits of the disks together")
    );
    assert_nothing_left(directory.path());
}

#[test]
fn who_is_ended_by_a_signal_leaves_no_disks() {
    let directory = directory();
    // Finds out whether the benchmark can run here at all.
    let Some(_) = bench(
        "disks --targets 1 --rate 1M --stripe 64K --steady 0.1 --rounds 1 --ways raw",
        directory.path(),
    ) else {
        return;
    };
    let flags = "disks --targets 2 --rate 1M --stripe 64K --ways direct --steady 60 --dir";
    let mut child =
        dio("bench", flags).arg(directory.path()).stdout(Stdio::null()).spawn().unwrap();
    until("a disk is in use", || {
        mounts().iter().filter(|(at, _)| at.starts_with(directory.path())).count() == 2
    });
    std::thread::sleep(std::time::Duration::from_millis(300));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    assert_nothing_left(directory.path());
}

/// Loop devices over files below a directory, as name and `MAJOR:MINOR`.
fn loops(directory: &Path) -> Vec<(String, String)> {
    let device = |at: PathBuf| {
        let backing = std::fs::read_to_string(at.join("loop/backing_file")).ok()?;
        let number = std::fs::read_to_string(at.join("dev")).ok()?.trim().to_owned();
        Path::new(backing.trim()).starts_with(directory).then(|| {
            let name = at.file_name().unwrap().to_string_lossy().into_owned();
            (name, number)
        })
    };
    std::fs::read_dir("/sys/class/block")
        .unwrap()
        .filter_map(|entry| device(entry.unwrap().path()))
        .collect()
}

/// The mount points of control groups of one version.
fn groups(file_system: &str) -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields
        .filter(|fields| fields[2] == file_system)
        .map(|fields| PathBuf::from(fields[1]))
        .collect()
}

/// The device limits that a process has set, and its control group if it has one of its own.
fn limits(process: u32, numbers: &[String]) -> Vec<String> {
    let ways = ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"];
    let files = groups("cgroup").into_iter().flat_map(|group| ways.map(|way| group.join(way)));
    let text: String = files.filter_map(|file| std::fs::read_to_string(file).ok()).collect();
    let ours = text
        .lines()
        .filter(|line| numbers.iter().any(|number| line.starts_with(&format!("{number} "))));
    let own =
        groups("cgroup2").into_iter().map(|group| group.join(format!("dio-bench-disks-{process}")));
    let own = own.filter(|group| group.is_dir()).flat_map(|group| {
        let limits = std::fs::read_to_string(group.join("io.max")).unwrap_or_default();
        limits.lines().map(str::to_owned).chain([group.display().to_string()]).collect::<Vec<_>>()
    });
    ours.map(str::to_owned).chain(own).collect()
}

#[test]
fn who_is_killed_leaves_no_limits() {
    let directory = directory();
    let Some(_) = bench(
        "disks --targets 1 --rate 1M --stripe 64K --steady 0.1 --rounds 1 --ways raw",
        directory.path(),
    ) else {
        return;
    };
    // The benchmark is killed at once, or while it takes down what it has set up.
    for signals in
        [&[Signal::KILL][..], &[Signal::TERM, Signal::TERM], &[Signal::INT, Signal::KILL]]
    {
        let flags = "disks --targets 2 --rate 2M --stripe 64K --ways direct --steady 60 --dir";
        let mut child =
            dio("bench", flags).arg(directory.path()).stdout(Stdio::null()).spawn().unwrap();
        until("there are devices", || {
            loops(directory.path()).len() == 2 || child.try_wait().unwrap().is_some()
        });
        let devices = loops(directory.path());
        let numbers: Vec<String> = devices.iter().map(|(_, number)| number.clone()).collect();
        until("the limits are in force", || limits(child.id(), &numbers).len() > 1);
        for signal in signals {
            kill_process(Pid::from_child(&child), *signal).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        let ended = child.wait().unwrap().signal();
        assert!(signals.iter().any(|signal| ended == Some(signal.as_raw())), "{ended:?}");
        until("the limits are lifted", || limits(child.id(), &numbers).is_empty());
        tidy(directory.path());
    }
}

/// Takes down everything that the benchmark itself would have taken down. A program that the
/// benchmark had started may still set something up after the benchmark's death, so this repeats
/// until nothing is left.
fn tidy(directory: &Path) {
    until("the devices are gone", || {
        for (at, _) in mounts().iter().filter(|(at, _)| at.starts_with(directory)) {
            assert!(Command::new("umount").arg("-l").arg(at).status().unwrap().success());
        }
        for (name, _) in loops(directory) {
            let detach = Command::new("losetup")
                .arg("--detach")
                .arg(format!("/dev/{name}"))
                .output()
                .unwrap();
            let is_gone = loops(directory).iter().all(|(other, _)| *other != name);
            assert!(detach.status.success() || is_gone, "{detach:?}");
        }
        loops(directory).is_empty()
    });
    std::fs::read_dir(directory)
        .unwrap()
        .for_each(|left| std::fs::remove_dir_all(left.unwrap().path()).unwrap());
}

#[test]
fn what_makes_no_measurement_is_an_error() {
    let directory = directory();
    for flags in ["disks --targets 0 --dir", "disks --stripe 5000 --dir", "disks --steady 0 --dir"]
    {
        let output = dio("bench", flags).arg(directory.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    }
    assert_nothing_left(directory.path());
}
