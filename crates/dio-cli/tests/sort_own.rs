//! Behaviour of `dio sort` that cannot be compared with the system's sort: memory, temporary files,
//! full disks, signals, and receipts.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::own::{Mounted, cold, in_memory, is_direct, is_root, json, line, names, number, until};
use crate::sort_support::{case, dio};
use dio_test::{MemoryGroup, Rng, Seed, file_systems};
use rustix::process::{Pid, Signal, kill_process};

const MIB: usize = 1 << 20;

/// Random lines of 32 bytes.
fn lines(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 32);
    while text.len() < bytes {
        writeln!(text, "{:016x} {:>14}", rng.next_u64(), rng.range(0..1_000_000)).unwrap();
    }
    text
}

/// The same lines, sorted by bytes.
fn sorted(text: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines.concat()
}

/// Returns a `sort` command with these arguments, in a directory.
fn sort(args: &str, directory: &Path) -> Command {
    let mut command = Command::new(dio());
    command
        .args(args.split_whitespace())
        .current_dir(directory)
        .env("LC_ALL", "C")
        .env_remove("TMPDIR");
    command
        .env_remove("DIO_ENGINE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The peak resident memory of the process so far, in bytes.
fn peak(child: &Child) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim_end_matches("kB").trim().parse::<usize>().unwrap() << 10
}

/// Memory of the program in addition to `-S`: its code, its threads' stacks, and the rings of the
/// engine.
const BESIDE: usize = 16 * MIB;

#[test]
fn memory_stays_within_the_bound() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let directory = file_systems()[0].dir();
    let input = lines(&mut rng, 18 * MIB);
    fs::write(directory.path().join("in"), &input).unwrap();
    let expected = sorted(&input);
    for args in [
        "-S1M -T. in",
        "-S8M -T. in",
        "-S8M -T. -k2n -k1,1 in",
        "-S16M -T. --parallel=4 in",
        "-m -S4M in",
    ] {
        let mut child = sort(args, directory.path()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut text = vec![0; input.len()];
        // The process cannot end before the rest is read, because the rest is more than pipes hold.
        // It has reached its peak memory by then.
        let rest = text.len() - 4 * MIB;
        out.read_exact(&mut text[..rest]).unwrap();
        let peak = peak(&child);
        out.read_exact(&mut text[rest..]).unwrap();
        assert_eq!(out.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert!(child.wait().unwrap().success(), "{args}");
        if !args.contains("-k") && !args.contains("-m") {
            assert!(text == expected, "{args} {seed:?}");
        }
        let bound: usize =
            args.split("-S").nth(1).unwrap().split('M').next().unwrap().parse().unwrap();
        eprintln!("{args}: peak {} KiB", peak >> 10);
        assert!(peak <= bound * MIB + BESIDE, "{args}: {} KiB", peak >> 10);
        assert_eq!(names(directory.path()), ["in"], "{args}");
    }
}

#[test]
fn more_than_fits_into_memory() {
    let Some(group) = MemoryGroup::new(48 * MIB as u64) else { return };
    let mut rng = Seed::new().rng();
    let directory = file_systems()[0].dir();
    let input = lines(&mut rng, 56 * MIB);
    fs::write(directory.path().join("in"), &input).unwrap();
    cold(&directory.path().join("in"));
    let shell = format!(
        "echo $$ >{} && exec {} -S16M -T. -o out in",
        group.procs().display(),
        dio().display()
    );
    let mut command = Command::new("sh");
    let output = command
        .arg("-c")
        .arg(shell)
        .env("LC_ALL", "C")
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(fs::read(directory.path().join("out")).unwrap() == sorted(&input));
}

#[test]
fn full_disks_are_told_and_leave_nothing() {
    let Some(disk) = Mounted::new(&["mkfs.ext4", "-q", "-F"], 16 * MIB as u64) else { return };
    let mut rng = Seed::new().rng();
    let directory = file_systems()[0].dir();
    let input = lines(&mut rng, 24 * MIB);
    fs::write(directory.path().join("in"), &input).unwrap();
    fs::write(directory.path().join("old"), "what was there").unwrap();
    let full = disk.path.to_str().unwrap();
    let before = names(&disk.path);
    let fails = |args: &str, told: &str| {
        let output = sort(args, directory.path()).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args}: {err}");
        assert!(
            err.starts_with("sort: ") && err.contains(told) && err.lines().count() == 1,
            "{args}: {err}"
        );
        assert_eq!(names(&disk.path), before, "{args}");
    };
    let no_space = "No space left on device";
    fails(&format!("-S1M -T {full} in"), no_space);
    fails(&format!("-S1M -T {full} -o old in"), no_space);
    fails(&format!("-S64K -T {full} --batch-size=2 -o new in"), no_space);
    assert_eq!(fs::read(directory.path().join("old")).unwrap(), b"what was there");
    // A new output is removed again.
    fails(&format!("-o {full}/new in"), no_space);
    fails("-o /dev/full in", no_space);
    assert_eq!(names(directory.path()), ["in", "old"]);
    let onto = sort("in", directory.path())
        .stdout(fs::File::create("/dev/full").unwrap())
        .output()
        .unwrap();
    let err = String::from_utf8(onto.stderr).unwrap();
    assert_eq!(onto.status.code(), Some(2));
    assert!(
        err.starts_with("sort: write failed: 'standard output': No space left on device"),
        "{err}"
    );
}

#[test]
fn standard_output_that_is_closed_takes_no_line() {
    let shell = format!("echo line | {} >&-", dio().display());
    let output = Command::new("sh").args(["-c", &shell]).env("LC_ALL", "C").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "sort: write failed: 'standard output': Bad file descriptor\n"
    );
}

