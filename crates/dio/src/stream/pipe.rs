//! Pipes, terminals and sockets: descriptors without blocks and offsets.
//!
//! The process that passed such a descriptor on may have made it non-blocking. The flag belongs to
//! the open file, which parent and child share (`fcntl(2)`, `F_SETFL`), so clearing it would
//! disturb the other side. Where the kernel answers `EAGAIN`, these functions wait with `poll(2)`
//! and go on. Signals interrupt none of them.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size};

pub(super) use dio_sys::uninterrupted;

/// Bytes read at a time where [`splice_all`] has to copy: the capacity of a pipe that is not
/// enlarged (`pipe(7)`).
const COPY_BYTES: usize = 64 << 10;

/// Most bytes asked of one splice(2). It is below the kernel's limit for any transfer
/// (`MAX_RW_COUNT`, 2 GiB less a page).
const SPLICE_BYTES: u64 = 1 << 30;

/// Capacity in bytes that streams ask for a pipe, so that each side is woken less often. An
/// ordinary user may have as much.
pub const CAPACITY_WANTED_BYTES: usize = 1 << 20;

/// Capacity of a pipe in bytes; `None` for anything else.
pub fn capacity(fd: impl AsFd) -> Option<usize> {
    fcntl_getpipe_size(fd).ok()
}

/// Enlarges a pipe to `wanted` bytes, or to as many as this process may have, and returns its
/// capacity then; `None` for anything else. It never makes a pipe smaller, and it is no error if
/// the pipe cannot be enlarged.
///
/// The limits are `/proc/sys/fs/pipe-max-size` for each pipe and `pipe-user-pages-soft` for all
/// pipes of a user (`pipe(7)`). Beyond them the kernel answers `EPERM` to processes without
/// `CAP_SYS_RESOURCE`. Privileged processes keep to the first limit here too, since the
/// administrator set it. The kernel rounds up to a power of two.
pub fn enlarge(fd: impl AsFd, wanted: usize) -> Option<usize> {
    let fd = fd.as_fd();
    let capacity_now = capacity(fd)?;
    if wanted <= capacity_now {
        return Some(capacity_now);
    }
    let mut size = wanted.min(capacity_bytes_max());
    while size > capacity_now {
        match uninterrupted(|| fcntl_setpipe_size(fd, size)) {
            Ok(capacity) => return Some(capacity),
            // Over a limit (EPERM), or the kernel has no memory for it (ENOMEM): half of it may be
            // possible.
            Err(_) => size /= 2,
        }
    }
    Some(capacity_now)
}

/// The largest capacity that a pipe is enlarged to. The kernel's default is 1 MiB (`pipe_max_size`
/// of `fs/pipe.c`).
fn capacity_bytes_max() -> usize {
    let text = std::fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap_or_default();
    text.trim().parse().unwrap_or(CAPACITY_WANTED_BYTES)
}

/// Waits until reading does not block: there are bytes, or an end or an error to report. Returns
/// false after `timeout` without any of them. Without a timeout it waits for ever.
///
/// # Errors
/// `EBADF` for a closed descriptor, `ENOMEM`.
pub fn wait_readable(fd: impl AsFd, timeout: Option<Duration>) -> io::Result<bool> {
    Ok(wait(fd.as_fd(), PollFlags::IN, timeout)?)
}

/// Waits until writing does not block: there is room, or an error to report. Returns false after
/// `timeout`, as [`wait_readable`] does.
///
/// # Errors
/// `EBADF` for a closed descriptor, `ENOMEM`.
pub fn wait_writable(fd: impl AsFd, timeout: Option<Duration>) -> io::Result<bool> {
    Ok(wait(fd.as_fd(), PollFlags::OUT, timeout)?)
}

