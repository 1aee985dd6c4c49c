//! Durability: when `dio cp` exits with status 0, contents and names are on the medium.
//!
//! The one place that decides how. Few files: the data layer syncs each file as it is done, and
//! here the directories of their names are synced at the end. A tree: one `syncfs` for each target
//! file system at the end, because syncing 30,000 small files one by one would commit the journal
//! 30,000 times. `--no-sync` leaves all of it to the kernel.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{CWD, Mode, OFlags, fsync, openat, syncfs};

use super::dirs::{Dir, Handle};
use super::error::{At, CopyError, Doing};

/// Operands up to this many, none of them a directory, are synced one by one.
pub(super) const FEW: usize = 16;

/// What has to be synced at the end of a run.
pub(crate) struct Durable {
    policy: Policy,
    /// For [`Policy::Tree`]: one open directory for each target file system, by device.
    /// For [`Policy::Files`]: the directories of the targets, by device and inode.
    places: Mutex<HashMap<(u64, u64), (OwnedFd, PathBuf)>>,
    syncs: AtomicU64,
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
        Self { policy, places: Mutex::default(), syncs: AtomicU64::new(0) }
    }

    /// Names are made in the target of `dir`, or below the directory part of `name` in it.
    pub(super) fn names_in(&self, dir: &Dir, name: &std::ffi::CStr) -> Result<(), CopyError> {
        if self.policy == Policy::Never {
            return Ok(());
        }
        let parent = parent_of(name.to_bytes());
        let shown = || dir.target_path(name);
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match (&dir.target, parent) {
            (Handle::Open(fd), b".") => openat(fd, c".", directory, Mode::empty()),
            (handle, parent) => openat(handle, parent, directory, Mode::empty()),
        };
        // A directory that may not be read cannot be synced by itself.
        let Ok(fd) = opened else { return Ok(()) };
        let stat = rustix::fs::fstat(&fd).at(Doing::Stat, shown)?;
        let key = if self.policy == Policy::Files { (stat.st_dev, stat.st_ino) } else { (stat.st_dev, 0) };
        let mut places = self.places.lock().expect("nothing panics under this lock");
        places.entry(key).or_insert_with(|| (fd, shown()));
        Ok(())
    }

    /// An existing target directory on device `dev` is copied into: it may be on another file system
    /// than the one above it.
    pub(super) fn file_system_of(&self, dir: &impl std::os::fd::AsFd, dev: u64, shown: impl FnOnce() -> PathBuf) {
        if self.policy != Policy::Tree {
            return;
        }
        let mut places = self.places.lock().expect("nothing panics under this lock");
        if places.contains_key(&(dev, 0)) {
            return;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if let Ok(fd) = openat(dir, c".", flags, Mode::empty()) {
            places.insert((dev, 0), (fd, shown()));
        }
    }

    /// Waits until everything is on the medium.
    pub(super) fn finish(&self) -> Result<(), CopyError> {
        let places = std::mem::take(&mut *self.places.lock().expect("nothing panics under this lock"));
        let mut outcome = Ok(());
        for (fd, shown) in places.into_values() {
            let synced = match self.policy {
                Policy::Never => Ok(()),
                Policy::Files => fsync(&fd),
                Policy::Tree => syncfs(&fd),
            };
            self.syncs.fetch_add(u64::from(self.policy != Policy::Never), Ordering::Relaxed);
            outcome = outcome.and(synced.at(Doing::Sync, || shown));
        }
        outcome
    }

    /// Syncs of directories and file systems so far.
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
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

/// Where the directory part of `name` is, for callers that need its attributes.
pub(super) fn open_parent(handle: &Handle, name: &std::ffi::CStr) -> Result<OwnedFd, rustix::io::Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match handle {
        Handle::Working => openat(CWD, parent_of(name.to_bytes()), flags, Mode::empty()),
        Handle::Open(fd) => openat(fd, parent_of(name.to_bytes()), flags, Mode::empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::parent_of;

    #[test]
    fn parents() {
        for (name, parent) in [("a", "."), ("a/", "."), ("a/b", "a/"), ("/a", "/"), ("/", "/"), ("a/b//", "a/")] {
            assert_eq!(parent_of(name.as_bytes()), parent.as_bytes(), "{name}");
        }
    }
}
