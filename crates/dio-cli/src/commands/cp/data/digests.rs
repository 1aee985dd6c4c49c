//! Digests of blocks, used to compare what was written with what was read.

use std::ops::Range;

use dio::transfer::Watch;

/// The digests of the blocks of a file, in the order in which they were read.
#[derive(Debug, Default)]
pub(super) struct Digests {
    blocks: Vec<(u64, blake3::Hash)>,
    /// The transferred ranges. Both sides cut their blocks from these ranges in the same way.
    pub(super) ranges: Vec<Range<u64>>,
}

impl Digests {
    /// Adds a block.
    pub(super) fn add(&mut self, offset: u64, bytes: &[u8]) {
        self.blocks.push((offset, blake3::hash(bytes)));
    }

    /// Returns the offset of the first block that differs.
    pub(super) fn first_difference(mut self, mut other: Digests) -> Option<u64> {
        self.blocks.sort_unstable_by_key(|(offset, _)| *offset);
        other.blocks.sort_unstable_by_key(|(offset, _)| *offset);
        let (ours, theirs) = (&self.blocks, &other.blocks);
        let place =
            (0..ours.len().max(theirs.len())).find(|at| ours.get(*at) != theirs.get(*at))?;
        ours.get(place).or(theirs.get(place)).map(|(offset, _)| *offset)
    }
}

impl Watch for Digests {
    fn read(&mut self, offset: u64, bytes: &[u8]) {
        self.add(offset, bytes);
    }
}
