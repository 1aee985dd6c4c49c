//! Files that stay hidden until they are complete.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use dio::names::temporary_name;
use dio::names::{self, path_in};
use dio_sys::fd_path;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, openat};
use rustix::io::Errno;

use crate::tool::synced;

/// Gives a complete file that was created by [`unnamed`] its name. If it is dropped before that, it
/// removes the hidden name and with it the file.
#[derive(Debug)]
pub(crate) struct Naming<D: AsFd> {
    dir: D,
    /// The hidden name that the file has until then, if any.
    hidden: Option<CString>,
    /// Whether that name stays when this is dropped.
    is_left: bool,
}

impl<D: AsFd> Naming<D> {
    /// Creates the state for a file in `dir` that has this hidden name, or none.
    pub(crate) fn new(dir: D, hidden: Option<CString>) -> Naming<D> {
        Naming { dir, hidden, is_left: false }
    }

    /// Returns the directory.
    pub(crate) fn dir(&self) -> &D {
        &self.dir
    }

    /// Leaves the hidden name when this is dropped.
    pub(crate) fn leave(&mut self) {
        self.is_left = true;
    }

    /// The file has got this hidden name instead of the one before.
    pub(crate) fn was_renamed(&mut self, hidden: &CStr) {
        self.hidden = Some(hidden.to_owned());
    }

    /// Returns whether a process that is killed leaves a hidden name behind.
    pub(crate) fn is_hidden(&self) -> bool {
        self.hidden.is_some()
    }

    /// Returns that hidden name.
    pub(crate) fn hidden_name(&self) -> Option<&CStr> {
        self.hidden.as_deref()
    }

    /// Returns the path of that hidden name.
    pub(crate) fn hidden_path(&self) -> Option<PathBuf> {
        let hidden = self.hidden.as_ref()?;
        Some(path_of(&self.dir, hidden))
    }

    /// Gives the file a hidden name, if it has none.
    ///
    /// # Errors
    /// Errors of `link(2)`.
    pub(crate) fn hide(&mut self, file: &OwnedFd) -> Result<(), Errno> {
        self.hide_as(file, &temporary_name())
    }

    /// Gives the file this hidden name, if it has none.
    ///
    /// # Errors
    /// Errors of `link(2)`.
    pub(crate) fn hide_as(&mut self, file: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        if self.hidden.is_none() {
            linkat(CWD, fd_path(file), &self.dir, name, AtFlags::SYMLINK_FOLLOW)?;
            self.hidden = Some(name.to_owned());
        }
        Ok(())
    }

    /// Gives the file `name`, replacing a file that has it.
    ///
    /// # Errors
    /// Errors of `link(2)` and `rename(2)`.
    pub(crate) fn replace(&mut self, file: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        self.hide(file)?;
        if let Some(hidden) = &self.hidden {
            names::renameat(&self.dir, hidden, name)?;
        }
        self.hidden = None;
        Ok(())
    }

    /// Gives the file `name` if that does not exist.
    ///
    /// # Errors
    /// EEXIST if it exists; errors of `link(2)` and `rename(2)`.
    pub(crate) fn claim(&mut self, file: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        let Some(hidden) = &self.hidden else {
            return linkat(CWD, fd_path(file), &self.dir, name, AtFlags::SYMLINK_FOLLOW);
        };
        names::rename_new(&self.dir, hidden, name)?;
        self.hidden = None;
        Ok(())
    }

    /// Makes the name durable.
    ///
    /// # Errors
    /// Errors of `fsync(2)`.
    pub(crate) fn sync(&self, file: &OwnedFd) -> Result<(), Errno> {
        sync_names(&self.dir, file)
    }
}

impl<D: AsFd> Drop for Naming<D> {
    fn drop(&mut self) {
        if let Some(hidden) = self.hidden.as_ref().filter(|_| !self.is_left) {
            // An error here cannot be handled.
            let _ = names::unlinkat(&self.dir, hidden);
        }
    }
}

/// The hidden name of a file that is left for other processes.
#[derive(Debug)]
pub(crate) struct HiddenName {
    dir: Arc<OwnedFd>,
    name: CString,
}

