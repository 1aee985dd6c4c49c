//! Bytes whose values depend on their offset and on the write that stored them.

/// The byte at `offset` of the write `tag`. Its value depends on both.
pub fn byte_of(tag: u64, offset: u64) -> u8 {
    let mixed = (tag.wrapping_mul(0x9e37_79b9) ^ offset).wrapping_mul(0xff51_afd7_ed55_8ccd);
    // Never zero, because holes read as zeros.
    (mixed >> 40) as u8 | 1
}

/// Fills a buffer with the bytes that a write of `tag` at `offset` stores.
pub fn fill(buffer: &mut [u8], tag: u64, offset: u64) {
    for (byte, at) in buffer.iter_mut().zip(offset..) {
        *byte = byte_of(tag, at);
    }
}

/// The index of the first difference between two slices of equal length.
pub fn first_difference_of_bytes(a: &[u8], b: &[u8]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b)
}
