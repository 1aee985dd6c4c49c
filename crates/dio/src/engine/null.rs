//! The null engine completes every operation at once and moves no bytes. It measures the harness.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::{Done, Engine, Medium, Op, OpKind, Route};

/// Completes each operation as fully transferred when [`Engine::finish`] is called.
#[derive(Debug)]
pub struct Null {
    depth: usize,
    queue: Vec<Op>,
}

impl Null {
    /// A null engine that takes `depth` operations at a time.
    pub fn new(depth: usize) -> Null {
        Null { depth, queue: Vec::with_capacity(depth) }
    }
}

impl Engine for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.queue.len()
    }

    fn start(&mut self, op: Op) -> Result<(), Op> {
        if self.queue.len() == self.depth {
            return Err(op);
        }
        self.queue.push(op);
        Ok(())
    }

    fn finish(&mut self, _min: usize, done: &mut Vec<Done>) -> io::Result<()> {
        done.extend(self.queue.drain(..).map(|op| {
            let result = Ok(op.remaining());
            Done { op, result }
        }));
        Ok(())
    }
}

/// A file of a given size without contents: reads leave memory as it is, writes go nowhere.
#[derive(Debug)]
pub struct NullMedium {
    /// The reported size, in bytes.
    pub size: u64,
}

impl Medium for NullMedium {
    fn transfer(&self, op: &mut Op) -> Result<usize, Errno> {
        let to_end = self.size.saturating_sub(op.position());
        Ok(match op.kind {
            OpKind::Read => op.remaining().min(usize::try_from(to_end).unwrap_or(usize::MAX)),
            OpKind::Write => op.remaining(),
            OpKind::SyncData | OpKind::SyncAll => 0,
        })
    }

    fn descriptor(&self, _route: Route) -> io::Result<BorrowedFd<'_>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn set_size(&self, _size: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, _range: Range<u64>, _extend: bool) -> io::Result<()> {
        Ok(())
    }

    fn punch(&self, _range: Range<u64>) -> io::Result<()> {
        Ok(())
    }
}
