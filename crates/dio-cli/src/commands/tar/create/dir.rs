//! Directories that are archived, with descriptors that can be closed and reopened.
//!
//! A tree may have more levels than the process may have descriptors. A closed directory is
//! reopened by its path from the directory of `-C`; device and inode then confirm that it is the
//! same.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Weak};

use dio::names::FileId;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{OFlags, Stat, fstat};
use rustix::io::Errno;

use super::super::run::bare;
use crate::tool::deep::open_in_steps;

/// A directory whose entries are archived.
#[derive(Debug)]
pub(super) struct Dir {
    fd: Mutex<Fd>,
    /// The name of the directory, with `/` at the end; empty for a directory of `-C`.
    pub(super) path: Vec<u8>,
    pub(super) stat: Stat,
    /// The parent directory; `None` for a directory of `-C`.
    pub(super) within: Option<Arc<Dir>>,
    /// The directory of `-C` that contains this one; `None` for a directory of `-C` itself.
    top: Option<Arc<Dir>>,
    /// The index of the directory of `-C` in `Names::directories`.
    pub(super) root: usize,
}

/// Invariant: if `kept` is set, `shared` refers to the same descriptor.
#[derive(Debug)]
struct Fd {
    shared: Weak<OwnedFd>,
    kept: Option<Arc<OwnedFd>>,
    keep: bool,
}

impl Fd {
    fn new(fd: OwnedFd) -> Mutex<Fd> {
        let fd = Arc::new(fd);
        Mutex::new(Fd { shared: Arc::downgrade(&fd), kept: Some(fd), keep: true })
    }
}

impl Dir {
    /// Creates a directory of `-C`, which stays open.
    pub(super) fn root(root: usize, fd: OwnedFd) -> Result<Arc<Dir>, Errno> {
        let stat = fstat(&fd)?;
        Ok(Arc::new(Dir { fd: Fd::new(fd), path: Vec::new(), stat, within: None, top: None, root }))
    }

    /// Creates a directory in another one; `path` ends in `/`.
    pub(super) fn inside(within: &Arc<Dir>, fd: OwnedFd, path: Vec<u8>, stat: Stat) -> Arc<Dir> {
        let top = within.top.as_ref().unwrap_or(within);
        let (within, top, root) = (Some(Arc::clone(within)), Some(Arc::clone(top)), within.root);
        Arc::new(Dir { fd: Fd::new(fd), path, stat, within, top, root })
    }

    /// The path of an entry of the directory.
    pub(super) fn join(&self, name: &[u8]) -> Vec<u8> {
        [&self.path[..], name].concat()
    }

    /// The directory of `-C` that contains this one, or the directory itself if it is one.
    pub(super) fn top(self: &Arc<Dir>) -> &Arc<Dir> {
        self.top.as_ref().unwrap_or(self)
    }

    fn lock(&self) -> MutexGuard<'_, Fd> {
        self.fd.lock()
    }

    /// Returns the descriptor, and reopens the directory if it is closed. The descriptor stays open
    /// as long as the caller holds it.
    ///
    /// # Errors
    /// ENOENT if the path now leads to something else; the errors of `openat(2)`.
    pub(super) fn open(&self) -> Result<Arc<OwnedFd>, Errno> {
        let mut fd = self.lock();
        if let Some(shared) = fd.shared.upgrade() {
            return Ok(shared);
        }
        let Some(top) = &self.top else { return Err(Errno::BADF) };
        let path = bare(&self.path);
        let opened = Arc::new(open_in_steps(top.open()?.as_fd(), path, OFlags::PATH)?);
        let stat = fstat(&opened)?;
        if FileId::of(&stat) != FileId::of(&self.stat) {
            return Err(Errno::NOENT);
        }
        fd.shared = Arc::downgrade(&opened);
        fd.kept = fd.keep.then(|| Arc::clone(&opened));
        Ok(opened)
    }

    /// Sets whether the descriptor stays open while no caller holds it. A directory of `-C` always
    /// stays open.
    pub(super) fn keep(&self, keep: bool) {
        if self.top.is_none() {
            return;
        }
        let mut fd = self.lock();
        fd.keep = keep;
        fd.kept = if keep { fd.shared.upgrade() } else { None };
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::Mode;

    use super::*;

    #[test]
    fn a_closed_directory_is_found_again_or_missed() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join("a/b")).unwrap();
        let open =
            |path: &std::path::Path| rustix::fs::open(path, OFlags::RDONLY, Mode::empty()).unwrap();
        let root = Dir::root(0, open(scratch.path())).unwrap();
        let fd = open(&scratch.path().join("a/b"));
        let stat = fstat(&fd).unwrap();
        let dir = Dir::inside(&root, fd, b"a/b/".to_vec(), stat);
        let number = |dir: &Dir| fstat(dir.open().unwrap()).unwrap().st_ino;
        assert_eq!(number(&dir), stat.st_ino);
        dir.keep(false);
        let (once, again) = (dir.open().unwrap(), dir.open().unwrap());
        assert!(Arc::ptr_eq(&once, &again));
        drop((once, again));
        std::fs::rename(scratch.path().join("a/b"), scratch.path().join("a/c")).unwrap();
        assert_eq!(dir.open().unwrap_err(), Errno::NOENT);
        std::fs::create_dir(scratch.path().join("a/b")).unwrap();
        assert_eq!(dir.open().unwrap_err(), Errno::NOENT);
    }
}
