//! Answers. Each is given once; one that is dropped instead, also by a panic, answers `EIO`.

mod directory;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi;
use crate::channel::Channel;
use crate::flags::FopenFlags;
use crate::passthrough::BackingId;
use crate::types::{Entry, FileAttr, FileHandle, Statx};

pub use directory::{ReplyDirectory, ReplyDirectoryPlus};

/// The right, and the duty, to answer one request.
#[derive(Debug)]
pub(crate) struct Reply {
    /// `None` once it is answered.
    channel: Option<Arc<Channel>>,
    unique: u64,
}

impl Reply {
    pub(crate) fn new(channel: &Arc<Channel>, unique: u64) -> Reply {
        Reply { channel: Some(Arc::clone(channel)), unique }
    }

    fn answer(&mut self, result: Result<&[&[u8]], Errno>) {
        if let Some(channel) = self.channel.take() {
            channel.answer(self.unique, result);
        }
    }

    pub(crate) fn send(mut self, parts: &[&[u8]]) {
        self.answer(Ok(parts));
    }

    pub(crate) fn error(mut self, errno: Errno) {
        self.answer(Err(errno));
    }

    /// Gives up the right to answer, of a request that has no answer.
    pub(crate) fn forego(mut self) {
        if let Some(channel) = self.channel.take() {
            channel.forego(self.unique);
        }
    }

    fn back(&self, file: impl AsFd) -> io::Result<BackingId> {
        let channel = self.channel.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        BackingId::create(channel.device(), file.as_fd())
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.answer(Err(Errno::IO));
    }
}

/// Types around [`Reply`], each with `error`.
macro_rules! replies {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(pub(crate) Reply);

        impl $name {
            /// Answers with an error.
            pub fn error(self, errno: Errno) {
                self.0.error(errno);
            }
        }
    )*};
}

replies! {
    /// Answers a request that needs no more than success or an error.
    ReplyEmpty;
    /// Answers with bytes.
    ReplyData;
    /// Answers with what a name stands for.
    ReplyEntry;
    /// Answers with attributes.
    ReplyAttr;
    /// Answers with attributes and what `stat(2)` lacks.
    ReplyStatx;
    /// Answers with an open file or directory.
    ReplyOpen;
    /// Answers with a file that was created and is open.
    ReplyCreate;
    /// Answers how many bytes were written.
    ReplyWrite;
    /// Answers with figures of the file system.
    ReplyStatfs;
    /// Answers with extended attributes, or how long they are.
    ReplyXattr;
    /// Answers with a position.
    ReplyLseek;
    /// Answers with what `ioctl(2)` gives back.
    ReplyIoctl;
}

impl ReplyEmpty {
    /// Success.
    pub fn ok(self) {
        self.0.send(&[]);
    }
}

impl ReplyData {
    /// Bytes, at most as many as were asked for; they go to the kernel from where they are.
    pub fn data(self, bytes: &[u8]) {
        self.0.send(&[bytes]);
    }
}

impl ReplyEntry {
    /// The name stands for this.
    pub fn entry(self, entry: &Entry) {
        self.0.send(&[abi::EntryOut::from(entry).as_bytes()]);
    }

    /// The name stands for nothing, and that may be believed for so long; `error(NOENT)` says the same for now only.
    pub fn negative(self, ttl: Duration) {
        let (entry_valid, entry_valid_nsec) = (ttl.as_secs(), ttl.subsec_nanos());
        self.0.send(&[abi::EntryOut { entry_valid, entry_valid_nsec, ..Default::default() }.as_bytes()]);
    }
}

impl ReplyAttr {
    /// Attributes, and how long they may be believed.
    pub fn attr(self, ttl: &Duration, attr: &FileAttr) {
        let (attr_valid, attr_valid_nsec) = (ttl.as_secs(), ttl.subsec_nanos());
        self.0.send(&[abi::AttrOut { attr_valid, attr_valid_nsec, dummy: 0, attr: attr.into() }.as_bytes()]);
    }
}

impl ReplyStatx {
    /// Attributes, and how long they may be believed.
    pub fn statx(self, ttl: &Duration, statx: &Statx) {
        let (attr_valid, attr_valid_nsec) = (ttl.as_secs(), ttl.subsec_nanos());
        let out = abi::StatxOut { attr_valid, attr_valid_nsec, stat: statx.into(), ..Default::default() };
        self.0.send(&[out.as_bytes()]);
    }
}

fn open_out(fh: FileHandle, flags: FopenFlags) -> abi::OpenOut {
    abi::OpenOut { fh: fh.0, open_flags: (flags - FopenFlags::FOPEN_PASSTHROUGH).bits(), backing_id: 0 }
}

fn backed_out(fh: FileHandle, flags: FopenFlags, backing: &BackingId) -> abi::OpenOut {
    let open_flags = (flags | FopenFlags::FOPEN_PASSTHROUGH).bits();
    abi::OpenOut { fh: fh.0, open_flags, backing_id: backing.number().cast_signed() }
}

