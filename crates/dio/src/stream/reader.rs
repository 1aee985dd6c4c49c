//! Reading a file as a stream.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::sync::Arc;

use super::chunk::Chunk;
use crate::block::{Block, Pool};
use crate::drive::{Driver, Finished};
use crate::engine::Kind;
use crate::file::{File, FileError};
use crate::geometry::align_down;

/// How far to read ahead, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAhead {
    /// The first request, and what a seek falls back to.
    pub min: usize,
    /// The most that is read ahead of the consumer.
    pub max: usize,
    /// The largest single request.
    pub request: usize,
    /// Chunks that the consumer may hold while it reads on (see [`Reader::next_chunk`]); each costs a block of memory.
    pub lent: usize,
}

impl Default for ReadAhead {
    fn default() -> ReadAhead {
        ReadAhead { min: 64 << 10, max: 8 << 20, request: 1 << 20, lent: 0 }
    }
}

/// A block that is being read, or has been.
#[derive(Debug)]
enum Ahead {
    InFlight,
    /// `short`: the file ended within it when it was read.
    Ready {
        block: Block,
        short: bool,
    },
    Failed(FileError),
}

/// Reads a file from front to back through the standard traits, with read-ahead in memory of a fixed size.
///
/// It takes no locks between calls: what a stream returns of a range that is being written is old, new or both.
#[derive(Debug)]
pub struct Reader {
    file: Arc<File>,
    driver: Driver,
    pool: Pool,
    limits: ReadAhead,
    /// How far to read ahead now: between `min` and `max`, doubled by each block that is consumed in order.
    window: usize,
    /// Blocks ahead of the consumer in file order. Invariant: the tag of the front one is `front_tag`, and tags are
    /// consecutive.
    ahead: VecDeque<Ahead>,
    front_tag: u64,
    bytes_ahead: usize,
    /// Where the next request starts.
    next: u64,
    /// The block being consumed, how much of it is, and whether the file ended within it.
    current: Option<Block>,
    consumed: usize,
    short: bool,
    /// The block that was being consumed went to the consumer as a whole.
    taken: bool,
    /// The offset of the consumer.
    position: u64,
    finished: Vec<Finished>,
    at_end: bool,
}

impl Reader {
    /// A reader from the start of a file.
    ///
    /// # Errors
    /// No memory for the blocks.
    pub fn new(file: impl Into<Arc<File>>) -> io::Result<Reader> {
        Reader::with_read_ahead(file, ReadAhead::default())
    }

    /// As [`Reader::new`], with limits of one's own.
    ///
    /// # Errors
    /// No memory for the blocks.
    pub fn with_read_ahead(file: impl Into<Arc<File>>, limits: ReadAhead) -> io::Result<Reader> {
        let file = file.into();
        let request = file.whole_blocks(limits.request.max(1) as u64) as usize;
        let min = (file.whole_blocks(limits.min.max(1) as u64) as usize).min(request);
        let limits = ReadAhead { min, max: limits.max.max(request), request, lent: limits.lent };
        // One block is with the consumer while the others are ahead of it.
        let depth = limits.max.div_ceil(request) + 1 + limits.lent;
        let pool = Pool::new(request, depth)?;
        let mut driver = file.io().driver(depth);
        // Unregistered buffers cost a little speed; nothing else.
        let _ = driver.attach(&pool);
        Ok(Reader {
            file,
            driver,
            pool,
            limits,
            window: min,
            ahead: VecDeque::with_capacity(depth),
            front_tag: 0,
            bytes_ahead: 0,
            next: 0,
            current: None,
            consumed: 0,
            short: false,
            taken: false,
            position: 0,
            finished: Vec::new(),
            at_end: false,
        })
    }

