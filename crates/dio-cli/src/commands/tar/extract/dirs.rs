//! Directories whose attributes are set when everything is in them.
//!
//! A directory is made so that its owner alone can work in it, and gets its mode, owner, attributes
//! and time at the end, the deepest first. It is found again by its path, beneath the target
//! directory, and must be the one that was made.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use dio::names::FileId;
use rustix::fs::{OFlags, Timespec, fstat};
use rustix::io::Errno;

use super::file::Context;
use super::meta::{Meta, Object};
use super::names::Clean;
use super::root::Root;
use super::storage::Storage;
use super::words::Words;

#[derive(Debug)]
struct Delayed {
    shown: Vec<u8>,
    root: Arc<Root>,
    path: Clean,
    /// The path may end in a link (`-h`).
    follow: bool,
    meta: Meta,
}

/// The directories that wait for their attributes, by device and inode.
#[derive(Debug, Default)]
pub(super) struct Dirs {
    waiting: HashMap<FileId, Delayed>,
}

impl Dirs {
    /// A directory of the archive, by its name in messages, its path, and whether that may end in a
    /// link. Of several members that are one directory, reached through links, the one counts that
    /// GNU tar is done with last: the one that the others are in, or else the last.
    pub(super) fn delay(&mut self, id: FileId, root: &Arc<Root>, names: (&[u8], &Clean, bool), meta: Meta) {
        let (shown, path, follow) = (names.0.to_vec(), names.1.clone(), names.2);
        if self.waiting.get(&id).is_some_and(|before| Arc::ptr_eq(&before.root, root) && path.is_within(&before.path)) {
            return;
        }
        self.waiting.insert(id, Delayed { shown, root: Arc::clone(root), path, follow, meta });
    }

    /// Changes the time that a waiting directory gets; false if it does not wait.
    pub(super) fn set_time(&mut self, id: FileId, mtime: Option<Timespec>) -> bool {
        self.waiting.get_mut(&id).map(|delayed| delayed.meta.mtime = mtime).is_some()
    }

    /// As [`Dirs::finish`], for those that have names in a directory.
    pub(super) fn finish_within(&mut self, root: &Arc<Root>, path: &Clean, context: &Context<'_>) {
        let within = |delayed: &Delayed| Arc::ptr_eq(&delayed.root, root) && delayed.path.is_within(path);
        let (now, later) = std::mem::take(&mut self.waiting).into_iter().partition(|(_, delayed)| within(delayed));
        self.waiting = later;
        Dirs { waiting: now }.finish(context);
    }

    /// Sets everything, but on what has made way for something else. What fails is told.
    pub(super) fn finish(self, context: &Context<'_>) {
        let Context { run, storage, gone, .. } = context;
        let mut all: Vec<_> = self.waiting.into_iter().filter(|(id, _)| !gone.has(*id)).collect();
        all.sort_by_key(|(_, delayed)| std::cmp::Reverse(delayed.path.depth()));
        for (id, delayed) in all {
            let words = Words { run, name: &delayed.shown };
            if let Err(errno) = delayed.apply(id, storage, &words) {
                words.cannot("stat", errno);
            }
        }
    }
}

impl Delayed {
    fn apply(&self, id: FileId, storage: &Storage, words: &Words<'_>) -> Result<(), Errno> {
        let flags = OFlags::DIRECTORY | if self.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let (fd, place) = match self.root.find(&self.path.0, flags | OFlags::RDONLY) {
            // One of ours that we may not read, being no superuser.
            Err(Errno::ACCESS) => (self.root.find(&self.path.0, flags | OFlags::PATH), true),
            other => (other, false),
        };
        let fd = match fd {
            // Another process has put something else there.
            Err(Errno::NOTDIR | Errno::LOOP) => return renamed(words),
            other => other?,
        };
        let stat = fstat(&fd)?;
        if FileId::of(&stat) != id {
            return renamed(words);
        }
        let object = if place { Object::Place(fd.as_fd()) } else { Object::Open(fd.as_fd()) };
        if !place {
            storage.note(id.device(), fd.as_fd(), &self.root, &self.path);
        }
        self.meta.apply(object, true, words);
        Ok(())
    }
}

fn renamed(words: &Words<'_>) -> Result<(), Errno> {
    words.error("Directory renamed before its status could be extracted");
    Ok(())
}
