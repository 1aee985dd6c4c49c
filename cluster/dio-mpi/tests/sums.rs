//! Digests under `mpirun`, judged by the system's tools and by the crate `blake3`.

mod common;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{listed, mpirun, ranks_of, ranks_with, receipt, signal};
use dio_test::{Output, Seed, file_systems, random_file, run};

const MIB: u64 = 1 << 20;

fn sum(dir: &Path, ranks: u32, words: &[&str]) -> Output {
    run(mpirun(dir, ranks).arg("sum").args(words))
}

/// The lines of standard error that are of the program, not of `mpirun`.
fn messages(output: &Output) -> Vec<&str> {
    output.stderr.lines().filter(|line| line.starts_with("dio-mpi")).collect()
}

/// Makes a tree of small files, and three large ones beside it.
fn make_tree(dir: &Path, seed: &Seed) {
    let mut rng = seed.stream(1);
    for number in 0..20 {
        let below = dir.join(format!("tree/d{}/e.{number}", number % 4));
        fs::create_dir_all(&below).unwrap();
        for file in 0..rng.range(0..40) {
            let length = rng.range_usize(0..100_000);
            fs::write(below.join(format!("f{file}")), rng.bytes(length)).unwrap();
        }
    }
    fs::write(dir.join("tree/d1/new\nline"), "escaped").unwrap();
    fs::write(dir.join(OsStr::from_bytes(b"tree/\xff")), "no UTF-8").unwrap();
    fs::write(dir.join("tree/empty"), "").unwrap();
    symlink("d1", dir.join("tree/link")).unwrap();
    // Of one piece and a byte, of some pieces, and of no whole chunk at the end.
    let lengths = [64 * MIB + 1, 192 * MIB, 100 * MIB + rng.range(1..1_000_000)];
    for (number, length) in lengths.into_iter().enumerate() {
        random_file(dir.join(format!("large{number}")), length, number as u64);
    }
}

/// The standard output of a command of the shell.
fn shell(dir: &Path, line: &str) -> Vec<u8> {
    Command::new("sh").args(["-c", line]).current_dir(dir).output().unwrap().stdout
}

const FILES: &str = "find tree -type f -print0 | LC_ALL=C sort -z | xargs -0 ";

#[test]
fn digests_are_the_systems_whatever_the_number_of_ranks() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(dir, &seed);
    let sha256 =
        shell(dir, &format!("{FILES} sha256sum --tag large0 large1; sha256sum --tag large2"));
    let mut blake3 = String::new();
    for large in ["large0", "large1", "large2"] {
        let digest = blake3::hash(&fs::read(dir.join(large)).unwrap());
        blake3 += &format!("BLAKE3 ({large}) = {digest}\n");
    }
    let crc = shell(dir, "cksum large0 large2");
    for ranks in [1, 2, 4] {
        let words = ["-n", &ranks.to_string()];
        let mut command = mpirun(dir, ranks);
        let output = command.args(["sum", "large0", "large1", "tree", "large2"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        // The operands of the reference come in another order.
        let sorted = |text: &[u8]| {
            let mut lines: Vec<Vec<u8>> =
                text.split(|byte| *byte == b'\n').map(Vec::from).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&output.stdout), sorted(&sha256), "{words:?}");
        let tree = mpirun(dir, ranks).args(["sum", "tree"]).output().unwrap();
        assert_eq!(tree.stdout, shell(dir, &format!("{FILES} sha256sum --tag")), "in order");
        let joined = sum(dir, ranks, &["-a", "blake3", "large0", "large1", "large2"]);
        assert!(joined.status.success() && joined.stdout == blake3, "{joined:?}");
        let several = sum(dir, ranks, &["-a", "crc,blake3", "--untagged", "large0", "large2"]);
        let lines: Vec<&str> = several.stdout.lines().step_by(2).collect();
        assert_eq!(lines.join("\n") + "\n", String::from_utf8_lossy(&crc), "{several:?}");
    }
    if run(Command::new("sh").args(["-c", "command -v b3sum"])).status.success() {
        assert_eq!(shell(dir, "b3sum --tag large0 large1 large2"), blake3.into_bytes());
    }
}

