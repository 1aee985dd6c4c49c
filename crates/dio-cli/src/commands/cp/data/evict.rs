//! Leaving no page of a small file behind where the kernel has no `RWF_DONTCACHE`.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Mutex;

use dio::residency::{evict, write_back};

/// Targets remembered until the file system is synced: bounds memory, and the pages that wait.
const MOST_WAITING: usize = 4096;

/// Drops what passed through the cache.
#[derive(Debug, Default)]
pub(super) struct Evictor {
    /// Targets whose pages are dirty until the file system is synced.
    waiting: Mutex<Vec<PathBuf>>,
}

impl Evictor {
    /// Writes back and drops a whole file, which is ours: it was made or emptied by us. A sync is not enough: with
    /// `data=journal` on ext4 the pages stay dirty after it.
    pub(super) fn drop_written(&self, fd: BorrowedFd<'_>) {
        if write_back(fd, 0..i64::MAX as u64).is_ok() {
            // Pages that stay only cost memory.
            let _ = evict(fd, 0..i64::MAX as u64);
        }
    }

    /// A new target whose pages are dirty. When too many wait, this one is written back now.
    pub(super) fn wait_for_sync(&self, fd: BorrowedFd<'_>, path: PathBuf) {
        let mut waiting = self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if waiting.len() < MOST_WAITING {
            waiting.push(path);
            return;
        }
        drop(waiting);
        self.drop_written(fd);
    }

    /// At the end of the run: drops what has become clean.
    pub(super) fn finish(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        for path in waiting {
            if let Ok(file) = std::fs::File::open(&path) {
                self.drop_written(file.as_fd());
            }
        }
    }
}
