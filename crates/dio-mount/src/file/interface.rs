//! Types that a mount and its open files exchange.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use dio_fuse::{BackingId, FopenFlags};
use rustix::fs::OFlags;
use rustix::io::Result;

use crate::names::InodeId;

/// The result of an open, for the kernel.
#[derive(Debug)]
pub struct Opened {
    /// The number of the handle in later requests.
    pub handle: u64,
    /// Flags by which the kernel treats the handle. `FOPEN_PASSTHROUGH` is not among them: it goes
    /// with `backing`.
    pub flags: FopenFlags,
    /// The file that the kernel reads, writes and maps itself, if it may.
    pub backing: Option<Arc<BackingId>>,
}

/// The file that a program opens, and the program's user.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The inode.
    pub ino: InodeId,
    /// Its path relative to the source, for messages and statistics.
    pub path: &'a Path,
    /// The program's user.
    pub user: u32,
}

/// Opens an inode of the source for the server.
pub type Opener<'a> = &'a dyn Fn(OFlags) -> Result<OwnedFd>;

/// Registers a file with the kernel as a backing file, on which the kernel may do I/O itself.
pub type MakeBacking<'a> = &'a dyn Fn(BorrowedFd<'_>) -> io::Result<BackingId>;

/// Properties of a write besides its bytes, as the kernel sends them.
#[derive(Clone, Copy, Debug)]
pub struct WriteProperties {
    /// `open(2)` flags of the file at this moment, including those of the single call. Only
    /// `O_DSYNC`, `O_SYNC` and `O_APPEND` are evaluated (`FUSE_WRITE` sends the flags with every
    /// request).
    pub flags: OFlags,
    /// The bytes come from the kernel's cache of the mount, on behalf of a mapping
    /// (`FUSE_WRITE_CACHE`).
    pub cache: bool,
    /// Set-id bits must be cleared (`FUSE_WRITE_KILL_SUIDGID`).
    pub kill_privileges: bool,
}
