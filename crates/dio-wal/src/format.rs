//! The bytes on the disk.
//!
//! A log is a directory of segments, files of one size named by their number (`0000000000000007.wal`). The first block of
//! a segment is its header; all blocks behind it are data. Taken together, without the headers, the data of all segments
//! is one stream of bytes that begins at 0 in segment 0. A place in that stream is a *log sequence number* (LSN): it tells
//! segment and offset by division ([`Layout::locate`]), and it never comes again. All numbers are little-endian.
//!
//! ```text
//! segment header, at the start of the segment; the rest of its block is zero
//!    0   8  magic "dio-wal\n"
//!    8   4  version, 1
//!   12   4  block size in bytes: what is written is a multiple of it, at a multiple of it
//!   16   8  segment size in bytes, the header's block included
//!   24  16  identity of the log, random
//!   40   8  number of this segment
//!   48   8  LSN of its first byte of data
//!   56   4  zero
//!   60   4  CRC32C of bytes 0 to 60
//!
//! record, at a multiple of 8 of the stream; it may span blocks and segments
//!    0   4  CRC32C of the payload followed by bytes 4 to 24, begun with the CRC32C of the log's identity
//!    4   4  the CRC32C field of the record before it; 0 for the first of a log
//!    8   8  LSN of this record
//!   16   4  length of the payload, 0 to 64 MiB
//!   20   1  kind: 1 data, 2 mark
//!   21   3  zero
//!   24      payload, and zeros up to a multiple of 8, without which it is none
//!
//! payload of a mark
//!    0  16  identity of the log
//!   16   8  incarnation: a random number of each opening for writing
//!   24   8  durable: end of the last record that was known to be durable when the mark was written
//!   32   8  start: records below it were given up by truncation
//! ```
//!
//! Neither `durable` nor `start` is behind the place of the mark itself.
//!
//! **A flush begins a new block.** What is flushed together, a *group*, begins with a mark at the start of a block. The
//! rest of the group's last block is zero; the next group begins behind it. So a block is never written twice with
//! different contents while the log grows through it, and no torn write can harm what an earlier commit made durable.
//! Where single blocks can be written untorn, a group may go on in the last one without a mark, and that block alone is
//! written again, with more records in place of zeros; a reader sees no difference.
//!
//! **Reading** goes from record to record: at each place the LSN must be the place itself and the second field the
//! checksum of the record before. Where that fails, the start of the next block is tried for a mark that continues
//! the chain: a group that was cut short (its last block is not full, or a power cut tore it) is followed by the next
//! group. Where that fails too the log ends, or is damaged.
//!
//! **What is recognised.** A block of zeros, a torn write, a lost write: the checksum, and the zeros behind the payload, since
//! of a record's end a single byte may be all that was in the block. A block of a recycled segment, or a
//! misdirected write: the LSN. A block of another log: the checksum, which begins with the identity, and the mark. What an
//! earlier opening wrote behind what turned out to be the end: the chain, since marks carry the incarnation.
//!
//! **End or damage.** A mark says up to where the log was durable when it was written. If the log cannot be read past a
//! place, and anywhere behind it stands a mark of this log which says that more than this was durable, then what was
//! durable is gone: damage. If there is none, nothing that was acknowledged is missing there but at most the last group
//! itself, of which nobody wrote anything later. [`crate::Log::close`] writes a last mark, and so does a log that was left
//! alone for a second, so that after these even that shows.
//!
//! **What cannot be known.** Until something durable is written behind it, a group that was acknowledged and lost looks
//! like one that never was: the log ends before both. No log can do better without a second flush for each commit, since
//! whatever would tell of the group must itself be durable, after it. So two losses are taken for the end: of the last group
//! of a log that was cut off within a second of it; and of any group together with everything behind it (a segment's file
//! that was cut short or put back from an older copy, with all that follow), where the evidence went the same way as the
//! records. [`crate::Recovery::known_durable`] and [`crate::Recovery::ended`] say how far the log itself vouches for what was
//! found. Bits that change at random in a record, in whatever group, change its checksum; that it comes out the same has a
//! chance of 2^-32 for those that CRC32C does not always notice.

use crate::error::HeaderFault;

