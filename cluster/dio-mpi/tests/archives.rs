//! Archives written under `mpirun`: their bytes are those that `dio tar` writes, and GNU tar reads
//! them.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{
    BadBlocks, assert_same, catches_sigterm, dio, in_namespace, listed, messages, mpirun, ranks_of,
    ranks_with, receipt, signal,
};
use dio_test::{Output, Seed, file_systems, random_file, run};

const MIB: u64 = 1 << 20;

#[test]
fn as_dio() {
    common::be_dio();
}

fn tar(dir: &Path, ranks: u32, words: &[&str]) -> Output {
    run(mpirun(dir, ranks).arg("tar").args(words))
}

/// Makes a tree with everything that an archive keeps.
fn make_tree(root: &Path, seed: &Seed) {
    let mut rng = seed.stream(1);
    for number in 0..30 {
        let dir = root.join(format!("d{}/{}", number % 5, "e".repeat(1 + 7 * number)));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..rng.range(0..30) {
            let length = rng.range_usize(0..200_000);
            fs::write(dir.join(format!("f{file}")), rng.bytes(length)).unwrap();
        }
    }
    for number in 0..3 {
        let length = rng.range(1..100 * MIB);
        random_file(root.join(format!("large{number}")), length, number);
    }
    let sparse = File::create(root.join("d1/sparse")).unwrap();
    sparse.write_all_at(&rng.bytes(40 << 20), 20 * MIB).unwrap();
    sparse.write_all_at(b"x", 100 * MIB).unwrap();
    sparse.set_len(130 * MIB).unwrap();
    fs::write(root.join("d1/first"), "linked").unwrap();
    fs::hard_link(root.join("d1/first"), root.join("d2/second")).unwrap();
    symlink("nowhere", root.join("link")).unwrap();
    let sh = "setfattr -n user.note -v yes d1/first; mkfifo fifo; chmod 2750 d2";
    run(Command::new("sh").args(["-c", sh]).current_dir(root));
}

#[test]
fn the_bytes_are_those_of_dio_tar_whatever_the_number_of_ranks() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(&dir.join("from"), &seed);
    for options in ["--format=gnu", "--format=pax --xattrs -S", "--format=gnu -S -b 1"] {
        let options = format!("{options} --sort=name");
        let expected = dio(dir, &format!("dio tar -c {options} -f expected from"));
        assert!(expected.status.success(), "{expected:?}");
        for ranks in [1, 2, 4] {
            let mut words = vec!["-c"];
            words.extend(options.split(' ').chain(["-f", "got", "from"]));
            let made = tar(dir, ranks, &words);
            assert!(made.status.success() && messages(&made).is_empty(), "{made:?}");
            let same = run(Command::new("cmp").args(["expected", "got"]).current_dir(dir));
            assert!(same.status.success(), "{options}, {ranks} ranks: {same:?}");
            // The second and the third one replace the one before, and nothing stays beside it.
            let names = fs::read_dir(dir).unwrap().count();
            assert_eq!(names, 3, "{:?}", fs::read_dir(dir).unwrap().collect::<Vec<_>>());
        }
        fs::create_dir(dir.join("to")).unwrap();
        let unpacked =
            run(Command::new("tar").args(["--xattrs", "-xpf", "got", "-C", "to"]).current_dir(dir));
        assert!(unpacked.status.success(), "{unpacked:?}");
        if options.contains("xattrs") {
            assert_same(dir, "from", "to/from");
        }
        for name in ["to", "got", "expected"] {
            run(Command::new("rm").args(["-r", name]).current_dir(dir));
        }
    }
}

#[test]
fn messages_and_statuses_are_those_of_dio_tar() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::write(dir.join("a"), "hi\n").unwrap();
    fs::hard_link(dir.join("a"), dir.join("linked")).unwrap();
    for ranks in [1, 3] {
        for (words, status, told) in [
            (&["-cf", "got", "a", "nope"][..], 2, "nope: Cannot stat: No such file or directory"),
            (&["-cf", "none/got", "a"], 2, "none/got: Cannot open: No such file or directory"),
            (&["-cf", "/dev/full", "a"], 2, "/dev/full: Cannot open: Operation not supported"),
            (&["-cf", "linked", "a"], 2, "linked: Cannot open: Operation not supported"),
            (&["-czf", "got", "a"], 2, "several processes do not compress"),
            (&["-tf", "got"], 2, "several processes only create (-c) and extract (-x) archives"),
            (&["-c", "a"], 2, "several processes need a file for the archive (-f)"),
        ] {
            let refused = tar(dir, ranks, words);
            assert_eq!(refused.status.code(), Some(status), "{words:?} {refused:?}");
            assert!(messages(&refused)[0].ends_with(told), "{words:?} {refused:?}");
        }
    }
    assert_eq!(fs::read(dir.join("linked")).unwrap(), b"hi\n");
}

