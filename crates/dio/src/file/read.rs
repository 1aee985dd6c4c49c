//! Reads at any offset, length and address.

use std::io::IoSliceMut;

use super::counters::{Class, Reason};
use super::error::FileError;
use super::flow::{self, FlowHandler, for_each_block};
use super::handle::File;
use super::routing::Routing;
use super::segments::{BufferPart, PlannedSegment, buffer_parts, plan_segments};
use crate::block::{Block, Loans, Mem, Segment, scope};
use crate::drive::Finished;
use crate::engine::OpKind;
use crate::geometry::align_up;

/// A part of the caller's memory that is filled by copying, with its file offset.
type CopyTarget<'env> = (u64, &'env mut [u8]);

pub(super) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> Result<usize, FileError> {
    let routing = file.routing(buffer.len() as u64);
    let align = file.align(routing.route, OpKind::Read);
    let (address, len) = (buffer.as_ptr() as usize, buffer.len());
    let in_reach = offset.checked_add(len as u64).is_some_and(|end| end <= i64::MAX as u64);
    if len == 0
        || len > flow::request_bytes_max(file)
        || !in_reach
        || !align.fits(offset, address, len)
    {
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
    // The device stores whole blocks. The bytes that it stored behind the end of the file are
    // zeroed.
    if count < len {
        buffer[count..(align_up(count as u64, align.offset) as usize).min(len)].fill(0);
    }
    file.after_request(OpKind::Read, routing, &range, pages, count as u64)?;
    count_whole(file, routing, count as u64);
    Ok(count)
}

pub(super) fn read_vectored_at(
    file: &File,
    buffers: &mut [IoSliceMut<'_>],
    offset: u64,
) -> Result<usize, FileError> {
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
    let parts = buffer_parts(offset, buffers.iter().map(|b| (b.as_ptr() as usize, b.len())), align);
    let (zero_copy_max, bounced_max) = flow::segment_bytes_max(file, align);
    let planned = plan_segments(&parts, align, zero_copy_max, bounced_max);

    let _guard = file.locks.lock_for(routing, OpKind::Read, offset..end);
    let pages = file.before_request(OpKind::Read, routing, &(offset..end));
    let reached = scope(|loans| read_segments(file, loans, buffers, &parts, &planned, routing))?;
    let count = reached.clamp(offset, end) - offset;
    if count < len {
        let behind = align_up(offset + count, align.offset) - (offset + count);
        zero_behind(buffers, count as usize, behind as usize);
    }
    file.after_request(OpKind::Read, routing, &(offset..end), pages, count)?;
    if routing.keep_pages {
        count_whole(file, routing, count);
    } else {
        count_parts(file, &parts, offset + count, offset, align.offset);
    }
    Ok(count as usize)
}

/// Runs the segments and copies out the bounced bytes. Returns the offset up to which the file was
/// read.
fn read_segments<'env>(
    file: &File,
    loans: &Loans<'env>,
    buffers: &'env mut [IoSliceMut<'_>],
    parts: &[BufferPart],
    planned: &[PlannedSegment],
    routing: Routing,
) -> Result<u64, FileError> {
    let (zero_copy, copy_targets) = split_buffers(buffers, parts);
    let reached = planned[0].file.start;
    let mut handler = ReadHandler {
        file,
        loans,
        zero_copy,
        copy_targets: copy_targets.into_iter().peekable(),
        reached,
    };
    flow::run(file, OpKind::Read, routing, planned, &mut handler)?;
    Ok(handler.reached)
}

/// Turns the outcome of a read into the error that the file reports.
pub(super) fn outcome(file: &File, finished: &Finished) -> Result<usize, FileError> {
    finished.outcome.map_err(|errno| file.failed_at("read", errno, finished.position()))
}

pub(super) fn count_whole(file: &File, routing: Routing, bytes: u64) {
    let how =
        if routing.keep_pages { (Class::Cached, Some(Reason::Small)) } else { file.read_class() };
    file.meter.count(OpKind::Read, bytes, how);
}

/// Counts the parts up to `reached` by class and reason.
pub(super) fn count_parts(
    file: &File,
    parts: &[BufferPart],
    reached: u64,
    offset: u64,
    align: u64,
) {
    for part in parts {
        let bytes = reached.saturating_sub(part.at).min(part.bytes.len() as u64);
        if bytes == 0 {
            continue;
        }
        if part.zero_copy {
            file.meter.count(OpKind::Read, bytes, file.read_class());
        } else {
            let aligned = (part.at | part.bytes.len() as u64) % align == 0 && offset % align == 0;
            let reason = if aligned { Reason::MisalignedMemory } else { Reason::MisalignedRequest };
            file.meter.count(OpKind::Read, bytes, (Class::Bounced, Some(reason)));
        }
    }
}

