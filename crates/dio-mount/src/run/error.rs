//! Errors while the mounts of a command are set up.

use std::path::PathBuf;

use rustix::io::Errno;

/// The reasons why the mounts of a command could not be set up.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    /// A directory cannot be opened.
    #[error("'{}': {}", .path.display(), words(.errno))]
    Directory {
        /// The path as it was given.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// The root directory was given. A mount over it would be invisible to processes whose root it
    /// already is.
    #[error(
        "the root directory cannot be mounted over itself; name the directories below it that \
         matter"
    )]
    Root,
    /// Private mounts are not permitted.
    #[error("private mounts are refused: {}: {}", words(.errno), .cure)]
    Namespace {
        /// The kernel's error.
        errno: Errno,
        /// Advice.
        cure: &'static str,
    },
    /// A file of `/proc` that sets up a user namespace cannot be written.
    #[error("cannot write {file}: {}", words(.errno))]
    Map {
        /// The file.
        file: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
    /// `/dev/fuse` cannot be opened.
    #[error("cannot open /dev/fuse: {}: {}", words(.errno), .cure)]
    Device {
        /// The kernel's error.
        errno: Errno,
        /// Advice.
        cure: &'static str,
    },
    /// A directory cannot be mounted.
    #[error("cannot mount '{}': {}", .path.display(), words(.errno))]
    Mount {
        /// The directory.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// The working directory cannot be entered again.
    #[error("cannot enter '{}' through its mount: {}", .path.display(), words(.errno))]
    WorkingDirectory {
        /// The working directory.
        path: PathBuf,
        /// The kernel's error.
        errno: Errno,
    },
    /// The server cannot be reached.
    #[error("the server is gone: {}", words(.0))]
    Server(Errno),
    /// The server cannot serve a directory.
    #[error("cannot serve '{}': {}", .path.display(), .reason)]
    Refused {
        /// The directory.
        path: PathBuf,
        /// The server's message.
        reason: String,
    },
}

fn words(errno: &Errno) -> String {
    dio::file::words(*errno)
}
