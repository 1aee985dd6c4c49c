//! Writes a file as a stream.

use std::collections::VecDeque;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;

use rustix::io::Errno;

use super::bounds::{BLOCK_BYTES_MAX, BLOCKS_MAX, STRIPED_BYTES_MAX};
use super::chunk::Chunk;
use crate::block::{Block, Mem, Pool, Segment};
use crate::drive::{Driver, Finished};
use crate::engine::OpKind;
use crate::file::{File, FileError};
use crate::geometry::{align_down, align_up};
use crate::lock::LockGuard;

/// How much is written behind the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBehind {
    /// Size of a block in bytes, from 1 to 2^40. Bytes are gathered into blocks before they are
    /// written.
    pub block: usize,
    /// Blocks that are queued or in flight, from 2 to 65,536. The producer has one more.
    pub depth: usize,
    /// Most bytes in flight to a striped file beyond that: four blocks for each of its objects, so
    /// that none of their disks waits for another. 0 keeps it to `depth`.
    pub striped_bytes_max: usize,
}

impl Default for WriteBehind {
    fn default() -> WriteBehind {
        WriteBehind { block: 1 << 20, depth: 8, striped_bytes_max: STRIPED_BYTES_MAX }
    }
}

/// Most blocks that become one request, well under `IOV_MAX` (1024, `writev(2)`). A longer vector
/// gains nothing.
const JOINED_BLOCKS_MAX: usize = 256;

/// A queued block, or the part of it that is written.
#[derive(Debug)]
struct QueuedBlock {
    offset: u64,
    memory: Segment,
    /// The memory belongs to a chunk.
    lent: bool,
}

/// The number of blocks of a request, and of those that belong to chunks.
#[derive(Clone, Copy, Debug)]
struct BlockCounts {
    all: u32,
    lent: u32,
}

impl BlockCounts {
    /// Packs the numbers into the tag of a request; [`BlockCounts::of_tag`] unpacks them.
    fn tag(self) -> u64 {
        u64::from(self.all) << 32 | u64::from(self.lent)
    }

    fn of_tag(tag: u64) -> BlockCounts {
        BlockCounts { all: (tag >> 32) as u32, lent: tag as u32 }
    }
}

/// Which writes are in flight.
#[derive(Debug)]
enum WritePhase {
    /// None.
    Idle,
    /// Writes inside the file: any number, beside those of others.
    Inside(#[expect(dead_code, reason = "held until the writes are over")] Option<LockGuard>),
    /// One write that makes the file longer. File systems run these one at a time (ext4:
    /// `ext4_dio_write_checks`), so a second one would only wait in the kernel. One at a time, the
    /// file never holds a gap that is yet to be filled.
    Extending(#[expect(dead_code, reason = "held until the write is over")] LockGuard),
}

/// Writes a file from front to back through the standard traits, in the background, in memory of a
/// fixed size.
///
/// Blocks are queued as they fill and written in the background; [`Write::flush`] waits for them.
/// Blocks that gather behind a write that extends the file become one request when their turn
/// comes. The first error latches: every later call returns it. Dropping a writer without
/// [`Writer::finish`] loses the report of an error, but not the bytes.
///
/// Blocks in flight keep out resizes and misaligned writes of others in the process, which would
/// lose bytes around them. Blocks that make the file longer also keep out reads and writes at or
/// behind them, except reads ahead of a [`super::Reader`]. The writer learns only in its next call
/// that they have been written, so a caller that pauses should flush first: others wait until then.
/// For the same reason a thread must flush a writer before it resizes the file, writes to it or
/// reads its new part by other means, such as a second writer: it would wait for itself.
///
/// ```no_run
/// use std::io::Write;
/// use dio::OpenOptions;
/// use dio::stream::Writer;
///
/// let file = OpenOptions::new().write(true).create(true).truncate(true).open("numbers")?;
/// let mut writer = Writer::new(file)?;
/// for number in 0..1_000_000 {
///     writeln!(writer, "{number}")?;
/// }
/// writer.finish()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer {
    file: Arc<File>,
    limits: WriteBehind,
    /// Most blocks queued or in flight: more than the limits say if the file is striped.
    depth: usize,
    pool: Pool,
    /// Made when the first block is full, so that a short file needs none.
    driver: Option<Driver>,
    /// The block being filled. Its first byte belongs at `base`; the bytes before `from` are not
    /// ours. Invariant: it holds at least one byte of ours.
    current: Option<Block>,
    base: u64,
    from: usize,
    /// Bytes until the block being filled is full. 0 after an error, so that small writes find the
    /// error too.
    room: usize,
    queue: VecDeque<QueuedBlock>,
    /// Blocks in flight. Each block of a joined request counts.
    in_flight: usize,
    /// Chunks that are queued or in flight. Their makers may wait for them.
    lent: usize,
    phase: WritePhase,
    /// The end of the file as this writer last learned it. A write below it does not extend the
    /// file.
    size: u64,
    finished: Vec<Finished>,
    /// Invariant: set once; nothing is written after it.
    error: Option<FileError>,
}

impl Writer {
    /// A writer from the start of a file.
    ///
    /// # Errors
    /// The size of the file cannot be asked for, or there is no memory.
    pub fn new(file: impl Into<Arc<File>>) -> io::Result<Writer> {
        Writer::with_write_behind(file, WriteBehind::default())
    }