    /// The file.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The next bytes of the file with the block that holds them, or `None` at its end.
    ///
    /// The consumer may hold [`ReadAhead::lent`] chunks; the call waits until one is dropped when it holds more, which
    /// must then happen in another thread.
    ///
    /// # Errors
    /// As reading.
    pub fn next_chunk(&mut self) -> io::Result<Option<Chunk>> {
        if self.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let block = self.current.take().expect("it was filled just now");
        let range = self.consumed..block.filled().len();
        self.position += range.len() as u64;
        self.consumed = 0;
        self.taken = true;
        Ok(Some(Chunk::new(block, range)))
    }

    /// Where in the file the next byte is.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of buffers.
    pub fn buffer_bytes(&self) -> usize {
        self.pool.bytes()
    }

    /// Starts requests until the window is full.
    fn read_ahead(&mut self) -> io::Result<()> {
        while !self.at_end && (self.ahead.is_empty() || self.bytes_ahead < self.window) {
            let block = match self.pool.try_take() {
                Some(block) => block,
                None if !self.ahead.is_empty() => break,
                None => self.pool.take_many(1).pop().expect("one block was asked for"),
            };
            let len = self.window.clamp(self.limits.min, self.limits.request);
            let len = self.file.whole_blocks(len as u64) as usize;
            let tag = self.front_tag + self.ahead.len() as u64;
            self.driver.submit(self.file.block_op(Kind::Read, self.next, block.into_mem(0..len), tag));
            self.ahead.push_back(Ahead::InFlight);
            self.bytes_ahead += len;
            self.next += len as u64;
        }
        // Nothing waits here: the requests are only handed to the kernel.
        self.collect(0)
    }

    /// Takes what has been read, waiting for at least `min` requests.
    fn collect(&mut self, min: usize) -> io::Result<()> {
        self.driver.wait(min, &mut self.finished)?;
        for over in self.finished.drain(..) {
            let (index, asked) = ((over.op.tag - self.front_tag) as usize, over.op.len());
            let (over, outcome) = self.file.block_done(over);
            self.ahead[index] = match outcome {
                Ok(count) => {
                    self.at_end |= count < asked;
                    let block = over.op.mem.and_then(|mem| mem.into_block(count));
                    Ahead::Ready { block: block.expect("a read returns its block"), short: count < asked }
                }
                Err(error) => Ahead::Failed(error),
            };
        }
        Ok(())
    }

    /// Moves the next block under the consumer; false at the end of the file.
    fn advance(&mut self) -> io::Result<bool> {
        // The file may have grown since a block came short: what was found behind that block does not follow its end.
        let broken = std::mem::take(&mut self.short) && !self.ahead.is_empty();
        let in_order = std::mem::take(&mut self.taken) | self.current.take().is_some();
        let fresh = !in_order || broken;
        if broken {
            self.restart(self.position)?;
        }
        self.read_ahead()?;
        while let Some(Ahead::InFlight) = self.ahead.front() {
            self.collect(1)?;
        }
        let front = self.ahead.pop_front();
        self.front_tag += 1;
        match front {
            Some(Ahead::Ready { block, short }) if !block.filled().is_empty() => {
                self.bytes_ahead = self.bytes_ahead.saturating_sub(block.filled().len());
                (self.current, self.short) = (Some(block), short);
                // After a seek into a block, its first bytes are passed over.
                let behind = self.position - align_down(self.position, self.file.block_align());
                self.consumed = if fresh { behind as usize } else { 0 };
                self.window = (self.window * 2).min(self.limits.max);
                self.read_ahead()?;
                Ok(true)
            }
            Some(Ahead::Failed(error)) => {
                // The blocks behind a failed one are out of order: start again where it failed.
                self.restart(self.position)?;
                Err(error.into())
            }
            _ => {
                self.restart(self.position)?;
                Ok(false)
            }
        }
    }

    /// Forgets what was read ahead and continues at `position`.
    fn restart(&mut self, position: u64) -> io::Result<()> {
        self.collect(self.driver.outstanding())?;
        self.front_tag += self.ahead.len() as u64;
        self.ahead.clear();
        self.bytes_ahead = 0;
        self.window = self.limits.min;
        self.at_end = false;
        self.current = None;
        self.consumed = 0;
        self.short = false;
        self.taken = false;
        self.position = position;
        self.next = align_down(position, self.file.block_align());
        Ok(())
    }
}

