//! The lock of one open file within a process. It has two layers: byte ranges, and the whole file
//! above them. One request asks for both:
//!
//! | request | whole-file layer | range layer | made by |
//! |---|---|---|---|
//! | [`shared`](LockTable::shared) | shared | the range, shared | a direct read |
//! | [`exclusive`](LockTable::exclusive) | shared | the range, exclusive | a direct or cached write |
//! | [`whole_shared`](LockTable::whole_shared) | shared | nothing | a concurrent read or write |
//! | [`whole`](LockTable::whole) | exclusive | everything | a resize, a misaligned write |
//!
//! Overlapping direct operations are therefore atomic to each other and disjoint ones run in
//! parallel (single-writer semantics by byte range instead of by file). Concurrent operations
//! exclude only those that change the size or write a part of a block. Files opened in both modes
//! may share a table.
//!
//! **Fairness.** Conflicting requests are served strictly first in, first out. A request waits for
//! every holder and every earlier waiter that it conflicts with, and for nobody else. No stream of
//! readers starves a writer, no stream of range operations starves a request for the whole file,
//! and a request that conflicts with nothing is granted at once.
//!
//! **Cost.** A range request that need not wait is one short critical section over the list of
//! holders and waiters. `whole_shared` is one atomic operation while nobody holds or wants the
//! whole file. Each waiter parks by itself and is woken once, when it holds the lock.
//!
//! **Deadlock.** A thread that holds a lock of a table must not ask for a second one of the same
//! table (other than by `try_…`), not even for a shared one: a conflicting request may have queued
//! between the two.
//!
//! Only this process knows the lock. It neither uses nor replaces `fcntl` locks or the kernel's
//! inode lock.

mod gate;
mod queue;
mod stats;
mod table;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Instant;

use gate::Gate;
use parking_lot::{Mutex, MutexGuard};
use queue::{Admission, LockQueue, Want};
use stats::LockCounters;
pub use stats::{ClassStats, LockClass, LockStats, waited_here, waits_of_this_process};

/// How much of the file the lock of a range covers. Each request has its own policy; requests of
/// different policies exclude each other through one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockPolicy {
    /// The range and no more.
    #[default]
    Range,
    /// The whole file: reads share it, a write has it alone, as with the inode lock of JFS2. For
    /// comparison.
    WholeFile,
}

impl LockPolicy {
    /// The range to lock for `range` under the policy. An empty range stays empty and locks
    /// nothing.
    pub fn span(self, range: Range<u64>) -> Range<u64> {
        match self {
            LockPolicy::WholeFile if !range.is_empty() => 0..u64::MAX,
            _ => range,
        }
    }
}

/// The lock of one file, shared by everything in the process that has the file open.
#[derive(Debug)]
pub struct LockTable {
    state: Mutex<TableState>,
    shared_line: SharedLine,
}

/// What every concurrent operation touches. It has a cache line of its own (two lines, because
/// processors fetch them in pairs), so that it does not disturb the mutex.
#[derive(Debug, Default)]
#[repr(align(128))]
struct SharedLine {
    gate: Gate,
    counters: LockCounters,
}

const _: () = assert!(size_of::<SharedLine>() == 128);

/// Invariants, true whenever the mutex is free:
/// 1. The gate is closed exactly while `whole_requests > 0`.
/// 2. `crowd` is set exactly while the gate is closed and the last operation that had entered it
///    has not yet reported. The queue entry it names stands for all of these operations and
///    precedes every request for the whole file.
#[derive(Debug)]
struct TableState {
    queue: LockQueue<Arc<Waiter>>,
    /// Requests for the whole file that hold it or wait for it.
    whole_requests: usize,
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

