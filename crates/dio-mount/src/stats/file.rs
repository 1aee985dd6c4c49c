//! The figures of one file, from open to close.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dio::lock::{LockStats, waited_here};
use dio::{Class, Counters, File};
use parking_lot::{Mutex, MutexGuard};

use super::figures::{Counts, Figures};
use super::kept::Kept;
use super::snapshot::FileFigures;
use super::{Event, Kind, Wait};

/// What keeps counters of its own for as long as it lives: a [`dio::File`].
pub trait Source: Send + Sync {
    /// Bytes by class and reason, requests to the kernel: since it began.
    fn counters(&self) -> Counters;

    /// Waits by class, since they began to be counted. Sources of the same inode have them
    /// together.
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
pub struct FileStats {
    inode: u64,
    cells: Arc<Cells>,
    book: Arc<Book>,
}

/// A source that is read at every snapshot, and for the last time when this is dropped.
#[derive(Debug)]
#[must_use = "the source is detached when this is dropped"]
pub struct Attached {
    file: Arc<FileStats>,
    number: u64,
}

impl FileStats {
    /// From now on a snapshot counts what `source` counts, from where it stands. `lock` is what its
    /// reads and writes wait for: [`Wait::Range`] in direct mode with range locks, [`Wait::File`]
    /// in concurrent mode and under [`LockPolicy::WholeFile`](dio::lock::LockPolicy::WholeFile).
    /// What resizes or is misaligned waits for the file in any mode.
    ///
    /// The guard keeps the source alive; drop it when the file is to be closed.
    pub fn attach(self: &Arc<Self>, source: Arc<dyn Source>, lock: Wait) -> Attached {
        let number = self.cells.sources().attach(source, lock);
        Attached { file: Arc::clone(self), number }
    }

    /// A program's read was answered with so many bytes, `latency` after it arrived. `class` is how
    /// most of them travelled: [`Class::Direct`] or [`Class::Bounced`] past the page cache (bounced
    /// also from what was read ahead), else [`Class::Cached`] or [`Class::Uncached`].
    pub fn read(&self, class: Class, bytes: u64, latency: Duration) {
        self.cells.counts.read_requests.add(class, 1);
        self.answered(Kind::Read, bytes, latency);
    }

    /// A program's write of so many bytes was acknowledged, `latency` after it arrived; written
    /// behind it is [`Class::Bounced`].
    pub fn written(&self, class: Class, bytes: u64, latency: Duration) {
        self.cells.counts.write_requests.add(class, 1);
        self.answered(Kind::Write, bytes, latency);
    }

    /// A program's sync was answered.
    pub fn synced(&self, latency: Duration) {
        self.answered(Kind::Sync, 0, latency);
    }

    fn answered(&self, kind: Kind, bytes: u64, latency: Duration) {
        let counts = &self.cells.counts;
        counts.requests.add(kind, 1);
        counts.bytes.add(kind, bytes);
        counts.nanos.add(kind, nanos(latency));
    }

    /// A program's request failed.
    pub fn error(&self, kind: Kind) {
        self.cells.counts.errors.add(kind, 1);
    }

    /// Something happened, once, to so many bytes.
    pub fn count(&self, event: Event, bytes: u64) {
        self.cells.counts.events.add(event, 1);
        self.cells.counts.event_bytes.add(event, bytes);
    }

    /// A request was blocked for so long on something that the sources attached do not count.
    pub fn waited(&self, wait: Wait, duration: Duration) {
        self.cells.counts.waits.add(wait, 1);
        self.cells.counts.waited.add(wait, nanos(duration));
    }

    /// Does what waits for the device, and counts that, without the time that it waits for locks.
    pub fn on_device<T>(&self, work: impl FnOnce() -> T) -> T {
        let (since, locked) = (Instant::now(), waited_here());
        let done = work();
        self.waited_for_device(since.elapsed(), locked);
        done
    }

    /// A request of this thread waited for the device, all of the time but for what it waited for
    /// locks, which had come to `locked` ([`waited_here`]) when it began.
    pub fn waited_for_device(&self, took: Duration, locked: Duration) {
        self.waited(Wait::Device, took.saturating_sub(waited_here().saturating_sub(locked)));
    }

    /// Bytes that did not pass through an attached source, by class and reason (for what reads and
    /// writes by descriptor).
    pub fn add(&self, counters: &Counters) {
        self.cells.sources().done().add_counters(counters, &Counters::default());
    }

