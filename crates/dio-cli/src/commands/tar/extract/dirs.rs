//! Directories whose attributes are set after their contents are complete.
//!
//! A new directory first gets a mode that lets only its owner work in it. Its final mode, owner,
//! attributes and time are set at the end, the deepest directory first. The directory is then
//! looked up again by its path beneath the target directory, and must be the same one.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use dio::names::FileId;
use rustix::fs::{OFlags, Timespec, fstat};
use rustix::io::Errno;

use super::file::Context;
use super::messages::MemberMessages;
use super::meta::{Meta, Object};
use super::names::Clean;
use super::root::Root;
use super::storage::Storage;

#[derive(Debug)]
struct Delayed {
    shown: Vec<u8>,
    root: Arc<Root>,
    path: Clean,
    /// Whether the path may end in a symbolic link (`-h`).
    follow: bool,
    meta: Meta,
}

/// Directories whose attributes are still to be set, by device and inode.
#[derive(Debug, Default)]
pub(super) struct Dirs {
    waiting: HashMap<FileId, Delayed>,
}

impl Dirs {
    /// Registers a directory, with its name for messages, its path, and whether the path may end in
    /// a link. If several members are the same directory, reached through links, the member that
    /// GNU tar finishes last determines the attributes: the member that contains the others, or
    /// else the last one.
    pub(super) fn delay(
        &mut self,
        id: FileId,
        root: &Arc<Root>,
        names: (&[u8], &Clean, bool),
        meta: Meta,
    ) {
        let (shown, path, follow) = (names.0.to_vec(), names.1.clone(), names.2);
        if self
            .waiting
            .get(&id)
            .is_some_and(|before| Arc::ptr_eq(&before.root, root) && path.is_within(&before.path))
        {
            return;
        }
        self.waiting.insert(id, Delayed { shown, root: Arc::clone(root), path, follow, meta });
    }

    /// Changes the time that a registered directory will get. Returns false if it is not
    /// registered.
    pub(super) fn set_time(&mut self, id: FileId, mtime: Option<Timespec>) -> bool {
        self.waiting.get_mut(&id).map(|delayed| delayed.meta.mtime = mtime).is_some()
    }

    /// Like [`Dirs::finish`], for the directories beneath `path` only.
    pub(super) fn finish_within(&mut self, root: &Arc<Root>, path: &Clean, context: &Context<'_>) {
        let within =
            |delayed: &Delayed| Arc::ptr_eq(&delayed.root, root) && delayed.path.is_within(path);
        let (now, later) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(_, delayed)| within(delayed));
        self.waiting = later;
        Dirs { waiting: now }.finish(context);
    }

    /// Sets all attributes, except on directories that were removed for another member. Failures
    /// are reported.
    pub(super) fn finish(self, context: &Context<'_>) {
        let Context { run, storage, gone, .. } = context;
        let mut all: Vec<_> = self.waiting.into_iter().filter(|(id, _)| !gone.has(*id)).collect();
        all.sort_by_key(|(_, delayed)| std::cmp::Reverse(delayed.path.depth()));
        for (id, delayed) in all {
            let words = MemberMessages { run, name: &delayed.shown };
            if let Err(errno) = delayed.apply(id, storage, &words) {
                words.cannot("stat", errno);
            }
        }
    }
}

impl Delayed {
    fn apply(
        &self,
        id: FileId,
        storage: &Storage,
        words: &MemberMessages<'_>,
    ) -> Result<(), Errno> {
        let flags =
            OFlags::DIRECTORY | if self.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        let (fd, place) = match self.root.find(&self.path.0, flags | OFlags::RDONLY) {
            // Without superuser rights, the directory may be ours but not readable.
            Err(Errno::ACCESS) => (self.root.find(&self.path.0, flags | OFlags::PATH), true),
            other => (other, false),
        };
        let fd = match fd {
            // Another process replaced the directory.
            Err(Errno::NOTDIR | Errno::LOOP) => return renamed(words),
            other => other?,
        };
        let stat = fstat(&fd)?;
        if FileId::of(&stat) != id {
            return renamed(words);
        }
        let object = if place { Object::NewFile(fd.as_fd()) } else { Object::Open(fd.as_fd()) };
        if !place {
            storage.note_directory(id.device(), fd.as_fd(), &self.root, &self.path);
        }
        self.meta.apply(object, true, words);
        Ok(())
    }
}

fn renamed(words: &MemberMessages<'_>) -> Result<(), Errno> {
    words.error("Directory renamed before its status could be extracted");
    Ok(())
}