    /// Blocks the thread that made this waiter until `grant`.
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
            state: Mutex::new(TableState {
                queue: LockQueue::new(),
                whole_requests: 0,
                crowd: None,
            }),
            shared_line: SharedLine::default(),
        })
    }

    /// The counters of every class.
    pub fn stats(&self) -> LockStats {
        self.shared_line.counters.snapshot()
    }

    /// Locks a range of bytes together with other readers; waits for writers. An empty range locks
    /// nothing, as [`whole_shared`](Self::whole_shared) does.
    ///
    /// # Panics
    /// If the range ends before it starts.
    pub fn shared(self: &Arc<Self>, range: Range<u64>, class: LockClass) -> LockGuard {
        self.acquire(LockTable::ranged(range, Want::Shared), class)
    }

    /// Locks a range of bytes alone; waits for readers and writers. An empty range locks nothing,
    /// as [`whole_shared`](Self::whole_shared) does.
    ///
    /// # Panics
    /// If the range ends before it starts.
    pub fn exclusive(self: &Arc<Self>, range: Range<u64>, class: LockClass) -> LockGuard {
        self.acquire(LockTable::ranged(range, Want::Exclusive), class)
    }

    /// Locks the whole file alone, with its size; waits for every other holder.
    pub fn whole(self: &Arc<Self>, class: LockClass) -> LockGuard {
        self.acquire(Want::Whole, class)
    }

    /// Keeps [`whole`](Self::whole) out and nothing else. It locks no range, and its holders may
    /// read and write at the same time. Operations of concurrent mode hold it.
    pub fn whole_shared(self: &Arc<Self>, class: LockClass) -> LockGuard {
        self.acquire(Want::Through, class)
    }

    /// As [`shared`](Self::shared), but returns `None` instead of blocking.
    ///
    /// # Panics
    /// If the range ends before it starts.
    pub fn try_shared(self: &Arc<Self>, range: Range<u64>, class: LockClass) -> Option<LockGuard> {
        self.try_acquire(LockTable::ranged(range, Want::Shared), class)
    }

    /// As [`exclusive`](Self::exclusive), but returns `None` instead of blocking.
    ///
    /// # Panics
    /// If the range ends before it starts.
    pub fn try_exclusive(
        self: &Arc<Self>,
        range: Range<u64>,
        class: LockClass,
    ) -> Option<LockGuard> {
        self.try_acquire(LockTable::ranged(range, Want::Exclusive), class)
    }

    /// As [`whole`](Self::whole), but returns `None` instead of blocking.
    pub fn try_whole(self: &Arc<Self>, class: LockClass) -> Option<LockGuard> {
        self.try_acquire(Want::Whole, class)
    }

    /// As [`whole_shared`](Self::whole_shared), but returns `None` instead of blocking.
    pub fn try_whole_shared(self: &Arc<Self>, class: LockClass) -> Option<LockGuard> {
        self.try_acquire(Want::Through, class)
    }

    /// A reversed range panics. If it counted as empty, it would lock nothing and corrupt data.
    fn ranged(range: Range<u64>, want: fn(Range<u64>) -> Want) -> Want {
        assert!(range.start <= range.end, "a range to lock ends before it starts");
        if range.is_empty() { Want::Through } else { want(range) }
    }

    fn acquire(self: &Arc<Self>, want: Want, class: LockClass) -> LockGuard {
        if want == Want::Through && self.shared_line.gate.enter() {
            return self.guard(Holding::Crowd, class);
        }
        let Admission { id, waiter } = self.admit(&mut self.state(), want);
        if let Some(waiter) = waiter {
            let counters = &self.shared_line.counters;
            counters.wait_begins(class);
            let since = Instant::now();
            waiter.wait();
            counters.wait_ends(class, since.elapsed());
        }
        self.guard(Holding::Entry(id), class)
    }

    fn try_acquire(self: &Arc<Self>, want: Want, class: LockClass) -> Option<LockGuard> {
        if want == Want::Through && self.shared_line.gate.enter() {
            return Some(self.guard(Holding::Crowd, class));
        }
        let mut state = self.state();
        if state.queue.must_wait(&want) {
            return None;
        }
        let id = if want == Want::Whole {
            // The whole file conflicts with everything, so the queue is empty and (invariant 1) the
            // gate open.
            if !self.shared_line.gate.try_close() {
                return None;
            }
            state.whole_requests = 1;
            state.queue.admit(want, Waiter::for_this_thread).id
        } else {
            self.admit(&mut state, want).id
        };
        drop(state);
        Some(self.guard(Holding::Entry(id), class))
    }

    /// Queues a request. A request for the whole file closes the gate, and one entry for all
    /// operations inside the gate goes before it.
    fn admit(&self, state: &mut TableState, want: Want) -> Admission<Arc<Waiter>> {
        if want == Want::Whole {
            if state.whole_requests == 0 && self.shared_line.gate.close() {
                let crowd = state.queue.admit(Want::Through, Waiter::for_this_thread);
                debug_assert!(crowd.waiter.is_none(), "no request for the whole file yet");
                debug_assert!(state.crowd.is_none(), "the last crowd has left");
                state.crowd = Some(crowd.id);
            }
            state.whole_requests += 1;
        }
        state.queue.admit(want, Waiter::for_this_thread)
    }

    fn guard(self: &Arc<Self>, held: Holding, class: LockClass) -> LockGuard {
        self.shared_line.counters.acquired(class);
        LockGuard { table: Arc::clone(self), held }
    }

    fn release(&self, held: Holding) {
        if held == Holding::Crowd && !self.shared_line.gate.leave() {
            return;
        }
        let mut woken = Vec::new();
        let mut state = self.state();
        let id = match held {
            Holding::Entry(id) => id,
            // The gate stays closed until the request that closed it has been released, which
            // happens after this.
            Holding::Crowd => state.crowd.take().expect("a closed gate knows its crowd"),
        };
        if state.queue.release(id, &mut woken) == Want::Whole {
            state.whole_requests -= 1;
            if state.whole_requests == 0 {
                self.shared_line.gate.open();
            }
        }
        drop(state);
        for waiter in woken {
            waiter.grant();
        }
    }

    /// The mutex covers the bookkeeping of this module, never code of the caller. So a panic of the
    /// caller leaves it complete, and a failed assertion here has been reported already by the
    /// thread that failed.
    fn state(&self) -> MutexGuard<'_, TableState> {
        self.state.lock()
    }
}

/// Where a guard is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holding {
    /// In the gate.
    Crowd,
    /// In the queue, as the entry with this id.
    Entry(u64),
}

/// A lock that is held. Dropping the guard releases the lock, in any thread, and also while a panic
/// unwinds.
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard {
    table: Arc<LockTable>,
    held: Holding,
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
