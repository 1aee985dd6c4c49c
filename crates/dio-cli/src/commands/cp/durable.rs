//! Durability: when `dio cp` exits with status 0, contents and names are on the medium.
//!
//! This module alone decides how. For few files, the data layer syncs each file when it is
//! complete, and this module syncs the directories of their names at the end. For a tree, it calls
//! `syncfs` once for each target file system at the end, because syncing 30,000 small files one by
//! one would commit the journal 30,000 times. Some file systems (FUSE) do not pass it on: there
//! each file is synced when it is complete, and each directory when it is filled. `--no-sync`
//! leaves all writing back to the kernel.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dio::names::FileId;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FileType, Mode, OFlags, fstat, openat, syncfs};
use rustix::io::Errno;

use super::dirs::{Dir, Handle};
use super::error::{CopyError, ErrorContext, FailedOperation};
use crate::tool::synced;

/// Maximum number of operands that are synced one by one; none of them may be a directory.
pub(super) const PER_FILE_SYNC_OPERANDS_MAX: usize = 16;

/// Collects what has to be synced at the end of a run.
pub(crate) struct Durable {
    policy: Policy,
    /// Descriptors to sync. The key of a file system is its device and inode 0; that of a directory
    /// or block device is its device and inode.
    places: Mutex<HashMap<FileId, SyncTarget>>,
    /// File systems on which no file that can be synced has been opened so far, with a directory on
    /// each.
    missing: Mutex<HashMap<u64, PathBuf>>,
    /// `missing` is not empty, so files are considered as descriptors for it.
    any_missing: AtomicBool,
    syncs: AtomicU64,
}

/// A descriptor to sync at the end.
struct SyncTarget {
    fd: OwnedFd,
    shown: PathBuf,
    /// Sync its whole file system, rather than only this file.
    whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Never,
    Files,
    Tree,
}

impl Durable {
    pub(super) fn new(sync: bool, per_file: bool) -> Self {
        let policy = match (sync, per_file) {
            (false, _) => Policy::Never,
            (true, true) => Policy::Files,
            (true, false) => Policy::Tree,
        };
        Self {
            policy,
            places: Mutex::default(),
            missing: Mutex::default(),
            any_missing: AtomicBool::new(false),
            syncs: AtomicU64::new(0),
        }
    }

    /// Notes that names are made in the target of `dir`, or below it in the directory part of
    /// `name`.
    pub(super) fn names_in(&self, dir: &Dir, name: &std::ffi::CStr) -> Result<(), CopyError> {
        if self.policy == Policy::Never {
            return Ok(());
        }
        let parent = parent_of(name.to_bytes());
        let shown = || dir.target_path(name);
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let pair = dir.open()?;
        let open = |flags| openat(&pair.target, parent, flags, Mode::empty());
        match open(directory) {
            Ok(fd) => {
                let stat = fstat(&fd).at(FailedOperation::Stat, shown)?;
                let whole = self.policy == Policy::Tree && synced::has_syncfs(&fd);
                let key = if whole { whole_system(stat.st_dev) } else { FileId::of(&stat) };
                self.add(key, SyncTarget { fd, shown: shown(), whole });
            }
            // A directory that cannot be read cannot be synced by itself.
            Err(Errno::ACCESS | Errno::PERM) => {
                let path = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                self.file_system_above(&open(path).at(FailedOperation::Sync, shown)?, shown());
            }
            // A directory that cannot be opened at all gives an error when a file is made in it.
            Err(_) => {}
        }
        Ok(())
    }

    /// Notes that an existing target directory on device `dev` is copied into. It may be on another
    /// file system than its parent.
    pub(super) fn file_system_of(
        &self,
        dir: &impl AsFd,
        dev: u64,
        shown: impl FnOnce() -> PathBuf,
    ) {
        if self.policy != Policy::Tree || self.places().contains_key(&whole_system(dev)) {
            return;
        }
        match openat(dir, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        {
            Ok(fd) => self.add(whole_system(dev), SyncTarget { fd, shown: shown(), whole: true }),
            Err(_) => self.file_system_above(dir, shown()),
        }
    }

    /// Notes that the contents of an open target are complete. It may be on a file system that no
    /// directory led to: at the end of a symbolic link, or where no directory can be read. `fresh`
    /// says that it is new.
    pub(super) fn file(
        &self,
        target: BorrowedFd<'_>,
        fresh: bool,
        shown: impl FnOnce() -> PathBuf,
    ) {
        let wanted =
            self.any_missing.load(Ordering::Relaxed) || (self.policy == Policy::Tree && !fresh);
        let Some(stat) = wanted.then(|| fstat(target).ok()).flatten() else { return };
        let (key, whole) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => (whole_system(stat.st_dev), true),
            // Syncing the file system that contains its name would not sync the device.
            FileType::BlockDevice => (FileId::of(&stat), false),
            _ => return,
        };
        if self.places().contains_key(&key) {
            return;
        }
        match target.try_clone_to_owned() {
            Ok(fd) => self.add(key, SyncTarget { fd, shown: shown(), whole }),
            Err(_) => self.miss(stat.st_dev, shown()),
        }
    }

