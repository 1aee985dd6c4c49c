//! The counters of one file, from open to close.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dio::lock::{LockStats, waited_here};
use dio::{Class, Counters, File};
use parking_lot::{Mutex, MutexGuard};

use super::figures::{Figures, RequestCounts};
use super::kept::BusiestPaths;
use super::snapshot::FileFigures;
use super::{Event, RequestKind, Wait};

/// An object that has counters of its own for as long as it exists: a [`dio::File`].
pub trait FileCounters: Send + Sync {
    /// Returns the bytes by class and reason, and the requests to the kernel, since it was made.
    fn counters(&self) -> Counters;

    /// Returns the waits by class. Sources of the same inode share these counters.
    fn lock_stats(&self) -> LockStats;
}

impl FileCounters for File {
    fn counters(&self) -> Counters {
        File::counters(self)
    }

    fn lock_stats(&self) -> LockStats {
        File::lock_stats(self)
    }
}

/// The counters of an open inode. Dropping the last one of an inode moves them to its path.
#[derive(Debug)]
pub struct FileStats {
    inode: u64,
    cells: Arc<InodeCounters>,
    book: Arc<FileTable>,
}

/// A source that is read at every snapshot, and for the last time when this is dropped.
#[derive(Debug)]
#[must_use = "the source is detached when this is dropped"]
pub struct Attached {
    file: Arc<FileStats>,
    number: u64,
}

impl FileStats {
    /// Adds a source: snapshots include the increase of its counters from now on. `lock` is the
    /// lock that its reads and writes wait for: [`Wait::Range`] in direct mode with range locks,
    /// [`Wait::File`] in concurrent mode and under
    /// [`LockPolicy::WholeFile`](dio::lock::LockPolicy::WholeFile). Resizes and misaligned requests
    /// wait for the file's lock in every mode.
    ///
    /// The guard keeps the source alive; drop it before the file is closed.
    pub fn attach(self: &Arc<Self>, source: Arc<dyn FileCounters>, lock: Wait) -> Attached {
        let number = self.cells.sources().attach(source, lock);
        Attached { file: Arc::clone(self), number }
    }

    /// Counts a program's read of `bytes` bytes, answered `latency` after it arrived. `class` is
    /// the class of most of the bytes. [`Class::Direct`] and [`Class::Bounced`] bypassed the page
    /// cache; bytes that were read ahead are bounced too. Other bytes are [`Class::Cached`] or
    /// [`Class::Uncached`].
    pub fn read(&self, class: Class, bytes: u64, latency: Duration) {
        self.cells.counts.read_requests.add(class, 1);
        self.answered(RequestKind::Read, bytes, latency);
    }

    /// Counts a program's write of `bytes` bytes, acknowledged `latency` after it arrived. Its
    /// class is [`Class::Bounced`] if it is written behind.
    pub fn written(&self, class: Class, bytes: u64, latency: Duration) {
        self.cells.counts.write_requests.add(class, 1);
        self.answered(RequestKind::Write, bytes, latency);
    }

    /// Counts a program's sync.
    pub fn synced(&self, latency: Duration) {
        self.answered(RequestKind::Sync, 0, latency);
    }

    fn answered(&self, kind: RequestKind, bytes: u64, latency: Duration) {
        let counts = &self.cells.counts;
        counts.requests.add(kind, 1);
        counts.bytes.add(kind, bytes);
        counts.nanos.add(kind, nanos(latency));
    }

    /// Counts a program's request that failed.
    pub fn error(&self, kind: RequestKind) {
        self.cells.counts.errors.add(kind, 1);
    }

    /// Counts an event that concerns `bytes` bytes.
    pub fn count(&self, event: Event, bytes: u64) {
        self.cells.counts.events.add(event, 1);
        self.cells.counts.event_bytes.add(event, bytes);
    }

    /// Counts a request that was blocked for `duration` on an object that no attached source
    /// counts.
    pub fn waited(&self, wait: Wait, duration: Duration) {
        self.cells.counts.waits.add(wait, 1);
        self.cells.counts.waited.add(wait, nanos(duration));
    }

