//! Behaviour of `dio split` that cannot be compared with the system's split: full disks, receipts,
//! and pauses of the input.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::own::{Mounted, cold, in_memory, is_direct, is_root, json, line, number, until};
use crate::split_support::{Case, From, case, dio};
use dio_test::{MemoryGroup, Rng, Seed, file_systems};

const MIB: u64 = 1 << 20;

/// Lines of text, each of which is unique.
fn lines(bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 20);
    let mut number = 0;
    while text.len() < bytes {
        writeln!(text, "{number:>15}").unwrap();
        number += 1;
    }
    text
}

/// The outputs in a directory, joined in the order of their names.
fn joined(directory: &Path) -> Vec<u8> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.file_name().unwrap().as_encoded_bytes().starts_with(b"x"));
    names.sort();
    names.iter().flat_map(|path| fs::read(path).unwrap()).collect()
}

#[test]
fn a_pipe_is_split_by_size_as_a_file_is() {
    let mut rng = Seed::new().rng();
    for args in ["-n3", "-n2/3", "-nl/5", "-nl/2/5", "-n3 -e"] {
        for length in [0, 1, 5000, 3_000_000] {
            let input: Vec<u8> = rng
                .bytes(length)
                .iter()
                .map(|byte| if *byte < 20 { b'\n' } else { *byte })
                .collect();
            let (file, pipe) =
                (case(args, &input).from(From::Redirected), case(args, &input).from(From::Pipe));
            assert!(file.run(dio()) == pipe.run(dio()), "{args} of {length} bytes");
        }
    }
}

#[test]
fn a_full_disk_is_told_of_the_first_output_that_it_cut_short() {
    let Some(disk) = Mounted::new(&["mkfs.ext4", "-q", "-F"], 32 * MIB) else { return };
    let elsewhere = file_systems()[0].dir();
    let input = lines(64 << 20);
    let from = elsewhere.path().join("in");
    fs::write(&from, &input).unwrap();
    let ways: [(_, usize); 5] = [
        (["-b", "2M"], 2 << 20),
        (["-b", "300000"], 300_000),
        (["-C", "10M"], 10 << 20),
        (["-n", "l/4"], 16 << 20),
        (["-n", "r/3"], 0),
    ];
    for (args, whole) in ways {
        let output =
            Command::new(dio()).args(args).arg(&from).current_dir(&disk.path).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {told}");
        let name = told
            .strip_prefix("split: ")
            .and_then(|rest| rest.strip_suffix(": No space left on device\n"));
        let name = name.unwrap_or_else(|| panic!("{args:?}: {told}"));
        if !args[1].starts_with('r') {
            // All outputs before the named one are complete, and the named one is not. Later ones
            // may have been written meanwhile.
            let mut at = 0;
            for path in
                sorted(&disk.path).into_iter().take_while(|path| path.file_name().unwrap() != name)
            {
                let bytes = fs::read(path).unwrap();
                assert!(bytes == input[at..at + whole], "{args:?}: {name}");
                at += whole;
            }
            assert!(
                fs::read(disk.path.join(name)).unwrap() != input[at..at + whole],
                "{args:?}: {name}"
            );
        }
        sorted(&disk.path).iter().for_each(|path| fs::remove_file(path).unwrap());
    }
}

fn sorted(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.is_file());
    names.sort();
    names
}

#[test]
fn a_directory_that_may_not_be_written() {
    if !is_root() {
        dio_test::skip!("needs root to become someone else");
        return;
    }
    let directory = file_systems()[0].dir();
    fs::write(directory.path().join("in"), "a\nb\n").unwrap();
    let run = |program: &Path| {
        let copy = directory.path().join("split");
        dio_test::copy_program(program, &copy);
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&copy)
            .args(["-l1", "in"]);
        command.env("LC_ALL", "C").current_dir(directory.path());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(directory.path(), mode).unwrap();
        let output = command.output().unwrap();
        // GNU split prints the name by which it was called.
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap().replace(copy.to_str().unwrap(), "split"),
        )
    };
    let (code, told) = run(Path::new(env!("CARGO_BIN_EXE_dio")));
    assert_eq!((code, told.as_str()), (Some(1), "split: xaa: Permission denied\n"));
    assert_eq!(run(Path::new("/usr/bin/split")), (code, told));
}

