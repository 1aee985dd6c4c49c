//! Leases on open files: to know that nobody else has a file open, and to learn of who wants to
//! (`fcntl(2)`, "Leases").

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::{Errno, Result};

/// The operation of `fcntl(2)` that chooses the signal of a lease
/// (`include/uapi/asm-generic/fcntl.h`).
const F_SETSIG: libc::c_int = 10;

/// What a lease keeps away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// Whoever would write to the file, or cut it off.
    Writers,
    /// Everybody else.
    Everybody,
}

/// Takes a lease. Who opens the file against it waits until it is given up, by [`end_lease`] or by
/// closing `fd`, at most as long as `/proc/sys/fs/lease-break-time` says; [`has_lease`] tells that
/// somebody waits.
///
/// # Errors
/// `EAGAIN` if somebody has the file open that it would keep away, through whatever descriptor;
/// `EACCES` if it belongs to somebody else; `EINVAL`, `EOPNOTSUPP` or `ENOLCK` where the file
/// system has none.
pub fn take_lease(fd: BorrowedFd<'_>, lease: Lease) -> Result<()> {
    // Whoever is kept waiting makes the kernel send a signal. That of its own choice, SIGIO, would
    // end the process; this one is ignored by whoever has not asked for it, and `has_lease` is what
    // is asked here.
    fcntl(fd, F_SETSIG, libc::SIGURG)?;
    let kind = match lease {
        Lease::Writers => libc::F_RDLCK,
        Lease::Everybody => libc::F_WRLCK,
    };
    fcntl(fd, libc::F_SETLEASE, kind).map(drop)
}

/// Gives a lease up.
///
/// # Errors
/// `EAGAIN` if there is none.
pub fn end_lease(fd: BorrowedFd<'_>) -> Result<()> {
    fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK).map(drop)
}

/// Whether a lease is held, and nobody waits for its end.
///
/// # Errors
/// `EBADF` for a descriptor that is a place only.
pub fn has_lease(fd: BorrowedFd<'_>, lease: Lease) -> Result<bool> {
    let held = fcntl(fd, libc::F_GETLEASE, 0)?;
    Ok(match lease {
        Lease::Writers => held == libc::F_RDLCK,
        Lease::Everybody => held == libc::F_WRLCK,
    })
}

fn fcntl(fd: BorrowedFd<'_>, operation: libc::c_int, argument: libc::c_int) -> Result<libc::c_int> {
    // SAFETY: the descriptor is open as long as the borrow lasts, and the operations above take a
    // number and touch no memory.
    let answer = unsafe { libc::fcntl(fd.as_raw_fd(), operation, argument) };
    if answer < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn others_who_have_a_file_open_refuse_a_lease_and_those_who_come_are_noticed() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        let other = std::fs::File::open(file.path()).unwrap();
        assert_eq!(take_lease(other.as_fd(), Lease::Everybody), Err(Errno::AGAIN));
        assert_eq!(take_lease(other.as_fd(), Lease::Writers), Err(Errno::AGAIN));
        let path = file.into_temp_path();
        let another = std::fs::File::open(&path).unwrap();
        take_lease(other.as_fd(), Lease::Writers).unwrap();
        drop(another);
        assert!(has_lease(other.as_fd(), Lease::Writers).unwrap());
        end_lease(other.as_fd()).unwrap();
        take_lease(other.as_fd(), Lease::Everybody).unwrap();
        assert!(has_lease(other.as_fd(), Lease::Everybody).unwrap());
        let coming = std::thread::spawn({
            let path = path.to_path_buf();
            move || std::fs::File::open(path).unwrap()
        });
        while has_lease(other.as_fd(), Lease::Everybody).unwrap() {
            std::thread::yield_now();
        }
        end_lease(other.as_fd()).unwrap();
        coming.join().unwrap();
    }
}
