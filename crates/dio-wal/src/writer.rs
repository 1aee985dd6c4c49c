//! From full buffers to durable blocks: which are waiting, which are on their way, which files need a sync.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use dio::block::{Block, Pool};

use crate::error::WalError;
use crate::format::{Layout, Lsn, segment_name};
use crate::group::Group;
use crate::storage::{SegmentFile, Written};
use crate::supply::Supply;

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
}

impl Chunk {
    fn end(&self) -> u64 {
        self.start + self.block.filled().len() as u64
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
    /// Whether the segment behind the one in use is made in the background.
    ahead: bool,
    queue: Mutex<Queue>,
    /// Something was written, or failed.
    written: Condvar,
    /// There is something to write, or the log is being closed.
    work: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Chunks that wait, in the order of the log.
    waiting: VecDeque<Chunk>,
    /// Places of those that are being written. Invariant: they do not overlap.
    under_way: Vec<Range<u64>>,
    /// Segments with volatile bytes.
    volatile: Vec<(u64, Arc<dyn SegmentFile>)>,
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
        ahead: bool,
    ) -> Result<Writer, WalError> {
        debug_assert!(chunk > 0 && chunk % layout.block() == 0);
        let pool = Pool::new(chunk as usize, buffers);
        let pool = pool.map_err(|error| WalError::io("map memory for", ".", None, error))?;
        let (queue, written, work) = Default::default();
        Ok(Writer { layout, pool, chunk, supply, group, ahead, queue, written, work })
    }

    /// An empty chunk for the bytes from `start` on. When all memory is in use, the caller writes what waits, or waits for
    /// what is being written.
    ///
    /// # Errors
    /// The failure that latched.
    pub(crate) fn chunk(&self, start: u64) -> Result<Chunk, WalError> {
        debug_assert!(start % self.layout.block() == 0);
        let left = self.layout.segment_end(start) - start;
        if let Some(failed) = self.group.failure() {
            return Err(failed);
        }
        let mut queue = self.lock();
        loop {
            if let Some(block) = self.pool.try_take() {
                return Ok(Chunk { block, start, room: left.min(self.chunk) as usize, again: false });
            }
            match self.take(&mut queue, u64::MAX) {
                Some(chunk) => {
                    drop(queue);
                    self.write(chunk, false)?;
                    queue = self.lock();
                }
                // Memory comes back before the end of a write is told, so this is not slept through.
                None => queue = self.written.wait(queue).unwrap_or_else(PoisonError::into_inner),
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
                let alone = last && queue.under_way.len() == 1 && queue.volatile.is_empty();
                drop(queue);
                self.write(chunk, alone)?;
                queue = self.lock();
            } else if queue.under_way.iter().any(|range| range.start < end) {
                queue = self.written.wait(queue).unwrap_or_else(PoisonError::into_inner);
            } else {
                break;
            }
        }
        let volatile = std::mem::take(&mut queue.volatile);
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
                queue = self.written.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Ends [`Writer::work`].
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
        self.written.notify_all();
    }

    /// The first chunk that waits, if it begins below `end` and its block is not being written: of two writes of one block the
    /// later must come later.
    fn take(&self, queue: &mut Queue, end: u64) -> Option<Chunk> {
        let first = queue.waiting.front().filter(|first| first.start < end)?;
        let range = first.start..first.end();
        if queue.under_way.iter().any(|other| other.start < range.end && range.start < other.end) {
            return None;
        }
        queue.under_way.push(range);
        queue.waiting.pop_front()
    }

    /// Writes a chunk that is under way. With `alone` nothing else has to become durable with it.
    fn write(&self, chunk: Chunk, alone: bool) -> Result<(), WalError> {
        let start = chunk.start;
        let outcome = self.write_blocks(&chunk, alone).map_err(|error| self.fail(error));
        drop(chunk);
        let mut queue = self.lock();
        // Only now, behind the latch: who waits for this write must not take its end for a success.
        queue.under_way.retain(|other| other.start != start);
        if let Ok((number, file, Written::Volatile)) = &outcome
            && queue.volatile.iter().all(|(other, _)| other != number)
        {
            queue.volatile.push((*number, Arc::clone(file)));
        }
        drop(queue);
        self.written.notify_all();
        outcome.map(|_| ())
    }

    fn write_blocks(&self, chunk: &Chunk, alone: bool) -> Result<(u64, Arc<dyn SegmentFile>, Written), WalError> {
        let (number, offset) = self.layout.locate(chunk.start);
        let file = self.supply.segment(number)?;
        if self.ahead {
            self.supply.want_next(number);
        }
        let bytes = chunk.block.filled();
        debug_assert!(bytes.len() as u64 % self.layout.block() == 0);
        let written = match chunk.again {
            true => file.write_untorn(bytes, offset, alone),
            false => file.write_at(bytes, offset, alone),
        };
        let written = written.map_err(|error| WalError::io("write", &segment_name(number), Some(offset), error))?;
        Ok((number, file, written))
    }

    /// Latches a failure.
    fn fail(&self, cause: WalError) -> WalError {
        self.group.fail(|durable| WalError::Failed { durable: Lsn(durable), cause: Arc::new(cause) })
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
