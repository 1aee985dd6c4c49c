//! Splitting a request: which parts of the caller's memory go to the device as they are, and which through blocks of
//! ours. Pure arithmetic.

use std::ops::Range;

use crate::geometry::{align_down, align_up};

/// What one route demands, in bytes; 1 and 1 on the buffered route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Align {
    pub(crate) offset: u64,
    pub(crate) memory: u64,
    /// Multiple of `offset` at which a disk is faster: the file system's block.
    pub(crate) block: u64,
}

impl Align {
    pub(crate) const NONE: Align = Align { offset: 1, memory: 1, block: 1 };

    /// Whether a request of one buffer can go as it is.
    pub(crate) fn fits(&self, offset: u64, address: usize, len: usize) -> bool {
        (offset | len as u64) & (self.offset - 1) == 0 && address as u64 & (self.memory - 1) == 0
    }
}

/// A part of one of the caller's buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Which buffer.
    pub(crate) buffer: usize,
    /// Which bytes of it.
    pub(crate) bytes: Range<usize>,
    /// Where they belong in the file.
    pub(crate) at: u64,
    /// Whether they go as they are. Invariant: such a part starts and ends at aligned offsets, in aligned memory.
    pub(crate) straight: bool,
}

/// A stretch of the file that is contiguous in memory. Invariant: starts and ends at aligned offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) file: Range<u64>,
    /// The caller's buffer and the place in it; `None` for a block of ours.
    pub(crate) straight: Option<(usize, usize)>,
}

/// Cuts buffers, given as address and length, that follow each other in the file from `offset`.
pub(crate) fn parts(offset: u64, buffers: impl Iterator<Item = (usize, usize)>, align: Align) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut at = offset;
    for (buffer, (address, len)) in buffers.enumerate() {
        let core = straight_core(at, address, len, align);
        for (bytes, straight) in [(0..core.start, false), (core.clone(), true), (core.end..len, false)] {
            if !bytes.is_empty() {
                let at = at + bytes.start as u64;
                parts.push(Part { buffer, bytes, at, straight });
            }
        }
        at += len as u64;
    }
    parts
}

/// Blocks from which on the ends of a request are few.
const MANY: u64 = 16;

/// The bytes of one buffer that can go as they are; `len..len` when none can.
fn straight_core(at: u64, address: usize, len: usize, align: Align) -> Range<usize> {
    // Where something has to be copied anyway, a little more is: a disk that has to move parts of its blocks takes a tenth longer
    // for all of it.
    let large = len as u64 >= MANY * align.block;
    let unit = |edge: u64| if large && edge % align.offset != 0 { align.block } else { align.offset };
    let start = (align_up(at, unit(at)) - at) as usize;
    let after = at + len as u64;
    let end = align_down(after, unit(after)).saturating_sub(at) as usize;
    if start < end && (address + start) as u64 % align.memory == 0 { start..end } else { len..len }
}

/// The contiguous stretches that cover the parts, in file order, none longer than `most_straight` or `most_bounced`
/// (multiples of the alignment). Neighbouring bounced parts share a stretch.
pub(crate) fn stretches(parts: &[Part], align: Align, most_straight: u64, most_bounced: u64) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    let mut bounced: Option<Range<u64>> = None;
    for part in parts {
        let file = part.at..part.at + part.bytes.len() as u64;
        if part.straight {
            cut(&mut stretches, bounced.take(), most_bounced, None);
            cut(&mut stretches, Some(file), most_straight, Some((part.buffer, part.bytes.start)));
        } else {
            let (start, end) = (align_down(file.start, align.offset), align_up(file.end, align.offset));
            bounced = Some(bounced.map_or(start, |before| before.start)..end);
        }
    }
    cut(&mut stretches, bounced, most_bounced, None);
    stretches
}

