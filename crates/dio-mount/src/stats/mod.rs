//! Statistics of a mount: requests, bytes by class, latencies, waits for locks.
//!
//! The threads that serve requests count here, at low cost. A reader of the counters takes a
//! [`Snapshot`] and, for rates, the [`Interval`] between two of them. The other modules use it as
//! follows:
//!
//! | module | call | counts |
//! |---|---|---|
//! | serve | `let mut timer = stats.begin(Operation::Read)` | the latency, when the timer is dropped |
//! | serve | `timer.fail(errno)` | an error of that request |
//! | file | `let figures = stats.file(inode, path)` | nothing; all opens of the inode share the result |
//! | file | `let attached = figures.attach(file, Wait::Range)` | bytes of a `dio::File` by class and reason, waits by class |
//! | file | `figures.read(Class::Direct, bytes, latency)` | a request of a program; likewise written, synced, errors |
//! | file | `figures.count(Event::ReadAheadHit, bytes)` | other events |
//! | file | `figures.waited(Wait::Room, duration)` | waits outside a `dio::File` |
//! | mount | `stats.gauge(Gauge::Inodes, move \|\| count)` | nothing: called when a snapshot is taken |
//!
//! Memory is bounded: latencies have a fixed number of buckets for each operation in use and each
//! shard. Of closed files, the busiest [`KEPT`] paths have counters of their own, the others are
//! only in the sums.

mod figures;
mod file;
mod kept;
mod latency;
mod named;
mod operation;
pub mod prometheus;
mod snapshot;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::io::Errno;

use file::{FileTable, nanos};
use latency::Recorder;

pub use figures::Figures;
pub use file::{Attached, FileCounters, FileStats};
pub use latency::{LONGEST, Latency};
pub use named::{Named, Tally};
pub use operation::{Event, Gauge, Operation, RequestKind, Wait};
pub use snapshot::{FileFigures, Interval, Process, Snapshot, VERSION};

/// Number of paths of closed files with counters of their own.
pub const KEPT: usize = 256;

/// Number of files that a snapshot lists; the others are in its sums.
pub const TOLD: usize = 64;

/// Error numbers are counted below this; Linux has fewer (`errno(3)`).
const ERRNOS: usize = 256;

type GaugeValue = Box<dyn Fn() -> u64 + Send + Sync>;

type ErrorCallback = Box<dyn Fn(Errno) + Send + Sync>;

/// All statistics of one mount.
pub struct Stats {
    began: Instant,
    /// Microseconds since 1970 when it began. This distinguishes servers that successively served
    /// the same mount point.
    started: u64,
    about: Mutex<BTreeMap<String, String>>,
    latencies: Recorder,
    /// Number of running timers.
    in_hand: AtomicU64,
    errnos: Box<[AtomicU64]>,
    book: Arc<FileTable>,
    /// Waits that belong to no file.
    loose: figures::RequestCounts,
    gauges: Mutex<Vec<(Gauge, GaugeValue)>>,
    first_error: OnceLock<ErrorCallback>,
}

impl fmt::Debug for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stats").field("started", &self.started).finish_non_exhaustive()
    }
}

