//! Many ranges of many files in one call: all in flight together, each straight into or out of its
//! own memory.
//!
//! A range becomes segments as a read or write of [`File`] does, and each segment one request. Few
//! segments wait in memory: the next range begins when there is room in the engine. A range is
//! locked from its first segment to its last.
//!
//! A thread that has requests in flight waits for no lock, because whoever holds it may wait for
//! one of these requests. It finishes all of them first.

mod error;
mod pump;

use rustix::io::Errno;

use super::error::FileError;
use super::flow;
use super::handle::File;
use super::segments::{PlannedSegment, RouteAlign, buffer_parts, plan_segments};
use crate::block::{Loans, Mem, scope};
use crate::engine::OpKind;
use crate::geometry::align_up;
use pump::Pump;

pub use error::RangesError;

/// A range to be read.
#[derive(Debug)]
pub struct ReadRange<'a> {
    /// The file.
    pub file: &'a File,
    /// Offset of the first byte.
    pub offset: u64,
    /// Memory for the bytes. Its length is that of the range.
    pub buffer: &'a mut [u8],
}

/// A range to be written.
#[derive(Clone, Copy, Debug)]
pub struct WriteRange<'a> {
    /// The file.
    pub file: &'a File,
    /// Offset of the first byte.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Reads all `ranges`, with `depth` requests in flight. Returns the bytes read of each, which are
