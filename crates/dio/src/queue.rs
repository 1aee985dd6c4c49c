//! Many requests in flight at a time, on whole blocks, for storage engines: no thread per request, one system call for
//! many, and the file's locks and counters as for every other read and write.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;

use rustix::io::Errno;

use crate::block::{Block, Pool};
use crate::drive::{Driver, Finished};
use crate::engine::OpKind;
use crate::file::{File, FileError};
use crate::io::Io;
use crate::lock::LockGuard;

/// A request that is over.
#[derive(Debug)]
pub struct Completion {
    /// The caller's mark.
    pub tag: u64,
    /// Bytes transferred (of a read, fewer than asked only at the end of the file), or what failed.
    pub outcome: Result<usize, FileError>,
    /// The block: of a read, holding what was read.
    pub block: Block,
}

/// A request that was not queued.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// Why.
    pub error: FileError,
    /// The block, as it came.
    pub block: Block,
}

/// A request in flight.
#[derive(Debug)]
struct Entry {
    file: Arc<File>,
    tag: u64,
    /// Held until the request is over.
    _lock: Option<LockGuard>,
}

/// A queue of reads and writes of whole blocks.
///
/// A queue belongs to the thread that made it, which saves the kernel from interrupting that thread; each thread that
/// wants one makes its own.
///
/// In direct mode a request that overlaps one in flight waits for it, in whichever queue or thread that is; in concurrent
/// mode the caller orders its own overlapping requests.
///
/// One thread must not have overlapping requests in two of its queues, nor wait in a call of [`File`] for what its own
/// queue has in flight: the request that waits would keep the thread from finishing the one that it waits for.
#[derive(Debug)]
pub struct Queue {
    driver: Driver,
    pool: Pool,
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    finished: Vec<Finished>,
    ready: VecDeque<Completion>,
    /// Not `Send`: see above.
    this_thread: PhantomData<*const ()>,
}

impl Queue {
    /// A queue of `depth` requests in flight, with as many blocks of `block` bytes.
    ///
    /// # Errors
    /// No memory for the blocks.
    pub fn new(io: &Io, block: usize, depth: usize) -> io::Result<Queue> {
        Ok(Queue::over(io, Pool::new(block, depth)?, depth))
    }

    /// A queue of `depth` requests in flight whose blocks are those of `pool`, which others may fill meanwhile.
    pub fn over(io: &Io, pool: Pool, depth: usize) -> Queue {
        let mut driver = io.driver_for_this_thread(depth);
        // Unregistered buffers cost a little speed; nothing else.
        let _ = driver.attach(&pool);
        Queue {
            driver,
            pool,
            entries: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            finished: Vec::with_capacity(depth),
            ready: VecDeque::with_capacity(depth),
            this_thread: PhantomData,
        }
    }

    /// A block to fill and write; `None` while all are in flight or with the caller.
    pub fn block(&self) -> Option<Block> {
        self.pool.try_take()
    }

    /// Requests started and not yet given back.
    pub fn in_flight(&self) -> usize {
        self.entries.len() - self.free.len() + self.ready.len()
    }

    /// Queues a read of `len` bytes at `offset` into a block; it starts at the next [`Queue::wait`] at the latest.
    ///
    /// # Errors
    /// EINVAL when offset and length are not multiples of the file's [`File::block_align`]; EAGAIN when `depth` requests
    /// are in flight.
    pub fn read(
        &mut self,
        file: &Arc<File>,
        block: Block,
        offset: u64,
        len: usize,
        tag: u64,
    ) -> Result<(), Box<Refused>> {
        self.start(OpKind::Read, file, block, offset, len, tag)
    }

    /// Queues a write of the first `len` bytes of a block at `offset`, within the file's size.
    ///
    /// # Errors
    /// As [`Queue::read`]; EFBIG for a write that would extend the file, which needs the whole file to itself:
    /// [`File::allocate`] or [`File::set_size`] first.
    pub fn write(
        &mut self,
        file: &Arc<File>,
        block: Block,
        offset: u64,
        len: usize,
        tag: u64,
    ) -> Result<(), Box<Refused>> {
        self.start(OpKind::Write, file, block, offset, len, tag)
    }