/// What a segment begins with.
pub const MAGIC: [u8; 8] = *b"dio-wal\n";
/// The version of the format that is written and read.
pub const VERSION: u32 = 1;
/// Bytes of a segment header.
pub const SEGMENT_HEADER: usize = 64;
/// Bytes of a record's header.
pub const RECORD_HEADER: usize = 24;
/// Bytes of a mark's payload.
pub const MARK_PAYLOAD: usize = 40;
/// Bytes of a whole mark.
pub const MARK: usize = RECORD_HEADER + MARK_PAYLOAD;
/// What the start of every record is a multiple of.
pub const RECORD_ALIGN: u64 = 8;
/// Longest payload of a record in bytes.
pub const LONGEST_RECORD: usize = 64 << 20;
/// Smallest and largest block in bytes.
pub const BLOCKS: std::ops::RangeInclusive<u32> = 512..=65536;

/// A log sequence number: a place in the log, which only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl std::fmt::Display for Lsn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Who a log is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity(pub [u8; 16]);

impl Identity {
    /// What the checksums of its records begin with, so that those of another log do not fit.
    pub fn tag(&self) -> u32 {
        crc32c::crc32c(&self.0)
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Sizes of a log, in bytes. Invariant: `block` is a power of two, `segment` a multiple of it and at least two of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    block: u32,
    segment: u64,
}

impl Layout {
    /// Checks the sizes.
    ///
    /// # Errors
    /// [`HeaderFault::Sizes`].
    pub fn new(block: u32, segment: u64) -> Result<Layout, HeaderFault> {
        let sound = BLOCKS.contains(&block)
            && block.is_power_of_two()
            && segment % u64::from(block) == 0
            && segment >= 2 * u64::from(block)
            && segment <= 1 << 40;
        if sound { Ok(Layout { block, segment }) } else { Err(HeaderFault::Sizes { block, segment }) }
    }

    /// Bytes of a block.
    pub fn block(&self) -> u64 {
        self.block.into()
    }

    /// Bytes of a segment's file.
    pub fn segment(&self) -> u64 {
        self.segment
    }

    /// Bytes of data in a segment.
    pub fn data(&self) -> u64 {
        self.segment - self.block()
    }

    /// Number of the segment that holds a place of the stream, and the place's offset in its file.
    pub fn locate(&self, position: u64) -> (u64, u64) {
        (position / self.data(), self.block() + position % self.data())
    }

    /// The first place of a segment.
    pub fn first(&self, number: u64) -> u64 {
        number * self.data()
    }

    /// The end of the segment that holds a place.
    pub fn segment_end(&self, position: u64) -> u64 {
        self.first(position / self.data() + 1)
    }

    /// The start of the first block at or behind a place.
    pub fn next_block(&self, position: u64) -> u64 {
        dio::geometry::align_up(position, self.block())
    }
}

/// The name of a segment's file.
pub fn segment_name(number: u64) -> String {
    format!("{number:016x}.wal")
}

/// The number of the segment that a file's name is of.
pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".wal").filter(|digits| digits.len() == 16)?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (segment_name(number) == name).then_some(number)
}

/// What stands in the first block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Sizes of the log.
    pub layout: Layout,
    /// Whose segment it is.
    pub identity: Identity,
    /// Its number.
    pub number: u64,
}

impl SegmentHeader {
    /// The bytes of the header.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER] {
        let mut bytes = [0; SEGMENT_HEADER];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.layout.block.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.layout.segment.to_le_bytes());
        bytes[24..40].copy_from_slice(&self.identity.0);
        bytes[40..48].copy_from_slice(&self.number.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.layout.first(self.number).to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// What is wrong with it as the header of segment `number`, of `size` bytes, of the log that has this identity and layout.
    pub(crate) fn fault_as(&self, number: u64, size: u64, identity: Identity, layout: &Layout) -> Option<HeaderFault> {
        if self.identity != identity {
            Some(HeaderFault::Foreign(self.identity))
        } else if self.layout != *layout {
            Some(HeaderFault::Differs)
        } else if self.number != number {
            Some(HeaderFault::Number(self.number))
        } else {
            // A segment has its whole size before it gets its name.
            (size != layout.segment()).then_some(HeaderFault::Length(size))
        }
    }

    /// Reads a header.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<SegmentHeader, HeaderFault> {
        let Some(bytes) = bytes.first_chunk::<SEGMENT_HEADER>() else { return Err(HeaderFault::Short) };
        if bytes[0..8] != MAGIC {
            return Err(HeaderFault::Magic);
        }
        if u32_at(bytes, 60) != crc32c::crc32c(&bytes[..60]) {
            return Err(HeaderFault::Checksum);
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(HeaderFault::Version(version));
        }
        let layout = Layout::new(u32_at(bytes, 12), u64_at(bytes, 16))?;
        let mut identity = [0; 16];
        identity.copy_from_slice(&bytes[24..40]);
        let number = u64_at(bytes, 40);
        if number.checked_mul(layout.data()) != Some(u64_at(bytes, 48)) {
            return Err(HeaderFault::Place);
        }
        Ok(SegmentHeader { layout, identity: Identity(identity), number })
    }
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Bytes of the user's.
    Data = 1,
    /// The log's own.
    Mark = 2,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Checksum of payload and header.
    pub crc: u32,
    /// Checksum field of the record before.
    pub previous: u32,
    /// Its place.
    pub lsn: u64,
    /// Bytes of payload.
    pub length: u32,
    /// What it is.
    pub kind: Kind,
}