#[test]
fn a_file_that_may_not_be_written_or_read() {
    if !is_root() {
        dio_test::skip!("needs root to become someone else");
        return;
    }
    let directory = file_systems()[0].dir();
    fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    for (name, mode) in [("in", 0o644), ("readable", 0o444), ("secret", 0o600)] {
        let path = directory.path().join(name);
        fs::write(&path, "b\na\n").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let run = |program: &Path, args: &str| {
        let copy = directory.path().join("sort");
        dio_test::copy_program(program, &copy);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
        command.args(args.split(' ')).env("LC_ALL", "C").current_dir(directory.path());
        let output = command.output().unwrap();
        // GNU sort prints the name by which it was called.
        let told =
            String::from_utf8(output.stderr).unwrap().replace(copy.to_str().unwrap(), "sort");
        (output.status.code(), output.stdout, told)
    };
    for args in [
        "-o readable in",
        "-o new in",
        "secret",
        "in secret -o readable",
        "-c secret",
        "-m in secret",
    ] {
        let own = run(Path::new(env!("CARGO_BIN_EXE_dio")), args);
        assert_eq!(own, run(Path::new("/usr/bin/sort"), args), "{args}");
        assert_eq!(own.0, Some(2), "{args}");
    }
    assert_eq!(fs::read(directory.path().join("readable")).unwrap(), b"b\na\n");
}

/// Starts a sort that has written temporary files and waits for more input.
fn waiting(args: &str, directory: &Path, rng: &mut Rng) -> Child {
    let mut child = sort(args, directory).stdin(Stdio::piped()).spawn().unwrap();
    let input = lines(rng, 4 * MIB);
    child.stdin.as_mut().unwrap().write_all(&input).unwrap();
    // It has read four times as much as its memory holds, so the first lines are in files.
    until("all is read", || crate::own::waiting(child.stdin.as_ref().unwrap()) == 0);
    child
}

#[test]
fn signals_leave_neither_temporaries_nor_a_part_of_the_output() {
    let mut rng = Seed::new().rng();
    for fs in file_systems() {
        let directory = fs.dir();
        fs::write(directory.path().join("old"), "what was there").unwrap();
        for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
            for output in ["-o old", "-o new", ""] {
                let mut child = waiting(&format!("-S1M -T. {output}"), directory.path(), &mut rng);
                kill_process(Pid::from_child(&child), signal).unwrap();
                let status = child.wait().unwrap();
                assert_eq!(status.signal(), Some(signal.as_raw()), "{output} on {}", fs.name);
                // After SIGKILL no process could remove the new output; it is empty.
                let made = signal == Signal::KILL && output.ends_with("new");
                let left: &[&str] = if made { &["new", "old"] } else { &["old"] };
                assert_eq!(names(directory.path()), left, "{output} {signal:?} on {}", fs.name);
                assert_eq!(fs::read(directory.path().join("old")).unwrap(), b"what was there");
                if made {
                    assert_eq!(fs::read(directory.path().join("new")).unwrap(), b"");
                    fs::remove_file(directory.path().join("new")).unwrap();
                }
            }
        }
    }
}

