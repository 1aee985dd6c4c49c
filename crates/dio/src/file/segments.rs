//! Splits a request: some parts of the caller's memory go to the device without copying, the others
//! are bounced through blocks. This module does arithmetic only.

use std::ops::Range;

use crate::geometry::{align_down, align_up};

/// The alignment that a route demands, in bytes. On the buffered route everything is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteAlign {
    pub(crate) offset: u64,
    pub(crate) memory: u64,
    /// The file system's block, a multiple of `offset`. Disks are faster if requests begin at it.
    pub(crate) block: u64,
}

impl RouteAlign {
    pub(crate) const NONE: RouteAlign = RouteAlign { offset: 1, memory: 1, block: 1 };

    /// Whether a request of one buffer needs no copying.
    pub(crate) fn fits(&self, offset: u64, address: usize, len: usize) -> bool {
        (offset | len as u64) & (self.offset - 1) == 0 && address as u64 & (self.memory - 1) == 0
    }
}

/// A part of one of the caller's buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BufferPart {
    /// Index of the buffer.
    pub(crate) buffer: usize,
    /// The bytes of the buffer.
    pub(crate) bytes: Range<usize>,
    /// File offset of the first byte.
    pub(crate) at: u64,
    /// Whether the device accesses this memory itself. Invariant: such a part starts and ends at
    /// aligned offsets, in aligned memory.
    pub(crate) zero_copy: bool,
}

/// A range of the file that becomes one memory segment of a request. Invariant: starts and ends at
/// aligned offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedSegment {
    pub(crate) file: Range<u64>,
    /// Index of the caller's buffer and the offset in it. `None` for a bounced segment.
    pub(crate) caller: Option<(usize, usize)>,
}

/// Cuts buffers, given as address and length, into parts. The buffers follow each other in the file
/// from `offset` on.
///
/// Example: one buffer of 2000 bytes at address 4196, for file offset 100, all alignments 512. The
/// first aligned offset is 512: byte 412 of the buffer, at address 4608 = 9 · 512. The last aligned
/// offset is 2048: byte 1948. So the parts are bytes 0..412 (bounced), 412..1948 (zero-copy) and
/// 1948..2000 (bounced).
pub(crate) fn buffer_parts(
    offset: u64,
    buffers: impl Iterator<Item = (usize, usize)>,
    align: RouteAlign,
) -> Vec<BufferPart> {
    let mut parts = Vec::new();
    let mut at = offset;
    for (buffer, (address, len)) in buffers.enumerate() {
        let core = zero_copy_core(at, address, len, align);
        for (bytes, zero_copy) in
            [(0..core.start, false), (core.clone(), true), (core.end..len, false)]
        {
            if !bytes.is_empty() {
                let at = at + bytes.start as u64;
                parts.push(BufferPart { buffer, bytes, at, zero_copy });
            }
        }
        at += len as u64;
    }
    parts
}

/// A request of so many blocks or more is large: copying a block more at its ends costs little.
const LARGE_REQUEST_BLOCKS: u64 = 16;

/// The bytes of one buffer that need no copying; `len..len` if there are none.
fn zero_copy_core(at: u64, address: usize, len: usize, align: RouteAlign) -> Range<usize> {
    // If a large request has to be bounced at an end anyway, a little more is copied, so that the
    // rest begins with a block of the file system. A disk that must move parts of its blocks takes
    // a tenth longer for all of them.
    let large = len as u64 >= LARGE_REQUEST_BLOCKS * align.block;
    let unit =
        |edge: u64| if large && edge % align.offset != 0 { align.block } else { align.offset };
    let start = (align_up(at, unit(at)) - at) as usize;
    let after = at + len as u64;
    let end = align_down(after, unit(after)).saturating_sub(at) as usize;
    if start < end && (address + start) as u64 % align.memory == 0 { start..end } else { len..len }
}

/// The segments that cover the parts, in file order. None is longer than `zero_copy_max` or
/// `bounced_max` bytes, which are multiples of the alignment. Neighbouring bounced parts share a
/// segment.
///
/// Example: the parts above give the segments 0..512 (bounced), 512..2048 (zero-copy, from byte 412
/// of buffer 0) and 2048..2560 (bounced), if no limit is smaller.
pub(crate) fn plan_segments(
    parts: &[BufferPart],
    align: RouteAlign,
    zero_copy_max: u64,
    bounced_max: u64,
) -> Vec<PlannedSegment> {
    let mut planned = Vec::new();
    let mut bounced: Option<Range<u64>> = None;
    for part in parts {
        let file = part.at..part.at + part.bytes.len() as u64;
        if part.zero_copy {
            cut(&mut planned, bounced.take(), bounced_max, None);
            cut(&mut planned, Some(file), zero_copy_max, Some((part.buffer, part.bytes.start)));
        } else {
            let (start, end) =
                (align_down(file.start, align.offset), align_up(file.end, align.offset));
            bounced = Some(bounced.map_or(start, |before| before.start)..end);
        }
    }
    cut(&mut planned, bounced, bounced_max, None);
    planned
}

