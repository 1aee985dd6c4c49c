//! `dio probe --speed` and the verdict of `dio advise`: its schema, its exit status, traces,
//! proofs, and bad input. Whether verdicts are right is tested in simulated time by dio-advise, and
//! measured by `benchsuite -- advise`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::own::{cold, is_root, random_file, skip};

fn run(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dio"));
    command.args(arguments).current_dir(dir).env("LC_ALL", "C.UTF-8").env("HOME", dir);
    command.env_remove("XDG_CACHE_HOME").output().unwrap()
}

pub(crate) fn can_mount() -> bool {
    is_root() && fs::File::options().read(true).write(true).open("/dev/fuse").is_ok()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A directory with a small profile of its disk; `None` where commands cannot be watched.
pub(crate) fn scratch() -> Option<TempDir> {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    if !run(dir.path(), &["advise", "sizes", "true"]).status.success() {
        return None;
    }
    let probed = ["probe", "--speed", "--speed-part", "64", "-o", "profile", "."];
    let output = run(dir.path(), &probed);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("measuring"), "{}", said(&output));
    let left = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 1, "only the profile stays");
    Some(dir)
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Checks that a verdict has what docs/advise.md promises.
fn check_schema(verdict: &Value) {
    for field in ["way", "confidence"] {
        assert!(verdict["verdict"][field].is_string(), "{verdict}");
    }
    for field in ["apply", "why"] {
        assert!(verdict["verdict"][field].is_array(), "{verdict}");
    }
    let ways = verdict["ways"].as_array().unwrap();
    assert_eq!(ways[0]["way"], "cached");
    for way in ways {
        let number = |field: &str| way[field].as_f64().unwrap_or_else(|| panic!("{field}: {way}"));
        let predicted = number("predicted_seconds");
        assert!(number("low") <= predicted && predicted <= number("high"), "{way}");
        assert!(number("cache_bytes") >= 0.0 && number("cpu_seconds") >= 0.0);
        assert!(way["measured_seconds"].is_null() || way["measured_seconds"].is_number());
    }
}