    /// As [`Writer::new`], with the caller's own limits.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn with_write_behind(
        file: impl Into<Arc<File>>,
        limits: WriteBehind,
    ) -> io::Result<Writer> {
        let file = file.into();
        let block =
            file.block_io().round_up(limits.block.clamp(1, BLOCK_BYTES_MAX) as u64) as usize;
        let limits = WriteBehind { block, depth: limits.depth.clamp(2, BLOCKS_MAX), ..limits };
        let depth = file
            .block_io()
            .depth_for_objects(limits.depth, block, limits.striped_bytes_max)
            .min(BLOCKS_MAX);
        Ok(Writer {
            size: file.size()?,
            pool: Pool::new(block, depth + 1)?,
            file,
            limits,
            depth,
            driver: None,
            current: None,
            base: 0,
            from: 0,
            room: 0,
            queue: VecDeque::new(),
            in_flight: 0,
            lent: 0,
            phase: WritePhase::Idle,
            finished: Vec::new(),
            error: None,
        })
    }

    /// The file.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Offset of the next byte.
    pub fn position(&self) -> u64 {
        self.base + self.current.as_ref().map_or(self.from, |block| block.filled().len()) as u64
    }

    /// Bytes of memory for buffers.
    pub fn buffer_bytes(&self) -> usize {
        self.pool.bytes()
    }

    /// Writes a chunk. Whole blocks at an aligned offset are not copied: their memory is written.
    /// For a striped file this holds for [`WriteBehind::depth`] chunks at a time.
    ///
    /// # Errors
    /// The first error of this writer, whichever bytes it concerns.
    pub fn write_chunk(&mut self, mut chunk: Chunk) -> io::Result<()> {
        let memory = self.file.geometry().mem_align().max(1) as usize;
        let aligned = self.current.is_none() && self.from == 0 && chunk.start() % memory == 0;
        // If the file allows no more blocks in flight than that, the next chunk waits instead of
        // being copied.
        let zero_copy =
            aligned && (self.lent < self.limits.depth || self.depth == self.limits.depth);
        let whole_len = if zero_copy {
            align_down(chunk.len() as u64, self.file.block_align()) as usize
        } else {
            0
        };
        if whole_len == 0 {
            return self.write_all(&chunk);
        }
        self.check()?;
        let rest = chunk[whole_len..].to_vec();
        chunk.truncate(whole_len);
        let offset = self.base;
        self.base += whole_len as u64;
        self.lent += 1;
        self.enqueue(QueuedBlock { offset, memory: chunk.into_segment(whole_len), lent: true })?;
        self.write_all(&rest)
    }

