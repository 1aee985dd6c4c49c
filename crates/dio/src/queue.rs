//! Many requests in flight at a time, on whole blocks, for storage engines. A queue needs no thread
//! for a request and one system call for many. Its requests use the file's locks and counters like
//! all others. [`RangeQueue`] takes any ranges, and any memory.

mod ranges;

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

pub use ranges::{RangeCompletion, RangeQueue, RefusedRange};

/// A finished request.
#[derive(Debug)]
pub struct Completion {
    /// The number that the caller gave the request.
    pub tag: u64,
    /// Bytes transferred, or the error. A read transfers fewer bytes than asked for only at the end
    /// of the file.
    pub outcome: Result<usize, FileError>,
    /// The block. After a read it holds the bytes read.
    pub block: Block,
}

/// A request that was not queued.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RefusedRequest {
    /// The reason.
    #[source]
    pub error: FileError,
    /// The block, unchanged.
    pub block: Block,
}

/// A request that the driver has.
#[derive(Debug)]
struct RequestInFlight {
    file: Arc<File>,
    tag: u64,
    /// Held until the request is finished.
    _lock: Option<LockGuard>,
}

/// A queue of reads and writes of whole blocks.
///
/// A queue belongs to the thread that made it: the kernel then need not interrupt that thread. Each
/// thread that wants a queue makes its own.
///
/// In direct mode, a request that overlaps one in flight waits for it, whichever queue or thread
/// that belongs to. In concurrent mode, the caller orders its own overlapping requests.
///
/// A thread must not have overlapping requests in two of its queues. While its queue has a request
/// in flight, it must not call a method of [`File`] that waits for that request. In both cases the
/// waiting request would keep the thread from finishing the other one.
///
/// ```no_run
/// use std::sync::Arc;
/// use dio::queue::Queue;
/// use dio::{File, Io};
///
/// let file = Arc::new(File::open("data")?);
/// let mut queue = Queue::new(&Io::shared()?, 64 << 10, 8)?;
/// for number in 0..8 {
///     let block = queue.block().expect("there are eight blocks");
///     queue.read(&file, block, number * (64 << 10), 64 << 10, number)?;
/// }
/// let mut completions = Vec::new();
/// queue.wait(8, &mut completions)?;
/// for completion in completions {
///     println!("block {}: {} bytes", completion.tag, completion.outcome?);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Queue {
    driver: Driver,
    pool: Pool,
    entries: Vec<Option<RequestInFlight>>,
    free: Vec<usize>,
    finished: Vec<Finished>,
    ready: VecDeque<Completion>,
    /// Makes the queue not `Send`: see above.
    this_thread: PhantomData<*const ()>,
}

impl Queue {
    /// A queue of `depth` requests in flight, with as many blocks of `block` bytes.
    ///
    /// # Errors
    /// There is no memory for the blocks.
    pub fn new(io: &Io, block: usize, depth: usize) -> io::Result<Queue> {
        Ok(Queue::with_pool(io, Pool::new(block, depth)?, depth))
    }

