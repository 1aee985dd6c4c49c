//! Replies to reads of directories.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::handle::Reply;
use crate::abi;
use crate::types::{Entry, FileType, INodeNo};

/// Alignment of entries, in bytes (`FUSE_DIRENT_ALIGN`).
const ALIGN: usize = 8;

/// Most bytes that are reserved at first. A longer list grows.
const RESERVED_BYTES_MAX: usize = 128 << 10;

/// Entries of a directory, one behind the other.
#[derive(Debug)]
struct List {
    bytes: Vec<u8>,
    room: usize,
}

impl List {
    fn new(size: u32) -> List {
        let room = size as usize;
        List { bytes: Vec::with_capacity(room.min(RESERVED_BYTES_MAX)), room }
    }

    /// Whether there is room for an entry with `head` bytes before it.
    fn fits(&self, head: usize, name: &OsStr) -> bool {
        self.bytes.len() + head + size_of::<abi::Dirent>() + name.len().next_multiple_of(ALIGN)
            <= self.room
    }

    /// Adds `head`, whose length is a multiple of 8, and an entry. Returns true, and adds nothing,
    /// if there is no room.
    fn push(&mut self, head: &[u8], ino: u64, off: u64, kind: FileType, name: &OsStr) -> bool {
        if !self.fits(head.len(), name) {
            return true;
        }
        let name = name.as_bytes();
        let padded = name.len().next_multiple_of(ALIGN);
        let dirent = abi::Dirent { ino, off, namelen: name.len() as u32, kind: kind.dirent_type() };
        self.bytes.extend_from_slice(head);
        self.bytes.extend_from_slice(dirent.as_bytes());
        self.bytes.extend_from_slice(name);
        self.bytes.resize(self.bytes.len() + padded - name.len(), 0);
        false
    }
}

/// A reply of names in a directory.
#[derive(Debug)]
pub struct ReplyDirectory {
    reply: Reply,
    list: List,
}

impl ReplyDirectory {
    pub(crate) fn new(reply: Reply, size: u32) -> ReplyDirectory {
        ReplyDirectory { reply, list: List::new(size) }
    }

    /// Adds a name with its `st_ino`. The next read continues behind this name if it starts at
    /// `offset`. Returns true, and adds nothing, if there is no room.
    #[must_use]
    pub fn add(
        &mut self,
        ino: INodeNo,
        offset: u64,
        kind: FileType,
        name: impl AsRef<OsStr>,
    ) -> bool {
        self.list.push(&[], ino.0, offset, kind, name.as_ref())
    }

    /// Sends the added names. No names mean the end of the directory.
    pub fn ok(self) {
        self.reply.send(&[&self.list.bytes]);
    }

    /// Replies with an error.
    pub fn error(self, errno: Errno) {
        self.reply.error(errno);
    }
}

/// A reply of names in a directory and their inodes.
#[derive(Debug)]
pub struct ReplyDirectoryPlus {
    reply: Reply,
    list: List,
}

impl ReplyDirectoryPlus {
    pub(crate) fn new(reply: Reply, size: u32) -> ReplyDirectoryPlus {
        ReplyDirectoryPlus { reply, list: List::new(size) }
    }

    /// Whether there is room for a name, with its inode or alone.
    pub fn fits(&self, name: impl AsRef<OsStr>) -> bool {
        self.list.fits(size_of::<abi::EntryOut>(), name.as_ref())
    }

    /// Adds a name and its inode. Unless the name is `.` or `..`, this counts as a lookup of the
    /// inode. `offset` and the result are as in [`ReplyDirectory::add`].
    #[must_use]
    pub fn add(&mut self, offset: u64, name: impl AsRef<OsStr>, entry: &Entry) -> bool {
        let head = abi::EntryOut::from(entry);
        self.list.push(head.as_bytes(), entry.attr.ino.0, offset, entry.attr.kind, name.as_ref())
    }

    /// Adds a name without its inode, but with its `st_ino`. The kernel looks the name up when it
    /// must.
    #[must_use]
    pub fn add_name(
        &mut self,
        ino: INodeNo,
        offset: u64,
        kind: FileType,
        name: impl AsRef<OsStr>,
    ) -> bool {
        // The kernel uses only the name of an entry with node 0 (`fuse_direntplus_link` of
        // fs/fuse/readdir.c).
        let head = abi::EntryOut::default();
        self.list.push(head.as_bytes(), ino.0, offset, kind, name.as_ref())
    }

    /// Sends the added names. No names mean the end of the directory.
    pub fn ok(self) {
        self.reply.send(&[&self.list.bytes]);
    }

    /// Replies with an error.
    pub fn error(self, errno: Errno) {
        self.reply.error(errno);
    }
}
