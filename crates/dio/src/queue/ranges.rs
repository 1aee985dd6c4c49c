//! A queue of requests to any range of a file, with memory of the caller's.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

use crate::block::{Mem, Pool, Segment};
use crate::drive::{Driver, Finished};
use crate::engine::OpKind;
use crate::file::{File, FileError, Reason, errno_of};
use crate::geometry::{align_down, align_up};
use crate::io::Io;
use crate::lock::LockGuard;

/// Size of a block of bounce memory in bytes. No file's blocks are larger: see
/// [`Limits::bounce_block`](crate::Limits::bounce_block).
const BOUNCE_BLOCK_BYTES: usize = 64 << 10;

/// Most segments of one vectored request (`IOV_MAX`).
const SEGMENTS_MAX: usize = 1024;

/// A finished request of a [`RangeQueue`].
#[derive(Debug)]
pub struct RangeCompletion {
    /// The number that the caller gave the request.
    pub tag: u64,
    /// Bytes transferred, or the error. A read transfers fewer bytes than asked for only at the end
    /// of the file; a write transfers all.
    pub outcome: Result<usize, FileError>,
    /// The caller's memory; `None` after a sync.
    pub memory: Option<Segment>,
}

/// A request that was not queued.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RefusedRange {
    /// The reason.
    #[source]
    pub error: FileError,
    /// The caller's memory, unchanged; `None` for a sync.
    pub memory: Option<Segment>,
}

/// A request that the driver has.
#[derive(Debug)]
struct RangeInFlight {
    file: Arc<File>,
    tag: u64,
    /// If the request goes through bounce blocks: the caller's memory, the part of the request that
    /// it holds, in bytes from the start of the request, and why.
    bounced: Option<(Segment, Range<usize>, Reason)>,
    /// Held until the request is finished.
    _lock: Option<LockGuard>,
}

/// A request that runs by itself, in the call that waits.
#[derive(Debug)]
struct LoneRequest {
    kind: OpKind,
    file: Arc<File>,
    memory: Option<Segment>,
    offset: u64,
    tag: u64,
}

/// What becomes of a request.
enum Admission {
    /// Nothing is to be done.
    Finished,
    /// It runs by itself.
    Lone,
    /// The driver runs it over `span`, through bounce blocks if there is a reason to.
    Driven { lock: Option<LockGuard>, span: Range<u64>, bounce: Option<Reason> },
}

/// A queue of reads and writes at any offset and of any length, into any memory.
///
/// Reads, and writes of whole blocks within the file, are in flight together. They transfer the
/// caller's memory itself if it is aligned ([`Geometry`](crate::geometry::Geometry)), and go
/// through bounce blocks of the queue otherwise. Writes that extend the file or begin or end within
/// a block need the file to themselves, and so does a sync: each of them runs by itself, in order,
/// in the next call of [`RangeQueue::wait`], when the others in flight are finished. So a caller
/// that wants speed allocates the file first ([`File::allocate`]) and writes whole blocks.
///
/// The rules of [`Queue`](super::Queue) about threads and overlapping requests hold here too.
///
/// ```
/// use std::sync::Arc;
/// use dio::block::Pool;
/// use dio::queue::RangeQueue;
/// use dio::{Io, OpenOptions};
/// # let directory = tempfile::tempdir_in("/var/tmp")?;
/// # let path = directory.path().join("data");
/// let file = OpenOptions::new().read(true).write(true).create(true).open(path)?;
/// file.write_at(b"any length, at any offset", 4097)?;
///
/// let (file, pool) = (Arc::new(file), Pool::new(4096, 2)?);
/// let mut queue = RangeQueue::new(&Io::shared()?, 8, 1 << 20)?;
/// for tag in 0..2 {
///     let memory = pool.try_take().expect("two blocks are free").into_segment(0..7);
///     queue.read(&file, memory, 4101 + 7 * tag, tag)?;
/// }
/// queue.wait(2)?;
/// while let Some(completion) = queue.take() {
///     assert_eq!(completion.outcome?, 7);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RangeQueue {
    driver: Driver,
    bounce: Pool,
    entries: Vec<Option<RangeInFlight>>,
    free: Vec<usize>,
    finished: Vec<Finished>,
    lone: VecDeque<LoneRequest>,
    ready: VecDeque<RangeCompletion>,
    /// Makes the queue not `Send`: see [`Queue`](super::Queue).
    this_thread: PhantomData<*const ()>,
}