impl HiddenName {
    pub(super) fn of(naming: &Naming<Arc<OwnedFd>>) -> Option<HiddenName> {
        let name = naming.hidden.clone()?;
        Some(HiddenName { dir: Arc::clone(&naming.dir), name })
    }

    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    /// Returns its path.
    pub(crate) fn path(&self) -> PathBuf {
        path_of(&self.dir, &self.name)
    }

    /// Durably gives the file another hidden name.
    ///
    /// # Errors
    /// EEXIST if another file has that name; errors of `rename(2)` and `fsync(2)`.
    pub(crate) fn rename(&mut self, name: &CStr) -> Result<(), Errno> {
        names::rename_new(&self.dir, &self.name, name)?;
        self.name = name.to_owned();
        synced::fsync(&self.dir)
    }
}

/// The path of a name in an open directory.
fn path_of(dir: impl AsFd, name: &CStr) -> PathBuf {
    let dir = std::fs::read_link(fd_path(dir)).unwrap_or_default();
    dir.join(OsStr::from_bytes(name.to_bytes()))
}

/// Syncs the names in a directory, one of which belongs to `file`.
pub(super) fn sync_names(dir: impl AsFd, file: impl AsFd) -> Result<(), Errno> {
    match synced::fsync(dir) {
        // A directory that is open with `O_PATH`, because it may only be searched, cannot be synced
        // by itself.
        Err(Errno::BADF) => rustix::fs::syncfs(file),
        other => other,
    }
}

/// Returns the directory that holds `path`.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the directory that holds `path`, and its name in there; trailing slashes belong to the
/// name. Joined again, both lead to the same file as `path`.
pub(crate) fn split(path: &Path) -> (&Path, &OsStr) {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let start = bytes[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (dir, name) = bytes.split_at(start);
    (
        Path::new(if dir.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(dir) }),
        OsStr::from_bytes(name),
    )
}

/// Opens the directory that holds `path`, to create files in it.
///
/// # Errors
/// Errors of `open(2)`.
pub(crate) fn open_parent(path: &Path) -> Result<OwnedFd, Errno> {
    open_directory(split(path).0)
}

/// Opens a directory to look up names and create files in it.
///
/// # Errors
/// Errors of `open(2)`.
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, path, OFlags::RDONLY | flags, Mode::empty()) {
        // Without read permission, the directory may still be writable.
        Err(Errno::ACCESS) => openat(CWD, path, OFlags::PATH | flags, Mode::empty()),
        dir => dir,
    }
}

/// Creates a file without a name in the directory `dir` (`O_TMPFILE`). If the file system or the
/// kernel does not support that, or files in the directory are striped by default, the file has a
/// hidden name, which is returned too.
///
/// # Errors
/// Errors of `open(2)`.
pub(crate) fn unnamed(
    dir: impl AsFd,
    flags: OFlags,
    mode: Mode,
) -> Result<(OwnedFd, Option<CString>), Errno> {
    let dir = dir.as_fd();
    if names::has_default(path_in(dir, OsStr::new("."))) {
        return hidden(dir, flags, mode, true);
    }
    unnamed_plain(dir, flags, mode)
}

/// Does the same without stripes, even if the directory has them by default.
///
/// # Errors
/// Errors of `open(2)`.
pub(crate) fn unnamed_plain(
    dir: impl AsFd,
    flags: OFlags,
    mode: Mode,
) -> Result<(OwnedFd, Option<CString>), Errno> {
    let dir = dir.as_fd();
    match openat(dir, c".", flags | OFlags::TMPFILE, mode) {
        Ok(fd) => Ok((fd, None)),
        Err(Errno::ISDIR | Errno::OPNOTSUPP | Errno::NOENT | Errno::INVAL) => {
            hidden(dir, flags, mode, false)
        }
        Err(errno) => Err(errno),
    }
}

