//! Reads a file as a stream.
//!
//! [`pattern`] predicts what the consumer reads next, [`fetch`] reads what it needs and will need,
//! and [`cache`] holds the blocks. This module is the consumer's side: the block that it is in, and
//! the standard traits.

mod cache;
mod fetch;
mod limits;
mod pattern;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

use super::chunk::Chunk;
use crate::file::File;
use crate::geometry::{align_down, is_aligned};
use cache::{CachedBlock, Lookup};
use fetch::Fetcher;
use pattern::PatternDetector;

pub use fetch::ReadStats;
pub use limits::ReadAhead;
pub use pattern::AccessPattern;

/// How much is read if the consumer does not say how much it wants, in bytes.
const DEFAULT_HINT_BYTES: u64 = 4096;

/// Reads a file through the standard traits, with read-ahead in memory of a known size.
///
/// It recognises forward and backward sequential, strided, and several interleaved sequential
/// streams, and keeps several requests in flight for them. Random reads read what is wanted and no
/// more. Blocks are kept as far as memory allows, so going back a little costs nothing;
/// [`Reader::forget`] drops them if the file may have changed. A reader of a small file costs no
/// engine and little memory.
///
/// It takes no locks between calls: bytes of a range that is being written are old, new or both.
///
/// An error is reported where it happened, after everything before it has been read; the next call
/// tries again. The bytes of the block that an offset of 2^63 would end cannot be reached in whole
/// blocks: they are such an error (EOVERFLOW).
///
/// ```no_run
/// use std::io::Read;
/// use dio::File;
/// use dio::stream::Reader;
///
/// let mut reader = Reader::new(File::open("data")?)?;
/// let mut bytes = [0; 1000];
/// let mut sum = 0;
/// loop {
///     match reader.read(&mut bytes)? {
///         0 => break,
///         count => sum += bytes[..count].iter().map(|byte| u64::from(*byte)).sum::<u64>(),
///     }
/// }
/// println!("{sum}, {:?}", reader.stats());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    // Both are boxed: what every read needs then lies close together, and a reader is cheap to
    // move.
    fetcher: Box<Fetcher>,
    detector: Box<PatternDetector>,
    /// The block being consumed.
    current: Option<CachedBlock>,
    /// File offset of the start of `current`. Without a block, the offset of the consumer.
    base: u64,
    /// How much of `current` is consumed, and up to where bytes may be consumed before the
    /// read-ahead is looked at. Invariant: `at <= until <=` the length of the block. Both are 0
    /// without a block.
    at: usize,
    until: usize,
    /// The consumer has seeked and has not read since.
    jumped: bool,
    /// Where the consumer began to read in order.
    run_start: u64,
    /// The end of the file, if the last block that the consumer came to was cut by it.
    end: Option<u64>,
}

impl Reader {
    /// A reader from the start of a file, with limits for its device: [`ReadAhead::for_file`].
    ///
    /// # Errors
    /// None at present. Memory is taken when it is first needed.
    pub fn new(file: impl Into<Arc<File>>) -> io::Result<Reader> {
        let file = file.into();
        let limits = ReadAhead::for_file(&file);
        Reader::with_read_ahead(file, limits)
    }