impl RangeQueue {
    /// A queue of `depth` requests, with `bounce_bytes` of memory for those that are not aligned.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(io: &Io, depth: usize, bounce_bytes: usize) -> io::Result<RangeQueue> {
        let depth = depth.max(1);
        let bounce = Pool::new(BOUNCE_BLOCK_BYTES, (bounce_bytes / BOUNCE_BLOCK_BYTES).max(1))?;
        let mut driver = io.driver_for_this_thread(depth);
        // Unregistered buffers only cost a little speed.
        let _ = driver.attach(&bounce);
        Ok(RangeQueue {
            driver,
            bounce,
            entries: (0..depth).map(|_| None).collect(),
            free: (0..depth).rev().collect(),
            finished: Vec::with_capacity(depth),
            lone: VecDeque::new(),
            ready: VecDeque::with_capacity(depth),
            this_thread: PhantomData,
        })
    }

    /// Most requests that may be queued and not yet taken.
    pub fn depth(&self) -> usize {
        self.entries.len()
    }

    /// Requests queued and not yet taken.
    pub fn in_flight(&self) -> usize {
        self.entries.len() - self.free.len() + self.lone.len() + self.ready.len()
    }

    /// Queues a read into all of `memory` from `offset`. It starts in the next call of
    /// [`RangeQueue::submit`] or [`RangeQueue::wait`] at the latest.
    ///
    /// # Errors
    /// EAGAIN when [`RangeQueue::depth`] requests are queued; EOVERFLOW for a range that no file
    /// has; EFAULT for memory that may only be read.
    pub fn read(
        &mut self,
        file: &Arc<File>,
        memory: Segment,
        offset: u64,
        tag: u64,
    ) -> Result<(), Box<RefusedRange>> {
        self.start(OpKind::Read, file, Some(memory), offset, tag)
    }

    /// Queues a write of all of `memory` at `offset`. The file grows if need be.
    ///
    /// # Errors
    /// As [`RangeQueue::read`], and an earlier write error of the file.
    pub fn write(
        &mut self,
        file: &Arc<File>,
        memory: Segment,
        offset: u64,
        tag: u64,
    ) -> Result<(), Box<RefusedRange>> {
        self.start(OpKind::Write, file, Some(memory), offset, tag)
    }

    /// Queues a sync, which makes durable what was queued before it: the data and what is needed to
    /// read it back, or with `all` also all other metadata.
    ///
    /// # Errors
    /// EAGAIN as [`RangeQueue::read`]; an earlier write error of the file.
    pub fn sync(&mut self, file: &Arc<File>, all: bool, tag: u64) -> Result<(), Box<RefusedRange>> {
        self.start(if all { OpKind::SyncAll } else { OpKind::SyncData }, file, None, 0, tag)
    }

    fn start(
        &mut self,
        kind: OpKind,
        file: &Arc<File>,
        memory: Option<Segment>,
        offset: u64,
        tag: u64,
    ) -> Result<(), Box<RefusedRange>> {
        match self.admit(kind, file, memory.as_ref(), offset) {
            Ok(Admission::Finished) => {
                self.ready.push_back(RangeCompletion { tag, outcome: Ok(0), memory });
            }
            Ok(Admission::Lone) => {
                self.lone.push_back(LoneRequest {
                    kind,
                    file: Arc::clone(file),
                    memory,
                    offset,
                    tag,
                });
            }
            Ok(Admission::Driven { lock, span, bounce }) => {
                let memory = memory.expect("only reads and writes are driven");
                self.drive(kind, file, memory, offset, (lock, span, bounce, tag));
            }
            Err(error) => return Err(Box::new(RefusedRange { error, memory })),
        }
        Ok(())
    }

    /// Decides what becomes of a request, and takes its lock.
    fn admit(
        &mut self,
        kind: OpKind,
        file: &File,
        memory: Option<&Segment>,
        offset: u64,
    ) -> Result<Admission, FileError> {
        let refusal =
            |errno| Err(FileError::new("queue a request to", file.path(), errno).at(offset));
        if kind != OpKind::Read {
            file.check_latch()?;
        }
        if self.in_flight() >= self.depth() {
            let cure = "take finished requests first, or make the queue deeper";
            return refusal(Errno::AGAIN).map_err(|error| error.with_cure(cure));
        }
        let Some(memory) = memory else { return Ok(Admission::Lone) };
        if kind == OpKind::Read && !memory.is_writable() {
            return refusal(Errno::FAULT);
        }
        let end = offset.checked_add(memory.len() as u64).filter(|end| *end <= i64::MAX as u64);
        let Some(end) = end else { return refusal(Errno::OVERFLOW) };
        if memory.is_empty() {
            return Ok(Admission::Finished);
        }
        let align = file.block_align();
        let span = align_down(offset, align)..align_up(end, align);
        let is_whole = span == (offset..end);
        let bounce = match () {
            () if !is_whole => Some(Reason::MisalignedRequest),
            () if align > 1 && !file.geometry().is_memory_aligned(memory.address()) => {
                Some(Reason::MisalignedMemory)
            }
            () => None,
        };
        let blocks = (span.end - span.start).div_ceil(BOUNCE_BLOCK_BYTES as u64);
        let bounces = blocks <= self.bounce.blocks().min(SEGMENTS_MAX) as u64;
        let reachable = span.end <= i64::MAX as u64;
        if !reachable || bounce.is_some() && !bounces || kind == OpKind::Write && !is_whole {
            return Ok(Admission::Lone);
        }
        let lock = self.lock(kind, file, &span)?;
        // The size is asked for under the lock, so that nobody cuts the file off in between.
        if kind == OpKind::Write && end > file.size()? {
            return Ok(Admission::Lone);
        }
        Ok(Admission::Driven { lock, span, bounce })
    }

    /// Hands a request to the driver.
    fn drive(
        &mut self,
        kind: OpKind,
        file: &Arc<File>,
        memory: Segment,
        offset: u64,
        (lock, span, bounce, tag): (Option<LockGuard>, Range<u64>, Option<Reason>, u64),
    ) {
        let (mem, bounced) = match bounce {
            None => (Mem::one(memory), None),
            Some(reason) => {
                let mut memory = Mem::one(memory);
                let len = (span.end - span.start) as usize;
                let mem = self.bounce_memory(kind, &mut memory, len);
                let start = (offset - span.start) as usize;
                let part = start..start + memory.len();
                (mem, Some((only_segment(memory), part, reason)))
            }
        };
        if self.driver.outstanding() == 0 {
            file.block_io().grow_driver(&mut self.driver, self.entries.len(), true);
        }
        let index = self.free.pop().expect("a request was admitted, so an entry is free");
        self.entries[index] =
            Some(RangeInFlight { file: Arc::clone(file), tag, bounced, _lock: lock });
        self.driver.submit(file.block_io().request(kind, span.start, mem, index as u64));
    }

    /// Takes bounce blocks for `len` bytes. For a write, which is whole, they are filled.
    fn bounce_memory(&mut self, kind: OpKind, memory: &mut Mem, len: usize) -> Mem {
        let blocks = self.bounce.take_many(len.div_ceil(BOUNCE_BLOCK_BYTES));
        let slices = memory.slices(0);
        let bytes = if kind == OpKind::Write { &slices[0][..] } else { &[] };
        let mut segments = blocks.into_iter().enumerate().map(|(number, mut block)| {
            let start = number * BOUNCE_BLOCK_BYTES;
            let end = (start + BOUNCE_BLOCK_BYTES).min(len);
            if kind == OpKind::Write {
                block.push(&bytes[start..end]);
            }
            block.into_segment(0..end - start)
        });
        let mut mem = Mem::one(segments.next().expect("a request has a byte"));
        segments.for_each(|segment| mem.push(segment));
        mem
    }

    /// Takes the lock of a request, and waits until bounce blocks for it are free.
    fn lock(
        &mut self,
        kind: OpKind,
        file: &File,
        span: &Range<u64>,
    ) -> Result<Option<LockGuard>, FileError> {
        let failed = |error| FileError::new("run I/O on", file.path(), errno_of(&error));
        let blocks = (span.end - span.start).div_ceil(BOUNCE_BLOCK_BYTES as u64) as usize;
        let blocks = blocks.min(self.bounce.blocks());
        while self.bounce.free() < blocks && self.driver.outstanding() > 0 {
            self.collect(1).map_err(failed)?;
        }
        file.block_io().lock_beside(kind, span.clone(), || {
            let is_any = self.driver.outstanding() > 0;
            self.collect(usize::from(is_any)).map(|()| is_any).map_err(failed)
        })
    }

    /// Starts what was queued, except the requests that run by themselves.
    ///
    /// # Errors
    /// The engine failed; the queue must not be used again.
    pub fn submit(&mut self) -> io::Result<()> {
        self.collect(0)
    }

    /// Runs the requests that run by themselves, and waits until at least `min` requests can be
    /// taken, or all if they are fewer.
    ///
    /// # Errors
    /// The engine failed; the queue must not be used again.
    pub fn wait(&mut self, min: usize) -> io::Result<()> {
        while let Some(request) = self.lone.pop_front() {
            let drained = self.collect(self.driver.outstanding());
            if drained.is_err() {
                self.lone.push_front(request);
                return drained;
            }
            self.ready.push_back(run_alone(request));
        }
        self.collect(min.saturating_sub(self.ready.len()))
    }

    /// Takes a finished request.
    pub fn take(&mut self) -> Option<RangeCompletion> {
        self.ready.pop_front()
    }

    fn collect(&mut self, min: usize) -> io::Result<()> {
        let mut finished = std::mem::take(&mut self.finished);
        self.driver.wait(min, &mut finished)?;
        for result in finished.drain(..) {
            let index = result.request.tag as usize;
            let entry = self.entries[index].take().expect("a finished operation has an entry");
            self.free.push(index);
            self.ready.push_back(completion(entry, result));
        }
        self.finished = finished;
        Ok(())
    }
}

