//! Reading at any offset, length and address.

use std::io::IoSliceMut;
use std::ops::Range;

use super::counters::{Class, Reason};
use super::flow::{Ends, blocks_of};
use super::layout::{Part, Stretch, parts, stretches};
use super::trial::{Sight, Trial, pages_of};
use super::{File, FileError, Mode, Passage};
use crate::block::{Block, Loans, Mem, Segment, scope};
use crate::drive::{Finished, run_here};
use crate::engine::{Kind, Route};
use crate::geometry::align_up;

/// A part of the caller's memory that is filled by copying, and its place in the file.
type Kept<'env> = (u64, &'env mut [u8]);

impl File {
    /// Reads into `buffer` from `offset`; returns the bytes read, fewer than asked only at the end of the file.
    ///
    /// # Errors
    /// The first error of any part of the request, with its place.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, FileError> {
        let way = self.passage(buffer.len() as u64);
        let align = self.align(way.route, Kind::Read);
        let (address, len) = (buffer.as_ptr() as usize, buffer.len());
        let in_reach = offset.checked_add(len as u64).is_some_and(|end| end <= i64::MAX as u64);
        if len == 0 || len > self.largest_request() || !in_reach || !align.fits(offset, address, len) {
            return self.read_vectored_at(&mut [IoSliceMut::new(buffer)], offset);
        }
        self.refuse_buffered(&self.read_trial, "read directly from")?;
        let range = offset..offset + len as u64;
        let _guard = self.lock_for(way, Kind::Read, range.clone());
        let pages = self.before_read(way, &range);
        let count = scope(|loans| {
            let mem = Mem::one(loans.lend_mut(&mut *buffer));
            let op = self.op(Kind::Read, way.route, self.flags(way), offset, Some(mem));
            self.count_requests(Kind::Read, 1);
            self.read_outcome(&self.without_dontcache(run_here(op)))
        })?;
        // The device fills whole blocks: what it stored behind the end of the file is not the caller's to see.
        buffer[count..(align_up(count as u64, align.offset) as usize).min(len)].fill(0);
        self.after_read(way, &range, pages, count as u64)?;
        self.count_whole_read(way, count as u64);
        Ok(count)
    }

    /// Reads into several buffers in turn, from consecutive bytes of the file; as `preadv(2)`, under no alignment rule.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize, FileError> {
        let len: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let Some(end) = offset.checked_add(len).filter(|end| *end <= i64::MAX as u64) else {
            return Err(self.failed("read", rustix::io::Errno::INVAL).at(offset));
        };
        if len == 0 {
            return Ok(0);
        }
        self.refuse_buffered(&self.read_trial, "read directly from")?;
        let way = self.passage(len);
        let align = self.align(way.route, Kind::Read);
        let parts = parts(offset, buffers.iter().map(|b| (b.as_ptr() as usize, b.len())), align);
        let (most_straight, most_bounced) = self.longest_stretches(align);
        let stretches = stretches(&parts, align, most_straight, most_bounced);

        let _guard = self.lock_for(way, Kind::Read, offset..end);
        let pages = self.before_read(way, &(offset..end));
        let reached = scope(|loans| self.read_stretches(loans, buffers, &parts, &stretches, way))?;
        let count = reached.clamp(offset, end) - offset;
        if count < len {
            let behind = align_up(offset + count, align.offset) - (offset + count);
            clear_behind(buffers, count as usize, behind as usize);
        }
        self.after_read(way, &(offset..end), pages, count)?;
        if way.keep {
            self.count_whole_read(way, count);
        } else {
            self.count_parts_read(&parts, offset + count, offset, align.offset);
        }
        Ok(count as usize)
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// As [`File::read_at`]; ENODATA when the file ends before the buffer is full.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), FileError> {
        let count = self.read_at(buffer, offset)?;
        if count < buffer.len() {
            return Err(self.failed("read", rustix::io::Errno::NODATA).at(offset + count as u64));
        }
        Ok(())
    }

    /// Runs the stretches and copies out what was bounced; returns the offset up to which the file was read.
    fn read_stretches<'env>(
        &self,
        loans: &Loans<'env>,
        buffers: &'env mut [IoSliceMut<'_>],
        parts: &[Part],
        stretches: &[Stretch],
        way: Passage,
    ) -> Result<u64, FileError> {
        let (straight, kept) = hand_out(buffers, parts);
        let reached = stretches[0].file.start;
        let mut reading = Reading { file: self, loans, straight, kept: kept.into_iter().peekable(), reached };
        self.flow(Kind::Read, way, stretches, &mut reading)?;
        Ok(reading.reached)
    }

    pub(super) fn read_outcome(&self, over: &Finished) -> Result<usize, FileError> {
        over.outcome.map_err(|errno| self.failed_at("read", errno, over.op.position()))
    }

    /// Before a read that may leave pages: notes what is there. Returns the pages of the range when the file system's
    /// direct reads are on trial.
    pub(super) fn before_read(&self, way: Passage, range: &Range<u64>) -> Option<u64> {
        let os = self.os.as_ref()?;
        match way.route {
            Route::Buffered if self.mode == Mode::Cached || way.keep => None,
            Route::Buffered => {
                self.uncache.prepare(os);
                None
            }
            Route::Direct if !self.read_trial.is_proven() => {
                self.uncache.prepare(os);
                super::uncache::pages_in(os, range)
            }
            Route::Direct => None,
        }
    }

    /// After it: what passed through the cache is noted, and dropped when enough has gathered.
    pub(super) fn after_read(
        &self,
        way: Passage,
        range: &Range<u64>,
        pages: Option<u64>,
        count: u64,
    ) -> Result<(), FileError> {
        let Some(os) = &self.os else { return Ok(()) };
        let mut seen = false;
        if let (Some(before), true) = (pages, self.read_trial.is_open() && count > 0) {
            let after = super::uncache::pages_in(os, range).unwrap_or(before);
            seen = self.read_trial.judge(Sight { before, after, all: pages_of(range) });
        }
        let passed = match way.route {
            Route::Buffered => self.mode != Mode::Cached && !way.keep,
            Route::Direct => seen || self.read_trial.is_buffered(),
        };
        if passed && self.uncache.touch(range.clone(), false) {
            self.settle()?;
        }
        self.refuse_buffered(&self.read_trial, "read directly from")
    }

    /// The error of a file that was to be direct and is known not to be.
    pub(super) fn refuse_buffered(&self, trial: &Trial, operation: &'static str) -> Result<(), FileError> {
        if trial.is_buffered() && self.need == super::Need::Required {
            return Err(self.failed(operation, rustix::io::Errno::OPNOTSUPP).with_cure(super::open::CURE_BUFFERED));
        }
        Ok(())
    }

    fn count_whole_read(&self, way: Passage, bytes: u64) {
        if way.keep {
            self.meter.count_read(Class::Cached, bytes);
            self.meter.count_reason(Reason::Small, bytes);
        } else {
            self.count_straight_read(bytes);
        }
    }

    pub(super) fn count_straight_read(&self, bytes: u64) {
        let (class, reason) = self.read_class();
        self.meter.count_read(class, bytes);
        if let Some(reason) = reason {
            self.meter.count_reason(reason, bytes);
        }
    }

    /// Counts the parts up to `reached` by class and reason.
    fn count_parts_read(&self, parts: &[Part], reached: u64, offset: u64, align: u64) {
        for part in parts {
            let bytes = reached.saturating_sub(part.at).min(part.bytes.len() as u64);
            if bytes == 0 {
                continue;
            }
            if part.straight {
                self.count_straight_read(bytes);
            } else {
                self.meter.count_read(Class::Bounced, bytes);
                let aligned = (part.at | part.bytes.len() as u64) % align == 0 && offset % align == 0;
                let reason = if aligned { Reason::MisalignedMemory } else { Reason::MisalignedRequest };
                self.meter.count_reason(reason, bytes);
            }
        }
    }
}

