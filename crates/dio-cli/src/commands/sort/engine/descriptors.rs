//! The number of files that may be open at a time (`RLIMIT_NOFILE`).

use dio::stream::StreamOptions;
use dio::{Mode, Need};
use rustix::process::{Resource, getrlimit};

use crate::tool::{allow_descriptors, free_descriptors};

/// `OTHERS` is the number of descriptors reserved for everything but runs. `EACH` is the number
/// that a run takes while it is read: the given one and the reopened one, each direct and through
/// the page cache, and the ring; or the pipe of a program.
const OTHERS: u64 = 64;
const EACH: u64 = 5;

/// The same where descriptors are few: no second descriptor for direct requests is opened then. The
/// reserved ones are a ring, the input that is read (two), and the run that is written (four).
const FEW_OTHERS: u64 = 7;
const FEW_EACH: u64 = 3;

/// A merge takes at least two runs.
const LEAST: usize = 2;

/// Number of runs that the limit allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Descriptors {
    /// Maximum number of kept runs. Each is an open file; some descriptors are left to read them.
    pub(super) kept: usize,
    /// Maximum number of runs that are read at a time: one more than `kept` if `few` is set.
    pub(super) read: usize,
    /// Descriptors are few: files are read and written through the page cache and dropped from it,
    /// and only one thread sorts and writes.
    pub(super) few: bool,
}

impl Descriptors {
    /// The numbers for this process. Its soft limit is raised first as far as possible.
    pub(super) fn here() -> Descriptors {
        allow_descriptors(1 << 16);
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
        Descriptors::of(limit, free_descriptors)
    }

    /// `free` counts the descriptors below `limit` that are not open. It is called only where
    /// `limit` is low.
    fn of(limit: u64, free: impl FnOnce() -> u64) -> Descriptors {
        let kept = limit.saturating_sub(OTHERS) / 2;
        let read = kept / EACH;
        if read >= 4 {
            let (kept, read) = (kept.min(1 << 16) as usize, read as usize);
            return Descriptors { kept, read, few: false };
        }
        let read = (free().saturating_sub(FEW_OTHERS) / FEW_EACH).max(LEAST as u64) as usize;
        Descriptors { kept: read - 1, read, few: true }
    }

    /// Returns the options for files: those `asked` for, unless direct requests would take more
    /// descriptors than there are.
    pub(super) fn streams(&self, asked: &StreamOptions) -> StreamOptions {
        match asked.mode {
            Mode::Direct | Mode::Concurrent if self.few && asked.need == Need::Preferred => {
                StreamOptions { mode: Mode::Uncached, ..*asked }
            }
            _ => *asked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_and_read_stays_below_the_limit() {
        for limit in 1..2000 {
            let Descriptors { kept, read, few } =
                Descriptors::of(limit, || limit.saturating_sub(4));
            assert!(kept >= 1 && read >= LEAST, "{limit}");
            let taken = match few {
                true => 4 + FEW_OTHERS as usize + (kept + 1) + 2 * read,
                false => kept + EACH as usize * read,
            };
            assert!(taken as u64 <= limit || read == LEAST, "{limit}: {taken}");
        }
    }
}
