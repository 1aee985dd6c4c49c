//! Parameters of requests to the tree, and the answer to a lookup.

use std::time::SystemTime;

use rustix::fs::Stat;

use super::inodes::InodeId;

/// The credentials of the process that made a request.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// User ID for file accesses.
    pub uid: u32,
    /// Group ID for file accesses.
    pub gid: u32,
    /// Process (thread) ID; 0 where the process is not visible from here.
    pub pid: u32,
}

/// An inode that was looked up; the kernel holds it until it sends `forget`.
#[derive(Debug, Clone)]
pub struct FoundInode {
    /// Its number in this mount.
    pub inode: InodeId,
    /// Distinguishes successive inodes with the same number. Numbers are never reused, so it is 0.
    pub generation: u64,
    /// Its attributes. `st_ino` is unique in the mount. It is that of the source; for file systems
    /// mounted below the source, the upper bits contain an index of the file system.
    pub stat: Stat,
}

/// A time to set.
#[derive(Debug, Clone, Copy)]
pub enum Time {
    /// The server's time when it makes the change.
    Now,
    /// This time.
    At(SystemTime),
}

/// Attributes to change.
#[derive(Debug, Clone, Copy, Default)]
pub struct Changes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Access time.
    pub accessed: Option<Time>,
    /// Modification time.
    pub modified: Option<Time>,
}

impl Changes {
    /// Whether there is nothing to change.
    pub fn is_empty(&self) -> bool {
        let Changes { mode, uid, gid, accessed, modified } = self;
        mode.or(*uid).or(*gid).is_none() && accessed.or(*modified).is_none()
    }
}
