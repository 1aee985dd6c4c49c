//! From full buffers to durable blocks: which are waiting, which are on their way, which files need a sync, and which space
//! is written ahead with zeros.
//!
//! A commit into space that was only allocated is as durable as any other, since its sync commits that the space is written;
//! but the file system has to record that, which takes about as long as the commit. So small groups go into space that was
//! written before: with zeros, in the background, ahead of the end of the log; or, where that did not keep up, as zeros
//! behind the group in the same write. Large groups, of at least a buffer, pay for the record rather than write twice.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use dio::block::{Block, Pool};

use crate::error::WalError;
use crate::format::{Layout, Lsn, segment_name};
use crate::group::Group;
use crate::storage::{Durability, SegmentFile};
use crate::supply::Supply;

/// How far zeros are written ahead, in buffers; when less than half of that is left they are written again.
const AHEAD: u64 = 4;
/// Zeros that are written at once in the background, in bytes: a commit that comes waits for no more than that.
const ZEROS_AT_ONCE: u64 = 256 << 10;

/// Consecutive bytes of the log within one segment, from the start of a block.
pub(crate) struct Chunk {
    /// The bytes so far.
    pub(crate) block: Block,
    /// Where they begin.
    pub(crate) start: u64,
    /// Most bytes.
    pub(crate) room: usize,
    /// It is one block that was written before and holds what is durable: the write must not be torn.
    pub(crate) again: bool,
    /// Zeros that are written behind the bytes.
    pub(crate) zeros: usize,
}

impl Chunk {
    /// Where its bytes end, and the zeros behind them.
    fn end(&self) -> u64 {
        self.start + (self.block.filled().len() + self.zeros) as u64
    }

    fn is_full(&self) -> bool {
        self.block.filled().len() == self.room
    }
}

/// Writes chunks.
pub(crate) struct Writer {
    layout: Layout,
    pool: Pool,
    /// Most bytes of a chunk, a multiple of the block. The pool's blocks may be larger.
    chunk: u64,
    supply: Arc<Supply>,
    group: Arc<Group<WalError>>,
    /// Whether the segment behind the one in use is made in the background, and zeros are written there.
    ahead: bool,
    /// Whether zeros are written before small groups come.
    zeros: bool,
    queue: Mutex<Queue>,
    /// Something was written, or failed.
    written: Condvar,
    /// There is something to write, or the log is being closed.
    work: Condvar,
    /// Zeros are wanted, or the log is being closed.
    zeros_wanted: Condvar,
}

/// What a log wants done before it is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// [`Writer::ahead`].
    pub(crate) background: bool,
    /// [`Writer::zeros`].
    pub(crate) zeros: bool,
}

#[derive(Default)]
struct Queue {
    /// Chunks that wait, in the order of the log.
    waiting: VecDeque<Chunk>,
    /// Places of those that are being written. Invariant: they do not overlap.
    under_way: Vec<Range<u64>>,
    /// Segments with volatile bytes.
    volatile: Vec<(u64, Arc<dyn SegmentFile>)>,
    /// How many wait on [`Writer::written`]: to wake nobody is a call of the system too.
    sleeping: usize,
    /// Bytes taken to be written since the last flush.
    gathered: u64,
    /// Where the space begins that was not written yet. Invariant: at or behind the end of every chunk that was taken.
    frontier: u64,
    /// Zeros are wanted behind the frontier.
    short: bool,
    closed: bool,
}

