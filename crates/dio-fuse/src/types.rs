//! Numbers, attributes and times.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType as Kind, major, minor};

use crate::abi;
use crate::flags::{StatxAttributes, StatxMask};

/// The number by which the kernel names an inode (`nodeid`). It may differ from the `st_ino` that
/// programs see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct INodeNo(pub u64);

impl INodeNo {
    /// The root of the mount (`FUSE_ROOT_ID`).
    pub const ROOT: INodeNo = INodeNo(1);
}

/// The number by which the kernel names an open file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileHandle(pub u64);

/// Distinguishes inodes that had the same number one after the other. A pair of inode number and
/// generation is never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Generation(pub u64);

/// An owner of locks: a number for each table of open files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LockOwner(pub u64);

/// The number of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

/// An `ioctl(2)` in the restricted form: it reads and writes one contiguous piece of memory, whose
/// size is part of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ioctl<'a> {
    /// The open file or directory.
    pub fh: FileHandle,
    /// The number of the ioctl.
    pub command: u32,
    /// Address of the memory in the program; 0 for an ioctl that the kernel makes itself, on behalf
    /// of a program that it has checked.
    pub address: u64,
    /// Contents of the memory, if the ioctl reads it.
    pub data: &'a [u8],
    /// Number of bytes that the reply has.
    pub answer_bytes: usize,
}

/// Flags of `open(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpenFlags(pub i32);

/// Version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

/// The type of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// Named pipe.
    NamedPipe,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
    /// Directory.
    Directory,
    /// Regular file.
    RegularFile,
    /// Symbolic link.
    Symlink,
    /// Socket.
    Socket,
}

impl FileType {
    /// The bits of the type in `st_mode`.
    fn mode(self) -> u32 {
        let kind = match self {
            FileType::NamedPipe => Kind::Fifo,
            FileType::CharDevice => Kind::CharacterDevice,
            FileType::BlockDevice => Kind::BlockDevice,
            FileType::Directory => Kind::Directory,
            FileType::RegularFile => Kind::RegularFile,
            FileType::Symlink => Kind::Symlink,
            FileType::Socket => Kind::Socket,
        };
        kind.as_raw_mode()
    }

    /// The type as in `d_type` of `readdir(3)`.
    pub(crate) fn dirent_type(self) -> u32 {
        self.mode() >> 12
    }
}

/// Attributes of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileAttr {
    /// The `st_ino` that programs see. The kernel does not name the inode by it.
    pub ino: INodeNo,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space, in units of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub atime: SystemTime,
    /// Last change of the data.
    pub mtime: SystemTime,
    /// Last change of the inode.
    pub ctime: SystemTime,
    /// Creation. Programs get it only by [`Statx`].
    pub crtime: SystemTime,
    /// Type.
    pub kind: FileType,
    /// Permissions, with the set-user-ID, set-group-ID and sticky bits.
    pub perm: u16,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of a device, in 32 bits: `new_encode_dev` of `include/linux/kdev_t.h`.
    pub rdev: u32,
    /// Preferred size of reads and writes, in bytes.
    pub blksize: u32,
    /// `FUSE_ATTR_*`.
    pub flags: u32,
}

impl FileAttr {
    pub(crate) fn mode(&self) -> u32 {
        self.kind.mode() | u32::from(self.perm & 0o7777)
    }
}

impl From<&FileAttr> for abi::Attr {
    fn from(attr: &FileAttr) -> abi::Attr {
        let [(atime, atimensec), (mtime, mtimensec), (ctime, ctimensec)] =
            [attr.atime, attr.mtime, attr.ctime].map(since_epoch);
        abi::Attr {
            ino: attr.ino.0,
            size: attr.size,
            blocks: attr.blocks,
            atime,
            mtime,
            ctime,
            atimensec,
            mtimensec,
            ctimensec,
            mode: attr.mode(),
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            blksize: attr.blksize,
            flags: attr.flags,
        }
    }
}

/// The inode that a name refers to, and how long the kernel may cache it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The number by which the kernel names the inode, until it has forgotten all lookups of it.
    pub inode: INodeNo,
    /// Distinguishes the inode from earlier ones with the same number.
    pub generation: Generation,
    /// How long the kernel may cache the name.
    pub entry_ttl: Duration,
    /// Attributes of the inode.
    pub attr: FileAttr,
    /// How long the kernel may cache the attributes.
    pub attr_ttl: Duration,
}

impl From<&Entry> for abi::EntryOut {
    fn from(entry: &Entry) -> abi::EntryOut {
        abi::EntryOut {
            nodeid: entry.inode.0,
            generation: entry.generation.0,
            entry_valid: entry.entry_ttl.as_secs(),
            attr_valid: entry.attr_ttl.as_secs(),
            entry_valid_nsec: entry.entry_ttl.subsec_nanos(),
            attr_valid_nsec: entry.attr_ttl.subsec_nanos(),
            attr: (&entry.attr).into(),
        }
    }
}

