//! The crate's part of the fuzzer in `fuzz/`: a connection whose other end is not the kernel, and a
//! file system that reads all its arguments.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::{Errno, read};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{InHeader, OutHeader, opcode};
use crate::channel::Channel;
use crate::config::{KernelConfig, Negotiated};
use crate::dispatch::{Dispatcher, MountedFilesystem};
use crate::error_counts::ErrorCounts;
use crate::filesystem::Filesystem;
use crate::flags::{FopenFlags, RenameFlags, SetxattrFlags, WriteFlags};
use crate::interrupts::Interrupts;
use crate::reply::{
    ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen,
    ReplyWrite, ReplyXattr,
};
use crate::request::{Message, Request};
use crate::types::{Changes, FileHandle, FileType, INodeNo, Ioctl, LockOwner, OpenFlags};

/// A connection that serves messages.
#[derive(Debug)]
pub struct Connection {
    dispatcher: Dispatcher<Listener>,
    kernel: OwnedFd,
}

impl Connection {
    /// Makes a connection.
    ///
    /// # Errors
    /// If no socket can be made.
    pub fn new() -> Result<Connection, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (kernel, device) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let negotiated = Negotiated {
            max_write: 1 << 20,
            max_payload: 1 << 20,
            setxattr_ext: true,
            over_io_uring: false,
        };
        let dispatcher = Dispatcher {
            filesystem: Arc::new(MountedFilesystem(Listener)),
            channel: Arc::new(Channel::new(Arc::new(device), Arc::new(ErrorCounts::default()))),
            interrupts: Arc::new(Interrupts::new(1)),
            thread: 0,
            negotiated,
            shares: None,
        };
        Ok(Connection { dispatcher, kernel })
    }

    /// Serves a message, and serves it again with the length in its header corrected.
    ///
    /// # Panics
    /// If a message gets two replies, or a reply that the kernel would refuse.
    pub fn message(&self, bytes: &[u8]) {
        self.serve(bytes);
        let Some(behind) = bytes.get(4..) else { return };
        let right = [&(bytes.len() as u32).to_ne_bytes(), behind].concat();
        self.serve(&right);
        if let Ok(message) = Message::parse(&right)
            && message.header.opcode == opcode::INIT
            && let Ok(mut config) = KernelConfig::parse(message.body)
        {
            // The setters return a possible value, whatever the kernel offers.
            let _ = (config.set_max_write(u32::MAX), config.set_max_readahead(u32::MAX));
            assert!(!config.reply().as_bytes().is_empty());
            let negotiated = config.negotiated();
            assert!(negotiated.max_payload >= negotiated.max_write, "{negotiated:?}");
        }
    }

    fn serve(&self, bytes: &[u8]) {
        self.dispatcher.handle(bytes);
        assert_eq!(self.dispatcher.channel.errors.panics(), 0, "a handler panicked");
        let asked = InHeader::read_from_prefix(bytes).map(|(header, _)| header.unique);
        let mut answer = [0; 4096];
        let mut answers = 0;
        while let Ok(length) = read(&self.kernel, &mut answer) {
            let (header, _) =
                OutHeader::read_from_prefix(&answer[..length]).expect("an answer has a header");
            assert_eq!(header.len as usize, length, "an answer has the length that it says");
            assert!((-4095..=0).contains(&header.error), "no error number: {}", header.error);
            assert_eq!(Ok(header.unique), asked, "an answer to another request");
            answers += 1;
        }
        assert!(answers <= 1, "{answers} answers to one request");
    }
}

/// Reads all its arguments, and sends short replies.
#[derive(Debug)]
struct Listener;

/// Reads every byte of a name, and returns its length.
fn length(name: &OsStr) -> usize {
    assert!(!name.as_encoded_bytes().contains(&0), "a name ends before its first NUL");
    name.len()
}

#[allow(clippy::too_many_arguments)] // The protocol has as many.
impl Filesystem for Listener {
    fn lookup(&self, request: &Request<'_>, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match length(name) + request.groups().count() {
            0 => reply.negative(Duration::MAX),
            _ => reply.error(Errno::NOENT),
        }
    }

    fn forget(&self, _: &Request<'_>, _: INodeNo, _: u64) {}

    fn setattr(&self, _: &Request<'_>, _: INodeNo, changes: &Changes, reply: ReplyAttr) {
        assert!(!format!("{changes:?}").is_empty());
        reply.error(Errno::PERM);
    }

    fn symlink(&self, _: &Request<'_>, _: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let _ = length(name) + length(target.as_os_str());
        reply.error(Errno::EXIST);
    }

    fn rename(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        name: &OsStr,
        _: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _ = length(name) + length(new_name);
        reply.ok();
    }

    fn open(&self, _: &Request<'_>, _: INodeNo, _: OpenFlags, _: bool, reply: ReplyOpen) {
        reply.opened(FileHandle(1), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(&[0; 64][..size.min(64) as usize]);
    }

    fn write(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.written(data.len() as u32);
    }

    fn readdir(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        for number in 0..8 {
            if reply.add(
                INodeNo(number),
                offset.wrapping_add(number),
                FileType::RegularFile,
                OsStr::new("name"),
            ) {
                break;
            }
        }
        reply.ok();
    }

    fn setxattr(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        name: &OsStr,
        value: &[u8],
        _: i32,
        _: SetxattrFlags,
        reply: ReplyEmpty,
    ) {
        let _ = length(name) + value.len();
        reply.ok();
    }

    fn getxattr(&self, _: &Request<'_>, _: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _ = length(name);
        if size == 0 { reply.size(7) } else { reply.data(b"a value") }
    }

    fn ioctl(&self, _: &Request<'_>, _: INodeNo, ioctl: &Ioctl<'_>, reply: ReplyIoctl) {
        reply.done(&ioctl.data[..ioctl.data.len().min(ioctl.answer_bytes).min(64)]);
    }
}
