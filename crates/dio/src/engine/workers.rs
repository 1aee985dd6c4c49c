//! The kernel's worker threads behind a ring, and what to do without them.
//!
//! The ring hands an operation that must wait (a write that extends a file, a sync) to a worker
//! thread of the kernel. Each thread that submits has workers of its own. They count as threads of
//! the user, so `ulimit -u` (RLIMIT_NPROC), a cgroup's `pids.max` or the system's limit may leave
//! none. Since Linux 6.10, and the stable kernels of its time, the kernel tries four times within
//! some 30 ms to start one, then ends every operation that waits for it with ECANCELED
//! (`io_uring/io-wq.c`, `create_worker_cont`). Older kernels try until they succeed.
//!
//! The choice of an engine therefore asks for a worker (`Uring::check_workers`), for a limited
//! time, and takes the blocking engine if none comes. When the limit is met only later, the calling
//! thread runs the cancelled operations itself. It goes on to run operations of that kind for a
//! while ([`WorkerShortage`]), because every attempt to get a worker costs those 30 ms. A worker
//! that exists stays and does all the work of its thread, one operation after another, whatever the
//! limits become.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Resource;
use rustix::time::ClockId;

use super::OpKind;

/// How long the calling thread does the work before it asks for a worker again. One attempt of some
/// 30 ms per second costs little.
const SHORTAGE_LASTS: Duration = Duration::from_secs(1);

/// Whether the kernel lacked workers a short while ago. Reads are counted apart from everything
/// else, because direct reads mostly need no worker.
#[derive(Debug)]
pub(super) struct WorkerShortage {
    /// When the shortage of workers for reads ends, in milliseconds of the monotonic clock; 0 if
    /// there is none.
    reads_until_ms: AtomicU64,
    others_until_ms: AtomicU64,
}

/// The shortage of this process: limits on threads hold for all of its rings.
pub(super) static SHORTAGE: WorkerShortage = WorkerShortage::new();

impl WorkerShortage {
    const fn new() -> WorkerShortage {
        WorkerShortage { reads_until_ms: AtomicU64::new(0), others_until_ms: AtomicU64::new(0) }
    }

    fn end_ms(&self, kind: OpKind) -> &AtomicU64 {
        if kind == OpKind::Read { &self.reads_until_ms } else { &self.others_until_ms }
    }

    /// Records that there was no worker for an operation of this kind.
    pub(super) fn record(&self, kind: OpKind) {
        self.end_ms(kind).store(now_ms() + SHORTAGE_LASTS.as_millis() as u64, Ordering::Relaxed);
    }

    /// Whether the calling thread should run an operation of this kind itself.
    pub(super) fn is_active(&self, kind: OpKind) -> bool {
        let end_ms = self.end_ms(kind);
        match end_ms.load(Ordering::Relaxed) {
            0 => false,
            time if now_ms() < time => true,
            time => {
                // Does nothing if another thread has recorded a new shortage.
                let _ = end_ms.compare_exchange(time, 0, Ordering::Relaxed, Ordering::Relaxed);
                false
            }
        }
    }
}

/// Milliseconds of the monotonic clock. The coarse clock is cheap.
fn now_ms() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::MonotonicCoarse);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// What may limit the number of threads, in words. The kernel reports that it cancelled an
/// operation, not why.
pub(super) fn thread_limits() -> String {
    match rustix::process::getrlimit(Resource::Nproc).current {
        Some(limit) => format!(
            "RLIMIT_NPROC (ulimit -u) is {limit}, or the control group's pids.max is reached"
        ),
        None => "the control group's pids.max, or the system's limit on threads, is reached".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_of_a_kind_and_passes() {
        let shortage = WorkerShortage::new();
        assert!(!shortage.is_active(OpKind::Write));
        shortage.record(OpKind::SyncData);
        assert!(
            shortage.is_active(OpKind::Write)
                && shortage.is_active(OpKind::SyncAll)
                && !shortage.is_active(OpKind::Read)
        );
        shortage.others_until_ms.store(now_ms(), Ordering::Relaxed);
        assert!(!shortage.is_active(OpKind::Write));
        assert_eq!(shortage.others_until_ms.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_limit_is_named() {
        assert!(thread_limits().contains("pids.max"));
    }
}
