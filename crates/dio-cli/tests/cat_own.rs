//! Guarantees of `dio cat` and `dio tee` beyond their models: no pages stay in the page cache, no
//! bytes are held back when the input pauses or the process is asked to end, and errors of full and
//! read-only file systems are reported in known words.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::own::{Mounted, cold, in_memory, until};
use crate::pass::{MIB, Rng, Seed, file_systems, start, text, tool};
use rustix::process::Signal;

/// Time that a process has to write what it holds after a signal asked it to end.
const GRACE: Duration = Duration::from_secs(3);

/// Bytes that arrive together are in the file soon after, even if the input stays open.
#[test]
fn a_pause_brings_everything_into_the_files() {
    let seed = Seed::new();
    for fs in file_systems() {
        let dir = fs.dir();
        let out = dir.path().join("out");
        for (name, args) in [("cat", &[][..]), ("cat", &["-n"]), ("tee", &["copy"])] {
            let mut rng = seed.rng();
            let mut tool = tool(name);
            let running = tool
                .args(args)
                .current_dir(dir.path())
                .stdin(Stdio::piped())
                .stdout(File::create(&out).unwrap());
            let mut running = crate::pass::Started(running.spawn().unwrap());
            let mut given = Vec::new();
            for size in [1, 3000, MIB + 17, 5] {
                let mut bytes = rng.bytes(size);
                if args == ["-n"] {
                    bytes.fill(b'x');
                }
                running.write(&bytes);
                given.extend_from_slice(&bytes);
                let length = if args == ["-n"] { given.len() + 7 } else { given.len() };
                until("the file has what was given", || {
                    out.metadata().unwrap().len() == length as u64
                });
                if args.is_empty() {
                    assert!(
                        std::fs::read(&out).unwrap() == given,
                        "{} after {}",
                        fs.name,
                        given.len()
                    );
                }
                if name == "tee" {
                    until("the copy, too", || {
                        std::fs::read(dir.path().join("copy")).unwrap() == given
                    });
                }
            }
        }
    }
}

/// An input that trickles never pauses; still no byte is held back for long.
#[test]
fn a_trickle_arrives() {
    let dir = file_systems()[0].dir();
    let out = dir.path().join("out");
    let mut running = tool("cat");
    running.stdin(Stdio::piped()).stdout(File::create(&out).unwrap());
    let mut running = crate::pass::Started(running.spawn().unwrap());
    // At this rate a block would be full only after hours.
    until("a part arrives", || {
        running.write(b"line\n");
        std::thread::sleep(Duration::from_millis(50));
        out.metadata().unwrap().len() >= 5 * 20
    });
}

/// Bytes for pipes are passed on at once, whatever kind the other outputs are.
#[test]
fn pipes_get_what_one_read_gave() {
    let dir = file_systems()[0].dir();
    for (name, args) in [("cat", &["-n"][..]), ("cat", &[]), ("tee", &["copy"]), ("tee", &[])] {
        let mut running = start(tool(name).args(args).current_dir(dir.path()));
        let mut stdout = running.0.stdout.take().unwrap();
        for _ in 0..20 {
            running.write(b"a\n");
            let mut answer = [0; 2];
            stdout.read_exact(&mut answer[..1]).unwrap();
            while answer[0] != b'a' {
                stdout.read_exact(&mut answer[..1]).unwrap();
            }
            stdout.read_exact(&mut answer[1..]).unwrap();
            assert_eq!(answer, *b"a\n", "{name} {args:?}");
        }
    }
}

#[test]
fn what_a_signal_ends_has_written_what_it_held() {
    let dir = file_systems()[0].dir();
    let copy = dir.path().join("copy");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut running = start(tool("tee").arg(&copy));
        let given = Rng::new(9).bytes(300_000);
        let mut stdout = running.0.stdout.take().unwrap();
        running.write(&given);
        stdout.read_exact(&mut vec![0; given.len()]).unwrap();
        running.signal(signal);
        let mut ended = None;
        let took = until("it ends", || {
            ended = running.0.try_wait().unwrap();
            ended.is_some()
        });
        assert_eq!(ended.unwrap().signal(), Some(signal.as_raw()));
        let all = std::fs::read(&copy).unwrap() == given;
        // The process takes no longer than its grace period, even if the disk would.
        assert!(all || took >= GRACE, "{} bytes in {took:?}", copy.metadata().unwrap().len());
    }
}

