//! Descriptors without blocks: pipes, terminals, sockets.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Capacity asked for pipes, in bytes: what an ordinary user may have (`/proc/sys/fs/pipe-max-size`, `pipe(7)`).
const PIPE: usize = 1 << 20;

/// Makes a pipe hold more, so that each side is woken less often. What is not a pipe, or not allowed, stays as it is.
pub(super) fn enlarge(fd: BorrowedFd<'_>) {
    if rustix::pipe::fcntl_getpipe_size(fd).is_ok_and(|size| size < PIPE) {
        let _ = rustix::pipe::fcntl_setpipe_size(fd, PIPE);
    }
}

/// Runs a call again that a signal interrupted.
pub(super) fn patiently<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

/// As [`patiently`]; where the descriptor is non-blocking, waits until it is ready for `what`.
fn waiting<T>(fd: BorrowedFd<'_>, what: PollFlags, mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match patiently(&mut call) {
            Err(Errno::AGAIN) => patiently(|| poll(&mut [PollFd::from_borrowed_fd(fd, what)], None))?,
            other => return other,
        };
    }
}

/// Reads what is there, at least a byte; 0 at the end.
pub(super) fn read(fd: BorrowedFd<'_>, into: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    waiting(fd, PollFlags::IN, || rustix::io::readv(fd, into))
}

/// Writes a part of `bytes`, at least a byte.
pub(super) fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    waiting(fd, PollFlags::OUT, || rustix::io::write(fd, bytes))
}

/// Whether there is something to read, or nothing more will come, within `timeout`.
pub(super) fn readable_within(fd: BorrowedFd<'_>, timeout: Duration) -> Result<bool, Errno> {
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    patiently(|| poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&timeout))).map(|ready| ready > 0)
}
