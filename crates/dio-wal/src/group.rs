//! The protocol of commits: who waits for what, who leads, what is durable, and what is not any more.
//!
//! Of those who wait for a commit one *leads*: it makes everything durable that was appended by then, in one flush, and
//! wakes all. Who comes meanwhile waits, and one of them leads the next flush. So the flushes follow each other without a
//! pause as long as anybody waits, each takes all that gathered during the one before, and no timer is needed.
//!
//! There is no I/O here, so the tests run this very file under every schedule of a model (`tests/schedules.rs`).

use std::sync::PoisonError;

use super::sync::{Condvar, Mutex, MutexGuard};

/// What is called when a commit is over.
pub(crate) type Callback<E> = Box<dyn FnOnce(Result<(), E>) + Send>;

/// The commits of one log. `E` says why nothing can be made durable any more.
pub(crate) struct Group<E> {
    state: Mutex<State<E>>,
    /// Something of the state changed.
    changed: Condvar,
}

struct State<E> {
    /// Everything below is durable.
    durable: u64,
    /// Whether a flush is under way. Invariant: at most one is.
    leading: bool,
    /// The first failure. Invariant: never changes again, and nor does `durable` from then on.
    failed: Option<E>,
    /// Commits that nobody waits for in a call.
    later: Vec<(u64, Callback<E>)>,
    /// No thread is to wait for [`State::later`] any more.
    closed: bool,
}

impl<E: Clone> Group<E> {
    /// A log that is durable up to a place.
    pub(crate) fn new(durable: u64) -> Group<E> {
        let state = State { durable, leading: false, failed: None, later: Vec::new(), closed: false };
        Group { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Everything below is durable.
    pub(crate) fn durable(&self) -> u64 {
        self.lock().durable
    }

    /// The failure that latched, if any.
    pub(crate) fn failure(&self) -> Option<E> {
        self.lock().failed.clone()
    }

    /// Returns when the record at `lsn`, which was appended, is durable: at once if it is, when another's flush has made it
    /// so, or else by leading a flush. `flush` makes durable what was appended before it is called, and returns the end of
    /// the last such record.
    ///
    /// # Errors
    /// The failure that latched. What was durable before it stays so, and its commit succeeds.
    pub(crate) fn commit(&self, lsn: u64, mut flush: impl FnMut() -> Result<u64, E>) -> Result<(), E> {
        let mut state = self.lock();
        loop {
            if state.durable > lsn {
                return Ok(());
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.leading {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.leading = true;
            drop(state);
            let flushed = flush();
            self.finish(flushed);
            state = self.lock();
        }
    }

    /// Ends the flush under way.
    fn finish(&self, flushed: Result<u64, E>) {
        let mut state = self.lock();
        state.leading = false;
        match flushed {
            // After a failure elsewhere nobody knows what a sync that came out well has left out.
            Ok(end) if state.failed.is_none() => state.durable = state.durable.max(end),
            Ok(_) => {}
            Err(error) => {
                state.failed.get_or_insert(error);
            }
        }
        self.tell(state);
    }

    /// Latches a failure outside of a flush, unless one has latched before; `make` is told what is durable. Returns the one
    /// that is in force.
    pub(crate) fn fail(&self, make: impl FnOnce(u64) -> E) -> E {
        let mut state = self.lock();
        let durable = state.durable;
        let error = state.failed.get_or_insert_with(|| make(durable)).clone();
        self.tell(state);
        error
    }

    /// Calls `callback` when the record at `lsn` is durable or never will be. It may be called before this returns, and runs
    /// in a thread that commits: it should be short.
    pub(crate) fn later(&self, lsn: u64, callback: Callback<E>) {
        let mut state = self.lock();
        state.later.push((lsn, callback));
        self.tell(state);
    }

    /// The highest LSN that somebody has asked for by [`Group::later`] and that is not durable; waits for one. `None` when
    /// the log is being closed.
    pub(crate) fn asked_for(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if let Some(lsn) = state.later.iter().map(|(lsn, _)| *lsn).max() {
                return Some(lsn);
            }
            if state.closed {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the waiting of [`Group::asked_for`].
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Wakes who waits and calls back whom the state concerns.
    fn tell(&self, mut state: MutexGuard<'_, State<E>>) {
        let (durable, failed) = (state.durable, state.failed.clone());
        let mut over = Vec::new();
        if state.later.iter().any(|(lsn, _)| *lsn < durable || failed.is_some()) {
            let all = std::mem::take(&mut state.later);
            (over, state.later) = all.into_iter().partition(|(lsn, _)| *lsn < durable || failed.is_some());
        }
        drop(state);
        self.changed.notify_all();
        for (lsn, callback) in over {
            let outcome = match &failed {
                Some(error) if lsn >= durable => Err(error.clone()),
                _ => Ok(()),
            };
            callback(outcome);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
