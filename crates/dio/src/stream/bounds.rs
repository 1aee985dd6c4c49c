//! Bounds on what a stream keeps in memory.

/// Largest block of a stream, in bytes.
pub(super) const BLOCK_BYTES_MAX: usize = 1 << 40;

/// Most bytes that are read ahead of a striped file, or written behind to one, by default.
pub(super) const STRIPED_BYTES_MAX: usize = 64 << 20;

/// Most blocks of a stream.
pub(super) const BLOCKS_MAX: usize = 1 << 16;
