//! Files that nobody sees before they are complete.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use dio::names::{self, path_in};
use dio_sys::fd_path;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, openat, renameat_with, statat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::tool::synced;

/// How a file that was made by [`unnamed`] gets its name once it is complete. Dropped before that,
/// it takes the hidden name away, and with it the file.
#[derive(Debug)]
pub(crate) struct Naming<D: AsFd> {
    dir: D,
    /// The name that the file has until then, if it has one.
    hidden: Option<CString>,
}

impl<D: AsFd> Naming<D> {
    /// For a file in `dir` that has no name, or this one.
    pub(crate) fn new(dir: D, hidden: Option<CString>) -> Naming<D> {
        Naming { dir, hidden }
    }

    /// Whether a process that is killed leaves a hidden name behind.
    pub(crate) fn is_hidden(&self) -> bool {
        self.hidden.is_some()
    }

    /// The path of that hidden name.
    pub(crate) fn hidden_path(&self) -> Option<PathBuf> {
        let hidden = self.hidden.as_ref()?;
        let dir = std::fs::read_link(fd_path(&self.dir)).unwrap_or_default();
        Some(dir.join(OsStr::from_bytes(hidden.to_bytes())))
    }

    /// Puts the file in the place of what has `name`, or where nothing has it.
    ///
    /// # Errors
    /// What `link(2)` and `rename(2)` answer.
    pub(crate) fn replace(&mut self, file: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        if self.hidden.is_none() {
            let hidden = temporary_name();
            linkat(CWD, fd_path(file), &self.dir, &*hidden, AtFlags::SYMLINK_FOLLOW)?;
            self.hidden = Some(hidden);
        }
        if let Some(hidden) = &self.hidden {
            names::renameat(&self.dir, hidden, name)?;
        }
        self.hidden = None;
        Ok(())
    }

    /// Gives the file `name` if nothing has it.
    ///
    /// # Errors
    /// EEXIST where something has it; what `link(2)` and `rename(2)` answer.
    pub(crate) fn claim(&mut self, file: &OwnedFd, name: &CStr) -> Result<(), Errno> {
        let Some(hidden) = &self.hidden else {
            return linkat(CWD, fd_path(file), &self.dir, name, AtFlags::SYMLINK_FOLLOW);
        };
        match renameat_with(&self.dir, &**hidden, &self.dir, name, RenameFlags::NOREPLACE) {
            // Not every file system knows the flag.
            Err(Errno::INVAL | Errno::NOSYS) => {
                if statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
                    return Err(Errno::EXIST);
                }
                names::renameat(&self.dir, hidden, name)?;
            }
            other => other?,
        }
        self.hidden = None;
        Ok(())
    }

    /// Makes the name durable.
    ///
    /// # Errors
    /// What `fsync(2)` answers.
    pub(crate) fn sync(&self, file: &OwnedFd) -> Result<(), Errno> {
        sync_names(&self.dir, file)
    }
}

impl<D: AsFd> Drop for Naming<D> {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // Nobody is left who could do something about it.
            let _ = names::unlinkat(&self.dir, hidden);
        }
    }
}

/// Syncs the names in a directory, one of which is that of `file`.
pub(super) fn sync_names(dir: impl AsFd, file: impl AsFd) -> Result<(), Errno> {
    match synced::fsync(dir) {
        // A directory that may only be searched cannot be synced by itself.
        Err(Errno::BADF) => rustix::fs::syncfs(file),
        other => other,
    }
}

/// The directory that holds `path`.
pub(crate) fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The directory that holds `path`, and its name in there; slashes at the end belong to the name.
/// Neither changes what a path leads to.
pub(crate) fn split(path: &Path) -> (&Path, &OsStr) {
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let start = bytes[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (dir, name) = bytes.split_at(start);
    (Path::new(if dir.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(dir) }), OsStr::from_bytes(name))
}