    /// Runs `work`, and counts its time as waiting for the device, except the time that it waits
    /// for locks.
    pub fn on_device<T>(&self, work: impl FnOnce() -> T) -> T {
        let (since, locked) = (Instant::now(), waited_here());
        let done = work();
        self.waited_for_device(since.elapsed(), locked);
        done
    }

    /// Counts a request of this thread that waited for the device during `took`, except the time
    /// that it waited for locks. `locked` is the value of [`waited_here`] when the request began.
    pub fn waited_for_device(&self, took: Duration, locked: Duration) {
        self.waited(Wait::Device, took.saturating_sub(waited_here().saturating_sub(locked)));
    }

    /// Adds bytes that did not pass through an attached source, by class and reason (for I/O on
    /// bare descriptors).
    pub fn add(&self, counters: &Counters) {
        self.cells.sources().done().add_counters(counters, &Counters::default());
    }

    /// The path by which the inode was first opened, as it was then.
    pub fn path(&self) -> &Path {
        &self.cells.path
    }
}

impl Drop for FileStats {
    fn drop(&mut self) {
        self.book.close(self.inode);
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.file.cells.sources().detach(self.number);
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The counters of an open inode.
#[derive(Debug)]
struct InodeCounters {
    path: PathBuf,
    /// When it was opened, in nanoseconds since the mount began.
    since: u64,
    counts: RequestCounts,
    sources: Mutex<Sources>,
}

impl InodeCounters {
    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock()
    }

    fn add_to(&self, sum: &mut Figures) {
        self.counts.add_to(sum);
        self.sources().add_to(sum);
    }
}

/// The sources of one inode.
#[derive(Debug, Default)]
struct Sources {
    attached: Vec<Numbered>,
    next: u64,
    /// Counters of sources that are detached, and lock counters up to the last
    /// [`Sources::collect_lock_waits`]. `None` while there are none.
    done: Option<Box<Figures>>,
    /// All sources of an inode share one lock, so its counters are read from any of them.
    /// Invariant: set while a source is attached.
    locks: Option<Locks>,
}

struct Numbered {
    number: u64,
    source: Arc<dyn FileCounters>,
    /// Its counters when it was attached.
    before: Counters,
}

impl fmt::Debug for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Numbered").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The lock counters that the sources share.
#[derive(Debug)]
struct Locks {
    /// The lock that reads and writes wait for.
    lock: Wait,
    /// The reading up to which waits are contained in `done`.
    told: LockStats,
}

impl Sources {
    fn done(&mut self) -> &mut Figures {
        self.done.get_or_insert_default()
    }

    fn attach(&mut self, source: Arc<dyn FileCounters>, lock: Wait) -> u64 {
        self.collect_lock_waits();
        let number = self.next;
        self.next += 1;
        match &mut self.locks {
            Some(locks) => locks.lock = lock,
            None => self.locks = Some(Locks { lock, told: source.lock_stats() }),
        }
        self.attached.push(Numbered { number, before: source.counters(), source });
        number
    }

    fn detach(&mut self, number: u64) {
        let Some(place) = self.attached.iter().position(|each| each.number == number) else {
            return;
        };
        self.collect_lock_waits();
        let gone = self.attached.swap_remove(place);
        self.done().add_counters(&gone.source.counters(), &gone.before);
        if self.attached.is_empty() {
            self.locks = None;
        }
    }

    /// Adds the waits since the last call to `done`.
    fn collect_lock_waits(&mut self) {
        if let (Some(locks), Some(any)) = (&mut self.locks, self.attached.first()) {
            let now = any.source.lock_stats();
            self.done.get_or_insert_default().add_locks(&now, &locks.told, locks.lock);
            locks.told = now;
        }
    }

