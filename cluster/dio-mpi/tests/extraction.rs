//! Archives extracted under `mpirun`: what they become is what `dio tar -x` and GNU tar make of
//! them.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{
    BadBlocks, MIB, assert_same, catches_sigterm, dio, listed, make_tree, messages, mpirun,
    ranks_of, ranks_with, receipt, sh, signal,
};
use dio_test::{Output, Seed, file_systems, random_file, run};

#[test]
fn as_dio() {
    common::be_dio();
}

fn tar(dir: &Path, ranks: u32, words: &[&str]) -> Output {
    run(mpirun(dir, ranks).arg("tar").args(words))
}

/// The messages of `dio tar` or `dio-mpi tar`, without the name of the program, sorted: those of
/// files come when the files are written.
fn told(output: &Output) -> Vec<&str> {
    let mut told: Vec<_> = output
        .stderr
        .lines()
        .filter(|line| line.starts_with("dio"))
        .filter_map(|line| line.split_once("tar: ").map(|(_, message)| message))
        .collect();
    told.sort_unstable();
    told
}

/// Asserts that rsync finds no differences but of times. Incomplete files have the time of
/// the extraction.
fn assert_same_contents(dir: &Path, one: &str, other: &str) {
    assert_same_by(dir, "-rlDc", one, other);
}

/// Asserts that rsync finds no differences that these options are about.
fn assert_same_by(dir: &Path, options: &str, one: &str, other: &str) {
    let script = format!("rsync {options} --dry-run --delete --itemize-changes {one}/ {other}/");
    let judged = sh(dir, &script);
    assert!(judged.stdout.is_empty(), "{judged:?}");
}

#[test]
fn trees_are_those_of_gnu_tar_whatever_the_number_of_ranks() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(&dir.join("from"), &seed);
    let all = "--xattrs --acls --sort=name";
    sh(dir, "tar -c --format=gnu -f gnu.tar from");
    sh(dir, &format!("tar -c {all} --format=pax -S -f pax.tar from"));
    let packed = dio(dir, &format!("dio tar -c {all} --format=pax -S -f dio.tar from"));
    assert!(packed.status.success(), "{packed:?}");
    let words = ["-c", "--format=gnu", "-S", "-f", "mpi.tar", "from"];
    let packed = tar(dir, 3, &words);
    assert!(packed.status.success(), "{packed:?}");
    for (archive, ranks) in
        [("gnu", 1), ("gnu", 4), ("pax", 2), ("dio", 4), ("dio", 1), ("mpi", 2), ("mpi", 4)]
    {
        let name = format!("{archive}.tar");
        sh(dir, &format!("mkdir to expected; tar --xattrs --acls -xpf {name} -C expected"));
        let words = ["-x", "--xattrs", "--acls", "-pf", &name, "-C", "to"];
        let extracted = tar(dir, ranks, &words);
        assert!(extracted.status.success() && messages(&extracted).is_empty(), "{extracted:?}");
        assert_same(dir, "expected/from", "to/from");
        let blocks =
            |tree: &str| dir.join(tree).join("from/d1/sparse").metadata().unwrap().blocks();
        assert!(blocks("to") <= blocks("expected") + 64, "{archive} {ranks}");
        let hidden = sh(dir, "find to -name '.dio-*'");
        assert!(hidden.stdout.is_empty(), "{hidden:?}");
        sh(dir, "chmod -R u+w to expected; rm -r to expected");
    }
}

