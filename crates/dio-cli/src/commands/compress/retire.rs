//! Removes sources whose targets are complete.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use dio::names::FileId;
use rustix::fs::{Stat, syncfs};
use rustix::io::Errno;

use super::OutputFile;
use super::directory::remove;
use crate::tool::{free_descriptors, synced};

/// Sources that are removed once their targets are durable.
///
/// A few targets are synced one by one. If there are many, they are small, and their file system is
/// synced once: a sync of each would commit the journal of the file system as often.
#[derive(Debug)]
pub(crate) struct PendingRemovals {
    waiting: Vec<WaitingSource>,
    bytes: u64,
    most: u64,
}

#[derive(Debug)]
struct WaitingSource {
    source: PathBuf,
    /// The directory that contains the source.
    dir: Arc<OwnedFd>,
    /// Device and inode: a file that got the name since then is left alone.
    identity: FileId,
    target: OutputFile,
}

/// The most sources that may wait, and the most bytes that they may have together. Each source
/// keeps up to three descriptors, so fewer may wait if descriptors are scarce.
const WAITING_MAX: u64 = 100;
const MOST_BYTES: u64 = 64 << 20;

/// Descriptors that are left for other work.
const OTHERS: u64 = 32;

/// Up to this many targets are synced one by one.
const SYNC_EACH_MAX: usize = 3;

/// An error with one source or target.
#[derive(Debug)]
pub(crate) enum RetireError {
    /// A target could not be made durable; its source stays.
    Sync(PathBuf, io::Error),
    /// A source could not be removed.
    Remove(PathBuf, Errno),
}

impl PendingRemovals {
    /// Creates an empty list.
    pub(crate) fn new() -> PendingRemovals {
        let most = (free_descriptors().saturating_sub(OTHERS) / 3).min(WAITING_MAX);
        PendingRemovals { waiting: Vec::new(), bytes: 0, most }
    }

    /// Schedules `source`, which is in `dir` and had the status `stat`, for removal; `target` is
    /// complete and has its name.
    pub(crate) fn add(
        &mut self,
        source: PathBuf,
        dir: Arc<OwnedFd>,
        stat: &Stat,
        target: OutputFile,
    ) -> Vec<RetireError> {
        self.bytes += stat.st_size as u64;
        self.waiting.push(WaitingSource { source, dir, identity: FileId::of(stat), target });
        if self.waiting.len() as u64 >= self.most || self.bytes >= MOST_BYTES {
            self.flush()
        } else {
            Vec::new()
        }
    }

    /// Returns whether the file with this `stat` waits for its removal.
    pub(crate) fn holds(&self, stat: &Stat) -> bool {
        self.waiting.iter().any(|waiting| waiting.identity == FileId::of(stat))
    }

    /// Makes the targets durable and removes the sources.
    pub(crate) fn flush(&mut self) -> Vec<RetireError> {
        self.bytes = 0;
        let waiting = std::mem::take(&mut self.waiting);
        let together = waiting.len() > SYNC_EACH_MAX;
        let mut systems: Vec<(u64, bool)> = Vec::new();
        let mut troubles = Vec::new();
        for WaitingSource { source, dir, identity, target } in waiting {
            let durable = if together && synced::has_syncfs(target.descriptor()) {
                sync_all(&target, &mut systems)
            } else {
                target.sync().and_then(|()| target.sync_name())
            };
            if let Err(error) = durable {
                troubles.push(RetireError::Sync(target.path().to_owned(), error));
                continue;
            }
            let removed = remove(&dir, &source, identity);
            if let Err(errno) = removed {
                troubles.push(RetireError::Remove(source, errno));
            }
        }
        troubles
    }
}

/// Syncs the file system of a target, once per file system.
fn sync_all(target: &OutputFile, systems: &mut Vec<(u64, bool)>) -> io::Result<()> {
    let device = rustix::fs::fstat(target.descriptor())?.st_dev;
    if let Some((_, well)) = systems.iter().find(|(known, _)| *known == device) {
        return if *well { Ok(()) } else { Err(Errno::IO.into()) };
    }
    let done = syncfs(target.descriptor());
    systems.push((device, done.is_ok()));
    Ok(done?)
}
