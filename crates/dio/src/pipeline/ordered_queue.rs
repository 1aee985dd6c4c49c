//! What the threads of an ordered pipeline share: items on their way to the workers, and results on
//! their way to the sink.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::stage::StageFailure;

/// The result of an item, or why there is none.
pub(super) type Outcome<U, E> = Result<U, StageFailure<E>>;

/// Numbers items in the order of the source and hands them from thread to thread. Items are large
/// (a block, a file), so one lock for all never limits.
pub(super) struct OrderedQueue<T, U, E> {
    state: Mutex<OrderedState<T, U, E>>,
    depth: u64,
    /// Signals to the source that an item was retired, or that the queue ends.
    room: Condvar,
    /// Signals to the workers that an item came in, or that no more will.
    filled: Condvar,
    /// Signals to the sink that the next result came, or that none will.
    ready: Condvar,
}

/// Invariants:
/// 1. `retired <= taken <= asked <= retired + depth`.
/// 2. Unless closed, `results` has one slot for each number from `taken` to `asked`.
struct OrderedState<T, U, E> {
    /// Items that the source was asked for.
    asked: u64,
    /// Results that the sink was given.
    taken: u64,
    /// Results that the sink is done with.
    retired: u64,
    /// Items from this number on do not count: the source ended there, or the item before it
    /// failed.
    end: u64,
    input: VecDeque<(u64, T)>,
    /// The source will put no more items.
    source_ended: bool,
    results: VecDeque<Option<Outcome<U, E>>>,
    /// No thread is given anything any more.
    closed: bool,
}

impl<T, U, E> OrderedQueue<T, U, E> {
    /// A queue of at most `depth` items.
    pub(super) fn new(depth: usize) -> OrderedQueue<T, U, E> {
        let state = OrderedState {
            asked: 0,
            taken: 0,
            retired: 0,
            end: u64::MAX,
            input: VecDeque::new(),
            source_ended: false,
            results: VecDeque::new(),
            closed: false,
        };
        let (room, filled, ready) = (Condvar::new(), Condvar::new(), Condvar::new());
        OrderedQueue { state: Mutex::new(state), depth: depth as u64, room, filled, ready }
    }

    fn lock(&self) -> MutexGuard<'_, OrderedState<T, U, E>> {
        // No code of others runs under the lock, so the state is valid even after a panic.
        self.state.lock()
    }

    /// Waits until there may be one more item, and numbers it. `None` when no more are wanted.
    pub(super) fn claim(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.closed || state.asked >= state.end {
                return None;
            }
            if state.asked < state.retired + self.depth {
                state.asked += 1;
                state.results.push_back(None);
                return Some(state.asked - 1);
            }
            self.room.wait(&mut state);
        }
    }

    /// Hands an item to the workers.
    pub(super) fn put(&self, number: u64, item: T) {
        let mut state = self.lock();
        if !state.closed {
            state.input.push_back((number, item));
            self.filled.notify_one();
        }
        // After the lock: an item that was not wanted is dropped last.
        drop(state);
    }

    /// Records that the source ended at this number.
    pub(super) fn end(&self, number: u64) {
        self.lower_end(&mut self.lock(), number);
    }

    /// Records that the source will put no more items. Workers end when nothing is left to do.
    pub(super) fn source_ended(&self) {
        self.lock().source_ended = true;
        self.filled.notify_all();
    }

    /// The next item to work on; `None` when there will be none.
    pub(super) fn take(&self) -> Option<(u64, T)> {
        let mut state = self.lock();
        loop {
            let next = state.input.pop_front();
            if next.is_some() || state.closed || state.source_ended {
                return next;
            }
            self.filled.wait(&mut state);
        }
    }

    /// Whether an item still counts.
    pub(super) fn counts(&self, number: u64) -> bool {
        let state = self.lock();
        !state.closed && number < state.end
    }

    /// Stores the result of an item. A failed item is the last that counts.
    pub(super) fn settle(&self, number: u64, outcome: Outcome<U, E>) {
        let mut state = self.lock();
        if state.closed || number >= state.end {
            drop(state);
            drop(outcome);
            return;
        }
        if outcome.is_err() {
            self.lower_end(&mut state, number + 1);
        }
        let slot = (number - state.taken) as usize;
        state.results[slot] = Some(outcome);
        if slot == 0 {
            self.ready.notify_one();
        }
    }

    /// The next result in order; `None` at the end. The result given before is then retired.
    pub(super) fn next(&self) -> Option<Outcome<U, E>> {
        let mut state = self.lock();
        state.retired = state.taken;
        self.room.notify_one();
        loop {
            if state.closed || state.taken >= state.end {
                return None;
            }
            if let Some(outcome) = state.results.front_mut().and_then(Option::take) {
                state.results.pop_front();
                state.taken += 1;
                return Some(outcome);
            }
            self.ready.wait(&mut state);
        }
    }

    /// Ends everything. All waiting threads return, and everything in the queue is dropped now,
    /// since the source may be waiting for the memory.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let left = (std::mem::take(&mut state.input), std::mem::take(&mut state.results));
        drop(state);
        self.room.notify_all();
        self.filled.notify_all();
        self.ready.notify_all();
        drop(left);
    }

    fn lower_end(&self, state: &mut OrderedState<T, U, E>, end: u64) {
        state.end = state.end.min(end);
        self.room.notify_all();
        self.ready.notify_all();
    }
}