#[test]
fn selected_and_renamed_members_are_those_of_dio_tar() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(&dir.join("from"), &seed);
    sh(dir, "tar -cf a.tar from; tar -rf a.tar from/d1/first from/large0");
    for options in [
        "--strip-components=1 --exclude=d2",
        "--transform=s,from,other, from/d1 from/large1",
        "--occurrence=1 from/large0 from/d1/first",
        "-m --no-same-owner --no-same-permissions --numeric-owner",
    ] {
        sh(dir, "mkdir to expected");
        let expected = dio(dir, &format!("dio tar -xvf a.tar -C expected {options}"));
        let mut words = vec!["-xvf", "a.tar", "-C", "to"];
        words.extend(options.split(' '));
        let extracted = tar(dir, 3, &words);
        // Hard links may lead to members that are not selected.
        let status = if expected.status.success() { 0 } else { 2 };
        assert_eq!(extracted.status.code(), Some(status), "{options}: {extracted:?}");
        assert_eq!(told(&extracted), told(&expected));
        let listed = |output: &Output| {
            let lines = output.stdout.lines().map(|line| line.rsplit("... ").next().unwrap());
            lines.filter(|line| line.starts_with("from")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(listed(&extracted).len(), listed(&expected).len());
        // Directories that no selected member describes have the time of the extraction.
        let compared = if options.starts_with("-m") { "-rlDcpgo" } else { "-aHAXcO" };
        assert_same_by(dir, compared, "expected", "to");
        sh(dir, "chmod -R u+w to expected; rm -r to expected");
    }
}

#[test]
fn damaged_archives_are_told_and_leave_what_dio_tar_leaves() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let mut rng = seed.stream(2);
    make_tree(&dir.join("from"), &seed);
    sh(dir, "tar -cf whole.tar --sort=name from");
    let whole = fs::metadata(dir.join("whole.tar")).unwrap().len();
    let large = dio_large_member(dir);
    let cuts = [rng.range(1..whole), rng.range(1..whole), large + 90 * MIB, 700];
    for (number, cut) in cuts.into_iter().enumerate() {
        sh(dir, "cp whole.tar cut.tar; mkdir to expected");
        let damaged = File::options().write(true).open(dir.join("cut.tar")).unwrap();
        if number == 1 {
            let at = cut - cut % 512;
            damaged.write_all_at(&rng.bytes(4096), at).unwrap();
        } else {
            damaged.set_len(cut).unwrap();
        }
        let expected = dio(dir, "dio tar -xf cut.tar -C expected");
        let extracted = tar(dir, 3, &["-xf", "cut.tar", "-C", "to"]);
        let status = if expected.status.success() { 0 } else { 2 };
        assert_eq!(extracted.status.code(), Some(status), "cut at {cut}: {extracted:?}");
        assert_eq!(told(&extracted), told(&expected), "cut at {cut}");
        assert_same_contents(dir, "expected", "to");
        sh(dir, "chmod -R u+w to expected; rm -r to expected");
    }
}

/// Extracts an archive by four ranks. All but the first one run in mount namespaces of their own,
/// in which `script` was run.
fn extract_in_namespaces(dir: &Path, archive: &str, script: &str) -> Output {
    let whole = mpirun(dir, 1);
    let words: Vec<&str> = whole.get_args().map(|word| word.to_str().unwrap()).collect();
    let tar = ["tar", "-xf", archive, "-C", "to"];
    let script = format!("{script} && exec \"$@\"");
    let mut command = Command::new("mpirun");
    command.args(&words).args(tar).args([":", "-n", "3", "unshare", "-m", "sh", "-c", &script]);
    command.arg(archive).arg(words[words.len() - 1]).args(tar).current_dir(dir);
    run(&mut command)
}

/// The archive and the target directory may look different elsewhere: they were replaced, or
/// another file system is mounted there.
#[test]
fn what_other_ranks_do_not_find_the_first_one_extracts() {
    if !dio_test::is_root() {
        return dio_test::skip!("mounting needs root");
    }
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    sh(dir, "mkdir from elsewhere");
    random_file(dir.join("from/large"), 100 * MIB + 5, 1);
    (0..200).for_each(|n| random_file(dir.join(format!("from/f{n}")), 900 + n, n));
    sh(dir, "tar -cf whole.tar from; head -c 110M /dev/urandom > other.tar");
    for script in ["mount --bind other.tar whole.tar", "mount --bind elsewhere to"] {
        sh(dir, "mkdir to");
        let extracted = extract_in_namespaces(dir, "whole.tar", script);
        assert!(extracted.status.success() && extracted.stderr.is_empty(), "{extracted:?}");
        assert_same_contents(dir, "from", "to/from");
        assert!(sh(dir, "ls -A elsewhere; find to -name '.dio-*'").stdout.is_empty());
        sh(dir, "rm -r to");
    }
}

