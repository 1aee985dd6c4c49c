//! The header of a segment.

use super::bytes::{u32_at, u64_at};
use super::fault::HeaderFault;
use super::identity::Identity;
use super::layout::Layout;

/// The first bytes of every segment.
const MAGIC: [u8; 8] = *b"dio-wal\n";
/// The version of the format that this crate reads and writes.
const FORMAT_VERSION: u32 = 1;
/// Bytes of a segment header.
pub const SEGMENT_HEADER_BYTES: usize = 64;
/// Offset of the header's checksum, which covers all bytes before it.
const CHECKSUM_OFFSET: usize = 60;

/// The contents of the first block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Sizes of the log.
    pub layout: Layout,
    /// Identity of the log.
    pub identity: Identity,
    /// Number of the segment.
    pub number: u64,
}

impl SegmentHeader {
    /// The bytes of the header.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut bytes = [0; SEGMENT_HEADER_BYTES];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        // The layout's own check keeps a block below 2^32 bytes.
        bytes[12..16].copy_from_slice(&(self.layout.block_bytes() as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.layout.segment_bytes().to_le_bytes());
        bytes[24..40].copy_from_slice(&self.identity.0);
        bytes[40..48].copy_from_slice(&self.number.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.layout.segment_start(self.number).to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CHECKSUM_OFFSET]);
        bytes[CHECKSUM_OFFSET..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// The fault of the header.
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, HeaderFault> {
        let Some(bytes) = bytes.first_chunk::<SEGMENT_HEADER_BYTES>() else {
            return Err(HeaderFault::Short);
        };
        if bytes[0..8] != MAGIC {
            return Err(HeaderFault::Magic);
        }
        if u32_at(bytes, CHECKSUM_OFFSET) != crc32c::crc32c(&bytes[..CHECKSUM_OFFSET]) {
            return Err(HeaderFault::Checksum);
        }
        let version = u32_at(bytes, 8);
        if version != FORMAT_VERSION {
            return Err(HeaderFault::Version(version));
        }
        let layout = Layout::new(u32_at(bytes, 12), u64_at(bytes, 16))?;
        let mut identity = [0; 16];
        identity.copy_from_slice(&bytes[24..40]);
        let number = u64_at(bytes, 40);
        if number.checked_mul(layout.data_bytes()) != Some(u64_at(bytes, 48)) {
            return Err(HeaderFault::FirstLsn);
        }
        Ok(SegmentHeader { layout, identity: Identity(identity), number })
    }

    /// Compares this header, of a file of `file_bytes`, with the header that segment `number` of
    /// the log with this identity and layout must have. Returns the first fault, or `None` if there
    /// is none.
    pub(crate) fn fault_as(
        &self,
        number: u64,
        file_bytes: u64,
        identity: Identity,
        layout: &Layout,
    ) -> Option<HeaderFault> {
        if self.identity != identity {
            Some(HeaderFault::Foreign(self.identity))
        } else if self.layout != *layout {
            Some(HeaderFault::Differs)
        } else if self.number != number {
            Some(HeaderFault::Number(self.number))
        } else {
            // A segment gets its name only once its file has its whole size.
            (file_bytes != layout.segment_bytes()).then_some(HeaderFault::Length(file_bytes))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            layout: Layout::new(4096, 1 << 20).unwrap(),
            identity: Identity([7; 16]),
            number: 3,
        }
    }

    /// The format is fixed: these bytes were recorded once, and logs with them exist.
    #[test]
    fn the_bytes_are_those_of_version_one() {
        let bytes = header().encode();
        assert_eq!(&bytes[0..16], b"dio-wal\n\x01\0\0\0\0\x10\0\0");
        assert_eq!(u64_at(&bytes, 48), 3 * ((1 << 20) - 4096));
    }

    #[test]
    fn every_changed_bit_of_a_header_is_detected() {
        let bytes = header().encode();
        assert_eq!(SegmentHeader::decode(&bytes).unwrap(), header());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            SegmentHeader::decode(&damaged).unwrap_err();
        }
        assert!(matches!(SegmentHeader::decode(&bytes[..63]), Err(HeaderFault::Short)));
    }
}
