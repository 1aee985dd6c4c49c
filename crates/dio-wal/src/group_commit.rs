//! Group commit: decides which flush each committer waits for and which thread runs it, and keeps
//! the LSN that is durable.
//!
//! Of the committers that wait, one *leads*. It makes everything durable that was appended by then,
//! in one flush, and wakes the other committers. Committers that arrive during a flush wait; one of
//! them leads the next flush. So flushes follow each other without a pause as long as any committer
//! waits, each flush takes all records that gathered during the flush before, and no timer is
//! needed.
//!
//! Flushes alternate between turn 0 and turn 1. A committer waits for the turn of the flush that
//! will take its record: the turn of the running flush, or the other turn if the running flush ends
//! before that record. When a flush ends, all committers of its turn are woken, and one of the
//! other turn, which leads the next flush. If no committer of a turn waits, that turn is not
//! notified, because notifying is a system call even then.
//!
//! This file does no I/O. So the tests run it unchanged under every schedule of a model of threads
//! (`tests/schedules.rs`).

use super::sync::{Condvar, Mutex, MutexGuard};

/// A function that receives the outcome of a commit.
pub(crate) type Callback<E> = Box<dyn FnOnce(Result<(), E>) + Send>;

/// The commits of one log. `E` is the error that says why nothing can be made durable any more.
pub(crate) struct GroupCommit<E> {
    /// Makes the failure of a flush that panicked, from the LSN that is durable.
    panicked: fn(u64) -> E,
    state: Mutex<CommitState<E>>,
    /// One for each turn. Signals that a flush of this turn has ended, or that the next flush,
    /// which is of this turn, needs a leader.
    turns: [Condvar; 2],
    /// Signals that a callback was added, or that the log is being closed.
    callback_added: Condvar,
    /// Signals that more is durable, that something failed, or that the log is being closed.
    progress: Condvar,
}

/// Invariants that other code relies on:
///
/// 1. At most one flush runs at a time: `flush_running`.
/// 2. `failed` is set at most once, and from then on neither it nor `durable` changes.
struct CommitState<E> {
    /// LSN below which everything is durable.
    durable: u64,
    flush_running: bool,
    /// The turn of the running flush, or else of the next one.
    turn: usize,
    /// LSN where the records end that the running flush takes, once it is known.
    flush_end: Option<u64>,
    /// For each turn, how many committers wait.
    committers: [usize; 2],
    /// How many threads wait on [`GroupCommit::progress`].
    watchers: usize,
    /// The first failure.
    failed: Option<E>,
    /// LSN and callback of each commit that no thread waits for.
    callbacks: Vec<(u64, Callback<E>)>,
    /// The log is being closed, so no thread must wait for callbacks or progress any more.
    closed: bool,
}

impl<E: Clone> GroupCommit<E> {
    /// The commits of a log that is durable below `durable`. `panicked` makes the failure that a
    /// flush leaves if it panics.
    pub(crate) fn new(durable: u64, panicked: fn(u64) -> E) -> GroupCommit<E> {
        let state = CommitState {
            durable,
            flush_running: false,
            turn: 0,
            flush_end: None,
            committers: [0; 2],
            watchers: 0,
            failed: None,
            callbacks: Vec::new(),
            closed: false,
        };
        let turns = [Condvar::new(), Condvar::new()];
        let (callback_added, progress) = (Condvar::new(), Condvar::new());
        GroupCommit { panicked, state: Mutex::new(state), turns, callback_added, progress }
    }

    /// LSN below which everything is durable.
    pub(crate) fn durable(&self) -> u64 {
        self.lock().durable
    }

    /// The first failure, if there was one.
    pub(crate) fn failure(&self) -> Option<E> {
        self.lock().failed.clone()
    }