/// The zero-copy parts of the caller's memory, handed out piece by piece in file order.
struct ZeroCopyBuffers<'env> {
    slices: std::vec::IntoIter<&'env mut [u8]>,
    current: &'env mut [u8],
}

impl<'env> ZeroCopyBuffers<'env> {
    fn take(&mut self, len: usize) -> &'env mut [u8] {
        if self.current.is_empty() {
            self.current =
                self.slices.next().expect("the segments cover the zero-copy parts exactly");
        }
        let (head, tail) = std::mem::take(&mut self.current).split_at_mut(len);
        self.current = tail;
        head
    }
}

/// Splits the caller's buffers into those lent to the device and those filled by copying.
fn split_buffers<'env>(
    buffers: &'env mut [IoSliceMut<'_>],
    parts: &[BufferPart],
) -> (ZeroCopyBuffers<'env>, Vec<CopyTarget<'env>>) {
    let (mut zero_copy, mut copy_targets) = (Vec::new(), Vec::new());
    let mut parts = parts.iter().peekable();
    for (index, buffer) in buffers.iter_mut().enumerate() {
        let mut rest: &'env mut [u8] = buffer;
        while let Some(part) = parts.next_if(|part| part.buffer == index) {
            let (slice, after) = rest.split_at_mut(part.bytes.len());
            rest = after;
            if part.zero_copy {
                zero_copy.push(slice);
            } else {
                copy_targets.push((part.at, slice));
            }
        }
    }
    (ZeroCopyBuffers { slices: zero_copy.into_iter(), current: &mut [] }, copy_targets)
}

/// Supplies the memory of a read, and copies bytes out of bounce blocks.
struct ReadHandler<'a, 'env> {
    file: &'a File,
    loans: &'a Loans<'env>,
    zero_copy: ZeroCopyBuffers<'env>,
    copy_targets: std::iter::Peekable<std::vec::IntoIter<CopyTarget<'env>>>,
    /// The offset up to which the file was read.
    reached: u64,
}

impl<'env> FlowHandler<'env> for ReadHandler<'_, 'env> {
    fn collect_memory(
        &mut self,
        group: &[PlannedSegment],
        blocks: &mut std::vec::Drain<'_, Block>,
        segments: &mut Vec<Segment>,
    ) {
        for segment in group {
            let len = (segment.file.end - segment.file.start) as usize;
            segments.push(match segment.caller {
                Some(_) => self.loans.lend_mut(self.zero_copy.take(len)),
                None => blocks
                    .next()
                    .expect("there is a block for every bounced segment")
                    .into_segment(0..len),
            });
        }
    }

    fn finish_request(
        &mut self,
        finished: Finished,
        spare: &mut Vec<Block>,
    ) -> Result<bool, FileError> {
        let count = outcome(self.file, &finished)?;
        let (mut at, short) = (finished.request.offset, count < finished.request.len());
        self.reached = at + count as u64;
        for_each_block(finished.request.mem, count, |block, len| {
            if let Some(block) = block {
                copy_out(block.filled(), at, &mut self.copy_targets);
                spare.push(block);
            }
            at += len as u64;
        });
        // Later requests may have found bytes behind the end, because the file has grown since.
        // They do not continue these.
        Ok(!short)
    }
}

/// Copies the bytes of a block, which begins at file offset `at`, into the caller's memory. Memory
/// is used up in file order.
fn copy_out<'env>(
    block: &[u8],
    at: u64,
    copy_targets: &mut std::iter::Peekable<std::vec::IntoIter<CopyTarget<'env>>>,
) {
    let covered = at..at + block.len() as u64;
    while let Some((slice_start, slice)) = copy_targets.peek_mut() {
        let start = (*slice_start).max(covered.start);
        let end = (*slice_start + slice.len() as u64).min(covered.end);
        if start < end {
            let from = &block[(start - covered.start) as usize..(end - covered.start) as usize];
            slice[(start - *slice_start) as usize..(end - *slice_start) as usize]
                .copy_from_slice(from);
        }
        if *slice_start + slice.len() as u64 > covered.end {
            break;
        }
        copy_targets.next();
    }
}

/// Zeroes `behind` bytes from byte `count` of the buffers on: the rest of the last block, where the
/// device may have stored bytes behind the end of the file.
fn zero_behind(buffers: &mut [IoSliceMut<'_>], count: usize, behind: usize) {
    let mut passed = 0;
    for buffer in buffers {
        let (start, end) = (count.saturating_sub(passed), (count + behind).saturating_sub(passed));
        passed += buffer.len();
        let (start, end) = (start.min(buffer.len()), end.min(buffer.len()));
        buffer[start..end].fill(0);
    }
}
