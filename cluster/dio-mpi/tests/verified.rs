//! `--verify` under `mpirun`: another rank than the one that wrote a file reads it back, a byte
//! that is wrong is found, and nothing is taken for verified that was not.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use common::{MIB, assert_same, dio, dio_mpi, make_tree, of_ranks, ranks_of, signal, start};
use dio_test::{Seed, file_systems, first_difference, random_file, run, same_bytes, until};

#[test]
fn as_dio() {
    common::be_dio();
}

const PIECE: u64 = 32 * MIB;

fn receipt(dir: &Path) -> String {
    fs::read_to_string(dir.join("receipt")).unwrap()
}

/// Checks by a receipt that no rank has read back what it wrote itself, and that all of it was read
/// back. Returns what each rank wrote.
fn verified_by_others(receipt: &str) -> Vec<u64> {
    let written = of_ranks(receipt, "bytes_written");
    let verified = of_ranks(receipt, "bytes_verified");
    let by_writer = of_ranks(receipt, "bytes_verified_by_writer");
    assert_eq!(by_writer.iter().sum::<u64>(), 0, "{receipt}");
    let sum = |bytes: &[u64]| bytes.iter().sum::<u64>();
    assert_eq!(sum(&written), sum(&verified), "{written:?} {verified:?}");
    if let [one, other] = &*written {
        assert_eq!(verified, [*other, *one], "what one wrote the other one reads");
    }
    written
}

#[test]
fn another_rank_reads_back_what_one_has_written() {
    let seed = Seed::new();
    for fs in file_systems() {
        let scratch = fs.dir();
        let dir = scratch.path();
        make_tree(&dir.join("from"), &seed);
        let words = ["--verify", "--limit=400M", "--receipt=receipt", "from", "to"];
        let commands = [(3, &["sync"][..]), (2, &["cp", "-a"]), (2, &["cp", "-a", "--atomic"])];
        let tried = if fs == file_systems()[0] { &commands[..] } else { &commands[..1] };
        for (ranks, command) in tried.iter().copied() {
            let copied = dio_mpi(dir, ranks, &[command, &words].concat());
            assert!(copied.status.success(), "{}: {copied:?}", fs.name);
            assert_same(dir, "from", "to");
            let written = verified_by_others(&receipt(dir));
            // With --atomic, each large file is written by one rank.
            let all = written.iter().all(|bytes| *bytes > 0) || command.contains(&"--atomic");
            assert!(all, "{} {command:?}: every rank takes part: {written:?}", fs.name);
            fs::remove_dir_all(dir.join("to")).unwrap();
        }
    }
}