#[test]
fn read_errors_that_only_other_ranks_see_are_told() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    sh(dir, "mkdir from from/small tree");
    random_file(dir.join("from/large"), 200 * MIB, 1);
    (0..1500).for_each(|n| random_file(dir.join(format!("from/small/f{n}")), 9000 + n, n));
    sh(
        dir,
        "tar -cf large.tar from/small/f1 from/large; tar -cf small.tar from/small
         cp -p large.tar small.tar tree",
    );
    let mut bad: Vec<_> = (0..6).map(|n| ("large.tar", n * 32 * MIB + 16 * MIB)).collect();
    let size = dir.join("small.tar").metadata().unwrap().len();
    bad.extend((1..size / MIB).map(|n| ("small.tar", n * MIB)));
    let Some(_blocks) = BadBlocks::new(dir, &bad) else { return };
    for archive in ["large.tar", "small.tar"] {
        sh(dir, "mkdir to");
        let script = "mount -o loop,ro image mounted && mount --bind mounted/tree/$0 $0";
        let failed = extract_in_namespaces(dir, archive, script);
        assert_eq!(failed.status.code(), Some(2), "{failed:?}");
        let told = messages(&failed);
        let errors: Vec<_> =
            told.iter().filter(|line| line.contains("Input/output error")).collect();
        assert_eq!(errors.len(), 1, "{failed:?}");
        assert!(errors[0].starts_with(&format!("dio-mpi tar: {archive}: ")), "{failed:?}");
        assert!(told.contains(&"dio-mpi tar: Error is not recoverable: exiting now"), "{told:?}");
        assert!(sh(dir, "find to -name '.dio-*'").stdout.is_empty());
        if archive == "large.tar" {
            assert!(!dir.join("to/from/large").exists(), "{failed:?}");
            sh(dir, "cmp from/small/f1 to/from/small/f1");
        }
        // Whatever was extracted is right; of the file where it ended, the beginning.
        let files = sh(dir, "cd to; find . -type f");
        for name in files.stdout.lines() {
            let bytes = fs::read(dir.join("to").join(name)).unwrap();
            assert!(fs::read(dir.join(name)).unwrap().starts_with(&bytes), "{name}");
        }
        sh(dir, "rm -r to");
    }
}

#[test]
fn a_receipt_tells_what_each_rank_has_read_and_written() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(&dir.join("from"), &seed);
    random_file(dir.join("from/largest"), 300 * MIB + 1, 9);
    sh(dir, "tar -cf a.tar from; tar -cf one.tar from/largest; mkdir expected");
    let expected = dio(dir, "dio tar --receipt receipt -xf a.tar -C expected");
    assert!(expected.status.success(), "{expected:?}");
    let expected: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.join("receipt")).unwrap()).unwrap();
    // Only the pieces of one large file are shared.
    for archive in ["one.tar", "a.tar"] {
        sh(dir, "mkdir to");
        let words = ["--receipt=receipt", "-xf", archive, "-C", "to"];
        let extracted = tar(dir, 3, &words);
        assert!(extracted.status.success(), "{extracted:?}");
        let told = receipt(dir, 3);
        assert!(ranks_with(&told, "bytes_written") >= 2, "{told}");
        assert_eq!(told["durable"], true);
        if archive == "one.tar" {
            assert_eq!(told["bytes_written"], 300 * MIB + 1);
            assert!(same(dir, "from/largest", "to/from/largest"));
        } else {
            assert_eq!(told["bytes_written"], expected["bytes_written"]);
            assert_eq!(listed(&told), listed(&expected));
            assert_same(dir, "expected/from", "to/from");
        }
        sh(dir, "chmod -R u+w to; rm -r to");
    }
}

fn same(dir: &Path, one: &str, other: &str) -> bool {
    run(Command::new("cmp").args([one, other]).current_dir(dir)).status.success()
}

/// The place of the member `from/large2` in `whole.tar`, which has 100 MiB.
fn dio_large_member(dir: &Path) -> u64 {
    let listed = sh(dir, "tar -tRf whole.tar | grep large2");
    let block = listed.stdout.strip_prefix("block ").unwrap().split(':').next().unwrap();
    block.parse::<u64>().unwrap() * 512
}

