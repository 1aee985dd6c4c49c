//! What a mount passes to its open files, and what it gets from them.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use dio_fuse::{BackingId, FopenFlags};
use rustix::fs::OFlags;
use rustix::io::Result;

use crate::names::InodeId;

/// What an open gives to the kernel.
#[derive(Debug)]
pub struct Opened {
    /// Names the handle in later requests.
    pub handle: u64,
    /// How the kernel is to treat it, but for `FOPEN_PASSTHROUGH`, which goes with `backing`.
    pub flags: FopenFlags,
    /// The file that the kernel itself reads, writes and maps, where it may.
    pub backing: Option<Arc<BackingId>>,
}

/// What a program wants open.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The inode.
    pub ino: InodeId,
    /// Where it is, relative to the source: for messages and statistics.
    pub path: &'a Path,
    /// The program's user.
    pub user: u32,
}

/// Opens an inode of the source for the server.
pub type Opener<'a> = &'a dyn Fn(OFlags) -> Result<OwnedFd>;

/// Makes a file known to the kernel as one that it may use by itself.
pub type MakeBacking<'a> = &'a dyn Fn(BorrowedFd<'_>) -> io::Result<BackingId>;

/// What the kernel says of a write besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// `open(2)` flags of the file at this moment, those of the single call included: `O_DSYNC`,
    /// `O_SYNC` and `O_APPEND` are looked at (`FUSE_WRITE` sends them with every request).
    pub flags: OFlags,
    /// From the kernel's cache of the mount, on behalf of a mapping (`FUSE_WRITE_CACHE`).
    pub cache: bool,
    /// Set-id bits are to be cleared (`FUSE_WRITE_KILL_SUIDGID`).
    pub kill_privileges: bool,
}
