//! Why a benchmark gave no result.

use dio::quote::quoted;
use std::io;

use dio::file::words_of;
use std::path::{Path, PathBuf};

/// Why a benchmark gave no result. There is no partial one: a table with a hole would be read as
/// complete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A system call failed.
    #[error("cannot {operation} {}: {}", quoted(path), words_of(source))]
    System {
        /// What was being done, as a verb phrase.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file of the library failed.
    #[error(transparent)]
    File(#[from] dio::FileError),
    /// A copy failed.
    #[error(transparent)]
    Transfer(#[from] dio::transfer::TransferError),
    /// A log failed.
    #[error(transparent)]
    Wal(#[from] dio_wal::WalError),
    /// There is no I/O to be had.
    #[error(transparent)]
    Io(#[from] dio::IoError),
    /// The pages of a file did not leave the cache, so a cold run cannot be had.
    #[error("{} is not cold: {pages} of its pages stay in the page cache", quoted(path))]
    NotCold {
        /// The file.
        path: PathBuf,
        /// Pages still resident.
        pages: u64,
    },
    /// A command that is measured failed.
    #[error("'{command}' failed: {status}")]
    Command {
        /// The command.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// What was asked for makes no measurement.
    #[error("{0}")]
    Asked(String),
}

impl BenchError {
    /// An error of a system call on a path.
    pub(crate) fn system<E: Into<io::Error>>(operation: &'static str, path: &Path) -> impl FnOnce(E) -> BenchError {
        move |source| BenchError::System { operation, path: path.to_owned(), source: source.into() }
    }
}
