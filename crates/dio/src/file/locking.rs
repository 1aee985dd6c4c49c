//! What a request locks, by mode.

use std::ops::Range;
use std::sync::Arc;

use super::Mode;
use super::routing::Routing;
use crate::engine::OpKind;
use crate::geometry::{align_down, align_up};
use crate::lock::{LockClass, LockGuard, LockPolicy, LockStats, LockTable};

/// The locks of one open file: the table that all opens of it share, and what this one asks of it.
#[derive(Debug)]
pub(super) struct Locks {
    table: Arc<LockTable>,
    policy: LockPolicy,
    mode: Mode,
}

/// A lock to ask for.
enum Claim {
    Nothing,
    /// Beside all other requests, but not beside one that has the whole file.
    Beside(LockClass),
    Shared(Range<u64>),
    Exclusive(Range<u64>),
}

impl Locks {
    pub(super) fn new(table: Arc<LockTable>, policy: LockPolicy, mode: Mode) -> Locks {
        Locks { table, policy, mode }
    }

    /// Identifies the table: equal for all opens of one file.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.table).addr()
    }

    pub(super) fn stats(&self) -> LockStats {
        self.table.stats()
    }

    /// The whole file, alone.
    pub(super) fn whole(&self, class: LockClass) -> LockGuard {
        self.table.whole(class)
    }

    /// A range alone.
    pub(super) fn exclusive(&self, range: Range<u64>, class: LockClass) -> LockGuard {
        self.table.exclusive(range, class)
    }

    /// The whole pages of a range alone, or what the policy says instead.
    pub(super) fn pages(&self, range: Range<u64>, class: LockClass) -> LockGuard {
        self.table.exclusive(self.policy.span(pages_around(range)), class)
    }

    /// Keeps out resizes and misaligned writes, and nothing else; nobody where the kernel orders requests itself.
    pub(super) fn beside(&self, kind: OpKind) -> Option<LockGuard> {
        let class = if kind == OpKind::Read { LockClass::Read } else { LockClass::Write };
        (self.mode.wants_direct() || kind == OpKind::Write).then(|| self.table.whole_shared(class))
    }

    /// The lock of a request within the file's present size. The kernel orders cached ones among themselves; writes also
    /// keep out direct ones of their pages, and whatever writes a part of a block or changes the size.
    pub(super) fn lock(&self, kind: OpKind, range: Range<u64>) -> Option<LockGuard> {
        match self.claim(kind, range) {
            Claim::Nothing => None,
            Claim::Beside(class) => Some(self.table.whole_shared(class)),
            Claim::Shared(range) => Some(self.table.shared(range, LockClass::Read)),
            Claim::Exclusive(range) => Some(self.table.exclusive(range, LockClass::Write)),
        }
    }

    /// As [`Locks::lock`], of a request with this routing.
    pub(super) fn lock_for(&self, routing: Routing, kind: OpKind, range: Range<u64>) -> Option<LockGuard> {
        self.lock(kind, if routing.keep { pages_around(range) } else { range })
    }

    /// As [`Locks::lock`], without waiting: the outer `None` says that it would have to.
    pub(super) fn try_lock(&self, kind: OpKind, range: Range<u64>) -> Option<Option<LockGuard>> {
        match self.claim(kind, range) {
            Claim::Nothing => Some(None),
            Claim::Beside(class) => self.table.try_whole_shared(class).map(Some),
            Claim::Shared(range) => self.table.try_shared(range, LockClass::Read).map(Some),
            Claim::Exclusive(range) => self.table.try_exclusive(range, LockClass::Write).map(Some),
        }
    }

    /// Writes through the cache dirty whole pages, and a direct write of another block of such a page, or the eviction
    /// after it, would race with them (`open(2)`, NOTES): so their claim covers the pages.
    fn claim(&self, kind: OpKind, range: Range<u64>) -> Claim {
        let through_cache = kind == OpKind::Write && !self.mode.wants_direct();
        let range = self.policy.span(if through_cache { pages_around(range) } else { range });
        match (self.mode, kind) {
            (Mode::Concurrent, OpKind::Write) => Claim::Beside(LockClass::Write),
            (_, OpKind::Write) => Claim::Exclusive(range),
            (Mode::Cached | Mode::Uncached, _) => Claim::Nothing,
            (Mode::Direct, _) => Claim::Shared(range),
            (Mode::Concurrent, _) => Claim::Beside(LockClass::Read),
        }
    }
}

/// The whole pages that hold a range of a file, as far as there are any bytes in it.
fn pages_around(range: Range<u64>) -> Range<u64> {
    let page = rustix::param::page_size() as u64;
    if range.is_empty() { range } else { align_down(range.start, page)..align_up(range.end, page) }
}
