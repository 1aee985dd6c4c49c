//! pjdfstest checks names, permissions, owners, times and errors: its results through the mount are
//! those on the file system below, as root and as a user.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::judge_support::{Stage, built};
use dio_test::{as_user, is_root, judge_fully, judged, skip};

/// Settings of pjdfstest: its features, two users whose first group has the same name, and the
/// resolution of times.
const SETTINGS: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}

[settings]
naptime = 0.02
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// Cases whose results must differ: the C library has a table of the largest link count of each
/// file system (`pathconf(3)`, `_PC_LINK_MAX`), and FUSE is not in it.
const OTHERWISE: &[&str] = &["link::link_count_max"];

/// The result of each test case, and the output of those that failed.
type Results = BTreeMap<String, (String, String)>;

/// Runs pjdfstest in a directory that is mounted at `/mnt` for it, because the names of sockets
/// must be short.
fn results(pjdfstest: &Command, directory: &Path, settings: &Path, other: &Path) -> Results {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-ec", "mount --bind \"$0\" /mnt; exec \"$@\""]).arg(directory);
    command.arg(pjdfstest.get_program()).args(pjdfstest.get_args());
    command.arg("-c").arg(settings).args(["-p", "/mnt", "-s"]).arg(other).env("NO_COLOR", "1");
    let output = dio_test::run(&mut command);
    let mut results = Results::new();
    let mut last = None;
    for line in output.stdout.lines() {
        if let Some(detail) = line.strip_prefix('\t') {
            if let Some((_, details)) = last.as_ref().and_then(|name| results.get_mut(name)) {
                details.push_str(detail);
            }
            continue;
        }
        let mut words = line.split_whitespace();
        if let (Some(name), Some(result @ ("ok" | "FAILED" | "skipped")), None) =
            (words.next(), words.next(), words.next())
        {
            results.insert(name.to_owned(), (result.to_owned(), String::new()));
            last = Some(name.to_owned());
        }
    }
    assert!(results.len() > 100, "{}\n{}", output.stdout, output.stderr);
    results
}

/// The cases whose results through the mount differ from those below it.
fn differences(below: &Results, through: &Results) -> String {
    let mut text = String::new();
    for (name, (expected, _)) in
        below.iter().filter(|(name, _)| !OTHERWISE.contains(&name.as_str()))
    {
        match through.get(name) {
            Some((result, _)) if result == expected => {}
            Some((result, said)) => {
                text.push_str(&format!("{name}: {result}, below it is {expected}: {said}\n"))
            }
            None => text.push_str(&format!("{name}: not run, below it is {expected}\n")),
        }
    }
    text
}

fn same_as_below(user: &str) {
    let Some(program) = built("pjdfstest") else { return };
    if !is_root() {
        skip!("the judges need root");
        return;
    }
    let chosen = judged();
    // Names and attributes do not depend on the mode, so one mode on one file system covers nearly
    // all.
    let chosen = if judge_fully() { &chosen[..] } else { &chosen[1..2] };
    for (fs, mode) in chosen {
        let stage = Stage::new(fs, mode);
        let settings = stage.beside("settings").join("pjdfstest.toml");
        std::fs::write(&settings, SETTINGS).unwrap();
        // The user may not be able to enter the directory of the program.
        let copy = stage.beside("settings").join("pjdfstest");
        dio_test::copy_program(&program, &copy);
        let run = |directory: &Path| {
            let other = tempfile::tempdir_in("/dev/shm").unwrap();
            std::fs::set_permissions(
                other.path(),
                std::os::unix::fs::PermissionsExt::from_mode(0o777),
            )
            .unwrap();
            results(&as_user(user, &copy), directory, &settings, other.path())
        };
        let through = run(&stage.directory_of(user, "through"));
        stage.directory_of(user, "below");
        let below = run(&stage.below("below"));
        let differ = differences(&below, &through);
        assert!(differ.is_empty(), "{}, as {user}:\n{differ}", stage.name);
        stage.unmount();
    }
}

#[test]
fn the_same_as_below_for_root() {
    same_as_below("root");
}

#[test]
fn the_same_as_below_for_a_user() {
    same_as_below("nobody");
}
