//! The seam: an engine takes an operation that owns its memory, and gives it back with the result.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::io::Errno;

use super::request::{OpFlags, OpKind, Route};
use crate::block::{Mem, Pool};

/// One attempt of a request. It owns its memory and shares its file until the engine gives it back.
#[derive(Debug)]
pub struct Op {
    /// What to do.
    pub kind: OpKind,
    /// Which file descriptor to use.
    pub route: Route,
    /// Flags of this operation.
    pub flags: OpFlags,
    /// The file.
    pub medium: Arc<dyn Medium>,
    /// File offset of the first byte of `mem`, in bytes.
    pub offset: u64,
    /// Bytes at the start of `mem` that earlier attempts have transferred. This attempt begins
    /// behind them.
    pub skip: usize,
    /// The memory; `None` for a sync.
    pub mem: Option<Mem>,
    /// A number by which the caller recognises the operation. Engines return it unchanged.
    pub ticket: u64,
}

impl Op {
    /// Bytes of memory.
    pub fn len(&self) -> usize {
        self.mem.as_ref().map_or(0, Mem::len)
    }

    /// True for an operation without bytes, such as a sync.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// File offset at which this attempt starts.
    pub fn position(&self) -> u64 {
        self.offset + self.skip as u64
    }

    /// Bytes that this attempt is to transfer.
    pub fn remaining(&self) -> usize {
        self.len() - self.skip
    }
}

/// An operation that an engine gives back.
#[derive(Debug)]
pub struct Done {
    /// The operation with its memory.
    pub op: Op,
    /// Bytes that this attempt transferred, or the error number, as the kernel returned it.
    pub result: Result<usize, Errno>,
}

/// An open file: of the operating system, simulated, or without contents.
pub trait Medium: Send + Sync + Debug {
    /// Runs one attempt of a request in the calling thread. It does not retry, round or interpret.
    ///
    /// # Errors
    /// The raw error number.
    fn transfer(&self, op: &mut Op) -> Result<usize, Errno>;

    /// The file descriptor of a route, for engines that need one.
    ///
    /// # Errors
    /// Why there is none.
    fn descriptor(&self, route: Route) -> io::Result<BorrowedFd<'_>>;

    /// Size in bytes, of a regular file or of a block device.
    ///
    /// # Errors
    /// What `statx(2)` answers.
    fn size(&self) -> io::Result<u64>;

    /// Sets the size. A smaller size cuts the file off; a larger one adds a hole.
    ///
    /// # Errors
    /// What `ftruncate(2)` answers.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Allocates blocks for a range, so that a later write to it cannot fail for lack of space. The
    /// size grows only if `extend` is set.
    ///
    /// # Errors
    /// What `fallocate(2)` answers: EOPNOTSUPP where the file system cannot allocate, ENOSPC
    /// without space.
    fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()>;

    /// Turns a range into a hole. The size stays the same.
    ///
    /// # Errors
    /// What `fallocate(2)` answers for `FALLOC_FL_PUNCH_HOLE`.
    fn punch(&self, range: Range<u64>) -> io::Result<()>;
}

/// Runs operations, several at a time.
pub trait Engine: Send {
    /// The engine's name, shown to users.
    fn name(&self) -> &'static str;

    /// Most operations that can be in flight.
    fn depth(&self) -> usize;

    /// Operations started and not yet given back.
    fn in_flight(&self) -> usize;

    /// Queues an operation. When `depth` operations are in flight, hands it back.
    ///
    /// # Errors
    /// The operation itself, untouched, when the engine is full.
    #[expect(clippy::result_large_err, reason = "the operation is handed back, not reported")]
    fn start(&mut self, op: Op) -> Result<(), Op>;

    /// Waits until at least `min` operations are complete, or all in flight if they are fewer, and
    /// appends every complete one to `done`.
    ///
    /// # Errors
    /// The engine itself failed, not an operation. Its operations stay in flight.
    fn finish(&mut self, min: usize, done: &mut Vec<Done>) -> io::Result<()>;

    /// Registers a pool with the kernel, which makes its blocks cheaper to use. An engine that
    /// refuses does the same work a little slower.
    ///
    /// # Errors
    /// Why the pool is used unregistered.
    fn attach(&mut self, _pool: &Pool) -> io::Result<()> {
        Ok(())
    }
}