/// A reader that has stopped reading must not make `tee` immune to signals.
#[test]
fn a_blocked_pipe_does_not_keep_it_from_ending() {
    let (mut running, _dir) = blocked();
    running.signal(Signal::TERM);
    let took = until("it ends", || running.0.try_wait().unwrap().is_some());
    assert!(took > GRACE / 2, "it does not wait at all: {took:?}");
    // The second signal ends it at once. Several attempts are made, because the machine may be
    // busy.
    let at_once = (0..6).any(|_| {
        let (mut running, _dir) = blocked();
        running.signal(Signal::TERM);
        crate::own::until_taken(rustix::process::Pid::from_child(&running.0), Signal::TERM);
        // What comes at once belongs to the first one.
        std::thread::sleep(Duration::from_millis(150));
        running.signal(Signal::INT);
        until("it ends", || running.0.try_wait().unwrap().is_some()) < GRACE / 2
    });
    assert!(at_once, "the second signal is not obeyed at once");
}

/// A `tee` of an endless input whose standard output is full.
fn blocked() -> (crate::pass::Started, tempfile::TempDir) {
    let dir = file_systems()[0].dir();
    let mut running = tool("tee");
    running
        .arg(dir.path().join("copy"))
        .stdin(File::open("/dev/zero").unwrap())
        .stdout(Stdio::piped());
    let running = crate::pass::Started(running.spawn().unwrap());
    let (pid, stdout) =
        (rustix::process::Pid::from_child(&running.0), running.0.stdout.as_ref().unwrap());
    crate::own::until_caught(pid, Signal::TERM);
    until("the pipe is full", || {
        crate::own::waiting(stdout) >= rustix::pipe::fcntl_getpipe_size(stdout).unwrap() as u64
    });
    crate::own::until_asleep(pid);
    (running, dir)
}

#[test]
fn interrupts_are_ignored_where_that_is_asked() {
    let dir = file_systems()[0].dir();
    for files in [&["-i"][..], &["-i", "copy"]] {
        let mut running = start(tool("tee").args(files).current_dir(dir.path()));
        let mut stdout = running.0.stdout.take().unwrap();
        running.write(b"a");
        stdout.read_exact(&mut [0]).unwrap();
        for _ in 0..3 {
            running.signal(Signal::INT);
            std::thread::sleep(Duration::from_millis(20));
        }
        running.write(b"b");
        stdout.read_exact(&mut [0]).unwrap();
        drop(running.0.stdin.take());
        assert!(running.0.wait().unwrap().success());
    }
    assert_eq!(std::fs::read(dir.path().join("copy")).unwrap(), b"ab");
}

/// With `-p`, where a closed pipe is no error, `tee` notices the closed pipe although no input
/// arrives.
#[test]
fn tee_ends_with_its_last_reader() {
    let mut running = start(tool("tee").arg("-p"));
    drop(running.0.stdout.take());
    until("it ends", || running.0.try_wait().unwrap().is_some());
    assert!(running.0.wait().unwrap().success());
}

/// Pieces of any size and at any pace, through every kind of output.
#[test]
fn pieces_do_not_matter() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let dir = file_systems()[0].dir();
    let path = |name: &str| dir.path().join(name);
    for round in 0..12 {
        let size = rng.range_usize(0..3 * MIB);
        let bytes = text(&mut rng, size);
        std::fs::write(path("in"), &bytes).unwrap();
        let flags = *rng.pick(&["-A", "-n", "-bs", "-E", "-T", "-u"]);
        let expected = Command::new("cat")
            .args([flags, "in"])
            .current_dir(dir.path())
            .output()
            .unwrap()
            .stdout;
        let mut cat = tool("cat");
        let mut tee = tool("tee");
        let mut cat = cat.arg(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let from_cat = cat.stdout.take().unwrap();
        tee.args(["copy", "other"])
            .current_dir(dir.path())
            .stdin(from_cat)
            .stdout(File::create(path("out")).unwrap());
        let mut tee = tee.spawn().unwrap();
        let mut stdin = cat.stdin.take().unwrap();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let most = *rng.pick(&[10, 5000, 70_000, 2 * MIB]);
            let (piece, left) = rest.split_at(rng.range_usize(0..most.min(rest.len()) + 1));
            stdin.write_all(piece).unwrap();
            rest = left;
            if rng.bool(0.02) {
                std::thread::sleep(Duration::from_millis(230));
            }
        }
        drop(stdin);
        assert!(cat.wait().unwrap().success() && tee.wait().unwrap().success());
        for name in ["copy", "other", "out"] {
            assert!(
                std::fs::read(path(name)).unwrap() == expected,
                "round {round}: cat {flags} of {size} bytes: {name}"
            );
        }
    }
}

