//! Drops the pages of small files from the page cache, where the kernel does not do so by itself.
//!
//! In a tree, small files are written through the cache, and their pages are dropped in batches,
//! each after one sync of the file system. `RWF_DONTCACHE` would start a separate write for each
//! file (measured: a fifth more CPU for 30,000 files). The size of a batch limits what waits in the
//! cache.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use dio::geometry::{Directness, Geometry};
use dio::residency::{evict, write_back};
use parking_lot::Mutex;
use rustix::fs::{Advice, fadvise, syncfs};
use rustix::io::Errno;

/// The most bytes and files that wait for a sync.
const MOST_BYTES: u64 = 64 << 20;
const MOST_FILES: usize = 16 << 10;

/// Threads that drop pages. Each file is opened again, which only takes CPU time.
const THREADS: usize = 2;

/// Opens again a file that was written and closed.
pub(crate) trait Reopen: Sync {
    /// Opens the file for reading.
    ///
    /// # Errors
    /// Errors of `open(2)`.
    fn reopen(&self) -> Result<OwnedFd, Errno>;
}

/// Drops the pages of files that were written through the cache on one file system.
#[derive(Debug)]
pub(crate) struct Evictor<F> {
    waiting: Mutex<Batch<F>>,
    /// Whether pages stay dirty after a sync, because the file system journals data (ext4 with
    /// `data=journal`).
    journalled: OnceLock<bool>,
}

/// Targets whose pages are dirty until the file system is synced.
#[derive(Debug)]
struct Batch<F> {
    files: Vec<F>,
    bytes: u64,
}

impl<F> Default for Batch<F> {
    fn default() -> Batch<F> {
        Batch { files: Vec::new(), bytes: 0 }
    }
}

impl<F> Default for Evictor<F> {
    fn default() -> Evictor<F> {
        Evictor { waiting: Mutex::default(), journalled: OnceLock::new() }
    }
}

impl<F: Reopen> Evictor<F> {
    /// Determines, once, whether the file system journals data; it then refuses direct I/O to files
    /// that are otherwise suited for it.
    pub(crate) fn journals(&self, fd: BorrowedFd<'_>) -> bool {
        let refuses = |geometry: Geometry| geometry.directness() == Directness::Refused;
        *self.journalled.get_or_init(|| Geometry::of(fd).is_ok_and(refuses))
    }

    /// Adds a new target of `bytes` bytes, whose pages are dirty. When the batch is full, its file
    /// system is synced now.
    pub(crate) fn wait_for_sync(&self, fd: BorrowedFd<'_>, file: F, bytes: u64) {
        self.journals(fd);
        let mut waiting = self.waiting.lock();
        waiting.files.push(file);
        waiting.bytes += bytes;
        if waiting.bytes < MOST_BYTES && waiting.files.len() < MOST_FILES {
            return;
        }
        let batch = std::mem::take(&mut *waiting);
        drop(waiting);
        // An error of this sync is ignored, because durability is decided at the end of the run.
        // Here the data only has to be clean.
        if syncfs(fd).is_ok() {
            self.drop_pages(&batch);
        }
    }

    /// Drops the pages of the last batch at the end of the run, when everything has been synced.
    pub(crate) fn finish(&self) {
        let batch = std::mem::take(&mut *self.waiting.lock());
        self.drop_pages(&batch);
    }

    fn drop_pages(&self, batch: &Batch<F>) {
        let share = batch.files.len().div_ceil(THREADS).max(1);
        let journalled = self.journalled.get() == Some(&true);
        let drop_share = |files: &[F]| files.iter().for_each(|file| drop_clean(file, journalled));
        std::thread::scope(|threads| {
            let mut shares = batch.files.chunks(share);
            let own = shares.next();
            for files in shares {
                let thread = std::thread::Builder::new().name("evict".into());
                // If no thread can be started, this thread does the work, which takes longer.
                if thread.spawn_scoped(threads, move || drop_share(files)).is_err() {
                    drop_share(files);
                }
            }
            own.into_iter().for_each(drop_share);
        });
    }
}

/// Drops the pages of one file. A file that cannot be opened again keeps its pages, which only cost
/// memory.
fn drop_clean(file: &impl Reopen, journalled: bool) {
    let Ok(fd) = file.reopen() else { return };
    if journalled {
        let _ = write_back(&fd, 0..i64::MAX as u64);
    }
    let _ = fadvise(fd.as_fd(), 0, None, Advice::DontNeed);
}

/// Writes back and drops the pages of a whole file that this process made or emptied.
pub(crate) fn drop_written(fd: impl AsFd) {
    if write_back(&fd, 0..i64::MAX as u64).is_ok() {
        // Pages that stay only cost memory.
        let _ = evict(&fd, 0..i64::MAX as u64);
    }
}
