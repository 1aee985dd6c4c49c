//! Bytes on their way from a source to a sink.

use std::ops::{Deref, Range};

use crate::block::{Block, Segment};

/// Bytes of a stream, in a block of aligned memory that they own, so that bytes read can be written
/// without copying.
///
/// The block goes back to its stream when the chunk is dropped. A stream can be read while a few
/// chunks are held; see [`super::ReadAhead::lent`].
#[derive(Debug)]
pub struct Chunk {
    block: Block,
    range: Range<usize>,
}

impl Chunk {
    /// The bytes `range` of a block.
    ///
    /// # Panics
    /// When the block does not hold them.
    pub(crate) fn new(block: Block, range: Range<usize>) -> Chunk {
        assert!(
            range.start <= range.end && range.end <= block.filled().len(),
            "{range:?} is not filled in {block:?}"
        );
        Chunk { block, range }
    }

    /// A chunk of all bytes that the caller has put into a block.
    pub fn of(block: Block) -> Chunk {
        let all = 0..block.filled().len();
        Chunk { block, range: all }
    }

    /// Leaves out the first `count` bytes.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.range.len(), "{count} bytes of {}", self.range.len());
        self.range.start += count;
    }

    /// Leaves out all but the first `count` bytes. Without effect if there are fewer.
    pub fn truncate(&mut self, count: usize) {
        self.range.end = self.range.end.min(self.range.start.saturating_add(count));
    }

    /// Offset of the first byte in its block. If it is a multiple of the alignment, the chunk can
    /// be written without copying.
    pub(super) fn start(&self) -> usize {
        self.range.start
    }

    /// The first `count` bytes, as memory for one operation.
    pub(super) fn into_segment(self, count: usize) -> Segment {
        assert!(count <= self.range.len());
        self.block.into_segment(self.range.start..self.range.start + count)
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.block.filled()[self.range.clone()]
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
