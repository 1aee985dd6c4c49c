//! Writing a file as a stream.

use std::collections::VecDeque;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;

use rustix::io::Errno;

use super::chunk::Chunk;
use super::options::{MOST_BLOCKS, MOST_BYTES, SPREAD};
use crate::block::{Block, Mem, Pool, Segment};
use crate::drive::{Driver, Finished};
use crate::engine::OpKind;
use crate::file::{File, FileError};
use crate::geometry::{align_down, align_up};
use crate::lock::LockGuard;

/// How much is written behind the producer, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBehind {
    /// The size of one block: what is gathered before it is written. From 1 to 2^40.
    pub block: usize,
    /// Blocks that wait for the storage, or are on their way to it, from 2 to 65,536; one more is with the producer.
    pub depth: usize,
    /// Most bytes of a striped file that are under way beyond that: four blocks for each of the files that hold it, so that
    /// none of their disks waits for another. 0 keeps it to `depth`.
    pub spread: usize,
}

impl Default for WriteBehind {
    fn default() -> WriteBehind {
        WriteBehind { block: 1 << 20, depth: 8, spread: SPREAD }
    }
}

/// Most blocks that become one request: well under `IOV_MAX` (1024, `writev(2)`), and a longer vector gains nothing.
const MOST_JOINED: usize = 256;

/// Whole blocks that wait for their turn.
#[derive(Debug)]
struct Queued {
    offset: u64,
    memory: Segment,
    /// The memory is a chunk's.
    lent: bool,
}

/// Blocks of a request, all of them and those of chunks.
#[derive(Clone, Copy, Debug)]
struct Blocks {
    all: u32,
    lent: u32,
}

impl Blocks {
    /// The same as the tag of an operation, and back.
    fn tag(self) -> u64 {
        u64::from(self.all) << 32 | u64::from(self.lent)
    }

    fn of_tag(tag: u64) -> Blocks {
        Blocks { all: (tag >> 32) as u32, lent: tag as u32 }
    }
}

/// What is in flight.
#[derive(Debug)]
enum Lane {
    /// Nothing.
    Idle,
    /// Writes inside the file: any number, beside those of others.
    Inside(#[expect(dead_code, reason = "held until the writes are over")] Option<LockGuard>),
    /// One write that makes the file longer. File systems run those one at a time (ext4: `ext4_dio_write_checks`), so a
    /// second one would only wait in the kernel; and one at a time, the file never holds a gap that is yet to be filled.
    Extending(#[expect(dead_code, reason = "held until the write is over")] LockGuard),
}

/// Writes a file from front to back through the standard traits, behind the producer's back, in memory of a fixed size.
///
/// Blocks are queued as they fill and written in the background; [`Write::flush`] waits for them. What has gathered behind
/// a write that extends the file becomes one request when its turn comes. The first error latches: it comes out of every
/// later call. Dropping a writer without [`Writer::finish`] loses the news of an error, but not the bytes.
///
/// Blocks in flight keep out resizes and misaligned writes of others in the process, which would lose bytes around them;
/// those that make the file longer keep out whatever reads or writes there or behind them, except reads of a
/// [`super::Reader`] ahead. The writer notices that they have been written in its next call, so whoever pauses should flush
/// first: others wait until then. For the same reason a thread must flush a writer before it resizes the file, or writes it
/// or reads its new part by another way, be it a second writer: it would wait for itself.
#[derive(Debug)]
pub struct Writer {
    file: Arc<File>,
    limits: WriteBehind,
    /// Blocks under way at most: more than the limits say where the file is striped.
    depth: usize,
    pool: Pool,
    /// Made when the first block is full: a short file does without.
    driver: Option<Driver>,
    /// The block being filled. Its first byte belongs at `base`; the bytes before `from` are not ours. Invariant: it holds
    /// at least a byte of ours.
    current: Option<Block>,
    base: u64,
    from: usize,
    /// Bytes until the block being filled is full; 0 after an error, so that small steps find it too.
    room: usize,
    queue: VecDeque<Queued>,
    /// Blocks in flight, those of a joined request counted singly.
    in_flight: usize,
    /// Chunks that are queued or in flight. Whoever made them may wait until they are given back.
    lent: usize,
    lane: Lane,
    /// The end of the file as far as this writer knows: a write below it does not extend.
    size: u64,
    finished: Vec<Finished>,
    /// Invariant: set once; nothing is written after it.
    error: Option<FileError>,
}

impl Writer {
    /// A writer from the start of a file.
    ///
    /// # Errors
    /// The size of the file cannot be asked, or there is no memory.
    pub fn new(file: impl Into<Arc<File>>) -> io::Result<Writer> {
        Writer::with_write_behind(file, WriteBehind::default())
    }

    /// As [`Writer::new`], with limits of one's own.
    ///
    /// # Errors
    /// As [`Writer::new`].
    pub fn with_write_behind(file: impl Into<Arc<File>>, limits: WriteBehind) -> io::Result<Writer> {
        let file = file.into();
        let block = file.block_io().round_up(limits.block.clamp(1, MOST_BYTES) as u64) as usize;
        let limits = WriteBehind { block, depth: limits.depth.clamp(2, MOST_BLOCKS), ..limits };
        let depth = file.block_io().depth_for_objects(limits.depth, block, limits.spread).min(MOST_BLOCKS);
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
            lane: Lane::Idle,
            finished: Vec::new(),
            error: None,
        })
    }

