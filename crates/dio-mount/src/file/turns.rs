//! Turns of the writers of a file that is locked as a whole: they write one after the other.
//!
//! The file's own lock keeps them apart in any case. But a writer that waits for this lock occupies
//! a thread of the server, and some dozens of writers of one file would occupy all threads while
//! other files wait too. So a write that arrives while another one is running is put aside, and its
//! thread serves other requests. The thread that has the turn does the writes that were put aside
//! before it gives the turn up. The kernel's inode lock could do the same (without
//! `FOPEN_PARALLEL_DIRECT_WRITES`), but the server could not count the writers that wait for it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// The turn of an inode's writers, and the writes that wait for it.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<TurnState>);

#[derive(Default)]
struct TurnState {
    /// A thread has the turn. It does all waiting writes before it gives the turn up.
    taken: bool,
    /// Invariant: empty while the turn is free.
    waiting: VecDeque<WaitingWrite>,
}

impl std::fmt::Debug for TurnState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "taken: {}, {} wait", self.taken, self.waiting.len())
    }
}

/// A write that was put aside. It receives the time that it has waited.
struct WaitingWrite {
    since: Instant,
    write: Box<dyn FnOnce(Duration) + Send>,
}

impl Turns {
    fn state(&self) -> MutexGuard<'_, TurnState> {
        self.0.lock()
    }

    /// Takes the turn if it is free; [`Turns::spend`] gives it up.
    pub(super) fn take(&self) -> bool {
        !std::mem::replace(&mut self.state().taken, true)
    }

    /// Puts a write aside. Returns it if the turn has become free; the caller then has the turn.
    fn put_aside(&self, aside: WaitingWrite) -> Option<WaitingWrite> {
        let mut state = self.state();
        if state.taken {
            state.waiting.push_back(aside);
            return None;
        }
        state.taken = true;
        Some(aside)
    }

    /// Leaves `write` to the thread that has the turn, or does it here if the turn has become free.
    /// `write` receives the time that it has waited.
    pub(super) fn later(&self, write: impl FnOnce(Duration) + Send + 'static) {
        if let Some(aside) =
            self.put_aside(WaitingWrite { since: Instant::now(), write: Box::new(write) })
        {
            self.spend(|| (aside.write)(Duration::ZERO));
        }
    }

    /// Runs `first`, then the waiting writes, and gives up the turn. A panic is resumed only after
    /// that, since the waiting writes must be done in any case.
    pub(super) fn spend(&self, first: impl FnOnce()) {
        let mut panic = catch_unwind(AssertUnwindSafe(first)).err();
        loop {
            let mut state = self.state();
            let Some(next) = state.waiting.pop_front() else {
                state.taken = false;
                break;
            };
            drop(state);
            let waited = next.since.elapsed();
            panic = catch_unwind(AssertUnwindSafe(|| (next.write)(waited))).err().or(panic);
        }
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn whoever_has_the_turn_does_what_was_put_aside_in_order() {
        let turns = Turns::default();
        let (tell, told) = mpsc::channel();
        let aside = |number: u32, panics: bool| {
            let tell = tell.clone();
            let write = move |waited: Duration| {
                tell.send((number, waited, thread::current().id())).unwrap();
                assert!(!panics, "as wanted");
            };
            WaitingWrite { since: Instant::now(), write: Box::new(write) }
        };
        assert!(turns.take() && !turns.take());
        let outcome = thread::scope(|scope| {
            (0..5)
                .for_each(|number| assert!(turns.put_aside(aside(number, number == 2)).is_none()));
            scope.spawn(|| turns.spend(|| thread::sleep(Duration::from_millis(20)))).join()
        });
        assert!(outcome.is_err(), "the panic went on");
        let done: Vec<_> = told.try_iter().collect();
        assert_eq!(done.iter().map(|done| done.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert!(done.iter().all(|done| done.1 >= Duration::from_millis(20)
            && done.2 != thread::current().id()));
        assert!(turns.put_aside(aside(5, false)).is_some(), "it was free, and is the caller's now");
        assert!(!turns.take());
    }
}
