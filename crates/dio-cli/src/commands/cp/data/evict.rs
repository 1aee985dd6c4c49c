//! Leaving no page of a small file behind where the kernel has no `RWF_DONTCACHE`.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Mutex;

use dio::residency::evict;

/// Targets remembered until the file system is synced: bounds memory, and the pages that wait.
const MOST_WAITING: usize = 4096;

/// Drops what passed through the cache.
#[derive(Debug, Default)]
pub(super) struct Evictor {
    /// Targets whose pages are dirty until the file system is synced.
    waiting: Mutex<Vec<PathBuf>>,
}

impl Evictor {
    /// The whole file is ours to drop: it had no page resident before.
    pub(super) fn drop_clean(&self, fd: BorrowedFd<'_>) {
        // Pages that stay only cost memory.
        let _ = evict(fd, 0..i64::MAX as u64);
    }

    /// A new target whose pages are dirty. When too many wait, this one is written back now.
    pub(super) fn wait_for_sync(&self, fd: BorrowedFd<'_>, path: PathBuf) {
        let mut waiting = self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if waiting.len() < MOST_WAITING {
            waiting.push(path);
            return;
        }
        drop(waiting);
        if dio::residency::write_back(fd, 0..i64::MAX as u64).is_ok() {
            self.drop_clean(fd);
        }
    }

    /// At the end of the run: drops what has become clean. Without a sync, it is written back first.
    pub(super) fn finish(&self, synced: bool) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        for path in waiting {
            let Ok(file) = std::fs::File::open(&path) else { continue };
            if synced || dio::residency::write_back(&file, 0..i64::MAX as u64).is_ok() {
                self.drop_clean(file.as_fd());
            }
        }
    }
}