    fn add_to(&mut self, sum: &mut Figures) {
        self.collect_lock_waits();
        if let Some(done) = &self.done {
            sum.plus(done);
        }
        for each in &self.attached {
            sum.add_counters(&each.source.counters(), &each.before);
        }
    }
}

/// The counters of all files, open and closed.
#[derive(Debug)]
pub(super) struct FileTable {
    began: Instant,
    pages: Mutex<FileTableState>,
}

#[derive(Debug)]
struct FileTableState {
    /// Invariant: an inode is in this map exactly while there is a [`FileStats`] of it, and then
    /// its counters are not in `closed`. Both change under one lock, so a sum over both never
    /// decreases.
    open: HashMap<u64, OpenFigures>,
    closed: Figures,
    kept: BusiestPaths,
}

#[derive(Debug)]
struct OpenFigures {
    cells: Arc<InodeCounters>,
    /// Number of [`FileStats`] of the inode.
    users: u32,
}

/// The contents of a [`FileTable`] at one moment.
pub(super) struct Reading {
    pub(super) total: Figures,
    /// Number of open inodes.
    pub(super) open: u64,
    /// The busiest files, the busiest first.
    pub(super) files: Vec<FileFigures>,
}

impl FileTable {
    pub(super) fn new(began: Instant, places: usize) -> Arc<FileTable> {
        let pages = FileTableState {
            open: HashMap::new(),
            closed: Figures::default(),
            kept: BusiestPaths::new(places),
        };
        Arc::new(FileTable { began, pages: Mutex::new(pages) })
    }

    fn pages(&self) -> MutexGuard<'_, FileTableState> {
        self.pages.lock()
    }

    pub(super) fn open(self: &Arc<Self>, inode: u64, path: &Path) -> Arc<FileStats> {
        let mut pages = self.pages();
        let open = pages.open.entry(inode).or_insert_with(|| {
            let since = nanos(self.began.elapsed());
            let cells = InodeCounters {
                path: path.to_owned(),
                since,
                counts: RequestCounts::default(),
                sources: Mutex::default(),
            };
            OpenFigures { cells: Arc::new(cells), users: 0 }
        });
        open.users += 1;
        let cells = Arc::clone(&open.cells);
        drop(pages);
        Arc::new(FileStats { inode, cells, book: Arc::clone(self) })
    }

    fn close(&self, inode: u64) {
        let mut pages = self.pages();
        let Some(open) = pages.open.get_mut(&inode) else { return };
        open.users -= 1;
        if open.users > 0 {
            return;
        }
        let Some(open) = pages.open.remove(&inode) else { return };
        let mut figures = Figures::default();
        open.cells.add_to(&mut figures);
        pages.closed.plus(&figures);
        if figures != Figures::default() {
            pages.kept.add(open.cells.path.clone(), open.cells.since, &figures);
        }
    }

    /// Returns the sums, and the counters of the `most` busiest paths. Opens and closes wait for
    /// this: a millisecond for some thousands of open files.
    pub(super) fn reading(&self, most: usize) -> Reading {
        let pages = self.pages();
        let mut total = pages.closed.clone();
        let mut files: HashMap<&Path, FileFigures> = HashMap::new();
        let row = |path: &Path, since| FileFigures {
            path: path.to_string_lossy().into_owned(),
            since,
            ..FileFigures::default()
        };
        for (path, since, figures) in pages.kept.iter() {
            files.insert(path, FileFigures { figures: figures.clone(), ..row(path, since) });
        }
        let mut open: Vec<(&u64, &OpenFigures)> = pages.open.iter().collect();
        open.sort_by_cached_key(|(_, open)| std::cmp::Reverse(open.cells.counts.requests.total()));
        for (place, (inode, open)) in open.into_iter().enumerate() {
            if place >= most {
                open.cells.add_to(&mut total);
                continue;
            }
            let mut figures = Figures::default();
            open.cells.add_to(&mut figures);
            total.plus(&figures);
            let file = files
                .entry(&open.cells.path)
                .or_insert_with(|| row(&open.cells.path, open.cells.since));
            file.since = file.since.min(open.cells.since);
            file.inode = Some(*inode);
            file.open += 1;
            file.figures.plus(&figures);
        }
        let mut files: Vec<FileFigures> = files.into_values().collect();
        let open = pages.open.len() as u64;
        drop(pages);
        files.sort_by(|one, other| {
            let weight = |file: &FileFigures| std::cmp::Reverse(file.figures.requests.total());
            weight(one).cmp(&weight(other)).then_with(|| one.path.cmp(&other.path))
        });
        files.truncate(most);
        Reading { total, open, files }
    }
}

#[cfg(test)]
mod tests;
