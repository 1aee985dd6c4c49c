//! Leaving no page of a small file behind, and making everything durable.
//!
//! Small files are written plainly and their pages dropped in batches, each after one sync of the file system, as
//! `dio cp` does for trees. The batch bounds what waits in the cache.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use dio::geometry::{Directness, Geometry};
use dio::residency::{evict, write_back};
use rustix::fs::{Advice, OFlags, fadvise, fsync, syncfs};
use rustix::io::Errno;

use super::names::Clean;
use super::root::Root;

/// Bytes and files that wait for a sync at a time.
const MOST_BYTES: u64 = 64 << 20;
const MOST_FILES: usize = 16 << 10;

/// Files up to this many are synced one by one, which costs less than a sync of the file system and whatever others have
/// written there.
const FEW: usize = 16;

/// Threads that drop pages.
const THREADS: usize = 2;

/// Drops what passed through the cache.
#[derive(Debug, Default)]
pub(super) struct Evictor {
    waiting: Mutex<Batch>,
    /// One file of each file system that was written to.
    systems: Mutex<HashMap<u64, OwnedFd>>,
    /// The first files, until they are too many to be [`FEW`].
    first: Mutex<Vec<(Arc<Root>, Clean)>>,
    /// A sync leaves pages dirty that are in the journal too (ext4 with `data=journal`).
    journalled: OnceLock<bool>,
}

#[derive(Debug, Default)]
struct Batch {
    files: Vec<(Arc<Root>, Clean)>,
    bytes: u64,
}

impl Evictor {
    /// Notes a new file or directory, and its file system, for the sync at the end.
    pub(super) fn note(&self, dev: u64, fd: BorrowedFd<'_>, root: &Arc<Root>, path: &Clean) {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.len() <= FEW {
            first.push((Arc::clone(root), path.clone()));
        }
        drop(first);
        let mut systems = self.systems.lock().unwrap_or_else(PoisonError::into_inner);
        if !systems.contains_key(&dev)
            && let Ok(own) = fd.try_clone_to_owned()
        {
            systems.insert(dev, own);
        }
    }

    /// Writes back and drops a whole file, which is ours.
    pub(super) fn drop_written(&self, fd: BorrowedFd<'_>) {
        if write_back(fd, 0..i64::MAX as u64).is_ok() {
            // Pages that stay only cost memory.
            let _ = evict(fd, 0..i64::MAX as u64);
        }
    }

    /// A new file of `bytes` bytes whose pages are dirty. When a batch is full, its file system is synced now.
    pub(super) fn wait_for_sync(&self, fd: BorrowedFd<'_>, root: &Arc<Root>, path: &Clean, bytes: u64) {
        let refuses = |geometry: Geometry| geometry.directness() == Directness::Refused;
        self.journalled.get_or_init(|| Geometry::of(fd).is_ok_and(refuses));
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.files.push((Arc::clone(root), path.clone()));
        waiting.bytes += bytes;
        if waiting.bytes < MOST_BYTES && waiting.files.len() < MOST_FILES {
            return;
        }
        let batch = std::mem::take(&mut *waiting);
        drop(waiting);
        // Whether the data is durable is told at the end of the run; here it only has to be clean.
        if syncfs(fd).is_ok() {
            self.drop_pages(&batch);
        }
    }

    /// Makes everything durable and drops what waited.
    ///
    /// # Errors
    /// What syncing answers.
    pub(super) fn finish(&self) -> Result<(), Errno> {
        let systems = std::mem::take(&mut *self.systems.lock().unwrap_or_else(PoisonError::into_inner));
        let first = std::mem::take(&mut *self.first.lock().unwrap_or_else(PoisonError::into_inner));
        let synced = match first.len() <= FEW && first.iter().all(|(root, path)| sync_one(root, path)) {
            true => Ok(()),
            false => systems.values().map(syncfs).fold(Ok(()), Result::and),
        };
        let batch = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.drop_pages(&batch);
        synced
    }

    fn drop_pages(&self, batch: &Batch) {
        let share = batch.files.len().div_ceil(THREADS).max(1);
        let drop_share = |files: &[(Arc<Root>, Clean)]| files.iter().for_each(|file| self.drop_file(file));
        std::thread::scope(|threads| {
            let mut shares = batch.files.chunks(share);
            let own = shares.next();
            for files in shares {
                let thread = std::thread::Builder::new().name("evict".into());
                // Without one it takes longer.
                if thread.spawn_scoped(threads, move || drop_share(files)).is_err() {
                    drop_share(files);
                }
            }
            own.into_iter().for_each(drop_share);
        });
    }

    /// A file that cannot be opened again keeps its pages, which only cost memory.
    fn drop_file(&self, (root, path): &(Arc<Root>, Clean)) {
        let Ok(fd) = root.find_data(&path.0) else { return };
        if self.journalled.get() == Some(&true) {
            let _ = write_back(&fd, 0..i64::MAX as u64);
        }
        let _ = fadvise(fd.as_fd(), 0, None, Advice::DontNeed);
    }
}

/// Syncs a file or directory, and the directory it is in; false if that cannot be done by name.
fn sync_one(root: &Root, path: &Clean) -> bool {
    let sync = |found: Result<OwnedFd, Errno>| found.is_ok_and(|fd| fsync(fd).is_ok());
    let parent = path.split().map_or(&b""[..], |(parent, _)| parent);
    sync(root.find_data(&path.0)) && sync(root.find(parent, OFlags::RDONLY | OFlags::DIRECTORY))
}
