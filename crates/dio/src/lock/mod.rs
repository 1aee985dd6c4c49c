//! The lock of one open file within a process: byte ranges, and the whole file above them.
//!
//! Two layers, asked for together in one request:
//!
//! | request | whole-file layer | range layer | made by |
//! |---|---|---|---|
//! | [`shared`](LockTable::shared) | shared | the range, shared | a direct read |
//! | [`exclusive`](LockTable::exclusive) | shared | the range, exclusive | a direct write, a write through the cache |
//! | [`whole_shared`](LockTable::whole_shared) | shared | nothing | a concurrent read or write |
//! | [`whole`](LockTable::whole) | exclusive | everything | a resize, a misaligned write |
//!
//! So overlapping direct operations are atomic to each other and disjoint ones run in parallel (single-writer semantics
//! by byte range instead of by file); concurrent operations exclude only what changes the size or writes a part of a block. Handles
//! of both modes may share a table.
//!
//! **Fairness.** Strict first-in, first-out order among conflicting requests: a request waits for every holder and every
//! earlier waiter that it conflicts with, and for nobody else. No stream of readers starves a writer, no stream of range
//! operations starves one that needs the whole file, and a request in nobody's way is granted at once.
//!
//! **Cost.** A range request that need not wait is one short critical section over the list of holders and waiters.
//! `whole_shared` is one atomic operation while nobody holds or wants the whole file. Each waiter parks by itself and is
//! woken once, when it holds the lock.
//!
//! **Deadlock.** A thread must not ask (other than by `try_…`) for a second lock of the same table while it holds one,
//! not even a shared one: a conflicting request may have queued between the two.
//!
//! The lock is known to this process only; it neither uses nor replaces `fcntl` locks or the kernel's inode lock.

mod gate;
mod queue;
mod stats;
mod table;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Instant;

use gate::Gate;
use queue::{Admission, Queue, Want};
use stats::Counters;
pub use stats::{ClassStats, LockClass, LockStats, waited_here, waits_of_this_process};

/// How much of the file the lock of a range covers: a matter of who asks, so that askers of different policies exclude each
/// other through one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockPolicy {
    /// The range and no more.
    #[default]
    Range,
    /// The whole file: reads share it, a write has it alone, as with the inode lock of JFS2. For comparison.
    WholeFile,
}

impl LockPolicy {
    /// The range to ask for in order to lock `range` under the policy. An empty one stays empty, and locks nothing.
    pub fn span(self, range: Range<u64>) -> Range<u64> {
        match self {
            LockPolicy::WholeFile if !range.is_empty() => 0..u64::MAX,
            _ => range,
        }
    }
}

/// The lock of one file, shared by everything in the process that has it open.
#[derive(Debug)]
pub struct LockTable {
    state: Mutex<State>,
    hot: Hot,
}

/// What every concurrent operation touches, on a line of its own (two lines: processors fetch them in pairs), so that it
/// does not disturb the mutex.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Hot {
    gate: Gate,
    counters: Counters,
}

const _: () = assert!(size_of::<Hot>() == 128);

/// Invariants, true whenever the mutex is free:
/// 1. The gate is closed exactly while `wholes > 0`.
/// 2. `crowd` is set exactly while the gate is closed and the last of those who had entered it has not yet reported.
///    The entry it names stands for all of them, before every request for the whole file in the queue.
#[derive(Debug)]
struct State {
    queue: Queue<Arc<Waiter>>,
    /// Requests for the whole file in the queue, holding or waiting.
    wholes: usize,
    crowd: Option<u64>,
}

/// A parked thread.
#[derive(Debug)]
struct Waiter {
    thread: Thread,
    granted: AtomicBool,
}

impl Waiter {
    fn for_this_thread() -> Arc<Waiter> {
        Arc::new(Waiter { thread: thread::current(), granted: AtomicBool::new(false) })
    }

    /// Blocks the thread it was made for until `grant`.
    fn wait(&self) {
        while !self.granted.load(Ordering::Acquire) {
            thread::park();
        }
    }

