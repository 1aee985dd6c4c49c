//! Locks of single bytes that belong to an open file description, not to a process (`fcntl(2)`,
//! "Open file description locks").

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::{Errno, Result};

/// Locks a byte exclusively, until [`unlock_byte`] or until this file description is closed. Locks
/// through other descriptions are excluded. Never waits.
///
/// # Errors
/// `EAGAIN` or `EACCES` if the byte is locked through another description; `EBADF` for a file that
/// is not open for writing; `EINVAL`, `EOPNOTSUPP`, `ENOSYS` or `ENOLCK` where such locks are not
/// supported.
pub fn try_lock_byte(fd: BorrowedFd<'_>, at: i64) -> Result<()> {
    set(fd, libc::F_WRLCK, at)
}

/// Releases the lock on a byte.
///
/// # Errors
/// As [`try_lock_byte`]; it is no error if the byte is not locked.
pub fn unlock_byte(fd: BorrowedFd<'_>, at: i64) -> Result<()> {
    set(fd, libc::F_UNLCK, at)
}

fn set(fd: BorrowedFd<'_>, kind: libc::c_int, at: i64) -> Result<()> {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at,
        l_len: 1,
        // Open file description locks require 0.
        l_pid: 0,
    };
    // SAFETY: the descriptor is open as long as the borrow lasts, and the kernel only reads the
    // live value behind the pointer.
    let answer = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if answer < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_byte_is_locked_against_other_descriptions_of_the_same_process() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        let other = std::fs::File::options().write(true).open(file.path()).unwrap();
        try_lock_byte(file.as_file().as_fd(), 7).unwrap();
        try_lock_byte(other.as_fd(), 8).unwrap();
        assert_eq!(try_lock_byte(other.as_fd(), 7), Err(Errno::AGAIN));
        unlock_byte(file.as_file().as_fd(), 7).unwrap();
        try_lock_byte(other.as_fd(), 7).unwrap();
        let reader = std::fs::File::open(file.path()).unwrap();
        assert_eq!(try_lock_byte(reader.as_fd(), 7), Err(Errno::BADF));
    }
}