fn wait(fd: BorrowedFd<'_>, what: PollFlags, timeout: Option<Duration>) -> Result<bool, Errno> {
    // A time too far away to be expressed means for ever.
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        let mut asked = [PollFd::from_borrowed_fd(fd, what)];
        match poll(&mut asked, left.as_ref()) {
            Ok(0) => return Ok(false),
            Ok(_) if asked[0].revents().contains(PollFlags::NVAL) => return Err(Errno::BADF),
            Ok(_) => return Ok(true),
            // The next turn of the loop waits for the remaining time only.
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// As [`uninterrupted`]. If the descriptor is non-blocking and not ready for `what`, waits until it
/// is.
fn retry_blocking<R>(
    fd: BorrowedFd<'_>,
    what: PollFlags,
    mut call: impl FnMut() -> Result<R, Errno>,
) -> Result<R, Errno> {
    loop {
        match uninterrupted(&mut call) {
            Err(Errno::AGAIN) => wait(fd, what, None)?,
            answer => return answer,
        };
    }
}

/// Reads what is there: at least one byte and at most what fits. Returns 0 at the end, which need
/// not be the last one of a terminal.
///
/// # Errors
/// What `read(2)` answers, except `EINTR` and `EAGAIN`.
pub fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let fd = fd.as_fd();
    Ok(retry_blocking(fd, PollFlags::IN, || rustix::io::read(fd, &mut *buffer))?)
}

/// As [`read`], into several slices, one after the other.
///
/// # Errors
/// As [`read`].
pub fn read_vectored(fd: impl AsFd, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    let fd = fd.as_fd();
    Ok(retry_blocking(fd, PollFlags::IN, || rustix::io::readv(fd, into))?)
}

/// Writes some of the bytes, as one system call does, and returns how many.
///
/// # Errors
/// What `write(2)` answers, except `EINTR` and `EAGAIN`; for example `EPIPE` when the reader is
/// gone.
pub fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let fd = fd.as_fd();
    Ok(retry_blocking(fd, PollFlags::OUT, || rustix::io::write(fd, bytes))?)
}

/// Writes all of the bytes.
///
/// # Errors
/// As [`write()`]; how much was written is then not known. [`io::ErrorKind::WriteZero`] for a
/// descriptor that accepts nothing.
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

/// Moves `bytes` bytes from one descriptor to another, or all until the end if there are fewer.
/// Returns how many. One of the two should be a pipe. Both are used at their own positions.
///
/// Between pipes and sockets the kernel hands over pages instead of copying them (`splice(2)`).
/// Where it cannot (neither is a pipe, the target is in append mode, the file system does not
/// support it), the bytes are read and written. A regular file is read through the page cache,
/// unless it was opened with `O_DIRECT`.
///
/// # Errors
/// What `splice(2)`, `read(2)` and `write(2)` answer, except `EINTR` and `EAGAIN`.
pub fn splice_all(from: impl AsFd, to: impl AsFd, bytes: u64) -> io::Result<u64> {
    let (from, to) = (from.as_fd(), to.as_fd());
    let mut moved = 0;
    while moved < bytes {
        let bytes_max = (bytes - moved).min(SPLICE_BYTES) as usize;
        match splice(from, to, bytes_max) {
            Ok(0) => break,
            Ok(count) => moved += count as u64,
            Err(Errno::INVAL | Errno::NOSYS) => return Ok(moved + copy(from, to, bytes - moved)?),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(moved)
}

/// Hands over what is there, at most `bytes_max` bytes, from one descriptor to another. One of the
/// two is a pipe. Returns 0 at the end.
///
/// # Errors
/// What `splice(2)` answers, except `EINTR` and `EAGAIN`; EINVAL where the kernel cannot hand over
/// between these two.
pub fn splice(from: impl AsFd, to: impl AsFd, bytes_max: usize) -> Result<usize, Errno> {
    let (from, to) = (from.as_fd(), to.as_fd());
    loop {
        match uninterrupted(|| {
            rustix::pipe::splice(from, None, to, None, bytes_max, SpliceFlags::MOVE)
        }) {
            Err(Errno::AGAIN) => {
                // Either of them may be non-blocking. When both are ready, it goes on.
                wait(from, PollFlags::IN, None)?;
                wait(to, PollFlags::OUT, None)?;
            }
            other => return other,
        }
    }
}

/// Reads and writes the bytes, where the kernel cannot hand them over.
fn copy(from: BorrowedFd<'_>, to: BorrowedFd<'_>, bytes: u64) -> io::Result<u64> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut moved = 0;
    while moved < bytes {
        let bytes_max = usize::try_from(bytes - moved).unwrap_or(COPY_BYTES).min(COPY_BYTES);
        let count = read(from, &mut buffer[..bytes_max])?;
        if count == 0 {
            break;
        }
        write_all(to, &buffer[..count])?;
        moved += count as u64;
    }
    Ok(moved)
}