impl Drop for RangeQueue {
    fn drop(&mut self) {
        // The callers' memory is free when the requests are finished. A failed engine is drained
        // when it is dropped.
        let _ = self.collect(self.driver.outstanding());
    }
}

/// Makes a completion of what the driver returned.
fn completion(entry: RangeInFlight, finished: Finished) -> RangeCompletion {
    let how = entry.bounced.as_ref().map(|(_, part, reason)| (*reason, part.clone()));
    let (finished, outcome) = entry.file.block_io().finish_as(finished, how);
    let kind = finished.request.kind;
    let mut mem = finished.request.mem.expect("an operation returns its memory");
    let (outcome, memory) = match entry.bounced {
        None => {
            if let (OpKind::Read, Ok(count)) = (kind, &outcome) {
                // The device may have stored whole blocks.
                mem.slices_mut(*count).iter_mut().for_each(|slice| slice.fill(0));
            }
            (outcome, only_segment(mem))
        }
        Some((memory, part, _)) => {
            let outcome = outcome.map(|count| count.clamp(part.start, part.end) - part.start);
            let mut memory = Mem::one(memory);
            if let (OpKind::Read, Ok(count)) = (kind, &outcome) {
                copy_out(&mem, part.start, &mut memory.slices_mut(0)[0][..*count]);
            }
            (outcome, only_segment(memory))
        }
    };
    RangeCompletion { tag: entry.tag, outcome, memory: Some(memory) }
}

/// Copies from `mem`, from byte `skip` on, until `to` is full.
fn copy_out(mem: &Mem, skip: usize, to: &mut [u8]) {
    let mut done = 0;
    for slice in mem.slices(skip) {
        let len = slice.len().min(to.len() - done);
        to[done..done + len].copy_from_slice(&slice[..len]);
        done += len;
    }
}

/// Runs a request to its end, while nothing of its queue is in flight.
fn run_alone(request: LoneRequest) -> RangeCompletion {
    let LoneRequest { kind, file, memory, offset, tag } = request;
    let mut mem = memory.map(Mem::one);
    let outcome = match (kind, &mut mem) {
        (OpKind::Read, Some(mem)) => file.read_vectored_at(&mut mem.slices_mut(0), offset),
        (_, Some(mem)) => file.write_vectored_at(&mem.slices(0), offset).map(|()| mem.len()),
        (OpKind::SyncAll, None) => file.sync_all().map(|()| 0),
        (_, None) => file.sync_data().map(|()| 0),
    };
    RangeCompletion { tag, outcome, memory: mem.map(only_segment) }
}

/// The segment of a memory that consists of one.
fn only_segment(mem: Mem) -> Segment {
    mem.into_segments().next().expect("a memory has a segment")
}