#[test]
fn ignored_signals_stay_ignored() {
    let directory = file_systems()[0].dir();
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' INT HUP; exec \"$@\"", "sh"])
        .arg(dio())
        .args(["-S1M", "-T.", "-o", "new"]);
    let mut child = command.current_dir(directory.path()).stdin(Stdio::piped()).spawn().unwrap();
    let is_sort = || {
        fs::read_to_string(format!("/proc/{}/comm", child.id()))
            .is_ok_and(|name| name.starts_with("sort"))
    };
    until("it runs", || is_sort() && directory.path().join("new").exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    child.stdin.take().unwrap().write_all(b"b\na\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read(directory.path().join("new")).unwrap(), b"a\nb\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_run_as_it_does_other_programs() {
    let mut rng = Seed::new().rng();
    let directory = file_systems()[0].dir();
    fs::write(directory.path().join("in"), lines(&mut rng, 4 * MIB)).unwrap();
    for args in ["in", "-S1M -T. in", "-m in", "-u -n in"] {
        let mut child = sort(args, directory.path()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().signal(), Some(13), "{args}");
    }
    // If that signal is ignored, the closed pipe is an ordinary error.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' PIPE; exec \"$@\"", "sh"]).arg(dio()).arg("in").env("LC_ALL", "C");
    let mut child = command
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "sort: write failed: 'standard output': Broken pipe\n"
    );
}

#[test]
fn the_input_is_replaced_only_when_it_has_been_read() {
    let mut rng = Seed::new().rng();
    let input = lines(&mut rng, 3 * MIB);
    for fs in file_systems() {
        let directory = fs.dir();
        let path = directory.path().join("in");
        for args in [
            "-o in in",
            "-S1M -T. -o in in",
            "-S64K -T. --batch-size=2 -o in in",
            "-o link in",
            "-o in link",
        ] {
            fs::write(&path, &input).unwrap();
            let _ = std::os::unix::fs::symlink("in", directory.path().join("link"));
            let output = sort(args, directory.path()).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{args}: {output:?}");
            assert!(fs::read(&path).unwrap() == sorted(&input), "{args} on {}", fs.name);
        }
        // A merge reads while it writes.
        let twice = [sorted(&input), sorted(&input)].concat();
        let output = sort("-m -T. -o in in link", directory.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(fs::read(&path).unwrap() == sorted(&twice), "on {}", fs.name);
    }
}

#[test]
fn receipts_say_where_the_bytes_went() {
    let mut rng = Seed::new().rng();
    for fs in file_systems() {
        let directory = fs.dir();
        let input = lines(&mut rng, 6 * MIB);
        fs::write(directory.path().join("in"), &input).unwrap();
        for args in ["", "-S1M -T."] {
            cold(&directory.path().join("in"));
            let output =
                sort(&format!("{args} --receipt=- -o out in"), directory.path()).output().unwrap();
            assert!(output.status.success(), "{args}: {output:?}");
            let receipt = json(std::str::from_utf8(&output.stdout).unwrap());
            assert_eq!(receipt["command"], "sort");
            assert!(number(&receipt, "bytes_read") >= input.len() as u64, "{receipt:#}");
            assert!(number(&receipt, "bytes_written") >= input.len() as u64, "{receipt:#}");
            if is_direct(&fs) && !in_memory(&fs) {
                for (role, name) in [("source", "in"), ("target", "out")] {
                    let line = line(&receipt, role, name);
                    assert_eq!(
                        (line["mode"].as_str(), line["pages_after"].as_u64()),
                        (Some("direct"), Some(0)),
                        "{line}"
                    );
                }
            }
            assert!(fs::read(directory.path().join("out")).unwrap() == sorted(&input));
            fs::remove_file(directory.path().join("out")).unwrap();
        }
    }
}

#[test]
fn locales_that_sort_otherwise_are_told() {
    let run =
        |locale: &'static str, args: &str| case(args).stdin("b\nB\na\n").locale(locale).run(dio());
    for quiet in ["C", "POSIX", "C.UTF-8", "C.utf8"] {
        let seen = run(quiet, "-f");
        assert_eq!((seen.err, seen.status), (Vec::new(), (Some(0), None)), "{quiet}");
    }
    for (locale, args, word) in [
        ("de_DE.UTF-8", "", "bytes"),
        ("sv_SE", "-s -n", "numbers"),
        ("fr_FR", "-s -M", "months"),
        ("xx", "-c -f", "ASCII"),
    ] {
        let seen = run(locale, args);
        let err = String::from_utf8(seen.err).unwrap();
        let first = err.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("sort: locale ") && first.contains(locale) && first.contains(word),
            "{err}"
        );
        if args.starts_with("-c") {
            assert_eq!(seen.status.0, Some(1), "{err}");
        } else {
            assert_eq!((seen.status.0, err.lines().count()), (Some(0), 1), "{err}");
        }
    }
    assert_eq!(run("de_DE.UTF-8", "").out, b"B\na\nb\n");
    // If no text is compared, the collation of the locale does not matter.
    assert!(run("C", "-s -n").err.is_empty());
}

#[test]
fn environments_that_know_no_old_keys() {
    let run = |program: &Path, set: &[(&str, &str)], args: &[&str]| {
        let directory = file_systems()[0].dir();
        fs::write(directory.path().join("in"), "a 2\nb 1\n").unwrap();
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(directory.path())
            .env("LC_ALL", "C")
            .envs(set.iter().copied());
        let output = command.output().unwrap();
        (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
    };
    for set in [&[][..], &[("_POSIX2_VERSION", "200112")], &[("_POSIX2_VERSION", "199209")]] {
        for args in [&["+1", "in"][..], &["+1", "-2", "in"], &["+x", "-2"]] {
            assert_eq!(
                run(dio(), set, args),
                run(Path::new("sort"), set, args),
                "{set:?} {args:?}"
            );
        }
    }
    // In this environment GNU sort takes all arguments after an operand for operands.
    let strict = [("_POSIX2_VERSION", "200112"), ("POSIXLY_CORRECT", "1")];
    assert_eq!(run(dio(), &strict, &["+1", "in"]), run(Path::new("sort"), &strict, &["+1", "in"]));
}

#[test]
fn what_newer_versions_of_the_model_do() {
    let out =
        |args: &str, text: &str| String::from_utf8(case(args).stdin(text).run(dio()).out).unwrap();
    assert_eq!(out("-V", ".a\n.0\n.b\n"), ".0\n.a\n.b\n");
    assert_eq!(out("-h", "1Q\n1R\n1Y\n2\n"), "2\n1Y\n1R\n1Q\n");
    assert_eq!(out("-g", "-1\nnan\nx\n-nan\n-inf\n"), "x\n-nan\nnan\n-inf\n-1\n");
    let refused = case("--debug").stdin("a\n").run(dio());
    assert_eq!((refused.status.0, refused.out), (Some(2), Vec::new()));
}

#[test]
fn flags_of_dio_change_nothing_in_the_output() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let input = lines(&mut rng, 2 * MIB);
    let expected = sorted(&input);
    for _ in 0..8 {
        let mut flags = String::from("-T. in");
        for (flag, values) in [
            ("--mode", &["auto", "direct", "uncached", "cached"] as &[_]),
            ("--block", &["512", "4K", "100000", "1M", "3M"]),
            ("--depth", &["1", "2", "16"]),
            ("-S", &["1", "300K", "20M"]),
        ] {
            if rng.bool(0.6) {
                let value = values[rng.range_usize(0..values.len())];
                flags +=
                    &if flag == "-S" { format!(" -S{value}") } else { format!(" {flag}={value}") };
            }
        }
        let seen = case(&flags).file("in", &input).run(dio());
        assert!(
            seen.out == expected && seen.status.0 == Some(0),
            "{flags}: {}",
            seen.err.escape_ascii()
        );
    }
}

#[test]
fn help_and_version() {
    let seen = case("--help").run(dio());
    let text = String::from_utf8(seen.out).unwrap();
    assert_eq!(seen.status, (Some(0), None));
    for flag in [
        "--key",
        "--buffer-size",
        "--files0-from",
        "--receipt",
        "-k",
        "--compress-program",
        "KEYDEF",
    ] {
        assert!(text.contains(flag), "{flag}: {text}");
    }
    assert!(!text.contains("obsolete-key"), "{text}");
    let version = String::from_utf8(case("--version").run(dio()).out).unwrap();
    assert!(
        version.contains("sort") && version.trim_end().ends_with(env!("CARGO_PKG_VERSION")),
        "{version}"
    );
}
