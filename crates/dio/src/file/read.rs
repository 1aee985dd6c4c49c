//! Reading at any offset, length and address.

use std::io::IoSliceMut;

use super::counters::{Class, Reason};
use super::flow::{self, Ends, blocks_of};
use super::layout::{Part, Stretch, parts, stretches};
use super::routing::Routing;
use super::{File, FileError};
use crate::block::{Block, Loans, Mem, Segment, scope};
use crate::drive::Finished;
use crate::engine::OpKind;
use crate::geometry::align_up;

/// A part of the caller's memory that is filled by copying, and its place in the file.
type Kept<'env> = (u64, &'env mut [u8]);

pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> Result<usize, FileError> {
    let routing = file.routing(buffer.len() as u64);
    let align = file.align(routing.route, OpKind::Read);
    let (address, len) = (buffer.as_ptr() as usize, buffer.len());
    let in_reach = offset.checked_add(len as u64).is_some_and(|end| end <= i64::MAX as u64);
    if len == 0 || len > flow::largest_request(file) || !in_reach || !align.fits(offset, address, len) {
        return read_vectored_at(file, &mut [IoSliceMut::new(buffer)], offset);
    }
    file.refuse_buffered(OpKind::Read)?;
    let range = offset..offset + len as u64;
    let _guard = file.locks.lock_for(routing, OpKind::Read, range.clone());
    let pages = file.before_request(OpKind::Read, routing, &range);
    let count = scope(|loans| {
        let mem = Mem::one(loans.lend_mut(&mut *buffer));
        let request = file.request(OpKind::Read, routing, offset, Some(mem));
        file.count_requests(OpKind::Read, 1);
        outcome(file, &file.without_dontcache(file.io.run(request)))
    })?;
    // The device fills whole blocks: what it stored behind the end of the file is not the caller's to see.
    buffer[count..(align_up(count as u64, align.offset) as usize).min(len)].fill(0);
    file.after_request(OpKind::Read, routing, &range, pages, count as u64)?;
    count_whole(file, routing, count as u64);
    Ok(count)
}

pub(super) fn read_vectored_at(file: &File, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize, FileError> {
    let len: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
    let Some(end) = offset.checked_add(len).filter(|end| *end <= i64::MAX as u64) else {
        return Err(file.failed("read", rustix::io::Errno::INVAL).at(offset));
    };
    if len == 0 {
        return Ok(0);
    }
    file.refuse_buffered(OpKind::Read)?;
    let routing = file.routing(len);
    let align = file.align(routing.route, OpKind::Read);
    let parts = parts(offset, buffers.iter().map(|b| (b.as_ptr() as usize, b.len())), align);
    let (most_straight, most_bounced) = flow::longest_stretches(file, align);
    let stretches = stretches(&parts, align, most_straight, most_bounced);

    let _guard = file.locks.lock_for(routing, OpKind::Read, offset..end);
    let pages = file.before_request(OpKind::Read, routing, &(offset..end));
    let reached = scope(|loans| read_stretches(file, loans, buffers, &parts, &stretches, routing))?;
    let count = reached.clamp(offset, end) - offset;
    if count < len {
        let behind = align_up(offset + count, align.offset) - (offset + count);
        clear_behind(buffers, count as usize, behind as usize);
    }
    file.after_request(OpKind::Read, routing, &(offset..end), pages, count)?;
    if routing.keep {
        count_whole(file, routing, count);
    } else {
        count_parts(file, &parts, offset + count, offset, align.offset);
    }
    Ok(count as usize)
}

/// Runs the stretches and copies out what was bounced; returns the offset up to which the file was read.
fn read_stretches<'env>(
    file: &File,
    loans: &Loans<'env>,
    buffers: &'env mut [IoSliceMut<'_>],
    parts: &[Part],
    stretches: &[Stretch],
    routing: Routing,
) -> Result<u64, FileError> {
    let (straight, kept) = hand_out(buffers, parts);
    let reached = stretches[0].file.start;
    let mut reading = Reading { file, loans, straight, kept: kept.into_iter().peekable(), reached };
    flow::run(file, OpKind::Read, routing, stretches, &mut reading)?;
    Ok(reading.reached)
}

/// What became of a read, as the file reports it.
pub(super) fn outcome(file: &File, over: &Finished) -> Result<usize, FileError> {
    over.outcome.map_err(|errno| file.failed_at("read", errno, over.position()))
}

fn count_whole(file: &File, routing: Routing, bytes: u64) {
    let how = if routing.keep { (Class::Cached, Some(Reason::Small)) } else { file.read_class() };
    file.meter.count(OpKind::Read, bytes, how);
}

/// Counts the parts up to `reached` by class and reason.
fn count_parts(file: &File, parts: &[Part], reached: u64, offset: u64, align: u64) {
    for part in parts {
        let bytes = reached.saturating_sub(part.at).min(part.bytes.len() as u64);
        if bytes == 0 {
            continue;
        }
        if part.straight {
            file.meter.count(OpKind::Read, bytes, file.read_class());
        } else {
            let aligned = (part.at | part.bytes.len() as u64) % align == 0 && offset % align == 0;
            let reason = if aligned { Reason::MisalignedMemory } else { Reason::MisalignedRequest };
            file.meter.count(OpKind::Read, bytes, (Class::Bounced, Some(reason)));
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
        let count = outcome(self.file, &over)?;
        let (mut at, short) = (over.request.offset, count < over.request.len());
        self.reached = at + count as u64;
        blocks_of(over.request.mem, count, |block, len| {
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
