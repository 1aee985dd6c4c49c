//! Open directories, and what was read of them.
//!
//! Offsets are those of the file system below (`d_off`), so they stay good however long a directory
//! is read and whatever comes and goes in it. What was read ahead of the kernel's buffer is kept
//! for its next request, unless the directory has changed since.
//!
//! The kernel may keep the names that it has read (`FOPEN_CACHE_DIR`), for as long as it may
//! believe names at all, and where the file system below tells by its times that a directory has
//! changed. What has changed within the last two seconds could change again without another time,
//! so it is read each time.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FileType, RawDir, SeekFrom, Stat, fdatasync, fstat, fstatfs, fsync, seek};
use rustix::io::{Errno, Result};

use super::inodes::{InodeId, shown};
use super::mounts::TMPFS;
use crate::users::Share;

/// Bytes of names read at a time.
const BUFFER: usize = 32 << 10;

/// Times are no coarser than this (FAT).
const COARSEST: Duration = Duration::from_secs(2);

/// Directories of which is known when the kernel began to read them; past this it reads all anew.
const MOST_READ: usize = 1 << 14;

/// No place in a directory: offsets of the kernel are not negative (`loff_t`).
const NOWHERE: u64 = u64::MAX;

/// Directories of which names are kept that were read and not yet given: up to 32 KiB of them, some
/// 130 KiB in memory, each.
const MOST_AHEAD: usize = 64;

/// What the kernel may do with its copy of the names of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    /// Have none.
    Never,
    /// Make a new one.
    Anew,
    /// Go on with the one that it has.
    Still,
}

/// One name in a directory.
#[derive(Debug, Clone)]
pub struct Name {
    /// The name; `.` and `..` among them.
    pub name: OsString,
    /// `d_type` of `getdents64(2)`.
    pub kind: FileType,
    /// Its inode number, as `st_ino` of [`Entry::stat`](super::Entry::stat); of a mount point the
    /// number of what is covered.
    pub number: u64,
    /// Where reading goes on behind it.
    pub next: u64,
}

/// By what a change of a directory shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    fn of(stat: &Stat) -> Stamp {
        Stamp { modified: (stat.st_mtime, stat.st_mtime_nsec), changed: (stat.st_ctime, stat.st_ctime_nsec) }
    }

    /// Whether another change from `now` on has another time.
    fn is_settled(&self, now: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.modified.max(self.changed);
        let last = u64::try_from(seconds).ok().map(|seconds| UNIX_EPOCH + Duration::new(seconds, nanoseconds as u32));
        // What lies in the future is not known to be over.
        last.is_some_and(|last| now.duration_since(last).is_ok_and(|since| since > COARSEST))
    }
}

/// The open directories by handle.
#[derive(Debug, Default)]
pub(super) struct Directories {
    open: Mutex<HashMap<u64, Arc<Open>>>,
    last: AtomicU64,
    /// Those with names that were read and not yet given, the last read last.
    ahead: Mutex<VecDeque<Weak<Open>>>,
    /// What directories were like, and when, as the kernel was last told to make a copy of their
    /// names.
    read: Mutex<HashMap<InodeId, (Stamp, Instant)>>,
}

#[derive(Debug)]
struct Open {
    inode: InodeId,
    file: OwnedFd,
    /// As it was opened.
    stamp: Stamp,
    /// Whether `..` is outside.
    root: bool,
    /// Index of its file system.
    device: u32,
    state: Mutex<Ahead>,
    _share: Share,
}

/// Names that were read and not yet given.
#[derive(Debug, Default)]
struct Ahead {
    /// Where the first of `names` is found, and when there is none, where the descriptor stands.
    at: u64,
    names: VecDeque<Name>,
    /// What the directory was like before they were read.
    stamp: Option<Stamp>,
}

impl Directories {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Open>>> {
        self.open.lock()
    }

