//! Compressed formats as code: bytes in, bytes out, on all cores, in bounded memory. No grammar of
//! any command is here.
//!
//! An encoder reads its input to the end and writes one compressed stream; a decoder does the
//! reverse and says, when it cannot, where in the compressed input the damage is. Both keep the
//! order of the bytes and the first error in that order. Neither opens, syncs or removes anything:
//! that belongs to the commands.

pub mod gzip;
pub mod pipe;
pub mod zstd;

mod buffers;

use std::borrow::Cow;
use std::io;

/// Asked now and then whether to end early.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// Bytes of a stream's beginning that [`detect`] wants to see; fewer are fine.
pub const MAGIC_LEN: usize = 4;

/// A compressed format that dio reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// The format that a stream with these first bytes is in, if it is one of ours: by the magic
/// numbers of RFC 1952 section 2.3.1 and RFC 8878 sections 3.1.1 and 3.1.2 (a skippable frame may
/// come first).
///
/// [`MAGIC_LEN`] bytes decide; of fewer, only a gzip stream can be recognised.
pub fn detect(first_bytes: &[u8]) -> Option<Format> {
    match first_bytes {
        [0x1f, 0x8b, ..] => Some(Format::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Format::Zstd),
        _ => None,
    }
}

/// What an encoder or a decoder did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes taken from the input that belong to the stream.
    pub read: u64,
    /// Bytes given to the output.
    pub written: u64,
    /// Members (gzip) or frames (zstd) that were whole.
    pub members: u64,
    /// The name in the header of the first gzip member, without its terminator, if there is one.
    pub name: Option<Vec<u8>>,
    /// The time in the header of the first gzip member, in seconds since 1970, if it is not 0.
    pub mtime: Option<u32>,
    /// The check value of the last member or frame that has one: a gzip member's CRC-32, a zstd
    /// frame's checksum.
    pub check: Option<u32>,
}

/// What is wrong at a place in a compressed stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The input ends within a member or frame.
    #[error("unexpected end of file")]
    UnexpectedEnd,
    /// A header that is not as the format wants it, or wants something that dio does not do.
    #[error("{0}")]
    Header(Cow<'static, str>),
    /// Compressed data that nothing could have been compressed to.
    #[error("invalid compressed data: {0}")]
    Data(Cow<'static, str>),
    /// The data does not have the check value that was stored with it.
    #[error("invalid compressed data: the checksum is {computed:08x}, not the {stored:08x} stored with it")]
    Checksum {
        /// In the stream.
        stored: u32,
        /// Of the data.
        computed: u32,
    },
    /// The data does not have the length that was stored with it (for gzip: modulo 2^32).
    #[error("invalid compressed data: the length is {computed}, not the {stored} stored with it")]
    Length {
        /// In the stream.
        stored: u64,
        /// Of the data.
        computed: u64,
    },
    /// Neither check value nor length is that of the data.
    #[error(
        "invalid compressed data: checksum and length are {:08x} and {}, not the {:08x} and {} stored with it",
        .computed.0, .computed.1, .stored.0, .stored.1
    )]
    ChecksumAndLength {
        /// In the stream: the check value and the length.
        stored: (u32, u64),
        /// Of the data.
        computed: (u32, u64),
    },
}

/// Why nothing whole was encoded. What was written until then is of no use.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The input could not be read.
    #[error("reading: {0}")]
    Read(#[source] io::Error),
    /// The output could not be written.
    #[error("writing: {0}")]
    Write(#[source] io::Error),
    /// A stop was asked for.
    #[error("stopped")]
    Stopped,
}

impl From<EncodeError> for io::Error {
    fn from(error: EncodeError) -> io::Error {
        match error {
            EncodeError::Read(error) | EncodeError::Write(error) => error,
            // Not `Interrupted`: that would be tried again.
            EncodeError::Stopped => io::Error::other(error),
        }
    }
}

/// Why a stream could not be decoded, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The input could not be read.
    #[error("reading: {0}")]
    Read(#[source] io::Error),
    /// The output could not be written.
    #[error("writing: {0}")]
    Write(#[source] io::Error),
    /// A stop was asked for.
    #[error("stopped")]
    Stopped,
    /// The input does not begin as the format does; nothing was written.
    #[error("not in the format")]
    NotInFormat,
    /// The stream is damaged.
    #[error("{what}, at byte {offset}")]
    Damaged {
        /// In the compressed input, from 0: as near as can be known, and never before the sound
        /// part. A wrong checksum or length is at its own place in the stream: the damage is
        /// somewhere in the member or frame that ends there.
        offset: u64,
        /// What is wrong.
        what: Damage,
        /// How many bytes of the output are sound: they belong to members or frames that were whole
        /// and right. What was written beyond them may be right or not.
        sound: u64,
        /// What was read up to the damage, and what was written.
        moved: Moved,
    },
    /// The stream is sound and all of it was written, but other bytes follow it.
    #[error("trailing garbage from byte {offset}")]
    TrailingGarbage {
        /// Where it begins in the compressed input.
        offset: u64,
        /// What the sound stream was.
        moved: Moved,
    },
}

impl From<DecodeError> for io::Error {
    /// Damage is `InvalidData` (an early end `UnexpectedEof`) with the [`DecodeError`] inside.
    fn from(error: DecodeError) -> io::Error {
        let kind = match error {
            DecodeError::Read(error) | DecodeError::Write(error) => return error,
            // Not `Interrupted`: that would be tried again.
            DecodeError::Stopped => io::ErrorKind::Other,
            DecodeError::Damaged { what: Damage::UnexpectedEnd, .. } => io::ErrorKind::UnexpectedEof,
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
        for other in [&b""[..], b"\x1f", b"\x28\xb5\x2f", b"\x60\x2a\x4d\x18", b"BZh9", b"\xfd7zXZ", b"\x1f\x9d\x90"] {
            assert_eq!(detect(other), None, "{other:?}");
        }
    }
}