/// Attributes of an inode, with those that `stat(2)` lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statx {
    /// The attributes of `stat(2)`, and [`FileAttr::crtime`].
    pub attr: FileAttr,
    /// Fields of `attr` that are valid.
    pub mask: StatxMask,
    /// Flags, for example [`StatxAttributes::IMMUTABLE`].
    pub attributes: StatxAttributes,
    /// Flags that the file system supports.
    pub attributes_mask: StatxAttributes,
}

impl From<&Statx> for abi::Statx {
    fn from(statx: &Statx) -> abi::Statx {
        let attr = &statx.attr;
        let time = |time| {
            let (tv_sec, tv_nsec) = since_epoch(time);
            abi::SxTime { tv_sec, tv_nsec, reserved: 0 }
        };
        let (rdev_major, rdev_minor) =
            (attr.rdev >> 8 & 0xfff, attr.rdev & 0xff | attr.rdev >> 12 & 0xf_ff00);
        abi::Statx {
            mask: statx.mask.bits(),
            blksize: attr.blksize,
            attributes: statx.attributes.bits(),
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            mode: attr.mode() as u16,
            ino: attr.ino.0,
            size: attr.size,
            blocks: attr.blocks,
            attributes_mask: statx.attributes_mask.bits(),
            atime: time(attr.atime),
            btime: time(attr.crtime),
            ctime: time(attr.ctime),
            mtime: time(attr.mtime),
            rdev_major,
            rdev_minor,
            ..abi::Statx::default()
        }
    }
}

/// Encodes an `st_rdev` in the 32 bits of the protocol (`new_encode_dev` of
/// `include/linux/kdev_t.h`).
pub fn encode_device(number: u64) -> u32 {
    let (major, minor) = (major(number), minor(number));
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

/// Decodes a number from [`encode_device`], for example for `mknod(2)`.
pub fn decode_device(encoded: u32) -> u64 {
    rustix::fs::makedev(encoded >> 8 & 0xfff, encoded & 0xff | encoded >> 12 & 0xf_ff00)
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeOrNow {
    /// This time.
    SpecificTime(SystemTime),
    /// The time at which it is set.
    Now,
}

/// Attributes to change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Permissions and type, as in `st_mode`.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<TimeOrNow>,
    /// Last change of the data.
    pub mtime: Option<TimeOrNow>,
    /// Last change of the inode; only with `FUSE_WRITEBACK_CACHE`.
    pub ctime: Option<SystemTime>,
    /// The open file by which the program changes the attributes, if there is one.
    pub fh: Option<FileHandle>,
    /// The lock owner, if the size changes.
    pub lock_owner: Option<LockOwner>,
    /// The file system clears the set-user-ID and set-group-ID bits; only with
    /// `FUSE_HANDLE_KILLPRIV_V2`.
    pub kill_suidgid: bool,
}

/// The seconds since 1970, rounded down, and the remaining nanoseconds.
fn since_epoch(time: SystemTime) -> (i64, u32) {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (after.as_secs().cast_signed(), after.subsec_nanos()),
        Err(error) => {
            let before = error.duration();
            let whole = 0_i64.wrapping_sub_unsigned(before.as_secs());
            match before.subsec_nanos() {
                0 => (whole, 0),
                part => (whole.wrapping_sub(1), 1_000_000_000 - part),
            }
        }
    }
}

/// The inverse of [`since_epoch`]; `None` if the numbers are not a valid time.
pub(crate) fn system_time(seconds: i64, nanoseconds: u32) -> Option<SystemTime> {
    if nanoseconds >= 1_000_000_000 {
        return None;
    }
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second =
        if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    second?.checked_add(Duration::from_nanos(nanoseconds.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_to_the_kernel_and_back() {
        for time in [
            (0, 0),
            (1, 5),
            (-1, 0),
            (-2, 750_000_000),
            (-1, 999_999_999),
            (i64::MAX, 999_999_999),
            (i64::MIN, 0),
        ] {
            assert_eq!(since_epoch(system_time(time.0, time.1).unwrap()), time);
        }
        assert_eq!(since_epoch(UNIX_EPOCH - Duration::from_millis(1250)), (-2, 750_000_000));
        assert_eq!(system_time(0, 1_000_000_000), None);
    }

    #[test]
    fn device_numbers_survive_the_way_through_32_bits() {
        for (major, minor) in [(0, 0), (1, 3), (8, 17), (254, 255), (259, 256), (0xfff, 0xf_ffff)] {
            let number = rustix::fs::makedev(major, minor);
            assert_eq!(decode_device(encode_device(number)), number, "{major}:{minor}");
            let statx = Statx {
                attr: FileAttr { rdev: encode_device(number), ..crate::testing::attributes(3) },
                mask: StatxMask::BASIC_STATS,
                attributes: StatxAttributes::empty(),
                attributes_mask: StatxAttributes::empty(),
            };
            let told = abi::Statx::from(&statx);
            assert_eq!((told.rdev_major, told.rdev_minor), (major, minor));
        }
    }

    #[test]
    fn the_type_of_an_entry_is_that_of_readdir() {
        use FileType::*;
        let all = [NamedPipe, CharDevice, Directory, BlockDevice, RegularFile, Symlink, Socket];
        assert_eq!(all.map(FileType::dirent_type), [1, 2, 4, 6, 8, 10, 12]);
    }
}
