//! Errors that nobody was waiting for: of writes behind, and of syncs, which concern every writer
//! of the file.
//!
//! They are told as the kernel tells its own (`errseq_t`, `Documentation/core-api/errseq.rst`): to
//! every handle once, and to the next that is opened as long as no sync has told anybody. Databases
//! rely on the latter: a checkpoint opens and syncs what others have written, and takes success to
//! mean that nothing of it was lost. So does an error of an inode that nobody has open any more
//! wait for the next who has.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::{Errno, Result};

use crate::names::InodeId;

/// A sync has told somebody of the last error.
const SEEN: u64 = 1 << 31;

/// Inodes without handles whose errors wait for somebody to be told.
const MOST_WAITING: usize = 4096;

/// When an inode was born: tells apart those that have had the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Born {
    pub(super) seconds: i64,
    pub(super) nanoseconds: u32,
}

/// The last such error of an inode, and how many there have been. Every handle learns of it once,
/// however often it happened in between.
#[derive(Debug, Default)]
pub(super) struct Errors {
    /// The count in the upper half, [`SEEN`] and the error number in the lower, so that all change
    /// together.
    state: AtomicU64,
}

/// Up to which error a handle has been told.
#[derive(Debug)]
pub(super) struct Told {
    /// By its syncs: the error of what it has acknowledged is theirs to tell, whoever else mentions
    /// it.
    synced: AtomicU64,
    /// By its writes.
    warned: AtomicU64,
}

impl Errors {
    /// Something failed.
    pub(super) fn record(&self, errno: Errno) {
        let number = u64::from(errno.raw_os_error().unsigned_abs());
        let next = |state: u64| Some((state >> 32).wrapping_add(1) << 32 | number);
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    /// A handle that is opened now: what no sync has told anybody of concerns it too.
    pub(super) fn begin(&self) -> Told {
        let state = self.state.load(Ordering::Acquire);
        let told = if state & SEEN == 0 { 0 } else { state & !SEEN };
        Told { synced: AtomicU64::new(told), warned: AtomicU64::new(told) }
    }

    /// The error that a handle has not been told of; it has been then, by its sync.
    ///
    /// # Errors
    /// That one.
    pub(super) fn tell(&self, told: &Told) -> Result<()> {
        let state = self.state.load(Ordering::Acquire);
        if state & SEEN == 0 && state != 0 {
            // Unless there is another by now.
            let _ = self.state.compare_exchange(state, state | SEEN, Ordering::AcqRel, Ordering::Relaxed);
        }
        let state = state & !SEEN;
        if told.synced.load(Ordering::Relaxed) == state || told.synced.swap(state, Ordering::AcqRel) == state {
            return Ok(());
        }
        Err(errno(state))
    }

    /// The same by a write, which fails once for each error. Its sync tells it again: the write
    /// that failed may be done once more, but not those that were acknowledged. Whoever else syncs
    /// knows nothing of it.
    ///
    /// # Errors
    /// That one.
    pub(super) fn mention(&self, told: &Told) -> Result<()> {
        let state = self.state.load(Ordering::Acquire) & !SEEN;
        if told.synced.load(Ordering::Relaxed) == state || told.warned.swap(state, Ordering::AcqRel) == state {
            return Ok(());
        }
        Err(errno(state))
    }

    /// The same by a close, after which the handle has not been told: it may be the close of a
    /// child that was forked and runs another program, which nobody looks at.
    ///
    /// # Errors
    /// That one.
    pub(super) fn remind(&self, told: &Told) -> Result<()> {
        let state = self.state.load(Ordering::Acquire) & !SEEN;
        if told.synced.load(Ordering::Relaxed) == state { Ok(()) } else { Err(errno(state)) }
    }

    /// The last error, if no sync has told anybody of it.
    pub(super) fn untold(&self) -> Option<Errno> {
        let state = self.state.load(Ordering::Acquire);
        (state != 0 && state & SEEN == 0).then(|| errno(state))
    }
}

fn errno(state: u64) -> Errno {
    Errno::from_raw_os_error((state & (SEEN - 1)) as i32)
}

/// Errors of inodes that nobody has open, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Waiting(VecDeque<(InodeId, Option<Born>, Errno)>);

impl Waiting {
    /// Keeps an error. Past a number that only a failing disk reaches the oldest is given up.
    pub(super) fn keep(&mut self, ino: InodeId, born: Option<Born>, errno: Errno) {
        if self.0.len() >= MOST_WAITING {
            self.0.pop_front();
        }
        self.0.push_back((ino, born, errno));
    }

