//! Jobs that are cut short, and what they say of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Child;

use rustix::process::Signal;

use super::{catches_sigterm, ranks_of, receipt, signal};

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