    fn grant(&self) {
        self.granted.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

impl LockTable {
    /// A table in which nothing is locked.
    pub fn new() -> Arc<LockTable> {
        Arc::new(LockTable {
            state: Mutex::new(State { queue: Queue::new(), wholes: 0, crowd: None }),
            hot: Hot::default(),
        })
    }

    /// The counters of every class.
    pub fn stats(&self) -> LockStats {
        self.hot.counters.snapshot()
    }

    /// Locks a range of bytes together with other readers; waits for writers. An empty range locks nothing, as
    /// [`whole_shared`](Self::whole_shared) does.
    ///
    /// # Panics
    /// If the range ends before it starts.
    pub fn shared(self: &Arc<Self>, range: Range<u64>, class: LockClass) -> LockGuard {
        self.acquire(LockTable::ranged(range, Want::Shared), class)
    }

    /// Locks a range of bytes alone; waits for readers and writers. An empty range locks nothing, as
    /// [`whole_shared`](Self::whole_shared) does.
    ///
    /// # Panics
    /// If the range ends before it starts.
    pub fn exclusive(self: &Arc<Self>, range: Range<u64>, class: LockClass) -> LockGuard {
        self.acquire(LockTable::ranged(range, Want::Exclusive), class)
    }

    /// Locks the whole file alone, size included: waits for every other holder.
    pub fn whole(self: &Arc<Self>, class: LockClass) -> LockGuard {
        self.acquire(Want::Whole, class)
    }

    /// Keeps [`whole`](Self::whole) out and nobody else: no range is locked, and holders of it may read and write at the
    /// same time. What operations of concurrent mode hold.
    pub fn whole_shared(self: &Arc<Self>, class: LockClass) -> LockGuard {
        self.acquire(Want::Through, class)
    }

    /// As [`shared`](Self::shared), but `None` where that would block.
    ///
    /// # Panics
    /// If the range ends before it starts.
    pub fn try_shared(self: &Arc<Self>, range: Range<u64>, class: LockClass) -> Option<LockGuard> {
        self.try_acquire(LockTable::ranged(range, Want::Shared), class)
    }

    /// As [`exclusive`](Self::exclusive), but `None` where that would block.
    ///
    /// # Panics
    /// If the range ends before it starts.
    pub fn try_exclusive(self: &Arc<Self>, range: Range<u64>, class: LockClass) -> Option<LockGuard> {
        self.try_acquire(LockTable::ranged(range, Want::Exclusive), class)
    }

    /// As [`whole`](Self::whole), but `None` where that would block.
    pub fn try_whole(self: &Arc<Self>, class: LockClass) -> Option<LockGuard> {
        self.try_acquire(Want::Whole, class)
    }

    /// As [`whole_shared`](Self::whole_shared), but `None` where that would block.
    pub fn try_whole_shared(self: &Arc<Self>, class: LockClass) -> Option<LockGuard> {
        self.try_acquire(Want::Through, class)
    }

    /// A reversed range is refused loudly: taken for an empty one it would lock nothing and corrupt data.
    fn ranged(range: Range<u64>, want: fn(Range<u64>) -> Want) -> Want {
        assert!(range.start <= range.end, "a range to lock ends before it starts");
        if range.is_empty() { Want::Through } else { want(range) }
    }

    fn acquire(self: &Arc<Self>, want: Want, class: LockClass) -> LockGuard {
        if want == Want::Through && self.hot.gate.enter() {
            return self.guard(Held::Crowd, class);
        }
        let Admission { id, waiter } = self.admit(&mut self.state(), want);
        if let Some(waiter) = waiter {
            let counters = &self.hot.counters;
            counters.wait_begins(class);
            let since = Instant::now();
            waiter.wait();
            counters.wait_ends(class, since.elapsed());
        }
        self.guard(Held::Entry(id), class)
    }

    fn try_acquire(self: &Arc<Self>, want: Want, class: LockClass) -> Option<LockGuard> {
        if want == Want::Through && self.hot.gate.enter() {
            return Some(self.guard(Held::Crowd, class));
        }
        let mut state = self.state();
        if state.queue.must_wait(&want) {
            return None;
        }
        let id = if want == Want::Whole {
            // Everything conflicts with it, so the queue is empty and (invariant 1) the gate open.
            if !self.hot.gate.try_close() {
                return None;
            }
            state.wholes = 1;
            state.queue.admit(want, Waiter::for_this_thread).id
        } else {
            self.admit(&mut state, want).id
        };
        drop(state);
        Some(self.guard(Held::Entry(id), class))
    }

    /// Queues a request. One for the whole file closes the gate, and puts those inside before itself as one entry.
    fn admit(&self, state: &mut State, want: Want) -> Admission<Arc<Waiter>> {
        if want == Want::Whole {
            if state.wholes == 0 && self.hot.gate.close() {
                let crowd = state.queue.admit(Want::Through, Waiter::for_this_thread);
                debug_assert!(crowd.waiter.is_none(), "no request for the whole file yet");
                debug_assert!(state.crowd.is_none(), "the last crowd has left");
                state.crowd = Some(crowd.id);
            }
            state.wholes += 1;
        }
        state.queue.admit(want, Waiter::for_this_thread)
    }

    fn guard(self: &Arc<Self>, held: Held, class: LockClass) -> LockGuard {
        self.hot.counters.acquired(class);
        LockGuard { table: Arc::clone(self), held }
    }

    fn release(&self, held: Held) {
        if held == Held::Crowd && !self.hot.gate.leave() {
            return;
        }
        let mut woken = Vec::new();
        let mut state = self.state();
        let id = match held {
            Held::Entry(id) => id,
            // The gate stays closed until the request that closed it has come and gone, which is after this.
            Held::Crowd => state.crowd.take().expect("a closed gate knows its crowd"),
        };
        if state.queue.release(id, &mut woken) == Want::Whole {
            state.wholes -= 1;
            if state.wholes == 0 {
                self.hot.gate.open();
            }
        }
        drop(state);
        for waiter in woken {
            waiter.grant();
        }
    }

    /// The mutex covers this module's bookkeeping only, never the caller's code: a panic of a holder cannot poison it, and
    /// a failed assertion here has been reported already by the thread that failed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a guard stands in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// Counted in the gate.
    Crowd,
    /// An entry of the queue, by id.
    Entry(u64),
}

/// A lock that is held; dropping it releases it, in any thread, also while a panic unwinds.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard {
    table: Arc<LockTable>,
    held: Held,
}

impl LockGuard {
    /// The table that the lock belongs to.
    pub fn table(&self) -> &Arc<LockTable> {
        &self.table
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        self.table.release(self.held);
    }
}

#[cfg(test)]
mod tests;
