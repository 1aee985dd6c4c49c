//! `dio bench stripe` with tiny sizes: tests the contents of its reports, that modelled disks are
//! no faster than their model, and that nothing is left behind, whichever way the benchmark ends.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::mount_support::{Scene, dio, mounts, until};
use dio_test::skip;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const TINY: &str = "stripe --transfer 1M,4M --stripes 2,4 --stripe-size 512K --real-stripe-size \
                    4K,64K --size 4M --runs 2 --disk-service 2 --disk-bandwidth 100M --copy 4M";

/// Largest bandwidth of the modelled disks in MiB/s, with 2 % for the inaccuracy of the clock.
const BANDWIDTH: f64 = 100.0 * 1.02;

fn stripe(flags: &str, directory: &Path) -> Output {
    dio("bench", TINY).args(flags.split_whitespace()).arg("--dir").arg(directory).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("standard output is JSON")
}

/// Loop devices over files below a directory.
fn loops(directory: &Path) -> Vec<String> {
    let backing = |device: std::fs::DirEntry| {
        std::fs::read_to_string(device.path().join("loop/backing_file")).ok()
    };
    let all = std::fs::read_dir("/sys/class/block")
        .unwrap()
        .filter_map(|device| backing(device.unwrap()));
    all.filter(|file| Path::new(file.trim()).starts_with(directory)).collect()
}

/// Checks that no mounts, loop devices or Ethernet devices are left. Files may be left.
#[track_caller]
fn assert_nothing_set_up(directory: &Path) {
    assert!(!mounts().iter().any(|(at, _)| at.starts_with(directory)), "{:?}", mounts());
    until("the loop devices are gone", || loops(directory).is_empty());
    assert!(!Path::new("/sys/class/net/dio-here").exists());
}

#[track_caller]
fn assert_nothing_left(directory: &Path) {
    assert_nothing_set_up(directory);
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), 0);
}

/// The rows of a rig. Checks that each has every figure.
fn rows<'a>(report: &'a Value, rig: &str) -> Vec<&'a Value> {
    let rows: Vec<&Value> =
        report["rows"].as_array().unwrap().iter().filter(|row| row["rig"] == rig).collect();
    for row in &rows {
        for way in ["wait_each_mib_s", "submit_all_mib_s", "async_mib_s"] {
            assert!(row[way].as_f64().unwrap() > 0.0, "{row:#}");
        }
        assert!(row["direction"] == "write" || row["direction"] == "read", "{row:#}");
        assert!(
            row["gain"]["median"].as_f64().unwrap() > 0.0
                && row["of_async"]["max"].as_f64().unwrap() > 0.0
        );
    }
    rows
}

fn scene() -> Option<(Scene, std::path::PathBuf)> {
    let scene = Scene::new()?;
    let directory = scene.path("bench");
    std::fs::create_dir(&directory).unwrap();
    Some((scene, directory))
}

/// Whether a rig was skipped, or cannot be set up here; prints the reason.
fn is_skipped(output: &Output) -> bool {
    let said = String::from_utf8_lossy(&output.stderr);
    let skipped = said.contains("targets are skipped") || said.contains("losetup");
    if skipped {
        skip!("{said}");
    }
    skipped
}

#[test]
fn the_real_disk_needs_no_privileges() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let out = tempfile::tempdir().unwrap();
    let flags = format!("--rig real --json --plots {}", out.path().display());
    let report = json(&stripe(&flags, directory.path()));
    assert_eq!(report["benchmark"], "stripe");
    let rows = rows(&report, "real");
    // Two stripe sizes, two directions and two transfer sizes, on the greatest number of targets.
    assert_eq!(rows.len(), 8);
    assert_eq!(
        (&rows[0]["stripe_bytes"], &rows[0]["transfer_bytes"]),
        (&4096.into(), &(1 << 20).into())
    );
    assert!(rows.iter().all(|row| row["stripes"] == 4));
    // 1 MiB in stripes of 4 KiB: all of it is in flight, as in one request.
    assert_eq!(rows[0]["async_depth_wanted"], 256);
    assert!(report["environment"]["kernel"].is_string() && report["copy"].is_null());
    assert!(
        std::fs::read_to_string(out.path().join("real-write-4-4096.svg"))
            .unwrap()
            .starts_with("<svg")
    );
    assert_nothing_left(directory.path());
}

