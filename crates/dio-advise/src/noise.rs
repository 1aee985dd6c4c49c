//! Bytes without patterns, and numbers.

/// A generator of numbers that look random: xorshift64* (Vigna 2016).
#[derive(Clone, Debug)]
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Noise {
        Noise(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// Bytes that no file system and no disk makes smaller; their number is rounded up to a multiple of
/// 8.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut noise = Noise::new(0x9e37_79b9_7f4a_7c15);
    (0..length.div_ceil(8)).flat_map(|_| noise.next().to_le_bytes()).collect()
}
