//! Behaviour of `dio uniq` that cannot be compared with the system's uniq: pauses of the input,
//! receipts, full disks, and signals.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::own::{Mounted, cold, in_memory, is_direct, json, line, number, until};
use crate::pass::{Seed, file_systems, start, tool};

const MIB: u64 = 1 << 20;

/// Lines of 16 bytes. Every third line occurs twice.
fn lines(bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 40);
    let mut number = 0;
    while text.len() < bytes {
        writeln!(text, "{number:>15}").unwrap();
        if number % 3 == 0 {
            writeln!(text, "{number:>15}").unwrap();
        }
        number += 1;
    }
    text
}

/// The expected output of `uniq -c` for [`lines`].
fn counted(text: &[u8]) -> Vec<u8> {
    let mut groups: Vec<(usize, &[u8])> = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match groups.last_mut() {
            Some((count, last)) if *last == line => *count += 1,
            _ => groups.push((1, line)),
        }
    }
    groups
        .iter()
        .flat_map(|(count, line)| [format!("{count:7} ").as_bytes(), line].concat())
        .collect()
}

fn uniq(args: &[&str], directory: &Path) -> Command {
    let mut command = tool("uniq");
    command.args(args).current_dir(directory);
    command
}

#[test]
fn a_pause_of_the_input_brings_what_is_decided_into_the_file() {
    for args in [&["-", "out"][..], &["-c", "-", "out"]] {
        let directory = file_systems()[0].dir();
        let mut running = uniq(args, directory.path()).stdin(Stdio::piped()).spawn().unwrap();
        let mut pipe = running.stdin.take().unwrap();
        let holds = |text: &str| {
            fs::read_to_string(directory.path().join("out")).is_ok_and(|is| is == text)
        };
        pipe.write_all(b"a\na\nb\n").unwrap();
        let counts = args[0] == "-c";
        until("lines arrive", || holds(if counts { "      2 a\n" } else { "a\nb\n" }));
        pipe.write_all(b"b\nc\nd").unwrap();
        until("more lines arrive", || {
            holds(if counts { "      2 a\n      2 b\n" } else { "a\nb\nc\n" })
        });
        drop(pipe);
        assert!(running.wait().unwrap().success());
        assert!(holds(if counts {
            "      2 a\n      2 b\n      1 c\n      1 d\n"
        } else {
            "a\nb\nc\nd\n"
        }));
    }
}

#[test]
fn a_pipe_gets_what_is_decided_at_once() {
    let mut running = start(&mut tool("uniq"));
    let mut out = BufReader::new(running.0.stdout.take().unwrap());
    for (given, shown) in [("a\na\n", "a\n"), ("a\nb\n", "b\n"), ("c", "c\n")] {
        running.write(given.as_bytes());
        if given == "c" {
            drop(running.0.stdin.take());
        }
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, shown);
    }
    assert_eq!(out.read(&mut [0]).unwrap(), 0);
}

#[test]
fn what_a_signal_ends_leaves_what_was_decided() {
    let directory = file_systems()[0].dir();
    let mut running = uniq(&["-", "out"], directory.path()).stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = running.stdin.take().unwrap();
    let path = directory.path().join("out");
    pipe.write_all(b"a\nb\n").unwrap();
    until("lines arrive", || fs::read(&path).is_ok_and(|is| is == b"a\nb\n"));
    pipe.write_all(b"c\nd\n").unwrap();
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(running.wait().unwrap().signal(), Some(15));
    let left = fs::read_to_string(&path).unwrap();
    // The process may or may not have read the second two lines.
    assert!(["a\nb\n", "a\nb\nc\nd\n"].contains(&left.as_str()), "{left:?}");
}