    /// Writes what is left, waits for everything and reports whether all of it reached the file.
    /// For durability, call [`File::sync_data`] afterwards. The writer can be used again.
    ///
    /// # Errors
    /// The first error of this writer.
    pub fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.settle().map_err(|error| self.latch(error))
    }

    fn check(&self) -> io::Result<()> {
        self.error.clone().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Keeps an error, unless one for earlier bytes is known. So the reported error does not depend
    /// on which request ended first.
    fn latch(&mut self, error: FileError) -> io::Error {
        self.room = 0;
        let before = |known: &FileError| {
            known.offset().zip(error.offset()).is_none_or(|(known, new)| known <= new)
        };
        let known = self.error.take().filter(before);
        self.error.insert(known.unwrap_or(error)).clone().into()
    }

    /// The block to fill. Waits for a free one.
    fn current_block(&mut self) -> io::Result<&mut Block> {
        if self.current.is_none() {
            let block = loop {
                match self.pool.try_take() {
                    Some(block) => break block,
                    None => self.collect(1)?,
                }
            };
            self.current = Some(block);
        }
        Ok(self.current.as_mut().expect("it was put there just now"))
    }

    /// Writes as many bytes as the present or the next block takes.
    fn write_into_block(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let (limit, from) = (self.limits.block, self.from);
        let block = self.current_block()?;
        let at = block.filled().len().max(from);
        let count = bytes.len().min(limit - at);
        block.copy_in(at, &bytes[..count]);
        self.room = limit - at - count;
        if self.room == 0 {
            self.queue_current()?;
        }
        Ok(count)
    }

    /// Queues the block being filled.
    fn queue_current(&mut self) -> io::Result<()> {
        let Some(block) = self.current.take() else { return Ok(()) };
        let (base, filled) = (self.base, block.filled().len());
        let from = std::mem::take(&mut self.from);
        self.base += filled as u64;
        // A zero-copy part begins at a multiple of the alignment in the file and in memory.
        let align = self.file.block_align().max(self.file.geometry().mem_align());
        let first = align_up(from as u64, align) as usize;
        if from > 0 {
            // The block in which the stream began holds other bytes too, so the file writes a part
            // of it.
            self.drain()?;
            let head = &block.filled()[from..first.min(filled)];
            self.file.write_at(head, base + from as u64).map_err(|error| self.latch(error))?;
            self.size = self.size.max(base + first.min(filled) as u64);
        }
        if first < filled {
            let memory = block.into_segment(first..filled);
            self.enqueue(QueuedBlock { offset: base + first as u64, memory, lent: false })?;
        }
        Ok(())
    }

    /// Queues whole blocks. Waits while as many as allowed are queued or in flight.
    fn enqueue(&mut self, blocks: QueuedBlock) -> io::Result<()> {
        self.queue.push_back(blocks);
        self.start();
        self.collect(0)?;
        while self.queue.len() + self.in_flight > self.depth {
            self.collect(1)?;
        }
        Ok(())
    }

    /// Hands queued blocks to the engine, as far as their order allows.
    fn start(&mut self) {
        while let Some(next) = self.queue.front() {
            let end = next.offset + next.memory.len() as u64;
            let inside = end <= self.size;
            match (&self.phase, inside) {
                (WritePhase::Extending(_), _) | (WritePhase::Inside(_), false) => return,
                (WritePhase::Idle, true) => {
                    self.phase = WritePhase::Inside(self.file.block_io().lock(OpKind::Write))
                }
                (WritePhase::Idle, false) => match self.file.block_io().lock_extension(next.offset)
                {
                    Ok(lock) => self.phase = WritePhase::Extending(lock),
                    Err(error) => {
                        let _ = self.latch(error);
                        self.discard_queue();
                        return;
                    }
                },
                (WritePhase::Inside(_), true) => {}
            }
            let (offset, memory, blocks) = self.take_request(inside);
            self.in_flight += blocks.all as usize;
            let driver = self.driver.get_or_insert_with(|| self.file.block_io().driver(self.depth));
            driver.submit(self.file.block_io().request(
                OpKind::Write,
                offset,
                memory,
                blocks.tag(),
            ));
        }
    }

    /// Takes a request from the front of the queue. A request that extends the file takes along the
    /// blocks that continue it, up to half of all, so that the other half can be filled in the
    /// meantime.
    fn take_request(&mut self, inside: bool) -> (u64, Mem, BlockCounts) {
        let QueuedBlock { offset, memory, lent } =
            self.queue.pop_front().expect("the caller saw it");
        let (mut memory, mut lent) = (Mem::one(memory), u32::from(lent));
        while !inside && memory.segments() < (self.depth / 2).min(JOINED_BLOCKS_MAX) {
            match self.queue.front() {
                Some(next) if next.offset == offset + memory.len() as u64 => {}
                _ => break,
            }
            let next = self.queue.pop_front().expect("it was looked at just now");
            lent += u32::from(next.lent);
            memory.push(next.memory);
        }
        let all = u32::try_from(memory.segments()).expect("joined blocks are few");
        (offset, memory, BlockCounts { all, lent })
    }

    /// Drops queued blocks without writing them.
    fn discard_queue(&mut self) {
        self.lent -= self.queue.drain(..).filter(|queued| queued.lent).count();
    }

    /// Takes finished requests, waiting for at least `min` of them, and starts what may follow.
    fn collect(&mut self, min: usize) -> io::Result<()> {
        self.take_finished(min);
        if self.error.is_some() {
            // Blocks queued behind a failed write are not written, so that the file's end stays
            // true. Requests in flight may fail too, at earlier bytes.
            self.discard_queue();
            while self.in_flight > 0 {
                self.take_finished(1);
            }
        }
        self.start();
        self.check()
    }

    fn take_finished(&mut self, min: usize) {
        let Some(driver) = &mut self.driver else { return };
        if driver.wait(min, &mut self.finished).is_err() {
            // The engine itself failed. When it is dropped, it waits for the operations that it
            // still has.
            self.driver = None;
            (self.in_flight, self.lent) =
                (0, self.queue.iter().filter(|queued| queued.lent).count());
            let _ = self.latch(FileError::new("run I/O on", self.file.path(), Errno::IO));
        }
        for finished in std::mem::take(&mut self.finished) {
            let blocks = BlockCounts::of_tag(finished.request.tag);
            self.in_flight = self.in_flight.saturating_sub(blocks.all as usize);
            self.lent = self.lent.saturating_sub(blocks.lent as usize);
            let end = finished.request.offset + finished.request.len() as u64;
            match self.file.block_io().finish(finished).1 {
                Ok(_) => self.size = self.size.max(end),
                Err(error) => {
                    let _ = self.latch(error);
                }
            }
        }
        if self.in_flight == 0 {
            self.phase = WritePhase::Idle;
        }
    }

    /// Waits until every full block is written. Until then others may wait for this writer: see
    /// [`Writer`]. Unlike [`Write::flush`], it leaves the block being filled in memory.
    ///
    /// # Errors
    /// The first error of this writer.
    pub fn drain(&mut self) -> io::Result<()> {
        self.start();
        while self.in_flight > 0 {
            // A failure must not leave requests in flight: the lock and the order of errors depend
            // on it.
            let _ = self.collect(1);
        }
        self.check()
    }

    /// Writes the block being filled although it is not full.
    fn write_partial_block(&mut self) -> io::Result<()> {
        let Some(block) = self.current.take() else { return Ok(()) };
        let (start, filled) = (self.base + self.from as u64, block.filled().len());
        let from = std::mem::replace(&mut self.from, 0);
        if filled > from {
            self.file
                .write_at(&block.filled()[from..], start)
                .map_err(|error| self.latch(error))?;
        }
        self.move_to(self.base + filled as u64);
        self.size = self.size.max(self.position());
        Ok(())
    }

    /// Continues at an offset. No block may be being filled.
    fn move_to(&mut self, offset: u64) {
        self.base = align_down(offset, self.file.block_align());
        self.from = (offset - self.base) as usize;
    }
}

