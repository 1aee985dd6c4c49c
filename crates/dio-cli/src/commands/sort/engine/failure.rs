//! What ends a sort early.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Why there is no, or no complete, output.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An input cannot be opened.
    Input { name: OsString, error: io::Error },
    /// Reading an input failed.
    Read { name: OsString, error: io::Error },
    /// A temporary file, or the directory for it: what was being done ("create", "write", "read"), and with what.
    Temporary { doing: &'static str, path: PathBuf, error: io::Error },
    /// The program that compresses temporary files could not be started, or failed.
    Program { name: OsString, what: String },
    /// The output cannot be opened.
    Open(io::Error),
    /// Writing the output failed.
    Write(io::Error),
    /// There is no memory for the buffers.
    Memory(io::Error),
    /// A signal asked to stop; nothing is left behind.
    Stopped,
}

/// A result that ends the sort when it is an error.
pub(crate) type Outcome<T> = Result<T, Failure>;
