//! The header of a member: RFC 1952 section 2.3.

use std::io;

use libdeflater::Crc;

use super::feed::Feed;
use crate::codec::Damage;

/// ID1, ID2 and CM (deflate).
pub(super) const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

const FHCRC: u8 = 1 << 1;
const FEXTRA: u8 = 1 << 2;
const FNAME: u8 = 1 << 3;
const FCOMMENT: u8 = 1 << 4;
/// These bits must be zero; gzip once used one of them for encryption.
const RESERVED: u8 = 0xe0;

/// CRC32 and ISIZE.
pub(super) const TRAILER_LEN: usize = 8;
/// The fixed part of a header.
pub(super) const FIXED_LEN: usize = 10;
/// The offset of the member's size in headers that [`begin_sized`] makes.
const SIZE_AT: usize = 16;
/// Longer names are discarded: no file system has them.
const LONGEST_NAME: usize = 4096;
/// The OS field: Unix.
const UNIX: u8 = 3;

/// Why reading the compressed input ends early.
#[derive(Debug)]
pub(super) enum Fault {
    Read(io::Error),
    Damaged { offset: u64, what: Damage },
    Garbage { offset: u64 },
    NotInFormat,
    Write(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Read(error)
    }
}

/// The fields of a header.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) name: Option<Vec<u8>>,
    pub(super) mtime: Option<u32>,
    /// The size of the whole member, from a field that BGZF or mgzip defined; it may be wrong.
    pub(super) size: Option<u64>,
    /// The size of the header itself.
    pub(super) length: u64,
}

/// Returns whether these bytes can begin a header that dio reads.
pub(super) fn plausible(bytes: &[u8]) -> bool {
    bytes.len() > 3 && bytes.starts_with(&MAGIC) && bytes[3] & RESERVED == 0
}

/// Reads headers and computes their check value.
struct Bytes<'f, 'a> {
    feed: &'f mut Feed<'a>,
    crc: Crc,
}

impl Bytes<'_, '_> {
    fn end(&self) -> Fault {
        Fault::Damaged { offset: self.feed.offset(), what: Damage::UnexpectedEnd }
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let byte = self.feed.byte()?.ok_or_else(|| self.end())?;
        self.crc.update(&[byte]);
        Ok(byte)
    }

    fn two(&mut self) -> Result<u16, Fault> {
        Ok(u16::from_le_bytes([self.byte()?, self.byte()?]))
    }

    fn many(&mut self, count: usize) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        if self.feed.take(count, &mut bytes)? < count {
            return Err(self.end());
        }
        self.crc.update(&bytes);
        Ok(bytes)
    }

    /// Reads text up to a NUL byte. Text longer than `longest` is skipped and `None` returned.
    fn text(&mut self, longest: usize) -> Result<Option<Vec<u8>>, Fault> {
        let (mut text, mut whole) = (Vec::new(), true);
        loop {
            match self.byte()? {
                0 => return Ok(whole.then_some(text)),
                byte if text.len() < longest => text.push(byte),
                _ => whole = false,
            }
        }
    }
}

/// Reads the header of a member; the caller has checked its first two bytes.
pub(super) fn read(feed: &mut Feed<'_>) -> Result<Header, Fault> {
    let start = feed.offset();
    let mut bytes = Bytes { feed, crc: Crc::new() };
    let wrong = |at: u64, what: String| Fault::Damaged {
        offset: start + at,
        what: Damage::Header(what.into()),
    };
    bytes.two()?;
    let method = bytes.byte()?;
    if method != MAGIC[2] {
        return Err(wrong(2, format!("unknown method {method} -- not supported")));
    }
    let flags = bytes.byte()?;
    if flags & RESERVED != 0 {
        return Err(wrong(3, format!("has flags 0x{flags:x} -- not supported")));
    }
    let mtime = u32::from(bytes.two()?) | u32::from(bytes.two()?) << 16;
    bytes.two()?;
    let mut header = Header { mtime: (mtime != 0).then_some(mtime), ..Header::default() };
    if flags & FEXTRA != 0 {
        let length = bytes.two()?;
        header.size = size_in(&bytes.many(usize::from(length))?);
    }
    if flags & FNAME != 0 {
        header.name = bytes.text(LONGEST_NAME)?;
    }
    if flags & FCOMMENT != 0 {
        bytes.text(0)?;
    }
    if flags & FHCRC != 0 {
        let computed = bytes.crc.sum() as u16;
        let at = bytes.feed.offset() - start;
        let stored = bytes.two()?;
        if stored != computed {
            let text =
                format!("header checksum 0x{stored:04x} != computed checksum 0x{computed:04x}");
            return Err(wrong(at, text));
        }
    }
    header.length = feed.offset() - start;
    Ok(header)
}

/// Returns the size of the member from its extra field: the subfield `BC` of BGZF (SAM
/// specification, section 4.1: the size minus one) or `IG` of mgzip.
fn size_in(mut extra: &[u8]) -> Option<u64> {
    while let [id1, id2, low, high, rest @ ..] = extra {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        let (field, others) = rest.split_at_checked(length)?;
        match (&[*id1, *id2], field) {
            (b"BC", [low, high]) => return Some(u64::from(u16::from_le_bytes([*low, *high])) + 1),
            (b"IG", [a, b, c, d]) => return Some(u64::from(u32::from_le_bytes([*a, *b, *c, *d]))),
            _ => extra = others,
        }
    }
    None
}

