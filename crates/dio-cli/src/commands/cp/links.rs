//! Hard links within the set of files copied.
//!
//! The first worker that meets an inode copies it; others that meet it meanwhile leave their names
//! with it, and it links them when it is done. Nobody waits.

use std::collections::HashMap;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;

use dio::names::FileId;
use parking_lot::Mutex;
use rustix::fs::Stat;

use super::dirs::{Dir, Pair};
use super::entry::{Entry, Target};

/// A name that becomes a link once the first is copied. Its directory counts it as pending.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) dir: Arc<Dir>,
    pub(super) source: CString,
    pub(super) target: CString,
    pub(super) operand: bool,
    pub(super) stat: Stat,
    pub(super) found: Target,
}

impl Waiting {
    pub(super) fn entry<'a>(&'a self, open: &'a Pair) -> Entry<'a> {
        Entry { dir: &self.dir, open, source: &self.source, target: &self.target, operand: self.operand }
    }
}

/// What to do with a name of an inode that has several.
#[derive(Debug)]
pub(super) enum Claim {
    /// Copy it, then say so with [`Links::copied`] or [`Links::failed`].
    First,
    /// Nothing: the first one's worker makes the link.
    Left,
    /// Link it to this name.
    Link(PathBuf),
}

#[derive(Debug)]
enum Slot {
    Copying(Vec<Waiting>),
    Copied { name: PathBuf, names_left: u64 },
}

/// Inodes met so far by device and inode. An inode is forgotten when all its names were met, so the
/// map holds only files whose other links are still to come (or lie outside the copy).
#[derive(Debug, Default)]
pub(super) struct Links {
    slots: Mutex<HashMap<FileId, Slot>>,
}

impl Links {
    /// Claims the inode of `stat` for `entry`.
    pub(super) fn claim(&self, entry: Entry<'_>, stat: &Stat, found: &Target) -> Claim {
        let key = FileId::of(stat);
        let mut slots = self.slots.lock();
        let claim = match slots.get_mut(&key) {
            None => {
                slots.insert(key, Slot::Copying(Vec::new()));
                return Claim::First;
            }
            Some(Slot::Copying(waiting)) => {
                entry.dir.enter();
                waiting.push(Waiting {
                    dir: Arc::clone(entry.dir),
                    source: entry.source.to_owned(),
                    target: entry.target.to_owned(),
                    operand: entry.operand,
                    stat: *stat,
                    found: *found,
                });
                return Claim::Left;
            }
            Some(Slot::Copied { name, names_left }) => {
                *names_left = names_left.saturating_sub(1);
                if *names_left > 0 {
                    return Claim::Link(name.clone());
                }
                Claim::Link(std::mem::take(name))
            }
        };
        slots.remove(&key);
        claim
    }

    /// The first name is there, as `name`; returns those to link to it now. `names` is how many times
    /// the inode can be met in all.
    pub(super) fn copied(&self, stat: &Stat, name: PathBuf, names: u64) -> Vec<Waiting> {
        let key = FileId::of(stat);
        let mut slots = self.slots.lock();
        let waiting = match slots.remove(&key) {
            Some(Slot::Copying(waiting)) => waiting,
            _ => Vec::new(),
        };
        let names_left = names.saturating_sub(1 + waiting.len() as u64);
        if names_left > 0 {
            slots.insert(key, Slot::Copied { name, names_left });
        }
        waiting
    }

    /// The first name could not be copied; returns those to try in its stead.
    pub(super) fn failed(&self, stat: &Stat) -> Vec<Waiting> {
        let mut slots = self.slots.lock();
        match slots.remove(&FileId::of(stat)) {
            Some(Slot::Copying(waiting)) => waiting,
            _ => Vec::new(),
        }
    }
}
