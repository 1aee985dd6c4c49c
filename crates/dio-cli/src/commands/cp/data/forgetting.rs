//! Dropping the cached pages of small files.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Mode as FileMode, OFlags, open};
use rustix::io::Errno;

use crate::tool::evict::Reopen;
use crate::tool::{DontCache, Mode};

/// The path of a complete small target.
#[derive(Debug)]
pub(super) struct SmallTarget(pub(super) PathBuf);

impl Reopen for SmallTarget {
    fn reopen(&self) -> Result<OwnedFd, Errno> {
        let flags =
            OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        open(&self.0, flags, FileMode::empty())
    }
}

/// Whether `RWF_DONTCACHE` is used for reads and for writes.
#[derive(Debug)]
pub(super) struct DontCacheSupport {
    /// Flag for reads. The kernel may refuse it, which the first file shows.
    pub(super) read: DontCache,
    /// Flag for writes. It is also off if pages are dropped anyway after a sync of the file system.
    pub(super) write: DontCache,
}

impl DontCacheSupport {
    /// `batches` says that the run syncs whole file systems at the end.
    pub(super) fn new(mode: Mode, batches: bool) -> DontCacheSupport {
        let wanted = mode != Mode::Cached;
        DontCacheSupport { read: DontCache::new(wanted), write: DontCache::new(wanted && !batches) }
    }
}
