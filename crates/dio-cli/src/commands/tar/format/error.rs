//! What can be wrong with an archive.

use std::fmt;
use std::io;

use thiserror::Error;

/// Reading the archive cannot go on.
#[derive(Debug, Error)]
pub enum FormatError {
    /// The archive could not be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It ends within a header or the content of an entry.
    #[error("Unexpected EOF in archive")]
    Truncated {
        /// Bytes that were there.
        offset: u64,
    },
    /// It says something that cannot be, or asks for more memory than anything sound does.
    #[error("{what} (at byte {offset} of the archive)")]
    Damaged {
        /// Where the header with it begins, in bytes from the start of the archive.
        offset: u64,
        /// What it says.
        what: String,
    },
}

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Something is wrong: the exit status must say so.
    Error,
    /// The archive ends with one block of NULs instead of two.
    LoneZero,
    /// A keyword of an extended header that nobody here knows.
    Keyword,
    /// A type of entry that nobody here knows.
    Type,
}

/// Something to tell about an archive that can be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Where in the archive, in bytes.
    pub offset: u64,
    /// What it is about.
    pub about: About,
    /// What to say, in the words of GNU tar where it has some.
    pub text: String,
}

impl Notice {
    pub(super) fn error(offset: u64, text: impl Into<String>) -> Notice {
        Notice { offset, about: About::Error, text: text.into() }
    }

    /// Whether the exit status must say so.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.about == About::Error
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