    /// The error that waits for whoever opens an inode. One of an inode that had the same number
    /// before is dropped.
    pub(super) fn take(&mut self, ino: InodeId, born: impl FnOnce() -> Option<Born>) -> Option<Errno> {
        let place = self.0.iter().position(|(waiting, ..)| *waiting == ino)?;
        let (_, of, errno) = self.0.remove(place)?;
        (of == born()).then_some(errno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_handle_is_told_once() {
        let errors = Errors::default();
        let (one, two) = (errors.begin(), errors.begin());
        assert_eq!(errors.tell(&one), Ok(()));
        errors.record(Errno::NOSPC);
        errors.record(Errno::IO);
        assert_eq!(errors.tell(&one), Err(Errno::IO));
        assert_eq!(errors.tell(&one), Ok(()));
        let late = errors.begin();
        assert_eq!(errors.tell(&two), Err(Errno::IO));
        assert_eq!(errors.tell(&late), Ok(()));
        errors.record(Errno::NOSPC);
        assert_eq!(errors.tell(&one), Err(Errno::NOSPC));
        assert_eq!(errors.tell(&late), Err(Errno::NOSPC));
    }

    #[test]
    fn who_opens_the_file_is_told_what_no_sync_has_told() {
        let errors = Errors::default();
        let writer = errors.begin();
        errors.record(Errno::IO);
        assert_eq!(errors.remind(&writer), Err(Errno::IO));
        assert_eq!(errors.mention(&writer), Err(Errno::IO), "a close may have been that of a child");
        assert_eq!(errors.mention(&writer), Ok(()));
        assert_eq!(errors.untold(), Some(Errno::IO));
        let late = errors.begin();
        assert_eq!(errors.tell(&late), Err(Errno::IO));
        assert_eq!(errors.tell(&late), Ok(()));
        assert_eq!(errors.untold(), None);
        assert_eq!(errors.tell(&errors.begin()), Ok(()));
        assert_eq!(errors.tell(&writer), Err(Errno::IO), "what it had acknowledged before its write failed is lost");
        assert_eq!(errors.tell(&writer), Ok(()));
        assert_eq!(errors.remind(&writer), Ok(()));
        assert_eq!(errors.mention(&writer), Ok(()));

        errors.record(Errno::NOSPC);
        assert_eq!(errors.mention(&writer), Err(Errno::NOSPC));
        assert_eq!(errors.tell(&writer), Err(Errno::NOSPC));
        assert_eq!(errors.untold(), None);
    }

    #[test]
    fn an_error_waits_for_the_same_inode() {
        let (mut waiting, born) = (Waiting::default(), |second| Some(Born { seconds: second, nanoseconds: 0 }));
        waiting.keep(1, born(1), Errno::IO);
        waiting.keep(2, born(1), Errno::NOSPC);
        assert_eq!(waiting.take(3, || born(1)), None);
        assert_eq!(waiting.take(2, || born(1)), Some(Errno::NOSPC));
        assert_eq!(waiting.take(2, || born(1)), None, "once");
        assert_eq!(waiting.take(1, || born(2)), None, "another file that got its number");
        assert_eq!(waiting.take(1, || born(1)), None);
        (0..=MOST_WAITING as u64).for_each(|ino| waiting.keep(ino, None, Errno::IO));
        assert_eq!((waiting.take(0, || None), waiting.take(1, || None)), (None, Some(Errno::IO)));
    }
}
