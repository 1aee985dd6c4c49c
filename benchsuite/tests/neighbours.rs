//! The users of `neighbours` behave as described, and the whole comparison runs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_dio-benchsuite");

/// A directory on a disk: not every file system in memory has direct I/O or leases.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").expect("a directory")
}

#[test]
fn the_honest_user_takes_turns_and_leaves_nothing() {
    let dir = directory();
    fs::write(dir.path().join("data"), vec![7; 1 << 20]).expect("written");
    let output = Command::new(PROGRAM)
        .arg("honest")
        .arg(dir.path())
        .args(["--seconds", "1"])
        .output()
        .expect("runs");
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let number = |key: &str| report[key].as_f64().expect("a number");
    assert!(number("turns_per_second") >= 1.0, "{report}");
    assert!(number("read_p50_nanoseconds") <= number("read_p99_nanoseconds"), "{report}");
    assert!(number("create_p99_nanoseconds") <= number("create_max_nanoseconds"), "{report}");
    assert_eq!((number("errors"), &report["first_error"]), (0.0, &Value::Null), "{report}");
    // The last turn may have been interrupted, and may have left its file.
    assert!(fs::read_dir(dir.path()).expect("readable").count() <= 2);
}

#[test]
fn an_honest_user_who_cannot_open_counts_errors_and_ends_no_turn() {
    let dir = directory();
    let output = Command::new(PROGRAM)
        .arg("honest")
        .arg(dir.path())
        .args(["--seconds", "1"])
        .output()
        .expect("runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert!(report["errors"].as_f64() > Some(0.0), "{report}");
    assert_eq!(report["turns_per_second"].as_f64(), Some(0.0));
    assert!(
        report["first_error"].as_str().is_some_and(|error| error.contains("No such file")),
        "{report}"
    );
}

/// The files that the attacks need, without stripes: a regular file stands for the wide file, and
/// no process holds leases or locks.
fn attacked() -> tempfile::TempDir {
    let dir = directory();
    let in_it = |name: &str| dir.path().join(name);
    ["work", "many", "locked"]
        .iter()
        .for_each(|name| fs::create_dir(in_it(name)).expect("a directory"));
    fs::write(in_it("big"), vec![7; 4 << 20]).expect("written");
    ["wide", "locked/0", "many/name", "work/leased.0"]
        .iter()
        .for_each(|name| fs::write(in_it(name), "").expect("written"));
    dir
}

#[test]
fn every_attack_makes_requests_that_succeed() {
    let dir = attacked();
    let attacks =
        "stat create read4k read1m dsync fsync bigsync copy allocate list wide lease lock";
    for attack in attacks.split(' ') {
        let mut child = Command::new(PROGRAM)
            .arg("hostile")
            .arg(dir.path())
            .args([attack, "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
        child.kill().expect("it runs until it is killed");
        child.wait().expect("ends");
        let counts: Vec<u64> =
            line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        assert!(counts.len() == 2 && counts[0] > 0 && counts[1] == 0, "{attack}: {line}");
    }
}

#[test]
fn what_is_held_is_held_until_input_ends() {
    let dir = attacked();
    fs::create_dir(dir.path().join("locked-objects")).expect("a directory");
    fs::write(dir.path().join("locked-objects/object"), "").expect("written");
    for attack in ["lease", "lock"] {
        let mut holder = Command::new(PROGRAM)
            .arg("hold")
            .arg(dir.path())
            .args([attack, "2"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("readable");
        assert_eq!(line, "ready\n", "{attack}");
        assert!(held(holder.id()) >= if attack == "lease" { 2 } else { 1 }, "{attack}");
        drop(holder.stdin.take());
        assert!(holder.wait().expect("ends").success());
    }
}

/// Locks and leases of a process, as the kernel lists them (proc_locks(5)).
fn held(process: u32) -> usize {
    let locks = fs::read_to_string("/proc/locks").expect("readable");
    locks
        .lines()
        .filter(|line| line.split_whitespace().any(|word| word == process.to_string()))
        .count()
}

/// A `dio` that was built before; this test does not build one.
fn dio() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let named = std::env::var_os("DIO_PROGRAM").map(PathBuf::from);
    named
        .into_iter()
        .chain(["release/dio", "debug/dio"].map(|dio| target.join(dio)))
        .find(|dio| dio.exists())
}

#[test]
fn a_short_comparison_has_all_its_rows() {
    let Some(dio) = dio() else {
        return eprintln!("SKIPPED: no dio is built below target, and DIO_PROGRAM names none");
    };
    if fs::metadata("/proc/self").expect("proc").uid() != 0 || !Path::new("/dev/fuse").exists() {
        return eprintln!("SKIPPED: needs root and /dev/fuse");
    }
    let dir = directory();
    // Other users must be able to enter the directory.
    fs::DirBuilder::new().mode(0o755).create(dir.path().join("open")).expect("a directory");
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("root may");
    let output = Command::new(PROGRAM)
        .args([
            "neighbours",
            "--runs",
            "1",
            "--seconds",
            "1",
            "--processes",
            "4",
            "--attacks",
            "create,lease,lock,wide",
        ])
        .args(["--size", "16M", "--dir"])
        .arg(dir.path().join("open"))
        .arg("--dio")
        .arg(dio)
        .output()
        .expect("runs");
    let (table, told) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{table}\n{told}");
    let rows = [
        "source, alone",
        "mount, alone",
        "source, create",
        "mount, create",
        "mount, wide",
        "mount, lease",
        "mount, lock",
    ];
    for row in rows {
        assert!(table.contains(&format!("| {row} | ")), "{row} is not in\n{table}\n{told}");
    }
    assert!(table.contains("made no progress | at most 0 | 0.000 | reached |"), "{table}\n{told}");
    assert!(!told.contains("LEFT OUT"), "{told}");
    let left: Vec<_> = fs::read_dir(dir.path().join("open")).expect("readable").flatten().collect();
    assert!(
        left.iter().all(|entry| entry.file_name().to_string_lossy().starts_with("source-")),
        "{left:?}"
    );
}
