//! Signals, `--limit`, `--resume` and `--progress`.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::own::{
    MIB, Mounted, Running, bad, cp, file_systems, good, json, length, names, number, receipt,
};
use crate::own::{resident_pages, same_bytes, signal_of, source};
use crate::own::{until, until_asleep, until_caught, until_ignored, until_moved, waiting};
use rustix::process::Signal;

/// Number of bytes at the start of `to` that equal those of `from`.
#[track_caller]
fn prefix(from: &Path, to: &Path) -> u64 {
    dio_test::first_difference(from, to).unwrap_or_else(|| length(to))
}

#[test]
fn a_signal_ends_the_copy_as_a_shell_expects_and_leaves_a_complete_beginning() {
    for fs in file_systems() {
        let dir = fs.dir();
        let from = source(dir.path(), "from", 48 * MIB);
        for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
            let to = dir.path().join(format!("to{number}"));
            let running = Running::start("--reflink=never --limit 4M", &[&from, &to]);
            until_moved(&running, 2 * MIB);
            let asked = Instant::now();
            running.signal(signal);
            let output = running.end();
            // The whole copy takes twelve seconds.
            assert!(asked.elapsed() < Duration::from_secs(6), "{}: {:?}", fs.name, asked.elapsed());
            assert_eq!(signal_of(&output), Some(number), "{}: {output:?}", fs.name);
            assert_eq!(output.stderr.lines().count(), 1, "{}: {output:?}", fs.name);
            assert!(output.stderr.contains("interrupted"), "{}: {output:?}", fs.name);
            assert!(
                length(&to) < 48 * MIB && length(&to) >= MIB,
                "{}: {} bytes",
                fs.name,
                length(&to)
            );
            assert_eq!(prefix(&from, &to), length(&to), "{}: what is there is right", fs.name);
        }
    }
}

#[test]
fn a_signal_is_heeded_at_once_however_slow_the_copy() {
    let dir = file_systems()[0].dir();
    let (from, to) = (source(dir.path(), "from", 8 * MIB), dir.path().join("to"));
    for _ in 0..2 {
        let running = Running::start("--reflink=never --limit 20K", &[&from, &to]);
        until_moved(&running, 1);
        let asked = Instant::now();
        running.signal(Signal::INT);
        assert_eq!(signal_of(&running.end()), Some(2));
        // The next request of the copy is due after more than fifty seconds.
        assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
        std::fs::remove_file(&to).unwrap();
    }
}

#[test]
fn neither_a_silent_pipe_nor_one_without_a_writer_keeps_a_signal_waiting() {
    let dir = file_systems()[0].dir();
    let (pipe, to) = (dir.path().join("pipe"), dir.path().join("to"));
    assert!(dio_test::run(std::process::Command::new("mkfifo").arg(&pipe)).status.success());
    let mut running = Running::start("", &[&pipe, &to]);
    // Opening the pipe waits for a writer.
    until_caught(running.pid(), Signal::INT);
    until_asleep(running.pid());
    running.signal(Signal::INT);
    until("the first signal ends it", || running.is_over());
    assert_eq!(signal_of(&running.end()), Some(2));
    // Opening the pipe waits for a reader.
    let beginning = source(dir.path(), "source", 1000);
    let mut running = Running::start("", &[&beginning, &pipe]);
    until_caught(running.pid(), Signal::INT);
    until_asleep(running.pid());
    running.signal(Signal::INT);
    until("the first signal ends it", || running.is_over());
    assert_eq!(signal_of(&running.end()), Some(2));
    let mut running = Running::start("", &[&pipe, &to]);
    let mut writer = std::fs::File::options().write(true).open(&pipe).unwrap();
    std::io::Write::write_all(&mut writer, b"beginning").unwrap();
    until("the beginning is read", || waiting(&writer) == 0);
    until_asleep(running.pid());
    running.signal(Signal::INT);
    // The pipe stays silent: a copy that waited for it would wait forever.
    until("the first signal ends it", || running.is_over());
    assert_eq!(signal_of(&running.end()), Some(2));
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let dir = file_systems()[0].dir();
    let (from, to) = (source(dir.path(), "from", 8 * MIB), dir.path().join("to"));
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' INT HUP; exec \"$@\"", "sh"]).arg(env!("CARGO_BIN_EXE_dio"));
    let running =
        Running::spawn(command.args(["cp", "--reflink=never", "--limit=16M"]).args([&from, &to]));
    until_ignored(running.pid(), Signal::HUP);
    until("the copy has begun", || to.exists());
    running.signal(Signal::INT);
    running.signal(Signal::HUP);
    let output = running.end();
    assert!(output.status.success(), "{output:?}");
    same_bytes(&from, &to);
}

