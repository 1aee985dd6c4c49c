//! Engines run operations. An operation owns its memory and shares its file; the engine gives it
//! back with the raw result.
//!
//! An engine never retries, rounds or interprets. The layer above, [`crate::drive`], alone decides
//! what a short transfer, EAGAIN or the end of the file means. The simulated engine therefore
//! exercises the policy that production runs.

mod blocking;
mod medium;
mod null;
mod os;
mod select;
pub mod sim;
mod uring;
mod workers;

use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use crate::block::{Mem, Pool};

pub use blocking::Blocking;
pub use medium::Medium;
pub use null::{Null, NullMedium};
pub use os::OsMedium;
pub use select::{EngineKind, Selection, SelectionError};
pub use uring::{Uring, UringError};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Fills the memory from the file.
    Read,
    /// Writes the memory to the file.
    Write,
    /// Makes written data durable, with the metadata needed to read it back (`fdatasync(2)`).
    SyncData,
    /// Makes data and all metadata durable (`fsync(2)`).
    SyncAll,
}

/// The file descriptor that an operation goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The descriptor opened with `O_DIRECT`: offset, length and address must be aligned.
    Direct,
    /// The descriptor without `O_DIRECT`: the page cache takes any offset, length and address.
    Buffered,
}

/// Flags of one operation (`preadv2(2)`, `pwritev2(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpFlags {
    /// The write is durable when it completes (`RWF_DSYNC`).
    pub dsync: bool,
    /// The kernel drops the pages that the operation brings into the page cache (`RWF_DONTCACHE`).
    /// Buffered route only.
    pub dontcache: bool,
}

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
