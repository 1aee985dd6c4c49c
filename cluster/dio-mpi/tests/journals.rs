//! Digests and archives that were cut short, and go on by their journal: receipts say what was read
//! and written again, and the results are those of the system's tools and of `dio tar`.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::cuts::{Cut, cut, cut_at_long_names, make_small, numbers};
use common::{MIB, dio, dio_mpi, messages, mpirun, sh, start, values_noted};
use dio_test::{Output, Seed, file_systems, random_file, run, until};

#[test]
fn as_dio() {
    common::be_dio();
}

/// A tree of small files and three large ones, of which one has two whole pieces.
const LARGE: [u64; 3] = [70 * MIB + 5, 128 * MIB, 3 * MIB];

fn make_tree(root: &Path) -> u64 {
    for number in 0..120 {
        let dir = root.join(format!("d{}", number % 7));
        fs::create_dir_all(&dir).unwrap();
        random_file(dir.join(format!("f{number}")), 300 * number, number);
    }
    for (number, length) in LARGE.into_iter().enumerate() {
        random_file(root.join(format!("large{number}")), length, 1000 + number as u64);
    }
    (0..120).map(|number| 300 * number).sum::<u64>() + LARGE.iter().sum::<u64>()
}

/// The lines that the system's `sha256sum --tag` prints of the tree and the file `last`.
fn sha256(dir: &Path) -> String {
    sh(dir, "find tree -type f | LC_ALL=C sort | xargs sha256sum --tag; sha256sum --tag last")
        .stdout
}

/// A job that computes digests of the tree, and waits for a pipe at the end.
struct Summing<'a> {
    dir: &'a Path,
    words: Vec<&'a str>,
}

impl<'a> Summing<'a> {
    fn new(dir: &'a Path, options: &[&'a str]) -> Summing<'a> {
        let before = ["sum", "--journal", "journal", "--receipt", "receipt"];
        Summing { dir, words: [&before, options, &["tree", "last"]].concat() }
    }

    /// Starts the job, and cuts it short when at least so many digests are noted; returns how many
    /// are. A rank that waits for the pipe may have other files before it, whose digests it has not
    /// told yet.
    fn cut(&self, how: Cut, noted: usize) -> usize {
        sh(self.dir, "rm -f last; mkfifo last");
        let job = start(self.dir, 4, &self.words);
        let journal = self.dir.join("journal");
        until("most are noted", || values_noted(&journal) >= noted);
        // The rank that waits for the pipe comes to the signal when that ends.
        cut(job, how, || drop(File::options().write(true).open(self.dir.join("last")).unwrap()));
        sh(self.dir, "rm last; echo last >last");
        values_noted(&journal)
    }

    /// Has the job go on to its end; returns its output.
    fn complete(&self, ranks: u32) -> Output {
        dio_mpi(self.dir, ranks, &self.words)
    }
}

#[test]
fn digests_that_were_noted_are_not_computed_again() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let total = make_tree(&dir.join("tree"));
    let job = Summing::new(dir, &[]);
    for (how, ranks) in [(Cut::KillAll, 2), (Cut::Kill(0), 1), (Cut::Stop(2), 3), (Cut::Stop(0), 4)]
    {
        let noted = job.cut(how, 100);
        let done = job.complete(ranks);
        assert!(done.status.success() && messages(&done).is_empty(), "{how:?}: {done:?}");
        assert_eq!(done.stdout, sha256(dir), "{how:?}");
        let told = numbers(dir, ranks);
        assert_eq!(told["bytes_read"] + told["bytes_noted"], total + 5, "{how:?}: {told:?}");
        assert_eq!(told["files_noted"], noted as u64, "{how:?}");
        fs::remove_dir_all(dir.join("journal")).unwrap();
    }
}

