//! Writes at any offset, length and address.
//!
//! Whole blocks go direct. If a block is written in part, these bytes go by exact length through
//! the page cache, under the exclusive lock of the whole file, and are dropped from the page cache.
//! No other method is right:
//!
//! - To read the block, patch it and write it back could undo what another process wrote into the
//!   rest of the block, and synced, in between. The kernel puts the bytes in place under its own
//!   lock of the file.
//! - A direct write of the block that holds the end of the file, or will hold it, would move the
//!   end to a multiple of the block. Other processes, or a crash, would show bytes that nobody
//!   wrote.

use std::io::IoSlice;
use std::ops::Range;

use rustix::io::Errno;

use super::counters::{Class, Reason};
use super::error::FileError;
use super::flow::{self, FlowHandler, for_each_block};
use super::handle::File;
use super::routing::Routing;
use super::segments::{BufferPart, PlannedSegment, RouteAlign, buffer_parts, plan_segments};
use super::size::{after_zeroing, before_zeroing, extend_to};
use crate::block::{Block, Loans, Segment, scope};
use crate::drive::Finished;
use crate::engine::{OpKind, Route};
use crate::geometry::{align_down, align_up};
use crate::lock::{LockClass, LockGuard};

/// How one write is divided among the routes, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct WriteDivision {
    /// Buffered: the rest of the block, or of the page, in which the write begins.
    head: Range<u64>,
    /// Direct. Invariant: whole blocks.
    body: Range<u64>,
    /// Buffered: the part of the block, or of the page, in which the write ends.
    tail: Range<u64>,
}

/// Divides a write of `range` to a file of `size` bytes. Inside the file, a buffered part is
/// extended to the edge of its page: a direct write of another block of that page would wait until
/// the page is written back.
///
/// Examples with blocks of 512 bytes (`align`) and pages of 4096:
/// - Bytes 100..20,000 of a file of 1 MiB begin and end within blocks inside the file, so both
///   buffered parts reach to the edges of their pages: head 100..4096, body 4096..16,384, tail
///   16,384..20,000.
/// - Bytes 1300..5000 of a file of 1300 bytes begin and end in the block that holds the end, so the
///   buffered parts reach to the edges of their blocks only: head 1300..1536, body 1536..4608, tail
///   4608..5000.
/// - Bytes 1300..1350 of a file of 1400 bytes lie within one block: all of them are the head.
fn divide(range: Range<u64>, size: u64, align: u64) -> WriteDivision {
    let Range { start, end } = range;
    let page = rustix::param::page_size() as u64;
    let unit =
        |edge: u64| if align_down(edge, align) + align <= size { align.max(page) } else { align };
    let head_end = if start % align == 0 { start } else { end.min(align_up(start, unit(start))) };
    let tail_start = if end % align == 0 { end } else { align_down(end, unit(end)) };
    let tail_start = tail_start.max(head_end);
    WriteDivision { head: start..head_end, body: head_end..tail_start, tail: tail_start..end }
}