    /// Finds a descriptor for the file system of `dir`, which cannot be read, among the directories
    /// above it.
    fn file_system_above(&self, dir: &impl AsFd, shown: PathBuf) {
        let device = |fd: BorrowedFd<'_>| fstat(fd).map(|stat| FileId::of(&stat));
        let path = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(start) = device(dir.as_fd()) else { return self.miss(u64::MAX, shown) };
        let (mut here, mut identity) = (openat(dir, c"..", path, Mode::empty()), start);
        while let Ok(above) = here {
            let Ok(found) = device(above.as_fd()) else { break };
            if found.device() != start.device() || found == identity {
                break;
            }
            if let Ok(fd) = openat(
                &above,
                c".",
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
                Mode::empty(),
            ) {
                return self
                    .add(whole_system(start.device()), SyncTarget { fd, shown, whole: true });
            }
            identity = found;
            here = openat(&above, c"..", path, Mode::empty());
        }
        self.miss(start.device(), shown);
    }

    /// Syncs the target of a directory in which everything is made, where only that brings its
    /// names to the storage.
    pub(super) fn directory(
        &self,
        dir: &Dir,
        shown: impl FnOnce() -> PathBuf,
    ) -> Result<(), CopyError> {
        let open = dir.open()?;
        if self.policy == Policy::Never || dir.has_syncfs(&open.target) {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // It may be open as a path only.
        let synced = openat(&open.target, c".", flags, Mode::empty()).and_then(synced::fsync);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        synced.at(FailedOperation::Sync, shown)
    }

    fn add(&self, key: FileId, place: SyncTarget) {
        self.places().entry(key).or_insert(place);
    }

    fn miss(&self, dev: u64, shown: PathBuf) {
        self.missing.lock().entry(dev).or_insert(shown);
        self.any_missing.store(true, Ordering::Relaxed);
    }

    fn places(&self) -> MutexGuard<'_, HashMap<FileId, SyncTarget>> {
        self.places.lock()
    }

    /// Waits until everything that was written so far is on the medium.
    ///
    /// # Errors
    /// `ENOTSUP` if some of it cannot be synced before the end; errors of the sync.
    pub(super) fn sync_now(&self) -> Result<(), Errno> {
        if self.policy == Policy::Never || self.any_missing.load(Ordering::Relaxed) {
            return Err(Errno::NOTSUP);
        }
        let places: Vec<_> = self
            .places()
            .values()
            .map(|place| place.fd.try_clone().map(|fd| (fd, place.whole)))
            .collect();
        for place in places {
            let (fd, whole) = place.map_err(|_| Errno::MFILE)?;
            if whole {
                sync_whole(&fd)?
            } else {
                synced::fsync(&fd)?
            }
            self.syncs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until everything is on the medium.
    pub(super) fn finish(&self) -> Result<(), CopyError> {
        let places = std::mem::take(&mut *self.places());
        let missing = std::mem::take(&mut *self.missing.lock());
        let mut outcome = Ok(());
        for (_, shown) in
            missing.into_iter().filter(|(dev, _)| !places.contains_key(&whole_system(*dev)))
        {
            outcome = outcome.and(Err(Errno::ACCESS).at(FailedOperation::Sync, || shown));
        }
        for SyncTarget { fd, shown, whole } in places.into_values() {
            let synced = if whole { sync_whole(&fd) } else { synced::fsync(&fd) };
            self.syncs.fetch_add(1, Ordering::Relaxed);
            outcome = outcome.and(synced.at(FailedOperation::Sync, || shown));
        }
        outcome
    }

    /// Number of syncs of directories and file systems so far.
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

/// Syncs a file system, and what is open of it by itself if that is not enough.
fn sync_whole(fd: &OwnedFd) -> Result<(), Errno> {
    syncfs(fd)?;
    if synced::has_syncfs(fd) { Ok(()) } else { synced::fsync(fd) }
}

/// The directory part of a name.
pub(super) fn parent_of(name: &[u8]) -> &[u8] {
    let end = name.iter().rposition(|&b| b != b'/').map_or(0, |i| i + 1);
    match name[..end].iter().rposition(|&b| b == b'/') {
        Some(slash) => &name[..=slash],
        None if end == 0 && !name.is_empty() => b"/",
        None => b".",
    }
}

/// Opens the directory part of `name`, for callers that need its attributes.
pub(super) fn open_parent(
    handle: &Handle,
    name: &std::ffi::CStr,
) -> Result<OwnedFd, rustix::io::Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(handle, parent_of(name.to_bytes()), flags, Mode::empty())
}

/// A key for a whole file system, by its device number: no file has inode 0.
fn whole_system(device: u64) -> FileId {
    FileId::from_numbers(device, 0)
}

#[cfg(test)]
mod tests {
    use super::parent_of;

    #[test]
    fn parents() {
        for (name, parent) in
            [("a", "."), ("a/", "."), ("a/b", "a/"), ("/a", "/"), ("/", "/"), ("a/b//", "a/")]
        {
            assert_eq!(parent_of(name.as_bytes()), parent.as_bytes(), "{name}");
        }
    }
}