    /// The file.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Where the next byte goes.
    pub fn position(&self) -> u64 {
        self.base + self.current.as_ref().map_or(self.from, |block| block.filled().len()) as u64
    }

    /// Bytes of buffers.
    pub fn buffer_bytes(&self) -> usize {
        self.pool.bytes()
    }

    /// Writes a chunk. Whole blocks at an aligned place are not copied: their memory is what is written; of a striped file, only
    /// that of [`WriteBehind::depth`] chunks at a time.
    ///
    /// # Errors
    /// The first error of this writer, whichever bytes it concerns.
    pub fn write_chunk(&mut self, mut chunk: Chunk) -> io::Result<()> {
        let memory = self.file.geometry().mem_align().max(1) as usize;
        let aligned = self.current.is_none() && self.from == 0 && chunk.start() % memory == 0;
        // Where no more than so many blocks are under way, the next one waits instead.
        let straight = aligned && (self.lent < self.limits.depth || self.depth == self.limits.depth);
        let whole = if straight { align_down(chunk.len() as u64, self.file.block_align()) as usize } else { 0 };
        if whole == 0 {
            return self.write_all(&chunk);
        }
        self.check()?;
        let rest = chunk[whole..].to_vec();
        chunk.truncate(whole);
        let offset = self.base;
        self.base += whole as u64;
        self.lent += 1;
        self.enqueue(Queued { offset, memory: chunk.into_segment(whole), lent: true })?;
        self.write_all(&rest)
    }

    /// Writes what is left, waits for everything and tells whether all of it reached the file; for durability,
    /// [`File::sync_data`] comes after. The writer can be used again.
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

    /// Keeps an error, unless one of bytes before it is known: what is told does not depend on which request ended first.
    fn latch(&mut self, error: FileError) -> io::Error {
        self.room = 0;
        let before = |known: &FileError| known.offset().zip(error.offset()).is_none_or(|(known, new)| known <= new);
        let known = self.error.take().filter(before);
        self.error.insert(known.unwrap_or(error)).clone().into()
    }

    /// The block to fill, waiting for a free one.
    fn fill(&mut self) -> io::Result<&mut Block> {
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

    /// Writes as much as the present or the next block takes.
    fn write_into_block(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let (limit, from) = (self.limits.block, self.from);
        let block = self.fill()?;
        let at = block.filled().len().max(from);
        let count = bytes.len().min(limit - at);
        block.copy_in(at, &bytes[..count]);
        self.room = limit - at - count;
        if self.room == 0 {
            self.pass_on()?;
        }
        Ok(count)
    }

    /// The current block is full: queues it.
    fn pass_on(&mut self) -> io::Result<()> {
        let Some(block) = self.current.take() else { return Ok(()) };
        let (base, filled) = (self.base, block.filled().len());
        let from = std::mem::take(&mut self.from);
        self.base += filled as u64;
        // What goes straight begins at a multiple in the file and in memory.
        let align = self.file.block_align().max(self.file.geometry().mem_align());
        let first = align_up(from as u64, align) as usize;
        if from > 0 {
            // The block that the stream began within holds other bytes too: the file writes a part of it.
            self.drain()?;
            let head = &block.filled()[from..first.min(filled)];
            self.file.write_at(head, base + from as u64).map_err(|error| self.latch(error))?;
            self.size = self.size.max(base + first.min(filled) as u64);
        }
        if first < filled {
            let memory = block.into_segment(first..filled);
            self.enqueue(Queued { offset: base + first as u64, memory, lent: false })?;
        }
        Ok(())
    }

    /// Accepts whole blocks, waiting while as many as allowed are on their way.
    fn enqueue(&mut self, blocks: Queued) -> io::Result<()> {
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
            match (&self.lane, inside) {
                (Lane::Extending(_), _) | (Lane::Inside(_), false) => return,
                (Lane::Idle, true) => self.lane = Lane::Inside(self.file.block_io().lock(OpKind::Write)),
                (Lane::Idle, false) => match self.file.block_io().lock_extension(next.offset) {
                    Ok(lock) => self.lane = Lane::Extending(lock),
                    Err(error) => {
                        let _ = self.latch(error);
                        self.forget_queue();
                        return;
                    }
                },
                (Lane::Inside(_), true) => {}
            }
            let (offset, memory, blocks) = self.take_request(inside);
            self.in_flight += blocks.all as usize;
            let driver = self.driver.get_or_insert_with(|| self.file.block_io().driver(self.depth));
            driver.submit(self.file.block_io().request(OpKind::Write, offset, memory, blocks.tag()));
        }
    }

