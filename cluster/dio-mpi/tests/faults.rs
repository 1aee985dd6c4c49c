//! Copies under `mpirun` on file systems and of trees that fail: what cannot be copied is told, all
//! else is copied, and neither status nor journal claims what is not so. `cp -a` and rsync judge.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::{
    BadBlocks, MIB, PIECE, assert_same, dio_mpi, in_namespace, ranks_of, sh, signal, start, written,
};
use dio_test::{Output, Seed, file_systems, is_root, random_file, until};

/// The lines of a script's standard output.
fn lines(output: &Output) -> Vec<&str> {
    output.stdout.lines().collect()
}

/// Makes a tree of small files, and a large one.
fn make_tree(root: &Path, large: u64) {
    for number in 0..60 {
        let dir = root.join(format!("d{}", number % 6));
        fs::create_dir_all(&dir).unwrap();
        random_file(dir.join(format!("f{number}")), 1000 * number, number);
    }
    random_file(root.join("bad"), 100_000, 100);
    random_file(root.join("large"), large, 101);
}

/// The bytes of such a tree.
fn tree_bytes(large: u64) -> u64 {
    (0..60).map(|number| 1000 * number).sum::<u64>() + 100_000 + large
}

/// How often a message about a file has a reason.
fn told(output: &Output, name: &str, reason: &str) -> usize {
    let lines = output.stderr.lines().filter(|line| line.starts_with("dio-mpi"));
    lines.filter(|line| line.contains(name) && line.contains(reason)).count()
}

#[test]
fn files_that_cannot_be_read_are_told_and_copied_when_they_can() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(&dir.join("tree"), 4 * PIECE + 5);
    let bad = [("bad", 40_960), ("large", PIECE + 8192), ("large", 3 * PIECE)];
    let Some(blocks) = BadBlocks::new(dir, &bad) else { return };
    for (command, others) in
        [("cp -a", "true"), ("sync --delete", "mkdir -p to/d1 && echo > to/d1/x")]
    {
        let script = format!(
            "mount -o loop,ro image mounted; {others}
             $MPI {command} --journal journal --receipt receipt mounted/tree to; echo $?
             rsync -aHAXc --dry-run --itemize-changes --exclude /large --exclude /bad mounted/tree/ to/"
        );
        for _ in 0..2 {
            let failed = in_namespace(dir, 3, &script);
            assert_eq!(lines(&failed), ["1"], "{command}: {failed:?}");
            for name in ["'mounted/tree/bad'", "'mounted/tree/large'"] {
                let count = told(&failed, name.trim_matches('\''), "Input/output error");
                assert_eq!(count, 1, "{command}: {name}: {failed:?}");
            }
            let receipt = fs::read_to_string(dir.join("receipt")).unwrap();
            assert!(receipt.contains("\"durable\": false"), "{receipt}");
        }
        assert_eq!(dir.join("to/d1/x").exists(), command != "cp -a", "nothing is removed");
        blocks.mend();
        let mended = in_namespace(dir, 3, &script);
        assert_eq!(lines(&mended), ["0"], "{command}: {mended:?}");
        assert_same(dir, "tree", "to");
        let copied = written(&fs::read_to_string(dir.join("receipt")).unwrap());
        assert!((100_000..=4 * PIECE + 5 + 100_000).contains(&copied), "{copied}");
        sh(dir, "rm -r to journal receipt");
        if command == "cp -a" {
            blocks.spoil();
        }
    }
}

#[test]
fn a_full_target_is_told_and_filled_when_it_has_room() {
    if !is_root() {
        return dio_test::skip!("mounting needs root");
    }
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(&dir.join("from"), 100 * MIB);
    for command in ["cp -aT", "sync"] {
        let script = format!(
            "truncate -s 80M small; mkfs.ext4 -qF small; mkdir to; mount -o loop small to
             $MPI {command} --journal journal --receipt receipt from to; echo $?
             rsync -aHAXc --dry-run --itemize-changes --exclude /large from/ to/
             umount to; truncate -s 300M small; e2fsck -fp small >&2; resize2fs small >&2
             mount -o loop small to
             $MPI {command} --journal journal --receipt receipt from to; echo $?
             umount to; mount -o loop,ro small to
             rsync -aHAXc --dry-run --itemize-changes from/ to/"
        );
        let ran = in_namespace(dir, 4, &script);
        assert_eq!(lines(&ran), ["1", "0"], "{command}: {ran:?}");
        assert_eq!(told(&ran, "to/large", "No space left on device"), 1, "{ran:?}");
        let copied = written(&fs::read_to_string(dir.join("receipt")).unwrap());
        assert_eq!(copied, 100 * MIB, "only the large file was not noted");
        sh(dir, "rm -r to journal receipt small");
    }
}

