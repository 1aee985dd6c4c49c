//! Recent changes of an inode: they show whether bytes that were read a moment ago are still those
//! of the file.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// Most changes that are remembered individually while there is a watch. Bytes that were read
/// before the oldest of them count as changed.
const REMEMBERED: usize = 1024;

/// The changes of one inode. Each is noted twice, when it begins and when it is over: bytes that
/// were read in between may be old, new or both.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Number of notes so far. It changes only under the lock. It is read without the lock first:
    /// if it has not changed, which is nearly always so, the lock is not needed.
    count: AtomicU64,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    /// The latest notes; the last one has the number `count - 1`. Invariant: empty while there is
    /// no watch.
    ranges: VecDeque<Range<u64>>,
    watchers: usize,
    /// Number of notes of changes beside the mount.
    beside: u64,
}

/// A change in progress; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Change<'a> {
    changes: &'a Changes,
    range: Range<u64>,
}

/// Detects changes from its creation on, for bytes that were read or are about to be read.
#[derive(Debug)]
pub(super) struct Watch {
    changes: Arc<Changes>,
    since: u64,
}

impl Changes {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    /// Notes that a range is about to be changed, or has been.
    pub(super) fn note(&self, range: Range<u64>) {
        self.add(self.log(), range);
    }

    fn add(&self, mut log: MutexGuard<'_, Log>, range: Range<u64>) {
        self.count.fetch_add(1, Ordering::Release);
        if log.watchers > 0 {
            log.ranges.push_back(range);
            if log.ranges.len() > REMEMBERED {
                log.ranges.pop_front();
            }
        }
    }

    /// Notes a change beside the mount, which may be anywhere in the file.
    pub(super) fn note_beside(&self) {
        let mut log = self.log();
        log.beside += 1;
        self.add(log, 0..u64::MAX);
    }

    /// Returns the number of notes of changes through this mount.
    pub(super) fn own(&self) -> u64 {
        let log = self.log();
        self.count.load(Ordering::Relaxed) - log.beside
    }

    /// Begins a change of a range.
    pub(super) fn begin(&self, range: Range<u64>) -> Change<'_> {
        self.note(range.clone());
        Change { changes: self, range }
    }

    /// Creates a watch for changes from now on.
    pub(super) fn watch(self: &Arc<Self>) -> Watch {
        let mut log = self.log();
        log.watchers += 1;
        Watch { changes: Arc::clone(self), since: self.count.load(Ordering::Acquire) }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.changes.note(self.range.clone());
    }
}

impl Watch {
    /// Whether anything within the range may have changed since the watch began.
    pub(super) fn has_changed(&self, range: &Range<u64>) -> bool {
        let count = self.changes.count.load(Ordering::Acquire);
        if count == self.since {
            return false;
        }
        let log = self.changes.log();
        let count = self.changes.count.load(Ordering::Acquire);
        let new = (count - self.since) as usize;
        let Some(first) = log.ranges.len().checked_sub(new) else { return true };
        log.ranges
            .range(first..)
            .any(|changed| changed.start < range.end && range.start < changed.end)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut log = self.changes.log();
        log.watchers -= 1;
        if log.watchers == 0 {
            log.ranges = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_after_the_watch_began_and_within_the_range_counts() {
        let changes = Arc::new(Changes::default());
        changes.note(0..10);
        let watch = changes.watch();
        assert!(!watch.has_changed(&(0..10)));
        changes.note(10..20);
        assert!(!watch.has_changed(&(0..10)));
        assert!(watch.has_changed(&(0..11)));
        assert!(!changes.watch().has_changed(&(0..100)));
    }

    #[test]
    fn changes_beside_the_mount_count_for_readers_alone() {
        let changes = Arc::new(Changes::default());
        let watch = changes.watch();
        drop(changes.begin(5..6));
        assert_eq!(changes.own(), 2);
        changes.note_beside();
        assert_eq!(changes.own(), 2);
        assert!(watch.has_changed(&(700..701)));
    }

    #[test]
    fn a_change_that_was_under_way_counts_when_it_is_over() {
        let changes = Arc::new(Changes::default());
        let change = changes.begin(5..6);
        let watch = changes.watch();
        assert!(!watch.has_changed(&(0..10)));
        drop(change);
        assert!(watch.has_changed(&(0..10)));
    }

    #[test]
    fn what_is_no_longer_remembered_counts_as_changed() {
        let changes = Arc::new(Changes::default());
        let watch = changes.watch();
        (0..REMEMBERED).for_each(|_| changes.note(100..200));
        assert!(!watch.has_changed(&(0..10)));
        changes.note(100..200);
        assert!(watch.has_changed(&(0..10)));
    }
}
