//! A prefix: 64 bits that hold as much as possible of a line's place in the order.
//!
//! Keys are written one after the other, each in a code that preserves the order. No code is the
//! beginning of another one. Writing stops when the bits are full or a key could not be written
//! completely.

/// Bits that are filled from the top.
#[derive(Debug)]
pub(super) struct PrefixBits {
    value: u64,
    left: u32,
}

impl PrefixBits {
    pub(super) fn new() -> PrefixBits {
        PrefixBits { value: 0, left: 64 }
    }

    /// The bits written so far, followed by zeros.
    pub(super) fn value(&self) -> u64 {
        self.value
    }

    /// Adds the low `width` bits of `code`, inverted if `reverse`. Drops bits that do not fit;
    /// returns whether all fit.
    #[inline]
    pub(super) fn put(&mut self, code: u64, width: u32, reverse: bool) -> bool {
        if width == 0 {
            return true;
        }
        let code = (if reverse { !code } else { code }) << (64 - width);
        if self.left > 0 {
            self.value |= code >> (64 - self.left);
        }
        let room = self.left >= width;
        self.left = self.left.saturating_sub(width);
        room
    }

    /// Adds a text: each byte unchanged, and a zero at the end. The bytes 0 and 1 are both written
    /// as a byte 1 and one bit that tells them apart. Returns whether the end fits.
    #[inline]
    pub(super) fn put_text(&mut self, text: &[u8], reverse: bool) -> bool {
        if let Some(first) = text.first_chunk::<8>() {
            let first = u64::from_be_bytes(*first);
            if !holds_below_two(first) {
                self.put(first, 64, reverse);
                return false;
            }
        } else {
            let mut first = 0;
            text.iter().for_each(|byte| first = first << 8 | u64::from(*byte));
            let used = 8 * text.len() as u32;
            // The ones in front never count as a byte below two.
            if !holds_below_two(if used == 0 { u64::MAX } else { first | u64::MAX << used }) {
                return self.put(first << 8, used + 8, reverse);
            }
        }
        self.put_odd(text, reverse)
    }

    fn put_odd(&mut self, text: &[u8], reverse: bool) -> bool {
        for byte in text {
            let room = match byte {
                0 | 1 => self.put(0b10 | u64::from(*byte), 9, reverse),
                _ => self.put(u64::from(*byte), 8, reverse),
            };
            if !room {
                return false;
            }
        }
        self.put(0, 8, reverse)
    }
}

/// Returns whether any of eight bytes is 0 or 1.
#[inline]
fn holds_below_two(bytes: u64) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    bytes.wrapping_sub(ONES * 2) & !bytes & (ONES << 7) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(a: &[u8], b: &[u8], reverse: bool) -> u64 {
        let mut bits = PrefixBits::new();
        if bits.put_text(a, reverse) {
            bits.put_text(b, reverse);
        }
        bits.value()
    }

    #[test]
    fn texts_keep_their_order() {
        let all: Vec<Vec<u8>> = [
            "",
            "a",
            "ab",
            "b",
            "a\0",
            "a\x01",
            "a\0\0",
            "\0",
            "\x01",
            "\x02",
            "abcdefgh",
            "abcdefghi",
        ]
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .chain([vec![0xff; 3], vec![0xff; 9], vec![0; 9], vec![1; 7]])
        .collect();
        for (a, b) in all.iter().flat_map(|a| all.iter().map(move |b| (a, b))) {
            for (c, d) in all.iter().flat_map(|c| all.iter().map(move |d| (c, d))) {
                let (one, other) = ((a, c), (b, d));
                let (x, y) = (texts(a, c, false), texts(b, d, false));
                assert!(x == y || x.cmp(&y) == one.cmp(&other), "{one:?} {x:x} {other:?} {y:x}");
                let (x, y) = (texts(a, c, true), texts(b, d, true));
                assert!(
                    x == y || x.cmp(&y) == other.cmp(&one),
                    "{one:?} {x:x} {other:?} {y:x} reversed"
                );
            }
        }
        assert_ne!(texts(b"ab", b"c", false), texts(b"ab", b"d", false));
    }

    #[test]
    fn codes_are_cut_at_the_end() {
        let mut bits = PrefixBits::new();
        assert!(bits.put(1, 60, false));
        assert!(!bits.put(0b10_1111, 6, false));
        assert_eq!(bits.value(), 0b1_1011);
        assert!(!bits.put(1, 1, false));
        let mut bits = PrefixBits::new();
        assert!(bits.put(0, 64, true));
        assert_eq!(bits.value(), u64::MAX);
    }
}