#[test]
fn names_do_not_lead_out() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    sh(
        dir,
        "mkdir out x; echo evil > evil; ln -s ../out x/l; ln -s $PWD/out x/abs; mkdir -p y/l y/abs y/in
         echo evil > y/l/evil; echo evil > y/abs/evil; echo good > y/in/good; ln -s in x/inner
         mkdir y/inner; echo good > y/inner/through; ln -s ../out/new x/file; echo evil > y/file
         tar -C x -cf h.tar l abs inner file; tar -C y -rf h.tar l/evil abs/evil in inner/through file
         tar -rPf h.tar ../$(basename $PWD)/evil $PWD/evil
         tar -C y -rf h.tar --transform=s,good,../out/evil, --no-recursion in/good
         rm -r x y evil",
    );
    for ranks in [1, 4] {
        sh(dir, "mkdir to expected");
        let expected = dio(dir, "dio tar -xf h.tar -C expected");
        let extracted = tar(dir, ranks, &["-xf", "h.tar", "-C", "to"]);
        assert_eq!(extracted.status.code(), Some(2), "{extracted:?}");
        assert_eq!(told(&extracted), told(&expected));
        assert_same_contents(dir, "expected", "to");
        assert_eq!(fs::read_dir(dir.join("out")).unwrap().count(), 0, "something is outside");
        assert_eq!(fs::read(dir.join("to/in/through")).unwrap(), b"good\n");
        sh(dir, "rm -r to expected; test ! -e evil");
    }
}

/// Makes what is there before the extraction.
fn make_old(to: &Path) {
    fs::create_dir_all(to.join("from/d")).unwrap();
    for name in ["small", "large", "d/newer"] {
        fs::write(to.join("from").join(name), "old").unwrap();
    }
    fs::create_dir_all(to.join("from/full/below")).unwrap();
    fs::create_dir(to.join("from/empty")).unwrap();
    fs::write(to.join("elsewhere"), "kept").unwrap();
    symlink("../elsewhere", to.join("from/link")).unwrap();
    fs::hard_link(to.join("elsewhere"), to.join("from/linked")).unwrap();
}

#[test]
fn existing_files_are_treated_as_by_dio_tar() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir_all(dir.join("from/d")).unwrap();
    for name in ["small", "full", "empty", "link", "linked", "d/newer", "d/new"] {
        fs::write(dir.join("from").join(name), format!("new {name}")).unwrap();
    }
    random_file(dir.join("from/large"), 70 * MIB, 1);
    fs::hard_link(dir.join("from/large"), dir.join("from/second")).unwrap();
    sh(dir, "touch -d 2001-01-01 from/small; touch -d 2100-01-01 from/d/newer; tar -cf a.tar from");
    for options in [
        "--numeric-owner",
        "-k",
        "--skip-old-files",
        "--keep-newer-files",
        "--overwrite",
        "-U",
        "--recursive-unlink",
        "--no-overwrite-dir",
    ] {
        make_old(&dir.join("to"));
        make_old(&dir.join("expected"));
        let expected = dio(dir, &format!("dio tar -xf a.tar -C expected {options}"));
        let extracted = tar(dir, 3, &["-xf", "a.tar", "-C", "to", options]);
        let status = if expected.status.success() { 0 } else { 2 };
        assert_eq!(extracted.status.code(), Some(status), "{options}: {extracted:?}");
        assert_eq!(told(&extracted), told(&expected), "{options}");
        assert_same_contents(dir, "expected", "to");
        assert!(!fs::read(dir.join("to/elsewhere")).unwrap().is_empty());
        sh(dir, "rm -r to expected");
    }
}