impl RecordHeader {
    /// A header whose checksum continues that of the payload, which was begun with the identity's tag.
    pub fn seal(kind: Kind, lsn: u64, previous: u32, length: u32, payload_crc: u32) -> RecordHeader {
        let mut header = RecordHeader { crc: 0, previous, lsn, length, kind };
        header.crc = header.checksum(payload_crc);
        header
    }

    /// The bytes of the header.
    pub fn encode(&self) -> [u8; RECORD_HEADER] {
        let mut bytes = [0; RECORD_HEADER];
        bytes[0..4].copy_from_slice(&self.crc.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.previous.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.lsn.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.length.to_le_bytes());
        bytes[20] = self.kind as u8;
        bytes
    }

    /// Reads a header; `None` for what cannot be one. Its checksum is not looked at.
    pub fn decode(bytes: &[u8; RECORD_HEADER]) -> Option<RecordHeader> {
        let kind = match bytes[20] {
            1 => Kind::Data,
            2 => Kind::Mark,
            _ => return None,
        };
        let length = u32_at(bytes, 16);
        let plausible = match kind {
            Kind::Data => length as usize <= LONGEST_RECORD,
            Kind::Mark => length as usize == MARK_PAYLOAD,
        };
        let sound = plausible && bytes[21..24] == [0; 3];
        sound.then(|| RecordHeader {
            crc: u32_at(bytes, 0),
            previous: u32_at(bytes, 4),
            lsn: u64_at(bytes, 8),
            length,
            kind,
        })
    }

    /// The checksum that the header should have, from that of the payload.
    pub fn checksum(&self, payload_crc: u32) -> u32 {
        crc32c::crc32c_append(payload_crc, &self.encode()[4..])
    }

    /// Where the next record begins.
    pub fn end(&self) -> u64 {
        self.lsn + record_len(self.length as usize)
    }
}

/// Bytes of the stream that a record takes.
pub fn record_len(payload: usize) -> u64 {
    dio::geometry::align_up((RECORD_HEADER + payload) as u64, RECORD_ALIGN)
}

/// The payload of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Whose it is.
    pub identity: Identity,
    /// Which opening of the log wrote it.
    pub incarnation: u64,
    /// Everything below was durable when it was written.
    pub durable: u64,
    /// Everything below was given up.
    pub start: u64,
}

