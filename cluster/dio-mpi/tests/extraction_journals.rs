//! Extractions that were cut short, and go on by their journal: receipts say what was written
//! again, and the trees are those that were archived.

mod common;

use std::fs;
use std::path::Path;

use common::cuts::{Cut, cut_at_long_names, make_small, numbers};
use common::{MIB, dio_mpi, marks_noted, messages, sh};
use dio_test::{file_systems, random_file, until};

#[test]
fn as_dio() {
    common::be_dio();
}

/// A job that extracts `in.tar`, and waits when it has come to its end.
struct Extracting<'a> {
    dir: &'a Path,
    words: Vec<&'a str>,
    total: u64,
}

/// Small files that are extracted and noted before the job waits, which come in batches of 128:
/// those with short names, and those with long names, as many as a pipe has place for. And the
/// pieces of large files, which have no names then.
const SMALL: usize = 384;
const LONG_NAMES: usize = 256;
const PIECES: usize = 7;

impl<'a> Extracting<'a> {
    /// Makes the archive: two large files, small ones, and then many with long names.
    fn new(dir: &'a Path, options: &'a str) -> Extracting<'a> {
        let lengths = [70 * MIB + 5, 128 * MIB];
        make_small(&dir.join("tree"));
        fs::create_dir(dir.join("to")).unwrap();
        for (number, length) in lengths.into_iter().enumerate() {
            random_file(dir.join(format!("tree/a{number}")), length, number as u64);
        }
        sh(dir, "ln tree/b/small399 tree/zz; tar -c --sort=name -f in.tar tree");
        let before = ["tar", "-xv", "--journal", "journal", "--receipt", "receipt"];
        let list = ["--index-file=names", "-f", "in.tar", "-C", "to"];
        let own: Vec<&str> = options.split_whitespace().collect();
        let total = (0..400).map(|number| 200 * number).sum::<u64>() + lengths.iter().sum::<u64>();
        Extracting { dir, words: [&before[..], &own, &list].concat(), total }
    }

    /// Starts the job, and cuts it short when the files before the long names are noted.
    fn cut(&self, how: Cut) {
        let journal = self.dir.join("journal");
        cut_at_long_names(self.dir, &self.words, how, || {
            until("all is noted", || marks_noted(&journal) >= PIECES + SMALL + LONG_NAMES);
        });
        // A leader that is told to stop still takes what has been answered.
        let hidden = self.hidden();
        let is_stopped = matches!(how, Cut::Stop(_));
        assert!(hidden == 2 || is_stopped && hidden == 0, "{how:?}: {hidden}");
    }

    fn hidden(&self) -> usize {
        sh(self.dir, "find to -name '.dio-*'").stdout.lines().count()
    }

    /// Has the job go on to its end; returns how many bytes were written, and how many files were
    /// noted.
    fn complete(&self, ranks: u32) -> (u64, u64) {
        let done = dio_mpi(self.dir, ranks, &self.words);
        assert!(done.status.success() && messages(&done).is_empty(), "{done:?}");
        common::assert_same(self.dir, "tree", "to/tree");
        assert_eq!(self.hidden(), 0);
        let told = numbers(self.dir, ranks);
        assert_eq!(told["bytes_written"] + told["bytes_noted"], self.total, "{told:?}");
        (told["bytes_written"], told["files_noted"])
    }
}

#[test]
fn files_and_pieces_that_were_noted_are_not_extracted_again() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let job = Extracting::new(dir, "");
    for (how, ranks) in [(Cut::KillAll, 2), (Cut::Kill(0), 3), (Cut::Stop(1), 1), (Cut::Stop(0), 4)]
    {
        job.cut(how);
        if how == Cut::Kill(0) {
            // The hidden files are of another archive, and go.
            sh(dir, "touch in.tar");
            assert_eq!(job.complete(ranks).0, job.total);
            sh(dir, "rm -r journal to/tree");
            continue;
        }
        let (written, noted) = job.complete(ranks);
        assert!(written <= 200 * (SMALL as u64..400).sum::<u64>(), "{how:?}: {written}");
        assert!(noted >= (SMALL + LONG_NAMES) as u64, "{how:?}: {noted}");
        sh(dir, "rm -r journal to/tree");
    }
}

#[test]
fn files_that_are_not_as_they_were_noted_are_extracted_again() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    let job = Extracting::new(dir, "--mode=cached");
    job.cut(Cut::KillAll);
    // One large file is gone, and the other one shorter.
    sh(dir, "cd to/tree; set -- .dio-*; rm $1; truncate -s -1 $2");
    let (written, _) = job.complete(3);
    assert!(written >= 198 * MIB, "{written}");
    assert_eq!(job.complete(2).0, 0);
    // Other bytes, of which the time of modification does not tell; another file; and none.
    sh(
        dir,
        "cd to/tree; touch -r b/small80 then
         printf x | dd of=b/small80 conv=notrunc status=none; touch -r then b/small80; rm then
         cp -p b/small90 other; mv other b/small90; rm b/small100",
    );
    assert_eq!(job.complete(2).0, 200 * (80 + 90 + 100));
    // One that has another name, which the archive gave it.
    sh(dir, "chmod 600 to/tree/zz");
    assert_eq!(job.complete(2).0, 200 * 399);
    assert_eq!(job.complete(2).0, 0);
    sh(dir, "touch in.tar");
    assert_eq!(job.complete(2).0, job.total);
}

#[test]
fn the_last_of_two_members_stays_also_when_the_job_is_called_again() {
    let scratch = file_systems()[0].dir();
    let dir = scratch.path();
    sh(
        dir,
        "mkdir a b; printf '%01000d' 1 >a/f; printf '%01000d' 2 >b/f; ln a/f a/link
         touch -d @1000000000 a/f b/f; tar -cf in.tar -C a f link -C ../b f; mkdir to",
    );
    for options in [&[][..], &["--overwrite"]] {
        let words = ["tar", "-x", "--journal", "journal", "-f", "in.tar", "-C", "to"];
        for ranks in [2, 1, 3] {
            let done = dio_mpi(dir, ranks, &[&words[..], options].concat());
            assert!(done.status.success() && messages(&done).is_empty(), "{done:?}");
            sh(dir, "cmp b/f to/f");
        }
        sh(dir, "rm -r journal to; mkdir to");
    }
}
