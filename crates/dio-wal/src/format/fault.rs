//! Faults of the header of a segment.

use super::identity::Identity;

/// A fault of a segment's header, or of the file that has the header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// The file is shorter than a header.
    #[error("the file is shorter than a segment header")]
    Short,
    /// The file does not begin with the magic bytes.
    #[error("it does not begin as a segment does")]
    Magic,
    /// The header's checksum is wrong.
    #[error("the checksum of its header is wrong")]
    Checksum,
    /// The header has another version of the format.
    #[error("its format is version {0}, which this program does not know")]
    Version(u32),
    /// The sizes in the header are sizes that no log has.
    #[error("blocks of {block} bytes do not make up segments of {segment} bytes")]
    Sizes {
        /// Block size in bytes.
        block: u32,
        /// Segment size in bytes.
        segment: u64,
    },
    /// The first LSN in the header does not follow from the number in the header.
    #[error("its first LSN does not belong to its number")]
    FirstLsn,
    /// The number in the header, given here, is not the one in the file's name.
    #[error("it is segment {0} by its header")]
    Number(u64),
    /// The segment belongs to the log with this identity.
    #[error("it belongs to the log {0}")]
    Foreign(Identity),
    /// The file has this many bytes, which is not the size of a segment.
    #[error("it is {0} bytes long, which is not the size of a segment")]
    Length(u64),
    /// The sizes in the header are not those of the other segments.
    #[error("its block or segment size differs from that of the other segments")]
    Differs,
}

impl HeaderFault {
    /// The offset in the segment's file, in bytes, of the field that is wrong.
    pub fn offset(&self) -> u64 {
        match self {
            HeaderFault::Short | HeaderFault::Magic => 0,
            HeaderFault::Version(_) => 8,
            HeaderFault::Sizes { .. } | HeaderFault::Differs => 12,
            HeaderFault::Foreign(_) => 24,
            HeaderFault::Number(_) => 40,
            HeaderFault::FirstLsn => 48,
            HeaderFault::Checksum => 60,
            HeaderFault::Length(bytes) => *bytes,
        }
    }
}