#[test]
fn parts_are_written_and_checked_by_all_ranks() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(dir, &seed);
    let words = ["--parts=16M", "-a", "sha256,blake3", "large0", "tree", "large2"];
    let list = mpirun(dir, 1).arg("sum").args(words).output().unwrap().stdout;
    for ranks in [2, 4] {
        let again = mpirun(dir, ranks).arg("sum").args(words).output().unwrap();
        assert!(again.status.success() && again.stdout == list, "{again:?}");
    }
    let part = shell(dir, "tail -c +16777217 large2 | head -c 16777216 | sha256sum");
    let digest = String::from_utf8_lossy(&part[..64]).into_owned();
    let size = dir.join("large2").metadata().unwrap().len();
    let line = format!("SHA256 (large2) [16777216+16777216/{size}] = {digest}\n");
    assert!(String::from_utf8_lossy(&list).contains(&line), "{line}");
    fs::write(dir.join("list"), &list).unwrap();
    let checked = sum(dir, 4, &["-c", "--quiet", "list"]);
    assert!(checked.status.success() && checked.stdout.is_empty(), "{checked:?}");
    // Where one byte has changed, and not elsewhere.
    let large = File::options().read(true).write(true).open(dir.join("large2")).unwrap();
    let at = seed.stream(2).range(0..size);
    let mut byte = [0];
    large.read_exact_at(&mut byte, at).unwrap();
    large.write_all_at(&[byte[0] ^ 1], at).unwrap();
    let checked = sum(dir, 4, &["-c", "--quiet", "list"]);
    let start = at / (16 * MIB) * 16 * MIB;
    let failed = format!("large2 [{start}+{}/{size}]: FAILED\n", (16 * MIB).min(size - start));
    assert_eq!((checked.status.code(), checked.stdout), (Some(1), failed.repeat(2)));
    assert_eq!(
        messages(&checked_errors(dir)),
        ["dio-mpi sum: WARNING: 2 computed checksums did NOT match"]
    );
}

fn checked_errors(dir: &Path) -> Output {
    sum(dir, 2, &["-c", "--quiet", "list"])
}

#[test]
fn messages_and_statuses_are_those_of_dio_sum() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir_all(dir.join("tree/closed")).unwrap();
    fs::write(dir.join("tree/a"), "hi\n").unwrap();
    fs::write(dir.join("tree/z"), "hi\n").unwrap();
    fs::set_permissions(dir.join("tree/closed"), fs::Permissions::from_mode(0o000)).unwrap();
    let md5 = "MD5 (tree/a) = 764efa883dda1e11db47671c4a3bbd9e\n";
    for ranks in [1, 2, 4] {
        let told = sum(dir, ranks, &["-a", "md5", "tree/a", "nope", "tree/a"]);
        assert_eq!((told.status.code(), told.stdout.as_str()), (Some(1), md5.repeat(2).as_str()));
        assert_eq!(messages(&told), ["dio-mpi sum: nope: No such file or directory"]);
        let closed = sum(dir, ranks, &["-a", "md5", "tree"]);
        assert_eq!(closed.stdout.lines().count(), 2);
        if !dio_test::is_root() {
            let told = ["dio-mpi sum: tree/closed: Permission denied"];
            assert_eq!((closed.status.code(), messages(&closed)), (Some(1), told.to_vec()));
        }
        for (words, status, told) in [
            (&["--nope"][..], 1, "unrecognized option '--nope'"),
            (
                &["--receipt=tree/a", "tree/a"],
                1,
                "the receipt 'tree/a' would replace a file that is no receipt: name another, or \
                 remove it first",
            ),
        ] {
            let refused = sum(dir, ranks, words);
            assert_eq!(refused.status.code(), Some(status), "{refused:?}");
            assert!(messages(&refused)[0].ends_with(told), "{refused:?}");
        }
        let mut stdin = mpirun(dir, ranks);
        stdin
            .args(["sum", "-a", "md5", "tree/a", "-"])
            .stdin(File::open(dir.join("tree/a")).unwrap());
        let read = String::from_utf8(stdin.output().unwrap().stdout).unwrap();
        assert_eq!(read, format!("{md5}{}", md5.replace("tree/a", "-")));
    }
    fs::set_permissions(dir.join("tree/closed"), fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn a_receipt_tells_what_each_rank_has_read() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(dir, &seed);
    let size = |name: &str| dir.join(name).metadata().unwrap().len();
    let large = ["large0", "large1", "large2"].map(size).iter().sum::<u64>();
    let found = shell(dir, "find tree -type f -printf '%s\\n'");
    let sizes = String::from_utf8(found).unwrap();
    let sizes: Vec<u64> = sizes.lines().map(|size| size.parse().unwrap()).collect();
    let total = large + sizes.iter().sum::<u64>();
    for options in [&["-a", "blake3"][..], &["-a", "sha256,crc"], &["--parts=16M"]] {
        let names = ["--receipt=receipt", "tree", "large0", "large1", "large2"];
        let done = sum(dir, 3, &[options, &names].concat());
        assert!(done.status.success(), "{done:?}");
        let told = receipt(dir, 3);
        assert_eq!(told["command"], "sum");
        assert_eq!((&told["bytes_read"], &told["bytes_written"]), (&total.into(), &0.into()));
        assert!(ranks_with(&told, "bytes_read") >= 2, "{told}");
        let files = listed(&told);
        assert_eq!(files.len(), sizes.len() + 3, "{options:?}: {files:?}");
        assert!(files.contains(&("large1".to_owned(), "source".to_owned())));
    }
    let list = mpirun(dir, 1).args(["sum", "--parts=16M", "large2"]).output().unwrap().stdout;
    fs::write(dir.join("list"), &list).unwrap();
    let checked = sum(dir, 2, &["-c", "--quiet", "--receipt=receipt", "list"]);
    assert!(checked.status.success(), "{checked:?}");
    let read = size("large2") + list.len() as u64;
    assert_eq!(receipt(dir, 2)["bytes_read"], read);
    // Without one, nothing is written.
    fs::remove_file(dir.join("receipt")).unwrap();
    assert!(sum(dir, 2, &["tree"]).status.success() && !dir.join("receipt").exists());
}

