//! The types of file systems.

use std::io;
use std::os::fd::BorrowedFd;

/// The type of a file system, identified by its magic number (`statfs(2)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileSystem {
    magic: u32,
}

/// Magic numbers of `include/uapi/linux/magic.h` and of file systems outside the kernel tree.
const FILE_SYSTEMS: [(u32, &str); 29] = [
    (EXT, "ext2/ext3/ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (TMPFS, "tmpfs"),
    (RAMFS, "ramfs"),
    (HUGETLBFS, "hugetlbfs"),
    (OVERLAYFS, "overlayfs"),
    (FUSE, "fuse"),
    (0x6969, "nfs"),
    (CIFS, "cifs"),
    (SMB2, "smb2"),
    (0xf2f5_2010, "f2fs"),
    (0xca45_1a4e, "bcachefs"),
    (0x2fc1_2fc1, "zfs"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x00c3_6400, "ceph"),
    (0x0116_1970, "gfs2"),
    (0x7461_636f, "ocfs2"),
    (0x2011_bab0, "exfat"),
    (0x4d44, "msdos/vfat"),
    (0x7366_746e, "ntfs3"),
    (0x3153_464a, "jfs"),
    (0x3434, "nilfs2"),
    (0x7371_7368, "squashfs"),
    (0xe0f5_e1e2, "erofs"),
    (0x9660, "iso9660"),
    (NINE_P, "9p"),
    (0x6462_6720, "debugfs"),
];
const EXT: u32 = 0xef53;
const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58f6;
const HUGETLBFS: u32 = 0x9584_58f6;
const OVERLAYFS: u32 = 0x794c_7630;
const FUSE: u32 = 0x6573_5546;
const CIFS: u32 = 0xff53_4d42;
const SMB2: u32 = 0xfe53_4d42;
const NINE_P: u32 = 0x0102_1997;

impl FileSystem {
    /// The file system that an open file is on. The node of a block device usually lies on a tmpfs
    /// of its own.
    ///
    /// # Errors
    /// What `fstatfs(2)` answers.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self::from_magic(rustix::fs::fstatfs(fd)?.f_type as u32))
    }

    /// Whether the kernel keeps direct appends (`O_APPEND`) of several processes apart, by finding
    /// the end of the file and writing there under one lock. ext4 does (kernel,
    /// `ext4_dio_write_checks`). On xfs appends were seen to overwrite each other. Of other file
    /// systems nothing is known.
    pub fn keeps_direct_appends_apart(self) -> bool {
        self.magic == EXT
    }

    /// The file system of this magic number.
    pub fn from_magic(magic: u32) -> Self {
        Self { magic }
    }

    /// The magic number.
    pub fn magic(self) -> u32 {
        self.magic
    }

    /// The file system's name; `None` for an unusual one. ext2, ext3 and ext4 share a number and
    /// thus a name.
    pub fn name(self) -> Option<&'static str> {
        FILE_SYSTEMS.iter().find(|(magic, _)| *magic == self.magic).map(|(_, name)| *name)
    }

    /// Whether the page cache *is* the storage of the file system. Then no I/O is direct and no
    /// page can be evicted.
    pub fn is_memory(self) -> bool {
        matches!(self.magic, TMPFS | RAMFS | HUGETLBFS)
    }

    /// Whether `syncfs(2)` brings files to the storage. The kernel does not pass it on to FUSE
    /// servers (`fuse_sync_fs`), which may hold back writes and report their errors only when the
    /// file is synced or closed, nor to those of SMB and 9P, whose clients have no `sync_fs`.
    pub fn has_syncfs(self) -> bool {
        !matches!(self.magic, FUSE | CIFS | SMB2 | NINE_P)
    }

    /// Whether the pages of a file may belong to an inode of another file system (overlayfs; FUSE
    /// with passthrough). Calls that look at the file's own mapping (`cachestat`,
    /// `sync_file_range`) then miss them.
    pub fn passes_data_through(self) -> bool {
        matches!(self.magic, OVERLAYFS | FUSE)
    }
}
