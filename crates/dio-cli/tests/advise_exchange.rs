//! The files that `dio record` writes and reads: an old one stays until its successor is whole, a
//! damaged one is used up to the damage, and what is no trace or table is refused.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use dio_advise::trace::{Call, Event, read};

use crate::advise::{dio, is_watchable, run, said, scratch};
use crate::own::{names, skip};

const HEADINGS: &str = "start_ns,duration_ns,pid,tid,program,call,path,kind,size,offset,asked,done,\
                        cached,flags,direct,synced,waited,to";

/// A table with a call at each of these offsets, to files of 1 MiB.
fn table(calls: impl Iterator<Item = (u64, &'static str, &'static str)>) -> String {
    let line = |(offset, call, path)| {
        format!(
            "{offset},5,7,8,job,{call},{path},regular,1048576,{offset},512,512,0,0,\
                 false,false,false,\n"
        )
    };
    HEADINGS.to_owned() + "\n" + &calls.map(line).collect::<String>()
}

/// Imports a table as a trace of a name.
fn import(dir: &Path, table: &str, name: &str) -> Output {
    fs::write(dir.join("table"), table).unwrap();
    run(dir, &["record", "import", "--format", "csv", "-o", name, "table"])
}

fn refused(output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said(output).contains(why), "{output:?}");
}

#[test]
fn an_old_file_stays_until_the_new_one_is_whole() {
    let dir = scratch();
    let path = dir.path();
    let reads = (0..4).map(|number| (number << 9, "read", "/data/a"));
    assert!(import(path, &table(reads.chain([(0, "write", "/data/b")])), "trace").status.success());
    let trace = fs::read(path.join("trace")).unwrap();
    fs::write(path.join("old"), "old").unwrap();
    let before = names(path);
    let export = |format, output, trace| {
        run(path, &["record", "export", "--format", format, "-o", output, trace])
    };
    for format in ["csv", "iolog", "blkparse"] {
        refused(&export(format, "trace", "trace"), "it is the file that is read");
    }
    refused(&export("iolog", "old", "trace"), "fio would write to the recorded files");
    refused(&export("iolog", "new", "trace"), "fio would write to the recorded files");
    refused(&export("csv", "old", "table"), "it is no trace");
    refused(&import(path, "garbage\n", "trace"), "line 1: it has no headings of a table");
    refused(&import(path, &table([(0, "warp", "/a")].into_iter()), "trace"), "no call warp");
    refused(&import(path, HEADINGS, "old"), "it exists, and is no trace");
    assert_eq!(fs::read(path.join("trace")).unwrap(), trace);
    assert_eq!(fs::read(path.join("old")).unwrap(), b"old");
    assert_eq!(names(path), before);
    assert!(export("csv", "old", "trace").status.success());
    let whole = fs::read_to_string(path.join("old")).unwrap();
    assert_eq!(whole.lines().count(), 6, "{whole}");
    let direct = run(path, &["record", "export", "--format", "csv", "-o", "/dev/stdout", "trace"]);
    assert_eq!(String::from_utf8(direct.stdout).unwrap(), whole);
}

