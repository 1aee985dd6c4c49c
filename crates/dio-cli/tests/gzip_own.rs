//! Behaviour of `dio gzip` and `dio zstd` that cannot be compared with the system's programs:
//! sudden ends, full disks, little memory, damaged files, and receipts.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::compress_support::{Whose, links, piped, scratch, script, text, well};
use crate::own::{Mounted, cold, in_memory, is_direct, is_root, json, number, until, until_caught};
use dio_test::{MemoryGroup, Seed, file_systems, random_file};
use rustix::process::{Pid, Signal, kill_process};

const MIB: usize = 1 << 20;

/// Names in a directory, sorted.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Starts a command in the C locale. Its standard error is discarded.
fn start(dir: &Path, program: &str, args: &[&str]) -> std::process::Child {
    let mut command = Command::new(links().join(program));
    command
        .args(args)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    command.spawn().unwrap()
}

#[test]
fn a_signal_leaves_nothing_of_a_target_and_all_of_the_source() {
    for (program, args, target) in [
        ("gzip", &["-9", "big"][..], "big.gz"),
        ("zstd", &["-q", "--rm", "-19", "big"], "big.zst"),
        ("zstd", &["-q", "-19", "big", "-o", "out"], "out"),
    ] {
        let dir = scratch();
        let bytes = text(40 * MIB);
        fs::write(dir.path().join("big"), &bytes).unwrap();
        let mut child = start(dir.path(), program, args);
        let io = format!("/proc/{}/io", child.id());
        until("it has begun", || {
            let text = fs::read_to_string(&io).unwrap_or_default();
            let read =
                text.lines().find_map(|line| line.strip_prefix("syscr: ")?.parse::<u64>().ok());
            read.unwrap_or(0) > 3 || !fs::exists(&io).unwrap()
        });
        until_caught(Pid::from_child(&child), Signal::INT);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(2), "{program} {args:?}");
        assert_eq!(names(dir.path()), ["big"], "{program} {args:?}: {target}");
        assert!(fs::read(dir.path().join("big")).unwrap() == bytes);
    }
}

#[test]
fn what_is_killed_loses_no_source() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let bytes = text(6 * MIB);
    let compressed = [piped("gzip", &["-c"], &bytes), piped("zstd", &["-qc"], &bytes)];
    let mut cut = 0;
    // Duration of each kind of run when it is not killed, measured in its first round.
    let mut whole = [Duration::ZERO; 4];
    for round in 0..28 {
        let dir = scratch();
        let files = ["a", "b", "c"];
        let (program, back, args, suffix): (_, _, &[&str], _) = match round % 4 {
            0 => ("gzip", "gzip", &["-f"], ".gz"),
            1 => ("gzip", "gzip", &["-df"], ".gz"),
            2 => ("zstd", "zstd", &["-qf", "--rm"], ".zst"),
            _ => ("zstd", "zstd", &["-dqf", "--rm"], ".zst"),
        };
        let decompresses = round % 2 == 1;
        let mut operands = args.to_vec();
        let packed: Vec<String> = files.iter().map(|name| format!("{name}{suffix}")).collect();
        for (name, packed) in files.iter().zip(&packed) {
            let (path, content) = match decompresses {
                true => (dir.path().join(packed), &compressed[round % 4 / 2]),
                false => (dir.path().join(name), &bytes),
            };
            fs::write(path, content).unwrap();
            operands.push(if decompresses { packed } else { name });
        }
        let began = Instant::now();
        let mut child = start(dir.path(), program, &operands);
        if round >= 4 {
            std::thread::sleep(whole[round % 4].mul_f64(rng.range(0..1000) as f64 / 1000.0));
            let _ = child.kill();
        }
        let status = child.wait().unwrap();
        if round < 4 {
            assert!(status.success(), "{program} {operands:?}: {status}");
            whole[round] = began.elapsed();
        }
        cut += usize::from(status.signal() == Some(9));
        for (name, packed) in files.iter().zip(&packed) {
            // The source or the target is there, and every file with a final name is complete.
            let plain = fs::read(dir.path().join(name)).ok();
            let unpacked =
                fs::read(dir.path().join(packed)).ok().map(|packed| piped(back, &["-dc"], &packed));
            assert!(
                plain.is_some() || unpacked.is_some(),
                "{name} is lost, round {round}, {seed:?}"
            );
            for found in [plain, unpacked].into_iter().flatten() {
                assert!(
                    found == bytes,
                    "{name} has {} bytes, round {round}, {seed:?}",
                    found.len()
                );
            }
        }
    }
    assert!(cut > 0, "no run was cut in the middle: {seed:?}");
}

