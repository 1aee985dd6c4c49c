//! The identity of a file, whatever its names are.

use std::fs::Metadata;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use rustix::fs::Stat;
use rustix::io::Errno;

/// Identifies a file of the running system by the device of its file system and its inode number.
/// While a file is open or has a name, no other file has the same identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file that `stat(2)` describes.
    pub fn of(stat: &Stat) -> FileId {
        FileId { device: stat.st_dev, inode: stat.st_ino }
    }

    /// An open file.
    ///
    /// # Errors
    /// What `fstat(2)` answers.
    pub fn of_open(fd: impl AsFd) -> Result<FileId, Errno> {
        rustix::fs::fstat(fd).map(|stat| FileId::of(&stat))
    }

    /// The file that the standard library describes.
    pub fn of_metadata(metadata: &Metadata) -> FileId {
        FileId { device: metadata.dev(), inode: metadata.ino() }
    }

    /// A file given by the two numbers, as in `/proc/PID/maps`.
    pub fn from_numbers(device: u64, inode: u64) -> FileId {
        FileId { device, inode }
    }

    /// The device number (`st_dev`).
    pub fn device(self) -> u64 {
        self.device
    }

    /// The inode number (`st_ino`).
    pub fn inode(self) -> u64 {
        self.inode
    }
}
