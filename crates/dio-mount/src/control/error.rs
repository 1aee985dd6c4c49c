//! Errors of starting the control socket and the exporters of a mount.

use std::io;
use std::path::PathBuf;

use dio::file::words_of;

/// The reasons why the control socket or an exporter could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The device number of the mount could not be determined.
    #[error("cannot look at '{path}': {}", words_of(.source))]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// There is no directory that is safe for the socket.
    #[error("no directory for the control socket: '{path}': {}", words_of(.source))]
    Directory {
        /// The directory that was tried last.
        path: PathBuf,
        /// The error of its creation or check.
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error("cannot listen on '{path}': {}", words_of(.source))]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The kernel's answer; `AddrInUse` if another process listens there.
        source: io::Error,
    },
    /// The file of statistics cannot be written.
    #[error("cannot write '{path}': {}", words_of(.source))]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}