impl Writer {
    /// The writer of a log that has `buffers` chunks in memory, of up to `chunk` bytes, a multiple of the block.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn new(
        layout: Layout,
        chunk: u64,
        buffers: usize,
        supply: Arc<Supply>,
        group: Arc<Group<WalError>>,
        ahead: Ahead,
    ) -> Result<Writer, WalError> {
        debug_assert!(chunk > 0 && chunk % layout.block_bytes() == 0);
        let pool = Pool::new(chunk as usize, buffers);
        let pool = pool.map_err(|error| WalError::io("map memory for", ".", None, error))?;
        // Of the space behind the end of a log that was opened nobody knows whether it was written.
        let frontier = layout.block_at_or_after(group.durable());
        let queue = Mutex::new(Queue { frontier, ..Queue::default() });
        let Ahead { background: ahead, zeros } = ahead;
        let (written, work, zeros_wanted) = Default::default();
        Ok(Writer { layout, pool, chunk, supply, group, ahead, zeros, queue, written, work, zeros_wanted })
    }

    /// An empty chunk for the bytes from `start` on. When all memory is in use, the caller writes what waits, or waits for
    /// what is being written.
    ///
    /// # Errors
    /// The failure that latched.
    pub(crate) fn chunk(&self, start: u64) -> Result<Chunk, WalError> {
        debug_assert!(start % self.layout.block_bytes() == 0);
        let left = self.layout.segment_end(start) - start;
        if let Some(failed) = self.group.failure() {
            return Err(failed);
        }
        let mut queue = self.lock();
        loop {
            if let Some(block) = self.pool.try_take() {
                let room = left.min(self.chunk) as usize;
                return Ok(Chunk { block, start, room, again: false, zeros: 0 });
            }
            match self.take(&mut queue, u64::MAX) {
                Some(chunk) => {
                    drop(queue);
                    self.write(chunk, false)?;
                    queue = self.lock();
                }
                // Memory comes back before the end of a write is told, so this is not slept through.
                None => queue = self.wait_for_a_write(queue),
            }
        }
    }

    /// Queues a chunk; a full one is written in the background.
    pub(crate) fn queue(&self, chunk: Chunk) {
        let full = chunk.is_full();
        self.lock().waiting.push_back(chunk);
        if full {
            self.work.notify_one();
        }
    }

    /// Makes everything below `end` durable, which was queued.
    ///
    /// # Errors
    /// The failure that latched.
    pub(crate) fn flush(&self, end: u64) -> Result<(), WalError> {
        let mut queue = self.lock();
        loop {
            if let Some(chunk) = self.take(&mut queue, end) {
                let last = queue.waiting.front().is_none_or(|next| next.start >= end);
                let others = queue.under_way.iter().filter(|range| range.start < end && range.start != chunk.start);
                let alone = last && others.count() == 0 && queue.volatile.is_empty();
                drop(queue);
                self.write(chunk, alone)?;
                queue = self.lock();
            } else if queue.under_way.iter().any(|range| range.start < end) {
                queue = self.wait_for_a_write(queue);
            } else {
                break;
            }
        }
        let volatile = std::mem::take(&mut queue.volatile);
        queue.gathered = 0;
        drop(queue);
        if let Some(failed) = self.group.failure() {
            return Err(failed);
        }
        for (number, file) in volatile {
            file.sync().map_err(|error| self.fail(WalError::io("sync", &segment_name(number), None, error)))?;
        }
        Ok(())
    }

    /// Writes full chunks in the background until the log is closed.
    pub(crate) fn work(&self) {
        let mut queue = self.lock();
        while !queue.closed {
            if !queue.waiting.front().is_some_and(Chunk::is_full) {
                queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
            } else if let Some(chunk) = self.take(&mut queue, u64::MAX) {
                drop(queue);
                // An error has latched; whoever waits is told.
                let _ = self.write(chunk, false);
                queue = self.lock();
            } else {
                queue = self.wait_for_a_write(queue);
            }
        }
    }

    /// Writes zeros in the background until the log is closed.
    pub(crate) fn work_ahead(&self) {
        let mut queue = self.lock();
        while !queue.closed {
            let Some(range) = std::mem::take(&mut queue.short).then(|| self.take_zeros(&mut queue)).flatten() else {
                queue = self.zeros_wanted.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            let under_way = UnderWay { writer: self, start: range.start };
            // A sync that failed may have been the only one to be told of what a commit wrote.
            let outcome = self.write_zeros(&range).map_err(|error| self.fail(error));
            queue = under_way.end();
            if queue.sleeping > 0 {
                self.written.notify_all();
            }
            if outcome.is_err() {
                return;
            }
        }
    }

    /// Ends [`Writer::work`] and [`Writer::work_ahead`].
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        self.written.notify_all();
        self.zeros_wanted.notify_all();
    }

    /// The first chunk that waits, if it begins below `end` and its block is not being written: of two writes of one block the
    /// later must come later.
    fn take(&self, queue: &mut Queue, end: u64) -> Option<Chunk> {
        let first = queue.waiting.front().filter(|first| first.start < end)?;
        let zeros = self.zeros_behind(queue, first);
        let range = first.start..first.end() + zeros as u64;
        if queue.under_way.iter().any(|other| other.start < range.end && range.start < other.end) {
            return None;
        }
        let small = !first.is_full() && queue.gathered < self.chunk;
        queue.gathered += first.block.filled().len() as u64;
        queue.frontier = queue.frontier.max(range.end);
        if self.ahead && self.zeros && small && range.end + AHEAD * self.chunk / 2 > queue.frontier {
            queue.short = true;
            self.zeros_wanted.notify_one();
        }
        queue.under_way.push(range);
        let chunk = queue.waiting.pop_front();
        chunk.map(|chunk| Chunk { zeros, ..chunk })
    }

    /// How many zeros to write behind the first chunk, so that the small groups that come after it find space that was
    /// written. Only where it is the last one: the places behind it must not have been given out.
    fn zeros_behind(&self, queue: &Queue, first: &Chunk) -> usize {
        let small = !first.is_full()
            && queue.waiting.len() == 1
            && queue.gathered + first.block.filled().len() as u64 <= self.chunk;
        let fresh = self.zeros && !first.again && first.end() > queue.frontier;
        if small && fresh && !self.supply.is_written(self.layout.locate(first.start).0) {
            first.room - first.block.filled().len()
        } else {
            0
        }
    }

    /// What to fill with zeros now, which then counts as under way. Invariant: it is behind every place that was given to a
    /// chunk that was taken, and chunks that come to lie there wait until it is filled.
    fn take_zeros(&self, queue: &mut Queue) -> Option<Range<u64>> {
        let start = queue.frontier;
        let number = self.layout.locate(start).0;
        if !self.supply.has(number) {
            return None;
        }
        let end = self.layout.segment_end(start);
        if self.supply.is_written(number) {
            queue.frontier = end;
            return None;
        }
        let range = start..end.min(start + AHEAD * self.chunk);
        queue.frontier = range.end;
        queue.under_way.push(range.clone());
        Some(range)
    }

    fn write_zeros(&self, range: &Range<u64>) -> Result<(), WalError> {
        let (number, offset) = self.layout.locate(range.start);
        let file = self.supply.segment(number)?;
        let step = ZEROS_AT_ONCE.clamp(self.layout.block_bytes(), self.chunk.max(self.layout.block_bytes()));
        let step = step / self.layout.block_bytes() * self.layout.block_bytes();
        let pool = Pool::new(step as usize, 1);
        let pool = pool.map_err(|error| WalError::io("map memory for", ".", None, error))?;
        let mut memory = pool.try_take().expect("a new pool has its block");
        let zeros = &memory.bytes_mut()[..step as usize];
        let written = file.write_zeros(zeros, offset, range.end - range.start);
        written.map_err(|error| WalError::io("write zeros to", &segment_name(number), Some(offset), error))
    }

    /// Writes a chunk that is under way. With `alone` nothing else has to become durable with it.
    fn write(&self, mut chunk: Chunk, alone: bool) -> Result<(), WalError> {
        let under_way = UnderWay { writer: self, start: chunk.start };
        let length = chunk.block.filled().len() + std::mem::take(&mut chunk.zeros);
        chunk.block.copy_in(length, &[]);
        let outcome = self.write_blocks(&chunk, alone).map_err(|error| self.fail(error));
        drop(chunk);
        // Only now, behind the latch: who waits for this write must not take its end for a success.
        let mut queue = under_way.end();
        if let Ok((number, file, Durability::Volatile)) = &outcome
            && queue.volatile.iter().all(|(other, _)| other != number)
        {
            queue.volatile.push((*number, Arc::clone(file)));
        }
        let waited_for = queue.sleeping > 0;
        drop(queue);
        if waited_for {
            self.written.notify_all();
        }
        outcome.map(|_| ())
    }

    fn write_blocks(&self, chunk: &Chunk, alone: bool) -> Result<(u64, Arc<dyn SegmentFile>, Durability), WalError> {
        let (number, offset) = self.layout.locate(chunk.start);
        let file = self.supply.segment(number)?;
        if self.ahead {
            self.supply.want_next(number);
        }
        let bytes = chunk.block.filled();
        debug_assert!(bytes.len() as u64 % self.layout.block_bytes() == 0);
        let written = match chunk.again {
            true => file.write_atomic(bytes, offset, alone),
            false => file.write_at(bytes, offset, alone),
        };
        let written = written.map_err(|error| WalError::io("write", &segment_name(number), Some(offset), error))?;
        Ok((number, file, written))
    }

    fn wait_for_a_write<'a>(&self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        queue.sleeping += 1;
        let mut queue = self.written.wait(queue).unwrap_or_else(PoisonError::into_inner);
        queue.sleeping -= 1;
        queue
    }

    /// Latches a failure.
    pub(crate) fn fail(&self, cause: WalError) -> WalError {
        self.group.fail(|durable| WalError::Failed { durable: Lsn(durable), cause: Arc::new(cause) })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write under way, which began at a place. One that ends by a panic has failed, and others wait for it.
struct UnderWay<'a> {
    writer: &'a Writer,
    start: u64,
}

impl<'a> UnderWay<'a> {
    /// It came to an end, well or with a failure that has latched.
    fn end(self) -> MutexGuard<'a, Queue> {
        let writer = self.writer;
        let mut queue = writer.lock();
        queue.under_way.retain(|other| other.start != self.start);
        std::mem::forget(self);
        queue
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.writer.group.fail(WalError::panicked);
        self.writer.lock().under_way.retain(|other| other.start != self.start);
        self.writer.written.notify_all();
    }
}
