//! How often a file's lock was taken and waited for, by class of request.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The class that a request for the lock is counted under. It follows from the operation that asks,
/// not from the kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockClass {
    /// A read.
    Read,
    /// A write of aligned blocks that leaves the size unchanged.
    Write,
    /// An operation that changes the size: extending write, truncation.
    Resize,
    /// A write that covers some blocks only in part.
    Misaligned,
}

impl LockClass {
    /// Every class, in the order of reports.
    pub const ALL: [LockClass; 4] =
        [LockClass::Read, LockClass::Write, LockClass::Resize, LockClass::Misaligned];

    /// The class's name in reports, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            LockClass::Read => "read",
            LockClass::Write => "write",
            LockClass::Resize => "resize",
            LockClass::Misaligned => "misaligned",
        }
    }
}

/// Counts of one class since the table was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassStats {
    /// Locks granted, at once or after a wait. A refused `try_…` is not counted.
    pub acquisitions: u64,
    /// Times a caller had to block. A wait is counted when it begins, so that present waits are
    /// included.
    pub waits: u64,
    /// Time spent blocked, in nanoseconds, summed over callers. Added when a wait ends.
    pub wait_nanos: u64,
}

impl ClassStats {
    /// Time spent blocked.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.wait_nanos)
    }
}

/// The counters of a lock table at one moment. They are read one by one: while the file is in use,
/// they may differ by operations in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockStats([ClassStats; LockClass::ALL.len()]);

impl LockStats {
    /// The counts of one class.
    pub fn get(&self, class: LockClass) -> ClassStats {
        self.0[class as usize]
    }

    /// The counts of all classes together.
    pub fn total(&self) -> ClassStats {
        self.0.iter().fold(ClassStats::default(), |sum, c| ClassStats {
            acquisitions: sum.acquisitions + c.acquisitions,
            waits: sum.waits + c.waits,
            wait_nanos: sum.wait_nanos + c.wait_nanos,
        })
    }
}

thread_local! {
    static THREAD_WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// How long this thread has waited for locks since it began. The difference around a call is the
/// time that the call waited.
pub fn waited_here() -> Duration {
    THREAD_WAITED.get()
}

/// Waits of all tables of this process.
static PROCESS_WAITS: LockCounters = LockCounters::new();

/// How often, and how long, threads of this process have waited for locks since it began. Locks
/// granted at once are not counted, so [`ClassStats::acquisitions`] is 0.
pub fn waits_of_this_process() -> LockStats {
    PROCESS_WAITS.snapshot()
}

/// The live counters of one class.
#[derive(Debug, Default)]
struct ClassCounters {
    acquisitions: AtomicU64,
    waits: AtomicU64,
    wait_nanos: AtomicU64,
}

impl ClassCounters {
    const fn new() -> ClassCounters {
        ClassCounters {
            acquisitions: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            wait_nanos: AtomicU64::new(0),
        }
    }
}

/// The live counters of a table. No order between them is promised, hence `Relaxed` throughout.
#[derive(Debug, Default)]
pub(super) struct LockCounters([ClassCounters; LockClass::ALL.len()]);

impl LockCounters {
    const fn new() -> LockCounters {
        LockCounters([const { ClassCounters::new() }; LockClass::ALL.len()])
    }

    pub(super) fn acquired(&self, class: LockClass) {
        let counter = &self.0[class as usize];
        counter.acquisitions.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn wait_begins(&self, class: LockClass) {
        self.0[class as usize].waits.fetch_add(1, Ordering::Relaxed);
        PROCESS_WAITS.0[class as usize].waits.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn wait_ends(&self, class: LockClass, waited: Duration) {
        let nanos = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.0[class as usize].wait_nanos.fetch_add(nanos, Ordering::Relaxed);
        PROCESS_WAITS.0[class as usize].wait_nanos.fetch_add(nanos, Ordering::Relaxed);
        THREAD_WAITED.set(THREAD_WAITED.get() + waited);
    }

    pub(super) fn snapshot(&self) -> LockStats {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        LockStats(self.0.each_ref().map(|counter| ClassStats {
            acquisitions: load(&counter.acquisitions),
            waits: load(&counter.waits),
            wait_nanos: load(&counter.wait_nanos),
        }))
    }
}
