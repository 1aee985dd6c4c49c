//! Pipes, terminals and sockets: descriptors without blocks and offsets, read and written plainly.
//!
//! Such a descriptor may have been made non-blocking by whoever passed it on: the flag belongs to the open file, which
//! parent and child share (`fcntl(2)`, `F_SETFL`), so clearing it would disturb the other side. Where the kernel answers
//! `EAGAIN`, these functions wait with `poll(2)` and go on. Signals interrupt none of them.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size};

pub(super) use dio_sys::uninterrupted;

/// Bytes read at a time where [`splice_all`] has to copy: what a pipe holds unless it is enlarged (`pipe(7)`).
const COPY_BYTES: usize = 64 << 10;

/// Most bytes asked of one splice(2); below the kernel's limit for any transfer (`MAX_RW_COUNT`, 2 GiB less a page).
const SPLICE_BYTES: u64 = 1 << 30;

/// What streams want a pipe to hold, so that each side is woken less often: what an ordinary user may have.
pub const ENLARGED: usize = 1 << 20;

/// Bytes that fit into a pipe; `None` for what is no pipe.
pub fn capacity(fd: impl AsFd) -> Option<usize> {
    fcntl_getpipe_size(fd).ok()
}

/// Enlarges a pipe to `wanted` bytes, or to as many as this process may have, and returns how many it holds then; `None`
/// for what is no pipe. It never makes a pipe smaller, and is no error where nothing larger can be had.
///
/// The limits are `/proc/sys/fs/pipe-max-size` for each pipe and `pipe-user-pages-soft` for all pipes of a user
/// (`pipe(7)`); beyond them the kernel answers `EPERM` to processes without `CAP_SYS_RESOURCE`. Privileged ones keep to the
/// first all the same, which is what the administrator thought enough. The kernel rounds up to a power of two.
pub fn enlarge(fd: impl AsFd, wanted: usize) -> Option<usize> {
    let fd = fd.as_fd();
    let now = capacity(fd)?;
    if wanted <= now {
        return Some(now);
    }
    let mut size = wanted.min(largest_pipe());
    while size > now {
        match fcntl_setpipe_size(fd, size) {
            Ok(capacity) => return Some(capacity),
            Err(Errno::INTR) => {}
            // Over a limit (EPERM), or the kernel has no memory for it (ENOMEM): half of it may do.
            Err(_) => size /= 2,
        }
    }
    Some(now)
}

/// The most that a pipe is enlarged to. The kernel's default is 1 MiB (`pipe_max_size` of `fs/pipe.c`).
fn largest_pipe() -> usize {
    let text = std::fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap_or_default();
    text.trim().parse().unwrap_or(ENLARGED)
}

/// Waits until reading does not block: there are bytes, or an end or an error to report. False after `timeout` without
/// any of them; without a timeout it waits for ever.
///
/// # Errors
/// `EBADF` for what is not open, `ENOMEM`.
pub fn wait_readable(fd: impl AsFd, timeout: Option<Duration>) -> io::Result<bool> {
    Ok(wait(fd.as_fd(), PollFlags::IN, timeout)?)
}

/// Waits until writing does not block: there is room, or an error to report. False after `timeout`, as [`wait_readable`].
///
/// # Errors
/// `EBADF` for what is not open, `ENOMEM`.
pub fn wait_writable(fd: impl AsFd, timeout: Option<Duration>) -> io::Result<bool> {
    Ok(wait(fd.as_fd(), PollFlags::OUT, timeout)?)
}

