//! Signals to `dio record`, `dio advise` and `dio probe --speed`.

use std::fs;
use std::process::Command;

use dio_test::until;
use rustix::process::Signal;

use crate::advise::{dio, is_watchable, scratch};
use crate::own::{Running, random_file, skip};

#[test]
fn a_signal_ends_the_command_and_the_report_is_of_what_it_did() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    random_file(dir.path().join("file"), 100_000, 1);
    let script = "cat file > copy; exec sleep 1000";
    let mut command = dio(dir.path(), &["advise", "sizes", "sh", "-c", script]);
    let running = Running::spawn(&mut command);
    until("the copy is made", || {
        fs::metadata(dir.path().join("copy")).is_ok_and(|copy| copy.len() == 100_000)
    });
    running.signal(Signal::TERM);
    let output = running.end();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    assert!(output.stderr.contains("/copy (") && output.stderr.contains("write"), "{output:?}");

    // Ctrl-C reaches both, but what is sent to dio alone is passed on.
    let mut command =
        dio(dir.path(), &["record", "-o", "trace", "sh", "-c", "> begun; exec sleep 1000"]);
    let running = Running::spawn(&mut command);
    until("the command runs", || dir.path().join("begun").exists());
    running.signal(Signal::INT);
    let output = running.end();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
}

/// It sends its signal to the command, and at once to the group: while the files are made, and
/// while the loads run.
#[test]
fn what_timeout_stops_leaves_nothing() {
    for seconds in ["0.2", "2"] {
        let dir = scratch();
        let mut probe = Command::new("timeout");
        probe.args([seconds, env!("CARGO_BIN_EXE_dio"), "probe", "--speed", "-o", "profile", "."]);
        let output = probe.current_dir(dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(124), "{output:?}");
        let left = || fs::read_dir(dir.path()).unwrap().count();
        until("it has ended", || left() == 0);
    }
}