#[test]
fn a_receipt_tells_what_each_rank_has_read_and_written() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(&dir.join("from"), &seed);
    random_file(dir.join("from/largest"), 300 * MIB + 1, 9);
    let words = ["--sort=name", "--receipt", "receipt", "-cf"];
    let expected = dio(dir, &format!("dio tar {} expected from", words.join(" ")));
    assert!(expected.status.success(), "{expected:?}");
    let expected: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.join("receipt")).unwrap()).unwrap();
    let made = tar(dir, 3, &[&words[..], &["got", "from"]].concat());
    assert!(made.status.success(), "{made:?}");
    let told = receipt(dir, 3);
    for key in ["command", "durable", "bytes_written"] {
        assert_eq!(told[key], expected[key], "{key}");
    }
    assert_eq!(told["bytes_written"], dir.join("got").metadata().unwrap().len());
    // Names of one inode are read once.
    let sizes =
        "find from -type f -printf '%i %s\\n' | sort -u | awk '{ sum += $2 } END { print sum }'";
    let sizes = run(Command::new("sh").args(["-c", sizes]).current_dir(dir));
    assert_eq!(told["bytes_read"].to_string(), sizes.stdout.trim());
    for key in ["bytes_read", "bytes_written"] {
        assert!(ranks_with(&told, key) >= 2, "{told}");
    }
    let mut files = listed(&expected);
    files
        .retain(|(path, role)| role == "source" && fs::metadata(dir.join(path)).unwrap().len() > 0);
    let mut shown = listed(&told);
    let archives: Vec<_> = shown.iter().filter(|(_, role)| role == "target").cloned().collect();
    assert_eq!(archives, [("got".to_owned(), "target".to_owned())]);
    shown.retain(|(_, role)| role == "source");
    assert_eq!(shown, files);
}

#[test]
fn files_that_cannot_be_read_are_told_and_others_are_archived() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir(dir.join("tree")).unwrap();
    random_file(dir.join("tree/large"), 150 * MIB, 1);
    (0..200).for_each(|number| random_file(dir.join(format!("tree/f{number}")), 9000, number));
    random_file(dir.join("tree/bad"), 50_000, 300);
    let Some(_blocks) = BadBlocks::new(dir, &[("large", 100 * MIB), ("bad", 4096)]) else { return };
    let made = in_namespace(
        dir,
        3,
        "mount -o loop,ro image mounted; $MPI tar -cf got.tar -C mounted tree; echo $?
         mkdir to; tar -xf got.tar -C to; rsync -ac --dry-run -i --exclude bad --exclude large tree to",
    );
    assert_eq!(made.stdout, "2\n", "{made:?}");
    for (name, at) in [("tree/bad", 4096), ("tree/large", 100 * MIB)] {
        let told = format!("dio-mpi tar: {name}: Read error at byte ");
        let errors = made.stderr.lines().filter_map(|line| line.strip_prefix(&told));
        let errors: Vec<&str> = errors.collect();
        assert_eq!(errors.len(), 1, "{made:?}");
        // The bytes before it, up to a request, are missing too.
        let missing: u64 = errors[0].split(',').next().unwrap().parse().unwrap();
        assert!((at - at.min(MIB)..=at).contains(&missing), "{made:?}");
        let bytes = [name.to_owned(), format!("to/{name}")].map(|name| dir.join(name));
        let [before, after] = bytes.map(|path| fs::read(path).unwrap());
        assert_eq!(before[..missing as usize], after[..missing as usize], "{name}");
    }
}

#[test]
fn a_full_target_is_told_and_ends_the_job() {
    if !dio_test::is_root() {
        return dio_test::skip!("mounting needs root");
    }
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    random_file(dir.join("large"), 150 * MIB, 1);
    fs::create_dir(dir.join("small")).unwrap();
    let mounted = run(Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=70M", "none", "small"])
        .current_dir(dir));
    if !mounted.status.success() {
        return dio_test::skip!("tmpfs cannot be mounted");
    }
    let full = tar(dir, 4, &["-cf", "small/got", "large"]);
    let unmounted = run(Command::new("umount").arg("small").current_dir(dir));
    assert!(unmounted.status.success(), "{unmounted:?}");
    assert_eq!(full.status.code(), Some(2), "{full:?}");
    let told = "dio-mpi tar: small/got: Cannot write: No space left on device";
    assert_eq!(messages(&full)[0], told, "{full:?}");
}

#[test]
fn killed_and_stopped_jobs_leave_the_old_archive() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    for number in 0..4 {
        random_file(dir.join(format!("large{number}")), 200 * MIB, number);
    }
    fs::write(dir.join("got"), "old").unwrap();
    for (victim, kill) in [(0, true), (2, true), (0, false), (3, false)] {
        let mut command = mpirun(dir, 4);
        let names: Vec<String> = (0..100).map(|number| format!("large{}", number % 4)).collect();
        command.args(["tar", "--hard-dereference", "-cf", "got"]).args(&names);
        let job = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let hidden = || {
            let names = fs::read_dir(dir).unwrap().flatten();
            names.filter(|one| one.file_name().as_encoded_bytes().starts_with(b".")).count()
        };
        let left = hidden();
        dio_test::until("the ranks write", || {
            let ranks = ranks_of(job.id());
            ranks.len() == 4 && ranks.iter().all(|one| catches_sigterm(*one)) && hidden() > left
        });
        std::thread::sleep(std::time::Duration::from_millis(seed.stream(victim).range(0..400)));
        let which =
            if kill { rustix::process::Signal::KILL } else { rustix::process::Signal::TERM };
        signal(ranks_of(job.id())[victim as usize], which);
        let ended = job.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        if kill {
            assert!(!ended.status.success(), "{told}");
        } else {
            assert_eq!(ended.status.code(), Some(143), "{told}");
            assert_eq!(told.matches("dio-mpi tar: interrupted\n").count(), 1, "{told}");
            assert_eq!(hidden(), left, "nothing stays beside the archive");
        }
        assert_eq!(fs::read(dir.join("got")).unwrap(), b"old");
        assert_eq!(dir.join("got").metadata().unwrap().nlink(), 1);
    }
}