    fn start(
        &mut self,
        kind: OpKind,
        file: &Arc<File>,
        block: Block,
        offset: u64,
        len: usize,
        tag: u64,
    ) -> Result<(), Box<Refused>> {
        match self.admit(kind, file, block.capacity(), offset, len) {
            Ok((index, lock)) => {
                if self.driver.outstanding() == 0 {
                    file.blocks().grow(&mut self.driver, self.entries.len(), true);
                }
                self.entries[index] = Some(Entry { file: Arc::clone(file), tag, _lock: lock });
                self.driver.submit(file.blocks().request(kind, offset, block.into_mem(0..len), index as u64));
                Ok(())
            }
            Err(error) => Err(Box::new(Refused { error, block })),
        }
    }

    /// Looks whether a request may run, and takes its lock and its place.
    fn admit(
        &mut self,
        kind: OpKind,
        file: &File,
        capacity: usize,
        offset: u64,
        len: usize,
    ) -> Result<(usize, Option<LockGuard>), FileError> {
        if kind == OpKind::Write {
            file.check_latch()?;
        }
        let refuse = |errno| Err(FileError::new("queue a request to", file.path(), errno).at(offset));
        let end = offset.checked_add(len as u64).filter(|end| *end <= i64::MAX as u64);
        let (Some(end), 0) = (end, (offset | len as u64) % file.block_align()) else { return refuse(Errno::INVAL) };
        if len > capacity {
            return refuse(Errno::INVAL);
        }
        let lock = self.lock(kind, file, offset, len)?;
        // Under the lock, so that nobody cuts the file off in between.
        if kind == OpKind::Write && end > file.size()? {
            let cure = "extend the file before queueing writes behind its end";
            return refuse(Errno::FBIG).map_err(|error| error.with_cure(cure));
        }
        match self.free.pop() {
            Some(index) => Ok((index, lock)),
            None => refuse(Errno::AGAIN),
        }
    }

    /// The lock of a request. Waiting for a request of this very queue would wait for ever, so those are finished first.
    fn lock(&mut self, kind: OpKind, file: &File, offset: u64, len: usize) -> Result<Option<LockGuard>, FileError> {
        let range = offset..offset + len as u64;
        loop {
            if let Some(lock) = file.try_lock(kind, range.clone()) {
                return Ok(lock);
            }
            if self.driver.outstanding() == 0 {
                return Ok(file.lock(kind, range));
            }
            let engine = self.collect(1);
            engine.map_err(|_| FileError::new("run I/O on", file.path(), Errno::IO).at(offset))?;
        }
    }

    /// Waits until at least `min` requests are over (fewer only if fewer are in flight) and appends all that are.
    ///
    /// # Errors
    /// The engine failed; the queue must not be used again.
    pub fn wait(&mut self, min: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.collect(min.saturating_sub(self.ready.len()))?;
        completions.extend(self.ready.drain(..));
        Ok(())
    }

    fn collect(&mut self, min: usize) -> io::Result<()> {
        let mut finished = std::mem::take(&mut self.finished);
        self.driver.wait(min, &mut finished)?;
        for over in finished.drain(..) {
            let index = over.request.tag as usize;
            let entry = self.entries[index].take().expect("a finished operation has an entry");
            self.free.push(index);
            let (over, outcome) = entry.file.blocks().finish(over);
            let filled = if over.request.kind == OpKind::Read { over.done } else { over.request.len() };
            let block =
                over.request.mem.and_then(|mem| mem.into_block(filled)).expect("an operation returns its block");
            self.ready.push_back(Completion { tag: entry.tag, outcome, block });
        }
        self.finished = finished;
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Locks are held until the requests are over; a failed engine is drained by its own drop.
        let _ = self.collect(self.driver.outstanding());
    }
}
