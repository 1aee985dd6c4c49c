//! Messages from and to the FUSE device.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use dio::block::{BLOCK_ALIGN, Block, Pool};
use dio_sys::uninterrupted;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read, writev};
use zerocopy::IntoBytes;

use crate::abi::{InHeader, OutHeader, WriteIn};
use crate::error_counts::ErrorCounts;
use crate::reply_slot::ReplySlot;

/// Bytes before the payload of a write.
const WRITE_HEADER_BYTES: usize = size_of::<InHeader>() + size_of::<WriteIn>();

/// Offset of a message in its buffer. The payload of a write then begins on a page, and the whole
/// message is contiguous.
const MESSAGE_OFFSET: usize = BLOCK_ALIGN - WRITE_HEADER_BYTES;

/// Room behind the header that every buffer has at least, in bytes. An extended attribute has up to
/// 64 KiB (`XATTR_SIZE_MAX`), and the kernel demands 8 KiB (`FUSE_MIN_READ_BUFFER`).
pub(crate) const PAYLOAD_ROOM_MIN: usize = 128 << 10;

/// Most parts that a message has behind its header.
const PARTS_MAX: usize = 3;

/// A descriptor of the device. A request that is read from it is replied to through it.
#[derive(Debug)]
pub(crate) struct Channel {
    device: Arc<OwnedFd>,
    pub(crate) errors: Arc<ErrorCounts>,
    /// Receives the replies instead of the device, for a thread that serves a ring.
    reply_slot: Option<Arc<ReplySlot>>,
}

/// The outcome of [`Channel::receive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// A message is in the buffer.
    Message,
    /// The mount is gone.
    End,
}

impl Channel {
    pub(crate) fn new(device: Arc<OwnedFd>, errors: Arc<ErrorCounts>) -> Channel {
        Channel { device, errors, reply_slot: None }
    }

    /// A channel whose replies go to `reply_slot`.
    pub(crate) fn with_reply_slot(
        device: Arc<OwnedFd>,
        errors: Arc<ErrorCounts>,
        reply_slot: Arc<ReplySlot>,
    ) -> Channel {
        Channel { device, errors, reply_slot: Some(reply_slot) }
    }

    pub(crate) fn device(&self) -> &Arc<OwnedFd> {
        &self.device
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// Errors of read(2) of the device that fuse(4) does not list.
    pub(crate) fn receive(&self, buffer: &mut Buffer) -> Result<Received, Errno> {
        loop {
            match read(&self.device, buffer.space()) {
                // Only the socket that replaces the device in tests ends like this.
                Ok(0) => return Ok(Received::End),
                Ok(length) => {
                    buffer.length = length;
                    return Ok(Received::Message);
                }
                // The kernel withdrew the request, or a signal arrived.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let mut wait = [PollFd::new(&self.device, PollFlags::IN)];
                    uninterrupted(|| poll(&mut wait, None))?;
                }
                // The mount is gone; or it was aborted, with `FUSE_ABORT_ERROR`.
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(Received::End),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Whether a message waits. At the end of the mount none does.
    pub(crate) fn is_pending(&self) -> bool {
        let mut ask = [PollFd::new(&self.device, PollFlags::IN)];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut ask, Some(&at_once)).is_ok() && ask[0].revents() == PollFlags::IN
    }

    /// Replies to request `unique`: with success and up to [`PARTS_MAX`] parts, or with an error.
    pub(crate) fn reply(&self, unique: u64, result: Result<&[&[u8]], Errno>) {
        let (error, parts) = match result {
            Ok(parts) => (0, parts),
            Err(errno) => (-to_wire(errno), &[][..]),
        };
        if let Some(reply_slot) = &self.reply_slot {
            if !reply_slot.put(error, unique, parts) {
                self.errors.count_refused();
            }
            return;
        }
        match send(self.device.as_fd(), error, unique, parts) {
            // With NOENT the program that waited is gone, and with NODEV the mount.
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(_) => {
                self.errors.count_refused();
            }
        }
    }

    /// Ends request `unique`, which the kernel wants no reply to.
    pub(crate) fn skip_reply(&self, unique: u64) {
        if let Some(reply_slot) = &self.reply_slot {
            reply_slot.put(0, unique, &[]);
        }
    }

    /// Sends a notification to the kernel.
    pub(crate) fn notify(device: &OwnedFd, code: i32, parts: &[&[u8]]) -> Result<(), Errno> {
        send(device.as_fd(), code, 0, parts)
    }
}

/// Writes one message. The kernel takes all of it or nothing.
fn send(device: BorrowedFd<'_>, error: i32, unique: u64, parts: &[&[u8]]) -> Result<(), Errno> {
    let length = size_of::<OutHeader>() + parts.iter().map(|part| part.len()).sum::<usize>();
    let length = u32::try_from(length).map_err(|_| Errno::TOOBIG)?;
    let header = OutHeader { len: length, error, unique };
    let mut pieces = [IoSlice::new(&[]); 1 + PARTS_MAX];
    pieces[0] = IoSlice::new(header.as_bytes());
    for (piece, part) in pieces[1..].iter_mut().zip(parts) {
        *piece = IoSlice::new(part);
    }
    assert!(parts.len() <= PARTS_MAX, "a message has at most three parts");
    uninterrupted(|| writev(device, &pieces[..=parts.len()])).map(drop)
}

/// Turns an error into a number that the kernel accepts. It refuses others, among them its internal
/// ones, and the program would wait for ever.
fn to_wire(errno: Errno) -> i32 {
    match errno.raw_os_error() {
        number @ 1..512 => number,
        _ => Errno::IO.raw_os_error(),
    }
}

/// The memory into which one thread reads its messages.
#[derive(Debug)]
pub(crate) struct Buffer {
    block: Block,
    length: usize,
}

impl Buffer {
    /// Makes a buffer for messages with up to `max_write` bytes of payload.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub(crate) fn new(max_write: u32) -> std::io::Result<Buffer> {
        let room = (max_write as usize).max(PAYLOAD_ROOM_MIN);
        let block = Pool::new(BLOCK_ALIGN + room, 1)?
            .try_take()
            .expect("the only block of a new pool is free");
        Ok(Buffer { block, length: 0 })
    }

    fn space(&mut self) -> &mut [u8] {
        &mut self.block.bytes_mut()[MESSAGE_OFFSET..]
    }

    /// The message that was received last.
    pub(crate) fn message(&self) -> &[u8] {
        &self.block.filled()[MESSAGE_OFFSET..MESSAGE_OFFSET + self.length]
    }
}
