//! Open directories, and the names that were read from them ahead of requests.
//!
//! Offsets are those of the file system below (`d_off`), so they stay valid for as long as a
//! directory is read, even when names are added and removed. Names that did not fit into the
//! kernel's buffer are kept for its next request, unless the directory has changed since.
//!
//! The kernel may cache the names that it has read (`FOPEN_CACHE_DIR`) for as long as it may cache
//! lookups, if the file system below updates a directory's times at every change. A directory that
//! changed within the last two seconds could change again without a new time, so it is read each
//! time.

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

/// Bytes of names that one system call reads.
const BUFFER: usize = 32 << 10;

/// No file system has coarser timestamps than this (FAT).
const COARSEST: Duration = Duration::from_secs(2);

/// Most directories for which `read` keeps an entry; beyond this all entries are dropped, and the
/// kernel reads every directory anew.
const MOST_READ: usize = 1 << 14;

/// An invalid position in a directory: the kernel's offsets (`loff_t`) are not negative.
const OFFSET_INVALID: u64 = u64::MAX;

/// Most open directories with names read ahead. Each keeps up to 32 KiB of names, some 130 KiB in
/// memory.
const MOST_AHEAD: usize = 64;

/// Instructions for the kernel's cached copy of a directory's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameCache {
    /// Keep no copy.
    Never,
    /// Make a new copy.
    Anew,
    /// Use the existing copy.
    Still,
}

/// One name in a directory.
#[derive(Debug, Clone)]
pub struct Name {
    /// The name; `.` and `..` among them.
    pub name: OsString,
    /// `d_type` of `getdents64(2)`.
    pub kind: FileType,
    /// The inode number, as `st_ino` of [`FoundInode::stat`](super::FoundInode::stat). For a mount
    /// point it is the number of the covered directory.
    pub number: u64,
    /// The offset of the next name.
    pub next: u64,
}

/// The times by which a change of a directory is detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    fn of(stat: &Stat) -> Stamp {
        Stamp {
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Whether a change at `now` or later would set a different time.
    fn is_settled(&self, now: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.modified.max(self.changed);
        let last = u64::try_from(seconds)
            .ok()
            .map(|seconds| UNIX_EPOCH + Duration::new(seconds, nanoseconds as u32));
        // A time in the future may be set again.
        last.is_some_and(|last| now.duration_since(last).is_ok_and(|since| since > COARSEST))
    }
}

/// The open directories, by handle.
#[derive(Debug, Default)]
pub(super) struct Directories {
    open: Mutex<HashMap<u64, Arc<OpenDirectory>>>,
    last: AtomicU64,
    /// Directories with names that were read and not yet returned; the one read last is at the end.
    ahead: Mutex<VecDeque<Weak<OpenDirectory>>>,
    /// The stamp of each directory, and the time, at which the kernel was last told to make a copy
    /// of its names.
    read: Mutex<HashMap<InodeId, (Stamp, Instant)>>,
}

#[derive(Debug)]
struct OpenDirectory {
    inode: InodeId,
    file: OwnedFd,
    /// The directory's times when it was opened.
    stamp: Stamp,
    /// Whether this is the root of the mount, so that `..` is outside.
    root: bool,
    /// Index of the directory's file system.
    device: u32,
    state: Mutex<Ahead>,
    _share: Share,
}

/// Names that were read and not yet returned.
#[derive(Debug, Default)]
struct Ahead {
    /// The offset of the first of `names`; if there are none, the offset of the descriptor.
    at: u64,
    names: VecDeque<Name>,
    /// The directory's times before `names` were read.
    stamp: Option<Stamp>,
}

impl Directories {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<OpenDirectory>>> {
        self.open.lock()
    }

