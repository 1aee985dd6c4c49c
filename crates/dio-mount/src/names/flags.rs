//! Flags of inodes (`ioctl_iflags(2)`): immutable, append only, no copy on write and so on, as
//! `lsattr` and `chattr` know them.

use std::os::fd::{AsFd, OwnedFd};

use dio_sys::{EXTENDED_FLAGS_BYTES, extended_flags, set_extended_flags};
use rustix::fs::{IFlags, OFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::{Errno, Result};

use super::{Caller, InodeId, Names};

/// A regular file or directory is opened for nothing but its flags.
const FOR_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

impl Names {
    /// The flags of a regular file or directory.
    ///
    /// # Errors
    /// `ENOTTY` or `EOPNOTSUPP` from a file system that has none, `EINVAL` for what is neither file
    /// nor directory, `ESTALE` if it is gone.
    pub fn flags(&self, inode: InodeId) -> Result<u32> {
        Ok(ioctl_getflags(self.open(inode, FOR_FLAGS)?)?.bits())
    }

    /// The same with what the file system keeps besides (`FS_IOC_FSGETXATTR`), a `struct fsxattr`.
    ///
    /// # Errors
    /// As [`Names::flags`].
    pub fn extended_flags(&self, inode: InodeId) -> Result<[u8; EXTENDED_FLAGS_BYTES]> {
        extended_flags(self.open(inode, FOR_FLAGS)?.as_fd())
    }

    /// Sets the flags as the caller, who must own the inode, or be root: the kernel has checked
    /// that, and that who changes the immutable or append-only flag has `CAP_LINUX_IMMUTABLE`
    /// (`vfs_fileattr_set`, fs/file_attr.c). What a file system asks for besides, it asks of the
    /// caller.
    ///
    /// # Errors
    /// Those of [`Names::flags`], `EPERM`; `EOPNOTSUPP` of a striped file, whose bytes are in other
    /// files.
    pub fn set_flags(&self, caller: Caller, inode: InodeId, flags: u32) -> Result<()> {
        let file = self.plain(inode)?;
        self.as_caller_in_full(caller, || ioctl_setflags(&file, IFlags::from_bits_retain(flags)))
    }

    /// Sets what [`Names::extended_flags`] gave, as [`Names::set_flags`].
    ///
    /// # Errors
    /// As there.
    pub fn set_extended_flags(&self, caller: Caller, inode: InodeId, flags: [u8; EXTENDED_FLAGS_BYTES]) -> Result<()> {
        let file = self.plain(inode)?;
        self.as_caller_in_full(caller, || set_extended_flags(file.as_fd(), flags))
    }

    /// Opens what is not striped.
    fn plain(&self, inode: InodeId) -> Result<OwnedFd> {
        let file = self.open(inode, FOR_FLAGS)?;
        if dio::names::is_striped(&file)? { Err(Errno::OPNOTSUPP) } else { Ok(file) }
    }
}
