//! Which requests are under way, and which of them the kernel wants interrupted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Interrupts of requests that have not begun: at most so many are remembered.
const MOST_EARLY: usize = 64;
/// And for so long. They are there only for the moment between the reading of a request and its beginning.
const EARLY_FOR: Duration = Duration::from_secs(10);

/// What one thread is doing. On cache lines of its own: every request writes to it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Slot {
    /// The request under way, 0 for none.
    unique: AtomicU64,
    /// The request last interrupted here. Numbers are never used again, so it need not be cleared.
    interrupted: AtomicU64,
}

impl Slot {
    pub(crate) fn is_interrupted(&self, unique: u64) -> bool {
        self.interrupted.load(Ordering::Acquire) == unique
    }
}

/// What all threads are doing.
#[derive(Debug)]
pub(crate) struct Interrupts {
    slots: Box<[Slot]>,
    /// Interrupts that came before their request began: another thread has read it, no more.
    early: Mutex<VecDeque<(u64, Instant)>>,
    /// How many these are, so that a request looks only when there are some.
    waiting: AtomicUsize,
}

impl Interrupts {
    pub(crate) fn new(threads: usize) -> Interrupts {
        let slots = (0..threads).map(|_| Slot::default()).collect();
        Interrupts { slots, early: Mutex::default(), waiting: AtomicUsize::new(0) }
    }

    /// Thread `thread` begins a request.
    pub(crate) fn begin(&self, thread: usize, unique: u64) -> &Slot {
        let slot = &self.slots[thread];
        // Either this is seen by `interrupt`, or what that put aside is seen here: both are sequentially consistent.
        slot.unique.store(unique, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) != 0 {
            let mut early = self.early();
            early.retain(|(_, since)| since.elapsed() < EARLY_FOR);
            if self.take(&mut early, unique) {
                slot.interrupted.store(unique, Ordering::Release);
            }
        }
        slot
    }

    /// Thread `thread` has done with its request.
    pub(crate) fn end(&self, thread: usize) {
        self.slots[thread].unique.store(0, Ordering::Release);
    }

    /// Marks a request as interrupted, now or when it begins.
    pub(crate) fn interrupt(&self, unique: u64) {
        let mut early = self.early();
        while early.len() >= MOST_EARLY {
            early.pop_front();
        }
        early.push_back((unique, Instant::now()));
        self.waiting.store(early.len(), Ordering::SeqCst);
        let under_way = self.slots.iter().find(|slot| slot.unique.load(Ordering::SeqCst) == unique);
        if let Some(slot) = under_way {
            slot.interrupted.store(unique, Ordering::Release);
            self.take(&mut early, unique);
        }
    }

    fn early(&self) -> MutexGuard<'_, VecDeque<(u64, Instant)>> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, early: &mut VecDeque<(u64, Instant)>, unique: u64) -> bool {
        let before = early.len();
        early.retain(|(other, _)| *other != unique);
        self.waiting.store(early.len(), Ordering::SeqCst);
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
        assert_eq!(all.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn interrupts_of_what_is_done_are_bounded() {
        let all = Interrupts::new(1);
        (0..1000).for_each(|unique| all.interrupt(unique * 2 + 2));
        assert_eq!(all.early().len(), MOST_EARLY);
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