impl Stats {
    /// Makes statistics in which all counters are 0.
    pub fn new() -> Arc<Stats> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began = Instant::now();
        Arc::new(Stats {
            began,
            started: u64::try_from(since.as_micros()).unwrap_or(u64::MAX),
            about: Mutex::default(),
            latencies: Recorder::new(),
            in_hand: AtomicU64::new(0),
            errnos: (0..ERRNOS).map(|_| AtomicU64::new(0)).collect(),
            book: FileTable::new(began, KEPT),
            loose: figures::RequestCounts::default(),
            gauges: Mutex::default(),
            first_error: OnceLock::new(),
        })
    }

    /// Sets a text about the mount that every snapshot contains. Reports show `mountpoint`,
    /// `source` and `mode`.
    pub fn describe(&self, what: &str, text: impl Into<String>) {
        self.about.lock().insert(what.to_owned(), text.into());
    }

    /// Begins a request that has arrived. Its latency is recorded when the timer is dropped.
    pub fn begin(&self, operation: Operation) -> Timer<'_> {
        Timing::new(self, operation)
    }

    /// As [`Stats::begin`], for a request that may be answered by another function, or thread, than
    /// the one that received it.
    pub fn begin_long(self: &Arc<Self>, operation: Operation) -> LongTimer {
        Timing::new(Arc::clone(self), operation)
    }

    /// Records a request that had no [`Timer`].
    pub fn record(&self, operation: Operation, took: Duration, error: Option<Errno>) {
        self.latencies.record(operation, took, error.is_some());
        if let Some(errno) = error {
            self.count_errno(errno);
        }
    }

    fn count_errno(&self, errno: Errno) {
        let number = usize::try_from(errno.raw_os_error()).unwrap_or(0).min(ERRNOS - 1);
        if self.errnos[number].fetch_add(1, Ordering::Relaxed) == 0
            && let Some(tell) = self.first_error.get()
        {
            tell(errno);
        }
    }

    /// Sets a function that is called with each error number when it is counted for the first time.
    /// Only the first call of this has an effect.
    pub fn on_first_error(&self, tell: impl Fn(Errno) + Send + Sync + 'static) {
        let _ = self.first_error.set(Box::new(tell));
    }

    /// Returns the counters of an inode, for as long as it is open. `path` is the path by which it
    /// was opened; it is ignored if the inode is open already.
    pub fn file(&self, inode: u64, path: impl AsRef<std::path::Path>) -> Arc<FileStats> {
        self.book.open(inode, path.as_ref())
    }

    /// Counts a request that was blocked for `duration` and concerns no file, or one that is not
    /// known yet.
    pub fn waited(&self, wait: Wait, duration: Duration) {
        self.loose.waits.add(wait, 1);
        self.loose.waited.add(wait, nanos(duration));
    }

    /// As [`Stats::waited`], for an unknown duration.
    pub fn was_blocked(&self, wait: Wait) {
        self.loose.waits.add(wait, 1);
    }

    /// Number of requests that have a [`Timer`] and are not answered yet.
    pub fn in_hand(&self) -> u64 {
        self.in_hand.load(Ordering::Relaxed)
    }

    /// Adds a function that every snapshot calls for the value of a gauge. Several values for one
    /// gauge are added up. The function must neither take a snapshot nor block.
    pub fn gauge(&self, gauge: Gauge, ask: impl Fn() -> u64 + Send + Sync + 'static) {
        self.gauges.lock().push((gauge, Box::new(ask)));
    }

    /// Takes a snapshot of all statistics. Counters are read one by one: while requests are served,
    /// they may differ by the requests in progress.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot {
            version: VERSION,
            started: self.started,
            // The time is read first: a file that is opened later, and not listed, is then
            // recognised as younger than the snapshot.
            nanos: nanos(self.began.elapsed()),
            about: self.about.lock().clone(),
            ..Snapshot::default()
        };
        for operation in Operation::ALL {
            if let Some(latency) = self.latencies.reading(operation) {
                snapshot.operations.insert(operation.name().to_owned(), latency);
            }
        }
        for (number, count) in self.errnos.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                snapshot.errors.insert(number as i32, count);
            }
        }
        let reading = self.book.reading(TOLD);
        snapshot.total = reading.total;
        self.loose.add_to(&mut snapshot.total);
        snapshot.open_files = reading.open;
        snapshot.files = reading.files;
        snapshot.gauges.insert(Gauge::Requests.name().to_owned(), self.in_hand());
        for (gauge, ask) in self.gauges.lock().iter() {
            *snapshot.gauges.entry(gauge.name().to_owned()).or_default() += ask();
        }
        snapshot.process = Process::this();
        snapshot
    }
}

/// A request in progress.
#[derive(Debug)]
#[must_use = "the latency is recorded when this is dropped"]
pub struct Timing<S: Deref<Target = Stats>> {
    stats: S,
    operation: Operation,
    began: Instant,
    failed: bool,
}

/// A request that is answered by the function that received it.
pub type Timer<'a> = Timing<&'a Stats>;

/// A request that is answered elsewhere.
pub type LongTimer = Timing<Arc<Stats>>;

impl<S: Deref<Target = Stats>> Timing<S> {
    fn new(stats: S, operation: Operation) -> Timing<S> {
        stats.in_hand.fetch_add(1, Ordering::Relaxed);
        Timing { stats, operation, began: Instant::now(), failed: false }
    }

    /// Records that the request failed with this error.
    pub fn fail(&mut self, errno: Errno) {
        self.failed = true;
        self.stats.count_errno(errno);
    }

    /// Records an error, if `result` is one.
    pub fn note<T>(&mut self, result: &Result<T, Errno>) {
        if let Err(errno) = result {
            self.fail(*errno);
        }
    }

    /// Time since the request arrived.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

impl<S: Deref<Target = Stats>> Drop for Timing<S> {
    fn drop(&mut self) {
        self.stats.latencies.record(self.operation, self.began.elapsed(), self.failed);
        self.stats.in_hand.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
