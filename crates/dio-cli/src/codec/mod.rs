//! Compressed formats as a library: bytes in, bytes out, on all cores, in bounded memory. The
//! command-line grammar is elsewhere.
//!
//! An encoder reads its input to the end and writes one compressed stream. A decoder does the
//! reverse; when it fails, it reports where in the compressed input the damage is. Both keep the
//! order of the bytes and report the first error in that order. Neither opens, syncs or removes
//! files: the commands do that.

pub mod gzip;
pub mod pipe;
pub mod zstd;

mod buffers;

use std::borrow::Cow;
use std::io;

/// A callback that is polled; `true` ends the work early.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Bytes from the beginning of a stream that [`detect`] needs to recognise all formats; it accepts
/// fewer.
pub const MAGIC_LEN: usize = 4;

/// A compressed format that dio reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// Returns the format of a stream that begins with these bytes, if dio reads that format. It
/// compares the magic numbers of RFC 1952 section 2.3.1 and RFC 8878 sections 3.1.1 and 3.1.2 (a
/// skippable frame may come first).
///
/// [`MAGIC_LEN`] bytes are enough; from fewer, only a gzip stream can be recognised.
pub fn detect(first_bytes: &[u8]) -> Option<Format> {
    match first_bytes {
        [0x1f, 0x8b, ..] => Some(Format::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Format::Zstd),
        _ => None,
    }
}

/// The totals of one encoder or decoder run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodecTotals {
    /// Bytes taken from the input that belong to the stream.
    pub read: u64,
    /// Bytes given to the output.
    pub written: u64,
    /// Complete members (gzip) or frames (zstd).
    pub members: u64,
    /// The name in the header of the first gzip member, without its terminator, if there is one.
    pub name: Option<Vec<u8>>,
    /// The time in the header of the first gzip member, in seconds since 1970, if it is not 0.
    pub mtime: Option<u32>,
    /// The check value of the last member or frame that has one: a gzip member's CRC-32, a zstd
    /// frame's checksum.
    pub check: Option<u32>,
}

/// The kind of damage at an offset of a compressed stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The input ends within a member or frame.
    #[error("unexpected end of file")]
    UnexpectedEnd,
    /// The header violates the format, or needs a feature that dio does not support.
    #[error("{0}")]
    Header(Cow<'static, str>),
    /// The compressed data is invalid: no encoder produces it.
    #[error("invalid compressed data: {0}")]
    Data(Cow<'static, str>),
    /// The checksum of the data differs from the one stored with it.
    #[error(
        "invalid compressed data: the checksum is {computed:08x}, not the {stored:08x} stored with \
         it"
    )]
    Checksum {
        /// The checksum in the stream.
        stored: u32,
        /// The checksum of the decompressed data.
        computed: u32,
    },
    /// The length of the data differs from the one stored with it (for gzip: modulo 2^32).
    #[error("invalid compressed data: the length is {computed}, not the {stored} stored with it")]
    Length {
        /// The length in the stream.
        stored: u64,
        /// The length of the decompressed data.
        computed: u64,
    },
    /// Both the checksum and the length of the data differ from the stored ones.
    #[error(
        "invalid compressed data: checksum and length are {:08x} and {}, not the {:08x} and {} \
         stored with it",
        .computed.0, .computed.1, .stored.0, .stored.1
    )]
    ChecksumAndLength {
        /// The checksum and the length in the stream.
        stored: (u32, u64),
        /// The checksum and the length of the decompressed data.
        computed: (u32, u64),
    },
}

/// Why encoding failed. The output is incomplete and useless.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The input could not be read.
    #[error("reading: {0}")]
    Read(#[source] io::Error),
    /// The output could not be written.
    #[error("writing: {0}")]
    Write(#[source] io::Error),
    /// The stop callback ended the work.
    #[error("stopped")]
    Stopped,
}

impl From<EncodeError> for io::Error {
    fn from(error: EncodeError) -> io::Error {
        match error {
            EncodeError::Read(error) | EncodeError::Write(error) => error,
            // `Interrupted` would make callers retry.
            EncodeError::Stopped => io::Error::other(error),
        }
    }
}

/// Why a stream could not be decoded completely.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The input could not be read.
    #[error("reading: {0}")]
    Read(#[source] io::Error),
    /// The output could not be written.
    #[error("writing: {0}")]
    Write(#[source] io::Error),
    /// The stop callback ended the work.
    #[error("stopped")]
    Stopped,
    /// The input does not begin as the format does; nothing was written.
    #[error("not in the format")]
    NotInFormat,
    /// The stream is damaged.
    #[error("{what}, at byte {offset}")]
    Damaged {
        /// The offset of the damage in the compressed input, from 0, as close as can be determined,
        /// and never before the end of the sound part. For a wrong checksum or length it is the
        /// offset of that field; the damage is somewhere in the member or frame that ends there.
        offset: u64,
        /// The kind of damage.
        what: Damage,
        /// Bytes of the output that are verified: they belong to members or frames that were
        /// complete and correct. Output beyond them may be right or wrong.
        sound: u64,
        /// The bytes read up to the damage, and the bytes written.
        moved: CodecTotals,
    },
    /// The stream is sound and all of it was written, but other bytes follow it.
    #[error("trailing garbage from byte {offset}")]
    TrailingGarbage {
        /// The offset of the first byte of garbage in the compressed input.
        offset: u64,
        /// The totals of the sound stream.
        moved: CodecTotals,
    },
}

impl From<DecodeError> for io::Error {
    /// Damage becomes `InvalidData` (an early end `UnexpectedEof`) with the [`DecodeError`] inside.
    fn from(error: DecodeError) -> io::Error {
        let kind = match error {
            DecodeError::Read(error) | DecodeError::Write(error) => return error,
            // `Interrupted` would make callers retry.
            DecodeError::Stopped => io::ErrorKind::Other,
            DecodeError::Damaged { what: Damage::UnexpectedEnd, .. } => {
                io::ErrorKind::UnexpectedEof
            }
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::{Format, detect};

    #[test]
    fn formats_are_told_by_their_first_bytes() {
        assert_eq!(detect(&[0x1f, 0x8b, 8, 0]), Some(Format::Gzip));
        assert_eq!(detect(&[0x1f, 0x8b]), Some(Format::Gzip));
        assert_eq!(detect(&[0x28, 0xb5, 0x2f, 0xfd]), Some(Format::Zstd));
        assert_eq!(detect(&[0x5f, 0x2a, 0x4d, 0x18]), Some(Format::Zstd));
        for other in [
            &b""[..],
            b"\x1f",
            b"\x28\xb5\x2f",
            b"\x60\x2a\x4d\x18",
            b"BZh9",
            b"\xfd7zXZ",
            b"\x1f\x9d\x90",
        ] {
            assert_eq!(detect(other), None, "{other:?}");
        }
    }
}