    /// A queue of `depth` requests in flight that takes its blocks from `pool`. Others may fill
    /// blocks of the pool at the same time.
    pub fn with_pool(io: &Io, pool: Pool, depth: usize) -> Queue {
        let mut driver = io.driver_for_this_thread(depth);
        // Unregistered buffers only cost a little speed.
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

    /// A block to fill and write. `None` while all are in flight or with the caller.
    pub fn block(&self) -> Option<Block> {
        self.pool.try_take()
    }

    /// Requests started and not yet given back.
    pub fn in_flight(&self) -> usize {
        self.entries.len() - self.free.len() + self.ready.len()
    }

    /// Queues a read of `len` bytes at `offset` into a block. It starts in the next [`Queue::wait`]
    /// at the latest.
    ///
    /// # Errors
    /// EINVAL when offset and length are not multiples of the file's [`File::block_align`]; EAGAIN
    /// when `depth` requests are in flight.
    pub fn read(
        &mut self,
        file: &Arc<File>,
        block: Block,
        offset: u64,
        len: usize,
        tag: u64,
    ) -> Result<(), Box<RefusedRequest>> {
        self.start(OpKind::Read, file, block, offset, len, tag)
    }

    /// Queues a write of the first `len` bytes of a block at `offset`, within the file's size.
    ///
    /// # Errors
    /// As [`Queue::read`]. EFBIG for a write that would extend the file, which needs the whole file
    /// to itself: call [`File::allocate`] or [`File::set_size`] first.
    pub fn write(
        &mut self,
        file: &Arc<File>,
        block: Block,
        offset: u64,
        len: usize,
        tag: u64,
    ) -> Result<(), Box<RefusedRequest>> {
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
    ) -> Result<(), Box<RefusedRequest>> {
        match self.admit(kind, file, block.capacity(), offset, len) {
            Ok((index, lock)) => {
                if self.driver.outstanding() == 0 {
                    file.block_io().grow_driver(&mut self.driver, self.entries.len(), true);
                }
                self.entries[index] =
                    Some(RequestInFlight { file: Arc::clone(file), tag, _lock: lock });
                self.driver.submit(file.block_io().request(
                    kind,
                    offset,
                    block.into_mem(0..len),
                    index as u64,
                ));
                Ok(())
            }
            Err(error) => Err(Box::new(RefusedRequest { error, block })),
        }
    }

    /// Checks whether a request may run, takes its lock and reserves its entry.
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
        let refusal =
            |errno| Err(FileError::new("queue a request to", file.path(), errno).at(offset));
        let end = offset.checked_add(len as u64).filter(|end| *end <= i64::MAX as u64);
        let (Some(end), 0) = (end, (offset | len as u64) % file.block_align()) else {
            return refusal(Errno::INVAL);
        };
        if len > capacity {
            return refusal(Errno::INVAL);
        }
        let range = offset..offset + len as u64;
        let lock = file.block_io().lock_beside(kind, range, || {
            let engine = self.collect_one();
            engine.map_err(|_| FileError::new("run I/O on", file.path(), Errno::IO).at(offset))
        })?;
        // The size is asked for under the lock, so that nobody cuts the file off in between.
        if kind == OpKind::Write && end > file.size()? {
            let cure = "extend the file before queueing writes behind its end";
            return refusal(Errno::FBIG).map_err(|error| error.with_cure(cure));
        }
        match self.free.pop() {
            Some(index) => Ok((index, lock)),
            None => refusal(Errno::AGAIN),
        }
    }

    /// Waits until at least `min` requests are finished, or all in flight if they are fewer, and
    /// appends every finished one.
    ///
    /// # Errors
    /// The engine failed; the queue must not be used again.
    pub fn wait(&mut self, min: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        self.collect(min.saturating_sub(self.ready.len()))?;
        completions.extend(self.ready.drain(..));
        Ok(())
    }

    /// Waits until a request is finished; false if none is in flight.
    fn collect_one(&mut self) -> io::Result<bool> {
        let is_any = self.driver.outstanding() > 0;
        self.collect(usize::from(is_any)).map(|()| is_any)
    }

    fn collect(&mut self, min: usize) -> io::Result<()> {
        let mut finished = std::mem::take(&mut self.finished);
        self.driver.wait(min, &mut finished)?;
        for result in finished.drain(..) {
            let index = result.request.tag as usize;
            let entry = self.entries[index].take().expect("a finished operation has an entry");
            self.free.push(index);
            let (result, outcome) = entry.file.block_io().finish(result);
            let filled = if result.request.kind == OpKind::Read {
                result.done
            } else {
                result.request.len()
            };
            let block = result
                .request
                .mem
                .and_then(|mem| mem.into_block(filled))
                .expect("an operation returns its block");
            self.ready.push_back(Completion { tag: entry.tag, outcome, block });
        }
        self.finished = finished;
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // Locks are held until the requests are finished. A failed engine is drained when it is
        // dropped.
        let _ = self.collect(self.driver.outstanding());
    }
}
