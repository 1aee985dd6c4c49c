//! The files that the process has open, by way of `/proc/self/fd` (`proc_pid_fd(5)`).

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::uninterrupted;

/// The path of an open file for this process. It leads to that very inode, whatever has become of
/// the file's name, for as long as the descriptor is open: lend it, do not give it away.
pub fn fd_path(fd: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd()).into()
}

/// Opens an open file again with other `flags`. The new descriptor shares neither position nor
/// flags with `fd`, which may have been opened with `O_PATH`; it is closed on exec, and a terminal
/// does not become the one that controls the process.
///
/// # Errors
/// What `open(2)` answers: ENOENT without /proc, EACCES where the file's mode forbids it.
pub fn reopen(fd: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = fd_path(&fd);
    uninterrupted(|| rustix::fs::open(&path, flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()))
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
