//! Writes full buffers to the segments, and makes their blocks durable.
//!
//! The writer keeps track of the buffers that wait, of the writes that are in flight, of the files
//! that need a sync, and of the space that is filled with zeros ahead of the log.
//!
//! A commit into space that was only allocated is as durable as any other, because its sync commits
//! that the space is written. But the file system has to record that, which takes about as long as
//! the commit itself. So small groups go into space that was written before. Zeros are written
//! there in the background, ahead of the end of the log. Where that did not keep up, zeros follow
//! the group in the same write. Large groups, of at least a buffer, go into allocated space:
//! recording costs less than writing all of it twice.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use dio::block::Pool;

use crate::allocator::SegmentAllocator;
use crate::buffer::LogBuffer;
use crate::error::WalError;
use crate::format::{Layout, Lsn, segment_name};
use crate::group_commit::GroupCommit;
use crate::storage::{Durability, SegmentFile};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// How far zeros are written ahead, in buffers. When less than half of that is left, zeros are
/// written again.
const ZEROS_AHEAD_BUFFERS: u64 = 4;
/// Bytes of zeros in one write in the background. A commit that needs the disk waits for no more
/// than that.
const ZEROS_WRITE_BYTES: u64 = 256 << 10;

/// Writes buffers and makes them durable.
pub(crate) struct Writer {
    layout: Layout,
    pool: Pool,
    /// Bytes of a buffer, a multiple of the block size. The pool's blocks may be larger.
    buffer_bytes: u64,
    allocator: Arc<SegmentAllocator>,
    group: Arc<GroupCommit<WalError>>,
    background: BackgroundWork,
    queue: Mutex<WriteQueue>,
    /// Signals that a write has ended, whether it succeeded or failed.
    write_ended: Condvar,
    /// Signals that a full buffer waits, or that the log is being closed.
    full_buffer: Condvar,
    /// Signals that zeros are requested, or that the log is being closed.
    zeros_requested: Condvar,
}

/// Work that threads of the log do before it is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackgroundWork {
    /// The segment behind the one in use is made, and zeros are written, in the background.
    pub(crate) prepare: bool,
    /// Zeros are written before small groups arrive.
    pub(crate) zeros: bool,
}

/// Invariants that other code relies on:
///
/// 1. The ranges in `in_flight` do not overlap.
/// 2. `unwritten` lies at or behind the end of every buffer that was taken from `waiting`.
#[derive(Default)]
struct WriteQueue {
    /// Buffers that wait to be written, in the order of the log.
    waiting: VecDeque<LogBuffer>,
    /// Ranges of LSNs that are being written.
    in_flight: Vec<Range<u64>>,
    /// Numbers and files of segments that need a sync.
    unsynced: Vec<(u64, Arc<dyn SegmentFile>)>,
    /// How many threads wait on [`Writer::write_ended`]. Notifying is a system call even if no
    /// thread waits.
    waiters: usize,
    /// Bytes of the buffers taken from `waiting` since the last flush.
    bytes_since_flush: u64,
    /// LSN where the space begins that may not be written yet.
    unwritten: u64,
    /// The thread that writes zeros is to write some from `unwritten` on.
    wants_zeros: bool,
    closed: bool,
}

