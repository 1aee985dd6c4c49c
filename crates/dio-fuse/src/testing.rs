//! Support for the tests: messages as the kernel sends them, and a socket that replaces the device.
#![cfg(test)]

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustix::io::{read, write};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{InHeader, OutHeader};
use crate::channel::Channel;
use crate::types::{Entry, FileAttr, FileType, Generation, INodeNo};

/// A message of the kernel about inode 5, from process 300 of user 100 and group 200.
pub(crate) fn message(opcode: u32, unique: u64, extensions: &[u8], body: &[u8]) -> Vec<u8> {
    message_with(100, opcode, unique, extensions, body)
}

/// As [`message`], from a process of user `uid`.
pub(crate) fn message_of(uid: u32, opcode: u32, unique: u64, body: &[u8]) -> Vec<u8> {
    message_with(uid, opcode, unique, &[], body)
}

fn message_with(uid: u32, opcode: u32, unique: u64, extensions: &[u8], body: &[u8]) -> Vec<u8> {
    assert!(extensions.len() % 8 == 0, "extensions are padded");
    let header = InHeader {
        len: (size_of::<InHeader>() + body.len() + extensions.len()) as u32,
        opcode,
        unique,
        nodeid: 5,
        uid,
        gid: 200,
        pid: 300,
        total_extlen: (extensions.len() / 8) as u16,
        padding: 0,
    };
    [header.as_bytes(), body, extensions].concat()
}

/// The bytes of 32-bit words, in native order.
pub(crate) fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The bytes of 64-bit words, in native order.
pub(crate) fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_ne_bytes()).collect()
}

/// The kernel's end of the socket that replaces the device. Each message is read and written whole.
pub(crate) struct Kernel(pub(crate) OwnedFd);

/// A reply, or a notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) error: i32,
    pub(crate) unique: u64,
    pub(crate) body: Vec<u8>,
}

impl Kernel {
    /// Makes the two ends.
    pub(crate) fn pair() -> (Kernel, OwnedFd) {
        let (ours, device) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        rustix::net::sockopt::set_socket_timeout(
            &ours,
            rustix::net::sockopt::Timeout::Recv,
            Some(Duration::from_secs(10)),
        )
        .unwrap();
        (Kernel(ours), device)
    }

    pub(crate) fn channel() -> (Kernel, Arc<Channel>) {
        let (kernel, device) = Kernel::pair();
        (kernel, Arc::new(Channel::new(Arc::new(device), Arc::default())))
    }

    pub(crate) fn ask(&self, message: &[u8]) {
        assert_eq!(write(&self.0, message).unwrap(), message.len());
    }

    /// Receives the next reply. Fails if none comes.
    pub(crate) fn answer(&self) -> Answer {
        let mut bytes = vec![0; 1 << 20];
        let length = read(&self.0, &mut bytes).expect("an answer comes in time");
        bytes.truncate(length);
        let (header, body) = OutHeader::read_from_prefix(&bytes).unwrap();
        assert_eq!(header.len as usize, length, "the length in the header is that of the message");
        Answer { error: header.error, unique: header.unique, body: body.to_vec() }
    }
}

/// Attributes of an ordinary regular file, except for a time before 1970.
pub(crate) fn attributes(ino: u64) -> FileAttr {
    FileAttr {
        ino: INodeNo(ino),
        size: 11,
        blocks: 12,
        atime: UNIX_EPOCH + Duration::new(13, 14),
        mtime: UNIX_EPOCH - Duration::from_millis(1250),
        ctime: UNIX_EPOCH + Duration::new(15, 16),
        crtime: UNIX_EPOCH + Duration::new(17, 18),
        kind: FileType::RegularFile,
        perm: 0o4755,
        nlink: 19,
        uid: 20,
        gid: 21,
        rdev: 0,
        blksize: 22,
        flags: 0,
    }
}

/// Node 7 for `st_ino` 3, with different times.
pub(crate) fn entry() -> Entry {
    Entry {
        inode: INodeNo(7),
        generation: Generation(8),
        entry_ttl: Duration::new(1, 2),
        attr: attributes(3),
        attr_ttl: Duration::new(3, 4),
    }
}

/// A name.
pub(crate) fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}
