//! Why a command is not recorded.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::watch::WatchError;

/// What was recorded is in the trace's file after this time at the latest.
pub(super) const FLUSH: Duration = Duration::from_millis(250);

/// Why a command was not recorded, or not wholly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Its I/O cannot be watched; the command was not started.
    #[error("{0}")]
    Watch(#[from] WatchError),
    /// It cannot be started.
    #[error("cannot run '{program}': {error}")]
    Start {
        /// The program's name.
        program: String,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// A process cannot be watched.
    #[error("cannot watch process {pid}: {error}")]
    Process {
        /// Its number.
        pid: u32,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The users of a directory cannot be found.
    #[error("cannot watch who uses '{}': {error}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        error: io::Error,
    },
    /// The trace cannot be written. The command went on to its end.
    #[error("cannot write the trace: {0}")]
    Trace(#[source] io::Error),
}

impl RecordError {
    /// A program cannot be started.
    pub(super) fn not_started(program: &OsStr, error: io::Error) -> RecordError {
        RecordError::Start { program: program.to_string_lossy().into_owned(), error }
    }
}
