//! Records and marks.

use super::bytes::{u32_at, u64_at};
use super::identity::Identity;
use super::layout::Layout;
use super::segment::SegmentHeader;

/// Bytes of a record's header.
pub const RECORD_HEADER_BYTES: usize = 24;
/// Bytes of a mark's payload.
pub const MARK_PAYLOAD_BYTES: usize = 40;
/// Bytes of a whole mark.
pub(crate) const MARK_BYTES: usize = RECORD_HEADER_BYTES + MARK_PAYLOAD_BYTES;
/// The LSN of every record is a multiple of this.
pub const RECORD_ALIGN_BYTES: u64 = 8;
/// Longest payload of a record in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// A mark never spans blocks.
const _: () = assert!(MARK_BYTES <= super::layout::BLOCK_BYTES_MIN as usize);

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// Bytes that the user appended.
    Data = 1,
    /// A [`Mark`], which the log writes for itself.
    Mark = 2,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Checksum of payload and header.
    pub crc: u32,
    /// The `crc` of the record before.
    pub previous_crc: u32,
    /// LSN of the record.
    pub lsn: u64,
    /// Bytes of payload.
    pub payload_bytes: u32,
    /// Kind of the record.
    pub kind: RecordKind,
}

impl RecordHeader {
    /// Makes a header. `payload_crc` is the checksum of the payload, continued from
    /// [`Identity::checksum_seed`].
    pub fn seal(
        kind: RecordKind,
        lsn: u64,
        previous_crc: u32,
        payload_bytes: u32,
        payload_crc: u32,
    ) -> RecordHeader {
        let mut header = RecordHeader { crc: 0, previous_crc, lsn, payload_bytes, kind };
        header.crc = header.checksum(payload_crc);
        header
    }

    /// The bytes of the header.
    pub fn encode(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.crc.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.previous_crc.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.lsn.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[20] = self.kind as u8;
        bytes
    }

    /// Decodes a header without checking its checksum; `None` for bytes that cannot be a header.
    pub fn decode(bytes: &[u8; RECORD_HEADER_BYTES]) -> Option<RecordHeader> {
        let kind = match bytes[20] {
            1 => RecordKind::Data,
            2 => RecordKind::Mark,
            _ => return None,
        };
        let payload_bytes = u32_at(bytes, 16);
        let plausible = match kind {
            RecordKind::Data => payload_bytes as usize <= PAYLOAD_BYTES_MAX,
            RecordKind::Mark => payload_bytes as usize == MARK_PAYLOAD_BYTES,
        };
        let valid = plausible && bytes[21..24] == [0; 3];
        valid.then(|| RecordHeader {
            crc: u32_at(bytes, 0),
            previous_crc: u32_at(bytes, 4),
            lsn: u64_at(bytes, 8),
            payload_bytes,
            kind,
        })
    }

    /// The checksum that this header must have, computed from the checksum of the payload.
    pub fn checksum(&self, payload_crc: u32) -> u32 {
        crc32c::crc32c_append(payload_crc, &self.encode()[4..])
    }

    /// The LSN where the next record begins, if the next record belongs to the same group.
    pub fn end(&self) -> u64 {
        self.lsn + record_bytes(self.payload_bytes as usize)
    }
}

/// Bytes of the log that a record with a payload of `payload_bytes` takes: header, payload and the
/// zeros up to a multiple of [`RECORD_ALIGN_BYTES`].
pub fn record_bytes(payload_bytes: usize) -> u64 {
    dio::geometry::align_up((RECORD_HEADER_BYTES + payload_bytes) as u64, RECORD_ALIGN_BYTES)
}

/// The payload of a mark: the state of the log when it wrote the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Identity of the log.
    pub identity: Identity,
    /// Random number of the opening that wrote the mark.
    pub incarnation: u64,
    /// LSN below which everything was durable.
    pub durable: u64,
    /// LSN below which everything was truncated.
    pub start: u64,
}

impl Mark {
    /// The bytes of the payload.
    pub(crate) fn encode(&self) -> [u8; MARK_PAYLOAD_BYTES] {
        let mut bytes = [0; MARK_PAYLOAD_BYTES];
        bytes[0..16].copy_from_slice(&self.identity.0);
        bytes[16..24].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.durable.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.start.to_le_bytes());
        bytes
    }

    /// Decodes the payload of a mark at `lsn` of the log with this identity.
    ///
    /// A mark that names an LSN behind itself is rejected: records that were appended there would
    /// count as truncated before they were written.
    pub(crate) fn decode(bytes: &[u8], identity: &Identity, lsn: u64) -> Option<Mark> {
        let bytes = bytes.first_chunk::<MARK_PAYLOAD_BYTES>()?;
        let (durable, start) = (u64_at(bytes, 24), u64_at(bytes, 32));
        let valid = bytes[0..16] == identity.0 && durable <= lsn && start <= lsn;
        valid.then(|| Mark { identity: *identity, incarnation: u64_at(bytes, 16), durable, start })
    }

    /// Decodes a whole mark at `lsn` and checks everything but the chain. Searches for marks apply
    /// this to the start of every block.
    pub(crate) fn find(
        bytes: &[u8],
        lsn: u64,
        identity: &Identity,
        checksum_seed: u32,
    ) -> Option<(RecordHeader, Mark)> {
        let header = RecordHeader::decode(bytes.first_chunk()?)?;
        if header.kind != RecordKind::Mark || header.lsn != lsn {
            return None;
        }
        let payload = bytes.get(RECORD_HEADER_BYTES..MARK_BYTES)?;
        let mark = Mark::decode(payload, identity, lsn)?;
        (header.checksum(crc32c::crc32c_append(checksum_seed, payload)) == header.crc)
            .then_some((header, mark))
    }
}

