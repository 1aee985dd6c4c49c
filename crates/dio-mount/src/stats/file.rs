//! The figures of one file, from open to close.

use std::sync::Arc;
use std::time::Duration;

use dio::lock::LockStats;
use dio::{Class, Counters, File};

use super::{Event, Kind, Wait};

/// What keeps counters of its own for as long as it lives: a [`dio::File`].
pub trait Source: Send + Sync {
    /// Bytes by class and reason, requests to the kernel: since it began.
    fn counters(&self) -> Counters;

    /// Waits by class, since they began to be counted. Sources of the same inode have them together.
    fn lock_stats(&self) -> LockStats;
}

impl Source for File {
    fn counters(&self) -> Counters {
        File::counters(self)
    }

    fn lock_stats(&self) -> LockStats {
        File::lock_stats(self)
    }
}

/// The figures of an inode that is open. Dropping the last one of an inode moves them to its path.
#[derive(Debug)]
pub struct FileStats {}

/// A source that is read at every snapshot, and for the last time when this is dropped.
#[derive(Debug)]
pub struct Attached {}

impl FileStats {
    /// From now on a snapshot counts what `source` counts, from where it stands. `lock` is what its reads and writes wait
    /// for: [`Wait::Range`] in direct mode with range locks, [`Wait::File`] in concurrent mode and under
    /// [`LockPolicy::WholeFile`](dio::lock::LockPolicy::WholeFile). What resizes or is misaligned waits for the file in any mode.
    ///
    /// The guard keeps the source alive; drop it when the file is to be closed.
    #[must_use]
    pub fn attach(self: &Arc<Self>, source: Arc<dyn Source>, lock: Wait) -> Attached {
        let _ = (source, lock);
        unimplemented!("next commit")
    }

    /// A program's read was answered with so many bytes, `latency` after it arrived. `class` is how most of them travelled:
    /// [`Class::Direct`] or [`Class::Bounced`] past the page cache (bounced also from what was read ahead), else
    /// [`Class::Cached`] or [`Class::Uncached`].
    pub fn read(&self, class: Class, bytes: u64, latency: Duration) {
        let _ = (class, bytes, latency);
    }

    /// A program's write of so many bytes was acknowledged, `latency` after it arrived; written behind it is
    /// [`Class::Bounced`].
    pub fn written(&self, class: Class, bytes: u64, latency: Duration) {
        let _ = (class, bytes, latency);
    }

    /// A program's sync was answered.
    pub fn synced(&self, latency: Duration) {
        let _ = latency;
    }

    /// A program's request failed.
    pub fn error(&self, kind: Kind) {
        let _ = kind;
    }

    /// Something happened, once, to so many bytes.
    pub fn count(&self, event: Event, bytes: u64) {
        let _ = (event, bytes);
    }

    /// A request was blocked for so long on something that the sources attached do not count.
    pub fn waited(&self, wait: Wait, duration: Duration) {
        let _ = (wait, duration);
    }

    /// Bytes that did not pass through an attached source, by class and reason (for what reads and writes by descriptor).
    pub fn add(&self, counters: &Counters) {
        let _ = counters;
    }
}
