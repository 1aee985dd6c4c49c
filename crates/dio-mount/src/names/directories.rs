//! Reading directories.
//!
//! Offsets are those of the file system below (`d_off`), so they stay good however long a directory is read and whatever
//! comes and goes in it. What was read ahead of the kernel's buffer is kept for its next request.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{OFlags, RawDir, SeekFrom, fdatasync, fstat, fsync, seek};
use rustix::io::{Errno, Result};

use super::resolve::shown;
use super::{InodeId, Name, Names, ROOT};

/// Bytes of names read at a time.
const BUFFER: usize = 32 << 10;

/// The open directories by handle.
#[derive(Debug, Default)]
pub(super) struct Directories {
    open: Mutex<HashMap<u64, Arc<Open>>>,
    last: AtomicU64,
}

#[derive(Debug)]
struct Open {
    file: OwnedFd,
    /// Whether `..` is outside.
    root: bool,
    /// Index of its file system.
    device: u32,
    state: Mutex<Ahead>,
}

/// Names that were read and not yet given.
#[derive(Debug, Default)]
struct Ahead {
    /// Where the first of `names` is found, and when there is none, where the descriptor stands.
    at: u64,
    names: VecDeque<Name>,
}

impl Directories {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Open>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, handle: u64) -> Result<Arc<Open>> {
        self.lock().get(&handle).cloned().ok_or(Errno::BADF)
    }
}

impl Names {
    /// Opens a directory for reading; the handle is never that of another.
    ///
    /// # Errors
    /// `ENOTDIR`, `ESTALE` if it is gone, those of `open(2)`.
    pub fn open_directory(&self, inode: InodeId) -> Result<u64> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let file =
            self.open(inode, flags).map_err(|errno| if errno == Errno::INVAL { Errno::NOTDIR } else { errno })?;
        let device = fstat(&file)?.st_dev;
        let device = self.shared.lock().mounts.device(device);
        let open = Open { file, root: inode == ROOT, device, state: Mutex::default() };
        let handle = self.directories.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.directories.lock().insert(handle, Arc::new(open));
        Ok(handle)
    }

    /// Gives the names from `offset` on (0 is the beginning, others are [`Name::next`] of earlier ones) until there are no
    /// more or `give` says that one did not fit any more. From the beginning on, they are read anew.
    ///
    /// # Errors
    /// `EBADF` for a handle that is not open, `ENOENT` if the directory was removed, those of `getdents(2)`.
    pub fn read_directory(&self, handle: u64, offset: u64, mut give: impl FnMut(Name) -> bool) -> Result<()> {
        let open = self.directories.get(handle)?;
        let root = self.root_number();
        let mut ahead = open.state.lock().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 || offset != ahead.at {
            *ahead = Ahead::default();
            seek(&open.file, SeekFrom::Start(offset))?;
            ahead.at = offset;
        }
        loop {
            while let Some(name) = ahead.names.front() {
                let next = name.next;
                if give(name.clone()) {
                    return Ok(());
                }
                ahead.names.pop_front();
                ahead.at = next;
            }
            if !open.fill(&mut ahead.names, root)? {
                return Ok(());
            }
        }
    }

    /// Makes the names of a directory durable.
    ///
    /// # Errors
    /// `EBADF` for a handle that is not open, those of `fsync(2)`.
    pub fn sync_directory(&self, handle: u64, data_only: bool) -> Result<()> {
        let open = self.directories.get(handle)?;
        if data_only { fdatasync(&open.file) } else { fsync(&open.file) }
    }

    /// Closes a directory.
    pub fn close_directory(&self, handle: u64) {
        let closed = self.directories.lock().remove(&handle);
        drop(closed);
    }
}

impl Open {
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
