//! A skip is visible without `--nocapture`, is logged, and fails under `CI=true`.
//!
//! Each test runs this test program again, restricted to the test `inner`, and checks its output.

use std::path::Path;
use std::process::Command;

use dio_test::{Output, run, skip};

const INSIDE: &str = "DIO_TEST_SKIP_INSIDE";
const REASON: &str = "no such device, said by the test of skips";

/// The test that the others run. It does nothing in an ordinary run.
#[test]
fn inner() {
    if std::env::var_os(INSIDE).is_some() {
        skip!("{REASON}");
    }
}

fn run_inner(log: &Path, ci: Option<&str>) -> Output {
    let program = std::env::current_exe().expect("the path of this test");
    let mut command = Command::new(program);
    command.args(["--exact", "inner"]).env(INSIDE, "1").env("DIO_SKIP_LOG", log).env_remove("CI");
    if let Some(value) = ci {
        command.env("CI", value);
    }
    run(&mut command)
}

#[test]
fn a_skip_is_visible_and_logged() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("skips");
    for times in 1..=2 {
        let out = run_inner(&log, None);
        assert!(out.status.success(), "{out:?}");
        assert!(out.stdout.contains("1 passed"), "{out:?}");
        assert!(out.stderr.contains(&format!("SKIPPED: inner: {REASON}\n")), "{out:?}");
        let logged = std::fs::read_to_string(&log).unwrap();
        assert_eq!(logged, format!("inner: {REASON}\n").repeat(times));
    }
}

#[test]
fn a_skip_fails_where_everything_must_run() {
    let dir = tempfile::tempdir().unwrap();
    let out = run_inner(&dir.path().join("skips"), Some("true"));
    assert!(!out.status.success(), "{out:?}");
    assert!(out.stdout.contains("skipped while CI=true"), "{out:?}");
    let out = run_inner(&dir.path().join("skips"), Some("false"));
    assert!(out.status.success(), "{out:?}");
}
