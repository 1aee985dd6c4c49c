//! `dio split` against the system's split.

use std::path::PathBuf;

use crate::split_support::{Case, From, case};
use dio_test::{Rng, Seed, file_systems};

/// Directories to run in: on all file systems of the tests, and in memory.
fn places() -> Vec<PathBuf> {
    let memory = Some(PathBuf::from("/dev/shm")).filter(|path| path.is_dir());
    file_systems().into_iter().map(|fs| fs.path).chain(memory).collect()
}

/// Random inputs that cover difficult cases.
fn input(rng: &mut Rng, separator: u8) -> Vec<u8> {
    let length = match rng.range(0..10) {
        0 => 0,
        1 => 1,
        2..6 => rng.range_usize(2..400),
        6..9 => rng.range_usize(400..20_000),
        _ => rng.range_usize(200_000..3_000_000),
    };
    let often = [0.0, 0.0005, 0.01, 0.1, 0.5][rng.range_usize(0..5)];
    let mut bytes = rng.bytes(length);
    let text = rng.bool(0.5);
    for byte in &mut bytes {
        if text {
            *byte = b' ' + *byte % 90;
        }
        if rng.bool(often) {
            *byte = separator;
        }
    }
    if rng.bool(0.3) && length > 0 {
        bytes[length - 1] = separator;
    }
    bytes
}

/// A number that leads to at most some hundred outputs.
fn enough(rng: &mut Rng, length: usize, outputs: usize) -> u64 {
    let least = (length / outputs).max(1) as u64;
    match rng.range(0..4) {
        0 => least,
        1 => least * 2,
        2 => least + rng.range(0..least + 5),
        _ => (length as u64).max(1),
    }
}

fn ways(rng: &mut Rng, length: usize, lines: usize) -> (Option<String>, bool) {
    let count = rng.range(1..40);
    let k = rng.range(1..count + 1);
    let way = match rng.range(0..12) {
        0 if lines < 300_000 => return (None, false),
        0 | 1 => format!("-l{}", enough(rng, lines, 40)),
        2 => format!("-b{}", enough(rng, length, 40)),
        3 => format!("--bytes={}", enough(rng, length, 20)),
        4 => format!("-C{}", enough(rng, length, 40)),
        5 => format!("-{}", enough(rng, lines, 40)),
        6 => format!("-n{count}"),
        7 => format!("-n{k}/{count}"),
        8 => format!("-nl/{count}"),
        9 => format!("-nl/{k}/{count}"),
        10 => format!("-nr/{count}"),
        _ => format!("-nr/{k}/{count}"),
    };
    let extracts = way.matches('/').count() == 2
        || (way.matches('/').count() == 1 && !way.contains(['l', 'r']));
    (Some(way), extracts)
}

