//! The memory in which records gather until they are written.

use dio::block::Block;

/// Consecutive bytes of the log. They lie within one segment and begin at the start of a block.
pub(crate) struct LogBuffer {
    /// The bytes so far.
    pub(crate) block: Block,
    /// LSN of the first byte.
    pub(crate) start: u64,
    /// Capacity of the buffer in bytes. The memory of `block` may be larger.
    pub(crate) bytes_max: usize,
    /// The buffer is a single block that was written before and holds durable records, so its write
    /// must be atomic.
    pub(crate) rewrite: bool,
    /// How many zeros are written behind the bytes.
    pub(crate) zeros: usize,
}

impl LogBuffer {
    /// LSN behind the bytes and the zeros.
    pub(crate) fn end(&self) -> u64 {
        self.start + (self.block.filled().len() + self.zeros) as u64
    }

    /// Whether the buffer takes no more bytes.
    pub(crate) fn is_full(&self) -> bool {
        self.block.filled().len() == self.bytes_max
    }
}
