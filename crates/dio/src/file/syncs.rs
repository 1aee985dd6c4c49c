//! Syncs of one file that overlap in time.
//!
//! The kernel reports a lost write once for each descriptor (`errseq_t`,
//! `Documentation/core-api/errseq.rst`). If two syncs overlap, one of them gets the error, and the
//! other succeeds although the data that it was to make durable is lost. So a sync that succeeded
//! waits for the overlapping ones before it reports success.

use std::collections::BTreeSet;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// The syncs of one file.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    state: Mutex<SyncState>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct SyncState {
    /// Numbers of the syncs in progress. Invariant: all are below `next`.
    in_progress: BTreeSet<u64>,
    next: u64,
}

/// One sync in progress. It ends when this is dropped, which must be after its error has latched.
#[derive(Debug)]
pub(super) struct SyncInProgress<'a> {
    syncs: &'a Syncs,
    number: u64,
}

impl Syncs {
    pub(super) fn begin(&self) -> SyncInProgress<'_> {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.in_progress.insert(number);
        SyncInProgress { syncs: self, number }
    }

    /// Waits for the end of every sync that has begun by now, and for none that begins later.
    pub(super) fn wait_for_others(&self) {
        let mut state = self.lock();
        let limit = state.next;
        while state.in_progress.first().is_some_and(|first| *first < limit) {
            self.over.wait(&mut state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock()
    }
}

impl Drop for SyncInProgress<'_> {
    fn drop(&mut self) {
        self.syncs.lock().in_progress.remove(&self.number);
        self.syncs.over.notify_all();
    }
}
