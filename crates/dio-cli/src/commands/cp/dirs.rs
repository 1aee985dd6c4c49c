//! A pair of directories, source and target, and when the target is finished.
//!
//! A tree may be deeper than the number of descriptors, so directories far above those in use are
//! closed. They are opened again by their names from an open directory above them, and are checked
//! by device and inode.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use dio::names::FileId;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{CWD, OFlags, Stat, fstat};
use rustix::io::Errno;

use super::error::{CopyError, ErrorContext, FailedOperation};
use super::role::{Role, Sides};
use crate::tool::deep::open_in_steps;
use crate::tool::synced::has_syncfs;

/// An open directory, or the working directory.
#[derive(Debug)]
pub(crate) enum Handle {
    Working,
    Open(OwnedFd),
    /// A directory that all operands share.
    Shared(Arc<OwnedFd>),
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Working => CWD,
            Self::Open(fd) => fd.as_fd(),
            Self::Shared(fd) => fd.as_fd(),
        }
    }
}

/// Source and target directory, both open.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) source: Handle,
    pub(crate) target: Handle,
}

/// The command-line argument a copy belongs to.
#[derive(Debug)]
pub(crate) struct Operand {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    /// Device and inode of the source, if that is a directory, once they were read.
    pub(crate) source_root: OnceLock<FileId>,
    /// Device and inode of the first directory made for this operand. If the walk meets it as a
    /// source, the copy would never end.
    pub(crate) first_made: OnceLock<FileId>,
}

/// Attributes that a target directory gets once its contents are complete.
#[derive(Debug)]
pub(crate) struct Finish {
    pub(crate) name: CString,
    pub(crate) stat: Stat,
    /// Device and inode of the target.
    pub(crate) identity: FileId,
    /// The mode that this run made it with (which always includes the owner's rwx); `None` if it
    /// existed before.
    pub(crate) made: Option<u32>,
    /// Its mode while it is being filled.
    pub(crate) mode: u32,
    /// Permissions that are withheld until now.
    pub(crate) omitted: u32,
    /// Its present owner and group.
    pub(crate) owner: (u32, u32),
}

/// How to find again a target directory that was closed, by its path below the target directory of
/// all operands.
#[derive(Debug)]
pub(crate) struct ReopenPath {
    pub(crate) directory: Arc<OwnedFd>,
    pub(crate) path: CString,
    pub(crate) identity: FileId,
}

/// The target directory that an operand's name is in.
#[derive(Debug)]
pub(crate) struct OperandTarget {
    pub(crate) target: Handle,
    pub(crate) shown: PathBuf,
    pub(crate) again: Option<ReopenPath>,
}

/// Identifies a job that a process lent to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lender {
    pub(crate) rank: usize,
    pub(crate) loan: u64,
}

/// A pair of directories that another process described.
#[derive(Debug)]
pub(crate) struct LentPair {
    pub(crate) pair: Pair,
    /// Device and inode of the source directory.
    pub(crate) identity: FileId,
    /// Those of the source directories above it.
    pub(crate) above: Vec<FileId>,
    pub(crate) again: ReopenPath,
    pub(crate) lender: Lender,
}

/// A source directory and the target directory that its entries are copied to.
///
/// The last entry to be done finishes the directory (times, mode), because creating an entry
/// changes the directory's times.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) operand: Arc<Operand>,
    pub(crate) parent: Option<Arc<Dir>>,
    /// How to reopen the target directory of an operand with `--parents`.
    again: Option<ReopenPath>,
    /// `None` while they are closed. The directories that operands are in stay open until all is
    /// copied.
    open: Mutex<Option<Arc<Pair>>>,
    /// The source's name in the source directory of `parent`.
    name: CString,
    shown_source: PathBuf,
    shown_target: PathBuf,
    /// Device and inode of the source directory; `None` for the directory that operands are in.
    pub(crate) identity: Option<FileId>,
    pub(crate) role: Role,
    /// The target directory was made by this run, so nothing in it exists yet.
    pub(crate) fresh: bool,
    /// The target directory has a default ACL, which determines the mode of files created in it.
    pub(crate) default_acl: bool,
    /// User and group of files created in the target directory, read from the first such file.
    pub(crate) creates_as: OnceLock<(u32, u32)>,
    /// Whether one sync of the file system covers what is made in the target directory; determined
    /// once for those on the same file system.
    has_syncfs: Arc<OnceLock<bool>>,
    /// Whether files created in the target directory are striped; determined before the first one.
    pub(crate) stripes: OnceLock<bool>,
    pub(crate) finish: Option<Finish>,
    /// The process that lent this directory to this one, and which of its jobs that is.
    pub(crate) lender: Option<Lender>,
    /// Source directories above it, of a directory that another process lent.
    above: Vec<FileId>,
    /// Invariant: counts one for the listing itself, and one for each entry handed out and not
    /// done.
    pending: AtomicUsize,
}