#[test]
fn pieces_and_parts_that_were_noted_are_not_read_again() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let total = make_tree(&dir.join("tree"));
    // Of the two large files, two pieces of 64 MiB each; or parts of 32 MiB.
    for (options, all) in [(&["-a", "blake3,crc"][..], 121 + 4), (&["--parts=32M"], 121 + 3 + 4)] {
        let job = Summing::new(dir, options);
        // A rank that waits for the pipe may have another job, so some are missing.
        job.cut(Cut::KillAll, all - 4);
        let done = job.complete(3);
        assert!(done.status.success() && messages(&done).is_empty(), "{done:?}");
        let told = numbers(dir, 3);
        assert_eq!(told["bytes_read"] + told["bytes_noted"], total + 5, "{told:?}");
        assert!(told["bytes_noted"] > 0 && told["files_noted"] <= 121, "{told:?}");
        assert_eq!(values_noted(&dir.join("journal")), all + 1, "with the last one");
        assert_eq!(job.complete(2).stdout, done.stdout);
        let told = numbers(dir, 2);
        assert_eq!((told["bytes_read"], told["bytes_noted"]), (0, total + 5), "{told:?}");
        assert_eq!(told["files_noted"], 122);
        let expected = dio_mpi(dir, 1, &[&["sum"], options, &["tree", "last"]].concat());
        assert_eq!(done.stdout, expected.stdout);
        fs::remove_dir_all(dir.join("journal")).unwrap();
    }
    let blake3 = dio_mpi(dir, 2, &["sum", "-a", "blake3", "tree/large1"]).stdout;
    let digest = blake3::hash(&fs::read(dir.join("tree/large1")).unwrap());
    assert_eq!(blake3, format!("BLAKE3 (tree/large1) = {digest}\n"));
}

#[test]
fn files_that_changed_and_notes_that_are_damaged_are_not_believed() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let total = make_tree(&dir.join("tree")) + 5;
    let mut rng = seed.stream(1);
    fs::write(dir.join("last"), "last\n").unwrap();
    let job = Summing::new(dir, &[]);
    let complete_with = |count: usize, told: &str| {
        let done = job.complete(2);
        assert!(done.status.success(), "{done:?}");
        assert_eq!(messages(&done).len(), count, "{done:?}");
        assert!(messages(&done).iter().all(|line| line.contains(told)), "{done:?}");
        assert_eq!(done.stdout, sha256(dir));
        let numbers = numbers(dir, 2);
        assert_eq!(numbers["bytes_read"] + numbers["bytes_noted"], total, "{numbers:?}");
        numbers["bytes_read"]
    };
    let complete = || complete_with(0, "");
    assert_eq!(complete(), total);
    assert_eq!(complete(), 0);
    // Other bytes, of which the time of modification does not tell.
    sh(
        dir,
        "touch -r tree/d3/f80 then; printf x | dd of=tree/d3/f80 conv=notrunc status=none
             touch -r then tree/d3/f80",
    );
    assert_eq!(complete(), 24_000);
    // Another file with the same bytes.
    sh(dir, "cp -p tree/d3/f87 other; mv other tree/d3/f87");
    assert_eq!(complete(), 26_100);
    let marks = || -> Vec<PathBuf> {
        (0..2).map(|rank| dir.join(format!("journal/marks.{rank}"))).collect()
    };
    for path in marks() {
        let length = path.metadata().unwrap().len();
        File::options().write(true).open(path).unwrap().set_len(rng.range(0..length)).unwrap();
    }
    assert!(complete() > 0);
    assert_eq!(complete(), 0);
    for path in marks() {
        let file = File::options().write(true).open(path).unwrap();
        file.write_all_at(b"\xff\xff\xff\xff", 16).unwrap();
    }
    let told = "is damaged at byte 16: what is noted there is done again";
    assert_eq!(complete_with(2, told), total);
    assert_eq!(complete(), 0);
}

