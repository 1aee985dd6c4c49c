//! Errors that nobody was waiting for: of writes behind, and of syncs, which concern every writer of the file.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::{Errno, Result};

/// The last such error of an inode, and how many there have been. Every handle learns of it once, as with `errseq_t`
/// (`Documentation/core-api/errseq.rst`), however often it happened in between.
#[derive(Debug, Default)]
pub(super) struct Errors {
    /// The count in the upper half, the error number in the lower, so that both change together.
    state: AtomicU64,
}

/// Up to which error a handle has been told.
#[derive(Debug)]
pub(super) struct Told(AtomicU64);

impl Errors {
    /// Something failed.
    pub(super) fn record(&self, errno: Errno) {
        let number = u64::from(errno.raw_os_error().unsigned_abs());
        let next = |state: u64| Some((state >> 32).wrapping_add(1) << 32 | number);
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    /// A handle that is opened now: what happened before concerns others.
    pub(super) fn begin(&self) -> Told {
        Told(AtomicU64::new(self.state.load(Ordering::Acquire)))
    }

    /// The error that a handle has not been told of; it has been then.
    ///
    /// # Errors
    /// That one.
    pub(super) fn tell(&self, told: &Told) -> Result<()> {
        let state = self.state.load(Ordering::Acquire);
        if told.0.load(Ordering::Relaxed) == state || told.0.swap(state, Ordering::AcqRel) == state {
            return Ok(());
        }
        Err(Errno::from_raw_os_error((state & u64::from(u32::MAX)) as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_handle_is_told_once() {
        let errors = Errors::default();
        let (one, two) = (errors.begin(), errors.begin());
        errors.record(Errno::NOSPC);
        errors.record(Errno::IO);
        let late = errors.begin();
        assert_eq!(errors.tell(&one), Err(Errno::IO));
        assert_eq!(errors.tell(&one), Ok(()));
        assert_eq!(errors.tell(&two), Err(Errno::IO));
        assert_eq!(errors.tell(&late), Ok(()));
        errors.record(Errno::NOSPC);
        assert_eq!(errors.tell(&one), Err(Errno::NOSPC));
    }
}
