//! Syncs under way at the same time.
//!
//! The kernel reports lost writes once for each descriptor (`errseq_t`, `Documentation/core-api/errseq.rst`): of two
//! syncs at once one is told, and the other comes out well although what it was to make durable is lost. So a sync that
//! came out well waits for those beside it before it believes so.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The syncs of one file.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    state: Mutex<State>,
    over: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Numbers of those under way. Invariant: all below `next`.
    under_way: BTreeSet<u64>,
    next: u64,
}

/// One sync under way; over when dropped, which must be after its error has latched.
#[derive(Debug)]
pub(super) struct UnderWay<'a> {
    syncs: &'a Syncs,
    number: u64,
}

impl Syncs {
    pub(super) fn begin(&self) -> UnderWay<'_> {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.under_way.insert(number);
        UnderWay { syncs: self, number }
    }

    /// Waits for the end of every sync that has begun by now, and for none that begins later.
    pub(super) fn wait_for_others(&self) {
        let mut state = self.lock();
        let limit = state.next;
        while state.under_way.first().is_some_and(|first| *first < limit) {
            state = self.over.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.syncs.lock().under_way.remove(&self.number);
        self.syncs.over.notify_all();
    }
}