    /// Returns when the record at `lsn`, which must have been appended, is durable: at once if it
    /// is, when a flush of another thread has made it durable, or after a flush of this thread.
    ///
    /// `flush` makes durable what was appended before it is called, and returns the LSN where the
    /// last such record ends. It also passes that LSN to [`GroupCommit::set_flush_end`] as soon as
    /// it has determined it.
    ///
    /// # Errors
    /// The first failure, unless the record was durable before it.
    pub(crate) fn commit(
        &self,
        lsn: u64,
        mut flush: impl FnMut() -> Result<u64, E>,
    ) -> Result<(), E> {
        let mut state = self.lock();
        loop {
            if state.durable > lsn {
                return Ok(());
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.flush_running {
                let too_late = state.flush_end.is_some_and(|end| lsn >= end);
                let turn = if too_late { 1 - state.turn } else { state.turn };
                state.committers[turn] += 1;
                self.turns[turn].wait(&mut state);
                state.committers[turn] -= 1;
                continue;
            }
            state.flush_running = true;
            drop(state);
            let running = RunningFlush { group: self, ended: false };
            let outcome = flush();
            running.end(outcome);
            state = self.lock();
        }
    }

    /// Records that the running flush takes the records below `end`, and no more.
    pub(crate) fn set_flush_end(&self, end: u64) {
        self.lock().flush_end = Some(end);
    }

    /// Ends the running flush.
    fn end_flush(&self, outcome: Result<u64, E>) {
        let mut state = self.lock();
        state.flush_running = false;
        state.flush_end = None;
        let turn = state.turn;
        state.turn = 1 - turn;
        match outcome {
            Ok(end) if state.failed.is_none() => state.durable = state.durable.max(end),
            // After a failure elsewhere, data may be missing even though this sync succeeded.
            Ok(_) => {}
            Err(error) => {
                state.failed.get_or_insert(error);
            }
        }
        let (own, others) = (state.committers[turn], state.committers[1 - turn]);
        let failed = state.failed.is_some();
        self.notify(state, || {
            if others > 0 && failed {
                // After a failure no committer leads any more.
                self.turns[1 - turn].notify_all();
            } else if others > 0 {
                // The next leader is woken first, so that its flush runs while the committers of
                // this turn append their next records.
                self.turns[1 - turn].notify_one();
            }
            if own > 0 {
                self.turns[turn].notify_all();
            }
        });
    }

    /// Records a failure outside of a flush, unless there was one before; `make` receives the LSN
    /// that is durable. Returns the first failure.
    pub(crate) fn fail(&self, make: impl FnOnce(u64) -> E) -> E {
        let mut state = self.lock();
        let durable = state.durable;
        let error = state.failed.get_or_insert_with(|| make(durable)).clone();
        self.notify(state, || {
            for turn in &self.turns {
                turn.notify_all();
            }
        });
        error
    }

    /// Calls `callback` when the record at `lsn` is durable or never will be. The call may happen
    /// before this function returns. It runs in a thread that commits, so it should be short.
    pub(crate) fn call_when_durable(&self, lsn: u64, callback: Callback<E>) {
        let mut state = self.lock();
        state.callbacks.push((lsn, callback));
        self.notify(state, || {
            self.callback_added.notify_all();
        });
    }

    /// Waits until a callback is pending, and returns the highest LSN that a callback waits for.
    /// Returns `None` when the log is being closed.
    pub(crate) fn wait_for_callback(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if let Some(lsn) = state.callbacks.iter().map(|(lsn, _)| *lsn).max() {
                return Some(lsn);
            }
            if state.closed {
                return None;
            }
            self.callback_added.wait(&mut state);
        }
    }

    /// Waits until more than `seen` is durable, and returns the LSN that is durable then. Returns
    /// `None` when the log is being closed or has failed.
    pub(crate) fn wait_past(&self, seen: u64) -> Option<u64> {
        let mut state = self.lock();
        while state.failed.is_none() && !state.closed {
            if state.durable > seen {
                return Some(state.durable);
            }
            state.watchers += 1;
            self.progress.wait(&mut state);
            state.watchers -= 1;
        }
        None
    }

    /// Ends the waiting of [`GroupCommit::wait_for_callback`] and [`GroupCommit::wait_past`].
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.callback_added.notify_all();
        self.progress.notify_all();
    }

    /// Releases the state, runs `wake`, wakes the watchers, and calls those callbacks whose commit
    /// has an outcome.
    fn notify(&self, mut state: MutexGuard<'_, CommitState<E>>, wake: impl FnOnce()) {
        let (durable, failed) = (state.durable, state.failed.clone());
        let has_outcome = |lsn: u64| lsn < durable || failed.is_some();
        let mut over = Vec::new();
        if state.callbacks.iter().any(|(lsn, _)| has_outcome(*lsn)) {
            let all = std::mem::take(&mut state.callbacks);
            (over, state.callbacks) = all.into_iter().partition(|(lsn, _)| has_outcome(*lsn));
        }
        let watched = state.watchers > 0;
        drop(state);
        wake();
        if watched {
            self.progress.notify_all();
        }
        for (lsn, callback) in over {
            let outcome = match &failed {
                Some(error) if lsn >= durable => Err(error.clone()),
                _ => Ok(()),
            };
            callback(outcome);
        }
    }

    fn lock(&self) -> MutexGuard<'_, CommitState<E>> {
        self.state.lock()
    }
}

/// A running flush. If the flush panics, this is dropped and the flush has failed: how far it came
/// is unknown, and other threads wait for it.
struct RunningFlush<'a, E: Clone> {
    group: &'a GroupCommit<E>,
    ended: bool,
}

impl<E: Clone> RunningFlush<'_, E> {
    fn end(mut self, outcome: Result<u64, E>) {
        self.ended = true;
        self.group.end_flush(outcome);
    }
}

impl<E: Clone> Drop for RunningFlush<'_, E> {
    fn drop(&mut self) {
        if !self.ended {
            let durable = self.group.durable();
            self.group.end_flush(Err((self.group.panicked)(durable)));
        }
    }
}
