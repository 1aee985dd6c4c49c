//! Making durable what names a directory has.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode as Permissions, OFlags, fsync, openat, syncfs};
use rustix::io::Errno;

/// A directory in which a name is about to change. It is opened before: who could not make the change durable learns that while
/// there is nothing to take back.
#[derive(Debug)]
pub(super) struct Names(
    /// `None` of a directory that may be written, but not read.
    Option<OwnedFd>,
);

impl Names {
    /// # Errors
    /// What opening the directory answers.
    pub(super) fn of(directory: &Path) -> Result<Names, Errno> {
        Names::open(CWD, directory)
    }

    /// Those beside a name, which is looked for from `dir`.
    ///
    /// # Errors
    /// As [`Names::of`].
    pub(super) fn beside(dir: BorrowedFd<'_>, name: &CStr) -> Result<Names, Errno> {
        let name = name.to_bytes();
        let last = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        Names::open(dir, if last == 0 { &b"."[..] } else { &name[..last] })
    }

    fn open(dir: BorrowedFd<'_>, path: impl rustix::path::Arg) -> Result<Names, Errno> {
        match openat(dir, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Permissions::empty()) {
            Err(Errno::ACCESS) => Ok(Names(None)),
            other => other.map(|directory| Names(Some(directory))),
        }
    }

    /// Makes what changed durable. `file` is any open one of the same file system: where the directory cannot be read, all of
    /// that is synced.
    ///
    /// # Errors
    /// What `fsync(2)` or `syncfs(2)` answer. Not every file system syncs directories (EINVAL), which is no error.
    pub(super) fn sync(&self, file: impl AsFd) -> Result<(), Errno> {
        let synced = match &self.0 {
            Some(directory) => fsync(directory),
            None => syncfs(file),
        };
        match synced {
            Err(Errno::INVAL) => Ok(()),
            other => other,
        }
    }
}
