//! Errors of starting the control socket and the exporters of a mount.

use std::io;
use std::path::PathBuf;

use dio::file::words_of;

/// Why control or an exporter could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The device number of the mount is not known.
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
        /// The one that was tried last.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error("cannot listen on '{path}': {}", words_of(.source))]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The kernel's answer; `AddrInUse` if somebody is listening there.
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
