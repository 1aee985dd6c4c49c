//! `dio synctest` on every file system: tests its reports, the commands that it refuses, and that
//! nothing is left behind. Times are not judged here.

use std::path::Path;
use std::process::Command;

use crate::own::{
    Output, Running, TestFs, file_systems, in_memory, is_direct, json, names, signal_of, until,
    until_caught,
};
use rustix::process::Signal;
use serde_json::Value;

fn synctest(flags: &str, path: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
    command.arg("synctest").args(flags.split_whitespace()).arg(path).env("LC_ALL", "C.UTF-8");
    command
}

fn ran(flags: &str, path: &Path) -> Output {
    dio_test::run(&mut synctest(flags, path))
}

/// The report of a run, which must succeed.
#[track_caller]
fn report(flags: &str, path: &Path) -> Value {
    let output = ran(&format!("--json {flags}"), path);
    assert!(output.status.success() && output.stderr.is_empty(), "{flags}: {output:?}");
    json(&output.stdout)
}

/// The rows of a report. Checks each: it has a case, and either plausible figures or a refusal in
/// words.
#[track_caller]
fn rows<'a>(report: &'a Value, name: &str) -> &'a Vec<Value> {
    let rows = report["rows"].as_array().unwrap();
    for row in rows {
        let (case, outcome) = (&row["case"], &row["outcome"]);
        assert!(
            case["method"].is_string() && case["direct"].is_boolean() && case["size"].is_u64(),
            "{name}: {row}"
        );
        let Some(figures) = outcome["measured"].as_object() else {
            let words = outcome["refused"].as_str().unwrap_or_else(|| panic!("{name}: {row}"));
            assert!(words.starts_with("cannot "), "{name}: {words}");
            continue;
        };
        let number = |field: &str| {
            figures[field].as_f64().unwrap_or_else(|| panic!("{name}: no {field}: {row}"))
        };
        assert!(
            number("count") >= 1.0 && number("per_second") > 0.0 && number("mean") > 0.0,
            "{name}: {row}"
        );
        assert!(number("syncs") >= 1.0 && number("syncs") <= number("count"), "{name}: {row}");
        let order = ["p05", "p50", "p99", "p999", "max"].map(number);
        assert!(order.is_sorted(), "{name}: {row}");
    }
    rows
}

#[test]
fn the_default_run_measures_everything_judges_and_advises() {
    let dir = file_systems()[0].dir();
    let report = report("-s 0.004 --file-size 512K", dir.path());
    let rows = rows(&report, "host");
    let of = |section: &str| rows.iter().filter(|row| row["case"]["section"] == section).count();
    let counts =
        ["compare", "two", "patterns", "sizes", "open_sizes", "threads", "descriptors", "unsynced"]
            .map(of);
    assert_eq!(counts, [14, 12, 6, 8, 5, 6, 2, 2]);
    assert_eq!(report["interrupted"], false);
    assert!(
        report["environment"]["kernel"].is_string()
            && report["storage"]["mount_options"].is_array()
    );
    assert!(
        report["honesty"]["verdict"].is_string() && report["honesty"]["confidence"].is_string()
    );
    assert!(report["flushes"]["flush_after"].as_array().unwrap().len() > 1);
    let programs: Vec<&str> = report["advice"]
        .as_array()
        .unwrap()
        .iter()
        .map(|advice| advice["program"].as_str().unwrap())
        .collect();
    assert_eq!(programs, ["PostgreSQL", "MariaDB (InnoDB)", "dio's log (dio-wal)"]);
    let setting = report["advice"][0]["settings"][0].as_str().unwrap();
    assert!(setting.starts_with("wal_sync_method = "), "{setting}");
    assert_eq!(names(dir.path()), [""; 0]);
}

#[test]
fn every_file_system_says_what_it_does_and_whether_direct_was_direct() {
    for fs in file_systems() {
        let dir = fs.dir();
        let flags = "-s 0.002 --file-size 64K --method fdatasync,rwf_dsync,sync_file_range \
                     --pattern overwrite,append,preallocated,zeroed";
        let report = report(flags, dir.path());
        let rows = rows(&report, &fs.name);
        assert_eq!(rows.len(), 3 * 2 * 4, "{}", fs.name);
        for row in rows.iter().filter(|row| row["case"]["direct"] == true) {
            let pages = row["outcome"]["measured"]["cached_pages"].as_u64();
            if is_direct(&fs) {
                assert_eq!(pages, Some(0), "{}: {row}", fs.name);
            } else if fs.name == "ext4-journal" {
                assert!(pages.is_some_and(|pages| pages > 0), "{}: {row}", fs.name);
            }
        }
        judged(&fs, &report);
        assert_eq!(names(dir.path()), [""; 0], "{}", fs.name);
    }
}

/// Checks the verdict, as far as the type of the file system determines it.
fn judged(fs: &TestFs, report: &Value) {
    let verdict = report["honesty"]["verdict"].as_str().unwrap();
    match fs.name.as_str() {
        "tmpfs" => assert_eq!(verdict, "not_durable"),
        // These are on loop devices.
        "ext4" | "ext4-journal" | "xfs" | "btrfs" => {
            assert!(["unknown", "suspect"].contains(&verdict), "{}: {report}", fs.name);
            assert!(
                report["storage"]["disk"]["name"].as_str().unwrap().starts_with("loop"),
                "{}",
                fs.name
            );
        }
        _ => {}
    }
}

