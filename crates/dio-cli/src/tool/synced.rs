//! Syncs of files that may not support it.

use std::os::fd::{AsFd, BorrowedFd};

use dio::geometry::FileSystem;
use dio_sys::uninterrupted;
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;

/// Calls `fsync(2)`. A file that has nothing to sync, or does not support it, is no failure.
///
/// EINVAL is the kernel's answer for each file without a sync operation: pipes, sockets, most
/// devices, the files and directories of `proc(5)`. Other refusals count as "nothing to sync" only
/// for special files. For a regular file, EROFS means lost data: a file system that was shut down
/// after an error answers it (`ext4_sync_file`, `btrfs_sync_file`).
///
/// # Errors
/// Errors of `fsync(2)`.
pub(crate) fn fsync(fd: impl AsFd) -> Result<(), Errno> {
    let fd = fd.as_fd();
    match uninterrupted(|| rustix::fs::fsync(fd)) {
        Err(errno) if has_no_sync(fd, errno) => Ok(()),
        other => other,
    }
}

/// Returns whether one sync of its file system covers an open file. Elsewhere each file has to be
/// synced, and each directory.
pub(crate) fn has_syncfs(fd: impl AsFd) -> bool {
    // One of unknown type is synced by itself, which is never wrong.
    FileSystem::of(fd.as_fd()).is_ok_and(FileSystem::has_syncfs)
}

/// Returns whether a sync of `fd` that failed with `errno` had nothing to do.
fn has_no_sync(fd: BorrowedFd<'_>, errno: Errno) -> bool {
    let special = || {
        fstat(fd).is_ok_and(|stat| {
            matches!(
                FileType::from_raw_mode(stat.st_mode),
                FileType::CharacterDevice | FileType::Fifo | FileType::Socket
            )
        })
    };
    match errno {
        Errno::INVAL => true,
        Errno::ROFS | Errno::OPNOTSUPP | Errno::NOSYS => special(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_synced_is_no_failure_but_a_lost_file_is() {
        let null = std::fs::File::open("/dev/null").unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let proc = std::fs::File::open("/proc/self/comm").unwrap();
        for fd in [null.as_fd(), reader.as_fd(), writer.as_fd(), proc.as_fd()] {
            assert_eq!(fsync(fd), Ok(()));
        }
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        let refusals = [Errno::INVAL, Errno::ROFS, Errno::OPNOTSUPP, Errno::IO, Errno::NOSPC];
        let believed = |fd| refusals.map(|errno| has_no_sync(fd, errno));
        assert_eq!(believed(null.as_fd()), [true, true, true, false, false]);
        assert_eq!(believed(file.as_fd()), [true, false, false, false, false]);
    }
}