impl Write for Writer {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.current {
            // The path of small writes: bytes that do not fill the block change nothing else.
            Some(block) if bytes.len() < self.room => {
                self.room -= bytes.len();
                block.push(bytes);
                Ok(bytes.len())
            }
            _ => self.write_into_block(bytes),
        }
    }

    #[inline]
    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.write(bytes)?;
            bytes = &bytes[count..];
        }
        Ok(())
    }

    /// Waits until everything written so far is in the file.
    fn flush(&mut self) -> io::Result<()> {
        self.check()?;
        self.drain()?;
        self.write_partial_block()
    }
}

impl Seek for Writer {
    /// Continues at another offset after everything written so far has been queued. Seeking past
    /// the end and writing there leaves a hole.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => self.position().checked_add_signed(by),
            SeekFrom::End(by) => {
                self.flush()?;
                self.file.size()?.checked_add_signed(by)
            }
        };
        let target = target
            .filter(|target| *target <= i64::MAX as u64)
            .ok_or(io::ErrorKind::InvalidInput)?;
        if target == self.position() {
            return Ok(target);
        }
        let align = self.file.block_align() as usize;
        let whole_len = self.from == 0
            && self.current.as_ref().is_none_or(|block| block.filled().len() % align == 0);
        // A write behind those in flight cannot overlap them. A write before them could, and the
        // later bytes must win.
        match whole_len && target > self.position() {
            true => self.queue_current()?,
            false => self.flush()?,
        }
        self.move_to(target);
        Ok(target)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Nobody learns of an error here; `finish` reports it.
        let _ = self.flush();
        let _ = self.drain();
    }
}