#[test]
fn the_table_has_every_row_the_verdict_and_the_settings() {
    let dir = file_systems()[0].dir();
    let output = ran("-s 0.002 --file-size 64K --only compare,descriptors,honesty", dir.path());
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    for words in [
        ": 0.002 s for each line",
        " in all\n",
        "\nevery method, one write of 8 KiB\n",
        "p99.9",
        "open_datasync ",
        "sync_file_range (NOT durable)",
        "open, write, close; open, fsync, close",
        "\nis the disk honest? ",
        "write cache",
        "    wal_sync_method = ",
        "innodb_flush_log_at_trx_commit = 1",
        "dio_wal::Options: direct(",
    ] {
        assert!(output.stdout.contains(words), "{words}: {}", output.stdout);
    }
}

#[test]
fn what_exists_is_left_alone_unless_forced_and_what_is_new_is_removed() {
    let dir = file_systems()[0].dir();
    let (precious, new) = (dir.path().join("precious"), dir.path().join("new"));
    std::fs::write(&precious, "precious").unwrap();
    let flags =
        "-s 0.002 --file-size 64K --method fdatasync --direct off --threads 1,2 --sharing own";
    let output = ran(flags, &precious);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        output.stderr.contains("exists and would be overwritten")
            && output.stderr.contains("--force"),
        "{output:?}"
    );
    assert_eq!(std::fs::read(&precious).unwrap(), b"precious");

    rows(&report(flags, &new), "new");
    assert_eq!(names(dir.path()), ["precious"]);

    // With one existing file there can be no files of their own for the writers, so that row has an
    // error.
    let output = ran(&format!("{flags} --force --json"), &precious);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report = json(&output.stdout);
    assert!(report["rows"][0]["outcome"]["measured"].is_object(), "{report}");
    assert!(
        report["rows"][1]["outcome"]["failed"].as_str().unwrap().contains("one existing file"),
        "{report}"
    );
    if !in_memory(&file_systems()[0]) {
        assert_eq!(crate::own::resident_pages(&precious), 0);
    }
    assert_ne!(std::fs::read(&precious).unwrap(), b"precious");
}

#[test]
fn what_makes_no_sense_and_what_cannot_be_is_told_in_words() {
    let dir = file_systems()[0].dir();
    let missing = dir.path().join("missing/file");
    for (flags, path, status, words) in [
        ("", missing.as_path(), 1, "No such file or directory"),
        ("", Path::new("/dev/null"), 1, "neither a file, a directory nor a block device"),
        ("--size 511", dir.path(), 2, "512 bytes to 1 MiB"),
        ("--threads 65", dir.path(), 2, "65"),
        ("-s 0", dir.path(), 2, "more than 0"),
        ("--only compare --method fsync", dir.path(), 2, "cannot be used with"),
        ("--check", dir.path(), 2, "--record"),
        ("--witness x:1 --threads 2", dir.path(), 2, "one block at a time"),
        ("--witness x:1 --size 1000", dir.path(), 2, "power of two"),
        ("--witness 127.0.0.1:1 --timeout 0.3", dir.path(), 1, "Connection refused"),
        ("--witness nowhere.invalid:1 --timeout 0.3", dir.path(), 1, "nowhere.invalid"),
        ("--serve 127.0.0.1:99999", dir.path(), 1, "cannot listen"),
    ] {
        let output = ran(flags, path);
        assert_eq!(output.status.code(), Some(status), "{flags}: {output:?}");
        assert!(output.stderr.contains(words) && output.stdout.is_empty(), "{flags}: {output:?}");
        assert_eq!(names(dir.path()), [""; 0], "{flags}");
    }
}

#[test]
fn a_signal_ends_it_with_what_was_measured_and_nothing_is_left() {
    for fs in file_systems().iter().filter(|fs| !in_memory(fs)).take(2) {
        let dir = fs.dir();
        let new = dir.path().join("new");
        for (path, signal, number) in
            [(dir.path(), Signal::INT, 2), (new.as_path(), Signal::TERM, 15)]
        {
            let flags = "--json -s 600 --file-size 64K --method fdatasync,fsync --threads 4 \
                         --sharing grouped";
            let running = Running::spawn(&mut synctest(flags, path));
            until_caught(running.pid(), signal);
            // After some writes, so that there is something to report.
            until("it writes", || written(&running) > 500_000);
            running.signal(signal);
            let output = running.end();
            assert_eq!(signal_of(&output), Some(number), "{}: {output:?}", fs.name);
            let report = json(&output.stdout);
            assert_eq!(report["interrupted"], true);
            assert_eq!(rows(&report, &fs.name).len(), 1, "{}: {report}", fs.name);
            assert!(report["honesty"].is_null());
            assert_eq!(names(dir.path()), [""; 0], "{}", fs.name);
        }
    }
}

/// Bytes that the process has written by system calls so far.
fn written(running: &Running) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{}/io", running.pid().as_raw_nonzero()))
        .unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|count| count.parse().ok()).unwrap_or(0)
}
