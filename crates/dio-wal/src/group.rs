//! The protocol of commits: who waits for what, who leads, what is durable, and what is not any more.
//!
//! Of those who wait for a commit one *leads*: it makes everything durable that was appended by then, in one flush, and
//! wakes them. Who comes meanwhile waits, and one of them leads the next flush. So the flushes follow each other without a
//! pause as long as anybody waits, each takes all that gathered during the one before, and no timer is needed.
//!
//! Flushes have two turns, one after the other, and who waits does so for the turn of the flush that takes its record: when a
//! flush ends, those of its turn are woken, and of the others only one, to lead. Where nobody waits nobody is woken, which
//! is a call of the system too.
//!
//! There is no I/O here, so the tests run this very file under every schedule of a model (`tests/schedules.rs`).

use std::sync::PoisonError;

use super::sync::{Condvar, Mutex, MutexGuard};

/// What is called when a commit is over.
pub(crate) type Callback<E> = Box<dyn FnOnce(Result<(), E>) + Send>;

/// The commits of one log. `E` says why nothing can be made durable any more.
pub(crate) struct Group<E> {
    /// What a flush that panicked leaves as the failure; it is told what is durable.
    panicked: fn(u64) -> E,
    state: Mutex<State<E>>,
    /// A flush of this turn ended, or one is to be led.
    turns: [Condvar; 2],
    /// Something was asked for by [`Group::later`], or the log is being closed.
    asked: Condvar,
    /// More is durable, something failed, or the log is being closed.
    changed: Condvar,
}

struct State<E> {
    /// Everything below is durable.
    durable: u64,
    /// Whether a flush is under way. Invariant: at most one is.
    leading: bool,
    /// The turn of the flush under way, or else of the next.
    turn: usize,
    /// The end of what the flush under way takes, once that is known.
    taken: Option<u64>,
    /// How many wait on [`Group::turns`].
    waiting: [usize; 2],
    /// How many wait on [`Group::changed`].
    watching: usize,
    /// The first failure. Invariant: never changes again, and nor does `durable` from then on.
    failed: Option<E>,
    /// Commits that nobody waits for in a call.
    later: Vec<(u64, Callback<E>)>,
    /// No thread is to wait for [`State::later`] any more.
    closed: bool,
}

impl<E: Clone> Group<E> {
    /// A log that is durable up to a place. `panicked` makes the failure that a flush leaves which panicked.
    pub(crate) fn new(durable: u64, panicked: fn(u64) -> E) -> Group<E> {
        let state = State {
            durable,
            leading: false,
            turn: 0,
            taken: None,
            waiting: [0; 2],
            watching: 0,
            failed: None,
            later: Vec::new(),
            closed: false,
        };
        let turns = [Condvar::new(), Condvar::new()];
        Group { panicked, state: Mutex::new(state), turns, asked: Condvar::new(), changed: Condvar::new() }
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
    /// the last such record, which it tells [`Group::takes`] as soon as it knows it.
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
                let later = state.taken.is_some_and(|end| lsn >= end);
                let turn = if later { 1 - state.turn } else { state.turn };
                state.waiting[turn] += 1;
                state = self.turns[turn].wait(state).unwrap_or_else(PoisonError::into_inner);
                state.waiting[turn] -= 1;
                continue;
            }
            state.leading = true;
            drop(state);
            let leading = Leading { group: self, ended: false };
            let flushed = flush();
            leading.end(flushed);
            state = self.lock();
        }
    }

    /// The flush under way takes what was appended below `end`, and no more.
    pub(crate) fn takes(&self, end: u64) {
        self.lock().taken = Some(end);
    }

    /// Ends the flush under way.
    fn finish(&self, flushed: Result<u64, E>) {
        let mut state = self.lock();
        state.leading = false;
        state.taken = None;
        let turn = state.turn;
        state.turn = 1 - turn;
        match flushed {
            // After a failure elsewhere nobody knows what a sync that came out well has left out.
            Ok(end) if state.failed.is_none() => state.durable = state.durable.max(end),
            Ok(_) => {}
            Err(error) => {
                state.failed.get_or_insert(error);
            }
        }
        let (own, others) = (state.waiting[turn], state.waiting[1 - turn]);
        let failed = state.failed.is_some();
        self.tell(state, || {
            match others {
                0 => {}
                // After a failure nobody leads any more.
                _ if failed => self.turns[1 - turn].notify_all(),
                // First: the next flush is under way while those of this one append again.
                _ => self.turns[1 - turn].notify_one(),
            }
            if own > 0 {
                self.turns[turn].notify_all();
            }
        });
    }

    /// Latches a failure outside of a flush, unless one has latched before; `make` is told what is durable. Returns the one
    /// that is in force.
    pub(crate) fn fail(&self, make: impl FnOnce(u64) -> E) -> E {
        let mut state = self.lock();
        let durable = state.durable;
        let error = state.failed.get_or_insert_with(|| make(durable)).clone();
        self.tell(state, || self.turns.iter().for_each(Condvar::notify_all));
        error
    }

    /// Calls `callback` when the record at `lsn` is durable or never will be. It may be called before this returns, and runs
    /// in a thread that commits: it should be short.
    pub(crate) fn later(&self, lsn: u64, callback: Callback<E>) {
        let mut state = self.lock();
        state.later.push((lsn, callback));
        self.tell(state, || self.asked.notify_all());
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
            state = self.asked.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// What is durable, once that is more than `seen`; waits for it. `None` when the log is being closed, or has failed.
    pub(crate) fn wait_past(&self, seen: u64) -> Option<u64> {
        let mut state = self.lock();
        while state.failed.is_none() && !state.closed {
            if state.durable > seen {
                return Some(state.durable);
            }
            state.watching += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.watching -= 1;
        }
        None
    }

    /// Ends the waiting of [`Group::asked_for`] and [`Group::wait_past`].
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.asked.notify_all();
        self.changed.notify_all();
    }

    /// Wakes who watches, and whom `wake` wakes, and calls back whom the state concerns.
    fn tell(&self, mut state: MutexGuard<'_, State<E>>, wake: impl FnOnce()) {
        let (durable, failed) = (state.durable, state.failed.clone());
        let mut over = Vec::new();
        if state.later.iter().any(|(lsn, _)| *lsn < durable || failed.is_some()) {
            let all = std::mem::take(&mut state.later);
            (over, state.later) = all.into_iter().partition(|(lsn, _)| *lsn < durable || failed.is_some());
        }
        let watched = state.watching > 0;
        drop(state);
        wake();
        if watched {
            self.changed.notify_all();
        }
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

/// A flush under way. One that ends by a panic has failed: nobody knows how far it came, and others wait for it.
struct Leading<'a, E: Clone> {
    group: &'a Group<E>,
    ended: bool,
}

impl<E: Clone> Leading<'_, E> {
    fn end(mut self, flushed: Result<u64, E>) {
        self.ended = true;
        self.group.finish(flushed);
    }
}

impl<E: Clone> Drop for Leading<'_, E> {
    fn drop(&mut self) {
        if !self.ended {
            let durable = self.group.durable();
            self.group.finish(Err((self.group.panicked)(durable)));
        }
    }
}
