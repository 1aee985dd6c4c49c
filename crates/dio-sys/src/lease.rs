//! Leases on open files. A lease guarantees that the file is not open elsewhere, or not for
//! writing, and reports when a process tries to open it (`fcntl(2)`, "Leases").

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::{Errno, Result};

/// The operation of `fcntl(2)` that chooses the signal of a lease
/// (`include/uapi/asm-generic/fcntl.h`).
const F_SETSIG: libc::c_int = 10;

/// The opens that a lease blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// Opens for writing, and truncations.
    Writers,
    /// Every further open.
    Everybody,
}

/// Takes a lease. A process that opens the file against the lease waits until the lease is
/// released, by [`end_lease`] or by closing `fd`, but at most for the time in
/// `/proc/sys/fs/lease-break-time`. [`has_lease`] shows that a process waits.
///
/// # Errors
/// `EAGAIN` if the file is open, through any descriptor, in a mode that the lease would block;
/// `EACCES` if the file belongs to another user; `EINVAL`, `EOPNOTSUPP` or `ENOLCK` where the file
/// system does not support leases.
pub fn take_lease(fd: BorrowedFd<'_>, lease: Lease) -> Result<()> {
    // A process that has to wait makes the kernel send a signal. The default signal, SIGIO, would
    // end this process. SIGURG is ignored by default, and `has_lease` reports the wait instead.
    fcntl(fd, F_SETSIG, libc::SIGURG)?;
    let kind = match lease {
        Lease::Writers => libc::F_RDLCK,
        Lease::Everybody => libc::F_WRLCK,
    };
    fcntl(fd, libc::F_SETLEASE, kind).map(drop)
}

/// Releases a lease.
///
/// # Errors
/// `EAGAIN` if there is no lease.
pub fn end_lease(fd: BorrowedFd<'_>) -> Result<()> {
    fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK).map(drop)
}

/// Whether a lease is held and no process waits for its release.
///
/// # Errors
/// `EBADF` for an `O_PATH` descriptor.
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