    /// Names of this directory are kept for the next request. Of others, read long ago, they are
    /// given up: there are at most [`MOST_AHEAD`] of them, however many directories somebody has
    /// open.
    fn keeps_names(&self, open: &Arc<Open>) {
        let mut ahead = self.ahead.lock();
        if let Some(at) = ahead.iter().position(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(open))) {
            ahead.remove(at);
        }
        ahead.push_back(Arc::downgrade(open));
        let oldest = if ahead.len() > MOST_AHEAD { ahead.pop_front() } else { None };
        drop(ahead);
        // One that is just being read keeps a few until it is read again or closed.
        if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade())
            && let Some(mut names) = oldest.state.try_lock()
        {
            *names = Ahead { at: NOWHERE, ..Ahead::default() };
        }
    }

    #[cfg(test)]
    pub(super) fn with_names(&self) -> usize {
        self.lock().values().filter(|open| !open.state.lock().names.is_empty()).count()
    }

    fn get(&self, handle: u64) -> Result<Arc<Open>> {
        self.lock().get(&handle).cloned().ok_or(Errno::BADF)
    }

    /// Adds an open directory with these attributes; `root` says that what is above it is outside,
    /// and `device` is the index of its file system. The handle is never that of another.
    pub(super) fn add(
        &self,
        inode: InodeId,
        (file, stat): (OwnedFd, &Stat),
        root: bool,
        device: u32,
        share: Share,
    ) -> u64 {
        let stamp = Stamp::of(stat);
        let open = Open { inode, file, stamp, root, device, state: Mutex::default(), _share: share };
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.lock().insert(handle, Arc::new(open));
        handle
    }

    /// What the kernel may do with its copy of the names of a directory that was just opened, where
    /// it may believe names for `remember`. `tells` says whether the times of a directory tell of
    /// every change in it.
    pub(super) fn copied(&self, handle: u64, remember: Duration, tells: impl FnOnce(InodeId) -> bool) -> Copied {
        let Ok(open) = self.get(handle) else { return Copied::Never };
        let tells = tells(open.inode);
        let mut read = self.read.lock();
        if !tells || remember.is_zero() || !open.stamp.is_settled(SystemTime::now()) {
            // Whoever has opened it before and still reads it must not be what others go by.
            read.remove(&open.inode);
            return Copied::Never;
        }
        let now = Instant::now();
        if let Some((stamp, at)) = read.get(&open.inode)
            && *stamp == open.stamp
            && now.duration_since(*at) < remember
        {
            return Copied::Still;
        }
        if read.len() >= MOST_READ {
            read.clear();
        }
        read.insert(open.inode, (open.stamp, now));
        Copied::Anew
    }

    /// Gives the names of a directory, as [`Names::read_directory`](super::Names::read_directory)
    /// says; `root` is the number of the root.
    ///
    /// # Errors
    /// As there.
    pub(super) fn give(&self, handle: u64, offset: u64, root: u64, mut give: impl FnMut(Name) -> bool) -> Result<()> {
        let open = self.get(handle)?;
        let mut ahead = open.state.lock();
        let has_changed = |ahead: &Ahead| ahead.stamp.is_some_and(|stamp| Ok(stamp) != open.stamp());
        if offset == 0 || offset != ahead.at || has_changed(&ahead) && open.keeps_places() {
            *ahead = Ahead::default();
            seek(&open.file, SeekFrom::Start(offset))?;
            ahead.at = offset;
        }
        loop {
            while let Some(name) = ahead.names.front() {
                let next = name.next;
                if give(name.clone()) {
                    drop(ahead);
                    self.keeps_names(&open);
                    return Ok(());
                }
                ahead.names.pop_front();
                ahead.at = next;
            }
            ahead.stamp = Some(open.stamp()?);
            if !open.fill(&mut ahead.names, root)? {
                return Ok(());
            }
        }
    }

    /// Makes the names of a directory durable.
    ///
    /// # Errors
    /// `EBADF` for a handle that is not open, those of `fsync(2)`.
    pub(super) fn sync(&self, handle: u64, data_only: bool) -> Result<()> {
        let open = self.get(handle)?;
        if data_only { fdatasync(&open.file) } else { fsync(&open.file) }
    }

    /// Closes a directory.
    pub(super) fn close(&self, handle: u64) {
        let closed = self.lock().remove(&handle);
        drop(closed);
    }
}

impl Open {
    /// Whether reading can go on from the place of a name that is gone. On tmpfs that leads to
    /// names before it (seen with Linux 6.18; `offset_readdir`, fs/libfs.c): what was read ahead
    /// there is given although some of it may be gone.
    fn keeps_places(&self) -> bool {
        fstatfs(&self.file).is_ok_and(|fs| fs.f_type as u32 != TMPFS)
    }

    /// What the directory is like now.
    fn stamp(&self) -> Result<Stamp> {
        fstat(&self.file).map(|stat| Stamp::of(&stat))
    }

    /// Reads more names; false at the end.
    fn fill(&self, names: &mut VecDeque<Name>, root: u64) -> Result<bool> {
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut directory = RawDir::new(&self.file, buffer.spare_capacity_mut());
        while let Some(entry) = directory.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_os_string();
            // The directory above the source is nobody's business.
            let number = if self.root && name == ".." { root } else { shown(self.device, entry.ino()) };
            let kind = entry.file_type();
            names.push_back(Name { name, kind, number, next: entry.next_entry_cookie() });
            if directory.is_buffer_empty() {
                break;
            }
        }
        Ok(!names.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_lately_may_change_again_without_another_time() {
        let at = |seconds, nanoseconds| Stamp { modified: (seconds, nanoseconds), changed: (0, 0) };
        let now = UNIX_EPOCH + Duration::from_secs(100);
        assert!(at(97, 999_999_999).is_settled(now));
        assert!(!at(98, 0).is_settled(now) && !at(99, 999_999_999).is_settled(now));
        assert!(!at(101, 0).is_settled(now), "a clock that is ahead");
        assert!(!Stamp { modified: (-5, 0), changed: (-5, 0) }.is_settled(now));
        assert!(!Stamp { modified: (0, 0), changed: (99, 0) }.is_settled(now), "a time that was set");
    }
}
