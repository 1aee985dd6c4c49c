//! Whole copies under `mpirun`, judged by rsync: contents, owners, modes, times, links, attributes
//! and ACLs.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command};

use common::{
    MIB, PIECE, SMALL_PIECE, assert_same, catches_sigterm, make_tree, mpirun, of_ranks,
    pieces_noted, ranks_of, signal, written,
};
use dio_test::{Output, Seed, file_systems, random_file, run};

fn copy(dir: &Path, ranks: u32, words: &[&str]) -> Output {
    run(mpirun(dir, ranks).arg("cp").args(words))
}

#[test]
fn a_tree_is_the_same_on_every_file_system() {
    let seed = Seed::new();
    for fs in file_systems() {
        let scratch = fs.dir();
        let dir = scratch.path();
        make_tree(&dir.join("from"), &seed);
        let one = if fs == file_systems()[0] { Some(1) } else { None };
        for ranks in one.into_iter().chain([4]) {
            let to = format!("to{ranks}");
            let words = ["-a", "--receipt", "receipt", "from", &to];
            let copied = copy(dir, ranks, &words);
            assert!(copied.status.success(), "{}: {copied:?}", fs.name);
            assert_same(dir, "from", &to);
            let holes = |name: &str| dir.join(name).join("d1/sparse").metadata().unwrap().blocks();
            assert!(holes(&to) <= holes("from") + 2048, "{}: holes are kept", fs.name);
            let receipt = fs::read_to_string(dir.join("receipt")).unwrap();
            let times = receipt.matches("\"cpu_seconds\"").count();
            assert_eq!(times, ranks as usize + 1, "one for each rank and one for all");
            assert!(receipt.contains("\"durable\": true"), "{receipt}");
            assert!(receipt.contains("\"slowest_rank\": "), "{receipt}");
            let numbers = (0..u64::from(ranks)).collect::<Vec<_>>();
            assert_eq!(of_ranks(&receipt, "rank"), numbers);
            assert!(of_ranks(&receipt, "retries").iter().all(|count| *count == 0), "{receipt}");
            fs::remove_dir_all(dir.join(to)).unwrap();
        }
    }
}

#[test]
fn one_large_file_is_copied_by_several_ranks() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir(dir.join("from")).unwrap();
    random_file(dir.join("from/large"), 500 * MIB + 1, 5);
    fs::create_dir(dir.join("to")).unwrap();
    for (source, target) in
        [("from", "to"), ("from/large", "to/from/renamed"), ("from/large", "to")]
    {
        let copied = copy(dir, 4, &["-a", "--receipt", "-", source, target]);
        assert!(copied.status.success(), "{copied:?}");
        is_shared(&copied.stdout);
    }
    assert_same(dir, "from/large", "to/large");
    assert_same(dir, "from/large", "to/from/large");
    assert_same(dir, "from/large", "to/from/renamed");
}

/// Checks by the receipt that several ranks copied a file of 500 MiB and a byte.
fn is_shared(receipt: &str) {
    let written = of_ranks(receipt, "bytes_written");
    assert_eq!(written.iter().sum::<u64>(), 500 * MIB + 1, "{written:?}");
    assert!(written.iter().filter(|bytes| **bytes > 0).count() >= 2, "{written:?}");
}

#[test]
fn files_of_one_directory_are_copied_by_several_ranks() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir(dir.join("from")).unwrap();
    (0..100).for_each(|number| random_file(dir.join(format!("from/f{number}")), 8 * MIB, number));
    let copied = copy(dir, 4, &["-a", "--limit", "400M", "--receipt", "-", "from", "to"]);
    assert!(copied.status.success(), "{copied:?}");
    assert_same(dir, "from", "to");
    let written = of_ranks(&copied.stdout, "bytes_written");
    assert_eq!(written.iter().sum::<u64>(), 800 * MIB, "{written:?}");
    assert!(written.iter().all(|bytes| *bytes < 600 * MIB), "{written:?}");
}

