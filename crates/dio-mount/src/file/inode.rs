//! An open inode as the background sees it: what reading ahead, writing behind and the handles all
//! need.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::changes::Changes;
use super::crew::Crew;
use super::descriptors::{About, Descriptors};
use super::errors::Errors;
use super::janitor::Janitor;
use super::kernel::Kernel;
use super::memory::{Chunk, Memory};
use crate::names::InodeId;
use crate::options::Live;
use crate::users::Users;

/// Where the source has less room than this many bytes besides what is pending everywhere, nothing
/// is acknowledged before it is written: a lack of space is then told by the very write that meets
/// it.
const ROOM: u64 = 64 << 20;

/// What all inodes have in common.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) live: Live,
    pub(super) memory: Arc<Memory>,
    /// Those of the server's descriptors that each user holds.
    pub(super) descriptors: Arc<Users>,
    pub(super) crew: Crew,
    /// Drops what streams leave in the page cache, which may take as long as a slow disk needs.
    pub(super) dropper: Crew,
    pub(super) kernel: Kernel,
    pub(super) janitor: Janitor,
    /// Writes to the source of what had been acknowledged before. Counted before what is pending
    /// becomes less.
    pub(super) epoch: AtomicU64,
}

/// An inode with open handles, without what is pending of it.
#[derive(Debug)]
pub(super) struct Inode {
    pub(super) ino: InodeId,
    pub(super) about: About,
    pub(super) common: Arc<Common>,
    pub(super) changes: Arc<Changes>,
    pub(super) errors: Errors,
    /// Up to where this server has written, resized or allocated the source. What is behind it was
    /// put there by others.
    pub(super) own_end: AtomicU64,
}

impl Inode {
    /// Nothing has been written or read yet.
    pub(super) fn new(ino: InodeId, about: About, common: Arc<Common>) -> Inode {
        let (changes, errors, own_end) = Default::default();
        Inode { ino, about, common, changes, errors, own_end }
    }

    /// Memory for `len` bytes, within the shares of the user who opened the inode first.
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