#[test]
fn a_command_that_cannot_be_started_leaves_the_old_trace() {
    let dir = scratch();
    let path = dir.path();
    if !is_watchable(path) {
        return skip!("commands cannot be watched here");
    }
    assert!(run(path, &["record", "-o", "trace", "true"]).status.success());
    let trace = fs::read(path.join("trace")).unwrap();
    for name in ["trace", "new"] {
        for watch in [&[][..], &["--watch", "ptrace"]] {
            let output = run(path, &[&["record", "-o", name], watch, &["./missing"]].concat());
            assert!(matches!(output.status.code(), Some(127 | 125)), "{output:?}");
        }
    }
    assert_eq!(fs::read(path.join("trace")).unwrap(), trace);
    assert!(!path.join("new").exists());
    assert!(Command::new("mkfifo").arg(path.join("fifo")).status().unwrap().success());
    let reader = Command::new("cat").arg(path.join("fifo")).stdout(Stdio::piped()).spawn().unwrap();
    let output = dio(path, &["record", "-o", "fifo", "true"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let passed_on = reader.wait_with_output().unwrap().stdout;
    read(&passed_on[..], |_| {}).unwrap();
}

#[test]
fn what_has_no_requests_by_mistake_is_refused() {
    let dir = scratch();
    let path = dir.path();
    fs::write(path.join("empty"), "").unwrap();
    fs::write(path.join("idle"), "CPU0 (8,16):\n Reads Queued: 0\n").unwrap();
    fs::write(path.join("bytes"), [0xff, 0, 0xfe, b'\n']).unwrap();
    for name in ["empty", "idle", "bytes"] {
        for format in ["csv", "iolog", "blkparse"] {
            let output = run(path, &["record", "import", "--format", format, "-o", "trace", name]);
            assert_eq!(output.status.code(), Some(1), "{format} {name}: {output:?}");
            assert!(!path.join("trace").exists(), "{format} {name}");
        }
    }
    // A command that made no requests has a table, too.
    assert!(import(path, HEADINGS, "trace").status.success());
    let export = ["record", "export", "--format", "csv", "-o", "again", "trace"];
    assert!(run(path, &export).status.success());
    let again = ["record", "import", "--format", "csv", "-o", "trace2", "again"];
    assert!(run(path, &again).status.success());
}

#[test]
fn a_copy_to_an_explicit_place_is_replayed_there() {
    let dir = scratch();
    let path = dir.path();
    let script = "import os\n\
        f = os.open('f', os.O_RDWR | os.O_CREAT)\n\
        os.write(f, bytes(200000))\n\
        os.lseek(f, 0, 0)\n\
        assert os.copy_file_range(f, f, 65536, 0, 131072) == 65536\n\
        g = os.open('g', os.O_RDWR | os.O_CREAT)\n\
        os.lseek(g, 20000, 0)\n\
        assert os.copy_file_range(f, g, 8000, 1000, 50) == 8000\n\
        assert os.sendfile(g, f, 300, 7000) == 7000\n\
        r, w = os.pipe()\n\
        os.write(w, bytes(5000))\n\
        assert os.splice(r, g, 5000, None, 40000) == 5000\n\
        assert os.splice(g, w, 3000, 500, None) == 3000\n";
    // The interpreter itself: `python3` may be a script that starts other programs, whose requests
    // a replay makes in no order to those of each other.
    let found = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    let interpreter = String::from_utf8(found.unwrap().stdout).unwrap();
    let python = [interpreter.trim(), "-I", "-S", "-c", script];
    for watch in ["bpf", "ptrace"] {
        let _ = (fs::remove_file(path.join("f")), fs::remove_file(path.join("g")));
        let record = ["record", "--watch", watch, "-o", "trace"];
        let output = run(path, &[&record[..], &python].concat());
        if output.status.code() == Some(125) {
            skip!("commands cannot be watched here by {watch}");
            continue;
        }
        assert!(output.status.success(), "{output:?}");
        let mut copies = Vec::new();
        read(&fs::read(path.join("trace")).unwrap()[..], |event| match event {
            Event::Request(request) if request.call.copies() => {
                copies.push((request.call, request.offset, request.to_offset));
            }
            _ => {}
        })
        .unwrap();
        let expected = [
            (Call::CopyFileRange, 0, Some(131_072)),
            (Call::CopyFileRange, 1000, Some(50)),
            (Call::Sendfile, 300, Some(20_000)),
            (Call::Splice, 0, Some(40_000)),
            (Call::Splice, 500, None),
        ];
        assert_eq!(copies, expected, "{watch}");
        let arguments = ["record", "export", "--format", "csv", "-o", "table", "trace"];
        assert!(run(path, &arguments).status.success());
        let arguments = ["record", "import", "--format", "csv", "-o", "imported", "table"];
        assert!(run(path, &arguments).status.success());
        for (way, trace) in [
            ("cached", "trace"),
            ("cached", "imported"),
            ("direct", "trace"),
            ("concurrent", "trace"),
            ("uncached", "trace"),
            ("streams", "trace"),
        ] {
            let output = run(path, &["replay", "-o", way, "--json", trace]);
            assert!(output.status.success(), "{watch} {way} {trace}: {output:?}");
            let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(result["differing"], 0, "{watch} {way} {trace}: {result:#}");
        }
    }
}

#[test]
fn a_damaged_trace_is_used_up_to_the_damage() {
    let dir = scratch();
    let path = dir.path();
    let reads = (0..30_000).map(|number| ((number * 7 % 2048) << 9, "pread", "/data/a"));
    assert!(import(path, &table(reads), "trace").status.success());
    let mut trace = fs::read(path.join("trace")).unwrap();
    let at = trace.len() * 6 / 10;
    trace[at] ^= 4;
    fs::write(path.join("damaged"), &trace).unwrap();
    let output = run(path, &["replay", "--json", "--speed", "as-fast-as-possible", "damaged"]);
    refused(&output, "'damaged': it is damaged at byte ");
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let requests = result["requests"].as_u64().unwrap();
    assert!((5_000..25_000).contains(&requests) && result["differing"] == 0, "{result:#}");
    assert!(result["damage"].as_str().unwrap().contains("damaged"), "{result:#}");
    let output = run(path, &["record", "export", "--format", "csv", "-o", "some", "damaged"]);
    refused(&output, "it is damaged at byte ");
    let lines = fs::read_to_string(path.join("some")).unwrap().lines().count();
    assert_eq!(lines as u64, requests + 1);
    // Nothing is sound before this damage.
    trace[20] ^= 4;
    fs::write(path.join("damaged"), &trace).unwrap();
    let output = run(path, &["replay", "damaged"]);
    refused(&output, "'damaged': it is damaged at byte 12");
    assert!(output.stdout.is_empty(), "{output:?}");
}

#[test]
fn files_of_a_log_go_if_it_is_not_written() {
    let dir = scratch();
    let path = dir.path();
    let calls = [(0, "read", "/data/a"), (512, "read", "/data/b"), (0, "write", "/data/c")];
    assert!(import(path, &table(calls.into_iter()), "trace").status.success());
    let export = |files: &str, output| {
        let head = ["record", "export", "--format", "iolog", "--files", files, "-o", output];
        run(path, &[&head[..], &["trace"]].concat())
    };
    for files in ["files", "with space", "taken"] {
        fs::create_dir(path.join(files)).unwrap();
    }
    refused(&export("files", "/dev/full"), "cannot write '/dev/full': No space left");
    refused(&export("with space", "log"), "the format has no names with spaces");
    fs::write(path.join("taken/000001"), "of the user").unwrap();
    refused(&export("taken", "log"), "File exists");
    assert_eq!((names(&path.join("files")).len(), names(&path.join("with space")).len()), (0, 0));
    assert_eq!(names(&path.join("taken")), ["000001"]);
    assert_eq!(fs::read(path.join("taken/000001")).unwrap(), b"of the user");
    assert!(!path.join("log").exists());
    assert!(export("files", "log").status.success());
    assert_eq!(names(&path.join("files")).len(), 3);
}

#[test]
fn an_error_of_a_replay_names_the_file_plainly() {
    let dir = scratch();
    let path = dir.path();
    let text = table([(0, "fallocate", "/data/a")].into_iter()).replace("512,0,0", "512,0,65535");
    assert!(import(path, &text, "trace").status.success());
    let output = run(path, &["replay", "trace"]);
    refused(&output, "fallocate of ");
    assert!(!said(&output).contains("/./"), "{output:?}");
}
