//! Why a sync test gave no result.

use std::io;
use std::path::{Path, PathBuf};

use dio::file::words_of;
use dio::quote::{printable, quoted};
use rustix::io::Errno;

/// Why a test failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// A system call failed.
    #[error(
        "cannot {operation} {}{}: {}{}",
        quoted(path),
        at(*offset),
        words_of(source),
        cure(source)
    )]
    System {
        /// The failed operation, as a verb phrase.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The offset in the file in bytes, if the error is about one.
        offset: Option<u64>,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The request makes no sense as a test, or cannot be carried out.
    #[error("{}", printable(.0))]
    Asked(String),
    /// The witness reported an error, or could not be reached.
    #[error("the witness {address}: {}", printable(reason))]
    Witness {
        /// Host and port.
        address: String,
        /// Its message, or the reason why there was no answer.
        reason: String,
    },
}

impl SyncError {
    /// Creates an error of a system call on a path.
    pub(crate) fn system<E: Into<io::Error>>(
        operation: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> SyncError {
        move |source| SyncError::System {
            operation,
            path: path.to_owned(),
            offset: None,
            source: source.into(),
        }
    }

    /// Creates an error of a system call at an offset of a file.
    pub(crate) fn at<E: Into<io::Error>>(
        operation: &'static str,
        path: &Path,
        offset: u64,
    ) -> impl FnOnce(E) -> SyncError {
        move |source| SyncError::System {
            operation,
            path: path.to_owned(),
            offset: Some(offset),
            source: source.into(),
        }
    }
}

fn at(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(" at offset {offset}"))
}

fn cure(error: &io::Error) -> String {
    let cure = match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::DQUOT) => "free space, or give a smaller --file-size",
        Some(Errno::ROFS) => "name a directory on a file system that is mounted read-write",
        Some(Errno::ACCESS | Errno::PERM) => "name a directory that you may write",
        Some(Errno::EXIST) => "name a file that is not there, or its directory",
        Some(Errno::MFILE) => "raise the limit of open files, ulimit -n",
        _ => return String::new(),
    };
    format!(" ({cure})")
}
