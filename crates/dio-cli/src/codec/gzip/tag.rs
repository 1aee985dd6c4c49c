//! The tag that precedes each piece of a member: the size of the piece and its check value, in a
//! deflate block without contents.
//!
//! The block is an ordinary one with Huffman codes of its own (RFC 1951 section 3.2.7), and it uses
//! only the code for its end. The other codes do not matter to a decoder, so they carry the tag.
//! For each of 127 bits, one of two literals has a code: the first for 0, the second for 1.
//! Together with the code for the end these are 128 codes of 7 bits, a complete set. There are two
//! distance codes, because some decoders require as many. The lengths of all codes are fixed, so a
//! tag always has 472 bits, which are whole bytes, and each of its bits has a fixed offset:
//!
//! | bits | |
//! |---|---|
//! | 17 | not the last block, with codes of its own: 262 for literals and lengths, 2 for distances, 18 for lengths |
//! | 54 | the code for lengths: `0` for no code, `10` for 1 bit, `11` for 7 bits |
//! | 127 × 3 | `110` for a bit 0, `011` for a bit 1: lengths of the literals 0 to 253 |
//! | 20 | the literals 254 and 255, the end, five lengths without a code, two distances; the code of the end |
//!
//! The 127 bits are the check value of all contents of the member up to the end of the piece (32
//! bits), the compressed size of the piece (24) and the length of its contents (24) in bytes, a
//! flag for the last piece (1), and 46 fixed bits.

/// Bytes of a tag.
pub(super) const TAG_LEN: usize = 59;

/// The largest size of a piece, compressed or not, that a tag can hold.
pub(super) const LENGTH_MAX: usize = (1 << 24) - 1;

/// The first bit of the payload.
const PAYLOAD_AT: usize = 71;
const PAYLOAD_BITS: usize = 127;

/// The fixed bits of the payload, which a later version may change: `dio` and a 1.
const SIGN: u128 = 0x6f_6964 | 1 << 24;
const SIGN_AT: usize = 81;

/// The fixed bits before the payload.
const HEAD: [u8; 8] = tag_head();

/// The fields of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TagFields {
    /// The CRC-32 of all contents of the member up to the end of the piece.
    pub(super) crc: u32,
    /// Bytes of the compressed piece, without the tag.
    pub(super) size: usize,
    /// Bytes of its contents.
    pub(super) length: usize,
    /// The member's trailer follows; otherwise another tag follows.
    pub(super) is_last: bool,
}

/// Bits in the order of a deflate stream.
struct BitWriter {
    bytes: [u8; TAG_LEN],
    at: usize,
}

impl BitWriter {
    /// Appends the low `count` bits of a number, the lowest first.
    const fn number(mut self, value: u32, count: usize) -> BitWriter {
        let mut bit = 0;
        while bit < count {
            self.bytes[self.at / 8] |= ((value >> bit & 1) as u8) << (self.at % 8);
            self.at += 1;
            bit += 1;
        }
        self
    }
}

/// The fixed bits at the beginning.
const fn head() -> BitWriter {
    let mut bits = BitWriter { bytes: [0; TAG_LEN], at: 0 };
    bits = bits.number(0b100, 3).number(262 - 257, 5).number(2 - 1, 5).number(18 - 4, 4);
    // The order is 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1.
    bits = bits.number(0, 9).number(1, 3).number(0, 3).number(2, 3);
    bits.number(0, 18).number(0, 15).number(2, 3)
}

const fn tag_head() -> [u8; 8] {
    let BitWriter { bytes, at } = head();
    assert!(at == PAYLOAD_AT);
    let mut first = [0; 8];
    let mut index = 0;
    while index < first.len() {
        first[index] = bytes[index];
        index += 1;
    }
    first
}

