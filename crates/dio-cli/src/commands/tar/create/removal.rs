//! `--remove-files`: the files that are removed when the archive is durable.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use dio::names;
use dio::names::FileId;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, openat, statat, unlinkat};
use rustix::io::Errno;

use super::super::run::{TarRun, bare};
use super::dir::Dir;
use super::note::Note;
use crate::tool::deep::{LONGEST, open_in_steps};

/// A name to remove. It keeps no directory open except the one that the operands are relative to:
/// there may be more names than descriptors.
#[derive(Debug)]
pub(in super::super) struct Removal {
    root: Arc<Dir>,
    /// The path, relative to `root`.
    path: Vec<u8>,
    /// The file that was archived; `None` for a directory, which must be empty.
    archived: Option<RemovalIdentity>,
}

/// Identifies the file that was archived. The ctime is not compared: removing other names of the
/// file before this one changes it.
#[derive(Debug, PartialEq, Eq)]
struct RemovalIdentity {
    device: u64,
    inode: u64,
    size: i64,
    mtime: (i64, u64),
}

impl RemovalIdentity {
    fn of(stat: &Stat) -> RemovalIdentity {
        let mtime = (stat.st_mtime, stat.st_mtime_nsec);
        RemovalIdentity { device: stat.st_dev, inode: stat.st_ino, size: stat.st_size, mtime }
    }
}

impl Removal {
    /// A file in `dir` that was archived with status `stat`.
    pub(super) fn file(dir: &Arc<Dir>, path: Vec<u8>, stat: &Stat) -> Removal {
        Removal { root: Arc::clone(dir.top()), path, archived: Some(RemovalIdentity::of(stat)) }
    }

    /// A directory, to be removed after its contents.
    pub(super) fn directory(dir: &Arc<Dir>) -> Removal {
        let mut path = bare(&dir.path);
        // `rmdir(2)` needs the name of the directory; `.` is not accepted.
        while let Some(before) = path.strip_suffix(b"/.").filter(|before| !before.is_empty()) {
            path = before;
        }
        Removal { root: Arc::clone(dir.top()), path: path.to_vec(), archived: None }
    }

    fn remove(self, run: &TarRun) {
        let doing = if self.archived.is_some() { "unlink" } else { "rmdir" };
        match self.try_remove(run) {
            // Another process removed it.
            Ok(true) | Err(Errno::NOENT) => {}
            Ok(false) => Note::changed(&self.path).tell(run),
            Err(errno) => run.cannot(doing, &self.path, errno),
        }
    }

    /// Returns false if the path no longer leads to what was archived.
    fn try_remove(&self, run: &TarRun) -> Result<bool, Errno> {
        if self.path == b"." && self.archived.is_none() {
            return self.try_remove_root(run);
        }
        let (parent, name) = self.place()?;
        let root = self.root.open()?;
        let dir = parent.as_ref().map_or(root.as_fd(), AsFd::as_fd);
        let Some(archived) = &self.archived else {
            return unlinkat(dir, &name, AtFlags::REMOVEDIR).map(|()| true);
        };
        let follow =
            if run.options.dereference { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        if RemovalIdentity::of(&names::statat(dir, &*name, follow)?) != *archived {
            return Ok(false);
        }
        names::unlinkat(dir, &name).map(|()| true)
    }

    /// Removes a directory of `-C` itself, by the name given with `-C`. The working directory has
    /// no such name.
    fn try_remove_root(&self, run: &TarRun) -> Result<bool, Errno> {
        let given = run.options.names.directories.get(self.root.root).ok_or(Errno::INVAL)?;
        let Some(name) = given.file_name() else { return Err(Errno::INVAL) };
        // The path may lead through a directory that has been removed, but the parent of the
        // directory still exists.
        let is_root = |stat: Stat| FileId::of(&stat) == FileId::of(&self.root.stat);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = openat(&*self.root.open()?, c"..", flags, Mode::empty())?;
        if statat(&above, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_root) {
            return unlinkat(&above, name, AtFlags::REMOVEDIR).map(|()| true);
        }
        let stat = statat(CWD, given, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory && !is_root(stat) {
            return Ok(false);
        }
        unlinkat(CWD, given, AtFlags::REMOVEDIR).map(|()| true)
    }

    /// The path to remove, relative to the returned parent directory, or to `root` if there is
    /// none.
    fn place(&self) -> Result<(Option<OwnedFd>, CString), Errno> {
        let name = |bytes: &[u8]| CString::new(bytes).map_err(|_| Errno::INVAL);
        if self.path.len() < LONGEST {
            return Ok((None, name(&self.path)?));
        }
        let slash = self.path.iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
        let parent = open_in_steps(self.root.open()?.as_fd(), &self.path[..slash], OFlags::PATH)?;
        Ok((Some(parent), name(&self.path[slash + 1..])?))
    }
}

/// Removes the names in order: the contents of a directory come before it.
pub(in super::super) fn remove_all(run: &TarRun, removals: Vec<Removal>) {
    removals.into_iter().for_each(|removal| removal.remove(run));
}