    /// Records that this directory has names for the next request. If more than [`MOST_AHEAD`]
    /// directories have such names, the one read longest ago loses its names.
    fn keeps_names(&self, open: &Arc<OpenDirectory>) {
        let mut ahead = self.ahead.lock();
        if let Some(at) =
            ahead.iter().position(|other| std::ptr::eq(other.as_ptr(), Arc::as_ptr(open)))
        {
            ahead.remove(at);
        }
        ahead.push_back(Arc::downgrade(open));
        let oldest = if ahead.len() > MOST_AHEAD { ahead.pop_front() } else { None };
        drop(ahead);
        // A directory that is being read at this moment keeps its names until the next read or the
        // close.
        if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade())
            && let Some(mut names) = oldest.state.try_lock()
        {
            *names = Ahead { at: OFFSET_INVALID, ..Ahead::default() };
        }
    }

    #[cfg(test)]
    pub(super) fn with_names(&self) -> usize {
        self.lock().values().filter(|open| !open.state.lock().names.is_empty()).count()
    }

    fn get(&self, handle: u64) -> Result<Arc<OpenDirectory>> {
        self.lock().get(&handle).cloned().ok_or(Errno::BADF)
    }

    /// Adds an open directory with these attributes. `root` says that its parent is outside the
    /// mount; `device` is the index of its file system. Handles are never reused.
    pub(super) fn add(
        &self,
        inode: InodeId,
        (file, stat): (OwnedFd, &Stat),
        root: bool,
        device: u32,
        share: Share,
    ) -> u64 {
        let stamp = Stamp::of(stat);
        let open = OpenDirectory {
            inode,
            file,
            stamp,
            root,
            device,
            state: Mutex::default(),
            _share: share,
        };
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.lock().insert(handle, Arc::new(open));
        handle
    }

    /// Decides about the kernel's copy of the names of a directory that was just opened. The kernel
    /// may cache lookups for `remember`. `tells` returns whether the directory's times change at
    /// every change of its contents.
    pub(super) fn copied(
        &self,
        handle: u64,
        remember: Duration,
        tells: impl FnOnce(InodeId) -> bool,
    ) -> NameCache {
        let Ok(open) = self.get(handle) else { return NameCache::Never };
        let tells = tells(open.inode);
        let mut read = self.read.lock();
        if !tells || remember.is_zero() || !open.stamp.is_settled(SystemTime::now()) {
            // Later opens must not rely on a copy that a reader made before.
            read.remove(&open.inode);
            return NameCache::Never;
        }
        let now = Instant::now();
        if let Some((stamp, at)) = read.get(&open.inode)
            && *stamp == open.stamp
            && now.duration_since(*at) < remember
        {
            return NameCache::Still;
        }
        if read.len() >= MOST_READ {
            read.clear();
        }
        read.insert(open.inode, (open.stamp, now));
        NameCache::Anew
    }

    /// Returns the names of a directory, as [`Names::read_directory`](super::Names::read_directory)
    /// does; `root` is the inode number of the root.
    ///
    /// # Errors
    /// Those of [`Names::read_directory`](super::Names::read_directory).
    pub(super) fn give(
        &self,
        handle: u64,
        offset: u64,
        root: u64,
        mut give: impl FnMut(Name) -> bool,
    ) -> Result<()> {
        let open = self.get(handle)?;
        let mut ahead = open.state.lock();
        let has_changed =
            |ahead: &Ahead| ahead.stamp.is_some_and(|stamp| Ok(stamp) != open.stamp());
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
    /// `EBADF` for a handle that is not open, and those of `fsync(2)`.
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

impl OpenDirectory {
    /// Whether a read can continue at the offset of a name that was removed. On tmpfs it would
    /// continue before that name (seen with Linux 6.18; `offset_readdir`, fs/libfs.c). On tmpfs,
    /// names that were read ahead are therefore returned even if some were removed since.
    fn keeps_places(&self) -> bool {
        fstatfs(&self.file).is_ok_and(|fs| fs.f_type as u32 != TMPFS)
    }

    /// Returns the directory's current times.
    fn stamp(&self) -> Result<Stamp> {
        fstat(&self.file).map(|stat| Stamp::of(&stat))
    }

    /// Reads more names into `names`; returns false at the end of the directory.
    fn fill(&self, names: &mut VecDeque<Name>, root: u64) -> Result<bool> {
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut directory = RawDir::new(&self.file, buffer.spare_capacity_mut());
        while let Some(entry) = directory.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_os_string();
            // The inode number of the directory above the source is not disclosed.
            let number =
                if self.root && name == ".." { root } else { shown(self.device, entry.ino()) };
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
        assert!(
            !Stamp { modified: (0, 0), changed: (99, 0) }.is_settled(now),
            "a time that was set"
        );
    }
}
