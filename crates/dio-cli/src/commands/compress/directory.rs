//! The directories that contain sources and targets.
//!
//! If a path is looked up twice, it may lead to two files, because another user may rename
//! directories on the way. So the directory of a file is looked up once: the source is opened in
//! it, the target is named in it, and the source is removed from it.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dio::names::{self, FileId};
use dio_sys::uninterrupted;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, fstat, openat, statat};
use rustix::io::Errno;

use crate::tool::deep::LONGEST;
use crate::tool::target::naming::{open_directory, split};

/// A directory that is opened when it is needed. When it is closed and opened again, it must be the
/// same directory; otherwise opening fails.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The path by which it is opened.
    path: PathBuf,
    /// Device and inode, once it has been opened.
    identity: Cell<Option<FileId>>,
    open: RefCell<Option<Arc<OwnedFd>>>,
}

impl Directory {
    /// Returns the directory that contains an operand.
    pub(crate) fn of_operand(path: &Path) -> Directory {
        Directory {
            path: split(path).0.to_owned(),
            identity: Cell::new(None),
            open: RefCell::new(None),
        }
    }

    /// Returns a directory that is open as `fd`; `path` was used to open it.
    ///
    /// # Errors
    /// Errors of `fstat(2)`.
    pub(crate) fn opened(path: &Path, fd: OwnedFd) -> Result<Directory, Errno> {
        let identity = Cell::new(Some(FileId::of(&fstat(&fd)?)));
        Ok(Directory { path: path.to_owned(), identity, open: RefCell::new(Some(Arc::new(fd))) })
    }

    /// Returns the descriptor, opening the directory if needed.
    ///
    /// # Errors
    /// ENOENT if the path leads to another directory now; errors of `open(2)`.
    pub(crate) fn open(&self) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(open) = &*self.open.borrow() {
            return Ok(Arc::clone(open));
        }
        let fd = open_directory(&self.path)?;
        let found = FileId::of(&fstat(&fd)?);
        if self.identity.get().is_some_and(|identity| identity != found) {
            return Err(Errno::NOENT);
        }
        self.identity.set(Some(found));
        Ok(Arc::clone(self.open.borrow_mut().insert(Arc::new(fd))))
    }

    /// Closes the directory until it is needed again, so that a tree may be deeper than the limit
    /// of descriptors.
    pub(crate) fn close(&self) {
        *self.open.borrow_mut() = None;
    }

    /// Opens the entry with the last name of `path`, which is a path into this directory.
    ///
    /// # Errors
    /// ENAMETOOLONG if the kernel would not accept the whole path; errors of `openat(2)`.
    pub(crate) fn open_entry(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let (dir, name) = self.entry(path)?;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        uninterrupted(|| openat(&dir, name, flags, Mode::empty()))
    }

    /// Calls [`names::statat`] for the last name of `path`.
    ///
    /// # Errors
    /// Errors of [`Directory::open_entry`].
    pub(crate) fn stat_entry(&self, path: &Path, flags: AtFlags) -> Result<Stat, Errno> {
        let (dir, name) = self.entry(path)?;
        names::statat(&dir, name, flags)
    }

    fn entry<'a>(&self, path: &'a Path) -> Result<(Arc<OwnedFd>, &'a OsStr), Errno> {
        if path.as_os_str().len() >= LONGEST {
            return Err(Errno::NAMETOOLONG);
        }
        Ok((self.open()?, split(path).1))
    }

    /// Returns the paths and file types of the entries, in the order of their names, and the error
    /// that ended the reading, if any.
    pub(crate) fn list(&self) -> (Vec<(PathBuf, FileType)>, Result<(), Errno>) {
        let mut found: Vec<(OsString, FileType)> = Vec::new();
        let read = self.open().and_then(|fd| read_names(&fd, &mut found));
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        (found.into_iter().map(|(name, kind)| (self.path.join(name), kind)).collect(), read)
    }
}

/// Adds the names and file types of a directory's entries.
fn read_names(fd: &OwnedFd, found: &mut Vec<(OsString, FileType)>) -> Result<(), Errno> {
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut listing = RawDir::new(fd, buffer.spare_capacity_mut());
    while let Some(entry) = listing.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            // Not every file system returns the type. If the entry is gone, that is reported when
            // it is processed.
            FileType::Unknown => statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            kind => kind,
        };
        found.push((OsString::from_vec(name.to_bytes().to_vec()), kind));
    }
    Ok(())
}

/// Removes the source `path` in `dir`, which was examined before. A file that got its name since
/// then stays.
pub(super) fn remove(dir: &OwnedFd, path: &Path, looked_at: FileId) -> Result<(), Errno> {
    let name = CString::new(split(path).1.as_bytes()).map_err(|_| Errno::INVAL)?;
    let now = statat(dir, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileId::of(&now) == looked_at {
        return names::unlinkat(dir, &name);
    }
    // With force, a link was followed. The link is removed, as the original tools do, and its
    // target stays.
    let is_link = FileType::from_raw_mode(now.st_mode) == FileType::Symlink;
    if is_link { names::unlinkat(dir, &name) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_stays_the_same_whatever_its_path_leads_to() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for (dir, text) in [("here", "mine"), ("other", "not mine")] {
            std::fs::create_dir(at(dir)).unwrap();
            std::fs::write(at(dir).join("file"), text).unwrap();
        }
        let path = at("here/file");
        let size = |dir: &Directory| {
            dir.stat_entry(&path, AtFlags::SYMLINK_NOFOLLOW).map(|stat| stat.st_size)
        };
        let dir = Directory::of_operand(&path);
        assert_eq!(size(&dir), Ok(4));
        std::fs::rename(at("here"), at("gone")).unwrap();
        symlink("other", at("here")).unwrap();
        assert_eq!(size(&dir), Ok(4));
        assert_eq!(dir.list().0, [(path.clone(), FileType::RegularFile)]);
        // By its path, another directory would be opened.
        dir.close();
        assert_eq!(size(&dir), Err(Errno::NOENT));
        std::fs::remove_file(at("here")).unwrap();
        symlink("gone", at("here")).unwrap();
        assert_eq!(size(&dir), Ok(4));
    }

    #[test]
    fn what_has_got_the_name_of_a_source_stays() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        let dir = open_directory(scratch.path()).unwrap();
        std::fs::write(&path, "old").unwrap();
        let old = FileId::of_metadata(&path.metadata().unwrap());
        std::fs::rename(&path, scratch.path().join("kept")).unwrap();
        std::fs::write(&path, "new").unwrap();
        assert_eq!((remove(&dir, &path, old), path.exists()), (Ok(()), true));
        let new = FileId::of_metadata(&path.metadata().unwrap());
        assert_eq!((remove(&dir, &path, new), path.exists()), (Ok(()), false));
    }
}