#[test]
fn modelled_disks_are_as_fast_as_their_model_and_are_taken_down() {
    let Some((_scene, directory)) = scene() else { return };
    let output = stripe("--rig modelled --json", &directory);
    if is_skipped(&output) {
        return;
    }
    let report = json(&output);
    let rows = rows(&report, "modelled");
    assert_eq!(rows.len(), 8);
    for row in rows {
        let [each, all, queued] = ["wait_each_mib_s", "submit_all_mib_s", "async_mib_s"]
            .map(|way| row[way].as_f64().unwrap());
        let stripes = row["stripes"].as_f64().unwrap();
        assert!(each <= BANDWIDTH, "one disk at a time: {row:#}");
        assert!(
            all <= stripes * BANDWIDTH && queued <= stripes * BANDWIDTH,
            "no disk exceeds its model: {row:#}"
        );
    }
    let copy = &report["copy"];
    assert!(copy["dio_cp_mib_s"].as_f64().unwrap() <= BANDWIDTH, "{copy:#}");
    assert!(copy["dd_mib_s"].as_f64().unwrap() <= BANDWIDTH, "{copy:#}");
    assert_eq!(report["timing"]["service_seconds"], 0.002);
    let (result, page) = (directory.join("stripe.json"), directory.join("page.html"));
    std::fs::write(&result, &output.stdout).unwrap();
    assert!(dio("report", "-o").args([&page, &result]).status().unwrap().success());
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(
        text.contains("Modelled disks: read, 4 × 512 KiB, requests of 4 MiB")
            && text.contains("dio cp ÷ dd"),
        "{text}"
    );
    [result, page].iter().for_each(|file| std::fs::remove_file(file).unwrap());
    assert_nothing_left(&directory);
}

#[test]
fn mounts_over_the_network_are_taken_down() {
    let Some((_scene, directory)) = scene() else { return };
    let output = stripe("--rig network", &directory);
    if is_skipped(&output) {
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("network: SSHFS"), "{text}{output:?}");
    assert!(text.contains("write 583 → 5186 MiB/s"), "the reference is named: {text}");
    assert_nothing_left(&directory);
}

#[test]
fn whatever_signal_ends_it_nothing_stays_set_up() {
    for signal in [Signal::TERM, Signal::KILL] {
        let Some((_scene, directory)) = scene() else { return };
        if !Command::new("unshare")
            .args(["--mount", "true"])
            .status()
            .is_ok_and(|status| status.success())
        {
            skip!("there are no mount namespaces to be had");
            return;
        }
        let flags = "stripe --rig modelled --transfer 4M --stripes 2 --size 1G --runs 50 --dir";
        let mut child = dio("bench", flags).arg(&directory).stdout(Stdio::null()).spawn().unwrap();
        until("there are loop devices", || {
            loops(&directory).len() == 2 || child.try_wait().unwrap().is_some()
        });
        if child.try_wait().unwrap().is_some() {
            skip!("no loop device");
            return;
        }
        // By the end of this sleep the benchmark is at work.
        std::thread::sleep(std::time::Duration::from_millis(500));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(signal.as_raw()));
        assert_nothing_set_up(&directory);
        if signal == Signal::TERM {
            assert_nothing_left(&directory);
        }
    }
}

#[test]
fn what_makes_no_measurement_is_an_error() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let output =
        dio("bench", "stripe --rig real --runs 0 --dir").arg(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("must be positive"), "{output:?}");
    let output = dio("bench", "stripe --transfer 3M --dir").arg(directory.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("a power of two"), "{output:?}");
}