fn cut(stretches: &mut Vec<Stretch>, file: Option<Range<u64>>, most: u64, straight: Option<(usize, usize)>) {
    let Some(file) = file else { return };
    let mut start = file.start;
    while start < file.end {
        let end = file.end.min(start + most);
        let straight = straight.map(|(buffer, place)| (buffer, place + (start - file.start) as usize));
        stretches.push(Stretch { file: start..end, straight });
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALIGN: Align = Align { offset: 512, memory: 512, block: 512 };

    fn laid_out(offset: u64, buffers: &[(usize, usize)], align: Align) -> (Vec<Part>, Vec<Stretch>) {
        let parts = parts(offset, buffers.iter().copied(), align);
        let stretches = stretches(&parts, align, 4096, 1024);
        (parts, stretches)
    }

    #[test]
    fn an_aligned_request_goes_as_it_is() {
        let (parts, stretches) = laid_out(512, &[(4096, 8192)], ALIGN);
        assert_eq!(parts, [Part { buffer: 0, bytes: 0..8192, at: 512, straight: true }]);
        assert_eq!(stretches.len(), 2);
        assert_eq!(stretches[1], Stretch { file: 4608..8704, straight: Some((0, 4096)) });
    }

    #[test]
    fn head_and_tail_are_bounced() {
        let (_, stretches) = laid_out(100, &[(4096 + 100, 2000)], ALIGN);
        let cover: Vec<_> = stretches.iter().map(|s| (s.file.clone(), s.straight)).collect();
        assert_eq!(cover, [(0..512, None), (512..2048, Some((0, 412))), (2048..2560, None)]);
    }

    #[test]
    fn misaligned_memory_is_bounced_whole() {
        let (_, stretches) = laid_out(0, &[(4097, 1024)], ALIGN);
        assert_eq!(stretches, [Stretch { file: 0..1024, straight: None }]);
    }

    #[test]
    fn what_is_large_and_starts_off_a_block_goes_straight_from_the_next_block() {
        let align = Align { offset: 512, memory: 512, block: 4096 };
        let (parts, _) = laid_out(100, &[(4096 + 100, 100_000)], align);
        let cover: Vec<_> = parts.iter().map(|part| (part.at, part.straight)).collect();
        assert_eq!(cover, [(100, false), (4096, true), (98_304, false)]);
        // A small request is not copied more than it must be.
        let (parts, _) = laid_out(100, &[(4096 + 100, 9000)], align);
        assert_eq!(parts[1].at, 512);
        // An end that is aligned has nothing to copy.
        let (_, stretches) = laid_out(512, &[(4096 + 512, 102_400)], align);
        assert!(stretches.iter().all(|stretch| stretch.straight.is_some()));
    }

    proptest! {
        #[test]
        fn stretches_cover_the_request_once_and_stay_aligned(
            offset in 0u64..5000,
            buffers in prop::collection::vec((0usize..9000, 0usize..6000), 1..8),
            shift in 0u32..4,
            block in 0u32..5,
        ) {
            let align = Align { offset: 512 << shift, memory: 512, block: 512 << shift.max(block) };
            let parts = parts(offset, buffers.iter().copied(), align);
            let mut at = offset;
            for part in &parts {
                prop_assert_eq!(part.at, at);
                at += part.bytes.len() as u64;
            }
            prop_assert_eq!(at, offset + buffers.iter().map(|(_, len)| *len as u64).sum::<u64>());
            let stretches = stretches(&parts, align, 8192, 4096);
            if at > offset {
                prop_assert_eq!(stretches[0].file.start, align_down(offset, align.offset));
                prop_assert_eq!(stretches.last().unwrap().file.end, align_up(at, align.offset));
            }
            for pair in stretches.windows(2) {
                prop_assert_eq!(pair[0].file.end, pair[1].file.start);
            }
            for stretch in &stretches {
                prop_assert_eq!(stretch.file.start % align.offset, 0);
                prop_assert_eq!(stretch.file.end % align.offset, 0);
                if let Some((buffer, place)) = stretch.straight {
                    prop_assert_eq!((buffers[buffer].0 + place) % align.memory as usize, 0);
                }
            }
        }
    }
}