#[test]
fn a_full_disk_keeps_the_source_and_what_was_there() {
    let Some(disk) = Mounted::new(&["mkfs.ext4", "-q", "-F"], 24 << 20) else { return };
    random_file(disk.path.join("noise"), 11 << 20, 5);
    fs::write(disk.path.join("noise.gz"), "old").unwrap();
    fs::write(disk.path.join("noise.zst"), "old").unwrap();
    let before = names(&disk.path);
    for text in ["gzip -f noise", "zstd -qf --rm noise", "gzip -c noise > out"] {
        let output = script(Whose::Ours, &disk.path, text).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}: {said}");
        assert!(said.contains("No space left on device"), "{text}: {said}");
        let _ = fs::remove_file(disk.path.join("out"));
        assert_eq!(names(&disk.path), before, "{text}");
        for name in ["noise.gz", "noise.zst"] {
            assert_eq!(fs::read(disk.path.join(name)).unwrap(), b"old", "{text}");
        }
    }
}

#[test]
fn a_directory_that_may_not_be_written() {
    if !is_root() {
        dio_test::skip!("needs root to become someone else");
        return;
    }
    let dir = scratch();
    crate::compress_support::permit(dir.path(), 0o755);
    dio_test::copy_program(env!("CARGO_BIN_EXE_dio"), dir.path().join("gzip"));
    fs::write(dir.path().join("a"), "a").unwrap();
    fs::write(dir.path().join("b.gz"), piped("gzip", &["-c"], b"b")).unwrap();
    let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
    for (program, prefix) in [("./gzip", "gzip: "), ("/bin/gzip", "gzip: ")] {
        let text = format!("{nobody} {program} a; {nobody} {program} -d b.gz");
        let output = script(Whose::Ours, dir.path(), &text).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            said,
            format!("{prefix}a.gz: Permission denied\n{prefix}b: Permission denied\n"),
            "{program}"
        );
    }
}