#[test]
fn checks_go_on_too() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let total = make_tree(&dir.join("tree"));
    sh(dir, "find tree -type f | LC_ALL=C sort | xargs sha256sum --tag >list");
    let words = ["sum", "-c", "--quiet", "--journal=journal", "--receipt", "receipt", "list"];
    let list = dir.join("list").metadata().unwrap().len();
    for (ranks, read) in [(3, total), (2, 0), (4, 0)] {
        let checked = dio_mpi(dir, ranks, &words);
        assert!(checked.status.success() && checked.stdout.is_empty(), "{checked:?}");
        let told = numbers(dir, ranks);
        assert_eq!((told["bytes_read"], told["bytes_noted"]), (list + read, total - read));
    }
    // The comparison is made again, also if the file is not read.
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    sh(dir, &format!(r"sed -i 's,\(tree/d1/f1) = \).*,\1{empty},' list; echo >>tree/d2/f2"));
    let checked = dio_mpi(dir, 2, &words);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    let failed: Vec<&str> = checked.stdout.lines().collect();
    assert_eq!(failed, ["tree/d1/f1: FAILED", "tree/d2/f2: FAILED"]);
    assert_eq!(numbers(dir, 2)["bytes_noted"], total - 600);
}

#[test]
fn a_journal_has_one_job_at_a_time_and_one_command() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    sh(dir, "mkdir tree; echo one >tree/one; mkfifo last");
    let words = ["sum", "--journal", "journal", "tree", "last"];
    let job = start(dir, 4, &words);
    until("a digest is noted", || values_noted(&dir.join("journal")) == 1);
    let refused = |words: &[&str], told: &str| {
        let refused = dio_mpi(dir, 2, words);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let lines = messages(&refused);
        assert!(lines[0].starts_with(&format!("dio-mpi {}: ", words[0])), "{refused:?}");
        assert!(lines[0].contains(told), "{refused:?}");
    };
    refused(&words, "'journal' is in use by another job");
    cut(job, Cut::Kill(1), || ());
    let other = "'journal' is not the journal of this command in this directory";
    refused(&["sum", "--journal", "journal", "tree"], other);
    refused(&["sum", "--journal", "journal", "-a", "md5", "tree", "last"], other);
    refused(&["tar", "-c", "--journal", "journal", "-f", "a.tar", "tree"], other);
    refused(&["cp", "-a", "--journal", "journal", "tree", "to"], other);
    let in_place = ["tar", "--journal=other", "-c", "--in-place", "-f", "a.tar", "tree"];
    refused(&in_place, "--in-place overwrites");
    for (option, told) in [
        ("-k", "would be kept"),
        ("--skip-old-files", "would be kept"),
        ("--keep-newer-files", "would be kept"),
        ("--no-overwrite-dir", "would be kept"),
        ("-U", "would be removed"),
        ("--recursive-unlink", "would be removed"),
    ] {
        refused(&["tar", "--journal=other", option, "-x", "-f", "a.tar"], told);
    }
    assert!(!dir.join("other").exists() && !dir.join("a.tar").exists());
    fs::create_dir(dir.join("elsewhere")).unwrap();
    let mut elsewhere = mpirun(&dir.join("elsewhere"), 2);
    let moved = run(elsewhere.args(["sum", "--journal", "../journal", "tree", "last"]));
    assert!(moved.status.code() == Some(2) && moved.stderr.contains("in this directory"));
    let missing = dio_mpi(dir, 2, &["sum", "--journal", "none/journal", "tree"]);
    assert_eq!(missing.status.code(), Some(2), "{missing:?}");
    assert!(missing.stderr.contains("cannot create the journal 'none/journal'"), "{missing:?}");
}

/// Bytes of a piece of an archive.
const PIECE: u64 = 32 * MIB;

/// A job that archives `tree`, and waits when it has come to its end.
struct Archiving<'a> {
    dir: &'a Path,
    words: Vec<&'a str>,
    options: &'a str,
}