/// New files of the target are striped. The stripes are a setting of the target that the source
/// lacks: `sync --delete` keeps them, and they are no difference.
#[test]
fn striped_targets_are_verified_and_stay_so() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    for name in ["from/below", "to", "one", "other"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    random_file(dir.join("from/large"), 3 * PIECE + 77, 3);
    for number in 0..20 {
        random_file(dir.join(format!("from/f{number}")), 200_000 + number, number);
        random_file(dir.join(format!("from/below/f{number}")), 50_000 + number, number);
    }
    fs::write(dir.join("to/extra"), b"extra").unwrap();
    let targets = format!("{0}/one,{0}/other", dir.display());
    assert!(dio(dir, &format!("dio stripe set -t {targets} to")).status.success());
    let stripes = fs::read(dir.join("to/.dio-stripe")).unwrap();
    let words = ["--verify", "--receipt=receipt", "from", "to"];
    let commands = [&["cp", "-aT"][..], &["sync", "--delete"], &["sync", "--delete", "--checksum"]];
    for (command, seed) in commands.into_iter().zip(100..) {
        let copied = dio_mpi(dir, 3, &[command, &words].concat());
        assert!(copied.status.success(), "{copied:?}");
        verified_by_others(&receipt(dir));
        for name in ["large", "f0", "f19"] {
            let shown = dio(dir, &format!("dio stripe show to/{name}"));
            assert!(shown.stdout.contains("over 2 objects"), "{name}: {shown:?}");
        }
        let same = dio_mpi(dir, 2, &["cmp", "from", "to"]);
        assert!(same.status.success() || command[0] == "cp", "{same:?}");
        assert!(fs::read(dir.join("to/.dio-stripe")).unwrap() == stripes);
        // One that changed is made again.
        random_file(dir.join("from/f0"), 300_000, seed);
        fs::write(dir.join("to/extra"), b"extra").unwrap();
        let differences = dio_mpi(dir, 2, &["cmp", "from", "to"]);
        assert_eq!(differences.status.code(), Some(1));
        assert_eq!(differences.stdout.lines().count(), 2, "{}", differences.stdout);
    }
    assert!(dio_mpi(dir, 3, &[&["sync", "--delete"][..], &words].concat()).status.success());
    let same = dio_mpi(dir, 2, &["cmp", "from", "to"]);
    assert!(same.status.success(), "{same:?}");
    // A default that came with a copy is a file as any other.
    fs::create_dir(dir.join("copy")).unwrap();
    fs::write(dir.join("copy/.dio-stripe"), &stripes).unwrap();
    fs::create_dir(dir.join("empty")).unwrap();
    let differences = dio_mpi(dir, 1, &["cmp", "empty", "copy"]);
    assert_eq!(differences.stdout, "Only in 'copy': '.dio-stripe'\n");
    assert!(dio_mpi(dir, 1, &["sync", "--delete", "empty", "copy"]).status.success());
    assert!(!dir.join("copy/.dio-stripe").exists());
}

#[test]
fn a_large_file_is_verified_in_pieces() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    random_file(dir.join("from"), 10 * PIECE + 77, 3);
    let words = ["cp", "-a", "--verify", "--limit=400M", "--receipt=receipt", "from", "to"];
    for ranks in [1, 2, 4] {
        let copied = dio_mpi(dir, ranks, &words);
        assert!(copied.status.success(), "{copied:?}");
        assert_same(dir, "from", "to");
        let receipt = receipt(dir);
        if ranks == 1 {
            assert_eq!(of_ranks(&receipt, "bytes_verified_by_writer"), [10 * PIECE + 77]);
            continue;
        }
        let written = verified_by_others(&receipt);
        assert!(written.iter().filter(|bytes| **bytes > 0).count() >= 2, "{written:?}");
    }
}

/// Runs a copy of `from` to `to` and damages what was written at this offset. Checks that the job
/// tells where.
fn spoil(dir: &Path, words: &[&str], place: u64) {
    let mut expected = [0; 7];
    File::open(dir.join("from")).unwrap().read_exact_at(&mut expected, place).unwrap();
    let job = start(dir, 2, words);
    let is_written = || {
        let mut found = [0; 7];
        let file = File::open(dir.join("to"));
        file.is_ok_and(|file| file.read_exact_at(&mut found, place).is_ok()) && found == expected
    };
    until("the place is written", is_written);
    let file = File::options().write(true).open(dir.join("to")).unwrap();
    file.write_all_at(b"spoiled", place).unwrap();
    file.sync_all().unwrap();
    let output = job.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let first = first_difference(dir.join("from"), dir.join("to")).unwrap();
    assert!((place..place + 7).contains(&first));
    let name = words[0];
    let words = format!(
        "dio-mpi {name}: 'to' differs from its source at byte {first}: it was written, but does \
         not read back the same\n"
    );
    assert_eq!(told.matches(&words).count(), 1, "{told}");
}