/// Whenever the process is killed, a file holds a beginning of the input: no gap, and no other
/// bytes.
#[test]
fn a_killed_process_leaves_a_beginning() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    for fs in file_systems() {
        let dir = fs.dir();
        let path = |name: &str| dir.path().join(name);
        crate::own::random_file(path("in"), 48 * MIB as u64, 11);
        let given = std::fs::read(path("in")).unwrap();
        for (name, args) in
            [("cat", &["in"][..]), ("tee", &["copy"]), ("tee", &["-a", "copy"]), ("cat", &["-"])]
        {
            for name in ["copy", "out"] {
                File::create(path(name)).unwrap();
            }
            let mut running = tool(name);
            running.args(args).current_dir(dir.path());
            running
                .stdin(File::open(path("in")).unwrap())
                .stdout(File::create(path("out")).unwrap());
            let running = crate::pass::Started(running.spawn().unwrap());
            std::thread::sleep(Duration::from_micros(rng.range(1000..150_000)));
            drop(running);
            for file in ["copy", "out"] {
                let found = std::fs::read(path(file)).unwrap();
                assert!(
                    given.starts_with(&found),
                    "{}: {name} {args:?}: {} bytes of {file}",
                    fs.name,
                    found.len()
                );
            }
        }
    }
}

/// Several processes that append to one file do not overwrite each other.
#[test]
fn appending_is_shared() {
    for fs in file_systems() {
        let dir = fs.dir();
        let log = dir.path().join("log");
        let script = "for i in 1 2 3 4; do yes $i | head -c 1500000 | tee -a log >/dev/null & done
                      for i in 5 6; do yes $i | head -c 1500000 | cat >>log & done; wait";
        let path = format!("{}:{}", crate::pass::links().display(), std::env::var("PATH").unwrap());
        let status = Command::new("bash")
            .args(["-c", script])
            .current_dir(dir.path())
            .env("PATH", path)
            .status();
        assert!(status.unwrap().success());
        let found = std::fs::read(&log).unwrap();
        for digit in b'1'..=b'6' {
            let count = found.iter().filter(|byte| **byte == digit).count();
            assert_eq!(count, 750_000, "{}: {}", fs.name, char::from(digit));
        }
        assert_eq!(found.len(), 9_000_000, "{}", fs.name);
    }
}

#[test]
fn nothing_stays_in_the_page_cache() {
    // Only file systems with direct I/O, or where buffered pages are dropped. The receipts say what
    // happens on the other file systems.
    let direct = |fs: &dio_test::TestFs| !in_memory(fs) && fs.name != "ext4-journal";
    for fs in file_systems().into_iter().filter(direct) {
        let dir = fs.dir();
        let path = |name: &str| dir.path().join(name);
        crate::own::random_file(path("in"), 5 * MIB as u64 + 123, 3);
        crate::own::random_file(path("small"), 5000, 3);
        cold(&path("in"));
        cold(&path("small"));
        let status = tool("cat")
            .args(["in", "small"])
            .current_dir(dir.path())
            .stdout(File::create(path("out")).unwrap())
            .status();
        assert!(status.unwrap().success());
        let mut tee = tool("tee");
        tee.args(["copy", "other"]).current_dir(dir.path()).stdin(File::open(path("in")).unwrap());
        assert!(tee.stdout(File::create(path("third")).unwrap()).status().unwrap().success());
        for name in ["in", "small", "out", "copy", "other", "third"] {
            assert_eq!(crate::own::resident_pages(path(name)), 0, "{}: {name}", fs.name);
        }
        crate::own::same_bytes(path("in"), path("copy"));
        crate::own::same_bytes(path("in"), path("other"));
        crate::own::same_bytes(path("in"), path("third"));
    }
}