#[test]
fn the_sound_part_of_a_damaged_file_is_kept_where_that_is_asked_for() {
    let dir = scratch();
    // Digits in random order, which make many blocks.
    let bytes: Vec<u8> =
        Seed::new().rng().bytes(3 * MIB).iter().map(|byte| b'0' + byte % 10).collect();
    for (program, suffix) in [("gzip", ".gz"), ("zstd", ".zst")] {
        let mut packed = piped(program, &["-c"], &bytes);
        let half = packed.len() / 2;
        packed.truncate(half);
        let name = format!("x{suffix}");
        fs::write(dir.path().join(&name), &packed).unwrap();
        let output =
            script(Whose::Ours, dir.path(), &format!("{program} -d {name}")).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(1) && said.contains(&format!("at byte {half}")),
            "{said}"
        );
        assert!(!dir.path().join("x").exists());
        let output = script(Whose::Ours, dir.path(), &format!("{program} -df --salvage {name}"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let kept = fs::read(dir.path().join("x")).unwrap();
        assert!(kept.len() > 100_000 && kept == bytes[..kept.len()], "{} bytes", kept.len());
        // The source stays.
        assert!(fs::read(dir.path().join(&name)).unwrap() == packed);
        fs::remove_file(dir.path().join("x")).unwrap();
    }
}

#[test]
fn no_changed_byte_gives_other_data_without_a_word() {
    let seed = Seed::new();
    let mut rng = seed.rng();
    let dir = scratch();
    let bytes = text(400_000);
    let ours = well(dir.path(), "head -c 0 /dev/null | gzip");
    assert!(piped("gzip", &["-dc"], &ours).is_empty());
    fs::write(dir.path().join("in"), &bytes).unwrap();
    for (program, make) in
        [("gzip", "gzip -c in"), ("gzip", "/bin/gzip -c in"), ("zstd", "zstd -qc in")]
    {
        let sound = well(dir.path(), make);
        for _ in 0..25 {
            let mut broken = sound.clone();
            let at = rng.range_usize(0..broken.len());
            broken[at] ^= 1 << rng.range(0..8);
            fs::write(dir.path().join("broken"), &broken).unwrap();
            let text = format!("exec timeout 20 {program} -dc < broken");
            let output = script(Whose::Ours, dir.path(), &text).output().unwrap();
            let code = output.status.code();
            assert!(matches!(code, Some(0..=2)), "{make} changed at {at}: {output:?}, {seed:?}");
            if code == Some(0) {
                assert!(output.stdout == bytes, "{make} changed at {at}, {seed:?}");
            }
        }
    }
}

#[test]
fn a_closed_pipe_ends_it() {
    let dir = scratch();
    fs::write(dir.path().join("in"), text(20 * MIB)).unwrap();
    well(dir.path(), "gzip -1 -k in; zstd -q in");
    for program in [
        "gzip -c in",
        "zcat in.gz",
        "zstd -qc in",
        "zstdcat in.zst",
        "gzip < in",
        "zstd -dc < in.zst",
    ] {
        let text = format!("({program}; echo $? > status) | head -c 100 > /dev/null; cat status");
        let output = script(Whose::Ours, dir.path(), &text).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "141", "{program}: {output:?}");
    }
}

#[test]
fn receipts_say_that_the_page_cache_was_left_alone() {
    for fs in file_systems() {
        let dir = fs.dir();
        let path = dir.path().join("in");
        fs::write(&path, text(9 * MIB + 17)).unwrap();
        for (make, back, packed) in
            [("gzip -k", "gzip -dkf", "in.gz"), ("zstd -q", "zstd -dqf", "in.zst")]
        {
            cold(&path);
            let receipt = json(
                std::str::from_utf8(&well(dir.path(), &format!("{make} --receipt=- in"))).unwrap(),
            );
            assert_eq!(number(&receipt, "bytes_read"), (9 * MIB + 17) as u64, "{receipt:#}");
            if !is_direct(&fs) || in_memory(&fs) {
                continue;
            }
            cold(&dir.path().join(packed));
            let back = json(
                std::str::from_utf8(&well(dir.path(), &format!("{back} --receipt=- {packed}")))
                    .unwrap(),
            );
            for receipt in [receipt, back] {
                for line in receipt["files"].as_array().unwrap() {
                    assert_eq!(line["pages_after"], 0, "{make} on {}: {line:#}", fs.name);
                }
            }
        }
    }
}

#[test]
fn files_larger_than_the_memory_pass_through() {
    let Some(group) = MemoryGroup::new(128 << 20) else { return };
    let dir = scratch();
    random_file(dir.path().join("big"), 260 << 20, 5);
    let enter = format!("echo $$ > {} && exec", group.procs().display());
    for (program, level, packed) in [("gzip -k", "-1", "big.gz"), ("zstd -q", "-1", "big.zst")] {
        let (name, _) = program.split_once(' ').unwrap();
        well(dir.path(), &format!("sh -c '{enter} {program} {level} big'"));
        well(
            dir.path(),
            &format!("sh -c '{enter} {name} -dc {packed}' | cmp - big && rm {packed}"),
        );
    }
}

/// Runs a command on a terminal of its own, and types `answer` when the command asks. Returns what
/// the terminal shows, and the exit status.
fn asked(dir: &Path, line: &str, answer: &[u8]) -> (String, Option<i32>) {
    asked_and(dir, line, &|| (), answer)
}