/// Returns the header that segment `number`, a file of `file_bytes`, must have, if `bytes` at
/// `offset` in that file are a valid mark. The mark contains the identity of the log, and the block
/// size follows from its LSN:
///
/// ```text
/// LSN   = number × (file_bytes − block) + offset − block
/// block = (number × file_bytes + offset − LSN) / (number + 1)
/// ```
///
/// With blocks of 4096 bytes and segments of 1 MiB, the mark at offset 8192 of segment 1 has the
/// LSN 1,044,480 + 4096 = 1,048,576, and (1 × 1,048,576 + 8192 − 1,048,576) / 2 = 4096.
pub(crate) fn segment_of_mark(
    bytes: &[u8; MARK_BYTES],
    number: u64,
    file_bytes: u64,
    offset: u64,
) -> Option<SegmentHeader> {
    let record = RecordHeader::decode(bytes.first_chunk()?)
        .filter(|record| record.kind == RecordKind::Mark)?;
    let mut identity = Identity([0; 16]);
    identity.0.copy_from_slice(&bytes[RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + 16]);
    Mark::find(bytes, record.lsn, &identity, identity.checksum_seed())?;
    let sum = number.checked_mul(file_bytes)?.checked_add(offset)?.checked_sub(record.lsn)?;
    let block = u32::try_from(sum / (number + 1)).ok()?;
    let layout = Layout::new(block, file_bytes).ok()?;
    let fits = offset % layout.block_bytes() == 0
        && offset >= layout.block_bytes()
        && layout.is_segment_possible(number)
        && layout.locate(record.lsn) == (number, offset);
    fits.then_some(SegmentHeader { layout, identity, number })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Identity = Identity([7; 16]);

    /// The format is fixed: these bytes were recorded once, and logs with them exist.
    #[test]
    fn the_bytes_are_those_of_version_one() {
        let crc = crc32c::crc32c_append(ID.checksum_seed(), b"abc");
        let record = RecordHeader::seal(RecordKind::Data, 64, 0x0102_0304, 3, crc);
        let mut all = b"abc".to_vec();
        all.extend(&record.encode()[4..]);
        assert_eq!(
            record.encode()[4..],
            [4, 3, 2, 1, 64, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0]
        );
        assert_eq!(record.crc, crc32c::crc32c_append(crc32c::crc32c(&[7; 16]), &all));
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    }

    fn bytes_at_4096(mark: &Mark) -> (RecordHeader, Vec<u8>) {
        let crc = crc32c::crc32c_append(ID.checksum_seed(), &mark.encode());
        let record = RecordHeader::seal(RecordKind::Mark, 4096, 77, MARK_PAYLOAD_BYTES as u32, crc);
        (record, [&record.encode()[..], &mark.encode()].concat())
    }

    #[test]
    fn every_changed_bit_of_a_mark_is_detected() {
        let mark = Mark { identity: ID, incarnation: 9, durable: 100, start: 50 };
        let (record, bytes) = bytes_at_4096(&mark);
        assert_eq!(Mark::find(&bytes, 4096, &ID, ID.checksum_seed()), Some((record, mark)));
        assert_eq!(Mark::find(&bytes, 8192, &ID, ID.checksum_seed()), None);
        let other = Identity([8; 16]);
        assert_eq!(Mark::find(&bytes, 4096, &other, other.checksum_seed()), None);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::find(&damaged, 4096, &ID, ID.checksum_seed()), None, "bit {bit}");
        }
    }

    /// Found by fuzzing: a log with such a mark opened, and what was committed to it then was not
    /// there when it was opened again.
    #[test]
    fn a_mark_that_names_an_lsn_behind_itself_is_rejected() {
        let found = |durable, start| {
            let (_, bytes) = bytes_at_4096(&Mark { identity: ID, incarnation: 9, durable, start });
            Mark::find(&bytes, 4096, &ID, ID.checksum_seed()).is_some()
        };
        assert!(found(4096, 4096));
        assert!(!found(4097, 0));
        assert!(!found(0, 4097));
    }
}
