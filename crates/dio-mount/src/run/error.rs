//! Errors of the steps that give a command its mounts.

use std::path::PathBuf;

use rustix::io::Errno;

/// Why a command could not be given its mounts.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RunError {
    /// A directory cannot be opened.
    #[error("'{}': {}", .path.display(), words(.errno))]
    Directory {
        /// As it was given.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// The root directory: a mount over it would not be seen by those whose root it already is.
    #[error("the root directory cannot be mounted over itself; name the directories below it that matter")]
    Root,
    /// There are no private mounts.
    #[error("private mounts are refused: {}: {}", words(.errno), .cure)]
    Namespace {
        /// Why.
        errno: Errno,
        /// What to do about it.
        cure: &'static str,
    },
    /// A file of `/proc` by which a user namespace is set up.
    #[error("cannot write {file}: {}", words(.errno))]
    Map {
        /// Which.
        file: &'static str,
        /// Why.
        errno: Errno,
    },
    /// `/dev/fuse` cannot be opened.
    #[error("cannot open /dev/fuse: {}: {}", words(.errno), .cure)]
    Device {
        /// Why.
        errno: Errno,
        /// What to do about it.
        cure: &'static str,
    },
    /// A directory cannot be mounted.
    #[error("cannot mount '{}': {}", .path.display(), words(.errno))]
    Mount {
        /// The directory.
        path: PathBuf,
        /// Why.
        errno: Errno,
    },
    /// The working directory cannot be entered again.
    #[error("cannot enter '{}' through its mount: {}", .path.display(), words(.errno))]
    WorkingDirectory {
        /// The working directory.
        path: PathBuf,
        /// Why.
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
        /// What the server says.
        reason: String,
    },
}

fn words(errno: &Errno) -> String {
    dio::file::words(*errno)
}
