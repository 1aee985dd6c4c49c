//! Replies of one structure each.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::handle::Reply;
use crate::abi;
use crate::flags::FopenFlags;
use crate::passthrough::BackingId;
use crate::types::{Entry, FileAttr, FileHandle, Statx};

/// Defines types around [`Reply`], each with the method `error`.
macro_rules! replies {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(pub(crate) Reply);

        impl $name {
            /// Replies with an error.
            pub fn error(self, errno: Errno) {
                self.0.error(errno);
            }
        }
    )*};
}

replies! {
    /// A reply without contents.
    ReplyEmpty;
    /// A reply of bytes.
    ReplyData;
    /// A reply of the inode that a name refers to.
    ReplyEntry;
    /// A reply of attributes.
    ReplyAttr;
    /// A reply of attributes, with those that `stat(2)` lacks.
    ReplyStatx;
    /// A reply of an open file or directory.
    ReplyOpen;
    /// A reply of a file that was created and is open.
    ReplyCreate;
    /// A reply of the number of bytes written.
    ReplyWrite;
    /// A reply of statistics of the file system.
    ReplyStatfs;
    /// A reply of extended attributes, or of their length.
    ReplyXattr;
    /// A reply of a file position.
    ReplyLseek;
    /// A reply of the result of an `ioctl(2)`.
    ReplyIoctl;
}

impl ReplyEmpty {
    /// Replies with success.
    pub fn ok(self) {
        self.0.send(&[]);
    }
}

impl ReplyData {
    /// Sends bytes, at most as many as the request asked for. They go to the kernel from where they
    /// are; with io_uring, they are copied once.
    pub fn data(self, bytes: &[u8]) {
        self.0.send(&[bytes]);
    }
}

impl ReplyEntry {
    /// Sends the inode that the name refers to.
    pub fn entry(self, entry: &Entry) {
        self.0.send(&[abi::EntryOut::from(entry).as_bytes()]);
    }

    /// Replies that the name does not exist, which the kernel may cache for `ttl`. After
    /// `error(NOENT)` it caches nothing.
    pub fn negative(self, ttl: Duration) {
        let (entry_valid, entry_valid_nsec) = (ttl.as_secs(), ttl.subsec_nanos());
        self.0.send(&[
            abi::EntryOut { entry_valid, entry_valid_nsec, ..Default::default() }.as_bytes()
        ]);
    }
}

impl ReplyAttr {
    /// Sends attributes, which the kernel may cache for `ttl`.
    pub fn attr(self, ttl: &Duration, attr: &FileAttr) {
        let (attr_valid, attr_valid_nsec) = (ttl.as_secs(), ttl.subsec_nanos());
        self.0
            .send(&[abi::AttrOut { attr_valid, attr_valid_nsec, dummy: 0, attr: attr.into() }
                .as_bytes()]);
    }
}

impl ReplyStatx {
    /// Sends attributes, which the kernel may cache for `ttl`.
    pub fn statx(self, ttl: &Duration, statx: &Statx) {
        let (attr_valid, attr_valid_nsec) = (ttl.as_secs(), ttl.subsec_nanos());
        let out =
            abi::StatxOut { attr_valid, attr_valid_nsec, stat: statx.into(), ..Default::default() };
        self.0.send(&[out.as_bytes()]);
    }
}

fn open_out(fh: FileHandle, flags: FopenFlags) -> abi::OpenOut {
    abi::OpenOut {
        fh: fh.0,
        open_flags: (flags - FopenFlags::FOPEN_PASSTHROUGH).bits(),
        backing_id: 0,
    }
}

fn backed_out(fh: FileHandle, flags: FopenFlags, backing: &BackingId) -> abi::OpenOut {
    let open_flags = (flags | FopenFlags::FOPEN_PASSTHROUGH).bits();
    abi::OpenOut { fh: fh.0, open_flags, backing_id: backing.number().cast_signed() }
}

impl ReplyOpen {
    /// Replies that the file is open.
    pub fn opened(self, fh: FileHandle, flags: FopenFlags) {
        self.0.send(&[open_out(fh, flags).as_bytes()]);
    }

    /// As [`ReplyOpen::opened`], and the kernel itself reads and writes `backing`. With
    /// `FOPEN_DIRECT_IO`, it only maps `backing`. All open files of an inode must have the same
    /// `backing`.
    pub fn opened_passthrough(self, fh: FileHandle, flags: FopenFlags, backing: &BackingId) {
        self.0.send(&[backed_out(fh, flags, backing).as_bytes()]);
    }

