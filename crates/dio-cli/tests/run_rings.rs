//! Root's `dio run` gets its requests by io_uring, and leaves the kernel's switch as it was.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use dio_test::{skip, until};
use rustix::process::{Pid, Signal, kill_process};

use crate::run_support::*;

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
const LOCK: &str = "/run/dio-fuse-io-uring.lock";

/// Other tests mount meanwhile, and have the switch on while they do.
fn it_is_off() {
    let is_off = || fs::read_to_string(SWITCH).is_ok_and(|state| state == "N\n");
    until("the switch is off", || is_off() && !Path::new(LOCK).exists());
}

#[test]
fn a_run_of_roots_has_its_requests_by_io_uring() {
    if !can_mount() {
        return;
    }
    if fs::File::options().write(true).open(SWITCH).is_err() {
        return skip!("the kernel has no FUSE over io_uring, or its switch is not ours");
    }
    let scratch = Scratch::new();
    let requests = |options: &str| {
        let stat = format!("{DIO} stat --json d");
        let text = scratch.well(&["-o", options, "--", "sh", "-ec", &stat]);
        let stat: serde_json::Value = serde_json::from_str(&text).unwrap();
        stat.pointer("/mount/requests").and_then(|by| by.as_str()).unwrap().to_owned()
    };
    assert_eq!(requests("dio"), "io_uring");
    assert_eq!(requests("dio,no_io_uring"), "device");
    scratch.no_server_stays();
}

#[test]
fn a_run_of_roots_has_requests_of_4_mib() {
    const LIMIT: &str = "/proc/sys/fs/fuse/max_pages_limit";
    if !can_mount() {
        return;
    }
    let Ok(limit) = fs::read_to_string(LIMIT) else {
        return skip!("the kernel has no limit of requests that can be raised");
    };
    let scratch = Scratch::new();
    let writes = |options: &str| {
        let copy = "dd if=/dev/zero of=d/large bs=4M count=3 oflag=direct status=none";
        let script = format!("{copy}; {DIO} stat --json d");
        let text = scratch.well(&["-o", options, "--", "sh", "-ec", &script]);
        let stat: serde_json::Value = serde_json::from_str(&text).unwrap();
        stat.pointer("/operations/write/count").and_then(|count| count.as_u64()).unwrap()
    };
    assert_eq!(writes("dio"), 3);
    assert_eq!(writes("dio,no_io_uring"), 3);
    assert_eq!(writes("dio,limit=16M"), 12, "no memory for large ones");
    assert_eq!(writes("dio,rate=100M"), 12, "programs are slowed down");
    scratch.no_server_stays();
    let is_as_before = || fs::read_to_string(LIMIT).is_ok_and(|found| found == limit);
    until("the limit is as it was", is_as_before);
}

/// Signals come at any time while it mounts.
#[test]
fn a_signal_does_not_leave_the_switch_on() {
    if !can_mount() {
        return;
    }
    // Other tests may be mounting just now.
    let is_ever_off = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(5));
        fs::read_to_string(SWITCH).is_ok_and(|state| state == "N\n")
    });
    if !is_ever_off {
        return skip!("the kernel has no FUSE over io_uring, or it is on for all mounts");
    }
    let scratch = Scratch::new();
    for step in 0..24 {
        let signal = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT][step % 4];
        let mut command = scratch.command(&["--", "sleep", "1000"]);
        let mut run = command.stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(step as u64));
        kill_process(Pid::from_child(&run), signal).unwrap();
        assert!(!run.wait().unwrap().success());
        it_is_off();
    }
    scratch.no_server_stays();
}