#[test]
fn receipts_say_where_the_bytes_went() {
    for fs in file_systems() {
        let directory = fs.dir();
        let input = lines(9_000_000);
        let path = directory.path().join("in");
        fs::write(&path, &input).unwrap();
        for args in ["-b4M", "-l100000", "-C700000", "-nl/3", "-nr/3", "-l1000"] {
            cold(&path);
            let output = Command::new(dio())
                .args([args, "--receipt=-", "in"])
                .current_dir(directory.path())
                .output()
                .unwrap();
            assert!(output.status.success(), "{args}: {output:?}");
            let receipt = json(std::str::from_utf8(&output.stdout).unwrap());
            let total = input.len() as u64;
            assert_eq!(
                (number(&receipt, "bytes_read"), number(&receipt, "bytes_written")),
                (total, total),
                "{args}"
            );
            assert_eq!(receipt["command"], "split");
            assert!(number(&receipt, "peak_buffer_bytes") < 128 * MIB, "{args}: {receipt}");
            if args == "-nr/3" {
                let all: usize =
                    sorted(directory.path()).iter().map(|path| fs::read(path).unwrap().len()).sum();
                assert_eq!(all, 2 * input.len());
            } else {
                assert!(joined(directory.path()) == input, "{args}");
            }
            let first = line(&receipt, "target", "xaa");
            if is_direct(&fs) {
                let expected = if args == "-l1000" { "uncached" } else { "direct" };
                let bounced = if args == "-l1000" { "uncached" } else { "bounced" };
                assert!(
                    [expected, bounced].contains(&first["mode"].as_str().unwrap()),
                    "{args} on {}: {first}",
                    fs.name
                );
            }
            if !in_memory(&fs) && is_direct(&fs) {
                assert_eq!(
                    line(&receipt, "source", "in")["pages_after"],
                    0,
                    "{args} on {}",
                    fs.name
                );
                assert_eq!(first["pages_after"], 0, "{args} on {}: {first}", fs.name);
            }
            for path in sorted(directory.path()).iter().filter(|path| !path.ends_with("in")) {
                fs::remove_file(path).unwrap();
            }
        }
    }
}

#[test]
fn flags_of_dio_change_nothing_in_the_outputs() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let input = lines(5_000_000);
    for _ in 0..30 {
        let pick = |rng: &mut Rng, of: &[&'static str]| of[rng.range_usize(0..of.len())];
        let way = pick(
            &mut rng,
            &["-b300001", "-b1M", "-C99999", "-l7777", "-nr/7", "-nr/300", "-nl/7", "-n7", "-n3/7"],
        );
        let from = [From::File, From::Redirected, From::Pipe][rng.range_usize(0..3)];
        let mut flags = String::new();
        for (flag, values) in [
            ("--mode", &["auto", "direct", "uncached", "cached"] as &[_]),
            ("--block", &["512", "4K", "100000", "1M", "3M"]),
            ("--depth", &["1", "2", "16"]),
        ] {
            if rng.bool(0.6) {
                flags += &format!(" {flag}={}", pick(&mut rng, values));
            }
        }
        let plain = case(way, &input).from(From::Redirected).run(dio());
        let other = case(&format!("{way} {flags}"), &input).from(from).run(dio());
        assert!(plain == other, "{way} {flags} {from:?}: {}", other.err.escape_ascii());
    }
}

#[test]
fn a_mode_that_cannot_be_had_is_an_error_where_it_is_required() {
    let place = std::path::PathBuf::from("/dev/shm");
    if !place.is_dir() {
        dio_test::skip!("no /dev/shm");
        return;
    }
    for way in ["-b2M", "-l100000", "-nr/2"] {
        let required = Case {
            place: place.clone(),
            ..case(&format!("{way} --mode=direct --strict"), lines(3 << 20))
        };
        let seen = required.run(dio());
        assert_eq!(seen.status, (Some(1), None), "{way}");
        assert!(seen.err.starts_with(b"split: "), "{way}: {}", seen.err.escape_ascii());
    }
}

#[test]
fn more_outputs_than_descriptors() {
    let input = lines(400_000);
    for (limit, flags) in
        [(30, "-nr/200 -a3"), (10, "-n4"), (10, "-l50000"), (10, "-b1M --elide-empty-files")]
    {
        let program = |program: &str| {
            let shell = format!("ulimit -n {limit}; exec {program} {flags} in");
            let mut run = case("-c", &input).arg(shell);
            run.from = From::Redirected;
            run.run("sh")
        };
        let (gnu, own) = (program("split"), program(dio().to_str().unwrap()));
        assert_eq!(own.status, (Some(0), None), "{flags}: {}", own.err.escape_ascii());
        assert!(gnu == own, "{flags}");
    }
}

