//! Invalidation of the kernel's page cache of the mount.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::crew::FileCrew;
use crate::names::InodeId;

type DropPages = Box<dyn Fn(InodeId, Range<u64>) + Send + Sync>;

/// Sends notifications to the kernel.
pub(super) struct Kernel {
    drop_pages: OnceLock<Arc<DropPages>>,
    /// A separate thread: the kernel may block a notification until requests in progress end, and
    /// these requests may wait for other background threads.
    crew: FileCrew,
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernel").finish_non_exhaustive()
    }
}

impl Default for Kernel {
    fn default() -> Kernel {
        Kernel { drop_pages: OnceLock::new(), crew: FileCrew::new(1) }
    }
}

impl Kernel {
    /// Sets the function that makes the kernel drop pages.
    pub(super) fn on_drop_pages(
        &self,
        drop_pages: impl Fn(InodeId, Range<u64>) + Send + Sync + 'static,
    ) {
        let _ = self.drop_pages.set(Arc::new(Box::new(drop_pages)));
    }

    /// Makes the kernel drop a part of its cache of an inode of the mount, soon and in the
    /// background. An empty range stands for the whole inode.
    pub(super) fn drop_pages(&self, ino: InodeId, range: Range<u64>) {
        if let Some(drop_pages) = self.drop_pages.get().cloned() {
            self.crew.run(false, move || drop_pages(ino, range));
        }
    }
}
