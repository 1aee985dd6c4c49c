//! `--remove-files`: what is removed when the archive is durable.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use dio::stripe::calls;
use rustix::fs::{AtFlags, Mode, OFlags, Stat, openat, unlinkat};
use rustix::io::Errno;

use super::super::run::Run;
use super::note::Note;
use super::walk::Dir;

/// A name to remove. It holds no directory open but the one that the operands are relative to: there may be more of them
/// than descriptors.
#[derive(Debug)]
pub(in super::super) struct Removal {
    root: Arc<Dir>,
    /// Relative to `root`.
    path: Vec<u8>,
    /// What was archived; none for a directory, which has to be empty.
    archived: Option<Identity>,
}

/// What tells that a file is still the one that was archived. Its other names may be removed before it, so that the time
/// of its last change is of no use.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: i64,
    mtime: (i64, u64),
}

impl Identity {
    fn of(stat: &Stat) -> Identity {
        let mtime = (stat.st_mtime, stat.st_mtime_nsec);
        Identity { device: stat.st_dev, inode: stat.st_ino, size: stat.st_size, mtime }
    }
}

/// Longest path that the system takes, with its NUL (`PATH_MAX`).
const LONGEST: usize = 4096;

impl Removal {
    /// A file in `dir` that was archived as `stat` says.
    pub(super) fn file(dir: &Arc<Dir>, path: Vec<u8>, stat: &Stat) -> Removal {
        Removal { root: root_of(dir), path, archived: Some(Identity::of(stat)) }
    }

    /// A directory, when what is in it is gone.
    pub(super) fn directory(dir: &Arc<Dir>) -> Removal {
        let path = dir.path.strip_suffix(b"/").filter(|path| !path.is_empty()).unwrap_or(&dir.path);
        Removal { root: root_of(dir), path: path.to_vec(), archived: None }
    }

    fn remove(self, run: &Run) {
        let doing = if self.archived.is_some() { "unlink" } else { "rmdir" };
        match self.try_remove(run) {
            // Somebody else removed it.
            Ok(true) | Err(Errno::NOENT) => {}
            Ok(false) => Note::changed(&self.path).tell(run),
            Err(errno) => run.cannot(doing, &self.path, errno),
        }
    }

    /// False if it is not what was archived.
    fn try_remove(&self, run: &Run) -> Result<bool, Errno> {
        let (parent, name) = self.place()?;
        let dir = parent.as_ref().map_or(self.root.fd.as_fd(), AsFd::as_fd);
        let Some(archived) = &self.archived else {
            return unlinkat(dir, &name, AtFlags::REMOVEDIR).map(|()| true);
        };
        let follow = if run.options.dereference { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        if Identity::of(&calls::statat(dir, &*name, follow)?) != *archived {
            return Ok(false);
        }
        calls::unlinkat(dir, &name).map(|()| true)
    }

    /// The path to remove, relative to the directory with it, or to `root`.
    fn place(&self) -> Result<(Option<OwnedFd>, CString), Errno> {
        let name = |bytes: &[u8]| CString::new(bytes).map_err(|_| Errno::INVAL);
        if self.path.len() < LONGEST {
            return Ok((None, name(&self.path)?));
        }
        let slash = self.path.iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
        let parent = open_in_steps(self.root.fd.as_fd(), &self.path[..slash])?;
        Ok((Some(parent), name(&self.path[slash + 1..])?))
    }
}

/// Removes them in their order: what is in a directory before it.
pub(in super::super) fn remove_all(run: &Run, removals: Vec<Removal>) {
    removals.into_iter().for_each(|removal| removal.remove(run));
}

/// The directory that a name of the command line was relative to.
fn root_of(dir: &Arc<Dir>) -> Arc<Dir> {
    let mut dir = dir;
    while let Some(within) = &dir.within {
        dir = within;
    }
    Arc::clone(dir)
}

/// Opens a directory whose path is longer than the system takes at once.
fn open_in_steps(root: BorrowedFd<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir: Option<OwnedFd> = None;
    let mut rest = path;
    loop {
        let most = rest.len().min(LONGEST - 1);
        let step = match most == rest.len() {
            true => most,
            false => rest[..most].iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?,
        };
        let within = dir.as_ref().map_or(root, AsFd::as_fd);
        let next = openat(within, std::ffi::OsStr::from_bytes(&rest[..step]), flags, Mode::empty())?;
        rest = rest[step..].strip_prefix(b"/").unwrap_or(&rest[step..]);
        if rest.is_empty() {
            return Ok(next);
        }
        dir = Some(next);
    }
}