    /// As [`Reader::new`], with the caller's own limits.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn with_read_ahead(file: impl Into<Arc<File>>, limits: ReadAhead) -> io::Result<Reader> {
        let fetcher = Box::new(Fetcher::new(file.into(), limits));
        let detector = Box::new(PatternDetector::new(fetcher.sizes().bounds));
        Ok(Reader {
            fetcher,
            detector,
            current: None,
            base: 0,
            at: 0,
            until: 0,
            jumped: true,
            run_start: 0,
            end: None,
        })
    }

    /// The file.
    pub fn file(&self) -> &Arc<File> {
        &self.fetcher.file
    }

    /// The offset of the next byte.
    pub fn position(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The next bytes of the file with the block that holds them; `None` at the end.
    ///
    /// The consumer may hold [`ReadAhead::lent`] chunks. If it holds more, the call waits until one
    /// is dropped, which must then happen in another thread.
    ///
    /// # Errors
    /// As reading.
    pub fn next_chunk(&mut self) -> io::Result<Option<Chunk>> {
        if self.at == self.until && !self.ready(DEFAULT_HINT_BYTES)? {
            return Ok(None);
        }
        let (Some(mut block), position) = (self.current.take(), self.position()) else {
            return Ok(None);
        };
        let range = self.at..block.len();
        let end = block.start + range.end as u64;
        block.mark_used(self.run_start.min(position)..end);
        (self.base, self.at, self.until) = (end, 0, 0);
        let block = self.fetcher.cache.give_away(block);
        self.detector.ran_to(end);
        // While the consumer is busy with the chunk, the next blocks are read.
        self.read_ahead()?;
        Ok(Some(Chunk::new(block, range)))
    }

    /// Most bytes of memory for buffers, however the reader is used. They are taken as they are
    /// needed.
    pub fn buffer_bytes(&self) -> usize {
        self.fetcher.sizes().bytes()
    }

    /// The counters of this reader so far.
    pub fn stats(&self) -> ReadStats {
        self.fetcher.stats_with(self.current.as_ref())
    }

    /// The access pattern that the reader has recognised.
    pub fn pattern(&self) -> AccessPattern {
        self.detector.pattern()
    }

    /// Drops all bytes that have been read and not consumed, so that the next read gets those that
    /// the file holds then.
    pub fn forget(&mut self) {
        self.end_run();
        self.put_back_current();
        self.fetcher.cache.clear();
    }

    /// Makes `at < until`, with another block if needed. False at the end of the file. The consumer
    /// wants `hint` bytes now.
    fn ready(&mut self, hint: u64) -> io::Result<bool> {
        let position = self.position();
        self.update_pattern(position);
        self.detector.expect(position.saturating_add(hint.min(self.fetcher.sizes().bounds.max)));
        if let Some(current) = self.current.as_ref().filter(|current| self.at < current.len()) {
            self.until = current.len();
            self.read_ahead()?;
            return Ok(true);
        }
        self.put_back_current();
        self.fetcher.collect(0)?;
        let Some(block) = self.find(position, hint)? else { return Ok(false) };
        (self.base, self.at) = (block.start, (position - block.start) as usize);
        self.until = block.len();
        self.end = block.last.then(|| block.start + block.len() as u64);
        self.current = Some(block);
        self.read_ahead()?;
        self.look_again_at_half(hint);
        Ok(true)
    }

    /// Tells the detector what was read since the last call.
    fn update_pattern(&mut self, position: u64) {
        if std::mem::take(&mut self.jumped) {
            self.detector.begin(position);
            self.run_start = position;
        } else {
            self.detector.ran_to(position);
        }
    }

    /// If no requests are in flight behind the present block, the read-ahead is looked at again
    /// when half of the block is consumed.
    fn look_again_at_half(&mut self, hint: u64) {
        let left = self.until - self.at;
        if self.fetcher.in_flight() == 0 && (hint as usize) < left {
            self.until = self.at + (left / 2).max(hint as usize);
        }
    }

    /// The block that holds `position`, read now if need be. `None` at the end of the file.
    fn find(&mut self, position: u64, hint: u64) -> io::Result<Option<CachedBlock>> {
        let (mut tried, mut waited) = (false, false);
        loop {
            match self.fetcher.cache.take(position) {
                Lookup::Block(block) => {
                    self.fetcher.stats.hits += u64::from(!tried && !waited);
                    self.fetcher.stats.waits += u64::from(!tried && waited);
                    return Ok(Some(block));
                }
                Lookup::InFlight => {
                    waited = true;
                    self.fetcher.collect(1)?;
                }
                Lookup::Nothing => {
                    // The end is reported once, for the file as it was read. A caller that asks
                    // again wants to know whether the file has grown. It has if a block behind the
                    // end was read.
                    if self.end.take() == Some(position)
                        && !tried
                        && self.fetcher.cache.next_start(position).is_none()
                    {
                        return Ok(None);
                    }
                    let end = self.fetcher.size_at(position);
                    let beyond = end.is_some_and(|end| end > 0 && position >= end);
                    if beyond {
                        return Ok(None);
                    }
                    if position >= self.fetcher.last_end() {
                        // Bytes that exist are not skipped silently.
                        return if end.is_some_and(|end| end > position) {
                            Err(Errno::OVERFLOW.into())
                        } else {
                            Ok(None)
                        };
                    }
                    self.fetcher.stats.misses += u64::from(!tried);
                    let again = std::mem::replace(&mut tried, true);
                    if !self.demand(position, hint, again)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Reads a block at `position`. False if nothing was there although the request succeeded.
    fn demand(&mut self, position: u64, hint: u64, again: bool) -> io::Result<bool> {
        let range = self.fetcher.range_at(position, self.detector.demand(position, hint));
        let (stream_id, unit) = (self.detector.stream_id(), self.fetcher.sizes().bounds.unit);
        self.detector.fetched(range.end);
        if !again && !self.fetcher.is_suspect(position) && self.wanted().is_some() {
            let range = self.fetcher.demand(range, stream_id)?;
            self.detector.fetched(range.end);
            self.read_ahead()?;
            return Ok(true);
        }
        let len = range.end - range.start;
        match self.fetcher.run_now(range, stream_id)? {
            // If the request failed as a whole, smaller requests may still read what lies before
            // the error.
            Some(error) if len <= unit && !self.fetcher.cache.holds(position) => Err(error.into()),
            Some(_) => Ok(true),
            None => Ok(self.fetcher.cache.holds(position)),
        }
    }

    /// Requests the blocks that the consumer will want, as far as there is memory. It only hands
    /// the requests to the kernel and never waits.
    fn read_ahead(&mut self) -> io::Result<()> {
        while let Some(range) = self.wanted() {
            if !self.fetcher.ahead(
                &range,
                self.detector.stream_id(),
                self.detector.live_streams(),
            )? {
                break;
            }
            self.detector.asked(&range);
        }
        self.fetcher.collect(0)
    }

    /// The next range worth reading ahead.
    fn wanted(&self) -> Option<Range<u64>> {
        let end = self.fetcher.known_end();
        let range = self.detector.wanted(end)?;
        let left = if self.pattern() == AccessPattern::Forward {
            end.saturating_sub(range.start)
        } else {
            end
        };
        self.fetcher.worth_ahead(left).then_some(range)
    }

    /// Reads whole blocks directly into the caller's memory, if they have not been requested and
    /// are many or all that is wanted. The blocks behind them are read ahead at the same time.
    /// `None` if that is not possible.
    fn read_zero_copy(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let (position, len) = (self.position(), buffer.len() as u64);
        let bounds = self.fetcher.sizes().bounds;
        let fits = is_aligned(position, bounds.unit)
            && self.file().geometry().is_memory_aligned(buffer.as_ptr().addr());
        if !fits || len < bounds.unit || self.at < self.current.as_ref().map_or(0, CachedBlock::len)
        {
            return Ok(None);
        }
        self.update_pattern(position);
        let random = self.detector.pattern() == AccessPattern::Random;
        let alone =
            random && self.detector.demand(position, len) == len && is_aligned(len, bounds.unit);
        if len < 2 * bounds.request && !alone {
            return Ok(None);
        }
        self.put_back_current();
        let Some(size) = self.fetcher.size_at(position) else { return Ok(None) };
        let end = align_down(position + len, bounds.unit).min(size);
        let end = self.fetcher.cache.next_start(position).map_or(end, |next| next.min(end));
        let held =
            self.fetcher.cache.covered(position).is_some() || self.fetcher.is_suspect(position);
        if held || end < position + bounds.request.min(len) {
            return Ok(None);
        }
        if !random {
            self.detector.ran_to(end);
            self.detector.fetched(end);
            self.read_ahead()?;
        }
        let len = align_down(end - position, bounds.unit) as usize;
        match self.file().read_at(&mut buffer[..len], position) {
            Ok(0) => Ok(None),
            Ok(count) => {
                self.fetcher.stats.requests += 1;
                self.fetcher.stats.read += count as u64;
                self.base += count as u64;
                Ok(Some(count))
            }
            // The bytes are read block by block, up to the error.
            Err(_) => {
                self.fetcher.suspect(position..end);
                Ok(None)
            }
        }
    }

    /// Fills the buffer from the present block, if that has enough.
    #[inline]
    fn read_from_current(&mut self, buffer: &mut [u8]) -> bool {
        let Some(current) = &self.current else { return false };
        let from = current.block.filled();
        // The shortest path for the smallest read.
        if let [byte] = buffer {
            if self.at >= self.until {
                return false;
            }
            *byte = from[self.at];
        } else {
            let Some(from) = from[..self.until].get(self.at..self.at + buffer.len()) else {
                return false;
            };
            buffer.copy_from_slice(from);
        }
        self.at += buffer.len();
        true
    }

    #[cold]
    #[inline(never)]
    fn read_exact_across_blocks(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_across_blocks(buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => buffer = &mut buffer[count..],
            }
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn read_across_blocks(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            if self.at == self.until {
                let rest = &mut buffer[done..];
                // Bytes that have been read count. The next call returns an error that is met after
                // them.
                match self.read_zero_copy(rest) {
                    Ok(Some(count)) => {
                        done += count;
                        continue;
                    }
                    Ok(None) => {}
                    Err(error) => return if done > 0 { Ok(done) } else { Err(error) },
                }
                match self.ready(rest.len() as u64) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(_) if done > 0 => break,
                    Err(error) => return Err(error),
                }
            }
            let from = self.available();
            let count = from.len().min(buffer.len() - done);
            buffer[done..done + count].copy_from_slice(&from[..count]);
            self.at += count;
            done += count;
        }
        Ok(done)
    }

    #[inline]
    fn available(&self) -> &[u8] {
        match &self.current {
            Some(current) => &current.block.filled()[self.at..self.until],
            None => &[],
        }
    }

    /// Records what has been read in order, before the consumer seeks.
    fn end_run(&mut self) {
        let position = self.position();
        self.end = None;
        if !std::mem::replace(&mut self.jumped, true) {
            self.detector.ran_to(position);
            self.mark_used(self.run_start..position);
        }
    }

    fn mark_used(&mut self, range: Range<u64>) {
        if let Some(current) = &mut self.current {
            current.mark_used(range);
        }
    }

    /// Puts the present block back.
    fn put_back_current(&mut self) {
        let position = self.position();
        if !self.jumped {
            self.mark_used(self.run_start..position);
        }
        (self.base, self.at, self.until) = (position, 0, 0);
        if let Some(block) = self.current.take() {
            let behind = matches!(
                self.detector.pattern(),
                AccessPattern::Backward | AccessPattern::Strided { .. }
            );
            self.fetcher.cache.put_back(block, behind);
        }
    }

    fn go_to(&mut self, target: u64) {
        let position = self.position();
        if target == position {
            return;
        }
        self.end_run();
        let within = target
            .checked_sub(self.base)
            .filter(|at| *at < self.current.as_ref().map_or(0, CachedBlock::len) as u64);
        match within {
            // The next read must look at the new offset, so nothing is available before it.
            Some(at) => (self.at, self.until) = (at as usize, at as usize),
            None => {
                self.put_back_current();
                self.base = target;
            }
        }
    }
}

impl BufRead for Reader {
    #[inline]
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.until && !self.ready(DEFAULT_HINT_BYTES)? {
            return Ok(&[]);
        }
        Ok(self.available())
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        self.at = self.until.min(self.at + count);
    }
}

impl Read for Reader {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read_from_current(buffer) {
            Ok(buffer.len())
        } else {
            self.read_across_blocks(buffer)
        }
    }

    #[inline]
    fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        if self.read_from_current(buffer) { Ok(()) } else { self.read_exact_across_blocks(buffer) }
    }
}

impl Seek for Reader {
    /// Moves to any offset without waiting for requests in flight.
    ///
    /// # Errors
    /// EINVAL for an offset before the start or beyond the largest one; what `fstat(2)` answers for
    /// an offset relative to the end.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => self.position().checked_add_signed(by),
            SeekFrom::End(by) => self.file().size()?.checked_add_signed(by),
        };
        let target = target
            .filter(|target| *target <= i64::MAX as u64)
            .ok_or(io::ErrorKind::InvalidInput)?;
        self.go_to(target);
        Ok(target)
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        Ok(self.position())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Requests in flight must finish before the counters of the file are final. Nobody learns
        // of an error here.
        let _ = self.fetcher.collect(self.fetcher.in_flight());
        let _ = self.file().settle();
    }
}
