//! Pieces of files that are read back after they were written, if possible by another process than
//! the one that wrote them.

use std::ffi::CString;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::dirs::Dir;
use super::facts::FileFacts;
use crate::tool::Mark;

/// The digest of the digests of blocks, with their offsets.
pub(crate) type PieceDigest = [u8; 32];

/// Ranges of a target that were written, of about one piece.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WrittenPiece {
    /// Both sides cut their blocks from these ranges in the same way.
    pub(crate) ranges: Vec<Range<u64>>,
    /// The digest of what was read from the source. Without it (a clone, a piece that an earlier
    /// attempt noted) both files have to be read.
    pub(crate) digest: Option<PieceDigest>,
    /// The process that has written the ranges, unless an earlier attempt did.
    pub(crate) writer: Option<usize>,
    /// With the last piece of a file: all ranges that were transferred, outside of which the target
    /// has to read as zeros.
    pub(crate) transferred: Option<Vec<Range<u64>>>,
}

impl WrittenPiece {
    /// The first byte of the piece.
    pub(crate) fn start(&self) -> u64 {
        self.ranges.first().map_or(0, |first| first.start)
    }

    /// Number of bytes in the ranges.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }
}

/// The pieces of a large file that several processes have written, and that have to be read back.
pub(crate) struct SharedPieces {
    pub(crate) pieces: Vec<WrittenPiece>,
    /// Noted when it is known whether they are right: an attempt that is cut short before copies no
    /// piece again.
    pub(crate) complete: Option<Mark>,
}

/// A file whose pieces are read back.
pub(crate) struct CheckedFile {
    pub(crate) dir: Arc<Dir>,
    /// Names in both directories. That of the target may be a temporary one.
    pub(crate) names: (CString, CString),
    pub(crate) facts: FileFacts,
    /// The size that the target should have.
    pub(crate) size: u64,
}

/// What other processes have found in a file.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The lowest byte that differs.
    pub(crate) difference: Option<u64>,
    /// Pieces that no other process could read back, because none could open the file.
    pub(crate) unchecked: Vec<WrittenPiece>,
}