/// Mounts a file system of 128 MiB on `to` and shrinks its device, so that reads and writes of its
/// second half fail with EIO. What the file system has of its own is in the first one.
const FAILING_DISK: &str = "set -e; mkdir to; truncate -s 128M image
    mkfs.ext4 -qF -b 4096 -N 1000 -E packed_meta_blocks=1,lazy_itable_init=0,lazy_journal_init=0 image >&2
    mount -o loop image to; (cd from; find . -type d) | (cd to; xargs mkdir -p); sync -f to
    truncate -s 64M image; losetup --set-capacity $(losetup -nO NAME -j image); set +e\n";

#[test]
fn a_target_whose_disk_fails_is_told_and_completed_when_it_works() {
    if !is_root() {
        return dio_test::skip!("mounting needs root");
    }
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(&dir.join("from"), 100 * MIB);
    for command in ["cp -aT --verify", "sync --delete"] {
        let line =
            format!("$MPI {command} --journal journal --limit 50M --receipt receipt from to");
        let compare = "rsync -aHAXc --dry-run --itemize-changes --exclude /lost+found from/ to/";
        let script = format!(
            "{FAILING_DISK}
             {line}; echo $?; umount to; truncate -s 128M image; mount -o loop image to
             {compare} | sed 's/^/different: /'
             {line}; echo $?; umount to; mount -o loop,ro image to; {compare}"
        );
        let ran = in_namespace(dir, 4, &script);
        let lines = lines(&ran);
        let [first, different @ .., last] = &*lines else { panic!("{ran:?}") };
        assert_eq!((*first, *last), ("1", "0"), "{command}: {ran:?}");
        assert_eq!(told(&ran, "to/large", "Input/output error"), 1, "{command}: {ran:?}");
        // The kernel tells of cached writes when the file system is synced, without a name.
        let is_synced = told(&ran, "", "make durable") + told(&ran, "", "error syncing") == 0;
        for line in different {
            let name = line.strip_prefix("different: ").and_then(|line| line.split(' ').nth(1));
            let name = name.unwrap_or_else(|| panic!("{command}: {ran:?}"));
            let is_told = !is_synced || name.ends_with('/') || told(&ran, name, "Input/") > 0;
            assert!(is_told, "{command}: {name}: {ran:?}");
        }
        let copied = written(&fs::read_to_string(dir.join("receipt")).unwrap());
        assert!(copied < tree_bytes(100 * MIB), "{command}: {copied} were not noted: {ran:?}");
        sh(dir, "rm -r to journal receipt image");
    }
}

/// A copy with a journal, slow enough for something to happen meanwhile.
const SLOW: [&str; 8] = ["cp", "-aT", "--journal", "journal", "--limit", "40M", "from", "to"];

#[test]
fn sources_that_change_while_they_are_copied_are_copied_again() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir(dir.join("from")).unwrap();
    for name in ["changed", "cut", "longer", "removed", "replaced"] {
        random_file(dir.join("from").join(name), 64 * MIB, name.len() as u64);
    }
    fs::create_dir(dir.join("from/dir")).unwrap();
    (0..500).for_each(|file| fs::write(dir.join(format!("from/dir/f{file}")), "x").unwrap());
    let job = start(dir, 4, &SLOW);
    let names = ["changed", "cut", "longer", "removed", "replaced"];
    until("a file is copied", || names.iter().any(|name| dir.join("to").join(name).exists()));
    std::thread::sleep(std::time::Duration::from_millis(500));
    let open = |name| File::options().write(true).open(dir.join("from").join(name)).unwrap();
    open("changed").write_all_at(b"new", 5).unwrap();
    open("changed").write_all_at(b"new", 64 * MIB - 5).unwrap();
    open("cut").set_len(33 * MIB).unwrap();
    open("longer").write_all_at(b"more", 64 * MIB).unwrap();
    sh(dir, "rm -r from/removed from/dir; cp from/changed other; mv other from/replaced");
    let ended = job.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(matches!(ended.status.code(), Some(0 | 1)), "{said}");
    let again = dio_mpi(dir, 3, &SLOW);
    assert!(again.status.success(), "{again:?}");
    // What was removed meanwhile may have been copied before.
    sh(dir, "rm -rf to/removed to/dir; touch -r from to");
    assert_same(dir, "from", "to");
    let synced = dio_mpi(dir, 3, &["sync", "--delete", "--receipt", "receipt", "from", "to"]);
    assert!(synced.status.success(), "{synced:?}");
    assert_eq!(written(&fs::read_to_string(dir.join("receipt")).unwrap()), 0);
}