pub(super) fn write_vectored_at(
    file: &File,
    buffers: &[IoSlice<'_>],
    offset: u64,
) -> Result<(), FileError> {
    file.latch.check()?;
    let len: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
    let end = offset.checked_add(len).filter(|end| *end <= i64::MAX as u64);
    let end = end.ok_or_else(|| file.failed("write", Errno::FBIG).at(offset))?;
    if !file.access.writable {
        return Err(file
            .failed("write", Errno::BADF)
            .at(offset)
            .with_cure("it was opened for reading only"));
    }
    if file.access.only_appends {
        return Err(file
            .failed("write", Errno::PERM)
            .at(offset)
            .with_cure("it was opened for appending only"));
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

/// As [`write_vectored_at`], for a caller that holds the lock of the file's blocks.
pub(super) fn write_unlocked(file: &File, bytes: &[u8], offset: u64) -> Result<(), FileError> {
    file.latch.check()?;
    let size = file.size()?;
    write_divided(
        file,
        &[IoSlice::new(bytes)],
        offset..offset + bytes.len() as u64,
        size,
        file.default_routing(),
    )
}

/// Writes the head, the body and the tail of a request, each by its route, to a file of `size`
/// bytes.
fn write_divided(
    file: &File,
    buffers: &[IoSlice<'_>],
    range: Range<u64>,
    size: u64,
    routing: Routing,
) -> Result<(), FileError> {
    let routing = Routing { in_order: file.traits.ordered_growth && size < range.end, ..routing };
    if size < range.start {
        extend_to(file, range.start)?;
    }
    let gap = !file.is_cached() && !routing.keep_pages && size < range.start;
    if gap {
        // The rest of the block that held the old end becomes part of the file, and the kernel
        // zeroes it.
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
    for (route, range) in [
        (Route::Buffered, division.head),
        (Route::Direct, division.body),
        (Route::Buffered, division.tail),
    ] {
        if range.is_empty() {
            continue;
        }
        // A part within one block is not at the end of the file if the file holds the whole block.
        let at_end = align_up(range.end, align) > size;
        let reason = if at_end { Reason::EndOfFile } else { Reason::MisalignedRequest };
        let routing = routing.with_route(route, reason);
        if range == (offset..end) {
            write_part(file, routing, buffers, offset)?;
        } else {
            let part = slice_buffers(buffers, (range.start - offset)..(range.end - offset));
            write_part(file, routing, &part, range.start)?;
        }
    }
    Ok(())
}

/// Takes the lock that the write needs, and returns the file's size under it. Only a write of whole
/// blocks inside the file runs beside others. A small one has its pages to itself.
fn lock(
    file: &File,
    range: Range<u64>,
    align: u64,
    routing: Routing,
) -> Result<(Option<LockGuard>, u64), FileError> {
    if !file.access.mode.wants_direct() {
        let guard = file.locks.lock(OpKind::Write, range.clone());
        if !file.traits.ordered_growth {
            return Ok((guard, before_zeroing(file)?));
        }
        let size = file.size()?;
        if range.start <= size {
            return Ok((guard, size));
        }
        // Filling the gap writes to objects that others may be writing to.
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
        // The locks cannot be upgraded. Dropping this one first keeps two extending writes from
        // waiting for each other.
        drop(guard);
    }
    let class = if misaligned { LockClass::Misaligned } else { LockClass::Resize };
    let guard = file.locks.whole(class);
    Ok((Some(guard), file.size()?))
}

/// Writes all of `buffers` through one route.
fn write_part(
    file: &File,
    routing: Routing,
    buffers: &[IoSlice<'_>],
    offset: u64,
) -> Result<(), FileError> {
    let align = file.align(routing.route, OpKind::Write);
    let parts = buffer_parts(offset, buffers.iter().map(|b| (b.as_ptr() as usize, b.len())), align);
    let (zero_copy_max, bounced_max) = flow::segment_bytes_max(file, align);
    let planned = plan_segments(&parts, align, zero_copy_max, bounced_max);
    let len: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
    let range = offset..offset + len;
    let pages = file.before_request(OpKind::Write, routing, &range);
    scope(|loans| {
        let mut handler = WriteHandler { file, loans, buffers, parts: &parts };
        flow::run(file, OpKind::Write, routing, &planned, &mut handler)
    })?;
    file.after_request(OpKind::Write, routing, &range, pages, len)?;
    count_parts(file, routing, &parts, align);
    Ok(())
}

/// Turns the outcome of a write into the error that the file reports.
pub(super) fn outcome(file: &File, finished: &Finished) -> Result<(), FileError> {
    let Err(errno) = finished.outcome else { return Ok(()) };
    // Each of several failed requests is reported with its own offset.
    let error = file.failed_at("write", errno, finished.position());
    // These errors refuse the request itself. The kernel has lost nothing, so nothing has to latch.
    if !matches!(errno, Errno::BADF | Errno::FBIG | Errno::INVAL) {
        file.latch.set(error.clone());
    }
    Err(error)
}

pub(super) fn count_parts(file: &File, routing: Routing, parts: &[BufferPart], align: RouteAlign) {
    let (class, reason) = file.write_class();
    for part in parts {
        let bytes = part.bytes.len() as u64;
        let aligned = (part.at | bytes) % align.offset == 0;
        let how = match (routing.route, part.zero_copy) {
            _ if routing.keep_pages => (Class::Cached, Some(Reason::Small)),
            (Route::Buffered, _) if class == Class::Direct => {
                (Class::Uncached, Some(routing.reason))
            }
            (Route::Buffered, _) | (Route::Direct, true) => (class, reason),
            (Route::Direct, false) if aligned => (Class::Bounced, Some(Reason::MisalignedMemory)),
            (Route::Direct, false) => (Class::Bounced, Some(Reason::MisalignedRequest)),
        };
        file.meter.count(OpKind::Write, bytes, how);
    }
}

/// Supplies the bytes of a write.
struct WriteHandler<'a, 'env> {
    file: &'a File,
    loans: &'a Loans<'env>,
    buffers: &'env [IoSlice<'env>],
    parts: &'a [BufferPart],
}

impl<'env> FlowHandler<'env> for WriteHandler<'_, 'env> {
    fn collect_memory(
        &mut self,
        group: &[PlannedSegment],
        blocks: &mut std::vec::Drain<'_, Block>,
        segments: &mut Vec<Segment>,
    ) {
        for segment in group {
            let len = (segment.file.end - segment.file.start) as usize;
            segments.push(match segment.caller {
                Some((buffer, start_in_buffer)) => {
                    let bytes: &'env [u8] = &self.buffers[buffer];
                    self.loans.lend(&bytes[start_in_buffer..start_in_buffer + len])
                }
                None => {
                    let mut block =
                        blocks.next().expect("there is a block for every bounced segment");
                    fill_block(&mut block, &segment.file, self.parts, self.buffers);
                    block.into_segment(0..len)
                }
            });
        }
    }

    fn finish_request(
        &mut self,
        finished: Finished,
        spare: &mut Vec<Block>,
    ) -> Result<bool, FileError> {
        outcome(self.file, &finished)?;
        for_each_block(finished.request.mem, 0, |block, _| spare.extend(block));
        Ok(true)
    }
}

/// Fills an empty block with the caller's bytes for a range of the file.
fn fill_block(
    block: &mut Block,
    covered: &Range<u64>,
    parts: &[BufferPart],
    buffers: &[IoSlice<'_>],
) {
    let first = parts.partition_point(|part| part.at + part.bytes.len() as u64 <= covered.start);
    for part in parts[first..]
        .iter()
        .take_while(|part| part.at < covered.end)
        .filter(|part| !part.zero_copy)
    {
        let start = part.at.max(covered.start);
        let end = (part.at + part.bytes.len() as u64).min(covered.end);
        let start_in_buffer = part.bytes.start + (start - part.at) as usize;
        let from = &buffers[part.buffer][start_in_buffer..start_in_buffer + (end - start) as usize];
        block.copy_in((start - covered.start) as usize, from);
    }
}

/// The bytes `range` of the buffers taken together.
fn slice_buffers<'a>(buffers: &'a [IoSlice<'_>], range: Range<u64>) -> Vec<IoSlice<'a>> {
    let mut passed = 0;
    let mut slices = Vec::new();
    for buffer in buffers {
        let len = buffer.len() as u64;
        let (start, end) = (range.start.max(passed), range.end.min(passed + len));
        if start < end {
            slices.push(IoSlice::new(&buffer[(start - passed) as usize..(end - passed) as usize]));
        }
        passed += len;
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(range: Range<u64>, size: u64) -> [Range<u64>; 3] {
        let WriteDivision { head, body, tail } = divide(range.clone(), size, 512);
        assert_eq!(
            (head.start, head.end, body.end, tail.end),
            (range.start, body.start, tail.start, range.end)
        );
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
        // The write ends in the block that will hold the new end.
        assert_eq!(divided(0..1300, 0), [0..0, 0..1024, 1024..1300]);
        // The write ends in the block that holds the old end.
        assert_eq!(divided(0..1300, 1400), [0..0, 0..1024, 1024..1300]);
        // The write begins in the block that holds the old end: an append.
        assert_eq!(divided(1300..4096, 1300), [1300..1536, 1536..4096, 4096..4096]);
        // The whole write lies within the block that holds the end.
        assert_eq!(divided(1300..1350, 1400), [1300..1350, 1350..1350, 1350..1350]);
        // An append that begins and ends within a block.
        assert_eq!(divided(1300..5000, 1300), [1300..1536, 1536..4608, 4608..5000]);
    }
}
