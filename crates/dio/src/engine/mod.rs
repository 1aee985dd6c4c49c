//! The seam: engines take operations that own their memory and file, run them, and give them back with the raw result.
//!
//! An engine never retries, rounds or interprets; what a short transfer, EAGAIN or end of file means is decided once,
//! above, in [`crate::drive`]. So the simulated engine exercises the very policy that production runs.

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
pub enum Kind {
    /// Fills the memory from the file.
    Read,
    /// Writes the memory to the file.
    Write,
    /// Makes written data durable, with the metadata needed to read it back (`fdatasync(2)`).
    SyncData,
    /// Makes data and all metadata durable (`fsync(2)`).
    SyncAll,
}

/// Which descriptor of the file an operation goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The one opened with `O_DIRECT`: everything must be aligned.
    Direct,
    /// The one through the page cache: any offset, length and address.
    Buffered,
}

/// Flags of one operation (`preadv2(2)`, `pwritev2(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The write is durable when it completes (`RWF_DSYNC`).
    pub dsync: bool,
    /// Pages brought in are dropped when done (`RWF_DONTCACHE`); buffered route only.
    pub dontcache: bool,
}

/// One attempt of an operation, and the ticket by which whoever started it recognises it. Owns its memory and a share of
/// its file until the engine gives it back.
#[derive(Debug)]
pub struct Op {
    /// What to do.
    pub kind: Kind,
    /// Which descriptor to use.
    pub route: Route,
    /// Flags of this operation.
    pub flags: Flags,
    /// The file.
    pub medium: Arc<dyn Medium>,
    /// Where the first byte of `mem` belongs in the file, in bytes.
    pub offset: u64,
    /// Bytes at the start of `mem` that this attempt passes over, because an earlier one has transferred them.
    pub skip: usize,
    /// The memory; `None` for a sync.
    pub mem: Option<Mem>,
    /// The starter's mark. Engines return it unchanged.
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
    /// The operation, memory and all.
    pub op: Op,
    /// Bytes that this attempt transferred, or the error number: uninterpreted.
    pub result: Result<usize, Errno>,
}

/// Runs operations, several at a time.
pub trait Engine: Send {
    /// The name shown to users.
    fn name(&self) -> &'static str;

    /// Most operations in flight.
    fn depth(&self) -> usize;

    /// Operations started and not yet given back.
    fn in_flight(&self) -> usize;

    /// Queues an operation, or hands it back when `depth` are in flight.
    ///
    /// # Errors
    /// The operation itself, untouched, when the engine is full.
    #[expect(clippy::result_large_err, reason = "the operation is handed back, not reported")]
    fn start(&mut self, op: Op) -> Result<(), Op>;

    /// Waits until at least `min` operations are complete (fewer only if fewer are in flight) and appends all that are.
    ///
    /// # Errors
    /// The engine itself failed (not an operation). Operations stay in flight.
    fn finish(&mut self, min: usize, done: &mut Vec<Done>) -> io::Result<()>;

    /// Prepares a pool for cheaper use (registered buffers). Refusal is harmless and explained.
    ///
    /// # Errors
    /// Why the pool is used unregistered.
    fn attach(&mut self, _pool: &Pool) -> io::Result<()> {
        Ok(())
    }
}