#[test]
fn in_a_tree_the_rest_is_left_out_and_said_once() {
    for fs in file_systems() {
        let dir = fs.dir();
        let tree = dir.path().join("tree");
        std::fs::create_dir_all(tree.join("sub")).unwrap();
        for number in 0..40 {
            source(&tree, &format!("f{number}"), MIB + number);
            source(&tree.join("sub"), &format!("g{number}"), 41);
        }
        let to = dir.path().join("to");
        let running = Running::start("-r --reflink=never --limit 8M", &[&tree, &to]);
        let begun = || {
            to.exists() && names(&to).into_iter().filter(|name| name.starts_with('f')).count() > 1
        };
        until("several files are begun", begun);
        running.signal(Signal::INT);
        let output = running.end();
        assert_eq!(signal_of(&output), Some(2), "{}: {output:?}", fs.name);
        // Each worker may be copying a file when the signal arrives.
        assert!(output.stderr.lines().count() <= 1, "{}: {}", fs.name, output.stderr);
        let copied =
            names(&to).into_iter().filter(|name| name.starts_with('f')).collect::<Vec<_>>();
        assert!(!copied.is_empty() && copied.len() < 40, "{}: {copied:?}", fs.name);
        for name in copied {
            assert_eq!(
                prefix(&tree.join(&name), &to.join(&name)),
                length(&to.join(&name)),
                "{}: {name}",
                fs.name
            );
        }
    }
}

#[test]
fn the_rate_is_kept() {
    let dir = file_systems()[0].dir();
    let from = source(dir.path(), "from", 16 * MIB);
    let tree = dir.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for number in 0..64 {
        source(&tree, &format!("f{number}"), 64 << 10);
    }
    // A large file, and 4 MiB of small files.
    for (name, from, flags, wanted) in [
        ("to", &from, "--limit 8M", 2.0),
        ("into", &tree, "-r --limit 2M", 2.0),
        ("slow", &from, "--limit 7M --block 3M", 16.0 / 7.0),
    ] {
        takes(flags, wanted * 0.9..wanted * 1.15, || {
            good(&format!("--reflink=never {flags}"), &[from, &dir.path().join(name)]);
        });
    }
    // A source without a size is limited too.
    let script = format!(
        "head -c 4194304 /dev/urandom | '{}' cp --limit 2M /dev/stdin '{}'",
        env!("CARGO_BIN_EXE_dio"),
        dir.path().join("piped").display()
    );
    takes("from a pipe", 1.4..2.4, || {
        assert!(std::process::Command::new("sh").args(["-c", &script]).status().unwrap().success());
    });
    assert_eq!(length(&dir.path().join("piped")), 4 * MIB);
}

/// Checks that `run` takes `wanted` seconds. It must never take less. It may take longer on a busy
/// machine, but not in all attempts.
#[track_caller]
fn takes(what: &str, wanted: std::ops::Range<f64>, run: impl Fn()) {
    let mut took = 0.0;
    for _ in 0..6 {
        let start = Instant::now();
        run();
        took = start.elapsed().as_secs_f64();
        assert!(took >= wanted.start, "{what}: {took} s, not {wanted:?}");
        if wanted.contains(&took) {
            return;
        }
    }
    panic!("{what}: {took} s, not {wanted:?}");
}

/// Starts a slow resumable copy, and ends it by `signal` once a part of it is durable and recorded
/// in the note.
#[track_caller]
fn cut_short(from: &Path, to: &Path, signal: Signal) {
    let mut running = Running::start("--resume --reflink=never --limit 4M", &[from, to]);
    let note = to.with_file_name(format!(".{}.dio-resume", to.file_name().unwrap().display()));
    while !note.exists() {
        assert!(!running.is_over(), "the copy ended without a note");
        std::thread::sleep(Duration::from_millis(10));
    }
    // More is copied behind the recorded part; the whole copy takes ten seconds.
    std::thread::sleep(Duration::from_millis(300));
    running.signal(signal);
    let output = running.end();
    assert!(signal_of(&output).is_some(), "{output:?}");
}

#[test]
fn a_copy_that_was_cut_short_goes_on_where_it_was() {
    let all = file_systems();
    std::thread::scope(|scope| {
        for fs in &all {
            for signal in [Signal::INT, Signal::KILL] {
                scope.spawn(move || {
                    let dir = fs.dir();
                    let (from, to) =
                        (source(dir.path(), "from", 40 * MIB + 9), dir.path().join("to"));
                    cut_short(&from, &to, signal);
                    // A second note may be beside it if the copy was killed while it wrote that.
                    assert!(
                        names(dir.path()).contains(&".to.dio-resume".to_owned()),
                        "{}: a note is there",
                        fs.name
                    );
                    let receipt = receipt("--resume --reflink=never --verify", &[&from, &to]);
                    let read = number(&receipt, "bytes_read");
                    assert!(
                        read > 0 && read < 40 * MIB,
                        "{} {signal:?}: {read} bytes were read again",
                        fs.name
                    );
                    same_bytes(&from, &to);
                    assert_eq!(names(dir.path()), ["from", "to"], "{}", fs.name);
                });
            }
        }
    });
}