#[test]
fn a_receipt_accounts_for_every_byte() {
    let dir = file_systems()[0].dir();
    let path = |name: &str| dir.path().join(name);
    crate::own::random_file(path("in"), 3 * MIB as u64, 3);
    let receipt = |command: &mut Command| {
        assert!(command.current_dir(dir.path()).status().unwrap().success());
        crate::own::json(&std::fs::read_to_string(path("receipt")).unwrap())
    };
    let mut cat = tool("cat");
    cat.args(["--receipt", "receipt", "in", "in"]).stdout(File::create(path("out")).unwrap());
    let seen = receipt(&mut cat);
    assert_eq!(
        (crate::own::number(&seen, "bytes_read"), crate::own::number(&seen, "bytes_written")),
        (6 << 20, 6 << 20)
    );
    let mut tee = tool("tee");
    tee.args(["--receipt", "receipt", "a", "b", "b"])
        .stdin(File::open(path("in")).unwrap())
        .stdout(Stdio::null());
    let seen = receipt(&mut tee);
    assert_eq!(
        (crate::own::number(&seen, "bytes_read"), crate::own::number(&seen, "bytes_written")),
        (3 << 20, 12 << 20)
    );
    // From pipe to pipe no byte passes through memory of dio, and the bytes are counted all the
    // same.
    let script = "head -c 3000000 in | cat --receipt receipt | cksum >sum";
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).env(
        "PATH",
        format!("{}:{}", crate::pass::links().display(), std::env::var("PATH").unwrap()),
    );
    let seen = receipt(&mut bash);
    assert_eq!(
        (crate::own::number(&seen, "bytes_read"), crate::own::number(&seen, "bytes_written")),
        (3_000_000, 3_000_000)
    );
}

#[test]
fn full_and_read_only_file_systems_are_told_in_known_words() {
    for format in
        [&["mkfs.ext4", "-q", "-F"][..], &["mkfs.xfs", "-q", "-f"], &["mkfs.btrfs", "-q", "-f"]]
    {
        let Some(small) = Mounted::new(format, 320 * MIB as u64) else { continue };
        let elsewhere = file_systems()[0].dir();
        let large = elsewhere.path().join("large");
        File::create(&large).unwrap().set_len(400 * MIB as u64).unwrap();
        let whole = |path: &Path| {
            let mut bytes = Vec::new();
            File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
            bytes.iter().all(|byte| *byte == 0)
        };
        let out = small.path.join("out");
        let cat = tool("cat").arg(&large).stdout(File::create(&out).unwrap()).output().unwrap();
        assert_eq!(cat.status.code(), Some(1), "{format:?}");
        assert_eq!(
            String::from_utf8_lossy(&cat.stderr),
            "cat: write error: No space left on device\n",
            "{format:?}"
        );
        assert!(whole(&out));
        std::fs::remove_file(&out).unwrap();
        // The other output gets all bytes.
        let mut tee = tool("tee");
        tee.arg(elsewhere.path().join("copy"))
            .arg(&out)
            .stdin(File::open(&large).unwrap())
            .stdout(Stdio::null());
        let tee = tee.output().unwrap();
        assert_eq!(tee.status.code(), Some(1), "{format:?}");
        let told = format!("tee: {}: No space left on device\n", out.display());
        assert_eq!(String::from_utf8_lossy(&tee.stderr), told, "{format:?}");
        assert_eq!(elsewhere.path().join("copy").metadata().unwrap().len(), 400 * MIB as u64);
        std::fs::remove_file(&out).unwrap();
        std::fs::write(&out, "old").unwrap();
        small.remount_read_only();
        let tee = tool("tee").arg(&out).stdin(Stdio::null()).output().unwrap();
        let told = format!("tee: {}: Read-only file system\n", out.display());
        assert_eq!(
            (tee.status.code(), String::from_utf8_lossy(&tee.stderr).as_ref()),
            (Some(1), &*told),
            "{format:?}"
        );
        assert_eq!(std::fs::read(&out).unwrap(), b"old");
    }
}
