//! Calls that list, rename, remove and change names are counted as strace(1) counts them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::advise::{has_strace, is_watchable, report, said, scratch};
use crate::own::skip;

/// The call that one of strace's is counted as, if it is about names.
fn of_names(call: &str) -> Option<&'static str> {
    const CALLS: &str = "getdents rename unlink rmdir mkdir mknod link symlink truncate chmod chown \
                         utimensat setxattr";
    let call = call.replace("64", "").replace("at2", "at");
    let call = if call == "utimensat" { &call } else { call.trim_end_matches("at") };
    let call = call.strip_prefix(['f', 'l']).filter(|call| *call != "ink").unwrap_or(call);
    CALLS.split(' ').find(|known| *known == call)
}

#[test]
fn calls_that_list_and_change_names_are_counted_as_strace_counts_them() {
    let dir = scratch();
    if !is_watchable(dir.path()) {
        return skip!("commands cannot be watched here");
    }
    if !has_strace() {
        return skip!("strace is not there, or may not trace");
    }
    compare_names(report);
}

/// Runs a script once watched by `report` and once by strace, and compares its calls about names.
pub(crate) fn compare_names(report: fn(&Path, &str) -> (Option<i32>, Value)) {
    let script = "mkdir -p d/e; touch d/f; mv d/f d/g; ln d/g d/h; ln -s g d/i; chmod 600 d/g; \
                  touch -d @5 d/g; ls d; rm d/h d/i; rmdir d/e; rmdir d; tar cf t d; rm -r d; \
                  tar xf t; mkfifo d/p; cp -a d c; \
                  python3 -c 'import os; os.symlink(\"x\", \"y\"); os.truncate(\"t\", 5); \
                  os.chown(\"t\", -1, -1); f = os.open(\"t\", os.O_RDWR); os.fchmod(f, 0o600); \
                  b = os.open(\"d\", os.O_RDONLY); os.rename(\"g\", \"j\", src_dir_fd=b, dst_dir_fd=b); \
                  os.mkdir(\"k\", dir_fd=b); os.rmdir(\"k\", dir_fd=b); os.symlink(\"x\", \"y\", dir_fd=b)'";
    let (ours, theirs) = (scratch(), scratch());
    let (status, report) = report(ours.path(), script);
    assert_eq!(status, Some(0), "{report}");
    let mut counts = BTreeMap::new();
    let mut in_directories = BTreeMap::new();
    let home = fs::canonicalize(ours.path()).unwrap();
    for file in report["files"].as_array().unwrap() {
        for call in file["calls"].as_array().unwrap() {
            let Some(name) = of_names(call["call"].as_str().unwrap()) else { continue };
            let sum: &mut (u64, u64) = counts.entry(name).or_default();
            let number = |of: &str| call[of].as_u64().unwrap();
            (sum.0, sum.1) = (sum.0 + number("count"), sum.1 + number("errors"));
            if let Ok(path) = Path::new(file["path"].as_str().unwrap()).strip_prefix(&home) {
                *in_directories.entry((path.to_owned(), name)).or_default() += number("count");
            }
        }
    }
    let traced = Command::new("strace")
        .args(["-f", "-qq", "-e", "signal=none", "-o", "trace", "sh", "-c", script])
        .current_dir(theirs.path())
        .output()
        .unwrap();
    assert!(traced.status.success(), "{}", said(&traced));
    let mut expected = BTreeMap::new();
    for line in fs::read_to_string(theirs.path().join("trace")).unwrap().lines() {
        let line = line.trim_start_matches(|digit: char| digit.is_ascii_digit() || digit == ' ');
        let Some(name) = line.split_once('(').and_then(|(call, _)| of_names(call)) else {
            continue;
        };
        let sum: &mut (u64, u64) = expected.entry(name).or_default();
        (sum.0, sum.1) = (sum.0 + 1, sum.1 + u64::from(line.contains(" = -1 ")));
    }
    assert!(expected.len() >= 11, "{expected:?}");
    assert_eq!(counts, expected);
    // Where the names are: those of `mv`, of the other script, and of `ln -s`.
    for (path, name, count) in [("d", "rename", 2_u64), ("d", "symlink", 2), ("", "rmdir", 1)] {
        let found = in_directories.get(&(PathBuf::from(path), name));
        assert_eq!(found, Some(&count), "{path} {name}: {in_directories:?}");
    }
}