    /// The path by which the inode was opened first, as it was then.
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

/// What is counted of an inode that is open.
#[derive(Debug)]
struct Cells {
    path: PathBuf,
    /// When it was opened, in nanoseconds since the mount began.
    since: u64,
    counts: Counts,
    sources: Mutex<Sources>,
}

impl Cells {
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
    /// Of sources that are detached, and locks as far as they were told. Made when there is
    /// anything.
    done: Option<Box<Figures>>,
    /// All sources of an inode have one lock, so it is read of any of them. Invariant: set while
    /// any is attached.
    locks: Option<Locks>,
}

struct Numbered {
    number: u64,
    source: Arc<dyn Source>,
    /// Its counters when it was attached.
    before: Counters,
}

impl fmt::Debug for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Numbered").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The lock of the sources.
#[derive(Debug)]
struct Locks {
    /// What reads and writes wait for.
    lock: Wait,
    /// The reading up to which waits are in `done`.
    told: LockStats,
}

impl Sources {
    fn done(&mut self) -> &mut Figures {
        self.done.get_or_insert_default()
    }

    fn attach(&mut self, source: Arc<dyn Source>, lock: Wait) -> u64 {
        self.tell_locks();
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
        let Some(place) = self.attached.iter().position(|each| each.number == number) else { return };
        self.tell_locks();
        let gone = self.attached.swap_remove(place);
        self.done().add_counters(&gone.source.counters(), &gone.before);
        if self.attached.is_empty() {
            self.locks = None;
        }
    }

    /// Moves the waits since the last time to what is done.
    fn tell_locks(&mut self) {
        if let (Some(locks), Some(any)) = (&mut self.locks, self.attached.first()) {
            let now = any.source.lock_stats();
            self.done.get_or_insert_default().add_locks(&now, &locks.told, locks.lock);
            locks.told = now;
        }
    }

    fn add_to(&mut self, sum: &mut Figures) {
        self.tell_locks();
        if let Some(done) = &self.done {
            sum.plus(done);
        }
        for each in &self.attached {
            sum.add_counters(&each.source.counters(), &each.before);
        }
    }
}

/// All files: those open by inode, and those that were.
#[derive(Debug)]
pub(super) struct Book {
    began: Instant,
    pages: Mutex<Pages>,
}

#[derive(Debug)]
struct Pages {
    /// Invariant: an inode is here exactly while there is a [`FileStats`] of it, and then its
    /// numbers are not in `closed`; both change under the one lock, so that a sum over both never
    /// goes back.
    open: HashMap<u64, Open>,
    closed: Figures,
    kept: Kept,
}

#[derive(Debug)]
struct Open {
    cells: Arc<Cells>,
    /// How many [`FileStats`] there are of it.
    users: u32,
}

/// What a [`Book`] says at one moment.
pub(super) struct Reading {
    pub(super) total: Figures,
    /// Inodes that are open.
    pub(super) open: u64,
    /// The busiest, the busiest first.
    pub(super) files: Vec<FileFigures>,
}

impl Book {
    pub(super) fn new(began: Instant, places: usize) -> Arc<Book> {
        let pages = Pages { open: HashMap::new(), closed: Figures::default(), kept: Kept::new(places) };
        Arc::new(Book { began, pages: Mutex::new(pages) })
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock()
    }

    pub(super) fn open(self: &Arc<Self>, inode: u64, path: &Path) -> Arc<FileStats> {
        let mut pages = self.pages();
        let open = pages.open.entry(inode).or_insert_with(|| {
            let since = nanos(self.began.elapsed());
            let cells = Cells { path: path.to_owned(), since, counts: Counts::default(), sources: Mutex::default() };
            Open { cells: Arc::new(cells), users: 0 }
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

    /// The sums, and the figures of the `most` busiest paths. Opens and closes wait for it: a
    /// millisecond for some thousands of open files.
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
        let mut open: Vec<(&u64, &Open)> = pages.open.iter().collect();
        open.sort_by_cached_key(|(_, open)| std::cmp::Reverse(open.cells.counts.requests.total()));
        for (place, (inode, open)) in open.into_iter().enumerate() {
            if place >= most {
                open.cells.add_to(&mut total);
                continue;
            }
            let mut figures = Figures::default();
            open.cells.add_to(&mut figures);
            total.plus(&figures);
            let file = files.entry(&open.cells.path).or_insert_with(|| row(&open.cells.path, open.cells.since));
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
