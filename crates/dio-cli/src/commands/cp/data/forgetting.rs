//! What lets go of the pages of small files.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Mode as FileMode, OFlags, open};
use rustix::io::Errno;

use crate::tool::evict::Reopen;
use crate::tool::{DontCache, Mode};

/// A small target that is complete.
#[derive(Debug)]
pub(super) struct SmallTarget(pub(super) PathBuf);

impl Reopen for SmallTarget {
    fn reopen(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        open(&self.0, flags, FileMode::empty())
    }
}

/// Where `RWF_DONTCACHE` is of use.
#[derive(Debug)]
pub(super) struct Forgetting {
    /// Refused by the kernel; found out at the first file.
    pub(super) read: DontCache,
    /// The same, or pages are dropped after a sync of the file system anyway.
    pub(super) write: DontCache,
}

impl Forgetting {
    /// `batches` says that the run syncs whole file systems.
    pub(super) fn new(mode: Mode, batches: bool) -> Forgetting {
        let wanted = mode != Mode::Cached;
        Forgetting { read: DontCache::new(wanted), write: DontCache::new(wanted && !batches) }
    }
}
