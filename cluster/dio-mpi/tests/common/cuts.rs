//! Jobs that are cut short, and what they say of it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Child;

use dio_test::random_file;
use rustix::process::Signal;

use super::{catches_sigterm, ranks_of, receipt, sh, signal, start};

/// How a job is cut short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cut {
    KillAll,
    Kill(usize),
    Stop(usize),
}

/// Cuts a job short. `release` lets go of what the job waits for.
pub(crate) fn cut(job: Child, how: Cut, release: impl FnOnce()) {
    let ranks = ranks_of(job.id());
    assert_eq!(ranks.len(), 4);
    match how {
        Cut::KillAll => ranks.iter().for_each(|rank| signal(*rank, Signal::KILL)),
        Cut::Kill(rank) => signal(ranks[rank], Signal::KILL),
        Cut::Stop(rank) => {
            assert!(catches_sigterm(ranks[rank]));
            signal(ranks[rank], Signal::TERM);
            release();
        }
    }
    let ended = job.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    match how {
        Cut::Stop(_) => {
            assert_eq!(ended.status.code(), Some(143), "{told}");
        }
        _ => assert!(!ended.status.success(), "{told}"),
    }
}

/// The numbers of a receipt of so many ranks.
pub(crate) fn numbers(dir: &Path, ranks: u32) -> BTreeMap<String, u64> {
    let receipt = receipt(dir, ranks as usize);
    let keys = ["bytes_read", "bytes_written", "bytes_noted", "files_noted"];
    let number = |key: &str| {
        let parts = receipt["ranks"].as_array().unwrap().iter();
        let sum: u64 = parts.map(|part| part[key].as_u64().unwrap()).sum();
        assert_eq!(receipt[key].as_u64(), Some(sum), "{key}: {receipt}");
        sum
    };
    keys.iter().map(|key| ((*key).to_owned(), number(key))).collect()
}

/// Makes 400 small files, and then 600 with long names, so many that their list fills a pipe.
pub(crate) fn make_small(tree: &Path) {
    fs::create_dir_all(tree.join("b")).unwrap();
    (0..400).for_each(|number| {
        random_file(tree.join(format!("b/small{number}")), 200 * number, number);
    });
    let long = tree.join("z").join("z".repeat(200));
    fs::create_dir_all(&long).unwrap();
    (0..600).for_each(|number| File::create(long.join(format!("{number}"))).map(drop).unwrap());
}

/// Starts a job that lists names in the pipe `names`, and cuts it short when `wait` returns. Names
/// that are listed wait in the pipe, so that the rest of the tree has to wait too.
pub(crate) fn cut_at_long_names(dir: &Path, words: &[&str], how: Cut, wait: impl FnOnce()) {
    sh(dir, "rm -f names; mkfifo names");
    let mut names = File::options();
    names.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    let mut names = names.open(dir.join("names")).unwrap();
    let job = start(dir, 4, words);
    wait();
    // What is written in order goes on until the job notices the signal.
    let read = move || while !matches!(names.read(&mut [0; 4096]), Ok(0)) {};
    cut(job, how, || drop(std::thread::spawn(read)));
    sh(dir, "rm names");
}