#[test]
fn a_verdict_has_its_schema_and_the_status_of_the_command() {
    let Some(dir) = scratch() else { return skip!("commands cannot be watched here") };
    let at = dir.path();
    let profile = json(&at.join("profile"));
    for way in ["cached", "direct", "concurrent", "auto", "tool"] {
        let costs = &profile["ways"][way];
        assert!(costs.is_array() || (!can_mount() && way != "cached" && way != "tool"), "{way}");
    }
    random_file(at.join("big"), 8 << 20, 1);
    cold(&at.join("big"));
    let script = "cat big | cksum; exit 3";
    let of = |more: &[&str]| {
        let line = [&["advise", "--device", "profile"], more, &["--", "sh", "-c", script]];
        run(at, &line.concat())
    };
    let output = of(&["--json", "-o", "verdict"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(!output.stdout.is_empty(), "the command's own output stays");
    let verdict = json(&at.join("verdict"));
    check_schema(&verdict);
    assert_eq!(verdict["command"][0], "sh");
    assert!(verdict["ways"][0]["measured_seconds"].is_number());
    let big = fs::canonicalize(at).unwrap().join("big");
    let groups = verdict["groups"].as_array().unwrap();
    assert!(groups.iter().any(|group| group["files"] == big.to_str().unwrap()), "{verdict}");
    // The same as a page.
    let output = run(at, &["report", "-o", "page.html", "verdict"]);
    if cfg!(feature = "bench") {
        assert!(output.status.success(), "{}", said(&output));
        let page = fs::read_to_string(at.join("page.html")).unwrap();
        for part in ["Time by way", "What each way takes", "Over time", "The files", "up to"] {
            assert!(page.contains(part), "{part}");
        }
    }
    let output = of(&[]);
    assert_eq!(output.status.code(), Some(3));
    assert!(said(&output).lines().count() < 40 && said(&output).contains("page cache"));
}

#[test]
fn a_trace_is_judged_later_and_replayed_as_a_proof() {
    let Some(dir) = scratch() else { return skip!("commands cannot be watched here") };
    let at = dir.path();
    random_file(at.join("big"), 4 << 20, 1);
    cold(&at.join("big"));
    let script = "cat big; sleep 1; cat big";
    let output = run(at, &["record", "-o", "trace", "--", "sh", "-c", script]);
    assert!(output.status.success(), "{}", said(&output));
    let line = ["advise", "--device", "profile", "--json", "--prove", "trace"];
    let output = run(at, &line);
    assert!(output.status.success(), "{}", said(&output));
    let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_schema(&verdict);
    for way in verdict["ways"].as_array().unwrap() {
        let is_mount = !["cached", "tool"].contains(&way["way"].as_str().unwrap());
        assert!(way["measured_seconds"].is_number() || (is_mount && !can_mount()), "{verdict}");
    }
    let mut bytes = fs::read(at.join("trace")).unwrap();
    bytes.truncate(bytes.len() - 3);
    fs::write(at.join("cut"), bytes).unwrap();
    let output = run(at, &["advise", "--device", "profile", "cut"]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("the trace ends before the command did"), "{text}");
    let mut bytes = fs::read(at.join("trace")).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(at.join("damaged"), bytes).unwrap();
    let output = run(at, &["advise", "--device", "profile", "damaged"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("'damaged': it is damaged at byte"), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("the trace ends before the command did"), "{text}");
}

#[test]
fn a_proof_runs_the_command_by_each_way_from_the_same_state() {
    let Some(dir) = scratch() else { return skip!("commands cannot be watched here") };
    if !can_mount() {
        return skip!("FUSE cannot be mounted here");
    }
    let at = dir.path();
    random_file(at.join("big"), 4 << 20, 1);
    // It fails where its files exist, so each run must find them absent, as the first one did; only
    // one of them is made by a call that wants it absent.
    let script = "mktemp -d run.XXXXXX; echo run >> lines; test ! -e log && cat big > log && \
                  python3 -c \"open('new', 'xb').write(open('big', 'rb').read())\"";
    fs::write(at.join("lines"), "").unwrap();
    let line = ["advise", "--device", "profile", "--json", "-o", "verdict", "--prove", "--"];
    let output = run(at, &[&line[..], &["sh", "-c", script]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let verdict = json(&at.join("verdict"));
    let ways = verdict["ways"].as_array().unwrap();
    assert!(ways.iter().all(|way| way["measured_seconds"].is_number()), "{verdict}");
    for made in ["new", "log"] {
        assert_eq!(fs::read(at.join(made)).unwrap(), fs::read(at.join("big")).unwrap());
    }
    // Once for the record, and three times by each way.
    assert_eq!(named(at, "run.").len(), 1 + 3 * ways.len());
    assert_eq!(fs::read_to_string(at.join("lines")).unwrap(), "run\n", "as after the first run");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(at.to_str().unwrap()), "nothing stays mounted");
}

/// What the first run has made is the only copy if the command has removed its input.
#[test]
fn a_proof_keeps_what_the_command_has_made() {
    let Some(dir) = scratch() else { return skip!("commands cannot be watched here") };
    let at = dir.path();
    random_file(at.join("copy"), 1 << 20, 1);
    for (command, made, back) in [
        ("gzip big", "big.gz", "gzip -dc big.gz | cmp - copy"),
        ("xz -0 big", "big.xz", "xz -dc big.xz | cmp - copy"),
        ("zstd -q --rm big", "big.zst", "zstd -q -dc big.zst | cmp - copy"),
        (
            "python3 -c \"open('new', 'xb').write(open('big', 'rb').read())\"; rm big",
            "new",
            "cmp new copy",
        ),
    ] {
        fs::copy(at.join("copy"), at.join("big")).unwrap();
        let line = ["advise", "--device", "profile", "--json", "-o", "verdict", "--prove", "--"];
        let output = run(at, &[&line[..], &["sh", "-c", command]].concat());
        assert!(output.status.success(), "{command}: {}", said(&output));
        let same = Command::new("sh").args(["-c", back]).current_dir(at).output().unwrap();
        assert!(same.status.success(), "{command}: {}", said(&same));
        let verdict = json(&at.join("verdict"));
        assert!(verdict["ways"][1]["measured_seconds"].is_null(), "{verdict}");
        let told = "nothing is proved: the command has removed or cut off";
        assert!(verdict["missing"].to_string().contains(told), "{verdict}");
        assert_eq!(named(at, "").len(), 4, "{command}: {:?}", named(at, ""));
        fs::remove_file(at.join(made)).unwrap();
    }
}

/// The names in a directory that begin so.
fn named(at: &Path, beginning: &str) -> Vec<OsString> {
    let names = fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.as_bytes().starts_with(beginning.as_bytes())).collect()
}

/// What the recorded run has written is there afterwards, whatever the runs of the proof did.
#[test]
fn a_proof_leaves_what_the_recorded_run_has_written() {
    let Some(dir) = scratch() else { return skip!("commands cannot be watched here") };
    let at = dir.path();
    random_file(at.join("copy"), 1 << 20, 1);
    let same = "cmp copy out";
    for (before, command, check) in [
        ("echo old > out", "cat big > out && rm big", same),
        ("echo old > out", "cat big > out && : > big", same),
        ("mkdir dir", "rm -rf dir; mkdir dir; cp big dir/out", "cmp copy dir/out && rm -r dir"),
        (":", "cat big > \"$(printf 'out\\377')\"; rm big", "mv out* out && cmp copy out"),
        (
            "mkdir dir && echo old > out && touch -d yesterday out",
            "cp big dir/new; tar cf out dir",
            "test \"$(tar tf out | sort | tr '\\n' ' ')\" = 'dir/ dir/new ' && rm -r dir",
        ),
        (
            "echo old > out && touch -d yesterday out && ln out link",
            "cat big >> out",
            "test $(wc -c < out) = 1048580 && cmp out link && rm link",
        ),
        ("echo old > out", "cat big > new && mv new out; mkdir new", "cmp out copy && rmdir new"),
    ] {
        fs::copy(at.join("copy"), at.join("big")).unwrap();
        let shell = |script: &str| {
            let mut shell = Command::new("sh");
            let output = shell.args(["-c", script]).current_dir(at).output().unwrap();
            assert!(output.status.success(), "{command}, {script}: {}", said(&output));
        };
        shell(before);
        // The clock of the file system is late by up to a tick.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let line = ["advise", "--device", "profile", "--rounds", "1", "--prove", "--"];
        let output = run(at, &[&line[..], &["sh", "-c", command]].concat());
        assert!(output.status.success(), "{command}: {}", said(&output));
        shell(check);
        shell("rm -f out big; test \"$(ls -A | tr '\\n' ' ')\" = 'copy profile '");
    }
}

#[test]
fn runs_of_a_proof_read_the_same_input() {
    let Some(dir) = scratch() else { return skip!("commands cannot be watched here") };
    let at = dir.path();
    random_file(at.join("big"), 4 << 20, 1);
    fs::write(at.join("lines"), "one\ntwo\n").unwrap();
    let script = "(read first; dio advise --device profile --rounds 1 --prove -- sh -c \
                  'read line; mktemp -d seen-$line.XXXXXX; cat big >&2') < lines 2> said";
    let programs = Path::new(env!("CARGO_BIN_EXE_dio")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).env("PATH", path).current_dir(at).env("HOME", at);
    assert!(shell.output().unwrap().status.success());
    let seen = named(at, "seen-");
    assert!(seen.len() >= 2 && seen == named(at, "seen-two."), "{seen:?}");
    let mut piped = Command::new(env!("CARGO_BIN_EXE_dio"));
    piped.args(["advise", "--prove", "--", "touch", "ran"]).current_dir(at);
    let output = piped.stdin(std::process::Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(said(&output).contains("standard input is a pipe"), "{}", said(&output));
    assert!(!at.join("ran").exists());
}

#[test]
fn what_cannot_be_advised_says_why() {
    let Some(dir) = scratch() else { return skip!("commands cannot be watched here") };
    let at = dir.path();
    fs::write(at.join("none"), "{}").unwrap();
    let mut profile = json(&at.join("profile"));
    profile["version"] = 99.into();
    fs::write(at.join("other"), profile.to_string()).unwrap();
    random_file(at.join("big"), 10_000, 1);
    for (profile, why) in [
        ("absent", "cannot read 'absent': No such file or directory"),
        ("none", "it is no profile of `dio probe --speed`"),
        ("other", "its version is 99"),
    ] {
        let output = run(at, &["advise", "--device", profile, "--", "cat", "big"]);
        assert_eq!(output.status.code(), Some(125), "{}", said(&output));
        assert!(said(&output).contains(why), "{}", said(&output));
    }
    let output = run(at, &["advise", "--", "true"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("no requests to files that could go another way"));
    let output = run(at, &["advise", "absent"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cannot read 'absent'"), "{}", said(&output));
    let output = run(at, &["advise", "--", "/absent/program"]);
    assert_eq!(output.status.code(), Some(127), "{}", said(&output));
    // A trace of another machine needs a profile; so does one of a disk that is not here any more.
    let output = run(at, &["record", "-o", "trace", "--", "cat", "big"]);
    assert!(output.status.success());
    assert_eq!(run(at, &["advise", "--device", "profile", "trace"]).status.code(), Some(0));
}
