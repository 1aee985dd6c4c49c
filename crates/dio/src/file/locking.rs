//! Which lock a request takes, by mode.

use std::ops::Range;
use std::sync::Arc;

use super::mode::Mode;
use super::routing::Routing;
use crate::engine::OpKind;
use crate::geometry::{align_down, align_up};
use crate::lock::{LockClass, LockGuard, LockPolicy, LockStats, LockTable};

/// The locks of one open file: the table that all opens of the file share, and the policy of this
/// open.
#[derive(Debug)]
pub(super) struct FileLocks {
    table: Arc<LockTable>,
    policy: LockPolicy,
    mode: Mode,
}

/// The lock that a request needs.
enum LockClaim {
    Nothing,
    /// Excludes only requests that have the whole file.
    SharedWhole(LockClass),
    Shared(Range<u64>),
    Exclusive(Range<u64>),
}

impl FileLocks {
    pub(super) fn new(table: Arc<LockTable>, policy: LockPolicy, mode: Mode) -> FileLocks {
        FileLocks { table, policy, mode }
    }

    /// Identifies the table: equal for all opens of one file.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.table).addr()
    }

    pub(super) fn stats(&self) -> LockStats {
        self.table.stats()
    }

    /// Locks the whole file alone.
    pub(super) fn whole(&self, class: LockClass) -> LockGuard {
        self.table.whole(class)
    }

    /// Locks a range alone.
    pub(super) fn exclusive(&self, range: Range<u64>, class: LockClass) -> LockGuard {
        self.table.exclusive(range, class)
    }

    /// Locks the whole pages of a range alone, or what the policy says instead.
    pub(super) fn pages(&self, range: Range<u64>, class: LockClass) -> LockGuard {
        self.table.exclusive(self.policy.span(pages_around(range)), class)
    }

    /// Keeps out resizes and misaligned writes, and nothing else. Takes no lock where the kernel
    /// orders requests itself.
    pub(super) fn shared_whole(&self, kind: OpKind) -> Option<LockGuard> {
        let class = if kind == OpKind::Read { LockClass::Read } else { LockClass::Write };
        (self.mode.wants_direct() || kind == OpKind::Write).then(|| self.table.whole_shared(class))
    }

    /// Takes the lock of a request within the file's present size. The kernel orders cached
    /// requests among themselves. A cached write also keeps direct ones out of its pages, and keeps
    /// out whatever writes a part of a block or changes the size.
    pub(super) fn lock(&self, kind: OpKind, range: Range<u64>) -> Option<LockGuard> {
        match self.claim(kind, range) {
            LockClaim::Nothing => None,
            LockClaim::SharedWhole(class) => Some(self.table.whole_shared(class)),
            LockClaim::Shared(range) => Some(self.table.shared(range, LockClass::Read)),
            LockClaim::Exclusive(range) => Some(self.table.exclusive(range, LockClass::Write)),
        }
    }

    /// As [`FileLocks::lock`], for a request with this routing.
    pub(super) fn lock_for(
        &self,
        routing: Routing,
        kind: OpKind,
        range: Range<u64>,
    ) -> Option<LockGuard> {
        self.lock(kind, routed(routing, range))
    }

    /// As [`FileLocks::lock_for`], for a thread that has requests of its own in flight; without a
    /// routing, as [`FileLocks::lock`]. Whoever holds the lock may wait for one of these requests,
    /// so none is in flight while the thread waits: `finish_some` finishes some of them, and
    /// returns false if there are none.
    ///
    /// # Errors
    /// Those of `finish_some`.
    pub(super) fn lock_beside<E>(
        &self,
        routing: Option<Routing>,
        kind: OpKind,
        range: Range<u64>,
        mut finish_some: impl FnMut() -> Result<bool, E>,
    ) -> Result<Option<LockGuard>, E> {
        let range = routing.map_or(range.clone(), |routing| routed(routing, range));
        loop {
            if let Some(lock) = self.try_lock(kind, range.clone()) {
                return Ok(lock);
            }
            if !finish_some()? {
                return Ok(self.lock(kind, range));
            }
        }
    }

    /// As [`FileLocks::lock`], without waiting. The outer `None` means that it would have to wait.
    pub(super) fn try_lock(&self, kind: OpKind, range: Range<u64>) -> Option<Option<LockGuard>> {
        match self.claim(kind, range) {
            LockClaim::Nothing => Some(None),
            LockClaim::SharedWhole(class) => self.table.try_whole_shared(class).map(Some),
            LockClaim::Shared(range) => self.table.try_shared(range, LockClass::Read).map(Some),
            LockClaim::Exclusive(range) => {
                self.table.try_exclusive(range, LockClass::Write).map(Some)
            }
        }
    }

    /// Which lock a request needs. Writes through the page cache dirty whole pages. A direct write
    /// of another block of such a page, or the eviction after it, would race with them (`open(2)`,
    /// NOTES), so their lock covers the pages.
    fn claim(&self, kind: OpKind, range: Range<u64>) -> LockClaim {
        let through_cache = kind == OpKind::Write && !self.mode.wants_direct();
        let range = self.policy.span(if through_cache { pages_around(range) } else { range });
        match (self.mode, kind) {
            (Mode::Concurrent, OpKind::Write) => LockClaim::SharedWhole(LockClass::Write),
            (_, OpKind::Write) => LockClaim::Exclusive(range),
            (Mode::Cached | Mode::Uncached, _) => LockClaim::Nothing,
            (Mode::Direct, _) => LockClaim::Shared(range),
            (Mode::Concurrent, _) => LockClaim::SharedWhole(LockClass::Read),
        }
    }
}

/// The range that a request with this routing locks.
fn routed(routing: Routing, range: Range<u64>) -> Range<u64> {
    if routing.keep_pages { pages_around(range) } else { range }
}

/// The whole pages that hold a range of a file. An empty range stays empty.
fn pages_around(range: Range<u64>) -> Range<u64> {
    let page = rustix::param::page_size() as u64;
    if range.is_empty() { range } else { align_down(range.start, page)..align_up(range.end, page) }
}
