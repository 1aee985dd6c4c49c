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

/// Something to tell about an archive that can be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Where in the archive, in bytes.
    pub offset: u64,
    /// Whether the exit status must say so.
    pub error: bool,
    /// What to say, in the words of GNU tar where it has some.
    pub text: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