impl ReplyOpen {
    /// Opened.
    pub fn opened(self, fh: FileHandle, flags: FopenFlags) {
        self.0.send(&[open_out(fh, flags).as_bytes()]);
    }

    /// Opened; the kernel reads and writes (with `FOPEN_DIRECT_IO`: maps) `backing` by itself. All that have the inode open
    /// at a time must have the same `backing`.
    pub fn opened_passthrough(self, fh: FileHandle, flags: FopenFlags, backing: &BackingId) {
        self.0.send(&[backed_out(fh, flags, backing).as_bytes()]);
    }

    /// Hands a file to the kernel, for [`ReplyOpen::opened_passthrough`].
    ///
    /// # Errors
    /// See [`dio_sys::fuse::backing_open`].
    pub fn open_backing(&self, file: impl AsFd) -> io::Result<BackingId> {
        self.0.back(file)
    }
}

impl ReplyCreate {
    /// Created and opened.
    pub fn created(self, entry: &Entry, fh: FileHandle, flags: FopenFlags) {
        self.0.send(&[abi::EntryOut::from(entry).as_bytes(), open_out(fh, flags).as_bytes()]);
    }

    /// Created and opened as [`ReplyOpen::opened_passthrough`] says.
    pub fn created_passthrough(self, entry: &Entry, fh: FileHandle, flags: FopenFlags, backing: &BackingId) {
        self.0.send(&[abi::EntryOut::from(entry).as_bytes(), backed_out(fh, flags, backing).as_bytes()]);
    }

    /// As [`ReplyOpen::open_backing`].
    ///
    /// # Errors
    /// As there.
    pub fn open_backing(&self, file: impl AsFd) -> io::Result<BackingId> {
        self.0.back(file)
    }
}

impl ReplyWrite {
    /// So many bytes were written.
    pub fn written(self, size: u32) {
        self.0.send(&[abi::WriteOut { size, padding: 0 }.as_bytes()]);
    }
}

/// Answers how many bytes were copied.
#[derive(Debug)]
pub struct ReplyCopy {
    reply: Reply,
    /// The answer has 64 bits (`FUSE_COPY_FILE_RANGE_64`).
    wide: bool,
}

impl ReplyCopy {
    /// The most that can be told in 32 bits, whole pages.
    const MOST: u64 = 0xffff_f000;

    pub(crate) fn new(reply: Reply, wide: bool) -> ReplyCopy {
        ReplyCopy { reply, wide }
    }

    /// The most bytes that this answer can tell; no more may be copied.
    pub fn most(&self) -> u64 {
        if self.wide { i64::MAX.cast_unsigned() } else { ReplyCopy::MOST }
    }

    /// So many bytes were copied.
    pub fn copied(self, bytes: u64) {
        if self.wide {
            return self.reply.send(&[abi::CopyFileRangeOut { bytes_copied: bytes }.as_bytes()]);
        }
        match u32::try_from(bytes) {
            Ok(size) => self.reply.send(&[abi::WriteOut { size, padding: 0 }.as_bytes()]),
            // Told less, the caller would copy the rest again: right, if slow.
            Err(_) => self.reply.send(&[abi::WriteOut { size: ReplyCopy::MOST as u32, padding: 0 }.as_bytes()]),
        }
    }

    /// Answers with an error.
    pub fn error(self, errno: Errno) {
        self.reply.error(errno);
    }
}

impl ReplyStatfs {
    /// Figures of `statvfs(3)`: blocks in units of `frsize` bytes, inodes, the size of requests that suits, the longest name.
    #[allow(clippy::too_many_arguments)] // The same as those of others who speak this protocol.
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
        let out =
            abi::StatfsOut { blocks, bfree, bavail, files, ffree, bsize, namelen, frsize, ..abi::StatfsOut::default() };
        self.0.send(&[out.as_bytes()]);
    }
}

impl ReplyXattr {
    /// The length, where that was asked for (with size 0).
    pub fn size(self, size: u32) {
        self.0.send(&[abi::GetxattrOut { size, padding: 0 }.as_bytes()]);
    }

    /// The value, or the names, each ended by a zero byte.
    pub fn data(self, bytes: &[u8]) {
        self.0.send(&[bytes]);
    }
}

impl ReplyIoctl {
    /// Success, with as many bytes as were asked for.
    pub fn done(self, bytes: &[u8]) {
        self.0.send(&[abi::IoctlOut::default().as_bytes(), bytes]);
    }
}

impl ReplyLseek {
    /// The position from the beginning.
    pub fn offset(self, offset: i64) {
        self.0.send(&[abi::LseekOut { offset }.as_bytes()]);
    }
}

#[cfg(test)]
mod tests;
