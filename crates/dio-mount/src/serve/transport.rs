//! Decides how requests come: whether through io_uring
//! (`Documentation/filesystems/fuse/fuse-io-uring.rst`, Linux 6.14), and how large they are.

use std::io;

use dio_fuse::{InitFlags, KernelConfig, REQUEST_BYTES_MAX, ring_threads, rings_are_possible};

use crate::options::{Rings, Settings};

/// How far the kernel reads ahead at most, in bytes. Read and write requests are no larger where
/// large ones are not wanted.
pub(super) const READ_AHEAD_MAX: u32 = 1 << 20;

/// Largest write, and largest read, of one request in bytes. A large one costs its program fewer
/// trips to the server, but each thread keeps the memory of the largest one that it has met: all
/// threads together no more than the mount's limit. Where programs are slowed down they are small,
/// because a program cannot be killed while its request waits.
pub(super) fn largest_request(threads: usize, settings: &Settings) -> u32 {
    if settings.throttle.is_on() {
        return READ_AHEAD_MAX;
    }
    let each = settings.limit / ring_threads(threads).max(threads).max(1) as u64;
    let each = u32::try_from(each).unwrap_or(u32::MAX);
    each.clamp(READ_AHEAD_MAX, REQUEST_BYTES_MAX) / READ_AHEAD_MAX * READ_AHEAD_MAX
}

/// Asks the kernel for io_uring, if it offers io_uring and rings for about `threads` threads can be
/// made. Returns whether io_uring is used.
///
/// # Errors
/// The reason why io_uring cannot be used, if it is required.
pub(super) fn agree_on_rings(
    rings: Rings,
    threads: usize,
    config: &mut KernelConfig,
) -> io::Result<bool> {
    if rings == Rings::Never {
        return Ok(false);
    }
    // The test makes the rings, so it comes last: on most mounts the kernel's switch is off, and no
    // test is needed.
    let why = if !config.capabilities().contains(InitFlags::FUSE_OVER_IO_URING) {
        "the kernel does not offer FUSE over io_uring (Linux 6.14), or it is switched off: \
         'echo 1 > /sys/module/fuse/parameters/enable_uring' as root turns it on"
    } else if !rings_are_possible(threads) {
        "this process cannot make as many rings as it needs: see the sysctl \
         kernel.io_uring_disabled and 'ulimit -n'"
    } else {
        return Ok(config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_ok());
    };
    match rings {
        Rings::Required => {
            Err(io::Error::new(io::ErrorKind::Unsupported, format!("no io_uring: {why}")))
        }
        _ => Ok(false),
    }
}