#[test]
fn as_many_threads_work_as_are_asked_for_and_ranks_without_any_rest() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir(dir.join("from")).unwrap();
    random_file(dir.join("from/large"), 200 * MIB, 5);
    for number in 0..40 {
        fs::create_dir(dir.join(format!("from/d{number}"))).unwrap();
        for file in 0..40 {
            fs::write(dir.join(format!("from/d{number}/f{file}")), "x").unwrap();
        }
    }
    for (threads, expected) in [("3", [1, 1, 1]), ("7", [3, 2, 2]), ("2", [1, 1, 0])] {
        let words = ["-a", "--threads", threads, "--receipt", "-", "from", "to"];
        let copied = copy(dir, 3, &words);
        assert!(copied.status.success(), "{copied:?}");
        assert_same(dir, "from", "to");
        assert_eq!(of_ranks(&copied.stdout, "threads"), expected);
        let written = of_ranks(&copied.stdout, "bytes_written");
        assert!(expected[2] > 0 || written[2] == 0, "{written:?}");
        fs::remove_dir_all(dir.join("to")).unwrap();
    }
    for threads in ["0", "65", "many"] {
        let refused = copy(dir, 2, &["--threads", threads, "-a", "from", "to"]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(refused.stderr.contains("--threads is a number from 1 to 64"), "{refused:?}");
    }
}

#[test]
fn messages_and_status_are_those_of_cp() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    for number in 0..30 {
        fs::create_dir_all(dir.join(format!("from/d{number}"))).unwrap();
        for file in 0..100 {
            fs::write(dir.join(format!("from/d{number}/f{file}")), "x").unwrap();
        }
        // A directory is in the way of each tenth.
        fs::create_dir_all(dir.join(format!("to/d{number}/f10"))).unwrap();
    }
    let copied = copy(dir, 4, &["-rvT", "from", "to"]);
    assert_eq!(copied.status.code(), Some(1));
    let mut lines: Vec<&str> = copied.stdout.lines().collect();
    lines.sort_unstable();
    let name = |number, file| format!("d{number}/f{file}");
    let files = (0..30).flat_map(|number| (0..100).map(move |file| (number, file)));
    let mut expected: Vec<String> = files
        .map(|(number, file)| name(number, file))
        .filter(|name| !name.ends_with("/f10"))
        .map(|name| format!("'from/{name}' -> 'to/{name}'"))
        .collect();
    expected.sort_unstable();
    assert!(lines == expected, "{lines:?}");
    for number in 0..30 {
        let told = format!(
            "dio-mpi cp: cannot overwrite directory 'to/d{number}/f10' with non-directory\n"
        );
        assert_eq!(copied.stderr.matches(&told).count(), 1, "{}", copied.stderr);
        assert!(dir.join(format!("to/d{number}/f99")).exists(), "the others are copied");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::write(dir.join("x"), "x").unwrap();
    for words in
        [&["cp", "-i", "x", "y"][..], &["cp", "--resume", "x", "y"], &["tar", "-c"], &["none"], &[]]
    {
        let refused = run(mpirun(dir, 2).args(words));
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {refused:?}");
        assert_eq!(refused.stderr.matches("dio-mpi").count().min(1), 1, "{refused:?}");
    }
    assert!(!dir.join("y").exists());
    let missing = copy(dir, 2, &["x"]);
    assert_eq!(missing.status.code(), Some(1));
    let told = "missing destination file operand after 'x'";
    assert_eq!(missing.stderr.matches(told).count(), 1, "{missing:?}");
    let helped = copy(dir, 2, &["--help"]);
    assert!(helped.status.success());
    assert_eq!(helped.stdout.matches("--archive").count(), 1);
}

fn start(dir: &Path, words: &[&str]) -> Child {
    common::start(dir, 4, &[&["cp"], words].concat())
}

#[test]
fn a_killed_rank_ends_the_job_and_a_second_one_completes_it() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(&dir.join("from"), &seed);
    for victim in 0..4 {
        // Slow enough that none is done before the kill.
        let job = start(dir, &["-a", "--limit", "40M", "from", "to"]);
        dio_test::until("the ranks copy", || {
            ranks_of(job.id()).len() == 4 && dir.join("to").exists()
        });
        std::thread::sleep(std::time::Duration::from_millis(seed.stream(victim).range(0..300)));
        signal(ranks_of(job.id())[victim as usize], rustix::process::Signal::KILL);
        let ended = job.wait_with_output().unwrap();
        assert!(!ended.status.success(), "{ended:?}");
        let copied = copy(dir, 4, &["-aT", "--remove-destination", "from", "to"]);
        assert!(copied.status.success(), "{copied:?}");
        assert_same(dir, "from", "to");
        fs::remove_dir_all(dir.join("to")).unwrap();
    }
}

