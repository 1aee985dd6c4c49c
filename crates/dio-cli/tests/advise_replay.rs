//! `dio replay`: its requests are the recorded ones, on other files, and it takes as long.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use dio_advise::trace::{Call, Event, read};

use crate::advise::{dio, run, scratch};
use crate::own::{Running, is_root, random_file, skip};

/// Records a script; `None` where commands cannot be watched.
fn recorded(dir: &Path, script: &str) -> Option<()> {
    let output = run(dir, &["record", "-o", "trace", "sh", "-c", script]);
    (output.status.code() != Some(125)).then_some(())
}

/// A request without its thread: what is done where, whether by an offset of its own or not, and
/// whether the file was open for direct I/O.
type Made = (&'static str, u64, u64, u64, bool);

/// The requests to each file by thread. Threads and files are in the order of their requests.
fn requests(trace: &[u8], of_replay: bool) -> BTreeMap<u32, Vec<(u32, Made)>> {
    let (mut threads, mut files) = (Vec::new(), Vec::new());
    let mut made: BTreeMap<u32, Vec<(u32, Made)>> = BTreeMap::new();
    read(trace, |event| match event {
        Event::Thread { name, .. } => {
            let name = String::from_utf8_lossy(&name).into_owned();
            threads.push(match name.strip_prefix("replay-") {
                Some(number) if of_replay => number.parse().ok(),
                _ if of_replay => None,
                _ => Some(threads.len() as u32),
            });
        }
        Event::File(file) => {
            let name = String::from_utf8_lossy(&file.path).into_owned();
            files.push(match Path::new(&name).file_name() {
                Some(name) if of_replay => name.to_str().unwrap().parse().ok(),
                // One that was mapped by a process which had ended before it was asked.
                None if of_replay => None,
                _ => Some(files.len() as u32),
            });
        }
        Event::Request(request) => {
            let what = match request.call {
                Call::Read | Call::Pread | Call::Readv | Call::Preadv => "read",
                Call::Write | Call::Pwrite | Call::Writev | Call::Pwritev => "write",
                Call::Fault if request.done > 0 => "read",
                Call::Open | Call::Mmap | Call::Fault | Call::Stat => return,
                other => other.name(),
            };
            let (thread, file) = (threads[request.thread as usize], files[request.file as usize]);
            if let (Some(thread), Some(file), Ok(done)) =
                (thread, file, u64::try_from(request.done))
            {
                let one = (what, request.offset, request.asked, done, request.direct);
                made.entry(thread).or_default().push((file, one));
            }
        }
        _ => {}
    })
    .unwrap();
    made
}

/// Leaves out requests to what is no file.
fn of_files(dir: &Path, made: BTreeMap<u32, Vec<(u32, Made)>>) -> BTreeMap<u32, Vec<(u32, Made)>> {
    let mut kept = Vec::new();
    read(&fs::read(dir.join("trace")).unwrap()[..], |event| {
        if let Event::File(file) = event {
            kept.push(file.kind == dio_advise::trace::FileKind::Regular);
        }
    })
    .unwrap();
    let only = |requests: Vec<(u32, Made)>| -> Vec<_> {
        requests.into_iter().filter(|(file, _)| kept[*file as usize]).collect()
    };
    let mut made: BTreeMap<_, _> = made.into_iter().map(|(key, all)| (key, only(all))).collect();
    made.retain(|_, requests| !requests.is_empty());
    made
}

#[test]
fn the_requests_are_those_that_were_recorded() {
    let dir = scratch();
    random_file(dir.path().join("a"), 3_000_001, 1);
    random_file(dir.path().join("b"), 70_000, 2);
    let before =
        || (fs::read(dir.path().join("a")).unwrap(), fs::read(dir.path().join("b")).unwrap());
    let contents = before();
    for script in [
        "tar cf archive a b; sort -o sorted b; sha256sum a < b",
        "dd if=a of=copy bs=777 conv=fsync status=none; dd if=a bs=64k skip=3 of=copy seek=9 \
         oflag=direct iflag=direct count=20 conv=notrunc status=none",
        "ls a b a b | xargs -P 4 -n 1 cksum; (cat a; cat b) | tail -c 100 > tail",
        "python3 -c 'import os, random\nf = os.open(\"c\", os.O_RDWR | os.O_CREAT)\n\
         os.ftruncate(f, 1 << 20)\nfor i in range(500):\n  os.pwrite(f, b\"x\" * 700, \
         random.randrange(1 << 20) // 700 * 700)\n  os.pread(f, 4096, random.randrange(1 << 20))\n  \
         if i % 100 == 0: os.fdatasync(f)\n'",
    ] {
        if recorded(dir.path(), script).is_none() {
            return skip!("commands cannot be watched here");
        }
        let output = run(
            dir.path(),
            &["record", "-o", "again", env!("CARGO_BIN_EXE_dio"), "replay", "trace"],
        );
        assert!(output.status.success(), "{script}: {output:?}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!said.contains("another number of bytes"), "{script}: {said}");
        let theirs =
            of_files(dir.path(), requests(&fs::read(dir.path().join("trace")).unwrap(), false));
        let ours = requests(&fs::read(dir.path().join("again")).unwrap(), true);
        assert!(theirs.values().map(Vec::len).sum::<usize>() > 100, "{script}: {theirs:?}");
        for (thread, requests) in &theirs {
            assert_eq!(Some(requests), ours.get(thread), "{script}: thread {thread}");
        }
        assert_eq!(theirs.len(), ours.len(), "{script}");
    }
    assert!(before() == contents, "the recorded files are not touched");
    let stays = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!stays.into_iter().any(|name| name.to_string_lossy().starts_with("dio-replay")));
}

#[test]
fn every_way_moves_the_recorded_bytes() {
    let dir = scratch();
    random_file(dir.path().join("a"), 1_000_001, 1);
    if recorded(dir.path(), "dd if=a of=b bs=3000 status=none; cat a b > /dev/null").is_none() {
        return skip!("commands cannot be watched here");
    }
    let mut ways = vec!["cached", "direct", "concurrent", "uncached", "streams"];
    if is_root() {
        ways.extend(["mount", "mount=cio"]);
    }
    for way in ways {
        for speed in ["as-recorded", "as-fast-as-possible"] {
            let arguments = ["replay", "-o", way, "--speed", speed, "--json", "trace"];
            let output = run(dir.path(), &arguments);
            assert!(output.status.success(), "{way}: {output:?}");
            let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(result["differing"], 0, "{way}: {result:#}");
            let bytes = result["bytes"].as_u64().unwrap();
            assert!(
                bytes > 4_000_000 && result["requests"].as_u64() > Some(600),
                "{way}: {result:#}"
            );
        }
    }
}

#[test]
fn what_cannot_be_replayed_is_told() {
    let dir = scratch();
    let said = |arguments: &[&str]| {
        let output = run(dir.path(), arguments);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said(&["replay", "missing"]).contains("cannot read 'missing': No such file"));
    fs::write(dir.path().join("text"), "text").unwrap();
    assert!(said(&["replay", "text"]).contains("'text': it is no trace"));
    assert!(said(&["replay", "-o", "warp", "text"]).contains("it is none of cached, direct"));
    if recorded(dir.path(), "sleep 1000 & sleep 0.1; kill $!").is_none() {
        return skip!("commands cannot be watched here");
    }
    assert!(said(&["replay", "--dir", "missing", "trace"]).contains("missing: No such file"));
}

fn fio(dir: &Path, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new("fio");
    command.args(["--name=job", "--output-format=json"]).args(arguments);
    command.current_dir(dir).output().ok()
}

fn good(dir: &Path, arguments: &[&str]) -> Output {
    let output = run(dir, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    output
}

fn parsed(text: &[u8]) -> serde_json::Value {
    let start = text.iter().position(|byte| *byte == b'{').unwrap();
    serde_json::from_slice(&text[start..]).unwrap()
}

#[test]
fn fio_makes_the_requests_of_an_exported_trace() {
    let dir = scratch();
    let path = dir.path();
    random_file(path.join("a"), 300_000, 1);
    if recorded(path, "dd if=a of=b bs=4000 conv=fsync status=none; cat b > /dev/null").is_none() {
        return skip!("commands cannot be watched here");
    }
    fs::create_dir(path.join("files")).unwrap();
    let arguments = ["record", "export", "--format", "iolog", "--files", "files", "-o", "log"];
    good(path, &[&arguments[..], &["trace"]].concat());
    let Some(replayed) = fio(path, &["--read_iolog=log", "--replay_no_stall=1"]) else {
        return skip!("fio is not there");
    };
    assert!(replayed.status.success(), "{replayed:?}");
    let job = &parsed(&replayed.stdout)["jobs"][0];
    let log = fs::read_to_string(path.join("log")).unwrap();
    for action in ["read", "write"] {
        let lines = log.lines().filter(|line| line.split(' ').nth(2) == Some(action));
        let lengths: Vec<u64> =
            lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        let (count, bytes) = (lengths.len(), lengths.iter().sum::<u64>());
        assert_eq!(
            (&job[action]["total_ios"], &job[action]["io_bytes"]),
            (&count.into(), &bytes.into())
        );
        assert!(bytes >= 300_000 && count >= 75, "{log}");
    }
}

#[test]
fn a_log_of_fio_is_imported_and_replayed() {
    let dir = scratch();
    let path = dir.path();
    let arguments =
        ["--size=256k", "--rw=randrw", "--fsync=8", "--filename=f", "--write_iolog=log"];
    let Some(written) = fio(path, &arguments) else { return skip!("fio is not there") };
    assert!(written.status.success(), "{written:?}");
    good(path, &["record", "import", "--format", "iolog", "-o", "trace", "log"]);
    let result = parsed(&good(path, &["replay", "--json", "trace"]).stdout);
    assert_eq!(
        (&result["bytes"], &result["differing"]),
        (&262_144.into(), &0.into()),
        "{result:#}"
    );
}

#[test]
fn a_table_comes_back_and_what_is_none_is_told() {
    let dir = scratch();
    let path = dir.path();
    random_file(path.join("a"), 300_000, 1);
    if recorded(path, "dd if=a of=b bs=4000 conv=fsync status=none; cat b > /dev/null").is_none() {
        return skip!("commands cannot be watched here");
    }
    for words in [
        "export --format csv -o t.csv trace",
        "import --format csv -o t2 t.csv",
        "export --format csv -o t2.csv t2",
        "export --format blkparse -o t.txt trace",
        "import --format blkparse -o t3 t.txt",
    ] {
        good(path, &[&["record"], &words.split(' ').collect::<Vec<_>>()[..]].concat());
    }
    let lines = |name: &str| fs::read_to_string(path.join(name)).unwrap().lines().count();
    assert!(lines("t.csv") > 150);
    assert_eq!(lines("t.csv"), lines("t2.csv"));
    let bad = run(path, &["record", "import", "--format", "csv", "-o", "t4", "t.txt"]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&bad.stderr).contains("'t.txt': line 1: it has no headings"),
        "{bad:?}"
    );
}

#[test]
fn a_signal_stops_it_and_its_files_go() {
    let dir = scratch();
    random_file(dir.path().join("a"), 100_000, 1);
    if recorded(dir.path(), "cat a > b; sleep 3; cat b > c").is_none() {
        return skip!("commands cannot be watched here");
    }
    let running = Running::spawn(&mut dio(dir.path(), &["replay", "trace"]));
    let is_there = || {
        let mut names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.any(|name| name.to_string_lossy().starts_with("dio-replay"))
    };
    dio_test::until("the files are made", is_there);
    running.signal(rustix::process::Signal::TERM);
    let output = running.end();
    assert_eq!(crate::own::signal_of(&output), Some(15), "{output:?}");
    assert!(!is_there());
}
