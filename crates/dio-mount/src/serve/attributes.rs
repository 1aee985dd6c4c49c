//! Conversion of attributes, types and times to and from the protocol crate's types.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dio_fuse::{FileAttr, FileType, INodeNo, Request, TimeOrNow, encode_device};
use rustix::fs::{FileType as Kind, Stat};

use crate::names::{Caller, Time};

pub(super) fn attributes(stat: &Stat) -> FileAttr {
    FileAttr {
        ino: INodeNo(stat.st_ino),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind(Kind::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: encode_device(stat.st_rdev),
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

pub(super) fn kind(kind: Kind) -> FileType {
    match kind {
        Kind::Directory => FileType::Directory,
        Kind::Symlink => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharacterDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        // A directory without types is read as regular files; the lookup returns the real type.
        Kind::RegularFile | Kind::Unknown => FileType::RegularFile,
    }
}

fn time(seconds: i64, nanoseconds: u64) -> SystemTime {
    let fraction = Duration::from_nanos(nanoseconds);
    let whole = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { UNIX_EPOCH - whole + fraction } else { UNIX_EPOCH + whole + fraction }
}

pub(super) fn time_to_set(time: TimeOrNow) -> Time {
    match time {
        TimeOrNow::Now => Time::Now,
        TimeOrNow::SpecificTime(time) => Time::At(time),
    }
}

pub(super) fn caller(request: &Request<'_>) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), pid: request.pid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_have_their_fraction_after_the_second() {
        assert_eq!(time(-2, 750_000_000), UNIX_EPOCH - Duration::from_millis(1250));
        assert_eq!(time(1, 5), UNIX_EPOCH + Duration::new(1, 5));
    }
}