impl Dir {
    /// Makes the pair of directories for an operand. Source names are relative to the working
    /// directory, target names to `target`, which messages call `shown`.
    pub(crate) fn top(
        operand: Operand,
        place: OperandTarget,
        (role, default_acl): (Role, bool),
    ) -> Arc<Self> {
        let OperandTarget { target, shown, again } = place;
        Arc::new(Self {
            operand: Arc::new(operand),
            parent: None,
            again,
            open: Mutex::new(Some(Arc::new(Pair { source: Handle::Working, target }))),
            name: CString::default(),
            shown_source: PathBuf::new(),
            shown_target: shown,
            identity: None,
            role,
            fresh: false,
            default_acl,
            creates_as: OnceLock::new(),
            has_syncfs: Arc::default(),
            stripes: OnceLock::new(),
            finish: None,
            lender: None,
            above: Vec::new(),
            pending: AtomicUsize::new(1),
        })
    }

    /// Makes the pair for a directory of which another process lends entries. That process
    /// finishes it.
    pub(crate) fn lent(
        operand: Arc<Operand>,
        (shown_source, shown_target): (PathBuf, PathBuf),
        open: LentPair,
        (role, fresh, default_acl): (Role, bool, bool),
    ) -> Arc<Self> {
        let LentPair { pair, identity, above, again, lender } = open;
        Arc::new(Self {
            operand,
            parent: None,
            again: Some(again),
            open: Mutex::new(Some(Arc::new(pair))),
            name: CString::default(),
            shown_source,
            shown_target,
            identity: Some(identity),
            role,
            fresh,
            default_acl,
            creates_as: OnceLock::new(),
            has_syncfs: Arc::default(),
            stripes: OnceLock::new(),
            finish: None,
            lender: Some(lender),
            above,
            pending: AtomicUsize::new(1),
        })
    }

