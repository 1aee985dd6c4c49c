//! Opening, reading and syncing directories for the kernel.

use std::time::Duration;

use rustix::fs::{OFlags, fstat};
use rustix::io::{Errno, Result};

use super::{InodeId, Name, NameCache, Names, ROOT};

impl Names {
    /// Opens a directory for reading. Handles are never reused.
    ///
    /// # Errors
    /// `ENOTDIR`, `ENFILE` beyond the user's share of the descriptors, `ESTALE` if it is gone, and
    /// those of `open(2)`.
    pub fn open_directory(&self, user: u32, inode: InodeId) -> Result<u64> {
        let share = self.users.take_descriptors(user, 1)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let file = self
            .open(inode, flags)
            .map_err(|errno| if errno == Errno::INVAL { Errno::NOTDIR } else { errno })?;
        let stat = fstat(&file)?;
        let device = self.shared.lock().mounts.device(stat.st_dev);
        Ok(self.directories.add(inode, (file, &stat), inode == ROOT, device, share))
    }

    /// Decides about the kernel's copy of the names of a directory that was just opened; the kernel
    /// may cache lookups for `remember`.
    pub fn copied(&self, handle: u64, remember: Duration) -> NameCache {
        self.directories.copied(handle, remember, |inode| self.shared.lock().tells_changes(inode))
    }

    /// Passes the names from `offset` on to `give`, until there are no more or `give` returns true
    /// because a name did not fit. The offset is 0 for the beginning, or [`Name::next`] of an
    /// earlier name. At offset 0 the names are read anew.
    ///
    /// # Errors
    /// `EBADF` for a handle that is not open, `ENOENT` if the directory was removed, and those of
    /// `getdents(2)`.
    pub fn read_directory(
        &self,
        handle: u64,
        offset: u64,
        give: impl FnMut(Name) -> bool,
    ) -> Result<()> {
        self.directories.give(handle, offset, self.root_number(), give)
    }

    /// Makes the names of a directory durable.
    ///
    /// # Errors
    /// `EBADF` for a handle that is not open, and those of `fsync(2)`.
    pub fn sync_directory(&self, handle: u64, data_only: bool) -> Result<()> {
        self.directories.sync(handle, data_only)
    }

    /// Closes a directory.
    pub fn close_directory(&self, handle: u64) {
        self.directories.close(handle);
    }
}
