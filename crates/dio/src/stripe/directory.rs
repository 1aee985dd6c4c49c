//! Removes names, and makes changes of names in a directory durable.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode as Permissions, OFlags, fsync, openat, statat, syncfs, unlinkat,
};
use rustix::io::Errno;

use crate::identity::FileId;

/// The directory of a path.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the names in a directory durable.
///
/// # Errors
/// What opening and `fsync(2)` answer.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    match fs::File::open(path)?.sync_all() {
        // Not every file system syncs directories (EINVAL, fsync(2)).
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Ok(()),
        other => other,
    }
}

/// Removes a name, unless it belongs to another file than `looked_at` by now: a user who may rename
/// in the directory, or above it, must not be able to have another file removed.
///
/// # Errors
/// ESTALE if the name belongs to another file by now; what `unlinkat(2)` answers.
pub fn remove_name_of(path: &Path, looked_at: FileId) -> Result<(), Errno> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, directory_of(path), flags, Permissions::empty())?;
    remove_name_in(&directory, name, looked_at)
}

/// As [`remove_name_of`], for a name in an open directory.
pub(crate) fn remove_name_in(
    directory: impl AsFd,
    name: impl rustix::path::Arg + Copy,
    looked_at: FileId,
) -> Result<(), Errno> {
    if FileId::of(&statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?) != looked_at {
        return Err(Errno::STALE);
    }
    unlinkat(&directory, name, AtFlags::empty())
}

/// A directory in which a name is about to change. It is opened before the change, so that an error
/// comes while there is nothing to undo.
#[derive(Debug)]
pub(crate) struct NameDirectory(
    /// `None` for a directory that may be written but not read.
    Option<OwnedFd>,
);

impl NameDirectory {
    /// # Errors
    /// What opening the directory answers.
    pub(crate) fn of(directory: &Path) -> Result<NameDirectory, Errno> {
        NameDirectory::open(CWD, directory)
    }

    /// The directory of `name`, which is relative to `dir`.
    ///
    /// # Errors
    /// As [`NameDirectory::of`].
    pub(crate) fn beside(dir: BorrowedFd<'_>, name: &CStr) -> Result<NameDirectory, Errno> {
        let name = name.to_bytes();
        let last = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        NameDirectory::open(dir, if last == 0 { &b"."[..] } else { &name[..last] })
    }

    fn open(dir: BorrowedFd<'_>, path: impl rustix::path::Arg) -> Result<NameDirectory, Errno> {
        match openat(
            dir,
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Permissions::empty(),
        ) {
            Err(Errno::ACCESS) => Ok(NameDirectory(None)),
            other => other.map(|directory| NameDirectory(Some(directory))),
        }
    }

    /// Makes the changes durable. `file` is any open file of the same file system: if the directory
    /// cannot be read, the whole file system is synced.
    ///
    /// # Errors
    /// What `fsync(2)` or `syncfs(2)` answer. Not every file system syncs directories (EINVAL),
    /// which is no error.
    pub(crate) fn sync(&self, file: impl AsFd) -> Result<(), Errno> {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::lstat;

    use super::*;

    #[test]
    fn a_name_that_leads_elsewhere_by_now_stays() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["target", "other"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("object"), name).unwrap();
        }
        let object = at("target/object");
        let looked_at = FileId::of(&lstat(&object).unwrap());
        // The directory has been swapped.
        fs::rename(at("target"), at("moved")).unwrap();
        std::os::unix::fs::symlink("other", at("target")).unwrap();
        assert_eq!(remove_name_of(&object, looked_at), Err(Errno::STALE));
        assert_eq!(fs::read_to_string(at("other/object")).unwrap(), "other");
        // Or the object.
        let object = at("moved/object");
        fs::rename(&object, at("kept")).unwrap();
        assert_eq!(remove_name_of(&object, looked_at), Err(Errno::NOENT));
        std::os::unix::fs::symlink("../other/object", &object).unwrap();
        assert_eq!(remove_name_of(&object, looked_at), Err(Errno::STALE));
        fs::rename(at("kept"), &object).unwrap();
        assert_eq!(remove_name_of(&object, looked_at), Ok(()));
        assert!(!object.exists() && at("other/object").exists());
    }
}