#[test]
fn a_signal_to_any_rank_stops_all_in_order() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir(dir.join("from")).unwrap();
    random_file(dir.join("from/large"), 400 * MIB, 1);
    for victim in [0, 2] {
        let job = start(dir, &["-a", "--limit", "20M", "from", "to"]);
        dio_test::until("the ranks copy", || {
            let ranks = ranks_of(job.id());
            let ready = ranks.iter().filter(|rank| catches_sigterm(**rank)).count();
            ready == 4 && dir.join("to/large").exists()
        });
        signal(ranks_of(job.id())[victim], rustix::process::Signal::TERM);
        let ended = job.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(143), "{told}");
        assert_eq!(told.matches("dio-mpi cp: interrupted\n").count(), 1, "{told}");
        fs::remove_dir_all(dir.join("to")).unwrap();
    }
}

#[test]
fn progress_is_one_line_for_all_ranks() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir(dir.join("from")).unwrap();
    random_file(dir.join("from/large"), 100 * MIB, 1);
    let copied = copy(dir, 4, &["-a", "--limit", "60M", "--progress", "from", "to"]);
    assert!(copied.status.success(), "{copied:?}");
    let last = copied.stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("dio-mpi cp: 100 MiB copied in "), "{}", copied.stderr);
    std::io::stderr().flush().unwrap();
}

#[test]
fn a_killed_job_goes_on_by_its_journal() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    make_tree(&dir.join("from"), &seed);
    let mut rng = seed.stream(9);
    let words =
        ["-a", "--journal", "journal", "--receipt", "receipt", "--limit", "40M", "from", "to"];
    let receipt = || fs::read_to_string(dir.join("receipt")).unwrap();
    for round in 0..2 {
        let job = start(dir, &words);
        let noted = || {
            let noted = |rank| dir.join(format!("journal/marks.{rank}")).metadata();
            (0..4).any(|rank| noted(rank).is_ok_and(|marks| marks.len() > 16))
        };
        dio_test::until("something is noted", noted);
        let victims = ranks_of(job.id());
        match round {
            0 => victims.iter().for_each(|rank| signal(*rank, rustix::process::Signal::KILL)),
            _ => signal(victims[rng.range_usize(0..victims.len())], rustix::process::Signal::KILL),
        }
        assert!(!job.wait_with_output().unwrap().status.success());
        // What a crash may leave of the last record.
        let cut = dir.join("journal/marks.1");
        let length = cut.metadata().unwrap().len();
        if round == 1 {
            File::options()
                .write(true)
                .open(cut)
                .unwrap()
                .set_len(rng.range(0..length + 1))
                .unwrap();
        }
        let ranks = 2 + rng.range(0..4) as u32;
        let rest = copy(dir, ranks, &words);
        assert!(rest.status.success(), "{rest:?}");
        assert_same(dir, "from", "to");
        let again = copy(dir, ranks, &words);
        assert!(again.status.success(), "{again:?}");
        assert_eq!(written(&receipt()), 0, "all of it is noted");
        // A copy that somebody changed, and one that is gone, are made again.
        fs::write(dir.join("to/d1/first"), "harmed").unwrap();
        fs::remove_file(dir.join("to/large1")).unwrap();
        let again = copy(dir, ranks, &words);
        assert!(again.status.success(), "{again:?}");
        assert_same(dir, "from", "to");
        fs::remove_dir_all(dir.join("to")).unwrap();
        fs::remove_dir_all(dir.join("journal")).unwrap();
    }
}

/// A copy of one large file, with a journal. It is so slow that all pieces are small ones.
const LARGE: [&str; 9] =
    ["-a", "--journal", "journal", "--receipt", "receipt", "--limit", "40M", "from", "to"];

/// Completes the copy; returns how many bytes were written.
fn complete_large(dir: &Path, ranks: u32) -> u64 {
    let copied = copy(dir, ranks, &LARGE);
    assert!(copied.status.success(), "{copied:?}");
    assert_same(dir, "from", "to");
    written(&fs::read_to_string(dir.join("receipt")).unwrap())
}

/// Kills the copy once so many pieces are noted; returns how many are then.
fn kill_large(dir: &Path, pieces: u64) -> u64 {
    let job = start(dir, &LARGE);
    dio_test::until("pieces are noted", || pieces_noted(&dir.join("journal")) >= pieces);
    ranks_of(job.id()).iter().for_each(|rank| signal(*rank, rustix::process::Signal::KILL));
    assert!(!job.wait_with_output().unwrap().status.success());
    pieces_noted(&dir.join("journal"))
}

