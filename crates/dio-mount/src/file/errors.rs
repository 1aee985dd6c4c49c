//! Errors that no request was waiting for: those of writes behind, and those of syncs, which
//! concern every writer of the file.
//!
//! They are reported as the kernel reports its own (`errseq_t`,
//! `Documentation/core-api/errseq.rst`): once to every handle, and to the next handle that is
//! opened as long as no sync has reported them. Databases rely on the latter: a checkpoint opens
//! and syncs files that other processes have written, and takes success to mean that none of the
//! bytes were lost. Likewise, an error of an inode without handles waits for the next open.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::{Errno, Result};

use crate::names::InodeId;

/// Flag: a sync has reported the last error.
const SEEN: u64 = 1 << 31;

/// Most inodes without handles whose errors wait for the next open.
const MOST_WAITING: usize = 4096;

/// Birth time of an inode. It distinguishes inodes that have had the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BirthTime {
    pub(super) seconds: i64,
    pub(super) nanoseconds: u32,
}

/// The last such error of an inode, and the number of errors so far. It is reported once to every
/// handle, however often it occurred in between.
#[derive(Debug, Default)]
pub(super) struct Errors {
    /// The count in the upper half, [`SEEN`] and the error number in the lower, so that all change
    /// together.
    state: AtomicU64,
}

/// The last error that was reported to a handle.
#[derive(Debug)]
pub(super) struct ReportedErrors {
    /// The last error that a sync of the handle has returned. Syncs must return the errors of
    /// acknowledged writes, even if a write or a close has returned them before.
    synced: AtomicU64,
    /// The last error that a write of the handle has returned.
    warned: AtomicU64,
}

