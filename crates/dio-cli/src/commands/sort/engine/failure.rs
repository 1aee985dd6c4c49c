//! What ends a sort early.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Why there is no, or no complete, output.
#[derive(Debug)]
pub(crate) enum Failure {
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
    /// The program that compresses temporary files failed: what was asked of it (nothing, or `-d`),
    /// and how it ended.
    Program { program: OsString, decompress: bool, how: String },
    /// The output cannot be opened.
    Open(io::Error),
    /// Writing the output failed.
    Write(io::Error),
    /// There is no memory for the buffers, or no thread.
    Memory(io::Error),
}

/// A result that ends the sort when it is an error.
pub(crate) type Outcome<T> = Result<T, Failure>;
