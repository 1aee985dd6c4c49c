//! The open files of traced processes.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, OFlags, Stat, fcntl_getfl, fstat, major, minor, stat, statfs, tell};
use rustix::io::Errno;
use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::pages::{Before, Inode, Pages};
use super::places::Place;
use crate::watch::SeenFile;

/// File systems on which closing a descriptor does nothing to the file, and whose files have their
/// pages in the page cache under their own inode (`include/uapi/linux/magic.h`): ext2 to ext4, XFS,
/// Btrfs, F2FS, bcachefs, tmpfs, ramfs, FAT, exFAT, ISO 9660, SquashFS, EROFS. NFS and FUSE, for
/// one, write a file back when any descriptor of it is closed.
const PLAIN: [u32; 12] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0xca45_1a4e,
    0x0102_1994,
    0x8584_58f6,
    0x4d44,
    0x2011_bab0,
    0x9660,
    0x7371_7368,
    0xe0f5_e1e2,
];

/// How far the kernel reads ahead if it does not say, in bytes.
const AHEAD: u64 = 1 << 20;

/// What is known of a file system.
#[derive(Clone, Copy, Debug)]
struct FileSystem {
    is_plain: bool,
    /// How far it may read ahead of a request, in bytes.
    ahead: u64,
}

/// An open file of a traced process.
#[derive(Debug)]
pub(super) struct Open {
    stat: Stat,
    /// A descriptor of ours, only while the call lasts: what holds a file longer would keep a lock,
    /// a lease or the space of a removed file.
    own: Option<OwnedFd>,
    /// The entry in `/proc` that describes it.
    info: String,
    ahead: u64,
}

/// What was found in place of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotOpen {
    /// There is no such descriptor.
    Absent,
    /// It may not be looked at.
    Refused,
}

#[derive(Debug, Default)]
pub(super) struct Files {
    systems: HashMap<u64, FileSystem>,
    pages: Pages,
}

impl Files {
    /// Looks at an open file of a thread.
    pub(super) fn open(
        &mut self,
        thread: u32,
        process: Option<&OwnedFd>,
        fd: u64,
    ) -> Result<Open, NotOpen> {
        // A descriptor has 32 bits, of which the upper half of the register says nothing.
        let fd = i32::try_from(fd as u32).map_err(|_| NotOpen::Absent)?;
        let path = format!("/proc/{thread}/fd/{fd}");
        let stat = match stat(&path) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::SRCH) => return Err(NotOpen::Absent),
            Err(_) => return Err(NotOpen::Refused),
        };
        let info = format!("/proc/{thread}/fdinfo/{fd}");
        if !has_positions(&stat) {
            return Ok(Open { stat, own: None, info, ahead: 0 });
        }
        let system =
            *self.systems.entry(stat.st_dev).or_insert_with(|| FileSystem::of(&path, stat.st_dev));
        let own = process.filter(|_| system.is_plain);
        let own = own.and_then(|process| pidfd_getfd(process, fd, PidfdGetfdFlags::empty()).ok());
        Ok(Open { stat, own, info, ahead: system.ahead })
    }

    /// Looks for pages where a call reads or writes; `Err` if that cannot be known, and `Ok(None)`
    /// if the call leaves the page cache alone.
    pub(super) fn before(&mut self, open: &Open, place: &Place) -> Result<Option<Before>, ()> {
        // Files of /proc and /sys have no bytes until they are read, and no pages.
        let is_empty = open.stat.st_size == 0 && place.reads && !open.is_block_device();
        if !open.has_positions() || place.bytes == 0 || is_empty {
            return Ok(None);
        }
        let own = open.own.as_ref().ok_or(())?;
        let flags = fcntl_getfl(own).map_err(drop)?;
        if flags.contains(OFlags::DIRECT) {
            return Ok(None);
        }
        let offset = match place.offset {
            _ if flags.contains(OFlags::APPEND) && !place.reads => open.stat.st_size.unsigned_abs(),
            Some(offset) => offset,
            None => tell(own).map_err(drop)?,
        };
        let ahead = if place.reads { open.ahead } else { 0 };
        let place = (offset, place.bytes, ahead);
        self.pages.before(own.as_fd(), open.key(), place).map(Some)
    }

    /// The pages that were not in the page cache before a call, and are now.
    pub(super) fn new_since(&mut self, open: &Open, before: &Before) -> u32 {
        let new = open.own.as_ref().map(|own| self.pages.after(own.as_fd(), open.key(), before));
        u32::try_from(new.unwrap_or(0)).unwrap_or(u32::MAX)
    }
}

