//! Reading a file as a stream.
//!
//! [`pattern`] says where the consumer goes, [`fetch`] brings what it needs and will need, [`shelf`] holds that. Here is
//! the consumer's side: the block that it is in, and the standard traits.

mod fetch;
mod limits;
mod pattern;
mod shelf;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use rustix::io::Errno;

use super::chunk::Chunk;
use crate::file::File;
use crate::geometry::{align_down, is_aligned};
use fetch::Fetcher;
use pattern::Detector;
use shelf::{Found, Held};

pub use fetch::ReadStats;
pub use limits::ReadAhead;
pub use pattern::Pattern;

/// What is taken to be wanted where the consumer does not say how much it wants, in bytes.
const SOME: u64 = 4096;

/// Reads a file through the standard traits, with read-ahead in memory of a known size.
///
/// Forward and backward sequential, strided, and several interleaved sequential streams are recognised, and several
/// requests are kept in flight for them; random reads ask for what is wanted and no more. What has been read is kept as
/// far as memory allows, so going back a little costs nothing: [`Reader::forget`] drops it where the file may have
/// changed. A reader of a small file costs no engine and little memory.
///
/// It takes no locks between calls: what a stream returns of a range that is being written is old, new or both.
///
/// An error comes out where it happened, after everything before it has been read; the next call tries again. Bytes of a
/// file that whole blocks cannot reach, of the block that an offset of 2^63 would end, are such an error (EOVERFLOW).
#[derive(Debug)]
pub struct Reader {
    // In boxes: what every read needs is close together then, and a reader is small to move.
    fetch: Box<Fetcher>,
    detector: Box<Detector>,
    /// The block being consumed.
    current: Option<Held>,
    /// Where `current` starts in the file; without one, the offset of the consumer.
    base: u64,
    /// How much of `current` is consumed, and how far it may be before read-ahead wants a look.
    /// Invariant: `at <= until <=` what the block holds; both 0 without one.
    at: usize,
    until: usize,
    /// The consumer went elsewhere and has not read there yet.
    jumped: bool,
    /// Where it began to read in order.
    run_start: u64,
    /// Where the file ended when the block was read that the consumer came to last, if it ended there.
    end: Option<u64>,
}

impl Reader {
    /// A reader from the start of a file, with the limits that suit its device: [`ReadAhead::for_file`].
    ///
    /// # Errors
    /// None now; memory is taken when it is first needed.
    pub fn new(file: impl Into<Arc<File>>) -> io::Result<Reader> {
        let file = file.into();
        let limits = ReadAhead::for_file(&file);
        Reader::with_read_ahead(file, limits)
    }

