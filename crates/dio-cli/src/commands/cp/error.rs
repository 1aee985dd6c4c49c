//! Errors of a copy, with the messages of GNU cp.

use std::fmt;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::grammar::Refusal;
use crate::quote::{quoted, words};

/// An operation on one name that can fail. It is displayed as the start of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedOperation {
    Stat,
    Access,
    ReadDirectory,
    ReadLink,
    OpenSource,
    Create,
    CreateDirectory,
    MakeParent,
    CreateFifo,
    CreateSpecial,
    CreateSymlink,
    Remove,
    Read,
    Write,
    Extend,
    Sync,
    Close,
    Times,
    Owner,
    Permissions,
    SetPermissions,
    ClearPermissions,
    ListAttributes,
    GetAttributes,
    SetAttributes,
    ParentAttributes,
    Target,
    TargetDirectory,
}

impl fmt::Display for FailedOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stat => "cannot stat",
            Self::Access => "cannot access",
            Self::ReadDirectory => "error reading directory",
            Self::ReadLink => "cannot read symbolic link",
            Self::OpenSource => "cannot open",
            Self::Create => "cannot create regular file",
            Self::CreateDirectory => "cannot create directory",
            Self::MakeParent => "cannot make directory",
            Self::CreateFifo => "cannot create fifo",
            Self::CreateSpecial => "cannot create special file",
            Self::CreateSymlink => "cannot create symbolic link",
            Self::Remove => "cannot remove",
            Self::Read => "error reading",
            Self::Write => "error writing",
            Self::Extend => "failed to extend",
            Self::Sync => "error syncing",
            Self::Close => "failed to close",
            Self::Times => "preserving times for",
            Self::Owner => "failed to preserve ownership for",
            Self::Permissions => "preserving permissions for",
            Self::SetPermissions => "setting permissions for",
            Self::ClearPermissions => "clearing permissions for",
            Self::ListAttributes => "listing attributes of",
            Self::GetAttributes => "getting attributes of",
            Self::SetAttributes => "setting attributes for",
            Self::ParentAttributes => "failed to get attributes of",
            Self::Target => "target",
            Self::TargetDirectory => "target directory",
        })
    }
}

/// The reason why a file was not copied, or not completely.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    /// A system call failed.
    #[error(
        "{doing} {}{}: {}",
        quoted(path),
        if *doing == FailedOperation::OpenSource { " for reading" } else { "" },
        words(*errno)
    )]
    At { doing: FailedOperation, path: PathBuf, errno: Errno },
    #[error("cannot create hard link {} to {}: {}", quoted(path), quoted(to), words(*errno))]
    Link { path: PathBuf, to: PathBuf, errno: Errno },
    #[error("failed to clone {} from {}: {}", quoted(path), quoted(from), words(*errno))]
    Clone { path: PathBuf, from: PathBuf, errno: Errno },
    #[error("-r not specified; omitting directory {}", quoted(.0))]
    Omitting(PathBuf),
    #[error("{} and {} are the same file", quoted(.0), quoted(.1))]
    SameFile(PathBuf, PathBuf),
    #[error("cannot overwrite non-directory {} with directory {}", quoted(.0), quoted(.1))]
    DirectoryOverFile(PathBuf, PathBuf),
    #[error("cannot overwrite directory {} with non-directory", quoted(.0))]
    FileOverDirectory(PathBuf),
    #[error("will not overwrite just-created {} with {}", quoted(.0), quoted(.1))]
    JustCreated(PathBuf, PathBuf),
    #[error("will not copy {} through just-created symlink {}", quoted(.0), quoted(.1))]
    ThroughNewSymlink(PathBuf, PathBuf),
    #[error("cannot copy a directory, {}, into itself, {}", quoted(.0), quoted(.1))]
    IntoItself(PathBuf, PathBuf),
    #[error("nothing is removed from {}, because the source, {}, is in it", quoted(.1), quoted(.0))]
    DeletesSource(PathBuf, PathBuf),
    #[error("cannot copy cyclic symbolic link {}", quoted(.0))]
    Cyclic(PathBuf),
    #[error("not writing through dangling symlink {}", quoted(.0))]
    Dangling(PathBuf),
    #[error("skipping file {}, as it was replaced while being copied", quoted(.0))]
    Replaced(PathBuf),
    #[error(
        "{} was changed after a part of it was noted in the journal: remove it to copy it again",
        quoted(.0)
    )]
    NotAsNoted(PathBuf),
    #[error("{} has unknown file type", quoted(.0))]
    UnknownType(PathBuf),
    /// The library's own message: operation, path, offset, cause and cure.
    #[error("{0}")]
    Transfer(String),
    #[error("cannot start I/O: {0}")]
    Engine(String),
    /// The library's own message: this process or the system lacks descriptors or memory.
    #[error("{0}")]
    Shortage(String),
    #[error("interrupted")]
    Interrupted,
    #[error(
        "{} differs from its source at byte {offset}: it was written, but does not read back the \
         same",
        quoted(path)
    )]
    Differs { path: PathBuf, offset: u64 },
    #[error("cannot verify {}: what it takes cannot be read back", quoted(.0))]
    Unverifiable(PathBuf),
    #[error(
        "not enough space for {}: {needed} bytes are needed; it was left as it was",
        quoted(path)
    )]
    NoRoom { path: PathBuf, needed: u64 },
    #[error("{} exists but is not a directory", quoted(.0))]
    NotDirectory(PathBuf),
}

impl CopyError {
    /// Returns whether this process lacked what I/O needs, which says nothing about the files.
    pub(crate) fn is_shortage(&self) -> bool {
        match self {
            Self::Engine(_) | Self::Shortage(_) => true,
            Self::At { errno, .. } => is_shortage(*errno),
            _ => false,
        }
    }
}

/// Returns whether an error says that descriptors or memory are lacking.
pub(crate) fn is_shortage(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}

impl From<CopyError> for Refusal {
    fn from(error: CopyError) -> Refusal {
        Refusal::plain(error.to_string())
    }
}

/// Turns an errno into a [`CopyError::At`].
pub(crate) trait ErrorContext<T> {
    /// Adds the operation and the path. `path` is called only if there is an error.
    fn at(self, doing: FailedOperation, path: impl FnOnce() -> PathBuf) -> Result<T, CopyError>;
}

impl<T> ErrorContext<T> for Result<T, Errno> {
    fn at(self, doing: FailedOperation, path: impl FnOnce() -> PathBuf) -> Result<T, CopyError> {
        self.map_err(|errno| CopyError::At { doing, path: path(), errno })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_in_gnu_cp() {
        let at = |doing| CopyError::At { doing, path: "x".into(), errno: Errno::NOENT }.to_string();
        assert_eq!(at(FailedOperation::Stat), "cannot stat 'x': No such file or directory");
        assert_eq!(
            at(FailedOperation::OpenSource),
            "cannot open 'x' for reading: No such file or directory"
        );
        assert_eq!(
            CopyError::SameFile("a".into(), "b".into()).to_string(),
            "'a' and 'b' are the same file"
        );
    }
}
