//! Bytes that tell where they are and which write they came from.

/// A byte that tells where it is and which write it came from.
pub fn byte_of(tag: u64, offset: u64) -> u8 {
    let mixed = (tag.wrapping_mul(0x9e37_79b9) ^ offset).wrapping_mul(0xff51_afd7_ed55_8ccd);
    // Never zero, which is what holes read as.
    (mixed >> 40) as u8 | 1
}

/// Fills a buffer with what a write of `tag` at `offset` stores.
pub fn fill(buffer: &mut [u8], tag: u64, offset: u64) {
    for (byte, at) in buffer.iter_mut().zip(offset..) {
        *byte = byte_of(tag, at);
    }
}

/// The first place where two equally long slices differ.
pub fn first_difference_of_bytes(a: &[u8], b: &[u8]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b)
}