/// fewer than asked for only at the end of a file.
///
/// `stopped` is called often, with requests in flight. When it answers true, no further range is
/// begun, and those that are begun are finished: so each call makes progress. However the call
/// ends, nothing is in flight when it returns, and no lock is held.
///
/// ```no_run
/// use dio::File;
/// use dio::file::{ReadRange, read_ranges};
///
/// let (index, data) = (File::open("index")?, File::open("data")?);
/// let (mut head, mut record) = ([0; 64], [0; 1000]);
/// let counts = read_ranges(
///     &mut [
///         ReadRange { file: &index, offset: 0, buffer: &mut head },
///         ReadRange { file: &data, offset: 123_456, buffer: &mut record },
///     ],
///     32,
///     &mut || false,
/// )?;
/// assert_eq!(counts, [64, 1000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`RangesError::Failed`] with the error of a range. Others may have been read.
pub fn read_ranges(
    ranges: &mut [ReadRange<'_>],
    depth: usize,
    stopped: &mut dyn FnMut() -> bool,
) -> Result<Vec<usize>, RangesError> {
    let Some(first) = ranges.first() else { return Ok(Vec::new()) };
    let io = first.file.io.clone();
    let (counts, error) = scope(|loans| {
        let mut pump = Pump::new(io.borrow_driver(), ranges.len(), depth, stopped);
        ranges.iter().for_each(|range| pump.grow(range.file));
        for (index, range) in ranges.iter_mut().enumerate() {
            if pump.is_over() {
                break;
            }
            if let Err(error) = start_read(&mut pump, loans, index, range) {
                pump.fail(index, error);
            }
        }
        pump.finish()
    });
    for (range, count) in ranges.iter_mut().zip(&counts) {
        let Some(count) = count else { continue };
        // The device stores whole blocks. The bytes that it stored behind the end of the file are
        // zeroed.
        let len = range.buffer.len();
        if *count < len {
            let align = range.file.align(range.file.routing(len as u64).route, OpKind::Read).offset;
            let end = range.offset + *count as u64;
            let stored = (align_up(end, align) - range.offset) as usize;
            range.buffer[*count..stored.min(len)].fill(0);
        }
    }
    ended(counts, error)
}

/// The result of a call, with the ranges that are not done if it was stopped.
fn ended(
    counts: Vec<Option<usize>>,
    error: Option<RangesError>,
) -> Result<Vec<usize>, RangesError> {
    match error {
        Some(RangesError::Stopped { .. }) => Err(RangesError::Stopped { done: counts }),
        Some(error) => Err(error),
        None => Ok(counts.into_iter().map(Option::unwrap_or_default).collect()),
    }
}

/// Writes all `ranges`, with `depth` requests in flight. The ranges of one call must not overlap;
/// where they do, any of them may win.
///
/// A file that becomes longer is extended first, by all ranges of whole blocks at once: so they can
/// be written together. Ranges that begin or end within a block are written one after the other,
/// behind the others: see [`File::write_at`].
///
/// # Errors
/// As [`read_ranges`]. The error latches: see [`File`].
pub fn write_ranges(
    ranges: &[WriteRange<'_>],
    depth: usize,
    stopped: &mut dyn FnMut() -> bool,
) -> Result<(), RangesError> {
    let Some(first) = ranges.first() else { return Ok(()) };
    let io = first.file.io.clone();
    let together: Vec<bool> = ranges.iter().map(is_of_whole_blocks).collect();
    extend(ranges, &together)?;
    let mut later: Vec<usize> = (0..ranges.len()).filter(|index| !together[*index]).collect();
    let (mut counts, error) = scope(|loans| {
        let mut pump = Pump::new(io.borrow_driver(), ranges.len(), depth, stopped);
        ranges.iter().for_each(|range| pump.grow(range.file));
        for (index, range) in ranges.iter().enumerate().filter(|(index, _)| together[*index]) {
            if pump.is_over() {
                break;
            }
            match start_write(&mut pump, loans, index, range) {
                Ok(true) => {}
                Ok(false) => later.push(index),
                Err(error) => pump.fail(index, error),
            }
        }
        pump.finish()
    });
    if error.is_some() {
        return ended(counts, error).map(drop);
    }
    for index in later {
        if stopped() {
            let stopped = RangesError::Stopped { done: Vec::new() };
            return ended(counts, Some(stopped)).map(drop);
        }
        let range = &ranges[index];
        let written = range.file.write_at(range.bytes, range.offset);
        written.map_err(|error| RangesError::Failed { index, error })?;
        counts[index] = Some(range.bytes.len());
    }
    Ok(())
}

/// Whether a range can be in flight beside others.
fn is_of_whole_blocks(range: &WriteRange<'_>) -> bool {
    let (file, len) = (range.file, range.bytes.len() as u64);
    let align = file.align(file.routing(len).route, OpKind::Write).offset;
    file.access.writable
        && !file.access.only_appends
        && (range.offset | len) % align == 0
        && range.offset.checked_add(len).is_some_and(|end| end <= i64::MAX as u64)
}

/// Extends files so that no range of whole blocks lies behind the end of its file. Space is
/// allocated for these ranges only.
fn extend(ranges: &[WriteRange<'_>], together: &[bool]) -> Result<(), RangesError> {
    let end_of = |index: usize| ranges[index].offset + ranges[index].bytes.len() as u64;
    let mut longer = Vec::new();
    let mut known: Vec<(*const File, u64)> = Vec::new();
    for (index, range) in ranges.iter().enumerate().filter(|(index, _)| together[*index]) {
        let file: *const File = range.file;
        let size = match known.iter().find(|(known, _)| *known == file) {
            Some((_, size)) => *size,
            None => {
                let size = range.file.size();
                let size = size.map_err(|error| RangesError::Failed { index, error })?;
                known.push((file, size));
                size
            }
        };
        if end_of(index) > size && !range.bytes.is_empty() {
            longer.push(index);
        }
    }
    longer.sort_unstable_by_key(|index| {
        let file: *const File = ranges[*index].file;
        (file, ranges[*index].offset)
    });
    let mut rest = &longer[..];
    while let [first, ..] = rest {
        let (range, mut end) = (&ranges[*first], end_of(*first));
        let joined = |index: &&usize| {
            let joins =
                std::ptr::eq(ranges[**index].file, range.file) && ranges[**index].offset <= end;
            end = if joins { end.max(end_of(**index)) } else { end };
            joins
        };
        let count = rest.iter().take_while(joined).count().max(1);
        let done = match range.file.allocate(range.offset..end, true) {
            Err(error) if error.errno() == Errno::OPNOTSUPP => range.file.set_size(end),
            other => other,
        };
        done.map_err(|error| RangesError::Failed { index: *first, error })?;
        rest = &rest[count..];
    }
    Ok(())
}

/// The segments of a range in one piece of memory.
fn segments(
    file: &File,
    align: RouteAlign,
    offset: u64,
    memory: (usize, usize),
) -> Vec<PlannedSegment> {
    let (zero_copy_max, bounced_max) = flow::segment_bytes_max(file, align);
    if align.fits(offset, memory.0, memory.1) && memory.1 as u64 <= zero_copy_max {
        let range = offset..offset + memory.1 as u64;
        return vec![PlannedSegment { file: range, caller: Some((0, 0)) }];
    }
    let parts = buffer_parts(offset, std::iter::once(memory), align);
    plan_segments(&parts, align, zero_copy_max, bounced_max)
}

/// Begins all segments of a range to be read.
fn start_read<'a, 'env>(
    pump: &mut Pump<'_, 'a, 'env>,
    loans: &Loans<'env>,
    index: usize,
    range: &'env mut ReadRange<'a>,
) -> Result<(), FileError> {
    let (file, offset) = (range.file, range.offset);
    let mut buffer: &'env mut [u8] = &mut *range.buffer;
    let (address, len) = (buffer.as_ptr().addr(), buffer.len());
    if offset.checked_add(len as u64).is_none_or(|end| end > i64::MAX as u64) {
        return Err(file.failed("read", Errno::INVAL).at(offset));
    }
    if len == 0 {
        pump.note_empty(index);
        return Ok(());
    }
    let align = file.align(file.routing(len as u64).route, OpKind::Read);
    let active = pump.begin(OpKind::Read, (index, file, offset), (address, len))?;
    let mut at = offset;
    for segment in segments(file, align, offset, (address, len)) {
        pump.make_room();
        if pump.has_failed() {
            pump.abandon(active);
            return Ok(());
        }
        let covered = (segment.file.end.min(offset + len as u64) - at) as usize;
        let (part, rest) = buffer.split_at_mut(covered);
        buffer = rest;
        let (mem, target) = match segment.caller {
            Some(_) => (Mem::one(loans.lend_mut(part)), None),
            None => {
                let len = (segment.file.end - segment.file.start) as usize;
                let Some(block) = pump.block(file) else {
                    pump.abandon(active);
                    return Ok(());
                };
                (block.into_mem(0..len), Some((at, part)))
            }
        };
        at += covered as u64;
        pump.submit(active, segment.file.start, mem, target);
    }
    pump.end_part(active);
    Ok(())
}

/// Begins all segments of a range of whole blocks to be written. False if it lies behind the end of
/// the file by now.
fn start_write<'a, 'env>(
    pump: &mut Pump<'_, 'a, 'env>,
    loans: &Loans<'env>,
    index: usize,
    range: &WriteRange<'env>,
) -> Result<bool, FileError>
where
    'env: 'a,
{
    let WriteRange { file, offset, bytes } = *range;
    file.latch.check()?;
    if bytes.is_empty() {
        pump.note_empty(index);
        return Ok(true);
    }
    let memory = (bytes.as_ptr().addr(), bytes.len());
    let align = file.align(file.routing(bytes.len() as u64).route, OpKind::Write);
    let active = pump.begin(OpKind::Write, (index, file, offset), memory)?;
    // The size is asked for under the lock, so that nobody cuts the file off in between.
    if offset + bytes.len() as u64 > file.size()? {
        pump.forget(active);
        return Ok(false);
    }
    for segment in segments(file, align, offset, memory) {
        pump.make_room();
        if pump.has_failed() {
            pump.abandon(active);
            return Ok(true);
        }
        let part = &bytes[(segment.file.start - offset) as usize..]
            [..(segment.file.end - segment.file.start) as usize];
        let mem = match segment.caller {
            Some(_) => Mem::one(loans.lend(part)),
            None => {
                let Some(mut block) = pump.block(file) else {
                    pump.abandon(active);
                    return Ok(true);
                };
                block.copy_in(0, part);
                block.into_mem(0..part.len())
            }
        };
        pump.submit(active, segment.file.start, mem, None);
    }
    pump.end_part(active);
    Ok(true)
}
