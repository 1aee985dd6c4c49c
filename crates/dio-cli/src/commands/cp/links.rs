//! Hard links within the set of copied files.
//!
//! The first worker that meets an inode copies it. Workers that meet it during that time leave
//! their names in a list and go on; the first worker links these names when the copy is done. No
//! worker waits.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use dio::names::FileId;
use dio_sys::fd_path;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, linkat, openat};
use rustix::io::Errno;

use super::dirs::{Dir, Pair};
use super::entry::{SourceEntry, TargetState};

/// The first copy of an inode.
#[derive(Clone, Debug)]
pub(super) struct FirstCopy {
    pub(super) dir: Arc<Dir>,
    /// Its name in the target of `dir`.
    pub(super) name: CString,
    /// The inode that the name was given to.
    pub(super) inode: FileId,
}

impl FirstCopy {
    /// What a dry run has instead of a first copy: no file has this inode.
    pub(super) fn planned(entry: SourceEntry<'_>) -> FirstCopy {
        let inode = FileId::from_numbers(0, 0);
        FirstCopy { dir: Arc::clone(entry.dir), name: entry.target.to_owned(), inode }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.target_path(&self.name)
    }

    /// Opens the copy with `O_PATH`.
    ///
    /// # Errors
    /// `ESTALE` if another file has its name, or another directory the name of its directory;
    /// errors of `open(2)`.
    pub(super) fn open(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = self.dir.in_target(|dir| openat(dir, &*self.name, flags, Mode::empty()))?;
        if FileId::of(&fstat(&place)?) == self.inode { Ok(place) } else { Err(Errno::STALE) }
    }
}

/// Gives an open file the name `name` in `dir`. The file may be open with `O_PATH` only.
pub(super) fn link_open(file: &OwnedFd, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    match linkat(file, c"", dir, name, AtFlags::EMPTY_PATH) {
        // Older kernels refuse this without CAP_DAC_READ_SEARCH.
        Err(Errno::NOENT) => linkat(CWD, fd_path(file), dir, name, AtFlags::SYMLINK_FOLLOW),
        linked => linked,
    }
}

/// A name that becomes a link once the first copy is done. It counts as pending in its directory.
#[derive(Debug)]
pub(super) struct WaitingLink {
    pub(super) dir: Arc<Dir>,
    pub(super) source: CString,
    pub(super) target: CString,
    pub(super) operand: bool,
    pub(super) stat: Stat,
    pub(super) found: TargetState,
}

impl WaitingLink {
    pub(super) fn entry<'a>(&'a self, open: &'a Pair) -> SourceEntry<'a> {
        SourceEntry {
            dir: &self.dir,
            open,
            source: &self.source,
            target: &self.target,
            operand: self.operand,
        }
    }
}

/// The action for a name of an inode that has several names.
#[derive(Debug)]
pub(super) enum LinkAction {
    /// Copy it, then call [`Links::copied`] or [`Links::failed`].
    First,
    /// Do nothing: the worker that copies the first name makes the link.
    Left,
    /// Link it to this copy.
    Link(FirstCopy),
}

#[derive(Debug)]
enum LinkSlot {
    Copying(Vec<WaitingLink>),
    Copied { first: FirstCopy, names_left: u64 },
}

/// Inodes met so far, by device and inode. An inode is removed when all its names have been met, so
/// the map holds only files whose other links are still to come (or lie outside the copy).
#[derive(Debug, Default)]
pub(super) struct Links {
    slots: Mutex<HashMap<FileId, LinkSlot>>,
}

impl Links {
    /// Claims the inode of `stat` for `entry`.
    pub(super) fn claim(
        &self,
        entry: SourceEntry<'_>,
        stat: &Stat,
        found: &TargetState,
    ) -> LinkAction {
        let key = FileId::of(stat);
        let mut slots = self.slots.lock();
        let claim = match slots.get_mut(&key) {
            None => {
                slots.insert(key, LinkSlot::Copying(Vec::new()));
                return LinkAction::First;
            }
            Some(LinkSlot::Copying(waiting)) => {
                entry.dir.enter();
                waiting.push(WaitingLink {
                    dir: Arc::clone(entry.dir),
                    source: entry.source.to_owned(),
                    target: entry.target.to_owned(),
                    operand: entry.operand,
                    stat: *stat,
                    found: *found,
                });
                return LinkAction::Left;
            }
            Some(LinkSlot::Copied { first, names_left }) => {
                *names_left = names_left.saturating_sub(1);
                let claim = LinkAction::Link(first.clone());
                if *names_left > 0 {
                    return claim;
                }
                claim
            }
        };
        slots.remove(&key);
        claim
    }

    /// Returns whether a name of this inode was claimed, so that further ones become links.
    pub(super) fn is_claimed(&self, stat: &Stat) -> bool {
        self.slots.lock().contains_key(&FileId::of(stat))
    }

    /// Records the first copy; returns the names to link to it now. `names` is the total number of
    /// times that the inode can be met.
    pub(super) fn copied(&self, stat: &Stat, first: FirstCopy, names: u64) -> Vec<WaitingLink> {
        let key = FileId::of(stat);
        let mut slots = self.slots.lock();
        let waiting = match slots.remove(&key) {
            Some(LinkSlot::Copying(waiting)) => waiting,
            _ => Vec::new(),
        };
        let names_left = names.saturating_sub(1 + waiting.len() as u64);
        if names_left > 0 {
            slots.insert(key, LinkSlot::Copied { first, names_left });
        }
        waiting
    }

    /// Records that the first name could not be copied; returns the names to try instead.
    pub(super) fn failed(&self, stat: &Stat) -> Vec<WaitingLink> {
        let mut slots = self.slots.lock();
        match slots.remove(&FileId::of(stat)) {
            Some(LinkSlot::Copying(waiting)) => waiting,
            _ => Vec::new(),
        }
    }
}
