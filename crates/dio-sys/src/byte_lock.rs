//! Locks of single bytes that belong to an open file description, not to a process (`fcntl(2)`, "Open file description locks").

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::{Errno, Result};

/// Waits for the lock of a byte, which keeps out everybody who locks it through another description, until [`unlock_byte`] or the
/// end of this one.
///
/// # Errors
/// `EBADF` for a file that is not open for writing; `EINTR` after a signal; `EINVAL`, `EOPNOTSUPP`, `ENOSYS` or `ENOLCK` where
/// there are no such locks.
pub fn lock_byte(fd: BorrowedFd<'_>, at: i64) -> Result<()> {
    set(fd, libc::F_OFD_SETLKW, libc::F_WRLCK, at)
}

/// As [`lock_byte`], without waiting.
///
/// # Errors
/// `EAGAIN` or `EACCES` where somebody else has it; otherwise as [`lock_byte`].
pub fn try_lock_byte(fd: BorrowedFd<'_>, at: i64) -> Result<()> {
    set(fd, libc::F_OFD_SETLK, libc::F_WRLCK, at)
}

/// Gives the lock up.
///
/// # Errors
/// As [`lock_byte`]; not that there is none.
pub fn unlock_byte(fd: BorrowedFd<'_>, at: i64) -> Result<()> {
    set(fd, libc::F_OFD_SETLK, libc::F_UNLCK, at)
}

fn set(fd: BorrowedFd<'_>, operation: libc::c_int, kind: libc::c_int, at: i64) -> Result<()> {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at,
        l_len: 1,
        // As these operations demand.
        l_pid: 0,
    };
    // SAFETY: the descriptor is open as long as the borrow lasts, and the kernel only reads the live value behind the pointer.
    let answer = unsafe { libc::fcntl(fd.as_raw_fd(), operation, &raw const lock) };
    if answer < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_byte_is_locked_against_other_descriptions_of_the_same_process() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        let other = std::fs::File::options().write(true).open(file.path()).unwrap();
        lock_byte(file.as_file().as_fd(), 7).unwrap();
        lock_byte(other.as_fd(), 8).unwrap();
        let (sender, receiver) = mpsc::channel();
        let waiting = std::thread::spawn(move || {
            lock_byte(other.as_fd(), 7).unwrap();
            sender.send(()).unwrap();
        });
        assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
        let third = std::fs::File::options().write(true).open(file.path()).unwrap();
        assert_eq!(try_lock_byte(third.as_fd(), 7), Err(Errno::AGAIN));
        unlock_byte(file.as_file().as_fd(), 7).unwrap();
        receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        waiting.join().unwrap();
        let reader = std::fs::File::open(file.path()).unwrap();
        assert_eq!(lock_byte(reader.as_fd(), 7), Err(Errno::BADF));
    }
}
