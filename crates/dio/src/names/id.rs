//! Which file it is, whatever it is called.

use std::fs::Metadata;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use rustix::fs::Stat;
use rustix::io::Errno;

/// Identifies a file of the running system: the device that its file system is on, and its inode there. As long as a file
/// is open, or has a name, no other file has the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// By what `stat(2)` said of the file.
    pub fn of(stat: &Stat) -> FileId {
        FileId { device: stat.st_dev, inode: stat.st_ino }
    }

    /// Of an open file.
    ///
    /// # Errors
    /// What `fstat(2)` answers.
    pub fn of_open(fd: impl AsFd) -> Result<FileId, Errno> {
        rustix::fs::fstat(fd).map(|stat| FileId::of(&stat))
    }

    /// By what the standard library said of the file.
    pub fn of_metadata(metadata: &Metadata) -> FileId {
        FileId { device: metadata.dev(), inode: metadata.ino() }
    }

    /// From the two numbers, as `/proc/PID/maps` has them.
    pub fn from_numbers(device: u64, inode: u64) -> FileId {
        FileId { device, inode }
    }

    /// The number of the device.
    pub fn device(self) -> u64 {
        self.device
    }

    /// The number of the inode.
    pub fn inode(self) -> u64 {
        self.inode
    }
}
