//! Why a benchmark gave no result.

use dio::quote::quoted;
use std::io;

use dio::file::words_of;
use std::path::{Path, PathBuf};

/// Why a benchmark gave no result. There are no partial results: a table with a gap would be read
/// as complete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A system call failed.
    #[error("cannot {operation} {}: {}", quoted(path), words_of(source))]
    System {
        /// The failed operation, as a verb phrase.
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
    /// No I/O engine is available.
    #[error(transparent)]
    Io(#[from] dio::IoError),
    /// The pages of a file did not leave the cache, so a cold run is impossible.
    #[error("{} is not cold: {pages} of its pages stay in the page cache", quoted(path))]
    NotCold {
        /// The file.
        path: PathBuf,
        /// Pages still resident.
        pages: u64,
    },
    /// A measured command failed.
    #[error("'{command}' failed: {status}")]
    Command {
        /// The command.
        command: String,
        /// Its exit status.
        status: std::process::ExitStatus,
    },
    /// The request makes no sense as a measurement, or cannot be carried out.
    #[error("{0}")]
    Asked(String),
}

impl BenchError {
    /// Creates an error of a system call on a path.
    pub(crate) fn system<E: Into<io::Error>>(
        operation: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> BenchError {
        move |source| BenchError::System { operation, path: path.to_owned(), source: source.into() }
    }
}