#[test]
fn receipts_say_where_the_bytes_went() {
    let input = lines(9_000_000);
    let expected = counted(&input);
    for fs in file_systems() {
        let directory = fs.dir();
        let path = directory.path().join("in");
        fs::write(&path, &input).unwrap();
        cold(&path);
        let output = uniq(&["-c", "--receipt=-", "in", "out"], directory.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let receipt = json(std::str::from_utf8(&output.stdout).unwrap());
        assert_eq!(receipt["command"], "uniq");
        assert_eq!(number(&receipt, "bytes_read"), input.len() as u64);
        assert_eq!(number(&receipt, "bytes_written"), expected.len() as u64);
        assert!(number(&receipt, "peak_buffer_bytes") < 128 * MIB, "{receipt}");
        let (from, to) = (line(&receipt, "source", "in"), line(&receipt, "target", "out"));
        if is_direct(&fs) {
            assert_eq!(
                (&from["mode"], &to["mode"]),
                (&"direct".into(), &"direct".into()),
                "{}: {receipt}",
                fs.name
            );
        }
        if !in_memory(&fs) && is_direct(&fs) {
            assert_eq!(
                (&from["pages_after"], &to["pages_after"]),
                (&0.into(), &0.into()),
                "{}",
                fs.name
            );
        }
        assert!(fs::read(directory.path().join("out")).unwrap() == expected, "{}", fs.name);
    }
}

#[test]
fn flags_of_dio_change_nothing_in_the_output() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let directory = file_systems()[0].dir();
    let input = lines(5_000_000);
    let expected = counted(&input);
    fs::write(directory.path().join("in"), &input).unwrap();
    for _ in 0..8 {
        let mut flags = vec!["-c".to_owned()];
        for (flag, values) in [
            ("--mode", &["auto", "direct", "uncached", "cached"] as &[_]),
            ("--block", &["512", "4K", "100000", "1M", "3M"]),
            ("--depth", &["1", "2", "16"]),
        ] {
            if rng.bool(0.6) {
                flags.push(format!("{flag}={}", rng.pick(values)));
            }
        }
        let mut command = tool("uniq");
        command.args(&flags).current_dir(directory.path()).arg(*rng.pick(&["in", "-"])).arg("out");
        let status =
            command.stdin(fs::File::open(directory.path().join("in")).unwrap()).status().unwrap();
        assert!(status.success(), "{flags:?} {seed:?}");
        assert!(fs::read(directory.path().join("out")).unwrap() == expected, "{flags:?} {seed:?}");
    }
}

#[test]
fn full_and_read_only_file_systems_are_told_as_by_others() {
    let Some(disk) = Mounted::new(&["mkfs.ext4", "-q", "-F"], 32 * MIB) else { return };
    let elsewhere = file_systems()[0].dir();
    let (input, from) = (lines(64 << 20), elsewhere.path().join("in"));
    fs::write(&from, &input).unwrap();
    let run = |args: &[&str]| {
        let output = uniq(args, &disk.path).arg(&from).arg("out").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&["-c"]), (Some(1), "uniq: write error: No space left on device\n".to_owned()));
    let left = fs::read(disk.path.join("out")).unwrap();
    assert!(left.len() > 10 << 20 && counted(&input).starts_with(&left), "{} bytes", left.len());
    disk.remount_read_only();
    assert_eq!(run(&[]), (Some(1), "uniq: out: Read-only file system\n".to_owned()));
}

#[test]
fn a_reader_that_goes_away_ends_the_run() {
    let directory = file_systems()[0].dir();
    fs::write(directory.path().join("in"), lines(3 << 20)).unwrap();
    let mut running = uniq(&["in"], directory.path()).stdout(Stdio::piped()).spawn().unwrap();
    drop(running.stdout.take());
    assert_eq!(running.wait().unwrap().signal(), Some(13));
}

#[test]
fn a_mode_that_cannot_be_had_is_an_error_where_it_is_required() {
    let place = Path::new("/dev/shm");
    if !place.is_dir() {
        dio_test::skip!("no /dev/shm");
        return;
    }
    let directory = tempfile::tempdir_in(place).unwrap();
    fs::write(directory.path().join("in"), lines(3 << 20)).unwrap();
    let output = uniq(&["--mode=direct", "--strict", "in"], directory.path()).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(told.starts_with("uniq: ") && told.contains("not supported"), "{told}");
}

#[test]
fn a_line_that_does_not_fit_into_the_memory_is_told() {
    let directory = file_systems()[0].dir();
    let script = format!(
        "ulimit -v 400000; head -c 1G /dev/zero | {} -c",
        crate::pass::links().join("uniq").display()
    );
    let output =
        Command::new("sh").args(["-c", &script]).current_dir(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "uniq: memory exhausted\n");
}

#[test]
fn many_lines_need_little_memory() {
    let directory = file_systems()[0].dir();
    let input = lines(110 << 20);
    fs::write(directory.path().join("in"), &input).unwrap();
    cold(&directory.path().join("in"));
    let uniq = crate::pass::links().join("uniq");
    let script = format!("ulimit -v 100000; exec {} -c in out", uniq.display());
    let output =
        Command::new("sh").args(["-c", &script]).current_dir(directory.path()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(fs::read(directory.path().join("out")).unwrap() == counted(&input));
}

#[test]
fn help_and_version() {
    let run = |flag| String::from_utf8(tool("uniq").arg(flag).output().unwrap().stdout).unwrap();
    let text = run("--help");
    for flag in [
        "--count",
        "-D",
        "--all-repeated[=<METHOD>]",
        "--group[=<METHOD>]",
        "--receipt",
        "-f, --skip-fields",
    ] {
        assert!(text.contains(flag), "{flag}: {text}");
    }
    let version = run("--version");
    assert!(
        version.contains("uniq") && version.trim_end().ends_with(env!("CARGO_PKG_VERSION")),
        "{version}"
    );
}