/// The straight parts of the caller's memory, handed out piece by piece in file order.
struct Straight<'env> {
    slices: std::vec::IntoIter<&'env mut [u8]>,
    current: &'env mut [u8],
}

impl<'env> Straight<'env> {
    fn take(&mut self, len: usize) -> &'env mut [u8] {
        if self.current.is_empty() {
            self.current = self.slices.next().expect("stretches cover the straight parts exactly");
        }
        let (head, tail) = std::mem::take(&mut self.current).split_at_mut(len);
        self.current = tail;
        head
    }
}

/// Splits the caller's buffers into what is lent to the device and what is kept for copying into.
fn hand_out<'env>(buffers: &'env mut [IoSliceMut<'_>], parts: &[Part]) -> (Straight<'env>, Vec<Kept<'env>>) {
    let (mut straight, mut kept) = (Vec::new(), Vec::new());
    let mut parts = parts.iter().peekable();
    for (index, buffer) in buffers.iter_mut().enumerate() {
        let mut rest: &'env mut [u8] = buffer;
        while let Some(part) = parts.next_if(|part| part.buffer == index) {
            let (slice, after) = rest.split_at_mut(part.bytes.len());
            rest = after;
            if part.straight {
                straight.push(slice);
            } else {
                kept.push((part.at, slice));
            }
        }
    }
    (Straight { slices: straight.into_iter(), current: &mut [] }, kept)
}