#[test]
fn killed_and_stopped_jobs_leave_old_files_or_new_ones() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir(dir.join("from")).unwrap();
    for number in 0..12 {
        random_file(dir.join(format!("from/large{number}")), 100 * MIB, number);
    }
    sh(dir, "tar -cf a.tar from");
    for (victim, kill) in [(0, true), (2, true), (0, false), (3, false)] {
        fs::create_dir_all(dir.join("to/from")).unwrap();
        for number in 0..12 {
            fs::write(dir.join(format!("to/from/large{number}")), "old").unwrap();
        }
        let mut command = mpirun(dir, 4);
        command.args(["tar", "-xf", "a.tar", "-C", "to"]);
        let job = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let hidden = || {
            let names = fs::read_dir(dir.join("to/from")).unwrap().flatten();
            names.filter(|one| one.file_name().as_encoded_bytes().starts_with(b".dio")).count()
        };
        dio_test::until("the ranks write", || {
            let ranks = ranks_of(job.id());
            ranks.len() == 4 && ranks.iter().all(|one| catches_sigterm(*one)) && hidden() > 0
        });
        std::thread::sleep(std::time::Duration::from_millis(seed.stream(victim).range(0..200)));
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
            assert_eq!(hidden(), 0, "nothing stays beside the files");
        }
        for number in 0..12 {
            let name = format!("from/large{number}");
            if fs::metadata(dir.join("to").join(&name)).unwrap().len() != 3 {
                sh(dir, &format!("cmp {name} to/{name}"));
            }
        }
        sh(dir, "rm -r to");
    }
}

#[test]
fn a_full_target_is_told_and_other_files_are_extracted() {
    if !dio_test::is_root() {
        return dio_test::skip!("mounting needs root");
    }
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir_all(dir.join("from/sub")).unwrap();
    random_file(dir.join("from/large"), 150 * MIB, 1);
    fs::write(dir.join("from/sub/after"), "small").unwrap();
    sh(dir, "mkdir to; tar -cf a.tar from/large from/sub");
    let mount = ["-t", "tmpfs", "-o", "size=70M", "none", "to"];
    if !run(Command::new("mount").args(mount).current_dir(dir)).status.success() {
        return dio_test::skip!("tmpfs cannot be mounted");
    }
    let full = tar(dir, 4, &["-xf", "a.tar", "-C", "to"]);
    let after = fs::read(dir.join("to/from/sub/after"));
    let large = dir.join("to/from/large").exists();
    sh(dir, "umount to");
    assert_eq!(full.status.code(), Some(2), "{full:?}");
    let told = "dio-mpi tar: from/large: Cannot write: No space left on device";
    assert_eq!(messages(&full)[0], told, "{full:?}");
    assert_eq!(after.unwrap(), b"small");
    assert!(!large, "an incomplete file has its name");
}

#[test]
fn what_several_ranks_cannot_do_is_refused() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    sh(dir, "echo hi > a; tar -cf got a; tar -czf got.tgz a; mkfifo fifo; mkdir to; rm a");
    for ranks in [1, 3] {
        for (words, told) in [
            (
                &["-xzf", "got.tgz"][..],
                "several processes do not decompress: do it first, or extract by one process",
            ),
            (
                &["-xf", "got.tgz"],
                "got.tgz: Compressed: decompress it first, or extract it by one process",
            ),
            (&["-x"], "several processes need a file for the archive (-f)"),
            (&["-xf", "none"], "none: Cannot open: No such file or directory"),
            (&["-xf", "got", "-C", "none"], "none: Cannot open: No such file or directory"),
            (&["-xOf", "got"], "-O: not for several processes"),
            (&["-xwf", "got"], "-w: nobody can be asked by several processes"),
            (&["-xhf", "got"], "-h with -x: not for several processes"),
            (
                &["-xf", "got", "--receipt=got"],
                "the receipt 'got' would replace a file that is no receipt: name another, or \
                 remove it first",
            ),
            (&["-xf", "got", "b"], "b: Not found in archive"),
        ] {
            let refused = tar(dir, ranks, words);
            assert_eq!(refused.status.code(), Some(2), "{words:?} {refused:?}");
            assert!(messages(&refused)[0].ends_with(told), "{words:?} {refused:?}");
        }
    }
    let (archive, pipe) = (fs::read(dir.join("got")).unwrap(), dir.join("fifo"));
    // It is not read, which this ignores.
    let writer = std::thread::spawn(move || drop(fs::write(pipe, archive)));
    let refused = tar(dir, 2, &["-xf", "fifo"]);
    writer.join().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let told = "dio-mpi tar: fifo: Not a regular file: extract it by one process";
    assert_eq!(messages(&refused)[0], told);
    assert!(!dir.join("a").exists());
}