impl Errors {
    /// Records an error.
    pub(super) fn record(&self, errno: Errno) {
        let number = u64::from(errno.raw_os_error().unsigned_abs());
        let next = |state: u64| Some((state >> 32).wrapping_add(1) << 32 | number);
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    /// Creates the state of a handle that is opened now. An error that no sync has reported
    /// concerns it too.
    pub(super) fn begin(&self) -> ReportedErrors {
        let state = self.state.load(Ordering::Acquire);
        let reported = if state & SEEN == 0 { 0 } else { state & !SEEN };
        ReportedErrors { synced: AtomicU64::new(reported), warned: AtomicU64::new(reported) }
    }

    /// Reports the last error to a sync, unless a sync of the handle has reported it already.
    ///
    /// # Errors
    /// That error.
    pub(super) fn report_to_sync(&self, reported: &ReportedErrors) -> Result<()> {
        let state = self.state.load(Ordering::Acquire);
        if state & SEEN == 0 && state != 0 {
            // This fails if another error was recorded meanwhile: that one must not be marked.
            let _ = self.state.compare_exchange(
                state,
                state | SEEN,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
        let state = state & !SEEN;
        if reported.synced.load(Ordering::Relaxed) == state
            || reported.synced.swap(state, Ordering::AcqRel) == state
        {
            return Ok(());
        }
        Err(errno(state))
    }

    /// Reports the last error to a write, which fails once for each error. The next sync of the
    /// handle reports it again: the program may repeat the write that failed, but not those that
    /// were acknowledged. Another thread or program that syncs does not know of the failed write.
    ///
    /// # Errors
    /// That error.
    pub(super) fn report_to_write(&self, reported: &ReportedErrors) -> Result<()> {
        let state = self.state.load(Ordering::Acquire) & !SEEN;
        if reported.synced.load(Ordering::Relaxed) == state
            || reported.warned.swap(state, Ordering::AcqRel) == state
        {
            return Ok(());
        }
        Err(errno(state))
    }

    /// Reports the last error to a close, unless a sync of the handle has reported it. The error
    /// does not count as reported afterwards: the close may be that of a forked child that runs
    /// another program, and no program checks the result of such a close.
    ///
    /// # Errors
    /// That error.
    pub(super) fn report_to_close(&self, reported: &ReportedErrors) -> Result<()> {
        let state = self.state.load(Ordering::Acquire) & !SEEN;
        if reported.synced.load(Ordering::Relaxed) == state { Ok(()) } else { Err(errno(state)) }
    }

    /// Returns the last error, if no sync has reported it.
    pub(super) fn unreported(&self) -> Option<Errno> {
        let state = self.state.load(Ordering::Acquire);
        (state != 0 && state & SEEN == 0).then(|| errno(state))
    }
}

fn errno(state: u64) -> Errno {
    Errno::from_raw_os_error((state & (SEEN - 1)) as i32)
}

/// Errors of inodes without handles, the oldest first.
#[derive(Debug, Default)]
pub(super) struct WaitingErrors(VecDeque<(InodeId, Option<BirthTime>, Errno)>);

impl WaitingErrors {
    /// Keeps an error. Beyond [`MOST_WAITING`] errors, which only a failing disk causes, the oldest
    /// one is dropped.
    pub(super) fn keep(&mut self, ino: InodeId, born: Option<BirthTime>, errno: Errno) {
        if self.0.len() >= MOST_WAITING {
            self.0.pop_front();
        }
        self.0.push_back((ino, born, errno));
    }

    /// Removes and returns the error that waits for the next open of an inode. The error of an
    /// earlier inode with the same number is dropped.
    pub(super) fn take(
        &mut self,
        ino: InodeId,
        born: impl FnOnce() -> Option<BirthTime>,
    ) -> Option<Errno> {
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
        assert_eq!(errors.report_to_sync(&one), Ok(()));
        errors.record(Errno::NOSPC);
        errors.record(Errno::IO);
        assert_eq!(errors.report_to_sync(&one), Err(Errno::IO));
        assert_eq!(errors.report_to_sync(&one), Ok(()));
        let late = errors.begin();
        assert_eq!(errors.report_to_sync(&two), Err(Errno::IO));
        assert_eq!(errors.report_to_sync(&late), Ok(()));
        errors.record(Errno::NOSPC);
        assert_eq!(errors.report_to_sync(&one), Err(Errno::NOSPC));
        assert_eq!(errors.report_to_sync(&late), Err(Errno::NOSPC));
    }

    #[test]
    fn a_new_handle_gets_an_error_that_no_sync_has_reported() {
        let errors = Errors::default();
        let writer = errors.begin();
        errors.record(Errno::IO);
        assert_eq!(errors.report_to_close(&writer), Err(Errno::IO));
        assert_eq!(
            errors.report_to_write(&writer),
            Err(Errno::IO),
            "a close may have been that of a child"
        );
        assert_eq!(errors.report_to_write(&writer), Ok(()));
        assert_eq!(errors.unreported(), Some(Errno::IO));
        let late = errors.begin();
        assert_eq!(errors.report_to_sync(&late), Err(Errno::IO));
        assert_eq!(errors.report_to_sync(&late), Ok(()));
        assert_eq!(errors.unreported(), None);
        assert_eq!(errors.report_to_sync(&errors.begin()), Ok(()));
        assert_eq!(
            errors.report_to_sync(&writer),
            Err(Errno::IO),
            "what it had acknowledged before its write failed is lost"
        );
        assert_eq!(errors.report_to_sync(&writer), Ok(()));
        assert_eq!(errors.report_to_close(&writer), Ok(()));
        assert_eq!(errors.report_to_write(&writer), Ok(()));

        errors.record(Errno::NOSPC);
        assert_eq!(errors.report_to_write(&writer), Err(Errno::NOSPC));
        assert_eq!(errors.report_to_sync(&writer), Err(Errno::NOSPC));
        assert_eq!(errors.unreported(), None);
    }

    #[test]
    fn an_error_waits_for_the_same_inode() {
        let (mut waiting, born) = (WaitingErrors::default(), |second| {
            Some(BirthTime { seconds: second, nanoseconds: 0 })
        });
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
