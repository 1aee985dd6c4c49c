//! Inode flags (`ioctl_iflags(2)`): immutable, append only, no copy on write and so on, as `lsattr`
//! and `chattr` show and set them.

use std::os::fd::{AsFd, OwnedFd};

use dio_sys::{EXTENDED_FLAGS_BYTES, extended_flags, set_extended_flags};
use rustix::fs::{IFlags, OFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::{Errno, Result};

use super::{Caller, InodeId, Names};

/// The flags with which a regular file or directory is opened to access its inode flags.
const FOR_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

impl Names {
    /// Returns the flags of a regular file or directory.
    ///
    /// # Errors
    /// `ENOTTY` or `EOPNOTSUPP` from a file system that has none, `EINVAL` for an inode that is
    /// neither a file nor a directory, `ESTALE` if it is gone.
    pub fn flags(&self, inode: InodeId) -> Result<u32> {
        Ok(ioctl_getflags(self.open(inode, FOR_FLAGS)?)?.bits())
    }

    /// Returns the extended flags (`FS_IOC_FSGETXATTR`), a `struct fsxattr`.
    ///
    /// # Errors
    /// As [`Names::flags`].
    pub fn extended_flags(&self, inode: InodeId) -> Result<[u8; EXTENDED_FLAGS_BYTES]> {
        extended_flags(self.open(inode, FOR_FLAGS)?.as_fd())
    }

    /// Sets the flags as the caller, who must own the inode or be root. The kernel has checked
    /// that, and that the caller has `CAP_LINUX_IMMUTABLE` for a change of the immutable or
    /// append-only flag (`vfs_fileattr_set`, fs/file_attr.c). Further checks of a file system apply
    /// to the caller.
    ///
    /// # Errors
    /// Those of [`Names::flags`], `EPERM`; `EOPNOTSUPP` for a striped file, whose bytes are in
    /// other files.
    pub fn set_flags(&self, caller: Caller, inode: InodeId, flags: u32) -> Result<()> {
        let file = self.plain(inode)?;
        self.as_caller_in_full(caller, || ioctl_setflags(&file, IFlags::from_bits_retain(flags)))
    }

    /// Sets the extended flags that [`Names::extended_flags`] returned, as [`Names::set_flags`]
    /// does.
    ///
    /// # Errors
    /// Those of [`Names::set_flags`].
    pub fn set_extended_flags(
        &self,
        caller: Caller,
        inode: InodeId,
        flags: [u8; EXTENDED_FLAGS_BYTES],
    ) -> Result<()> {
        let file = self.plain(inode)?;
        self.as_caller_in_full(caller, || set_extended_flags(file.as_fd(), flags))
    }

    /// Opens an inode; `EOPNOTSUPP` if it is a striped file.
    fn plain(&self, inode: InodeId) -> Result<OwnedFd> {
        let file = self.open(inode, FOR_FLAGS)?;
        if dio::names::is_striped(&file)? { Err(Errno::OPNOTSUPP) } else { Ok(file) }
    }
}
