//! `dio run`: the limits on what the command reads and writes, and the profile for backups.

use std::process::Command;

use dio_test::{random_file, resident_pages, run};

use crate::run_support::*;

/// Runs `script` and returns how many requests waited because of a limit, for how many seconds all
/// together, and how many bytes the source delivered.
fn throttled(scratch: &Scratch, options: &[&str], script: &str) -> (u64, f64, u64) {
    let script = format!("{script}\n{DIO} stat --json d");
    let text = scratch.well(&[options, &["--", "sh", "-ec", &script]].concat());
    let stat: serde_json::Value = serde_json::from_str(&text).unwrap();
    let total = |pointer| stat.pointer(pointer).unwrap_or_else(|| panic!("{stat}"));
    let read = stat.pointer("/total/source_read_bytes/direct").and_then(serde_json::Value::as_u64);
    (
        total("/total/blocks/throttle").as_u64().unwrap(),
        total("/total/blocked_seconds/throttle").as_f64().unwrap(),
        read.unwrap_or(0),
    )
}

#[test]
fn a_limit_holds_for_all_that_the_command_reads_and_writes() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    random_file(scratch.at("d/in"), 4 << 20, 1);
    let copy = "cp d/in d/out; dd if=d/out of=d/out2 bs=64K status=none";
    for mode in ["dio", "cio", "auto", "cached"] {
        assert_eq!(throttled(&scratch, &["-o", mode], copy).0, 0, "{mode}: without a limit");
        let (waits, seconds, _) = throttled(&scratch, &["-o", mode, "--limit", "16M/s"], copy);
        assert!(waits > 0 && seconds > 0.0, "{mode}: {waits} {seconds}");
        dio_test::same_bytes(scratch.at("d/in"), scratch.at("d/out2"));
    }
    // An empty read at the end of a file has no bytes.
    let small = "i=0; while [ $i -lt 50 ]; do echo $i > d/small; cat d/small; i=$((i+1)); done \
                 > /dev/null";
    assert_eq!(throttled(&scratch, &["--limit", "100M"], small).0, 0);
    scratch.no_server_stays();
}

#[test]
fn a_device_that_answers_late_slows_the_command_down() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    random_file(scratch.at("d/in"), 6 << 20, 1);
    // Pauses of a moment between the reads: each step of the limit takes a tenth of a second.
    let read = "for skip in 0 1 2 3 4 5; do \
                dd if=d/in of=/dev/null bs=1M count=1 skip=$skip status=none; sleep 0.06; done";
    let waits = |time| throttled(&scratch, &["--latency", time], read).0;
    assert!(waits("1us") > 0, "no device answers within a microsecond");
    assert_eq!(waits("1h"), 0);
    scratch.no_server_stays();
}

#[test]
fn what_is_read_slowly_is_not_read_twice() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    random_file(scratch.at("d/in"), 6 << 20, 1);
    let read = "cat d/in > /dev/null";
    let (waits, _, bytes) = throttled(&scratch, &["--limit", "2M"], read);
    // Read-ahead bytes are dropped when they are a second old. Some are read in vain until the
    // stream is known, and on a busy machine.
    assert!(waits > 0 && bytes < 12 << 20, "{bytes} bytes were read to deliver 6 MiB");
    scratch.no_server_stays();
}

#[test]
fn a_limit_that_makes_no_sense_is_refused() {
    let scratch = Scratch::new();
    for (words, said) in [
        (["--limit", "1K"], "256K or more"),
        (["--limit", "fast"], "'fast'"),
        (["--latency", "soon"], "such as 500us"),
        (["-o", "profile=restore"], "backup"),
    ] {
        let output = run(&mut scratch.command(&[&words[..], &["true"]].concat()));
        assert_eq!(output.status.code(), Some(125), "{words:?}: {output:?}");
        assert!(output.stderr.contains(said), "{words:?}: {output:?}");
    }
}

#[test]
fn a_backup_leaves_no_page_and_reads_no_more_than_there_is() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    random_file(scratch.at("d/in"), 5_000_001, 1);
    run(Command::new("dd")
        .args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"])
        .arg(format!("of={}", scratch.at("d/in").display())));
    scratch.well(&["-o", "profile=backup", "--", "tar", "cf", "d/out.tar", "d/in"]);
    assert_eq!(resident_pages(scratch.at("d/in")) + resident_pages(scratch.at("d/out.tar")), 0);
    scratch.well(&["-o", "profile=backup", "--", "tar", "df", "d/out.tar"]);
    scratch.no_server_stays();
}