    /// Registers a file with the kernel, for [`ReplyOpen::opened_passthrough`].
    ///
    /// # Errors
    /// See [`dio_sys::fuse::backing_open`].
    pub fn open_backing(&self, file: impl AsFd) -> io::Result<BackingId> {
        self.0.open_backing(file)
    }
}

impl ReplyCreate {
    /// Replies that the file was created and is open.
    pub fn created(self, entry: &Entry, fh: FileHandle, flags: FopenFlags) {
        self.0.send(&[abi::EntryOut::from(entry).as_bytes(), open_out(fh, flags).as_bytes()]);
    }

    /// As [`ReplyCreate::created`], with a backing file as in [`ReplyOpen::opened_passthrough`].
    pub fn created_passthrough(
        self,
        entry: &Entry,
        fh: FileHandle,
        flags: FopenFlags,
        backing: &BackingId,
    ) {
        self.0.send(&[
            abi::EntryOut::from(entry).as_bytes(),
            backed_out(fh, flags, backing).as_bytes(),
        ]);
    }

    /// As [`ReplyOpen::open_backing`].
    ///
    /// # Errors
    /// As [`ReplyOpen::open_backing`].
    pub fn open_backing(&self, file: impl AsFd) -> io::Result<BackingId> {
        self.0.open_backing(file)
    }
}

impl ReplyWrite {
    /// Sends the number of bytes written.
    pub fn written(self, size: u32) {
        self.0.send(&[abi::WriteOut { size, padding: 0 }.as_bytes()]);
    }
}

/// A reply of the number of bytes copied.
#[derive(Debug)]
pub struct ReplyCopy {
    reply: Reply,
    /// The reply has 64 bits (`FUSE_COPY_FILE_RANGE_64`).
    wide: bool,
}

impl ReplyCopy {
    /// Most bytes that a reply of 32 bits can express, in whole pages.
    const NARROW_BYTES_MAX: u64 = 0xffff_f000;

    pub(crate) fn new(reply: Reply, wide: bool) -> ReplyCopy {
        ReplyCopy { reply, wide }
    }

    /// Most bytes that this reply can express. No more may be copied.
    pub fn bytes_max(&self) -> u64 {
        if self.wide { i64::MAX.cast_unsigned() } else { ReplyCopy::NARROW_BYTES_MAX }
    }

    /// Sends the number of bytes copied.
    pub fn copied(self, bytes: u64) {
        if self.wide {
            return self.reply.send(&[abi::CopyFileRangeOut { bytes_copied: bytes }.as_bytes()]);
        }
        match u32::try_from(bytes) {
            Ok(size) => self.reply.send(&[abi::WriteOut { size, padding: 0 }.as_bytes()]),
            // The caller copies the rest again, which is correct but slow.
            Err(_) => self.reply.send(&[abi::WriteOut {
                size: ReplyCopy::NARROW_BYTES_MAX as u32,
                padding: 0,
            }
            .as_bytes()]),
        }
    }

    /// Replies with an error.
    pub fn error(self, errno: Errno) {
        self.reply.error(errno);
    }
}

impl ReplyStatfs {
    /// Sends statistics as in `statvfs(3)`: blocks in units of `frsize` bytes, inodes, the
    /// preferred size of requests, and the longest name.
    // The same parameters as in other crates for this protocol.
    #[allow(clippy::too_many_arguments)]
    pub fn statfs(
        self,
        blocks: u64,
        bfree: u64,
        bavail: u64,
        files: u64,
        ffree: u64,
        bsize: u32,
        namelen: u32,
        frsize: u32,
    ) {
        let out = abi::StatfsOut {
            blocks,
            bfree,
            bavail,
            files,
            ffree,
            bsize,
            namelen,
            frsize,
            ..abi::StatfsOut::default()
        };
        self.0.send(&[out.as_bytes()]);
    }
}

impl ReplyXattr {
    /// Sends the length, if the request asked for it (with `size` 0).
    pub fn size(self, size: u32) {
        self.0.send(&[abi::GetxattrOut { size, padding: 0 }.as_bytes()]);
    }

    /// Sends the value, or the names, each followed by a zero byte.
    pub fn data(self, bytes: &[u8]) {
        self.0.send(&[bytes]);
    }
}

impl ReplyIoctl {
    /// Replies with success, and with the bytes that the request asked for.
    pub fn done(self, bytes: &[u8]) {
        self.0.send(&[abi::IoctlOut::default().as_bytes(), bytes]);
    }
}

impl ReplyLseek {
    /// Sends the position, from the beginning of the file.
    pub fn offset(self, offset: i64) {
        self.0.send(&[abi::LseekOut { offset }.as_bytes()]);
    }
}