#[test]
fn killed_and_stopped_jobs_end() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    for number in 0..3 {
        random_file(dir.join(format!("large{number}")), 400 * MIB, number);
    }
    for (victim, kill) in [(0, true), (2, true), (0, false), (3, false)] {
        let mut command = mpirun(dir, 4);
        // Slow: one after the other, in one rank each.
        let names: Vec<String> = (0..300).map(|number| format!("large{}", number % 3)).collect();
        command.arg("sum").args(["-a", "md5,sha512,sm3"]).args(&names);
        let job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        dio_test::until("the ranks read", || {
            let ranks = ranks_of(job.id());
            ranks.len() == 4 && ranks.iter().all(|rank| common::catches_sigterm(*rank))
        });
        std::thread::sleep(std::time::Duration::from_millis(seed.stream(victim).range(300..900)));
        let which =
            if kill { rustix::process::Signal::KILL } else { rustix::process::Signal::TERM };
        signal(ranks_of(job.id())[victim as usize], which);
        let ended = job.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        match kill {
            true => assert!(!ended.status.success(), "{told}"),
            false => {
                assert_eq!(ended.status.code(), Some(143), "{told}");
                assert_eq!(told.matches("dio-mpi sum: interrupted\n").count(), 1, "{told}");
            }
        }
        // Lines that were printed are whole.
        assert!(ended.stdout.is_empty() || ended.stdout.ends_with(b"\n"));
    }
}

#[test]
fn a_reader_that_goes_away_early_ends_all_ranks() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir(dir.join("tree")).unwrap();
    // More lines than a pipe holds.
    for number in 0..4000 {
        fs::write(dir.join(format!("tree/a_name_that_makes_its_line_long_{number:04}")), "x")
            .unwrap();
    }
    let of_leader = r#"
        # Only the first rank writes, into a pipe of its own.
        case $OMPI_COMM_WORLD_RANK in
            0) "$@" | head -n 1;;
            *) exec "$@";;
        esac"#;
    for (ranks, script) in [(1, None), (4, None), (1, Some(of_leader)), (4, Some(of_leader))] {
        let plain = mpirun(dir, ranks);
        let mut command = Command::new("sh");
        match script {
            None => {
                command.args(["-c", "\"$@\" sum tree | head -n 1", "sh"]);
                command.arg(plain.get_program()).args(plain.get_args());
            }
            Some(script) => {
                let mut args: Vec<_> = plain.get_args().collect();
                let program = args.pop().unwrap();
                command.args(["-c", "exec \"$@\"", "sh"]).arg(plain.get_program()).args(args);
                command.args(["sh", "-c", script, "sh"]).arg(program).args(["sum", "tree"]);
            }
        }
        command.env("OMPI_MCA_pml", "^ucx,cm").current_dir(dir).stdin(Stdio::null());
        let job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let process = job.id();
        let ended = std::thread::spawn(move || job.wait_with_output().unwrap());
        dio_test::until("the job ends", || ended.is_finished());
        let ended = ended.join().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        let lines = String::from_utf8(ended.stdout).unwrap();
        assert_eq!(lines.lines().count(), 1, "{told}");
        assert!(lines.starts_with("SHA256 (tree/a_name_that_makes_its_line_long_0000) = "));
        assert!(ranks_of(process).is_empty(), "no rank is left");
    }
}