fn cut(
    planned: &mut Vec<PlannedSegment>,
    file: Option<Range<u64>>,
    bytes_max: u64,
    caller: Option<(usize, usize)>,
) {
    let Some(file) = file else { return };
    let mut start = file.start;
    while start < file.end {
        let end = file.end.min(start + bytes_max);
        let caller = caller.map(|(buffer, start_in_buffer)| {
            (buffer, start_in_buffer + (start - file.start) as usize)
        });
        planned.push(PlannedSegment { file: start..end, caller });
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALIGN: RouteAlign = RouteAlign { offset: 512, memory: 512, block: 512 };

    fn laid_out(
        offset: u64,
        buffers: &[(usize, usize)],
        align: RouteAlign,
    ) -> (Vec<BufferPart>, Vec<PlannedSegment>) {
        let parts = buffer_parts(offset, buffers.iter().copied(), align);
        let planned = plan_segments(&parts, align, 4096, 1024);
        (parts, planned)
    }

    #[test]
    fn an_aligned_request_goes_as_it_is() {
        let (parts, planned) = laid_out(512, &[(4096, 8192)], ALIGN);
        assert_eq!(parts, [BufferPart { buffer: 0, bytes: 0..8192, at: 512, zero_copy: true }]);
        assert_eq!(planned.len(), 2);
        assert_eq!(planned[1], PlannedSegment { file: 4608..8704, caller: Some((0, 4096)) });
    }

    #[test]
    fn head_and_tail_are_bounced() {
        let (_, planned) = laid_out(100, &[(4096 + 100, 2000)], ALIGN);
        let cover: Vec<_> = planned.iter().map(|s| (s.file.clone(), s.caller)).collect();
        assert_eq!(cover, [(0..512, None), (512..2048, Some((0, 412))), (2048..2560, None)]);
    }

    #[test]
    fn misaligned_memory_is_bounced_whole() {
        let (_, planned) = laid_out(0, &[(4097, 1024)], ALIGN);
        assert_eq!(planned, [PlannedSegment { file: 0..1024, caller: None }]);
    }

    #[test]
    fn what_is_large_and_starts_off_a_block_goes_straight_from_the_next_block() {
        let align = RouteAlign { offset: 512, memory: 512, block: 4096 };
        let (parts, _) = laid_out(100, &[(4096 + 100, 100_000)], align);
        let cover: Vec<_> = parts.iter().map(|part| (part.at, part.zero_copy)).collect();
        assert_eq!(cover, [(100, false), (4096, true), (98_304, false)]);
        // A small request is not copied more than it must be.
        let (parts, _) = laid_out(100, &[(4096 + 100, 9000)], align);
        assert_eq!(parts[1].at, 512);
        // Nothing is copied at an end that is aligned.
        let (_, planned) = laid_out(512, &[(4096 + 512, 102_400)], align);
        assert!(planned.iter().all(|segment| segment.caller.is_some()));
    }

    proptest! {
        #[test]
        fn stretches_cover_the_request_once_and_stay_aligned(
            offset in 0u64..5000,
            buffers in prop::collection::vec((0usize..9000, 0usize..6000), 1..8),
            shift in 0u32..4,
            block in 0u32..5,
        ) {
            let align =
                RouteAlign { offset: 512 << shift, memory: 512, block: 512 << shift.max(block) };
            let parts = buffer_parts(offset, buffers.iter().copied(), align);
            let mut at = offset;
            for part in &parts {
                prop_assert_eq!(part.at, at);
                at += part.bytes.len() as u64;
            }
            prop_assert_eq!(at, offset + buffers.iter().map(|(_, len)| *len as u64).sum::<u64>());
            let planned = plan_segments(&parts, align, 8192, 4096);
            if at > offset {
                prop_assert_eq!(planned[0].file.start, align_down(offset, align.offset));
                prop_assert_eq!(planned.last().unwrap().file.end, align_up(at, align.offset));
            }
            for pair in planned.windows(2) {
                prop_assert_eq!(pair[0].file.end, pair[1].file.start);
            }
            for segment in &planned {
                prop_assert_eq!(segment.file.start % align.offset, 0);
                prop_assert_eq!(segment.file.end % align.offset, 0);
                if let Some((buffer, start_in_buffer)) = segment.caller {
                    prop_assert_eq!(
                        (buffers[buffer].0 + start_in_buffer) % align.memory as usize, 0
                    );
                }
            }
        }
    }
}