impl<'a> Archiving<'a> {
    /// Makes the tree: some large files, small ones, and then many with long names.
    fn new(dir: &'a Path, options: &'a str) -> Archiving<'a> {
        for number in 0..4 {
            let path = dir.join(format!("tree/a{number}/large"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            random_file(path, 41 * MIB + 7 * number, number);
        }
        make_small(&dir.join("tree"));
        let before = ["tar", "-cv", "--journal", "journal", "--receipt", "receipt"];
        let list = ["--sort=name", "--index-file=names", "-f", "got", "tree"];
        let own: Vec<&str> = options.split_whitespace().collect();
        Archiving { dir, words: [&before[..], &own, &list].concat(), options }
    }

    /// Starts the job, and cuts it short when there are so many notes of pieces: of all that are
    /// complete before it waits.
    fn cut(&self, how: Cut, pieces: usize) {
        let journal = self.dir.join("journal");
        cut_at_long_names(self.dir, &self.words, how, || {
            until("all but the last piece is noted", || values_noted(&journal) > pieces);
            assert_eq!(values_noted(&journal), 1 + pieces);
        });
        assert_eq!(self.hidden(), 1, "{how:?}");
    }

    /// Has the job go on to its end, and compares the archive with that of `dio tar`. Returns how
    /// many bytes were written, and how many were read.
    fn complete(&self, ranks: u32) -> (u64, u64) {
        let options = format!("{} --sort=name", self.options);
        let line = format!("dio tar -c {} -f expected tree", options.trim());
        // With the times of access that the job finds.
        let expected = dio(self.dir, &line);
        assert!(expected.status.success(), "{expected:?}");
        let done = dio_mpi(self.dir, ranks, &self.words);
        assert!(done.status.success() && messages(&done).is_empty(), "{done:?}");
        let same = run(Command::new("cmp").args(["expected", "got"]).current_dir(self.dir));
        assert!(same.status.success(), "{same:?}");
        assert_eq!(self.hidden(), 0, "nothing stays beside the archive");
        let told = numbers(self.dir, ranks);
        let length = self.dir.join("got").metadata().unwrap().len();
        assert_eq!(told["bytes_written"] + told["bytes_noted"], length, "{told:?}");
        (told["bytes_written"], told["bytes_read"])
    }

    /// How many files with hidden names there are.
    fn hidden(&self) -> usize {
        let names = fs::read_dir(self.dir).unwrap().flatten();
        names.filter(|one| one.file_name().as_encoded_bytes().starts_with(b".dio-")).count()
    }

    /// The file with a hidden name.
    fn left(&self) -> PathBuf {
        let names = fs::read_dir(self.dir).unwrap().flatten();
        let mut hidden =
            names.filter(|one| one.file_name().as_encoded_bytes().starts_with(b".dio-"));
        hidden.next().unwrap().path()
    }

    fn length(&self) -> u64 {
        self.dir.join("got").metadata().unwrap().len()
    }
}

/// The pieces of the tree that are complete before the job waits.
const COMPLETE: usize = 5;

#[test]
fn pieces_that_were_noted_are_not_written_again() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let job = Archiving::new(dir, "");
    for (how, ranks) in [(Cut::KillAll, 2), (Cut::Kill(0), 3), (Cut::Stop(1), 1), (Cut::Stop(0), 4)]
    {
        let replaces = how == Cut::Kill(0) || how == Cut::Stop(0);
        if replaces {
            fs::write(dir.join("got"), "old").unwrap();
            fs::set_permissions(dir.join("got"), fs::Permissions::from_mode(0o640)).unwrap();
        }
        job.cut(how, COMPLETE);
        assert_eq!(fs::read(dir.join("got")).ok(), replaces.then(|| b"old".to_vec()));
        let (written, read) = job.complete(ranks);
        assert_eq!(written, job.length() - COMPLETE as u64 * PIECE, "{how:?}");
        assert!(read < PIECE, "{how:?}: {read}");
        if replaces {
            assert_eq!(dir.join("got").metadata().unwrap().mode() & 0o777, 0o640);
        }
        sh(dir, "rm -r journal got");
    }
}

