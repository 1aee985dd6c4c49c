//! Cuts ranges into blocks.

use std::ops::Range;

/// The blocks of some ranges, in order, each of at most `block` bytes.
pub(super) struct BlockRanges<'a> {
    ranges: std::slice::Iter<'a, Range<u64>>,
    current: Range<u64>,
    block: u64,
}

impl<'a> BlockRanges<'a> {
    pub(super) fn new(ranges: &'a [Range<u64>], block: u64) -> BlockRanges<'a> {
        assert!(block > 0, "a block smaller than the alignment cannot be transferred");
        BlockRanges { ranges: ranges.iter(), current: 0..0, block }
    }

    /// The next block, without advancing.
    pub(super) fn peek(&mut self) -> Option<Range<u64>> {
        while self.current.is_empty() {
            self.current = self.ranges.next()?.clone();
        }
        Some(self.current.start..self.current.end.min(self.current.start + self.block))
    }
}

impl Iterator for BlockRanges<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        let next = self.peek()?;
        self.current.start = next.end;
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_the_ranges_in_order() {
        let ranges = [0..10, 12..12, 20..21];
        assert_eq!(BlockRanges::new(&ranges, 4).collect::<Vec<_>>(), [0..4, 4..8, 8..10, 20..21]);
    }
}
