//! The device: what is read from it and written to it.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dio::block::{BLOCK_ALIGN, Block, Pool};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read, retry_on_intr, writev};
use zerocopy::IntoBytes;

use crate::abi::{InHeader, OutHeader, WriteIn};
use crate::outbox::Outbox;

/// Bytes before the payload of a write.
const HEAD: usize = size_of::<InHeader>() + size_of::<WriteIn>();

/// Where a message begins in its buffer, so that the payload of a write begins on a page. All of it lies in one piece.
const START: usize = BLOCK_ALIGN - HEAD;

/// Room behind the header that every buffer has at least: an extended attribute has up to 64 KiB (`XATTR_SIZE_MAX`), and the
/// kernel wants 8 KiB (`FUSE_MIN_READ_BUFFER`).
pub(crate) const LEAST: usize = 128 << 10;

/// What went wrong without an answer that told anyone; all of it is gone on from.
#[derive(Debug, Default)]
pub struct Faults {
    panics: AtomicU64,
    malformed: AtomicU64,
    refused: AtomicU64,
}

impl Faults {
    /// Handlers that panicked; their requests were answered with `EIO`.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Requests that could not be taken apart; they were answered with `EIO`.
    pub fn malformed(&self) -> u64 {
        self.malformed.load(Ordering::Relaxed)
    }

    /// Answers that the kernel did not take, apart from those to requests that are gone.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn was_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn was_malformed(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }
}

/// One descriptor of the device. What is read from it is answered through it.
#[derive(Debug)]
pub(crate) struct Channel {
    device: Arc<OwnedFd>,
    pub(crate) faults: Arc<Faults>,
    /// Where answers go that do not go to the device.
    outbox: Option<Arc<Outbox>>,
}

/// What [`Channel::receive`] has to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// A message is in the buffer.
    Message,
    /// There is no mount any more.
    End,
}

impl Channel {
    pub(crate) fn new(device: Arc<OwnedFd>, faults: Arc<Faults>) -> Channel {
        Channel { device, faults, outbox: None }
    }

    /// A channel whose answers are put into `outbox`.
    pub(crate) fn into_outbox(device: Arc<OwnedFd>, faults: Arc<Faults>, outbox: Arc<Outbox>) -> Channel {
        Channel { device, faults, outbox: Some(outbox) }
    }

    pub(crate) fn device(&self) -> &Arc<OwnedFd> {
        &self.device
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// What read(2) of the device answers beyond fuse(4).
    pub(crate) fn receive(&self, buffer: &mut Buffer) -> Result<Received, Errno> {
        loop {
            match read(&self.device, buffer.space()) {
                // Only what stands in for the device in tests ends like this.
                Ok(0) => return Ok(Received::End),
                Ok(length) => {
                    buffer.length = length;
                    return Ok(Received::Message);
                }
                // The request was taken back, or a signal came.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let mut wait = [PollFd::new(&self.device, PollFlags::IN)];
                    retry_on_intr(|| poll(&mut wait, None))?;
                }
                // Unmounted; aborted, with `FUSE_ABORT_ERROR`.
                Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(Received::End),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Whether a message waits. At the end of the mount nothing does.
    pub(crate) fn is_pending(&self) -> bool {
        let mut ask = [PollFd::new(&self.device, PollFlags::IN)];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut ask, Some(&at_once)).is_ok() && ask[0].revents() == PollFlags::IN
    }

    /// Answers request `unique`: with success and `parts`, of which there are at most three, or with an error alone.
    pub(crate) fn answer(&self, unique: u64, result: Result<&[&[u8]], Errno>) {
        let (error, parts) = match result {
            Ok(parts) => (0, parts),
            Err(errno) => (-to_wire(errno), &[][..]),
        };
        if let Some(outbox) = &self.outbox {
            if !outbox.put(error, unique, parts) {
                self.faults.was_refused();
            }
            return;
        }
        match self.send(error, unique, parts) {
            // The one who asked has gone, or the mount.
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
            Err(_) => {
                self.faults.was_refused();
            }
        }
    }

    /// There is no answer to request `unique`.
    pub(crate) fn forego(&self, unique: u64) {
        if let Some(outbox) = &self.outbox {
            outbox.put(0, unique, &[]);
        }
    }

    /// Tells the kernel something without being asked.
    pub(crate) fn notify(device: &OwnedFd, code: i32, parts: &[&[u8]]) -> Result<(), Errno> {
        send(device.as_fd(), code, 0, parts)
    }

    fn send(&self, error: i32, unique: u64, parts: &[&[u8]]) -> Result<(), Errno> {
        send(self.device.as_fd(), error, unique, parts)
    }
}

/// Writes one message; the kernel takes all of it or none.
fn send(device: BorrowedFd<'_>, error: i32, unique: u64, parts: &[&[u8]]) -> Result<(), Errno> {
    let length = size_of::<OutHeader>() + parts.iter().map(|part| part.len()).sum::<usize>();
    let length = u32::try_from(length).map_err(|_| Errno::TOOBIG)?;
    let header = OutHeader { len: length, error, unique };
    let mut pieces = [IoSlice::new(&[]); 4];
    pieces[0] = IoSlice::new(header.as_bytes());
    for (piece, part) in pieces[1..].iter_mut().zip(parts) {
        *piece = IoSlice::new(part);
    }
    assert!(parts.len() < pieces.len(), "a message has at most three parts");
    retry_on_intr(|| writev(device, &pieces[..=parts.len()])).map(drop)
}

/// An error number that the kernel takes; for others, some internal to it, it would let the caller wait for ever.
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
    /// Memory for messages with a payload of up to `max_write` bytes.
    ///
    /// # Errors
    /// What `mmap(2)` answers.
    pub(crate) fn new(max_write: u32) -> std::io::Result<Buffer> {
        let room = (max_write as usize).max(LEAST);
        let block = Pool::new(BLOCK_ALIGN + room, 1)?.try_take().expect("the only block of a new pool is free");
        Ok(Buffer { block, length: 0 })
    }

    fn space(&mut self) -> &mut [u8] {
        &mut self.block.bytes_mut()[START..]
    }

    /// The message that was received last.
    pub(crate) fn message(&self) -> &[u8] {
        &self.block.filled()[START..START + self.length]
    }
}