    /// Makes the pair for the directory `source` in `parent` and the directory `target` that its
    /// entries are copied to.
    pub(crate) fn below(
        parent: &Arc<Dir>,
        (source, target): (&CStr, &CStr),
        open: Pair,
        (role, fresh, default_acl): (Role, bool, bool),
        finish: Finish,
    ) -> Arc<Self> {
        parent.enter();
        let has_syncfs = match parent.target_identity() {
            Some(above) if above.device() == finish.identity.device() => {
                Arc::clone(&parent.has_syncfs)
            }
            _ => Arc::default(),
        };
        Arc::new(Self {
            operand: Arc::clone(&parent.operand),
            again: None,
            open: Mutex::new(Some(Arc::new(open))),
            name: source.to_owned(),
            shown_source: parent.source_path(source),
            shown_target: parent.target_path(target),
            identity: Some(FileId::of(&finish.stat)),
            role,
            fresh,
            default_acl,
            creates_as: OnceLock::new(),
            has_syncfs,
            stripes: OnceLock::new(),
            finish: Some(finish),
            lender: None,
            above: Vec::new(),
            pending: AtomicUsize::new(1),
            parent: Some(Arc::clone(parent)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Pair>>> {
        self.open.lock()
    }

    /// Returns both directories, and opens them again if they were closed.
    pub(crate) fn open(&self) -> Result<Arc<Pair>, CopyError> {
        let (open, closed) = self.nearest_open();
        let Some(open) = open else {
            return Err(Errno::BADF).at(FailedOperation::Access, || self.shown_source.clone());
        };
        let Some(finish) = self.finish.as_ref().filter(|_| !closed.is_empty()) else {
            return Ok(open);
        };
        let sources = path_of(&closed, |dir| &dir.name);
        let targets = path_of(&closed, Dir::target_name);
        let from_source = || {
            reopen(open.source.as_fd(), &sources, FileId::of(&finish.stat))
                .at(FailedOperation::Access, || self.shown_source.clone())
        };
        let from_target = || {
            reopen(open.target.as_fd(), &targets, finish.identity)
                .at(FailedOperation::Access, || self.shown_target.clone())
        };
        let (source, target) = match self.role.sides {
            Sides::Both => (from_source()?, from_target()?),
            Sides::Source => (from_source()?, from_source()?),
            Sides::Target => (from_target()?, from_target()?),
        };
        Ok(Arc::clone(self.lock().insert(Arc::new(Pair { source, target }))))
    }

    /// Returns the nearest open pair, from this one upwards, and the closed ones below it,
    /// innermost first.
    fn nearest_open(&self) -> (Option<Arc<Pair>>, Vec<&Dir>) {
        let (mut here, mut closed) = (self, Vec::new());
        loop {
            let open = here.lock().clone();
            match (open, &here.parent) {
                (None, Some(parent)) => {
                    closed.push(here);
                    here = parent;
                }
                (open, _) => return (open, closed),
            }
        }
    }

    /// The target's name in the target directory of `parent`.
    fn target_name(&self) -> &CStr {
        self.finish.as_ref().map_or(c".", |finish| &finish.name)
    }

    /// Calls `act` with the target directory. A closed directory is opened only for this call.
    pub(crate) fn in_target<T>(
        &self,
        act: impl FnOnce(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let (open, closed) = self.nearest_open();
        let top = match open {
            Some(open) if closed.is_empty() => return act(open.target.as_fd()),
            Some(open) => open,
            None => {
                let again = self.top_again().ok_or(Errno::BADF)?;
                let target =
                    reopen(again.directory.as_fd(), again.path.to_bytes(), again.identity)?;
                Arc::new(Pair { source: Handle::Working, target })
            }
        };
        let Some(finish) = self.finish.as_ref().filter(|_| !closed.is_empty()) else {
            return act(top.target.as_fd());
        };
        let target =
            reopen(top.target.as_fd(), &path_of(&closed, Dir::target_name), finish.identity)?;
        act(target.as_fd())
    }

    /// How to reopen the target directory of the operand.
    fn top_again(&self) -> Option<&ReopenPath> {
        let mut top = self;
        while let Some(parent) = &top.parent {
            top = parent;
        }
        top.again.as_ref()
    }

    /// Closes the directories after all their entries are copied, if they can be opened again.
    pub(crate) fn close(&self) {
        if self.parent.is_some() || self.again.is_some() {
            *self.lock() = None;
        }
    }

    /// Closes the directory `levels` levels above this one. Called for each new subdirectory, it
    /// keeps that many levels open.
    pub(crate) fn close_above(&self, levels: usize) {
        let mut dir = self;
        for _ in 0..levels {
            let Some(parent) = &dir.parent else { return };
            dir = parent;
        }
        if dir.parent.is_some() {
            *dir.lock() = None;
        }
    }

    /// Counts one more pending entry.
    pub(crate) fn enter(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one entry, or the listing, as done; returns true for the last.
    pub(crate) fn leave(&self) -> bool {
        self.pending.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(crate) fn source_path(&self, name: &CStr) -> PathBuf {
        join(&self.shown_source, name)
    }

    pub(crate) fn target_path(&self, name: &CStr) -> PathBuf {
        join(&self.shown_target, name)
    }

    /// Device and inode of this source directory and of those above it.
    pub(crate) fn lineage(&self) -> Vec<FileId> {
        let (mut lineage, mut dir) = (Vec::new(), Some(self));
        while let Some(here) = dir {
            lineage.extend(here.identity);
            lineage.extend(&here.above);
            dir = here.parent.as_deref();
        }
        lineage
    }

    /// Device and inode of the target directory; `None` for one that operands are in.
    fn target_identity(&self) -> Option<FileId> {
        match (&self.finish, &self.again) {
            (Some(finish), _) => Some(finish.identity),
            (None, again) => again.as_ref().map(|again| again.identity),
        }
    }

    /// Inode of the target directory; 0 for one that operands are in.
    pub(crate) fn target_inode(&self) -> u64 {
        self.target_identity().map_or(0, |identity| identity.inode())
    }

    /// Returns whether one sync of the file system covers what is made in the target directory.
    /// `made` is open there.
    pub(crate) fn has_syncfs(&self, made: impl AsFd) -> bool {
        *self.has_syncfs.get_or_init(|| has_syncfs(made))
    }

    /// The names by which messages call both directories.
    pub(crate) fn shown(&self) -> (&Path, &Path) {
        (&self.shown_source, &self.shown_target)
    }

    /// Returns whether a directory of this identity is being copied here or above.
    pub(crate) fn is_below(&self, identity: FileId) -> bool {
        let mut dir = Some(self);
        while let Some(here) = dir {
            if here.identity == Some(identity) || here.above.contains(&identity) {
                return true;
            }
            dir = here.parent.as_deref();
        }
        false
    }
}

/// Joins the names of nested directories into a path. The innermost directory comes first in
/// `dirs`.
fn path_of(dirs: &[&Dir], name: fn(&Dir) -> &CStr) -> Vec<u8> {
    dirs.iter().rev().map(|dir| name(dir).to_bytes()).collect::<Vec<_>>().join(&b'/')
}

/// Opens a directory again and checks its device and inode.
fn reopen(above: BorrowedFd<'_>, path: &[u8], identity: FileId) -> Result<Handle, Errno> {
    let fd = match open_in_steps(above, path, OFlags::RDONLY) {
        Err(Errno::ACCESS) => open_in_steps(above, path, OFlags::PATH)?,
        opened => opened?,
    };
    let stat = fstat(&fd)?;
    // Another directory has its name now.
    if FileId::of(&stat) != identity { Err(Errno::NOENT) } else { Ok(Handle::Open(fd)) }
}

/// Joins `dir` and `name` as GNU shows them: with one slash between, whatever `dir` ends in.
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

    fn opened(path: &Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap()
    }

    /// Makes the pair for the directory `name` in `parent`, in the trees `s` and `t` of `scratch`.
    fn below(parent: &Arc<Dir>, name: &CStr, scratch: &Path) -> Arc<Dir> {
        let [source, target] = [("s", parent.source_path(name)), ("t", parent.target_path(name))]
            .map(|(tree, path)| opened(&scratch.join(tree).join(path)));
        let finish = Finish {
            name: name.to_owned(),
            stat: fstat(&source).unwrap(),
            identity: fstat(&target).map(|stat| FileId::of(&stat)).unwrap(),
            made: None,
            mode: 0o700,
            omitted: 0,
            owner: (0, 0),
        };
        let open = Pair { source: Handle::Open(source), target: Handle::Open(target) };
        Dir::below(parent, (name, name), open, (Role::default(), false, false), finish)
    }

    #[test]
    fn a_closed_directory_is_found_again_or_missed() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        ["s", "t"]
            .iter()
            .for_each(|tree| std::fs::create_dir_all(root.join(tree).join("a/b/c")).unwrap());
        let operand = Operand {
            source: "a".into(),
            target: "a".into(),
            source_root: OnceLock::new(),
            first_made: OnceLock::new(),
        };
        let place = OperandTarget { target: Handle::Working, shown: PathBuf::new(), again: None };
        let top = Dir::top(operand, place, (Role::default(), false));
        // The trees do not start in the working directory.
        let open = Pair {
            source: Handle::Open(opened(&root.join("s"))),
            target: Handle::Open(opened(&root.join("t"))),
        };
        *top.lock() = Some(Arc::new(open));
        let a = below(&top, c"a", root);
        let b = below(&a, c"b", root);
        let c = below(&b, c"c", root);
        c.close_above(1);
        b.close_above(1);
        a.close_above(1);
        let is_open = |dir: &Dir| dir.lock().is_some();
        assert_eq!([&top, &a, &b, &c].map(|dir| is_open(dir)), [true, false, false, true]);
        let inode = |handle: &Handle| fstat(handle.as_fd()).unwrap().st_ino;
        let again = b.open().unwrap();
        assert_eq!(inode(&again.source), b.identity.unwrap().inode());
        assert_eq!(inode(&again.target), b.finish.as_ref().unwrap().identity.inode());
        assert!(is_open(&b) && !is_open(&a));
        // Another directory gets the name.
        for tree in ["t", "s"] {
            *b.lock() = None;
            std::fs::rename(root.join(tree).join("a/b"), root.join(tree).join("a/x")).unwrap();
            assert!(b.open().is_err());
            std::os::unix::fs::symlink("/", root.join(tree).join("a/b")).unwrap();
            assert!(b.open().is_err());
            std::fs::remove_file(root.join(tree).join("a/b")).unwrap();
            std::os::unix::fs::symlink("x", root.join(tree).join("a/b")).unwrap();
            assert_eq!(inode(&b.open().unwrap().source), b.identity.unwrap().inode());
        }
    }

    #[test]
    fn a_link_is_made_to_what_was_copied_and_to_nothing_in_its_place() {
        use super::super::links::FirstCopy;
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        ["s", "t"]
            .iter()
            .for_each(|tree| std::fs::create_dir_all(root.join(tree).join("a")).unwrap());
        let copy = root.join("t/a/f");
        std::fs::write(&copy, "x").unwrap();
        let operand = Operand {
            source: "a".into(),
            target: "a".into(),
            source_root: OnceLock::new(),
            first_made: OnceLock::new(),
        };
        let place = OperandTarget { target: Handle::Working, shown: PathBuf::new(), again: None };
        let top = Dir::top(operand, place, (Role::default(), false));
        let open = Pair {
            source: Handle::Open(opened(&root.join("s"))),
            target: Handle::Open(opened(&root.join("t"))),
        };
        *top.lock() = Some(Arc::new(open));
        let a = below(&top, c"a", root);
        let inode = FileId::of(&rustix::fs::stat(&copy).unwrap());
        let first = FirstCopy { dir: Arc::clone(&a), name: c"f".to_owned(), inode };
        a.close();
        assert_eq!(FileId::of(&fstat(first.open().unwrap()).unwrap()), inode);
        assert!(a.lock().is_none(), "it does not stay open");
        // Another directory gets the name and contains a file of the same name.
        std::fs::rename(root.join("t/a"), root.join("t/gone")).unwrap();
        std::fs::create_dir(root.join("t/a")).unwrap();
        std::fs::write(&copy, "other").unwrap();
        assert!(first.open().is_err());
        std::fs::remove_dir_all(root.join("t/a")).unwrap();
        std::fs::rename(root.join("t/gone"), root.join("t/a")).unwrap();
        assert!(first.open().is_ok());
        std::fs::rename(&copy, root.join("kept")).unwrap();
        std::os::unix::fs::symlink("../../kept", &copy).unwrap();
        assert_eq!(first.open().unwrap_err(), Errno::STALE);
    }

    #[test]
    fn names_join_with_one_slash() {
        for (dir, name, joined) in [
            (c"", c"a", "a"),
            (c"d", c"a", "d/a"),
            (c"d//", c"a", "d/a"),
            (c"/", c"a", "/a"),
            (c"d", c"/a/b", "d/a/b"),
        ] {
            let dir = Path::new(OsStr::from_bytes(dir.to_bytes()));
            assert_eq!(join(dir, name), Path::new(joined));
        }
    }
}
