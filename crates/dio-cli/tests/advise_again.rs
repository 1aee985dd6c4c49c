//! Commands that `dio advise --prove` does not run again, since more would be changed.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::advise::{run, said};
use crate::advise_verdict::{can_mount, json, scratch};
use crate::own::skip;

/// A file that is put back may not fit to others that runs have changed.
#[test]
fn files_that_may_belong_together_are_changed_again_only_if_asked_for() {
    let Some(dir) = scratch() else { return skip!("commands cannot be watched here") };
    if !can_mount() {
        return skip!("FUSE cannot be mounted here");
    }
    let at = dir.path();
    for name in ["table", "index"] {
        fs::write(at.join(name), vec![0; 1 << 20]).unwrap();
    }
    let script = "import os\nfor name in 'table', 'index':\n    \
                  with open(name, 'r+b') as file:\n        \
                  count = file.read(1)[0] + 1\n        \
                  file.seek(0)\n        file.write(bytes([count]))\n        os.fsync(file)\n";
    let prove = |more: &[&str]| {
        let line = ["advise", "--device", "profile", "--json", "-o", "verdict", "--prove"];
        let output = run(at, &[&line[..], more, &["--", "python3", "-c", script]].concat());
        assert!(output.status.success(), "{}", said(&output));
        json(&at.join("verdict"))
    };
    let runs = || ["table", "index"].map(|name| fs::read(at.join(name)).unwrap()[0]);
    let verdict = prove(&[]);
    assert_eq!(runs(), [1, 1], "{verdict}");
    let told = "nothing is proved: the command changes files that may belong together";
    assert!(verdict["missing"].to_string().contains(told), "{verdict}");
    let verdict = prove(&["--repeat"]);
    let ways = verdict["ways"].as_array().unwrap();
    assert!(ways.iter().all(|way| way["measured_seconds"].is_number()), "{verdict}");
    let all = 2 + 3 * ways.len() as u8;
    assert_eq!(runs(), [all, all], "{verdict}");
}

/// Names that a run changes cannot be put back. Each command ran once, and the file has the line.
#[test]
fn names_of_others_are_not_changed_again() {
    let Some(dir) = scratch() else { return skip!("commands cannot be watched here") };
    let at = dir.path();
    let source = vec![b'x'; 1 << 20];
    for (command, file, line) in [
        ("sed -i.bak 1d list", "list.bak", "1"),
        ("cat src > new; mv old older; mv new old", "older", "0"),
        ("cat src > backup.3; rm backup.1", "backup.2", "0"),
        ("cat src > out; ln list other; mkdir d; mv other d", "d/other", "1"),
        ("cat src > out; python3 -c \"import os; os.truncate('list', 2)\"", "list", "1"),
        ("cat src > out; echo 0 >> linked; cat linked > 2nd", "linked", "0"),
    ] {
        fs::create_dir(at.join("work")).unwrap();
        let work = at.join("work");
        fs::write(work.join("src"), &source).unwrap();
        fs::write(work.join("list"), "1\n2\n3\n").unwrap();
        for name in ["old", "backup.1", "backup.2", "linked"] {
            fs::write(work.join(name), "0\n").unwrap();
        }
        fs::hard_link(work.join("linked"), work.join("second")).unwrap();
        let line_of = ["advise", "--device", "../profile", "--json", "-o", "../verdict", "--prove"];
        let output = run(&work, &[&line_of[..], &["--", "sh", "-c", command]].concat());
        assert!(output.status.success(), "{command}: {}", said(&output));
        let verdict = json(&at.join("verdict"));
        let missing = verdict["missing"].to_string();
        assert!(missing.contains("nothing is proved") && missing.contains("--repeat"), "{verdict}");
        let text = fs::read_to_string(work.join(file)).unwrap();
        assert_eq!(text.lines().next(), Some(line), "{command}");
        assert!(text.len() < 10, "{command}: {text:?}");
        fs::remove_dir_all(work).unwrap();
    }
}

/// Each run finds a file that is appended to as the recorded one has left it, and temporary files
/// of a command are its own.
#[test]
fn each_run_finds_the_same() {
    let Some(dir) = scratch() else { return skip!("commands cannot be watched here") };
    if !can_mount() {
        return skip!("FUSE cannot be mounted here");
    }
    let at = dir.path();
    fs::write(at.join("log"), vec![b'x'; 1 << 20]).unwrap();
    let lengths = tempfile::tempdir_in("/dev/shm").unwrap();
    let script = format!(
        "cat log log > temporary; rm temporary; wc -c < log > $(mktemp -p {}); echo more >> log",
        lengths.path().display()
    );
    let line = ["advise", "--device", "profile", "--json", "-o", "verdict", "--prove", "--"];
    let output = run(at, &[&line[..], &["sh", "-c", &script]].concat());
    assert!(output.status.success(), "{}", said(&output));
    let verdict = json(&at.join("verdict"));
    let measured = |way: &Value| way["measured_seconds"].is_number();
    assert!(verdict["ways"].as_array().unwrap().iter().all(measured), "{verdict}");
    let found = fs::read_dir(lengths.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<u64> =
        found.map(|path| fs::read_to_string(path).unwrap().trim().parse().unwrap()).collect();
    found.sort_unstable();
    assert_eq!((found[0], found[1]), (1 << 20, (1 << 20) + 5));
    assert!(found[1..].iter().all(|length| *length == found[1]), "{found:?}");
    assert_eq!(fs::metadata(at.join("log")).unwrap().len(), (1 << 20) + 5);
    let sqlite =
        ["sh", "-c", "sqlite3 db 'create table if not exists t(a); insert into t values(1)'"];
    assert!(
        Command::new("sqlite3")
            .args(["db", "create table t(a)"])
            .current_dir(at)
            .status()
            .unwrap()
            .success()
    );
    let output = run(at, &[&line[..], &sqlite].concat());
    assert!(output.status.success(), "{}", said(&output));
    assert!(!json(&at.join("verdict"))["missing"].to_string().contains("nothing is proved"));
    let rows =
        Command::new("sqlite3").args(["db", "select count(*) from t"]).current_dir(at).output();
    assert_eq!(rows.unwrap().stdout, b"1\n");
}