    /// As [`Reader::new`], with limits of one's own.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn with_read_ahead(file: impl Into<Arc<File>>, limits: ReadAhead) -> io::Result<Reader> {
        let fetch = Box::new(Fetcher::new(file.into(), limits));
        let detector = Box::new(Detector::new(fetch.sizes().bounds));
        Ok(Reader { fetch, detector, current: None, base: 0, at: 0, until: 0, jumped: true, run_start: 0, end: None })
    }

    /// The file.
    pub fn file(&self) -> &Arc<File> {
        &self.fetch.file
    }

    /// The offset of the next byte.
    pub fn position(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The next bytes of the file with the block that holds them, or `None` at its end.
    ///
    /// The consumer may hold [`ReadAhead::lent`] chunks; the call waits until one is dropped when it holds more, which
    /// must then happen in another thread.
    ///
    /// # Errors
    /// As reading.
    pub fn next_chunk(&mut self) -> io::Result<Option<Chunk>> {
        if self.at == self.until && !self.ready(SOME)? {
            return Ok(None);
        }
        let (Some(mut held), position) = (self.current.take(), self.position()) else { return Ok(None) };
        let range = self.at..held.len();
        let end = held.start + range.end as u64;
        held.see(self.run_start.min(position)..end);
        (self.base, self.at, self.until) = (end, 0, 0);
        let block = self.fetch.shelf.give_away(held);
        self.detector.ran_to(end);
        // The consumer is busy with it: time to read on.
        self.read_ahead()?;
        Ok(Some(Chunk::new(block, range)))
    }

    /// Most bytes of buffers that it uses, whatever it is asked to do. They are taken as they are needed.
    pub fn buffer_bytes(&self) -> usize {
        self.fetch.sizes().bytes()
    }

    /// What it has done so far.
    pub fn stats(&self) -> ReadStats {
        self.fetch.reading(self.current.as_ref())
    }

    /// What it takes the consumer to be doing.
    pub fn pattern(&self) -> Pattern {
        self.detector.pattern()
    }

    /// Drops everything that has been read and not consumed, so that the next read sees the file as it is then.
    pub fn forget(&mut self) {
        self.pause();
        self.leave();
        self.fetch.shelf.clear();
    }

    /// Makes `at < until`, by moving on to another block where that is needed; false at the end of the file. The consumer
    /// wants `hint` bytes now.
    fn ready(&mut self, hint: u64) -> io::Result<bool> {
        let position = self.position();
        self.look(position);
        self.detector.expect(position.saturating_add(hint.min(self.fetch.sizes().bounds.max)));
        if let Some(current) = self.current.as_ref().filter(|current| self.at < current.len()) {
            self.until = current.len();
            self.read_ahead()?;
            return Ok(true);
        }
        self.leave();
        self.fetch.collect(0)?;
        let Some(held) = self.find(position, hint)? else { return Ok(false) };
        (self.base, self.at) = (held.start, (position - held.start) as usize);
        self.until = held.len();
        self.end = held.last.then(|| held.start + held.len() as u64);
        self.current = Some(held);
        self.read_ahead()?;
        self.mark(hint);
        Ok(true)
    }

    /// Tells the detector what was read since it was last told.
    fn look(&mut self, position: u64) {
        if std::mem::take(&mut self.jumped) {
            self.detector.begin(position);
            self.run_start = position;
        } else {
            self.detector.ran_to(position);
        }
    }

    /// Where nothing has been asked for behind the block that the consumer has come to, it is time to do so when half of
    /// it is consumed.
    fn mark(&mut self, hint: u64) {
        let left = self.until - self.at;
        if self.fetch.in_flight() == 0 && (hint as usize) < left {
            self.until = self.at + (left / 2).max(hint as usize);
        }
    }

    /// The block that holds `position`, read now if it must be; `None` at the end of the file.
    fn find(&mut self, position: u64, hint: u64) -> io::Result<Option<Held>> {
        let (mut tried, mut waited) = (false, false);
        loop {
            match self.fetch.shelf.take(position) {
                Found::Block(held) => {
                    self.fetch.stats.hits += u64::from(!tried && !waited);
                    self.fetch.stats.waits += u64::from(!tried && waited);
                    return Ok(Some(held));
                }
                Found::InFlight => {
                    waited = true;
                    self.fetch.collect(1)?;
                }
                Found::Nothing => {
                    // Said once, of the file as it was read; whoever asks again wants to know whether it has grown. It
                    // has, where something was found behind.
                    if self.end.take() == Some(position) && !tried && self.fetch.shelf.next_start(position).is_none() {
                        return Ok(None);
                    }
                    let end = self.fetch.size_at(position);
                    let beyond = end.is_some_and(|end| end > 0 && position >= end);
                    if beyond {
                        return Ok(None);
                    }
                    if position >= self.fetch.last_end() {
                        // Bytes that are there are not passed over in silence.
                        return if end.is_some_and(|end| end > position) {
                            Err(Errno::OVERFLOW.into())
                        } else {
                            Ok(None)
                        };
                    }
                    self.fetch.stats.misses += u64::from(!tried);
                    let again = std::mem::replace(&mut tried, true);
                    if !self.demand(position, hint, again)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Asks for a block at `position`. False if nothing was there although the request succeeded.
    fn demand(&mut self, position: u64, hint: u64, again: bool) -> io::Result<bool> {
        let range = self.fetch.range_at(position, self.detector.demand(position, hint));
        let (plan, unit) = (self.detector.plan(), self.fetch.sizes().bounds.unit);
        self.detector.fetched(range.end);
        if !again && !self.fetch.is_suspect(position) && self.wanted().is_some() {
            let range = self.fetch.demand(range, plan)?;
            self.detector.fetched(range.end);
            self.read_ahead()?;
            return Ok(true);
        }
        let len = range.end - range.start;
        match self.fetch.run_now(range, plan)? {
            // What could not be read together may be in parts: up to the place of the error.
            Some(error) if len <= unit && !self.fetch.shelf.holds(position) => Err(error.into()),
            Some(_) => Ok(true),
            None => Ok(self.fetch.shelf.holds(position)),
        }
    }

    /// Asks for what the consumer will want, as far as there is memory. Nothing waits here: the requests are only handed to
    /// the kernel.
    fn read_ahead(&mut self) -> io::Result<()> {
        while let Some(range) = self.wanted() {
            if !self.fetch.ahead(&range, self.detector.plan(), self.detector.others())? {
                break;
            }
            self.detector.asked(&range);
        }
        self.fetch.collect(0)
    }

    /// What is worth reading ahead next.
    fn wanted(&self) -> Option<Range<u64>> {
        let end = self.fetch.known_end();
        let range = self.detector.wanted(end)?;
        let left = if self.pattern() == Pattern::Forward { end.saturating_sub(range.start) } else { end };
        self.fetch.worth_ahead(left).then_some(range)
    }

    /// Reads into the caller's memory what fills it in whole blocks and has not been asked for, where that is a good deal or
    /// all that is wanted; `None` otherwise. Meanwhile, what follows is on its way.
    fn read_straight(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let (position, len) = (self.position(), buffer.len() as u64);
        let bounds = self.fetch.sizes().bounds;
        let fits =
            is_aligned(position, bounds.unit) && self.file().geometry().is_memory_aligned(buffer.as_ptr().addr());
        if !fits || len < bounds.unit || self.at < self.current.as_ref().map_or(0, Held::len) {
            return Ok(None);
        }
        self.look(position);
        let random = self.detector.pattern() == Pattern::Random;
        let alone = random && self.detector.demand(position, len) == len && is_aligned(len, bounds.unit);
        if len < 2 * bounds.request && !alone {
            return Ok(None);
        }
        self.leave();
        let Some(size) = self.fetch.size_at(position) else { return Ok(None) };
        let end = align_down(position + len, bounds.unit).min(size);
        let end = self.fetch.shelf.next_start(position).map_or(end, |next| next.min(end));
        let held = self.fetch.shelf.covered(position).is_some() || self.fetch.is_suspect(position);
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
                self.fetch.stats.requests += 1;
                self.fetch.stats.read += count as u64;
                self.base += count as u64;
                Ok(Some(count))
            }
            // Block by block, up to the place of the error.
            Err(_) => {
                self.fetch.suspect(position..end);
                Ok(None)
            }
        }
    }

    /// Fills the buffer from the block being consumed, if that has enough.
    #[inline]
    fn read_here(&mut self, buffer: &mut [u8]) -> bool {
        let Some(current) = &self.current else { return false };
        let from = current.block.filled();
        // The shortest way for the shortest step.
        if let [place] = buffer {
            if self.at >= self.until {
                return false;
            }
            *place = from[self.at];
        } else {
            let Some(from) = from[..self.until].get(self.at..self.at + buffer.len()) else { return false };
            buffer.copy_from_slice(from);
        }
        self.at += buffer.len();
        true
    }

    #[cold]
    #[inline(never)]
    fn read_exact_slowly(&mut self, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.read_slowly(buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => buffer = &mut buffer[count..],
            }
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn read_slowly(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            if self.at == self.until {
                let rest = &mut buffer[done..];
                // What has been read stands; an error met after it comes out of the next call.
                match self.read_straight(rest) {
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

    /// Notes what has been read in order up to here, before the consumer goes elsewhere.
    fn pause(&mut self) {
        let position = self.position();
        self.end = None;
        if !std::mem::replace(&mut self.jumped, true) {
            self.detector.ran_to(position);
            self.seen(self.run_start..position);
        }
    }

    fn seen(&mut self, range: Range<u64>) {
        if let Some(current) = &mut self.current {
            current.see(range);
        }
    }

    /// Puts the block being consumed back.
    fn leave(&mut self) {
        let position = self.position();
        if !self.jumped {
            self.seen(self.run_start..position);
        }
        (self.base, self.at, self.until) = (position, 0, 0);
        if let Some(held) = self.current.take() {
            let behind = matches!(self.detector.pattern(), Pattern::Backward | Pattern::Strided { .. });
            self.fetch.shelf.put_back(held, behind);
        }
    }

    fn go_to(&mut self, target: u64) {
        let position = self.position();
        if target == position {
            return;
        }
        self.pause();
        let within = target.checked_sub(self.base).filter(|at| *at < self.current.as_ref().map_or(0, Held::len) as u64);
        match within {
            // The next read must look at the new place, so nothing is available before.
            Some(at) => (self.at, self.until) = (at as usize, at as usize),
            None => {
                self.leave();
                self.base = target;
            }
        }
    }
}

impl BufRead for Reader {
    #[inline]
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.until && !self.ready(SOME)? {
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
        if self.read_here(buffer) { Ok(buffer.len()) } else { self.read_slowly(buffer) }
    }

    #[inline]
    fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        if self.read_here(buffer) { Ok(()) } else { self.read_exact_slowly(buffer) }
    }
}

impl Seek for Reader {
    /// Moves to any place; what is in flight is not waited for.
    ///
    /// # Errors
    /// EINVAL for a place before the start or behind what an offset can express; what `fstat(2)` answers for a place
    /// relative to the end.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(offset) => Some(offset),
            SeekFrom::Current(by) => self.position().checked_add_signed(by),
            SeekFrom::End(by) => self.file().size()?.checked_add_signed(by),
        };
        let target = target.filter(|target| *target <= i64::MAX as u64).ok_or(io::ErrorKind::InvalidInput)?;
        self.go_to(target);
        Ok(target)
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        Ok(self.position())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Blocks in flight come back before the accounts of the file are closed; errors have nobody to be told.
        let _ = self.fetch.collect(self.fetch.in_flight());
        let _ = self.file().settle();
    }
}