/// As `asked`, but calls `meanwhile` before the answer.
fn asked_and(dir: &Path, line: &str, meanwhile: &dyn Fn(), answer: &[u8]) -> (String, Option<i32>) {
    use std::io::{Read, Write};
    let mut command = script(Whose::Ours, dir, "exec script -qec \"$LINE\" /dev/null");
    command.env("LINE", line).env("SHELL", "/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = Vec::new();
    let mut typed = false;
    let mut bytes = [0; 1000];
    while let Ok(count @ 1..) = screen.read(&mut bytes) {
        seen.extend_from_slice(&bytes[..count]);
        if !typed && String::from_utf8_lossy(&seen).contains("? ") {
            meanwhile();
            keys.write_all(answer).unwrap();
            typed = true;
        }
    }
    assert!(typed, "{line}: {}", String::from_utf8_lossy(&seen));
    (String::from_utf8_lossy(&seen).into_owned(), child.wait().unwrap().code())
}

#[test]
fn what_is_there_is_replaced_only_by_consent() {
    if !Command::new("script")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        return dio_test::skip!("there is no script(1)");
    }
    for (line, target, refused) in [("gzip -k f", "f.gz", 2), ("zstd f", "f.zst", 1)] {
        // Ctrl-C ends the command by its signal, which a shell reports as status 130.
        for (answer, status) in
            [(&b"n\n"[..], refused), (b"\n", refused), (b"y\n", 0), (b"\x03", 130)]
        {
            let dir = scratch();
            fs::write(dir.path().join("f"), "new").unwrap();
            fs::write(dir.path().join(target), "old").unwrap();
            let (seen, told) = asked(dir.path(), line, answer);
            assert_eq!(told, Some(status), "{line} {answer:?}: {seen}");
            let kept = fs::read(dir.path().join(target)).unwrap() == b"old";
            assert_eq!(kept, status != 0, "{line} {answer:?}: {seen}");
            assert_eq!(names(dir.path()), ["f", target]);
        }
    }
}

/// The owner of a directory can replace a directory in it by a link to another directory while a
/// file in there is compressed. The test does so while the command waits for an answer.
#[test]
fn a_directory_that_is_exchanged_leads_to_no_other() {
    if !Command::new("script")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
    {
        return dio_test::skip!("there is no script(1)");
    }
    for (line, suffix, answer) in [
        ("gzip -k dir/sub/a", "gz", "y"),
        ("gzip dir/sub/a", "gz", "y"),
        ("gzip -r dir", "gz", "n"),
        ("gzip -r dir", "gz", "y"),
        ("gunzip -k dir/sub/b.gz", "", "y"),
        ("gunzip -r dir", "", "n"),
        ("zstd dir/sub/a", "zst", "y"),
        ("zstd --rm dir/sub/a", "zst", "y"),
        ("zstd -r --rm dir", "zst", "n"),
        ("unzstd --rm -r dir", "", "y"),
    ] {
        let scratch = scratch();
        let at = |name: &str| scratch.path().join(name);
        fs::create_dir_all(at("dir/sub")).unwrap();
        fs::create_dir(at("other")).unwrap();
        for place in ["dir/sub", "other"] {
            well(&at(place), "for f in b c; do echo text > $f; gzip -k $f; zstd -q $f; done; rm c");
            fs::write(at(place).join("victim"), "victim").unwrap();
        }
        for name in ["a", "a.gz", "a.zst"] {
            fs::write(at("dir/sub").join(name), "old").unwrap();
        }
        let before = names(&at("other"));
        let exchange = || {
            fs::rename(at("dir/sub"), at("dir/gone")).unwrap();
            std::os::unix::fs::symlink("../other", at("dir/sub")).unwrap();
        };
        let (seen, _) =
            asked_and(scratch.path(), line, &exchange, format!("{answer}\n").repeat(9).as_bytes());
        assert_eq!(names(&at("other")), before, "{line}: {seen}");
        if answer == "y" {
            let replaced = at("dir/gone").join(if suffix.is_empty() {
                "b".into()
            } else {
                format!("a.{suffix}")
            });
            let is_new =
                fs::read(&replaced).is_ok_and(|bytes| bytes != b"old" && !bytes.is_empty());
            assert!(is_new, "{line}: {seen}");
        }
    }
}

