//! The process's own open files: their paths in `/proc/self/fd` (`proc_pid_fd(5)`), opening them
//! again, and what closing them tells.

use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::uninterrupted;

/// Returns a path of an open file that is valid in this process. It leads to the open inode, even
/// if the file was renamed or removed, while the descriptor is open. Pass a reference to the
/// descriptor, so that it stays open.
pub fn fd_path(fd: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()).into()
}

/// Opens an open file again with other `flags`. The new descriptor shares neither position nor
/// flags with `fd`, which may have been opened with `O_PATH`. The new descriptor is closed on exec,
/// and a terminal does not become the controlling terminal.
///
/// # Errors
/// Those of `open(2)`: ENOENT without /proc, EACCES where the file's mode forbids it.
pub fn reopen(fd: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = fd_path(&fd);
    uninterrupted(|| {
        rustix::fs::open(&path, flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
    })
}

/// Does what closing a file does, which may report that a write has failed: the client of a FUSE or
/// NFS server may hold back writes until then (`close(2)`). The process loses its POSIX locks on
/// the file.
///
/// # Errors
/// Those of `dup(2)` and `close(2)`.
pub fn flush(fd: impl AsFd) -> Result<(), Errno> {
    let copy = rustix::io::fcntl_dupfd_cloexec(fd, 3)?.into_raw_fd();
    // SAFETY: the descriptor is owned, and used no more.
    match unsafe { libc::close(copy) } {
        0 => Ok(()),
        _ => match Errno::from_io_error(&std::io::Error::last_os_error()) {
            // The descriptor is closed all the same.
            None | Some(Errno::INTR) => Ok(()),
            Some(errno) => Err(errno),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_that_is_given_away_is_open_until_it_was_opened_again() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        let inode = rustix::fs::fstat(&file).unwrap().st_ino;
        let again = reopen(OwnedFd::from(file), OFlags::RDONLY).unwrap();
        assert_eq!(rustix::fs::fstat(&again).unwrap().st_ino, inode);
        assert!(rustix::io::fcntl_getfd(&again).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }
}