    /// The front of the queue. A request that extends takes with it what follows in the file, up to half of the blocks, so
    /// that the other half can be filled meanwhile.
    fn take_request(&mut self, inside: bool) -> (u64, Mem, Blocks) {
        let Queued { offset, memory, lent } = self.queue.pop_front().expect("the caller saw it");
        let (mut memory, mut lent) = (Mem::one(memory), u32::from(lent));
        while !inside && memory.segments() < (self.depth / 2).min(MOST_JOINED) {
            match self.queue.front() {
                Some(next) if next.offset == offset + memory.len() as u64 => {}
                _ => break,
            }
            let next = self.queue.pop_front().expect("it was looked at just now");
            lent += u32::from(next.lent);
            memory.push(next.memory);
        }
        let all = u32::try_from(memory.segments()).expect("joined blocks are few");
        (offset, memory, Blocks { all, lent })
    }

    /// What is queued will not be written.
    fn forget_queue(&mut self) {
        self.lent -= self.queue.drain(..).filter(|queued| queued.lent).count();
    }

    /// Takes what has been written, waiting for at least `min` requests, and starts what may follow.
    fn collect(&mut self, min: usize) -> io::Result<()> {
        self.take_finished(min);
        if self.error.is_some() {
            // What was queued behind a failed write is not written: the file keeps an end that is true. What is under way
            // may fail too, at bytes before.
            self.forget_queue();
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
            // The engine itself failed. Dropping it waits for what it still has.
            self.driver = None;
            (self.in_flight, self.lent) = (0, self.queue.iter().filter(|queued| queued.lent).count());
            let _ = self.latch(FileError::new("run I/O on", self.file.path(), Errno::IO));
        }
        for over in std::mem::take(&mut self.finished) {
            let blocks = Blocks::of_tag(over.request.tag);
            self.in_flight = self.in_flight.saturating_sub(blocks.all as usize);
            self.lent = self.lent.saturating_sub(blocks.lent as usize);
            let end = over.request.offset + over.request.len() as u64;
            match self.file.block_io().finish(over).1 {
                Ok(_) => self.size = self.size.max(end),
                Err(error) => {
                    let _ = self.latch(error);
                }
            }
        }
        if self.in_flight == 0 {
            self.lane = Lane::Idle;
        }
    }

    /// Waits for everything queued.
    fn drain(&mut self) -> io::Result<()> {
        self.start();
        while self.in_flight > 0 {
            // A failure must not leave requests in flight: the lock and the order of errors depend on it.
            let _ = self.collect(1);
        }
        self.check()
    }

    /// Writes what is in the block being filled although it is not full.
    fn write_rest(&mut self) -> io::Result<()> {
        let Some(block) = self.current.take() else { return Ok(()) };
        let (start, filled) = (self.base + self.from as u64, block.filled().len());
        let from = std::mem::replace(&mut self.from, 0);
        if filled > from {
            self.file.write_at(&block.filled()[from..], start).map_err(|error| self.latch(error))?;
        }
        self.move_to(self.base + filled as u64);
        self.size = self.size.max(self.position());
        Ok(())
    }

    /// Continues at an offset; nothing is being filled.
    fn move_to(&mut self, offset: u64) {
        self.base = align_down(offset, self.file.block_align());
        self.from = (offset - self.base) as usize;
    }
}

impl Write for Writer {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.current {
            // The way of small steps: what does not fill the block concerns nothing else.
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
        self.write_rest()
    }
}

impl Seek for Writer {
    /// Continues at another place; what was written so far is on its way first. Seeking past the end and writing there
    /// leaves a hole.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => self.position().checked_add_signed(by),
            SeekFrom::End(by) => {
                self.flush()?;
                self.file.size()?.checked_add_signed(by)
            }
        };
        let target = target.filter(|target| *target <= i64::MAX as u64).ok_or(io::ErrorKind::InvalidInput)?;
        if target == self.position() {
            return Ok(target);
        }
        let align = self.file.block_align() as usize;
        let whole = self.from == 0 && self.current.as_ref().is_none_or(|block| block.filled().len() % align == 0);
        // Behind what is in flight nothing can overlap it; before it something could, and the later bytes must win.
        match whole && target > self.position() {
            true => self.pass_on()?,
            false => self.flush()?,
        }
        self.move_to(target);
        Ok(target)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // An error has nobody to be told; `finish` is for those who want to know.
        let _ = self.flush();
        let _ = self.drain();
    }
}