/// Opens the directory that holds `path`, to make files in it.
///
/// # Errors
/// What `open(2)` answers.
pub(crate) fn open_parent(path: &Path) -> Result<OwnedFd, Errno> {
    open_directory(split(path).0)
}

/// Opens a directory to look names up in it, and to make files.
///
/// # Errors
/// What `open(2)` answers.
pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, path, OFlags::RDONLY | flags, Mode::empty()) {
        // It may be written all the same.
        Err(Errno::ACCESS) => openat(CWD, path, OFlags::PATH | flags, Mode::empty()),
        dir => dir,
    }
}

/// Makes a file without a name in the directory `dir` (`O_TMPFILE`). Where the file system, or the
/// kernel, has none such, or the directory gives its files stripes, it is hidden by a name that is
/// returned as well.
///
/// # Errors
/// What `open(2)` answers.
pub(crate) fn unnamed(dir: impl AsFd, flags: OFlags, mode: Mode) -> Result<(OwnedFd, Option<CString>), Errno> {
    let dir = dir.as_fd();
    if names::has_default(path_in(dir, OsStr::new("."))) {
        return hidden(dir, flags, mode, true);
    }
    unnamed_plain(dir, flags, mode)
}

/// The same, without stripes whatever the directory has by default.
///
/// # Errors
/// What `open(2)` answers.
pub(crate) fn unnamed_plain(dir: impl AsFd, flags: OFlags, mode: Mode) -> Result<(OwnedFd, Option<CString>), Errno> {
    let dir = dir.as_fd();
    match openat(dir, c".", flags | OFlags::TMPFILE, mode) {
        Ok(fd) => Ok((fd, None)),
        Err(Errno::ISDIR | Errno::OPNOTSUPP | Errno::NOENT | Errno::INVAL) => hidden(dir, flags, mode, false),
        Err(errno) => Err(errno),
    }
}

/// A file under a temporary name, striped where it `may` be and the directory says so.
fn hidden(dir: BorrowedFd<'_>, flags: OFlags, mode: Mode, may: bool) -> Result<(OwnedFd, Option<CString>), Errno> {
    let name = temporary_name();
    let flags = flags | OFlags::CREATE | OFlags::EXCL;
    match if may { names::openat(dir, &*name, flags, mode) } else { openat(dir, &*name, flags, mode) } {
        Ok(fd) => Ok((fd, Some(name))),
        // It could not be striped.
        Err(errno) if errno != Errno::EXIST => {
            let _ = names::unlinkat(dir, &name);
            Err(errno)
        }
        Err(errno) => Err(errno),
    }
}

/// A name that nothing has by accident, and that whoever wrote an archive could not know.
pub(crate) fn temporary_name() -> CString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = clock_gettime(ClockId::Realtime);
    let moment = now.tv_sec ^ now.tv_nsec.rotate_left(20);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    CString::new(format!(".dio-{}-{moment:x}-{next}", std::process::id())).expect("it is made of letters and digits")
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
        let names: Vec<_> =
            std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let seen: Vec<_> = names.iter().map(|name| name.as_encoded_bytes()).collect();
        assert_eq!(seen, hidden.iter().map(|name| name.to_bytes()).collect::<Vec<_>>());
        let stat = rustix::fs::fstat(&fd).unwrap();
        assert_eq!((stat.st_nlink as usize, stat.st_mode & 0o777), (names.len(), 0o400));
        assert_eq!(unnamed(File::open("/proc").unwrap(), OFlags::RDWR, Mode::RUSR).unwrap_err(), Errno::NOENT);
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
            let names: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
            assert_eq!(names, ["name"]);
            let there = statat(dir(), c"name", AtFlags::empty()).unwrap();
            assert_eq!(there.st_ino, rustix::fs::fstat(&second).unwrap().st_ino);
            std::fs::remove_file(scratch.path().join("name")).unwrap();
        }
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

    #[test]
    fn names_are_all_different() {
        let mut names: Vec<_> = (0..1000).map(|_| temporary_name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 1000);
    }
}
