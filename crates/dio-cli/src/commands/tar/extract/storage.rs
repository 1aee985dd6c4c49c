//! Brings extracted files to the storage: small files leave the page cache in batches, as in
//! `dio cp` of trees, and everything is made durable at the end. Some file systems (FUSE) have no
//! sync of the whole: there each file is synced when it is complete, and each directory at the end.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{OFlags, syncfs};
use rustix::io::Errno;

use super::names::Clean;
use super::root::Root;
use crate::tool::evict::{Evictor, Reopen};
use crate::tool::synced;

/// Up to this number of files, each is synced by itself. That costs less than a sync of the file
/// system, which includes the data of other processes.
const SINGLE_SYNCS_MAX: usize = 16;

/// The path of a file or directory that was created.
#[derive(Debug)]
pub(super) struct CreatedPath {
    root: Arc<Root>,
    path: Clean,
}

/// A file system, represented by a file on it.
#[derive(Debug)]
enum System {
    Open(OwnedFd),
    /// The file is opened again at the end.
    Named(CreatedPath),
}

impl System {
    fn sync(&self) -> Result<(), Errno> {
        match self {
            System::Open(fd) => syncfs(fd),
            System::Named(made) => syncfs(made.reopen().or_else(|_| made.open_parent())?),
        }
    }
}

/// The files created so far.
#[derive(Debug)]
pub(super) struct Storage {
    evictor: Evictor<CreatedPath>,
    /// One file for each file system that was written to.
    systems: Mutex<HashMap<u64, System>>,
    /// Whether there are so few descriptors that none is kept open.
    few: bool,
    /// The first files, up to one more than [`SINGLE_SYNCS_MAX`].
    first: Mutex<Vec<CreatedPath>>,
    /// Whether one sync covers a file system, by its device.
    has_syncfs: Mutex<HashMap<u64, bool>>,
    /// Directories on file systems of which it covers nothing.
    directories: Mutex<Vec<CreatedPath>>,
    /// The result of the syncs before, of which the kernel tells an error only once. A sync holds
    /// it: another one must not return before what this one has taken is durable.
    synced: Mutex<Result<(), Errno>>,
}

impl Storage {
    /// Creates an empty record.
    pub(super) fn new() -> Storage {
        Storage {
            evictor: Evictor::default(),
            systems: Mutex::default(),
            few: crate::tool::are_descriptors_few(),
            first: Mutex::default(),
            has_syncfs: Mutex::default(),
            directories: Mutex::default(),
            synced: Mutex::new(Ok(())),
        }
    }

    /// Whether the sync at the end covers an open file on this device. Otherwise it has to be
    /// synced itself, through the descriptor by which it was written.
    pub(super) fn has_syncfs(&self, dev: u64, fd: BorrowedFd<'_>) -> bool {
        *self.has_syncfs.lock().entry(dev).or_insert_with(|| synced::has_syncfs(fd))
    }

    /// Records a directory that is complete, as [`Storage::note`].
    pub(super) fn note_directory(
        &self,
        dev: u64,
        fd: BorrowedFd<'_>,
        root: &Arc<Root>,
        path: &Clean,
    ) {
        if !self.has_syncfs(dev, fd) {
            self.directories.lock().push(CreatedPath::new(root, path));
        }
        self.note(dev, fd, root, path);
    }

    /// Records a new file or directory, and its file system, for the sync at the end.
    pub(super) fn note(&self, dev: u64, fd: BorrowedFd<'_>, root: &Arc<Root>, path: &Clean) {
        let mut first = self.first.lock();
        if first.len() <= SINGLE_SYNCS_MAX {
            first.push(CreatedPath::new(root, path));
        }
        drop(first);
        let mut systems = self.systems.lock();
        systems.entry(dev).or_insert_with(|| match fd.try_clone_to_owned() {
            Ok(own) if !self.few => System::Open(own),
            _ => System::Named(CreatedPath::new(root, path)),
        });
    }

    /// As [`Evictor::wait_for_sync`].
    pub(super) fn wait_for_sync(
        &self,
        fd: BorrowedFd<'_>,
        root: &Arc<Root>,
        path: &Clean,
        bytes: u64,
    ) {
        self.evictor.wait_for_sync(fd, CreatedPath::new(root, path), bytes);
    }

    /// Makes durable what was recorded before, and drops the pages of the files that waited for it.
    ///
    /// # Errors
    /// Errors of syncing, also of earlier calls.
    pub(super) fn finish(&self) -> Result<(), Errno> {
        let mut before = self.synced.lock();
        let systems = std::mem::take(&mut *self.systems.lock());
        let first = std::mem::take(&mut *self.first.lock());
        let synced = match first.len() <= SINGLE_SYNCS_MAX && first.iter().all(CreatedPath::sync) {
            true => Ok(()),
            false => systems.values().map(System::sync).fold(Ok(()), Result::and),
        };
        let directories = std::mem::take(&mut *self.directories.lock());
        let synced = directories.iter().map(CreatedPath::sync_itself).fold(synced, Result::and);
        self.evictor.finish();
        *before = before.and(synced);
        *before
    }
}

impl CreatedPath {
    fn new(root: &Arc<Root>, path: &Clean) -> CreatedPath {
        CreatedPath { root: Arc::clone(root), path: path.clone() }
    }

    /// Syncs the file and its directory. Returns false if they cannot be opened by path or the sync
    /// fails.
    fn sync(&self) -> bool {
        let parent = || self.open_parent().and_then(synced::fsync);
        self.sync_itself().and_then(|()| parent()).is_ok()
    }

    fn sync_itself(&self) -> Result<(), Errno> {
        self.reopen().and_then(synced::fsync)
    }

    fn open_parent(&self) -> Result<OwnedFd, Errno> {
        let parent = self.path.split().map_or(&b""[..], |(parent, _)| parent);
        self.root.find(parent, OFlags::RDONLY | OFlags::DIRECTORY)
    }
}

impl Reopen for CreatedPath {
    fn reopen(&self) -> Result<OwnedFd, Errno> {
        self.root.find_data(&self.path.0)
    }
}
