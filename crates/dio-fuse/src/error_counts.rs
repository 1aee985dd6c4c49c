//! Counts of errors in serving.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts errors that no reply describes. Serving continues after each of them.
#[derive(Debug, Default)]
pub struct ErrorCounts {
    panics: AtomicU64,
    malformed: AtomicU64,
    refused: AtomicU64,
}

impl ErrorCounts {
    /// Handlers that panicked. The reply to their requests was `EIO`.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Requests that could not be decoded. The reply to them was `EIO`.
    pub fn malformed(&self) -> u64 {
        self.malformed.load(Ordering::Relaxed)
    }

    /// Replies that the kernel refused, except for those to requests that are gone.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }
}