fn random_case(rng: &mut Rng) -> Case {
    let (separator, flag) = [(b'\n', None), (b'\n', None), (0, Some("-t\\0")), (b':', Some("-t:"))]
        [rng.range_usize(0..4)];
    let input = input(rng, separator);
    let lines = input.iter().filter(|byte| **byte == separator).count() + 1;
    let (way, extracts) = ways(rng, input.len(), lines);
    let by_size = way.as_deref().is_some_and(|way| way.starts_with("-n") && !way.contains('r'));
    let in_turn = way.as_deref().is_some_and(|way| way.starts_with("-nr"));
    let mut case = case("", input);
    case.args.extend(flag.map(Into::into));
    case.args.extend(way.map(Into::into));
    let mut add = |chance: f64, flag: &str| {
        if rng.bool(chance) {
            case.args.push(flag.into());
        }
    };
    add(0.2, "-e");
    add(0.2, "-u");
    add(0.2, "--verbose");
    add(0.1, "-a3");
    add(0.05, "-a1");
    add(0.1, "--additional-suffix=.txt");
    add(0.15, "-d");
    add(0.1, "-x");
    add(0.1, "--numeric-suffixes=7");
    add(0.05, "--hex-suffixes=1");
    if !extracts && rng.bool(0.3) {
        // If several commands run, their output and their failures come in an undefined order, also
        // relative to the output of --verbose.
        let quiet = [
            "cat >$FILE.f",
            "head -c3 >$FILE.f; exec cat >/dev/null",
            "true",
            "head -c 3 >$FILE.f",
        ];
        let loud = [
            "cat",
            "wc -c",
            "exit 3",
            "kill -9 $$",
            "head -n1; exit 1",
            "cat >$FILE; kill $$",
            "echo $FILE",
        ];
        let verbose = case.args.iter().any(|arg| arg == "--verbose");
        // With `r/`, GNU split uses the errno of an earlier write for a later one. So whether a
        // command that has ended prevents other commands from getting their lines depends on
        // timing.
        let choices = match (in_turn, verbose) {
            (true, _) => quiet.len() - 1,
            (false, true) => quiet.len(),
            (false, false) => quiet.len() + loud.len(),
        };
        let pick = rng.range_usize(0..choices);
        let command = quiet.iter().chain(&loud).nth(pick).unwrap();
        case.args.push(format!("--filter={command}").into());
    }
    let from =
        [From::File, From::Redirected, From::Pipe][rng.range_usize(0..if by_size { 2 } else { 3 })];
    let case = case.from(from).locale(["C.UTF-8", "C"][rng.range_usize(0..2)]);
    if rng.bool(0.2) { case.prefix("the prefix-") } else { case }
}

#[test]
fn random_runs() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let places = places();
    for _ in 0..150 {
        let place = places[rng.range_usize(0..places.len())].clone();
        Case { place, ..random_case(&mut rng) }.same();
    }
}

#[test]
fn wrong_command_lines() {
    for line in include_str!("split_support/wrong.txt").lines() {
        // Arguments are separated by bars, because some of them contain blanks.
        let mut wrong = case("", "a\nb\nc\n").from(From::Redirected);
        wrong.args = line.split('|').map(|word| word.replace("\\n", "\n").into()).collect();
        wrong.same();
        wrong.locale("C").same();
    }
    // If there are several mistakes, dio and GNU split may report different ones.
    for line in [
        "-b 0 --foo",
        "--foo -b 0",
        "-0 -b x",
        "-b x -0",
        "-b 3 -l x -Z",
        "-a x --lines",
        "--num -t ab - y z",
    ] {
        let wrong = case(line, "a\nb\nc\n").from(From::Redirected);
        let (gnu, own) =
            (wrong.run(crate::split_support::GNU), wrong.run(crate::split_support::dio()));
        assert_eq!((gnu.status, gnu.files), (own.status, own.files), "{line}");
        assert!(own.err.starts_with(b"split: "), "{line}: {}", own.err.escape_ascii());
    }
}

#[test]
fn bytes_that_are_no_text() {
    use std::os::unix::ffi::OsStrExt;
    let raw = std::ffi::OsStr::from_bytes;
    for locale in ["C", "C.UTF-8"] {
        case("-b", "abc").arg(raw(b"\xff\x01")).locale(locale).same();
        case("-t", "abc").arg(raw(b"\xff")).locale(locale).same();
        // GNU split 9.1 does not accept bytes from 128 on as separators, and cuts at newlines
        // instead.
        let cut = case("-l1", b"a\xffb")
            .arg(raw(b"-t\xff"))
            .locale(locale)
            .run(crate::split_support::dio());
        assert_eq!(cut.files["xaa".as_ref() as &std::ffi::OsStr], b"a\xff");
    }
    case("-l1 --verbose", "a\nb\n").prefix("it's\t").same();
}