fn has_positions(stat: &Stat) -> bool {
    matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::BlockDevice)
}

impl FileSystem {
    fn of(path: &str, device: u64) -> FileSystem {
        let is_plain = statfs(path).is_ok_and(|found| PLAIN.contains(&(found.f_type as u32)));
        let number = format!("{}:{}", major(device), minor(device));
        // Of a partition, the disk has the setting; of a file system without a disk of its own,
        // only the second entry exists.
        let entries = [
            format!("/sys/dev/block/{number}/queue/read_ahead_kb"),
            format!("/sys/class/bdi/{number}/read_ahead_kb"),
            format!("/sys/dev/block/{number}/../queue/read_ahead_kb"),
        ];
        let read = |path: &String| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let ahead = entries.iter().find_map(read).map_or(AHEAD, |kib| kib.saturating_mul(1024));
        // The next window of read-ahead begins where the one of the request ends, and a program may
        // ask for twice the usual (`POSIX_FADV_SEQUENTIAL`).
        FileSystem { is_plain, ahead: ahead.saturating_mul(4).min(64 << 20) }
    }
}

impl Open {
    /// The file as it is now.
    pub(super) fn seen(&self) -> SeenFile {
        let now = self.own.as_ref().and_then(|own| fstat(own).ok()).unwrap_or(self.stat);
        let (position, flags) = self.position_and_flags();
        SeenFile {
            inode: now.st_ino,
            device: major(now.st_dev) << 20 | minor(now.st_dev),
            size: now.st_size.max(0).unsigned_abs(),
            position,
            flags: flags.bits(),
            mode: now.st_mode,
        }
    }

    fn key(&self) -> Inode {
        (self.stat.st_dev, self.stat.st_ino)
    }

    pub(super) fn has_positions(&self) -> bool {
        has_positions(&self.stat)
    }

    fn position_and_flags(&self) -> (u64, OFlags) {
        if let Some(own) = &self.own {
            return (tell(own).unwrap_or(0), fcntl_getfl(own).unwrap_or(OFlags::empty()));
        }
        // Of pipes, sockets and terminals neither is used.
        let is_directory = FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory;
        if !self.has_positions() && !is_directory {
            return (0, OFlags::empty());
        }
        let text = fs::read_to_string(&self.info).unwrap_or_default();
        position_and_flags_in(&text)
    }

    pub(super) fn is_block_device(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::BlockDevice
    }
}

/// What `/proc/PID/fdinfo/FD` says.
fn position_and_flags_in(text: &str) -> (u64, OFlags) {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let position = field("pos:").and_then(|text| text.parse().ok()).unwrap_or(0);
    let flags = field("flags:").and_then(|text| u32::from_str_radix(text, 8).ok()).unwrap_or(0);
    // That a descriptor is closed by an execution is no flag of the file.
    (position, OFlags::from_bits_retain(flags) - OFlags::CLOEXEC)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;

    use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

    use super::*;

    fn own_number(pid: Pid) -> u32 {
        pid.as_raw_nonzero().get().unsigned_abs()
    }

    #[test]
    fn a_file_is_seen_with_its_position_and_flags_either_way() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 5000]).unwrap();
        file.seek(SeekFrom::Start(1234)).unwrap();
        let pid = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let mut files = Files::default();
        let fd = file.as_raw_fd() as u64;
        let by_copy = files.open(own_number(getpid()), Some(&pid), fd).unwrap();
        let by_text = files.open(own_number(getpid()), None, fd).unwrap();
        assert!(by_text.own.is_none());
        let seen = by_text.seen();
        assert_eq!(by_copy.seen(), seen);
        assert_eq!((seen.size, seen.position), (5000, 1234));
        assert_eq!(seen.flags & 3, 2);
        let place = Place { offset: Some(0), bytes: 4096, reads: true };
        assert!(files.before(&by_text, &place).is_err());
        assert_eq!(files.open(own_number(getpid()), None, 1 << 20).unwrap_err(), NotOpen::Absent);
        assert_eq!(files.open(own_number(getpid()), None, u64::MAX).unwrap_err(), NotOpen::Absent);
    }

    #[test]
    fn what_proc_says_is_understood() {
        let text = "pos:\t1048576\nflags:\t02140001\nmnt_id:\t30\n";
        let (position, flags) = position_and_flags_in(text);
        assert_eq!(position, 1 << 20);
        assert_eq!(flags.bits(), 0o140_001);
        assert_eq!(position_and_flags_in(""), (0, OFlags::empty()));
    }
}
