//! Errors of transfers.

use crate::quote::quoted;
use std::io;
use std::path::PathBuf;

use crate::file::FileError;

/// Why a transfer did not complete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// Reading failed.
    #[error(transparent)]
    Source(FileError),
    /// Writing failed.
    #[error(transparent)]
    Target(FileError),
    /// The source ended before the size it had at the start.
    #[error("{} shrank while it was read: it ends at byte {found}, not {expected}", quoted(path))]
    Shrunk {
        /// The source.
        path: PathBuf,
        /// Where the block should have ended.
        expected: u64,
        /// Where the file ended.
        found: u64,
    },
    /// The source is longer than it was at the start: something writes to it.
    #[error("{} grew while it was read: from {expected} to {found} bytes", quoted(path))]
    Grew {
        /// The source.
        path: PathBuf,
        /// Its size at the start.
        expected: u64,
        /// Its size at the end.
        found: u64,
    },
    /// The watcher stopped the transfer.
    #[error("stopped")]
    Stopped,
    /// The engine or its memory failed.
    #[error("the I/O engine failed: {0}")]
    Engine(io::Error),
}