#[test]
fn outputs_that_cannot_be_made() {
    let lines = "1\n2\n3\n4\n5\n6\n";
    for (args, setup) in [
        ("-l2", "mkdir xab"),
        ("-l2", "ln -s nowhere/x xab"),
        ("-l2", "ln -s xab xab"),
        ("-l2 --verbose", "ln in xab"),
        ("-l2", "ln -s in xaa"),
        ("-b3", "ln -s /dev/full xab"),
        ("-C3", "ln -s /dev/full xaa"),
        ("-l1", "ln -s /dev/null xac"),
        ("-nr/3", "ln -s /dev/full xab"),
        ("-nr/3 -u", "ln -s /dev/full xab"),
        ("-nr/3", "ln -s /dev/null xab"),
        ("-nr/3", "ln -s in xab"),
        ("-n3", "ln -s /dev/full xac"),
        ("-nl/3", "ln -s /dev/full xac"),
        ("-l1 -a1 --numeric-suffixes=7", "true"),
        ("-l1 -a1 -d --verbose -b1", "true"),
        ("-l1 -a300", "true"),
        ("-l2", "echo longer than what comes >xab"),
        ("-nr/2", "echo longer than what comes >xab"),
    ] {
        case(args, lines).setup(setup).same();
    }
    case("-l2", lines).prefix("nowhere/x").same();
    case("-l2 nowhere", lines).from(From::Redirected).same();
    case("-l2 .", lines).from(From::Redirected).same();
    case("-n2 .", lines).from(From::Redirected).same();
    case("-n2 /dev/null", lines).from(From::Redirected).same();
    case("-l2 /dev/null", lines).from(From::Redirected).same();
    case("-n1/2 /dev/zero", lines).from(From::Redirected).same();
}

#[test]
fn filters() {
    let lines: String = (0..5000).map(|line| format!("{line}\n")).collect();
    let long = lines.repeat(100);
    for (args, filter, input) in [
        ("-l2000", "head -n 1", &lines),
        ("-b1000000", "head -c 5; echo", &long),
        ("-C1000000", "head -c 5; echo", &long),
        ("-n3", "head -c 5; echo", &long),
        ("-nl/3", "head -c 5; echo", &long),
        ("-nr/3", "head -c 5 >$FILE", &long),
        ("-nr/1", "head -c 5", &long),
        ("-l2000", "exit 3", &lines),
        ("-l2000", "kill -TERM $$", &lines),
        ("-l2000", "kill -PIPE $$", &lines),
        ("-l2000", "kill -RTMIN $$", &lines),
        ("-nr/3", "exit 200", &lines),
        ("-l2000 --verbose", "cat >$FILE", &lines),
        ("-l2000 -a1 --additional-suffix=.x", "cat >$FILE", &lines),
    ] {
        case(args, input).arg(format!("--filter={filter}")).same();
        let by_size = args.starts_with("-n") && !args.contains('r');
        if !by_size {
            case(args, input).arg(format!("--filter={filter}")).from(From::Pipe).same();
        }
    }
    case("-l9 --filter=cat", &lines).env("SHELL", "/nowhere/sh").same();
    case("-l9 --filter=cat", &lines).env("SHELL", "").same();
}

#[test]
fn names_run_out_or_grow() {
    let lines: String = (0..2000).map(|line| format!("{line}\n")).collect();
    for args in [
        "-1",
        "-1 -d",
        "-1 -x",
        "-1 -a2",
        "-1 -a2 -d",
        "-1 --numeric-suffixes=95",
        "-1 -a0",
        "-1 -a3 -x",
        "-nr/2000",
    ] {
        // This makes thousands of files, which is fast in memory.
        let place = places().pop().unwrap();
        Case { place, ..case(args, &lines) }.same();
    }
}

#[test]
fn a_position_that_is_not_the_start() {
    for args in ["-n2", "-n2/2", "-nl/2", "-nl/2/3", "-b3", "-l2", "-nr/2"] {
        let run = |program: &std::ffi::OsStr| {
            let shell = format!("read first; exec {} {args}", program.display());
            let mut runs = case("-c", "first\nb\nc\nddd\ne\n").arg(&shell).from(From::Redirected);
            runs.setup = String::new();
            runs.run("sh")
        };
        let (gnu, dio) = (run("split".as_ref()), run(crate::split_support::dio().as_ref()));
        assert!(gnu == dio, "{args}");
        assert_eq!(gnu.status, (Some(0), None));
    }
}
