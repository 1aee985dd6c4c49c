//! Writing at any offset, length and address.
//!
//! Whole blocks go direct. The bytes of a block that is written in part go by exact length through the page cache, under
//! the exclusive lock of the whole file, and are dropped from there. Nothing else would do:
//!
//! - To read the block, patch it and write it back would undo what another process wrote into the rest of it, and synced,
//!   between the two. The kernel puts the bytes in place under its own lock of the file.
//! - A direct write of the block that holds, or would hold, the end of the file would move the end to a multiple of the
//!   block, so other processes, or a crash, would show bytes that nobody wrote.

use std::io::IoSlice;
use std::ops::Range;

use rustix::io::Errno;

use super::counters::{Class, Reason};
use super::flow::{self, Ends, blocks_of};
use super::layout::{Align, Part, Stretch, parts, stretches};
use super::routing::Routing;
use super::size::{after_zeroing, before_zeroing, reach};
use super::{File, FileError};
use crate::block::{Block, Loans, Segment, scope};
use crate::drive::Finished;
use crate::engine::{OpKind, Route};
use crate::geometry::{align_down, align_up};
use crate::lock::{LockClass, LockGuard};

/// How one write is divided, by its place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Division {
    /// Before the body, through the page cache: the rest of the block, or of the page, that the write begins within.
    head: Range<u64>,
    /// Direct. Invariant: whole blocks.
    body: Range<u64>,
    /// Behind the body, through the page cache: the part of a block, or of a page, that the write ends within.
    tail: Range<u64>,
}

/// Divides a write of `range` to a file of `size` bytes. Inside the file, what goes through the page cache is extended to
/// the edge of its page: a direct write of another block of that page would wait until the page is written back.
fn divide(range: Range<u64>, size: u64, align: u64) -> Division {
    let Range { start, end } = range;
    let page = rustix::param::page_size() as u64;
    let unit = |edge: u64| if align_down(edge, align) + align <= size { align.max(page) } else { align };
    let head_end = if start % align == 0 { start } else { end.min(align_up(start, unit(start))) };
    let tail_start = if end % align == 0 { end } else { align_down(end, unit(end)) };
    let tail_start = tail_start.max(head_end);
    Division { head: start..head_end, body: head_end..tail_start, tail: tail_start..end }
}