#[test]
fn no_piece_of_a_large_file_that_was_noted_is_copied_again() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    random_file(dir.join("from"), 30 * SMALL_PIECE, 5);
    kill_large(dir, 2);
    let noted = kill_large(dir, 8);
    assert_eq!(complete_large(dir, 3), (30 - noted) * SMALL_PIECE, "{noted} pieces were noted");
    assert_eq!(complete_large(dir, 4), 0);
    // Pieces of a file that was complete are not believed.
    File::options().write(true).open(dir.join("to")).unwrap().write_all_at(b"harm", 1000).unwrap();
    assert_eq!(complete_large(dir, 2), 30 * SMALL_PIECE);
    assert_eq!(complete_large(dir, 4), 0);
}

#[test]
fn pieces_in_another_file_or_beyond_its_end_are_not_believed() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    random_file(dir.join("from"), 3 * PIECE, 6);
    kill_large(dir, 2);
    File::options().write(true).open(dir.join("to")).unwrap().set_len(1).unwrap();
    let refused = copy(dir, 2, &LARGE);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let told = "'to' was changed after a part of it was noted in the journal: remove it";
    assert!(refused.stderr.contains(told), "{refused:?}");
    fs::remove_file(dir.join("to")).unwrap();
    assert_eq!(complete_large(dir, 2), 3 * PIECE);
}

#[test]
fn pieces_of_a_source_that_has_changed_since_are_not_believed() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    random_file(dir.join("from"), 3 * PIECE, 7);
    kill_large(dir, 2);
    File::options().write(true).open(dir.join("from")).unwrap().write_all_at(b"new", 0).unwrap();
    assert_eq!(complete_large(dir, 2), 3 * PIECE);
}

#[test]
fn a_second_job_with_a_journal_in_use_is_refused() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir(dir.join("from")).unwrap();
    random_file(dir.join("from/large"), 400 * MIB, 1);
    let words = ["-a", "--journal", "journal", "--limit", "2M", "from", "to"];
    let job = start(dir, &words);
    // The last thing that rank 0 does with the journal before it begins.
    dio_test::until("the copy begins", || dir.join("to/large").exists());
    let second = copy(dir, 2, &words);
    assert_eq!(second.status.code(), Some(2), "{second:?}");
    assert!(second.stderr.contains("'journal' is in use by another job"), "{second:?}");
    signal(ranks_of(job.id())[0], rustix::process::Signal::KILL);
    assert!(!job.wait_with_output().unwrap().status.success());
}

#[test]
fn a_journal_belongs_to_one_command() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::write(dir.join("x"), "x").unwrap();
    let copied = copy(dir, 2, &["--journal=journal", "x", "y"]);
    assert!(copied.status.success(), "{copied:?}");
    for words in [
        &["--journal=journal", "x", "z"][..],
        &["--journal=journal", "--no-sync", "x", "y"],
        &["--journal=other", "-u", "x", "y"],
        &["--journal=other", "-n", "x", "y"],
    ] {
        let refused = copy(dir, 2, words);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
    assert!(!dir.join("z").exists());
    let damaged = dir.join("journal/marks.0");
    let mut bytes = fs::read(&damaged).unwrap();
    bytes[0] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let told = copy(dir, 2, &["--journal=journal", "x", "y"]);
    assert!(told.status.success(), "{told:?}");
    assert!(told.stderr.contains("'journal/marks.0' is damaged at byte 0"), "{told:?}");
}

#[test]
fn links_are_copied_also_if_other_ranks_cannot_find_their_directory() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    fs::create_dir_all(dir.join("from/a")).unwrap();
    for number in 0..100 {
        random_file(dir.join(format!("from/a/f{number}")), 100_000, number);
    }
    for number in 0..40 {
        let name = dir.join(format!("from/a/p{number}"));
        random_file(&name, 100_000, number);
        fs::hard_link(name, dir.join(format!("from/a/q{number}"))).unwrap();
    }
    let mut job = start(dir, &["-a", "--limit", "8M", "from", "to"]);
    dio_test::until("the ranks copy", || dir.join("to/a").exists());
    // Who has it open goes on; others look for it by its name.
    fs::rename(dir.join("from"), dir.join("moved")).unwrap();
    let begun = std::time::Instant::now();
    while job.try_wait().unwrap().is_none() {
        if begun.elapsed() > dio_test::PATIENCE {
            signal(job.id(), rustix::process::Signal::TERM);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let ended = job.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    // Names that were copied by two ranks are two files.
    let judged = run(Command::new("diff").args(["-r", "moved", "to"]).current_dir(dir));
    assert!(judged.status.success(), "{judged:?}");
}
