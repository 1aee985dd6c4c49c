//! Errors and notices about an archive.

use std::fmt;
use std::io;

use thiserror::Error;

/// An error after which the archive cannot be read on.
#[derive(Debug, Error)]
pub enum FormatError {
    /// The archive could not be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// The archive ends within a header or the content of an entry.
    #[error("Unexpected EOF in archive")]
    Truncated {
        /// Number of bytes that the archive has.
        offset: u64,
    },
    /// The archive is invalid, or demands more memory than any valid archive does.
    #[error("{what} (at byte {offset} of the archive)")]
    Damaged {
        /// Offset of the invalid header, in bytes from the start of the archive.
        offset: u64,
        /// A description of the damage.
        what: String,
    },
}

/// The subject of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeSubject {
    /// An error: the exit status must reflect it.
    Error,
    /// The archive ends with one block of NULs instead of two.
    LoneZero,
    /// An unknown keyword in an extended header.
    Keyword,
    /// An unknown type of entry.
    Type,
}

/// A message about an archive that can be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Offset in the archive, in bytes.
    pub offset: u64,
    /// The subject of the notice.
    pub about: NoticeSubject,
    /// The message, in GNU tar's words if it has this message.
    pub text: String,
}

impl Notice {
    pub(super) fn error(offset: u64, text: impl Into<String>) -> Notice {
        Notice { offset, about: NoticeSubject::Error, text: text.into() }
    }

    /// Whether the exit status must reflect the notice.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.about == NoticeSubject::Error
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
