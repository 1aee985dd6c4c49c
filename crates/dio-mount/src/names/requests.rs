//! What requests to the tree carry, and what a lookup answers.

use std::time::SystemTime;

use rustix::fs::Stat;

use super::inodes::InodeId;

/// Who asks: credentials of the process behind a request.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// User for file accesses.
    pub uid: u32,
    /// Group for file accesses.
    pub gid: u32,
    /// Process (thread) number, 0 where it is not visible from here.
    pub pid: u32,
}

/// An inode that was looked up; the kernel holds it until it says `forget`.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its number in this mount.
    pub inode: InodeId,
    /// Distinguishes two inodes that had the same number one after the other; there are none, so it
    /// is 0.
    pub generation: u64,
    /// Its attributes. `st_ino` is unique in the mount: it is that of the source, but on file
    /// systems that are mounted below the source it has an index of the file system in its upper
    /// bits.
    pub stat: Stat,
}

/// A time to set.
#[derive(Debug, Clone, Copy)]
pub enum Time {
    /// That of the server when it comes to it.
    Now,
    /// This one.
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
    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        let Changes { mode, uid, gid, accessed, modified } = self;
        mode.or(*uid).or(*gid).is_none() && accessed.or(*modified).is_none()
    }
}
