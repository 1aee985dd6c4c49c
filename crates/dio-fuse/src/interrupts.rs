//! The requests that are being served, and the interrupts that arrived for them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// Most interrupts that are kept for requests that have not begun.
const EARLY_MAX: usize = 64;
/// How long these are kept. They are needed only between the reading of a request and its
/// beginning.
const EARLY_AGE_MAX: Duration = Duration::from_secs(10);

/// The request that one thread serves. Every request writes to its slot, so each slot has cache
/// lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ThreadSlot {
    /// The request being served; 0 for none.
    unique: AtomicU64,
    /// The request that was interrupted here last. It is never cleared, because the kernel uses no
    /// number twice.
    interrupted: AtomicU64,
}

impl ThreadSlot {
    pub(crate) fn is_interrupted(&self, unique: u64) -> bool {
        self.interrupted.load(Ordering::Acquire) == unique
    }
}

/// The requests that all threads serve.
#[derive(Debug)]
pub(crate) struct Interrupts {
    slots: Box<[ThreadSlot]>,
    /// Interrupts that came before their request began: another thread has read that request, but
    /// not begun to serve it.
    early: Mutex<VecDeque<(u64, Instant)>>,
    /// Length of `early`. A request locks `early` only if this is not 0.
    early_count: AtomicUsize,
}

impl Interrupts {
    pub(crate) fn new(threads: usize) -> Interrupts {
        let slots = (0..threads).map(|_| ThreadSlot::default()).collect();
        Interrupts { slots, early: Mutex::default(), early_count: AtomicUsize::new(0) }
    }

    /// Thread `thread` begins to serve a request.
    pub(crate) fn begin(&self, thread: usize, unique: u64) -> &ThreadSlot {
        let slot = &self.slots[thread];
        // This store and load, and the store and load in `interrupt`, are sequentially consistent.
        // So either `interrupt` finds the request in the slot, or this finds the early interrupt.
        slot.unique.store(unique, Ordering::SeqCst);
        if self.early_count.load(Ordering::SeqCst) != 0 {
            let mut early = self.lock_early();
            early.retain(|(_, since)| since.elapsed() < EARLY_AGE_MAX);
            if self.remove(&mut early, unique) {
                slot.interrupted.store(unique, Ordering::Release);
            }
        }
        slot
    }

    /// Thread `thread` has served its request.
    pub(crate) fn end(&self, thread: usize) {
        self.slots[thread].unique.store(0, Ordering::Release);
    }

    /// Marks a request as interrupted, now or when it begins.
    pub(crate) fn interrupt(&self, unique: u64) {
        let mut early = self.lock_early();
        while early.len() >= EARLY_MAX {
            early.pop_front();
        }
        early.push_back((unique, Instant::now()));
        self.early_count.store(early.len(), Ordering::SeqCst);
        let serving = self.slots.iter().find(|slot| slot.unique.load(Ordering::SeqCst) == unique);
        if let Some(slot) = serving {
            slot.interrupted.store(unique, Ordering::Release);
            self.remove(&mut early, unique);
        }
    }

    /// Whether there is an interrupt for a request that has not begun. The interrupt of a request
    /// that is withdrawn stays until it is too old.
    pub(crate) fn came_early(&self, unique: u64) -> bool {
        self.early_count.load(Ordering::SeqCst) != 0
            && self.lock_early().iter().any(|(other, _)| *other == unique)
    }

    fn lock_early(&self) -> MutexGuard<'_, VecDeque<(u64, Instant)>> {
        self.early.lock()
    }

    /// Removes the early interrupt of a request. Returns whether there was one.
    fn remove(&self, early: &mut VecDeque<(u64, Instant)>, unique: u64) -> bool {
        let before = early.len();
        early.retain(|(other, _)| *other != unique);
        self.early_count.store(early.len(), Ordering::SeqCst);
        early.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_under_way_is_marked_and_no_other() {
        let all = Interrupts::new(2);
        let (first, second) = (all.begin(0, 10), all.begin(1, 12));
        all.interrupt(12);
        assert!(!first.is_interrupted(10));
        assert!(second.is_interrupted(12));
        all.end(1);
        assert!(!all.begin(1, 14).is_interrupted(14));
    }

    #[test]
    fn an_interrupt_may_come_before_its_request_begins() {
        let all = Interrupts::new(1);
        all.interrupt(20);
        assert!(!all.begin(0, 18).is_interrupted(18));
        assert!(all.begin(0, 20).is_interrupted(20));
        assert_eq!(all.early_count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn interrupts_of_what_is_done_are_bounded() {
        let all = Interrupts::new(1);
        (0..1000).for_each(|unique| all.interrupt(unique * 2 + 2));
        assert_eq!(all.lock_early().len(), EARLY_MAX);
        assert!(all.begin(0, 2000).is_interrupted(2000));
    }

    #[test]
    fn no_interrupt_is_lost_between_two_threads() {
        let all = Interrupts::new(1);
        for unique in (2..4000).step_by(2) {
            std::thread::scope(|scope| {
                scope.spawn(|| all.interrupt(unique));
                let slot = all.begin(0, unique);
                while !slot.is_interrupted(unique) {
                    std::thread::yield_now();
                }
                all.end(0);
            });
        }
    }
}
