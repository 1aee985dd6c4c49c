//! The kernel's worker threads behind a ring, and what to do without them.
//!
//! What a ring cannot do without waiting (a write that extends a file, a sync) goes to a worker thread, of which each thread
//! that submits has its own. They count as threads of the user: under `ulimit -u` (RLIMIT_NPROC), a cgroup's `pids.max` or
//! the system's limit there may be none. Since Linux 6.10, and the stable kernels of its time, the kernel tries four times
//! within some 30 ms, then ends with ECANCELED everything that waits for the worker (`io_uring/io-wq.c`,
//! `create_worker_cont`). Before, it tries until it succeeds.
//!
//! So the choice of an engine tries (`Uring::check_workers`), with an end to its patience, and takes the blocking engine where no worker
//! comes. Where the limit is met only later, the calling thread runs what was cancelled, and the like of it for a while
//! ([`Shortage`]) because each attempt to do better costs those 30 ms. A worker that is there stays and does all of its
//! thread's work, one request after another, whatever the limits become.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Resource;
use rustix::time::ClockId;

use super::Kind;

/// For how long the calling thread does the work before a worker is asked for again: then the attempt, of some 30 ms, costs
/// little of the time.
const PAUSE: Duration = Duration::from_secs(1);

/// Whether workers were missing a short while ago, for reads and for everything else: direct reads are mostly done without.
#[derive(Debug)]
pub(super) struct Shortage {
    /// Until when, in milliseconds of the monotonic clock; 0 while there was none.
    reads: AtomicU64,
    others: AtomicU64,
}

/// Of this process: limits on threads hold for all of its rings.
pub(super) static SHORTAGE: Shortage = Shortage::new();

impl Shortage {
    const fn new() -> Shortage {
        Shortage { reads: AtomicU64::new(0), others: AtomicU64::new(0) }
    }

    fn of(&self, kind: Kind) -> &AtomicU64 {
        if kind == Kind::Read { &self.reads } else { &self.others }
    }

    /// There was no worker for such an operation.
    pub(super) fn note(&self, kind: Kind) {
        self.of(kind).store(now() + PAUSE.as_millis() as u64, Ordering::Relaxed);
    }

    /// Whether such an operation had better be run by the calling thread.
    pub(super) fn holds(&self, kind: Kind) -> bool {
        let until = self.of(kind);
        match until.load(Ordering::Relaxed) {
            0 => false,
            time if now() < time => true,
            time => {
                // Unless it was noted again.
                let _ = until.compare_exchange(time, 0, Ordering::Relaxed, Ordering::Relaxed);
                false
            }
        }
    }
}

/// Milliseconds of the monotonic clock, coarse but cheap.
fn now() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// What may limit the number of threads. The kernel tells that it cancelled a request, not why.
pub(super) fn limits() -> String {
    match rustix::process::getrlimit(Resource::Nproc).current {
        Some(limit) => format!("RLIMIT_NPROC (ulimit -u) is {limit}, or the control group's pids.max is reached"),
        None => "the control group's pids.max, or the system's limit on threads, is reached".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_of_a_kind_and_passes() {
        let shortage = Shortage::new();
        assert!(!shortage.holds(Kind::Write));
        shortage.note(Kind::SyncData);
        assert!(shortage.holds(Kind::Write) && shortage.holds(Kind::SyncAll) && !shortage.holds(Kind::Read));
        shortage.others.store(now(), Ordering::Relaxed);
        assert!(!shortage.holds(Kind::Write));
        assert_eq!(shortage.others.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_limit_is_named() {
        assert!(limits().contains("pids.max"));
    }
}