#[test]
fn a_damaged_journal_makes_nobody_believe_what_is_not_so() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let mut rng = seed.stream(1);
    make_tree(&dir.join("from"), 2 * PIECE + 1);
    let words = ["cp", "-aT", "--journal", "journal", "from", "to"];
    assert!(dio_mpi(dir, 4, &words).status.success());
    for round in 0..6 {
        // Copies that somebody removed or changed are not there, whatever the journal says.
        let names = ["d1/f1", "d2/f20", "large", "bad"];
        let name = dir.join("to").join(names[rng.range_usize(0..4)]);
        if rng.bool(0.5) {
            fs::remove_file(name).unwrap();
        } else {
            File::options().write(true).open(name).unwrap().write_all_at(b"harm", 100).unwrap();
        }
        for rank in 0..4 {
            let path = dir.join(format!("journal/marks.{rank}"));
            let mut bytes = fs::read(&path).unwrap();
            if bytes.is_empty() {
                continue;
            }
            match round % 3 {
                0 => bytes.truncate(rng.range_usize(0..bytes.len() + 1)),
                1 => (0..rng.range(1..5)).for_each(|_| {
                    let at = rng.range_usize(0..bytes.len());
                    bytes[at] ^= 1 << rng.range(0..8);
                }),
                _ => {
                    let (at, count) = (rng.range_usize(0..bytes.len()), rng.range_usize(0..200));
                    bytes.splice(at..at, rng.bytes(count));
                }
            }
            fs::write(path, bytes).unwrap();
        }
        let again = dio_mpi(dir, 1 + round % 4, &words);
        assert!(again.status.success(), "{again:?}");
        assert_same(dir, "from", "to");
    }
}

#[test]
fn nothing_depends_on_the_clock_of_this_machine() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(&dir.join("from"), 3 * PIECE);
    let touch = "touch -d 2200-01-01T00:00:00.123456789 from/d1/* from/large from/d2
                 touch -d 1965-01-01T00:00:00.5 from/d3/* from/bad from/d4; touch -d @0 from/d5/*";
    sh(dir, &format!("{touch}; cp -a from expected"));
    let commands: [&[&str]; 2] = [
        &["cp", "-aT", "--journal", "journal", "--receipt", "receipt", "from", "to"],
        &["sync", "--delete", "--receipt", "receipt", "from", "to"],
    ];
    for words in commands {
        for _ in 0..2 {
            let copied = dio_mpi(dir, 3, words);
            assert!(copied.status.success() && copied.stderr.is_empty(), "{copied:?}");
            assert_same(dir, "from", "to");
            assert_same(dir, "expected", "to");
        }
        assert_eq!(written(&fs::read_to_string(dir.join("receipt")).unwrap()), 0, "{words:?}");
    }
    // A source that is older than its copy is another source.
    sh(dir, "echo other > from/d1/f1; touch -d 1970-01-02 from/d1/f1 from/d1");
    for words in commands {
        assert!(dio_mpi(dir, 2, words).status.success());
        assert_same(dir, "from", "to");
    }
}

#[test]
fn a_directory_of_very_many_names_is_copied_by_all() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    sh(
        dir,
        "mkdir -p from/many && cd from/many && seq -f name%.0f 100000 | xargs touch -d 2001-01-01",
    );
    let copied = dio_mpi(dir, 3, &["cp", "-a", "--receipt", "receipt", "from", "to"]);
    assert!(copied.status.success(), "{copied:?}");
    assert_eq!(fs::read_dir(dir.join("to/many")).unwrap().count(), 100_000);
    assert_same(dir, "from", "to");
    let again = dio_mpi(dir, 3, &["sync", "-v", "--delete", "from", "to"]);
    assert!(again.status.success() && again.stdout.is_empty(), "{again:?}");
}

#[test]
fn a_first_rank_that_is_killed_leaves_a_journal_to_go_on_by() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(&dir.join("from"), 5 * PIECE);
    for command in ["cp", "sync"] {
        let words = [
            &[command, "--journal", "journal", "--limit", "60M", "--receipt", "receipt"][..],
            if command == "cp" { &["-aT", "from", "to"] } else { &["from", "to"] },
        ]
        .concat();
        let job = start(dir, 4, &words);
        let noted = |rank| dir.join(format!("journal/marks.{rank}")).metadata();
        until("something is noted", || {
            (0..4).any(|rank| noted(rank).is_ok_and(|marks| marks.len() > 16))
        });
        signal(ranks_of(job.id())[0], rustix::process::Signal::KILL);
        let ended = job.wait_with_output().unwrap();
        assert!(!ended.status.success(), "{ended:?}");
        let rest = dio_mpi(dir, 3, &words);
        assert!(rest.status.success(), "{rest:?}");
        assert_same(dir, "from", "to");
        let receipt = fs::read_to_string(dir.join("receipt")).unwrap();
        assert!(written(&receipt) < tree_bytes(5 * PIECE), "{receipt}");
        sh(dir, "rm -r to journal");
    }
}
