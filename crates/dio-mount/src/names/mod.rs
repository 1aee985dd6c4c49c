//! The tree: inodes, names and attributes of the source, resolved beneath it and nowhere else.

use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::SystemTime;

use rustix::fs::{Access, OFlags, RenameFlags, Stat, StatVfs, XattrFlags};
use rustix::io::{Errno, Result};

/// The number by which the kernel knows an inode of a mount; 1 is the root.
pub type InodeId = u64;

/// The root of every mount.
pub const ROOT: InodeId = 1;

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
    /// Distinguishes two inodes that had the same number one after the other.
    pub generation: u64,
    /// Its attributes.
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

/// One name in a directory.
#[derive(Debug, Clone)]
pub struct Name {
    /// The name; `.` and `..` among them.
    pub name: OsString,
    /// `d_type` of `getdents64(2)`.
    pub kind: rustix::fs::FileType,
    /// The inode number of the source.
    pub number: u64,
    /// Where reading goes on behind it.
    pub next: u64,
}

/// The tree of one mount.
#[derive(Debug)]
pub struct Names {}

impl Names {
    /// The tree below `source`, an open directory.
    ///
    /// # Errors
    /// That of `fstat(2)`.
    pub fn new(source: OwnedFd, act_as_callers: bool) -> Result<Names> {
        let _ = (source, act_as_callers);
        Err(Errno::NOSYS)
    }
}