#[test]
fn headers_that_differ_are_written_again_without_the_files() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let job = Archiving::new(dir, "--format=pax");
    job.cut(Cut::KillAll, COMPLETE);
    // Now all files were read since they were made, so the times of access stay.
    sh(dir, "find tree -type f -exec cat {} + >/dev/null");
    let (written, read) = job.complete(2);
    assert!(written < 2 * PIECE && read < PIECE, "{written} {read}");
    sh(dir, "mkdir to; tar -xf got -C to; diff -r tree to/tree");
}

#[test]
fn a_file_that_changed_is_archived_again_and_others_are_not() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let job = Archiving::new(dir, "");
    job.cut(Cut::KillAll, COMPLETE);
    // The third large file is in two pieces.
    let changed = File::options().write(true).open(dir.join("tree/a2/large")).unwrap();
    changed.write_all_at(b"changed", 40 * MIB).unwrap();
    let (written, _) = job.complete(3);
    assert_eq!(written, job.length() - 3 * PIECE);
    assert_eq!(job.length(), dir.join("expected").metadata().unwrap().len());
}

#[test]
fn pieces_that_another_attempt_has_overwritten_are_not_believed() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let job = Archiving::new(dir, "");
    job.cut(Cut::KillAll, COMPLETE);
    sh(
        dir,
        "cp -r journal first; touch -r tree then; touch -r tree/a0 then0
             echo more >tree/a0/before",
    );
    // All that comes behind this file is at another place.
    job.cut(Cut::Stop(0), 2 * COMPLETE);
    sh(dir, "mv journal second; rm tree/a0/before; touch -r then tree; touch -r then0 tree/a0");
    // The journal as it was before: it is about a hidden name that is not there any more.
    sh(dir, "mv first journal");
    let done = dio_mpi(dir, 2, &job.words);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(numbers(dir, 2)["bytes_written"], job.length());
    assert_eq!(job.hidden(), 1);
    // The journal of the archive that is left, of which everything is at its first place again.
    sh(dir, "rm -r journal got names; mv second journal");
    let (written, _) = job.complete(4);
    assert_eq!(written, job.length());
}

#[test]
fn only_the_archive_that_was_noted_is_gone_on_with() {
    let seed = Seed::new();
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let job = Archiving::new(dir, "");
    // Another file has its name.
    job.cut(Cut::KillAll, COMPLETE);
    let left = job.left();
    fs::copy(&left, dir.join("other")).unwrap();
    fs::rename(dir.join("other"), &left).unwrap();
    let done = dio_mpi(dir, 2, &job.words);
    assert!(done.status.success(), "{done:?}");
    assert_eq!(numbers(dir, 2)["bytes_written"], job.length());
    fs::remove_file(left).unwrap();
    sh(dir, "rm -r journal got names");
    // It has become shorter, within the third piece.
    job.cut(Cut::Kill(3), COMPLETE);
    File::options().write(true).open(job.left()).unwrap().set_len(2 * PIECE + 5).unwrap();
    let (written, _) = job.complete(3);
    assert_eq!(written, job.length() - 2 * PIECE);
    sh(dir, "rm -r journal got");
    // Notes of pieces are lost.
    job.cut(Cut::KillAll, COMPLETE);
    let mut rng = seed.stream(1);
    for rank in 1..4 {
        let marks = dir.join(format!("journal/marks.{rank}"));
        let mut bytes = fs::read(&marks).unwrap();
        let at = rng.range_usize(0..bytes.len());
        bytes[at] ^= 1 << rng.range(0..8);
        fs::write(marks, bytes).unwrap();
    }
    let line = "dio tar -c --sort=name -f expected tree";
    assert!(dio(dir, line).status.success());
    let done = dio_mpi(dir, 3, &job.words);
    assert!(done.status.success(), "{done:?}");
    sh(dir, "cmp expected got");
    assert!(numbers(dir, 3)["bytes_written"] > job.length() - COMPLETE as u64 * PIECE);
}