fn wait(fd: BorrowedFd<'_>, what: PollFlags, timeout: Option<Duration>) -> Result<bool, Errno> {
    // A time too far away to be told is for ever.
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut asked = [PollFd::from_borrowed_fd(fd, what)];
        match poll(&mut asked, left.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) if asked[0].revents().contains(PollFlags::NVAL) => return Err(Errno::BADF),
            Ok(_) => return Ok(true),
            // Not again with the whole time.
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// As [`uninterrupted`]; where the descriptor is non-blocking and not ready for `what`, waits until it is.
fn patiently<R>(fd: BorrowedFd<'_>, what: PollFlags, mut call: impl FnMut() -> Result<R, Errno>) -> Result<R, Errno> {
    loop {
        match uninterrupted(&mut call) {
            Err(Errno::AGAIN) => wait(fd, what, None)?,
            answer => return answer,
        };
    }
}

/// Reads what is there, at least one byte, at most what fits; 0 at the end, which of a terminal need not be the last.
///
/// # Errors
/// What `read(2)` answers, except `EINTR` and `EAGAIN`.
pub fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let fd = fd.as_fd();
    Ok(patiently(fd, PollFlags::IN, || rustix::io::read(fd, &mut *buffer))?)
}

/// As [`read`], into several pieces of memory, one after the other.
///
/// # Errors
/// As [`read`].
pub fn read_vectored(fd: impl AsFd, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let fd = fd.as_fd();
    Ok(patiently(fd, PollFlags::IN, || rustix::io::readv(fd, into))?)
}

/// Writes some of the bytes, as one call does, and returns how many.
///
/// # Errors
/// What `write(2)` answers, except `EINTR` and `EAGAIN`: such as `EPIPE` when the reader is gone.
pub fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let fd = fd.as_fd();
    Ok(patiently(fd, PollFlags::OUT, || rustix::io::write(fd, bytes))?)
}

/// Writes all of the bytes.
///
/// # Errors
/// As [`write()`]; how much went before is not known then. [`io::ErrorKind::WriteZero`] for a descriptor that takes nothing.
pub fn write_all(fd: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    let fd = fd.as_fd();
    while !bytes.is_empty() {
        match write(fd, bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

/// Moves `bytes` bytes, or all until the end when there are fewer, from one descriptor to another, of which one should be
/// a pipe; returns how many. Both are used at their own positions.
///
/// Between pipes and sockets the kernel hands over pages instead of copying them (`splice(2)`). Where it cannot (neither is
/// a pipe, the target is in append mode, a file system without it), the bytes are read and written. From a regular file
/// this reads through the page cache, unless it was opened with `O_DIRECT`.
///
/// # Errors
/// What `splice(2)`, `read(2)` and `write(2)` answer, except `EINTR` and `EAGAIN`.
pub fn splice_all(from: impl AsFd, to: impl AsFd, bytes: u64) -> io::Result<u64> {
    let (from, to) = (from.as_fd(), to.as_fd());
    let mut moved = 0;
    while moved < bytes {
        let most = (bytes - moved).min(SPLICE_BYTES) as usize;
        match splice(from, to, most) {
            Ok(0) => break,
            Ok(count) => moved += count as u64,
            Err(Errno::INVAL | Errno::NOSYS) => return Ok(moved + copy(from, to, bytes - moved)?),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(moved)
}

/// Hands over what is there, at most `most` bytes, from one descriptor to another, of which one is a pipe; 0 at the end.
///
/// # Errors
/// What `splice(2)` answers, except `EINTR` and `EAGAIN`: EINVAL where the kernel cannot hand over between these two.
pub fn splice(from: impl AsFd, to: impl AsFd, most: usize) -> Result<usize, Errno> {
    let (from, to) = (from.as_fd(), to.as_fd());
    loop {
        match rustix::pipe::splice(from, None, to, None, most, SpliceFlags::MOVE) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // Whichever of them is non-blocking: when both are ready, it goes on.
                wait(from, PollFlags::IN, None)?;
                wait(to, PollFlags::OUT, None)?;
            }
            other => return other,
        }
    }
}

/// What [`splice_all`] does where the kernel cannot.
fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>, bytes: u64) -> io::Result<u64> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut moved = 0;
    while moved < bytes {
        let most = usize::try_from(bytes - moved).unwrap_or(COPY_BYTES).min(COPY_BYTES);
        let count = read(from, &mut buffer[..most])?;
        if count == 0 {
            break;
        }
        write_all(to, &buffer[..count])?;
        moved += count as u64;
    }
    Ok(moved)
}