impl TagFields {
    /// Returns the bytes of the tag, which go before the piece.
    pub(super) fn bytes(&self) -> [u8; TAG_LEN] {
        debug_assert!(self.size.max(self.length) <= LENGTH_MAX);
        let payload = u128::from(self.crc)
            | (self.size as u128) << 32
            | (self.length as u128) << 56
            | u128::from(self.is_last) << 80
            | SIGN << SIGN_AT;
        let mut bits = head();
        for bit in 0..PAYLOAD_BITS {
            // The bits are in the order in which they are read. A literal without a code is a 0;
            // one with a code of 7 bits is two 1s.
            bits = bits.number(if payload >> bit & 1 == 0 { 0b011 } else { 0b110 }, 3);
        }
        // The literals 254 and 255; the end; 257 to 261; the two distances; the highest code of 7
        // bits.
        bits = bits.number(0, 2).number(0b11, 2).number(0, 5).number(0b0101, 4).number(0x7f, 7);
        debug_assert_eq!(bits.at, TAG_LEN * 8);
        bits.bytes
    }

    /// Returns how many more bytes are needed to tell whether these bytes begin a tag; `None` if
    /// they do not.
    pub(super) fn wanted(bytes: &[u8]) -> Option<usize> {
        let known = bytes.len().min(HEAD.len());
        let wanted = match known {
            0 => 1,
            _ if known < HEAD.len() => HEAD.len(),
            _ => TAG_LEN,
        };
        (bytes[..known] == HEAD[..known]).then_some(wanted.saturating_sub(bytes.len()))
    }

    /// Reads a tag; `None` if the bytes are not one.
    pub(super) fn parse(bytes: &[u8; TAG_LEN]) -> Option<TagFields> {
        let mut payload = 0u128;
        for bit in 0..PAYLOAD_BITS {
            // The second of the three bits is 1 in both cases.
            let at = PAYLOAD_AT + 3 * bit + 2;
            payload |= u128::from(bytes[at / 8] >> (at % 8) & 1) << bit;
        }
        let number = |at: u32| (payload >> at) as usize & LENGTH_MAX;
        let tag = TagFields {
            crc: payload as u32,
            size: number(32),
            length: number(56),
            is_last: payload >> 80 & 1 == 1,
        };
        (tag.bytes() == *bytes).then_some(tag)
    }
}

#[cfg(test)]
mod tests {
    use dio_test::Soak;
    use zlib_rs::{Inflate, InflateFlush, Status};

    use super::super::walk::Walker;
    use super::*;

    #[test]
    fn soak_tags_are_read_as_written_and_are_blocks_without_contents() {
        for seed in Soak::of(300) {
            let mut rng = seed.rng();
            let tag = TagFields {
                crc: rng.range(0..1 << 32) as u32,
                size: rng.range_usize(0..LENGTH_MAX + 1),
                length: rng.range_usize(0..LENGTH_MAX + 1),
                is_last: rng.bool(0.5),
            };
            let bytes = tag.bytes();
            assert_eq!(TagFields::parse(&bytes), Some(tag));
            assert_eq!(
                (TagFields::wanted(&[]), TagFields::wanted(&bytes[..1])),
                (Some(1), Some(7))
            );
            assert_eq!(
                (TagFields::wanted(&bytes[..9]), TagFields::wanted(&bytes)),
                (Some(50), Some(0))
            );

            let stream = [&bytes[..], &[1, 2, 0, 0xfd, 0xff, b'o', b'k']].concat();
            let (mut inflate, mut out) = (Inflate::new(false, 15), [0; 10]);
            assert_eq!(
                inflate.decompress(&stream, &mut out, InflateFlush::NoFlush),
                Ok(Status::StreamEnd)
            );
            assert_eq!((inflate.total_out(), &out[..2]), (2, &b"ok"[..]));
            assert_eq!(
                libdeflater::Decompressor::new().deflate_decompress(&stream, &mut out),
                Ok(2)
            );
            assert_eq!(Walker::new().last(&stream).map(|last| last.start_bit), Some(TAG_LEN * 8));

            let mut changed = bytes;
            changed[rng.range_usize(0..TAG_LEN)] ^= 1 << rng.range(0..8);
            assert_eq!(TagFields::parse(&changed), None);
        }
    }
}