#[test]
fn a_pause_of_the_input_delays_nothing_with_unbuffered() {
    for args in [["-nr/2", "-u"], ["-l1", "-u"], ["-nr/2", "--filter=cat >$FILE"], ["-l1", "-a2"]] {
        let directory = file_systems()[0].dir();
        let mut command = Command::new(dio());
        command.args(args).current_dir(directory.path()).stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(b"first\nsecond\n").unwrap();
        let holds = |name: &str, text: &str| {
            fs::read_to_string(directory.path().join(name)).is_ok_and(|is| is == text)
        };
        // The input stays open meanwhile.
        until("lines arrive", || holds("xaa", "first\n") && holds("xab", "second\n"));
        pipe.write_all(b"third").unwrap();
        let name = if args[0] == "-l1" { "xac" } else { "xaa" };
        let text = if args[0] == "-l1" { "third" } else { "first\nthird" };
        until("a part of a line arrives", || holds(name, text));
        drop(pipe);
        assert!(child.wait().unwrap().success());
        assert!(holds(name, text));
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_run_as_it_does_other_programs() {
    let input = lines(3 << 20);
    for way in ["-n1/1", "-nl/1/1", "-nr/1/1"] {
        for program in [Path::new("split"), dio()] {
            let directory = file_systems()[0].dir();
            fs::write(directory.path().join("in"), &input).unwrap();
            let mut command = Command::new(program);
            command.args([way, "in"]).current_dir(directory.path()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            drop(child.stdout.take());
            let status = child.wait().unwrap();
            assert_eq!(
                std::os::unix::process::ExitStatusExt::signal(&status),
                Some(13),
                "{way} {}",
                program.display()
            );
        }
    }
}

#[test]
fn filters_that_have_all_gone_end_an_endless_input() {
    let directory = file_systems()[0].dir();
    let mut command = Command::new("sh");
    command.current_dir(directory.path()).env("SHELL", "/bin/sh");
    command.arg("-c").arg(format!("yes | {} -nr/2 --filter='head -n 1 >$FILE'", dio().display()));
    assert!(command.status().unwrap().success());
    assert_eq!(joined(directory.path()), b"y\ny\n");
}

#[test]
fn more_than_fits_into_memory() {
    let Some(group) = MemoryGroup::new(96 * MIB) else { return };
    let directory = file_systems()[0].dir();
    let path = directory.path().join("in");
    let input = lines(200 << 20);
    fs::write(&path, &input).unwrap();
    cold(&path);
    for args in ["-b32M", "-b700000", "-l1000000", "-C30M", "-nl/5", "-nr/3", "-nr/200"] {
        let shell =
            format!("echo $$ >{} && exec {} {args} in", group.procs().display(), dio().display());
        let output =
            Command::new("sh").arg("-c").arg(shell).current_dir(directory.path()).output().unwrap();
        assert!(output.status.success(), "{args}: {output:?}");
        let outputs: Vec<_> =
            sorted(directory.path()).into_iter().filter(|path| !path.ends_with("in")).collect();
        if !args.starts_with("-nr") {
            assert!(joined(directory.path()) == input, "{args}");
        } else {
            // The outputs get one line each in turn.
            let files: Vec<Vec<u8>> = outputs.iter().map(|path| fs::read(path).unwrap()).collect();
            for (number, line) in input.chunks(16).enumerate() {
                let at = number / files.len() * 16;
                assert!(files[number % files.len()][at..at + 16] == *line, "{args}: line {number}");
            }
            assert_eq!(files.iter().map(Vec::len).sum::<usize>(), input.len(), "{args}");
        }
        outputs.iter().for_each(|path| fs::remove_file(path).unwrap());
    }
}

#[test]
fn help_and_version() {
    let seen = case("--help", "").run(dio());
    let text = String::from_utf8(seen.out).unwrap();
    assert_eq!(seen.status, (Some(0), None));
    for flag in
        ["--bytes", "--line-bytes", "--filter", "--receipt", "-d", "--numeric-suffixes[=<FROM>]"]
    {
        assert!(text.contains(flag), "{flag}: {text}");
    }
    let version = String::from_utf8(case("--version", "").run(dio()).out).unwrap();
    assert!(
        version.contains("split") && version.trim_end().ends_with(env!("CARGO_PKG_VERSION")),
        "{version}"
    );
}