#[test]
fn a_changed_source_or_another_target_starts_afresh() {
    let dir = file_systems()[0].dir();
    let (from, to) = (source(dir.path(), "from", 40 * MIB + 9), dir.path().join("to"));
    cut_short(&from, &to, Signal::INT);
    // The contents change while the modification time is kept.
    let times = from.metadata().unwrap().modified().unwrap();
    dio_test::random_file(&from, 40 * MIB + 9, 77);
    std::fs::File::options().write(true).open(&from).unwrap().set_modified(times).unwrap();
    let receipt_of = receipt("--resume --reflink=never", &[&from, &to]);
    assert_eq!(number(&receipt_of, "bytes_read"), 40 * MIB + 9);
    same_bytes(&from, &to);
    cut_short(&from, &to, Signal::INT);
    // Another file gets the target's name.
    std::fs::remove_file(&to).unwrap();
    dio_test::random_file(&to, 40 * MIB, 78);
    let receipt_of = receipt("--resume --reflink=never", &[&from, &to]);
    assert_eq!(number(&receipt_of, "bytes_read"), 40 * MIB + 9);
    same_bytes(&from, &to);
    assert_eq!(names(dir.path()), ["from", "to"]);
}

#[test]
fn resuming_without_space_keeps_the_old_target() {
    let Some(small) = Mounted::new(&["mkfs.ext4", "-q", "-F"], 64 * MIB) else { return };
    let elsewhere = file_systems()[0].dir();
    let (from, to) = (source(elsewhere.path(), "from", 80 * MIB), small.path.join("to"));
    std::fs::write(&to, "old").unwrap();
    bad("--resume", &[&from, &to], "space");
    assert_eq!(std::fs::read(&to).unwrap(), b"old");
}

#[test]
fn resuming_leaves_no_pages_and_no_note_in_trees() {
    for fs in file_systems() {
        let dir = fs.dir();
        let tree = dir.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        let (a, b) = (source(&tree, "a", 41), source(&tree, "b", 3 * MIB + 1));
        let to = dir.path().join("to");
        for _ in 0..2 {
            good("-r --resume --reflink=never", &[&tree, &to]);
            let target = if to.join("tree").exists() { to.join("tree") } else { to.clone() };
            for (from, name) in [(&a, "a"), (&b, "b")] {
                if !crate::own::in_memory(&fs) {
                    assert_eq!(resident_pages(target.join(name)), 0, "{}: {name}", fs.name);
                }
                same_bytes(from, target.join(name));
                crate::own::cold(from);
            }
            assert_eq!(names(&target).iter().filter(|name| name.starts_with('.')).count(), 0);
        }
    }
}

#[test]
fn progress_is_shown_as_lines_where_there_is_no_terminal() {
    let dir = file_systems()[0].dir();
    let (from, to) = (source(dir.path(), "from", 16 * MIB), dir.path().join("to"));
    let start = Instant::now();
    let output = crate::own::run("--progress=always --reflink=never --limit 8M", &[&from, &to]);
    // One line each second, and one at the end.
    let most = start.elapsed().as_secs() as usize + 2;
    assert!(output.status.success());
    let lines: Vec<&str> = output.stderr.lines().collect();
    assert!((1..=most).contains(&lines.len()), "{output:?}");
    assert!(
        lines.iter().all(|line| line.starts_with("dio cp: ") && line.contains(" copied")),
        "{output:?}"
    );
    assert!(lines[lines.len() - 1].contains("16 MiB"), "the last tells the whole: {output:?}");
    let start = Instant::now();
    let output = crate::own::run("--progress --reflink=never", &[&from, &to]);
    let short = start.elapsed() < Duration::from_millis(500);
    assert!(output.status.success() && (output.stderr.is_empty() || !short), "{output:?}");
    assert_eq!(
        crate::own::run("--progress=never --limit 16M --reflink=never", &[&from, &to]).stderr,
        ""
    );
    assert_eq!(crate::own::run("--limit 16M --reflink=never", &[&from, &to]).stderr, "");
}

#[test]
fn the_receipt_of_an_interrupted_copy_tells_what_was_done() {
    let dir = file_systems()[0].dir();
    let (from, to, account) =
        (source(dir.path(), "from", 16 * MIB), dir.path().join("to"), dir.path().join("account"));
    let mut command = cp();
    command.args(["--reflink=never", "--limit=2M", "--receipt"]).args([&account, &from, &to]);
    let running = Running::spawn(&mut command);
    until_moved(&running, 2 * MIB);
    running.signal(Signal::TERM);
    assert_eq!(signal_of(&running.end()), Some(15));
    let receipt = json(&std::fs::read_to_string(&account).unwrap());
    assert_eq!(receipt["durable"], false);
    let written = number(&receipt, "bytes_written");
    assert!(
        written >= length(&to) && written > 0 && written < 16 * MIB,
        "{written} bytes, {} long",
        length(&to)
    );
    assert_eq!(receipt["files"].as_array().unwrap().len(), 2, "{receipt:#}");
}