#[test]
fn no_answer_is_taken_out_of_the_data() {
    let dir = scratch();
    fs::write(dir.path().join("a"), "new").unwrap();
    fs::write(dir.path().join("a.zst"), "old").unwrap();
    let output =
        script(Whose::Ours, dir.path(), "echo yes | zstd - a | zstd -dc").output().unwrap();
    assert_eq!(output.stdout, b"yes\n");
    assert_eq!(fs::read(dir.path().join("a.zst")).unwrap(), b"old");
}

#[test]
fn a_pipe_is_waited_for_and_a_device_is_left_alone() {
    let dir = scratch();
    // It is opened for reading before there is a writer. If gzip did not wait for one, the input
    // would be empty most of the time.
    let waits = "mkfifo ff; gzip -c ff > ff.gz & sleep 0.3; echo text > ff; wait; zcat ff.gz";
    assert_eq!(well(dir.path(), waits), b"text\n");
    let device = dir.path().join("null");
    if let Err(error) = std::os::unix::fs::symlink("/dev/null", &device) {
        panic!("{error}");
    }
    let output = script(Whose::Ours, dir.path(), "zstd -f null").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(output.stderr, b"zstd: null is not a regular file -- ignored \n");
    assert_eq!(names(dir.path()).iter().filter(|name| name.starts_with("null")).count(), 1);
}

#[test]
fn the_last_word_on_where_to_write_counts_and_what_is_kept_gets_its_name() {
    let dir = scratch();
    fs::write(dir.path().join("a"), text(1000)).unwrap();
    assert_eq!(well(dir.path(), "zstd -q -c a -o out"), b"");
    assert_eq!(piped("zstd", &["-dc"], &well(dir.path(), "zstd -q -o out2 -c a")), text(1000));
    assert_eq!(names(dir.path()), ["a", "out"]);
    let bytes = text(2 * MIB);
    let mut damaged = piped("zstd", &["-qc"], &bytes);
    let end = damaged.len() - 1;
    damaged[end] ^= 1;
    fs::write(dir.path().join("d.zst"), damaged).unwrap();
    let output =
        script(Whose::Ours, dir.path(), "zstd -d --salvage d.zst -o kept").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(fs::read(dir.path().join("kept")).unwrap() == bytes);
}

#[test]
fn a_name_given_twice_is_missed_the_second_time() {
    let dir = scratch();
    fs::write(dir.path().join("a"), "text").unwrap();
    let output = script(Whose::Ours, dir.path(), "gzip a a").output().unwrap();
    assert_eq!(
        (output.status.code(), &output.stderr[..]),
        (Some(1), &b"gzip: a: No such file or directory\n"[..])
    );
    assert_eq!(names(dir.path()), ["a.gz"]);
}

/// Ten descriptors are enough for a file, however deep its directory is and however many files were
/// compressed before.
#[test]
fn few_descriptors_are_enough_for_a_deep_tree() {
    for (tool, back) in [("gzip -r", "gzip -dr"), ("zstd -q -r --rm", "zstd -q -d -r --rm")] {
        let scratch = scratch();
        let dir = scratch.path();
        let deep = dir.join("tree/a/b/c/d/e/f/g/h/i/j");
        fs::create_dir_all(&deep).unwrap();
        let files: Vec<_> = deep
            .ancestors()
            .take(11)
            .flat_map(|dir| (0..9).map(|n| dir.join(n.to_string())))
            .collect();
        for file in &files {
            fs::write(file, "text\n").unwrap();
        }
        for (words, whole) in [(tool, false), (back, true)] {
            let line = format!("ulimit -n 10; exec \"$0\" {words} tree");
            let output = dio_test::run(
                Command::new("sh")
                    .args(["-c", &line, env!("CARGO_BIN_EXE_dio")])
                    .current_dir(dir)
                    .stdin(Stdio::null()),
            );
            assert!(output.status.success() && output.stderr.is_empty(), "{words}: {output:?}");
            assert!(files.iter().all(|file| file.exists() == whole), "{words}");
        }
        assert!(files.iter().all(|file| fs::read(file).unwrap() == b"text\n"), "{tool}");
    }
}