impl Writer {
    /// The writer of a log with `buffers` buffers of `buffer_bytes`, a multiple of the block size.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn new(
        layout: Layout,
        buffer_bytes: u64,
        buffers: usize,
        allocator: Arc<SegmentAllocator>,
        group: Arc<GroupCommit<WalError>>,
        background: BackgroundWork,
    ) -> Result<Writer, WalError> {
        debug_assert!(buffer_bytes > 0 && buffer_bytes % layout.block_bytes() == 0);
        let pool = Pool::new(buffer_bytes as usize, buffers);
        let pool = pool.map_err(|error| WalError::io("map memory for", ".", None, error))?;
        // Whether the space behind the end of an opened log was written is unknown.
        let unwritten = layout.block_at_or_after(group.durable());
        let queue = Mutex::new(WriteQueue { unwritten, ..WriteQueue::default() });
        let (write_ended, full_buffer, zeros_requested) =
            (Condvar::new(), Condvar::new(), Condvar::new());
        Ok(Writer {
            layout,
            pool,
            buffer_bytes,
            allocator,
            group,
            background,
            queue,
            write_ended,
            full_buffer,
            zeros_requested,
        })
    }

    /// Returns an empty buffer for the bytes from `start` on. If all memory is in use, the caller
    /// writes a waiting buffer, or waits for a write in flight.
    ///
    /// # Errors
    /// The first failure of the log.
    pub(crate) fn new_buffer(&self, start: u64) -> Result<LogBuffer, WalError> {
        debug_assert!(start % self.layout.block_bytes() == 0);
        let left_in_segment = self.layout.segment_end(start) - start;
        if let Some(failed) = self.group.failure() {
            return Err(failed);
        }
        let mut queue = self.lock();
        loop {
            if let Some(block) = self.pool.try_take() {
                let bytes_max = left_in_segment.min(self.buffer_bytes) as usize;
                return Ok(LogBuffer { block, start, bytes_max, rewrite: false, zeros: 0 });
            }
            match self.take_first(&mut queue, u64::MAX) {
                Some(buffer) => {
                    drop(queue);
                    self.write(buffer, false)?;
                    queue = self.lock();
                }
                // A write returns its memory before it signals its end, so no wake-up is missed.
                None => queue = self.wait_for_write(queue),
            }
        }
    }

    /// Queues a buffer. A full one is written in the background.
    pub(crate) fn enqueue(&self, buffer: LogBuffer) {
        let full = buffer.is_full();
        self.lock().waiting.push_back(buffer);
        if full {
            self.full_buffer.notify_one();
        }
    }

    /// Makes durable everything below `end`, which must have been queued.
    ///
    /// # Errors
    /// The first failure of the log.
    pub(crate) fn flush(&self, end: u64) -> Result<(), WalError> {
        let mut queue = self.lock();
        loop {
            if let Some(buffer) = self.take_first(&mut queue, end) {
                let last = queue.waiting.front().is_none_or(|next| next.start >= end);
                let others = queue
                    .in_flight
                    .iter()
                    .filter(|range| range.start < end && range.start != buffer.start);
                let only_write = last && others.count() == 0 && queue.unsynced.is_empty();
                drop(queue);
                self.write(buffer, only_write)?;
                queue = self.lock();
            } else if queue.in_flight.iter().any(|range| range.start < end) {
                queue = self.wait_for_write(queue);
            } else {
                break;
            }
        }
        let unsynced = std::mem::take(&mut queue.unsynced);
        queue.bytes_since_flush = 0;
        drop(queue);
        if let Some(failed) = self.group.failure() {
            return Err(failed);
        }
        for (number, file) in unsynced {
            file.sync().map_err(|error| {
                self.fail(WalError::io("sync", &segment_name(number), None, error))
            })?;
        }
        Ok(())
    }

    /// Writes full buffers until the log is closed. The threads for write-behind run this.
    pub(crate) fn run_write_behind(&self) {
        let mut queue = self.lock();
        while !queue.closed {
            if !queue.waiting.front().is_some_and(LogBuffer::is_full) {
                self.full_buffer.wait(&mut queue);
            } else if let Some(buffer) = self.take_first(&mut queue, u64::MAX) {
                drop(queue);
                // The log records the failure, and returns it to all threads that wait.
                let _ = self.write(buffer, false);
                queue = self.lock();
            } else {
                queue = self.wait_for_write(queue);
            }
        }
    }

    /// Writes zeros until the log is closed. The thread for zeros runs this.
    pub(crate) fn run_zeros(&self) {
        let mut queue = self.lock();
        while !queue.closed {
            let wanted = std::mem::take(&mut queue.wants_zeros);
            let Some(range) = wanted.then(|| self.take_zeros(&mut queue)).flatten() else {
                self.zeros_requested.wait(&mut queue);
                continue;
            };
            drop(queue);
            let in_flight = InFlightWrite { writer: self, start: range.start };
            // A failed sync here may be the only report of a loss of what a commit has written, so
            // it fails the log.
            let outcome = self.write_zeros(&range).map_err(|error| self.fail(error));
            queue = in_flight.end();
            if queue.waiters > 0 {
                self.write_ended.notify_all();
            }
            if outcome.is_err() {
                return;
            }
        }
    }

    /// Ends [`Writer::run_write_behind`] and [`Writer::run_zeros`].
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.full_buffer.notify_all();
        self.write_ended.notify_all();
        self.zeros_requested.notify_all();
    }

    /// Takes the first waiting buffer, which then counts as in flight, if it begins below `end` and
    /// no write in flight overlaps it: of two writes to one block, the later one must reach the
    /// disk later.
    fn take_first(&self, queue: &mut WriteQueue, end: u64) -> Option<LogBuffer> {
        let first = queue.waiting.front().filter(|first| first.start < end)?;
        let zeros = self.zeros_behind(queue, first);
        let range = first.start..first.end() + zeros as u64;
        if queue.in_flight.iter().any(|other| other.start < range.end && range.start < other.end) {
            return None;
        }
        let small = !first.is_full() && queue.bytes_since_flush < self.buffer_bytes;
        queue.bytes_since_flush += first.block.filled().len() as u64;
        queue.unwritten = queue.unwritten.max(range.end);
        let low = range.end + ZEROS_AHEAD_BUFFERS * self.buffer_bytes / 2 > queue.unwritten;
        if self.background.prepare && self.background.zeros && small && low {
            queue.wants_zeros = true;
            self.zeros_requested.notify_one();
        }
        queue.in_flight.push(range);
        let buffer = queue.waiting.pop_front();
        buffer.map(|buffer| LogBuffer { zeros, ..buffer })
    }

    /// How many zeros to write behind the first waiting buffer, so that the small groups after it
    /// find written space. Only the last waiting buffer gets zeros: the LSNs behind it must not
    /// have been given to another buffer.
    fn zeros_behind(&self, queue: &WriteQueue, first: &LogBuffer) -> usize {
        let filled = first.block.filled().len();
        let small = !first.is_full()
            && queue.waiting.len() == 1
            && queue.bytes_since_flush + filled as u64 <= self.buffer_bytes;
        let unwritten = self.background.zeros && !first.rewrite && first.end() > queue.unwritten;
        if small && unwritten && !self.allocator.is_written(self.layout.segment_of(first.start)) {
            first.bytes_max - filled
        } else {
            0
        }
    }

    /// Takes a range to fill with zeros, which then counts as in flight. It lies behind every
    /// buffer that was taken (invariant 2). Buffers that come to lie in it wait until it is filled.
    fn take_zeros(&self, queue: &mut WriteQueue) -> Option<Range<u64>> {
        let start = queue.unwritten;
        let number = self.layout.segment_of(start);
        if !self.allocator.was_made(number) {
            return None;
        }
        let end = self.layout.segment_end(start);
        if self.allocator.is_written(number) {
            queue.unwritten = end;
            return None;
        }
        let range = start..end.min(start + ZEROS_AHEAD_BUFFERS * self.buffer_bytes);
        queue.unwritten = range.end;
        queue.in_flight.push(range.clone());
        Some(range)
    }

    fn write_zeros(&self, range: &Range<u64>) -> Result<(), WalError> {
        let (number, offset) = self.layout.locate(range.start);
        let file = self.allocator.segment(number)?;
        let block = self.layout.block_bytes();
        let step = ZEROS_WRITE_BYTES.clamp(block, self.buffer_bytes.max(block)) / block * block;
        let pool = Pool::new(step as usize, 1);
        let pool = pool.map_err(|error| WalError::io("map memory for", ".", None, error))?;
        let mut memory = pool.try_take().expect("a new pool has its block");
        let zeros = &memory.bytes_mut()[..step as usize];
        let written = file.write_zeros(zeros, offset, range.end - range.start);
        written.map_err(|error| {
            WalError::io("write zeros to", &segment_name(number), Some(offset), error)
        })
    }

    /// Writes a buffer that was taken. `only_write` says that no other write has to become durable
    /// with it.
    fn write(&self, mut buffer: LogBuffer, only_write: bool) -> Result<(), WalError> {
        let in_flight = InFlightWrite { writer: self, start: buffer.start };
        let length = buffer.block.filled().len() + std::mem::take(&mut buffer.zeros);
        buffer.block.copy_in(length, &[]);
        let outcome = self.write_blocks(&buffer, only_write).map_err(|error| self.fail(error));
        drop(buffer);
        // The write ends only after a failure was recorded: a thread that waits for the end must
        // not take it for a success.
        let mut queue = in_flight.end();
        if let Ok((number, file, Durability::Volatile)) = &outcome
            && queue.unsynced.iter().all(|(other, _)| other != number)
        {
            queue.unsynced.push((*number, Arc::clone(file)));
        }
        let awaited = queue.waiters > 0;
        drop(queue);
        if awaited {
            self.write_ended.notify_all();
        }
        outcome.map(|_| ())
    }

    fn write_blocks(
        &self,
        buffer: &LogBuffer,
        only_write: bool,
    ) -> Result<(u64, Arc<dyn SegmentFile>, Durability), WalError> {
        let (number, offset) = self.layout.locate(buffer.start);
        let file = self.allocator.segment(number)?;
        if self.background.prepare {
            self.allocator.request_next(number);
        }
        let bytes = buffer.block.filled();
        debug_assert!(bytes.len() as u64 % self.layout.block_bytes() == 0);
        let written = match buffer.rewrite {
            true => file.write_atomic(bytes, offset, only_write),
            false => file.write_at(bytes, offset, only_write),
        };
        let durability = written
            .map_err(|error| WalError::io("write", &segment_name(number), Some(offset), error))?;
        Ok((number, file, durability))
    }

    fn wait_for_write<'a>(
        &self,
        mut queue: MutexGuard<'a, WriteQueue>,
    ) -> MutexGuard<'a, WriteQueue> {
        queue.waiters += 1;
        self.write_ended.wait(&mut queue);
        queue.waiters -= 1;
        queue
    }

    /// Fails the log, and returns its first failure.
    pub(crate) fn fail(&self, cause: WalError) -> WalError {
        self.group
            .fail(|durable| WalError::Failed { durable: Lsn(durable), cause: Arc::new(cause) })
    }

    fn lock(&self) -> MutexGuard<'_, WriteQueue> {
        self.queue.lock()
    }
}

/// A write in flight that begins at LSN `start`. If its thread panics, the write has failed, and
/// the threads that wait for it are woken.
struct InFlightWrite<'a> {
    writer: &'a Writer,
    start: u64,
}

impl<'a> InFlightWrite<'a> {
    /// Ends the write. A failure of it was recorded before.
    fn end(self) -> MutexGuard<'a, WriteQueue> {
        let writer = self.writer;
        let mut queue = writer.lock();
        queue.in_flight.retain(|other| other.start != self.start);
        std::mem::forget(self);
        queue
    }
}

impl Drop for InFlightWrite<'_> {
    fn drop(&mut self) {
        self.writer.group.fail(WalError::panicked);
        self.writer.lock().in_flight.retain(|other| other.start != self.start);
        self.writer.write_ended.notify_all();
    }
}
