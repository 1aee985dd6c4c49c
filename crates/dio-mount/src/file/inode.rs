//! An open inode without its pending bytes: the state that read-ahead, write-behind and the handles
//! all need.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::changes::Changes;
use super::crew::FileCrew;
use super::descriptors::{Descriptors, InodeProperties};
use super::errors::Errors;
use super::janitor::Janitor;
use super::kernel::Kernel;
use super::memory::{Chunk, Memory};
use super::throttle::Throttle;
use crate::names::InodeId;
use crate::options::Live;
use crate::users::Users;

/// Free bytes that the file system of the source must have besides the most that may be pending in
/// the whole mount. With less, nothing is acknowledged before it is written, so that a lack of
/// space is reported by the very write that meets it.
const ROOM: u64 = 64 << 20;

/// State that all inodes share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) live: Live,
    pub(super) memory: Arc<Memory>,
    /// The number of the server's descriptors that each user holds.
    pub(super) descriptors: Arc<Users>,
    pub(super) crew: FileCrew,
    /// Drops the pages that streams leave in the page cache. This may take as long as a slow disk
    /// needs.
    pub(super) dropper: FileCrew,
    pub(super) throttle: Throttle,
    pub(super) kernel: Kernel,
    pub(super) janitor: Janitor,
    /// Number of writes to the source of bytes that had been acknowledged before. It increases
    /// before the number of pending bytes decreases.
    pub(super) epoch: AtomicU64,
}

/// An inode with open handles, without its pending bytes.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) ino: InodeId,
    pub(super) about: InodeProperties,
    pub(super) common: Arc<Common>,
    pub(super) changes: Arc<Changes>,
    pub(super) errors: Errors,
    /// Offset up to which this server has written, resized or allocated the source. Bytes after it
    /// were put there by other programs.
    pub(super) own_end: AtomicU64,
}

impl Inode {
    /// Creates the state of an inode of which nothing has been written or read yet.
    pub(super) fn new(ino: InodeId, about: InodeProperties, common: Arc<Common>) -> Inode {
        let (changes, errors, own_end) = Default::default();
        Inode { ino, about, common, changes, errors, own_end }
    }

    /// Returns memory for `len` bytes, within the share of the user who opened the inode first.
    pub(super) fn memory(&self, len: usize) -> Option<Chunk> {
        self.common.memory.take(self.about.user, len)
    }

    /// Whether a write that is acknowledged now will find room on the file system of the source
    /// later.
    pub(super) fn has_room(&self, descriptors: &Descriptors) -> bool {
        let pending = self.common.live.get().limit;
        let room = rustix::fs::fstatvfs(descriptors.base());
        room.is_ok_and(|room| room.f_bavail.saturating_mul(room.f_frsize) >= ROOM + pending)
    }
}