pub(super) fn write_vectored_at(file: &File, buffers: &[IoSlice<'_>], offset: u64) -> Result<(), FileError> {
    file.latch.check()?;
    let len: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
    let end = offset.checked_add(len).filter(|end| *end <= i64::MAX as u64);
    let end = end.ok_or_else(|| file.failed("write", Errno::FBIG).at(offset))?;
    if !file.access.writable {
        return Err(file.failed("write", Errno::BADF).at(offset).with_cure("it was opened for reading only"));
    }
    if file.access.only_appends {
        return Err(file.failed("write", Errno::PERM).at(offset).with_cure("it was opened for appending only"));
    }
    if len == 0 {
        return Ok(());
    }
    file.refuse_buffered(OpKind::Write)?;
    let routing = file.routing(len);
    let align = file.align(routing.route, OpKind::Write);
    let (_guard, size) = lock(file, offset..end, align.offset, routing)?;
    write_divided(file, buffers, offset..end, size, routing)
}

/// For a caller that holds the lock of the file's blocks.
pub(super) fn write_unlocked(file: &File, bytes: &[u8], offset: u64) -> Result<(), FileError> {
    file.latch.check()?;
    let size = file.size()?;
    write_divided(file, &[IoSlice::new(bytes)], offset..offset + bytes.len() as u64, size, file.usual())
}

/// Writes the head, the body and the tail of a request, each by its route, to a file of `size` bytes.
fn write_divided(
    file: &File,
    buffers: &[IoSlice<'_>],
    range: Range<u64>,
    size: u64,
    routing: Routing,
) -> Result<(), FileError> {
    let routing = Routing { in_order: file.shape.ordered_growth && size < range.end, ..routing };
    if size < range.start {
        reach(file, range.start)?;
    }
    let gap = !file.is_cached() && !routing.keep && size < range.start;
    if gap {
        // The rest of the block of the old end becomes part of the file and is zeroed.
        before_zeroing(file)?;
    }
    if routing.route == Route::Buffered {
        write_part(file, routing, buffers, range.start)?;
    } else {
        write_by_routes(file, routing, buffers, range, size)?;
    }
    if gap { after_zeroing(file, &[size]) } else { Ok(()) }
}

fn write_by_routes(
    file: &File,
    routing: Routing,
    buffers: &[IoSlice<'_>],
    range: Range<u64>,
    size: u64,
) -> Result<(), FileError> {
    let Range { start: offset, end } = range;
    let align = file.align(Route::Direct, OpKind::Write).offset;
    let division = divide(offset..end, size, align);
    for (route, range) in
        [(Route::Buffered, division.head), (Route::Direct, division.body), (Route::Buffered, division.tail)]
    {
        if range.is_empty() {
            continue;
        }
        // A part within one block whose all bytes are in the file is not at its end.
        let at_end = align_up(range.end, align) > size;
        let reason = if at_end { Reason::EndOfFile } else { Reason::MisalignedRequest };
        let routing = routing.through(route, reason);
        if range == (offset..end) {
            write_part(file, routing, buffers, offset)?;
        } else {
            let part = slices(buffers, (range.start - offset)..(range.end - offset));
            write_part(file, routing, &part, range.start)?;
        }
    }
    Ok(())
}

/// Takes the lock that the write needs and the file's size under it. Only a write inside the file, in whole blocks,
/// runs beside others; one that is small has its pages to itself.
fn lock(file: &File, range: Range<u64>, align: u64, routing: Routing) -> Result<(Option<LockGuard>, u64), FileError> {
    if !file.access.mode.wants_direct() {
        let guard = file.locks.lock(OpKind::Write, range.clone());
        if !file.shape.ordered_growth {
            return Ok((guard, before_zeroing(file)?));
        }
        let size = file.size()?;
        if range.start <= size {
            return Ok((guard, size));
        }
        // A gap is filled in objects that others may be writing to.
        drop(guard);
        let guard = file.locks.whole(LockClass::Resize);
        return Ok((Some(guard), file.size()?));
    }
    let misaligned = (range.start | range.end) % align != 0;
    if !misaligned {
        let guard = file.locks.lock_for(routing, OpKind::Write, range.clone());
        let size = file.size()?;
        if range.end <= size {
            return Ok((guard, size));
        }
        // The locks are not upgradeable; dropping this one first keeps two extenders from waiting for each other.
        drop(guard);
    }
    let class = if misaligned { LockClass::Misaligned } else { LockClass::Resize };
    let guard = file.locks.whole(class);
    Ok((Some(guard), file.size()?))
}

/// Writes all of `buffers` through one route.
fn write_part(file: &File, routing: Routing, buffers: &[IoSlice<'_>], offset: u64) -> Result<(), FileError> {
    let align = file.align(routing.route, OpKind::Write);
    let parts = parts(offset, buffers.iter().map(|b| (b.as_ptr() as usize, b.len())), align);
    let (most_straight, most_bounced) = flow::longest_stretches(file, align);
    let stretches = stretches(&parts, align, most_straight, most_bounced);
    let len: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
    let range = offset..offset + len;
    let pages = file.before_request(OpKind::Write, routing, &range);
    scope(|loans| {
        let mut writing = Writing { file, loans, buffers, parts: &parts };
        flow::run(file, OpKind::Write, routing, &stretches, &mut writing)
    })?;
    file.after_request(OpKind::Write, routing, &range, pages, len)?;
    count_parts(file, routing, &parts, align);
    Ok(())
}

/// What became of a write, as the file reports it.
pub(super) fn outcome(file: &File, over: &Finished) -> Result<(), FileError> {
    let Err(errno) = over.outcome else { return Ok(()) };
    // Each of several that were under way is reported with its own place.
    let error = file.failed_at("write", errno, over.position());
    // The request itself was refused; the kernel has lost nothing, so nothing has to latch.
    if !matches!(errno, Errno::BADF | Errno::FBIG | Errno::INVAL) {
        file.latch.set(error.clone());
    }
    Err(error)
}

fn count_parts(file: &File, routing: Routing, parts: &[Part], align: Align) {
    let (class, reason) = file.write_class();
    for part in parts {
        let bytes = part.bytes.len() as u64;
        let aligned = (part.at | bytes) % align.offset == 0;
        let how = match (routing.route, part.straight) {
            _ if routing.keep => (Class::Cached, Some(Reason::Small)),
            (Route::Buffered, _) if class == Class::Direct => (Class::Uncached, Some(routing.reason)),
            (Route::Buffered, _) | (Route::Direct, true) => (class, reason),
            (Route::Direct, false) if aligned => (Class::Bounced, Some(Reason::MisalignedMemory)),
            (Route::Direct, false) => (Class::Bounced, Some(Reason::MisalignedRequest)),
        };
        file.meter.count(OpKind::Write, bytes, how);
    }
}

/// A write under way: where its bytes come from.
struct Writing<'a, 'env> {
    file: &'a File,
    loans: &'a Loans<'env>,
    buffers: &'env [IoSlice<'env>],
    parts: &'a [Part],
}

impl<'env> Ends<'env> for Writing<'_, 'env> {
    fn begin(&mut self, group: &[Stretch], blocks: &mut std::vec::Drain<'_, Block>, segments: &mut Vec<Segment>) {
        for stretch in group {
            let len = (stretch.file.end - stretch.file.start) as usize;
            segments.push(match stretch.straight {
                Some((buffer, place)) => {
                    let bytes: &'env [u8] = &self.buffers[buffer];
                    self.loans.lend(&bytes[place..place + len])
                }
                None => {
                    let mut block = blocks.next().expect("there is a block for every bounced stretch");
                    fill(&mut block, &stretch.file, self.parts, self.buffers);
                    block.into_segment(0..len)
                }
            });
        }
    }

    fn end(&mut self, over: Finished, spare: &mut Vec<Block>) -> Result<bool, FileError> {
        outcome(self.file, &over)?;
        blocks_of(over.request.mem, 0, |block, _| spare.extend(block));
        Ok(true)
    }
}

/// Fills an empty block for a stretch of the file with the caller's bytes.
fn fill(block: &mut Block, held: &Range<u64>, parts: &[Part], buffers: &[IoSlice<'_>]) {
    let first = parts.partition_point(|part| part.at + part.bytes.len() as u64 <= held.start);
    for part in parts[first..].iter().take_while(|part| part.at < held.end).filter(|part| !part.straight) {
        let start = part.at.max(held.start);
        let end = (part.at + part.bytes.len() as u64).min(held.end);
        let place = part.bytes.start + (start - part.at) as usize;
        let from = &buffers[part.buffer][place..place + (end - start) as usize];
        block.copy_in((start - held.start) as usize, from);
    }
}

/// The bytes `range` of the buffers taken together.
fn slices<'a>(buffers: &'a [IoSlice<'_>], range: Range<u64>) -> Vec<IoSlice<'a>> {
    let mut passed = 0;
    let mut taken = Vec::new();
    for buffer in buffers {
        let len = buffer.len() as u64;
        let (start, end) = (range.start.max(passed), range.end.min(passed + len));
        if start < end {
            taken.push(IoSlice::new(&buffer[(start - passed) as usize..(end - passed) as usize]));
        }
        passed += len;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(range: Range<u64>, size: u64) -> [Range<u64>; 3] {
        let Division { head, body, tail } = divide(range.clone(), size, 512);
        assert_eq!((head.start, head.end, body.end, tail.end), (range.start, body.start, tail.start, range.end));
        [head, body, tail]
    }

    #[test]
    fn whole_blocks_go_direct_wherever_they_are() {
        assert_eq!(divided(512..2048, 0)[1], 512..2048);
        assert_eq!(divided(512..2048, 700)[1], 512..2048);
    }

    #[test]
    fn partial_blocks_inside_the_file_go_by_exact_length_with_the_rest_of_their_pages() {
        assert_eq!(divided(100..1300, 1536), [100..1300, 1300..1300, 1300..1300]);
        assert_eq!(divided(100..200, 512), [100..200, 200..200, 200..200]);
        assert_eq!(divided(100..20_000, 1 << 20), [100..4096, 4096..16_384, 16_384..20_000]);
        assert_eq!(divided(512..20_000, 1 << 20), [512..512, 512..16_384, 16_384..20_000]);
        assert_eq!(divided(100..8192, 1 << 20), [100..4096, 4096..8192, 8192..8192]);
    }

    #[test]
    fn the_block_of_the_end_goes_by_exact_length() {
        // The new end.
        assert_eq!(divided(0..1300, 0), [0..0, 0..1024, 1024..1300]);
        // The old end, behind the write.
        assert_eq!(divided(0..1300, 1400), [0..0, 0..1024, 1024..1300]);
        // The old end, before the write: an append.
        assert_eq!(divided(1300..4096, 1300), [1300..1536, 1536..4096, 4096..4096]);
        // Everything within the block of the end.
        assert_eq!(divided(1300..1350, 1400), [1300..1350, 1350..1350, 1350..1350]);
        // An append with both.
        assert_eq!(divided(1300..5000, 1300), [1300..1536, 1536..4608, 4608..5000]);
    }
}