#[test]
fn a_wrong_byte_is_found_and_the_file_is_copied_again() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let cp = &["cp", "-a", "--verify", "--journal=journal", "--receipt=receipt"][..];
    let sync = &["sync", "--verify", "--receipt=receipt"][..];
    for (command, size, limit, place) in [
        (cp, 8 * MIB + 77, "--limit=12M", 300_000),
        (sync, 8 * MIB + 77, "--limit=12M", 5_000_000),
        // Written in pieces by both.
        (cp, 3 * PIECE, "--limit=60M", 2 * PIECE + 4097),
        (sync, 3 * PIECE, "--limit=60M", 300_000),
    ] {
        random_file(dir.join("from"), size, size + place);
        let words = [command, &[limit, "from", "to"]].concat();
        spoil(dir, &words, place);
        // Neither the journal nor the time of modification lets it pass for a copy.
        let again = dio_mpi(dir, 3, &words);
        assert!(again.status.success(), "{words:?}: {again:?}");
        assert_same(dir, "from", "to");
        assert_eq!(common::written(&receipt(dir)), size, "{words:?}");
        let third = dio_mpi(dir, 2, &words);
        assert!(third.status.success(), "{words:?}: {third:?}");
        assert_eq!(common::written(&receipt(dir)), 0, "{words:?}");
        fs::remove_file(dir.join("to")).unwrap();
        let _ = fs::remove_dir_all(dir.join("journal"));
    }
}

#[test]
fn what_an_earlier_attempt_has_copied_is_verified_too() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let size = 6 * PIECE;
    random_file(dir.join("from"), size, 4);
    let words = [
        &["cp", "-a", "--verify", "--journal=journal", "--receipt=receipt", "--limit=50M"][..],
        &["from", "to"],
    ]
    .concat();
    for is_spoiled in [false, true] {
        let job = start(dir, 2, &words);
        let noted = || dir.join("journal/marks.0").metadata();
        until("a piece is noted", || noted().is_ok_and(|marks| marks.len() > 16));
        ranks_of(job.id()).iter().for_each(|rank| signal(*rank, rustix::process::Signal::KILL));
        assert!(!job.wait_with_output().unwrap().status.success());
        if is_spoiled {
            // In each piece, for any may be the one that is noted; the others are written again.
            let target = File::options().write(true).open(dir.join("to")).unwrap();
            for start in (0..size).step_by(common::SMALL_PIECE as usize) {
                target.write_all_at(b"spoiled", start + 1000).unwrap();
            }
            target.sync_all().unwrap();
            let found = dio_mpi(dir, 3, &words);
            assert_eq!(found.status.code(), Some(1), "{found:?}");
            assert!(found.stderr.contains("'to' differs from its source at byte "), "{found:?}");
        }
        let copied = dio_mpi(dir, 3, &words);
        assert!(copied.status.success(), "{copied:?}");
        assert_same(dir, "from", "to");
        let receipt = receipt(dir);
        let written = common::written(&receipt);
        assert!(if is_spoiled { written == size } else { written < size }, "{written}");
        assert_eq!(of_ranks(&receipt, "bytes_verified").iter().sum::<u64>(), size);
        fs::remove_file(dir.join("to")).unwrap();
        fs::remove_dir_all(dir.join("journal")).unwrap();
    }
}

#[test]
fn clones_are_compared_and_what_others_cannot_open_is_verified_by_its_writer() {
    for fs in file_systems() {
        let scratch = fs.dir();
        let dir = scratch.path();
        random_file(dir.join("from"), 2 * PIECE + 5, 1);
        let words = ["cp", "--verify", "--reflink=always", "--receipt=receipt", "from", "to"];
        let cloned = dio_mpi(dir, 2, &words);
        if cloned.status.success() {
            same_bytes(dir.join("from"), dir.join("to"));
            assert_eq!(
                of_ranks(&receipt(dir), "bytes_verified"),
                [0, 2 * PIECE + 5],
                "{}",
                fs.name
            );
        } else {
            assert!(cloned.stderr.contains("failed to clone 'to' from 'from'"), "{cloned:?}");
        }
        // Another rank does not look where a link leads.
        random_file(dir.join("small"), MIB + 5, 2);
        fs::write(dir.join("real"), "old").unwrap();
        symlink("real", dir.join("link")).unwrap();
        let copied = dio_mpi(dir, 2, &["cp", "--verify", "--receipt=receipt", "small", "link"]);
        assert!(copied.status.success(), "{copied:?}");
        let told = "dio-mpi cp: 'link': verified by the process that wrote it, since no other one \
                    could open it\n";
        assert_eq!(copied.stderr.matches(told).count(), 1, "{copied:?}");
        assert_eq!(of_ranks(&receipt(dir), "bytes_verified_by_writer"), [MIB + 5, 0]);
        same_bytes(dir.join("small"), dir.join("real"));
    }
}