impl Mark {
    /// The bytes of the payload.
    pub fn encode(&self) -> [u8; MARK_PAYLOAD] {
        let mut bytes = [0; MARK_PAYLOAD];
        bytes[0..16].copy_from_slice(&self.identity.0);
        bytes[16..24].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.durable.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.start.to_le_bytes());
        bytes
    }

    /// Reads a payload that belongs to `identity`, of a mark at `position`. A mark that speaks of
    /// what comes behind it is none: records that were appended there would count as given up
    /// before they were written.
    pub fn decode(bytes: &[u8], identity: &Identity, position: u64) -> Option<Mark> {
        let bytes = bytes.first_chunk::<MARK_PAYLOAD>()?;
        let (durable, start) = (u64_at(bytes, 24), u64_at(bytes, 32));
        let sound = bytes[0..16] == identity.0 && durable <= position && start <= position;
        sound.then(|| Mark { identity: *identity, incarnation: u64_at(bytes, 16), durable, start })
    }

    /// Reads a whole mark that stands at `position`, chain aside: what a search for marks looks at in every block.
    pub fn find(bytes: &[u8], position: u64, identity: &Identity, tag: u32) -> Option<(RecordHeader, Mark)> {
        let header = RecordHeader::decode(bytes.first_chunk()?)?;
        if header.kind != Kind::Mark || header.lsn != position {
            return None;
        }
        let payload = bytes.get(RECORD_HEADER..MARK)?;
        let mark = Mark::decode(payload, identity, position)?;
        (header.checksum(crc32c::crc32c_append(tag, payload)) == header.crc).then_some((header, mark))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Identity = Identity([7; 16]);

    fn header() -> SegmentHeader {
        SegmentHeader { layout: Layout::new(4096, 1 << 20).unwrap(), identity: ID, number: 3 }
    }

    /// The format is fixed: these bytes were taken down once, and logs with them exist.
    #[test]
    fn the_bytes_are_those_of_version_one() {
        let bytes = header().encode();
        assert_eq!(&bytes[0..16], b"dio-wal\n\x01\0\0\0\0\x10\0\0");
        assert_eq!(u64_at(&bytes, 48), 3 * ((1 << 20) - 4096));
        let record = RecordHeader::seal(Kind::Data, 64, 0x0102_0304, 3, crc32c::crc32c_append(ID.tag(), b"abc"));
        let mut all = b"abc".to_vec();
        all.extend(&record.encode()[4..]);
        assert_eq!(record.encode()[4..], [4, 3, 2, 1, 64, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(record.crc, crc32c::crc32c_append(crc32c::crc32c(&[7; 16]), &all));
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn every_changed_bit_of_a_header_is_noticed() {
        let bytes = header().encode();
        assert_eq!(SegmentHeader::decode(&bytes).unwrap(), header());
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            SegmentHeader::decode(&damaged).unwrap_err();
        }
        assert!(matches!(SegmentHeader::decode(&bytes[..63]), Err(HeaderFault::Short)));
    }

    #[test]
    fn every_changed_bit_of_a_mark_is_noticed() {
        let mark = Mark { identity: ID, incarnation: 9, durable: 100, start: 50 };
        let crc = crc32c::crc32c_append(ID.tag(), &mark.encode());
        let record = RecordHeader::seal(Kind::Mark, 4096, 77, MARK_PAYLOAD as u32, crc);
        let bytes = [&record.encode()[..], &mark.encode()].concat();
        assert_eq!(Mark::find(&bytes, 4096, &ID, ID.tag()), Some((record, mark)));
        assert_eq!(Mark::find(&bytes, 8192, &ID, ID.tag()), None);
        let other = Identity([8; 16]);
        assert_eq!(Mark::find(&bytes, 4096, &other, other.tag()), None);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::find(&damaged, 4096, &ID, ID.tag()), None, "bit {bit}");
        }
    }

    /// Found by fuzzing: a log with such a mark opened, and what was committed to it then was not
    /// there when it was opened again.
    #[test]
    fn a_mark_that_speaks_of_what_comes_behind_it_is_none() {
        let found = |durable, start| {
            let mark = Mark { identity: ID, incarnation: 9, durable, start };
            let crc = crc32c::crc32c_append(ID.tag(), &mark.encode());
            let record = RecordHeader::seal(Kind::Mark, 4096, 77, MARK_PAYLOAD as u32, crc);
            let bytes = [&record.encode()[..], &mark.encode()].concat();
            Mark::find(&bytes, 4096, &ID, ID.tag()).is_some()
        };
        assert!(found(4096, 4096));
        assert!(!found(4097, 0));
        assert!(!found(0, 4097));
    }

    #[test]
    fn places_are_found_by_division() {
        let layout = Layout::new(512, 2048).unwrap();
        assert_eq!(layout.locate(0), (0, 512));
        assert_eq!(layout.locate(1535), (0, 2047));
        assert_eq!(layout.locate(1536), (1, 512));
        assert_eq!((layout.first(2), layout.segment_end(1536)), (3072, 3072));
        for (block, segment) in [(256, 4096), (1000, 4000), (512, 512), (512, 2000), (131_072, 1 << 20)] {
            Layout::new(block, segment).unwrap_err();
        }
    }

    #[test]
    fn only_names_that_are_written_are_read() {
        assert_eq!(segment_number(&segment_name(0xabc)), Some(0xabc));
        for name in ["abc.wal", "0000000000000ABC.wal", "+000000000000abc.wal", "0000000000000abc.spare", ""] {
            assert_eq!(segment_number(name), None, "{name}");
        }
    }
}