/// Builds the header of a member.
pub(super) fn begin(level: u8, name: Option<&[u8]>, mtime: Option<u32>) -> Vec<u8> {
    build(level, name, mtime, &[])
}

/// Builds the header of a member that holds its own size; [`set_size`] fills that in later.
pub(super) fn begin_sized(level: u8, name: Option<&[u8]>, mtime: Option<u32>) -> Vec<u8> {
    build(level, name, mtime, &[8, 0, b'I', b'G', 4, 0, 0, 0, 0, 0])
}

/// Builds a header; `extra` is its extra field including the length, or empty.
fn build(level: u8, name: Option<&[u8]>, mtime: Option<u32>, extra: &[u8]) -> Vec<u8> {
    let name = name.filter(|name| !name.is_empty() && !name.contains(&0));
    // XFL: 2 for the best compression, 4 for the fastest, as gzip sets it.
    let effort = match level {
        1 => 4,
        9.. => 2,
        _ => 0,
    };
    let mut header = MAGIC.to_vec();
    header.push(if extra.is_empty() { 0 } else { FEXTRA } | if name.is_some() { FNAME } else { 0 });
    header.extend_from_slice(&mtime.unwrap_or(0).to_le_bytes());
    header.extend_from_slice(&[effort, UNIX]);
    header.extend_from_slice(extra);
    if let Some(name) = name {
        header.extend_from_slice(name);
        header.push(0);
    }
    header
}

/// Stores the size of the whole member in its header.
pub(super) fn set_size(member: &mut [u8]) {
    let size = u32::try_from(member.len()).unwrap_or(0);
    member[SIZE_AT..SIZE_AT + 4].copy_from_slice(&size.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::{Fault, Feed, Header, begin, begin_sized, read, set_size, size_in};
    use crate::codec::Damage;

    fn parse(bytes: &[u8]) -> Result<Header, Fault> {
        let mut input = bytes;
        read(&mut Feed::new(&mut input))
    }

    #[test]
    fn a_header_that_was_written_is_read() {
        let mut member = begin_sized(6, Some(b"name"), Some(1_000_000_000));
        let length = member.len() as u64;
        member.extend_from_slice(&[0; 100]);
        set_size(&mut member);
        let expected = Header {
            name: Some(b"name".to_vec()),
            mtime: Some(1_000_000_000),
            size: Some(length + 100),
            length,
        };
        assert_eq!(parse(&member).expect("reads"), expected);
        assert_eq!(
            parse(&begin_sized(6, Some(b"na\0me"), None)).expect("reads"),
            Header { size: Some(0), length: 20, ..Header::default() }
        );
        assert_eq!(
            parse(&begin(6, None, None)).expect("reads"),
            Header { length: 10, ..Header::default() }
        );
    }

    #[test]
    fn sizes_are_found_among_other_subfields() {
        assert_eq!(size_in(b"BC\x02\x00\x1b\x00"), Some(28));
        assert_eq!(size_in(b"XY\x01\x00.IG\x04\x00\x01\x02\x03\x00"), Some(0x30201));
        assert_eq!(size_in(b"BC\x03\x00\x1b\x00\x00"), None);
        assert_eq!(size_in(b"IG\x04\x00\x01\x02\x03"), None);
        assert_eq!(size_in(b"XY\xff\xff"), None);
        assert_eq!(size_in(b""), None);
    }

    #[test]
    fn every_optional_part_is_skipped_or_checked() {
        // FHCRC over a header with a comment.
        let header = b"\x1f\x8b\x08\x12\0\0\0\0\0\x03note\0";
        let crc = libdeflater::crc32(header) as u16;
        let mut bytes = header.to_vec();
        bytes.extend_from_slice(&crc.to_le_bytes());
        assert_eq!(parse(&bytes).expect("reads").length, bytes.len() as u64);
        bytes[header.len()] ^= 1;
        match parse(&bytes) {
            Err(Fault::Damaged { offset: 15, what: Damage::Header(text) }) => {
                assert!(text.starts_with("header checksum"))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        for (bytes, place) in [
            (&b"\x1f\x8b\x07\0\0\0\0\0\0\x03"[..], 2),
            (b"\x1f\x8b\x08\x20\0\0\0\0\0\x03", 3),
            (b"\x1f\x8b\x08\0\0", 5),
            (b"\x1f\x8b\x08\x08\0\0\0\0\0\x03name", 14),
            (b"\x1f\x8b\x08\x04\0\0\0\0\0\x03\xff\xffab", 14),
        ] {
            match parse(bytes) {
                Err(Fault::Damaged { offset, .. }) => assert_eq!(offset, place, "{bytes:?}"),
                other => panic!("{bytes:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_name_without_end_takes_no_memory() {
        let mut bytes = b"\x1f\x8b\x08\x08\0\0\0\0\0\x03".to_vec();
        bytes.extend(std::iter::repeat_n(b'n', 100_000));
        bytes.push(0);
        assert_eq!(parse(&bytes).expect("reads").name, None);
    }
}
