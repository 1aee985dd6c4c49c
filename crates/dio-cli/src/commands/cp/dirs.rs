//! A pair of open directories, source and target, and when the target is finished.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{CWD, Stat};

/// An open directory, or the working directory.
#[derive(Debug)]
pub(crate) enum Handle {
    Working,
    Open(OwnedFd),
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Working => CWD,
            Self::Open(fd) => fd.as_fd(),
        }
    }
}

/// The command-line argument a copy belongs to.
#[derive(Debug)]
pub(crate) struct Operand {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    /// Device and inode of the first directory made for this operand: met again as a source, the
    /// copy would go round for ever.
    pub(crate) first_made: OnceLock<(u64, u64)>,
}

/// What a target directory needs once its contents are there.
#[derive(Debug)]
pub(crate) struct Finish {
    pub(crate) name: std::ffi::CString,
    pub(crate) stat: Stat,
    /// It was made by this run, with this mode (and the owner's rwx in any case).
    pub(crate) made: Option<u32>,
    /// Its mode while it is filled.
    pub(crate) mode: u32,
    /// Permissions held back until now.
    pub(crate) omitted: u32,
    /// Owner and group as they are now.
    pub(crate) owner: (u32, u32),
}

/// A source directory and the target directory its entries go to.
///
/// It stays open while entries wait or are copied; the last of them to be done finishes it (times,
/// mode), because creating an entry changes the directory's times.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) operand: Arc<Operand>,
    pub(crate) parent: Option<Arc<Dir>>,
    pub(crate) source: Handle,
    pub(crate) target: Handle,
    shown_source: PathBuf,
    shown_target: PathBuf,
    /// Device and inode of the source directory; `None` for the place operands stand in.
    pub(crate) identity: Option<(u64, u64)>,
    /// The target directory was made by this run: nothing in it exists yet.
    pub(crate) fresh: bool,
    /// The target directory has a default ACL, which decides the mode of what is created in it.
    pub(crate) default_acl: bool,
    /// User and group that files created in the target directory get, learnt from the first one.
    pub(crate) creates_as: OnceLock<(u32, u32)>,
    /// Files created in the target directory are striped; looked at before the first one.
    pub(crate) stripes: OnceLock<bool>,
    pub(crate) finish: Option<Finish>,
    /// Invariant: one for the listing itself and one for each entry handed out and not done.
    pending: AtomicUsize,
}

impl Dir {
    /// The place an operand stands in: source names start at the working directory, target names
    /// in `target`, which is shown as `shown`.
    pub(crate) fn top(operand: Operand, target: Handle, shown: PathBuf, default_acl: bool) -> Arc<Self> {
        Arc::new(Self {
            operand: Arc::new(operand),
            parent: None,
            source: Handle::Working,
            target,
            shown_source: PathBuf::new(),
            shown_target: shown,
            identity: None,
            fresh: false,
            default_acl,
            creates_as: OnceLock::new(),
            stripes: OnceLock::new(),
            finish: None,
            pending: AtomicUsize::new(1),
        })
    }

    /// The directory `source` in `parent` and the directory `target` its entries go to.
    pub(crate) fn below(
        parent: &Arc<Dir>,
        (source, target): (&CStr, &CStr),
        (source_handle, target_handle): (OwnedFd, OwnedFd),
        (fresh, default_acl): (bool, bool),
        finish: Finish,
    ) -> Arc<Self> {
        parent.enter();
        Arc::new(Self {
            operand: Arc::clone(&parent.operand),
            source: Handle::Open(source_handle),
            target: Handle::Open(target_handle),
            shown_source: parent.source_path(source),
            shown_target: parent.target_path(target),
            identity: Some((finish.stat.st_dev, finish.stat.st_ino)),
            fresh,
            default_acl,
            creates_as: OnceLock::new(),
            stripes: OnceLock::new(),
            finish: Some(finish),
            pending: AtomicUsize::new(1),
            parent: Some(Arc::clone(parent)),
        })
    }

    /// One more entry is under way.
    pub(crate) fn enter(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// One entry, or the listing, is done; true for the last.
    pub(crate) fn leave(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(crate) fn source_path(&self, name: &CStr) -> PathBuf {
        join(&self.shown_source, name)
    }

    pub(crate) fn target_path(&self, name: &CStr) -> PathBuf {
        join(&self.shown_target, name)
    }

    pub(crate) fn shown_source(&self) -> &Path {
        &self.shown_source
    }

    /// Whether a directory of this identity is being copied above.
    pub(crate) fn is_below(&self, identity: (u64, u64)) -> bool {
        let mut dir = Some(self);
        while let Some(here) = dir {
            if here.identity == Some(identity) {
                return true;
            }
            dir = here.parent.as_deref();
        }
        false
    }
}

/// `dir/name` as GNU shows it: one slash between them, whatever `dir` ends in.
pub(crate) fn join(dir: &Path, name: &CStr) -> PathBuf {
    let (dir, name) = (dir.as_os_str().as_bytes(), name.to_bytes());
    if dir.is_empty() {
        return PathBuf::from(OsStr::from_bytes(name));
    }
    let end = dir.iter().rposition(|&b| b != b'/').map_or(0, |i| i + 1);
    let mut path = dir[..end].to_vec();
    if !name.starts_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    PathBuf::from(std::ffi::OsString::from(OsStr::from_bytes(&path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_join_with_one_slash() {
        for (dir, name, joined) in
            [(c"", c"a", "a"), (c"d", c"a", "d/a"), (c"d//", c"a", "d/a"), (c"/", c"a", "/a"), (c"d", c"/a/b", "d/a/b")]
        {
            let dir = Path::new(OsStr::from_bytes(dir.to_bytes()));
            assert_eq!(join(dir, name), Path::new(joined));
        }
    }
}
