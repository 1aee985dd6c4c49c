//! Failures that end a sort early.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// The reason why the output is missing or incomplete.
#[derive(Debug)]
pub(crate) enum SortFailure {
    /// An input cannot be opened.
    Input { name: OsString, error: io::Error },
    /// Reading an input failed; or it is a directory.
    Read { name: OsString, error: io::Error },
    /// A temporary file cannot be made in this directory.
    Create { directory: PathBuf, error: io::Error },
    /// A temporary file in this directory cannot be written.
    Keep { directory: PathBuf, error: io::Error },
    /// A temporary file in this directory cannot be read again.
    Fetch { directory: PathBuf, error: io::Error },
    /// The program that compresses temporary files cannot be started.
    Start { program: OsString, error: io::Error },
    /// The program that compresses temporary files failed. `decompress` says whether it was called
    /// with `-d`; `how` describes its end.
    Program { program: OsString, decompress: bool, how: String },
    /// The output cannot be opened.
    Open(io::Error),
    /// Writing the output failed.
    Write(io::Error),
    /// Memory for the buffers cannot be allocated, or a thread cannot be started.
    Memory(io::Error),
}

/// A result that ends the sort when it is an error.
pub(crate) type SortResult<T> = Result<T, SortFailure>;