impl BufRead for Reader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.current.as_ref().is_none_or(|block| self.consumed >= block.filled().len()) {
            if !self.advance()? {
                return Ok(&[]);
            }
        }
        let block = self.current.as_ref().expect("the loop above leaves a block");
        Ok(&block.filled()[self.consumed..])
    }

    fn consume(&mut self, count: usize) {
        self.consumed += count;
        self.position += count as u64;
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            // What has been read stands; an error met after it comes out of the next call.
            let available = match self.fill_buf() {
                Ok(available) => available,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            };
            let count = available.len().min(buffer.len() - done);
            if count == 0 {
                break;
            }
            buffer[done..done + count].copy_from_slice(&available[..count]);
            self.consume(count);
            done += count;
        }
        Ok(done)
    }
}

impl Seek for Reader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.file.size()?.checked_add_signed(by),
        };
        let target = target.ok_or(io::ErrorKind::InvalidInput)?;
        let left = self.current.as_ref().map_or(0, |block| block.filled().len().saturating_sub(self.consumed)) as u64;
        if target >= self.position && target - self.position <= left {
            self.consume((target - self.position) as usize);
        } else {
            self.restart(target)?;
        }
        Ok(target)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Blocks in flight come back before the accounts of the file are closed; errors have nobody to be told.
        let _ = self.collect(self.driver.outstanding());
        let _ = self.file.settle();
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::os::fd::BorrowedFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::io::Errno;

    use super::*;
    use crate::engine::{Blocking, Medium, Op, Route};
    use crate::geometry::Geometry;
    use crate::{Io, Limits, OpenOptions};

    /// A file that ends at 3000 when its start is first read, and at 40,000 ever after.
    #[derive(Debug, Default)]
    struct Growing {
        read: AtomicBool,
        asked: AtomicBool,
    }

    fn byte(at: u64) -> u8 {
        (at % 251) as u8
    }

    impl Medium for Growing {
        fn transfer(&self, op: &mut Op) -> Result<usize, Errno> {
            let early = op.position() == 0 && !self.read.swap(true, Ordering::SeqCst);
            let mut at = op.position();
            let end = (at + op.remaining() as u64).min(if early { 3000 } else { 40_000 });
            let skip = op.done;
            for slice in op.mem.as_mut().expect("a read has memory").slices_mut(skip).iter_mut() {
                for place in slice.iter_mut().take(end.saturating_sub(at) as usize) {
                    *place = byte(at);
                    at += 1;
                }
            }
            Ok((at - op.position()) as usize)
        }

        fn size(&self) -> io::Result<u64> {
            Ok(if self.asked.swap(true, Ordering::SeqCst) { 40_000 } else { 3000 })
        }

        fn descriptor(&self, _route: Route) -> io::Result<BorrowedFd<'_>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn set_size(&self, _size: u64) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn allocate(&self, _range: Range<u64>, _extend: bool) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn punch(&self, _range: Range<u64>) -> io::Result<()> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    #[test]
    fn nothing_is_passed_over_when_the_file_grows_under_the_read_ahead() {
        let io = Io::with_engine(Limits::default(), "blocking", |_| Box::new(Blocking::new(1))).unwrap();
        let geometry = Geometry::fixed(512, 512).unwrap();
        let file = OpenOptions::new().read(true).io(&io).open_medium("growing", Arc::new(Growing::default()), geometry);
        // The first window holds several requests.
        let limits = ReadAhead { min: 4096, max: 32 << 10, request: 4096, lent: 0 };
        let mut reader = Reader::with_read_ahead(file.unwrap(), limits).unwrap();
        reader.window = limits.max;
        let mut found = Vec::new();
        reader.read_to_end(&mut found).unwrap();
        let expected: Vec<u8> = (0..found.len() as u64).map(byte).collect();
        assert!(found == expected, "bytes are missing within the {} that were read", found.len());
        assert_eq!(found.len(), 40_000);
    }
}
