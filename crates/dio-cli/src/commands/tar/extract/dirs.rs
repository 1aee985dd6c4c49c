//! Directories whose attributes are set when everything is in them.
//!
//! A directory is made so that its owner alone can work in it, and gets its mode, owner, attributes and time at the end,
//! the deepest first. It is found again by its path, beneath the target directory, and must be the one that was made.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;

use super::super::run::Run;
use super::meta::{Meta, Object};
use super::names::Clean;
use super::place::Gone;
use super::root::Root;
use super::storage::Storage;
use super::words::Words;

#[derive(Debug)]
struct Delayed {
    shown: Vec<u8>,
    root: Arc<Root>,
    path: Clean,
    meta: Meta,
}

/// The directories that wait for their attributes, by device and inode.
#[derive(Debug, Default)]
pub(super) struct Dirs {
    waiting: HashMap<(u64, u64), Delayed>,
}

impl Dirs {
    /// A directory of the archive; the last member that names it counts.
    pub(super) fn delay(&mut self, id: (u64, u64), root: &Arc<Root>, shown: &[u8], path: &Clean, meta: Meta) {
        let (root, path) = (Arc::clone(root), path.clone());
        self.waiting.insert(id, Delayed { shown: shown.to_vec(), root, path, meta });
    }

    /// Sets everything, but on what has made way for something else. What fails is told.
    pub(super) fn finish(self, run: &Run, storage: &Storage, gone: &Gone) {
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
    fn apply(&self, id: (u64, u64), storage: &Storage, words: &Words<'_>) -> Result<(), Errno> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
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
        if (stat.st_dev, stat.st_ino) != id {
            return renamed(words);
        }
        let object = if place { Object::Place(fd.as_fd()) } else { Object::Open(fd.as_fd()) };
        if !place {
            storage.note(id.0, fd.as_fd(), &self.root, &self.path);
        }
        self.meta.apply(object, true, words);
        Ok(())
    }
}

fn renamed(words: &Words<'_>) -> Result<(), Errno> {
    words.error("Directory renamed before its status could be extracted");
    Ok(())
}