/// Creates a file under a temporary name; it is striped if `may` is set and the directory's default
/// says so.
fn hidden(
    dir: BorrowedFd<'_>,
    flags: OFlags,
    mode: Mode,
    may: bool,
) -> Result<(OwnedFd, Option<CString>), Errno> {
    let name = temporary_name();
    let flags = flags | OFlags::CREATE | OFlags::EXCL;
    match if may {
        names::openat(dir, &*name, flags, mode)
    } else {
        openat(dir, &*name, flags, mode)
    } {
        Ok(fd) => Ok((fd, Some(name))),
        // The file was created but could not be striped.
        Err(errno) if errno != Errno::EXIST => {
            let _ = names::unlinkat(dir, &name);
            Err(errno)
        }
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn files_have_no_name_or_a_hidden_one() {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let dir = File::open(scratch.path()).unwrap();
        let (fd, hidden) = unnamed(&dir, OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR).unwrap();
        let names: Vec<_> = std::fs::read_dir(scratch.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        let seen: Vec<_> = names.iter().map(|name| name.as_encoded_bytes()).collect();
        assert_eq!(seen, hidden.iter().map(|name| name.to_bytes()).collect::<Vec<_>>());
        let stat = rustix::fs::fstat(&fd).unwrap();
        assert_eq!((stat.st_nlink as usize, stat.st_mode & 0o777), (names.len(), 0o400));
        assert_eq!(
            unnamed(File::open("/proc").unwrap(), OFlags::RDWR, Mode::RUSR).unwrap_err(),
            Errno::NOENT
        );
    }

    #[test]
    fn a_name_is_claimed_or_taken_over_and_nothing_hidden_stays() {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let dir = || File::open(scratch.path()).unwrap();
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        for may_be_unnamed in [true, false] {
            let made = || match may_be_unnamed {
                true => unnamed_plain(dir(), flags, Mode::RUSR).unwrap(),
                false => hidden(dir().as_fd(), flags, Mode::RUSR, false).unwrap(),
            };
            let ((first, one), (second, other), (third, last)) = (made(), made(), made());
            Naming::new(dir(), one).claim(&first, c"name").unwrap();
            let mut naming = Naming::new(dir(), other);
            assert_eq!(naming.claim(&second, c"name"), Err(Errno::EXIST));
            naming.replace(&second, c"name").unwrap();
            naming.sync(&second).unwrap();
            drop(Naming::new(dir(), last));
            drop(third);
            let names: Vec<_> = std::fs::read_dir(scratch.path())
                .unwrap()
                .map(|e| e.unwrap().file_name())
                .collect();
            assert_eq!(names, ["name"]);
            let there = rustix::fs::statat(dir(), c"name", AtFlags::empty()).unwrap();
            assert_eq!(there.st_ino, rustix::fs::fstat(&second).unwrap().st_ino);
            std::fs::remove_file(scratch.path().join("name")).unwrap();
        }
    }

    #[test]
    fn a_hidden_name_is_left_or_changed() {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let dir = Arc::new(OwnedFd::from(File::open(scratch.path()).unwrap()));
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let (fd, name) = hidden(dir.as_fd(), flags, Mode::RUSR, false).unwrap();
        let mut naming = Naming::new(Arc::clone(&dir), name);
        naming.leave();
        let mut hidden = HiddenName::of(&naming).unwrap();
        drop(naming);
        assert!(hidden.path().exists(), "it was left");
        let first = hidden.path();
        hidden.rename(c".dio-other").unwrap();
        assert!(!first.exists() && hidden.path() == scratch.path().join(".dio-other"));
        std::fs::write(scratch.path().join("taken"), "x").unwrap();
        assert_eq!(hidden.rename(c"taken"), Err(Errno::EXIST));
        let mut naming = Naming::new(dir, Some(first.file_name().map(name_of).unwrap()));
        naming.was_renamed(hidden.name());
        naming.replace(&fd, c"name").unwrap();
        assert!(scratch.path().join("name").exists() && !hidden.path().exists());
    }

    fn name_of(name: &OsStr) -> CString {
        CString::new(name.as_bytes()).unwrap()
    }

    #[test]
    fn a_path_is_split_before_its_last_name() {
        for (path, dir, name) in [
            ("a", ".", "a"),
            ("a/b", "a/", "b"),
            ("/a", "/", "a"),
            ("a//b//", "a//", "b//"),
            ("a/.", "a/", "."),
            ("../..", "../", ".."),
            ("/", ".", "/"),
            ("", ".", ""),
        ] {
            assert_eq!(split(Path::new(path)), (Path::new(dir), OsStr::new(name)), "{path}");
        }
    }
}