#[test]
fn a_signal_while_files_are_verified_stops_all_in_order() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir(dir.join("from")).unwrap();
    (0..200).for_each(|number| random_file(dir.join(format!("from/f{number}")), MIB, number));
    let words = ["cp", "-a", "--verify", "--atomic", "--limit=30M", "from", "to"];
    let job = start(dir, 2, &words);
    let count = || fs::read_dir(dir.join("to")).map_or(0, |entries| entries.count());
    until("some are verified", || count() > 10);
    signal(ranks_of(job.id())[1], rustix::process::Signal::TERM);
    let ended = job.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(143), "{told}");
    let (mut found, mut hidden) = (0, 0);
    for entry in fs::read_dir(dir.join("to")).unwrap() {
        let name = entry.unwrap().file_name();
        match name.to_str().unwrap().starts_with(".dio-") {
            true => hidden += 1,
            false => {
                found += 1;
                dio_test::same_bytes(dir.join("from").join(&name), dir.join("to").join(&name));
            }
        }
    }
    assert!(found > 0 && found < 200 && hidden == 0, "{found} files, {hidden} hidden names");
}

/// Leaves a process so many descriptors that it can open.
fn leave_descriptors(process: u32, left: usize) {
    let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else { return };
    let open: Vec<u64> =
        open.flatten().filter_map(|fd| fd.file_name().to_str()?.parse().ok()).collect();
    limit_descriptors(process, (0..).filter(|fd| !open.contains(fd)).nth(left).unwrap());
}

/// Leaves a process no descriptor from this number on.
fn limit_descriptors(process: u32, limit: u64) {
    let args = ["--pid", &process.to_string(), &format!("--nofile={limit}:")];
    // It may have ended.
    run(std::process::Command::new("prlimit").args(args));
}

#[test]
fn a_rank_that_lacks_descriptors_leaves_the_reading_back_to_others() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let names: Vec<String> = (0..120).map(|number| format!("f{number}")).collect();
    names.iter().zip(0..).for_each(|(name, seed)| random_file(dir.join(name), MIB + 5, seed));
    fs::create_dir(dir.join("to")).unwrap();
    // Files that are operands stay with the first rank, so that the other one only reads back.
    let mut words = vec!["cp", "--verify", "--limit=100M", "--receipt=receipt"];
    words.extend(names.iter().map(String::as_str).chain(["to"]));
    let mut job = start(dir, 2, &words);
    until("the ranks run", || ranks_of(job.id()).len() == 2);
    let reader = ranks_of(job.id())[1];
    until("something is copied", || dir.join("to/f3").exists());
    let mut scarce = (0..8).cycle();
    let mut leave_few = || {
        leave_descriptors(reader, scarce.next().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    until("more is copied", || {
        leave_few();
        dir.join("to/f40").exists()
    });
    // Fewer files than this wait for being read back.
    limit_descriptors(reader, 3);
    until("more is copied and read back", || dir.join("to/f100").exists());
    while job.try_wait().unwrap().is_none() {
        leave_few();
    }
    let ended = job.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{told}");
    names.iter().for_each(|name| same_bytes(dir.join(name), dir.join("to").join(name)));
    let receipt = receipt(dir);
    let verified = of_ranks(&receipt, "bytes_verified");
    assert_eq!(verified.iter().sum::<u64>(), 120 * (MIB + 5), "{receipt}");
    assert!(verified[0] > 0, "the other rank lacked descriptors: {receipt}");
}