/// A read under way: memory for what is to come, and where to copy what has come through blocks of ours.
struct Reading<'a, 'env> {
    file: &'a File,
    loans: &'a Loans<'env>,
    straight: Straight<'env>,
    kept: std::iter::Peekable<std::vec::IntoIter<Kept<'env>>>,
    /// The offset up to which the file was read.
    reached: u64,
}

impl<'env> Ends<'env> for Reading<'_, 'env> {
    fn begin(&mut self, group: &[Stretch], blocks: &mut std::vec::Drain<'_, Block>, segments: &mut Vec<Segment>) {
        for stretch in group {
            let len = (stretch.file.end - stretch.file.start) as usize;
            segments.push(match stretch.straight {
                Some(_) => self.loans.lend_mut(self.straight.take(len)),
                None => blocks.next().expect("there is a block for every bounced stretch").into_segment(0..len),
            });
        }
    }

    fn end(&mut self, over: Finished, spare: &mut Vec<Block>) -> Result<bool, FileError> {
        let count = self.file.read_outcome(&over)?;
        let (mut at, short) = (over.op.offset, count < over.op.len());
        self.reached = at + count as u64;
        blocks_of(over.op.mem, count, |block, len| {
            if let Some(block) = block {
                copy_out(block.filled(), at, &mut self.kept);
                spare.push(block);
            }
            at += len as u64;
        });
        // What later requests found behind the end is not contiguous with this: the file has grown in between.
        Ok(!short)
    }
}

/// Copies what a block holds from `at` into the caller's memory, which is consumed in file order.
fn copy_out<'env>(block: &[u8], at: u64, kept: &mut std::iter::Peekable<std::vec::IntoIter<Kept<'env>>>) {
    let held = at..at + block.len() as u64;
    while let Some((place, slice)) = kept.peek_mut() {
        let start = (*place).max(held.start);
        let end = (*place + slice.len() as u64).min(held.end);
        if start < end {
            let from = &block[(start - held.start) as usize..(end - held.start) as usize];
            slice[(start - *place) as usize..(end - *place) as usize].copy_from_slice(from);
        }
        if *place + slice.len() as u64 > held.end {
            break;
        }
        kept.next();
    }
}

/// Zeroes what the device may have stored behind the end of the file: `behind` bytes, the rest of the last block, from
/// byte `count` of the buffers.
fn clear_behind(buffers: &mut [IoSliceMut<'_>], count: usize, behind: usize) {
    let mut passed = 0;
    for buffer in buffers {
        let (start, end) = (count.saturating_sub(passed), (count + behind).saturating_sub(passed));
        passed += buffer.len();
        let (start, end) = (start.min(buffer.len()), end.min(buffer.len()));
        buffer[start..end].fill(0);
    }
}
