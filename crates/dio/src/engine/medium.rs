//! What engines do I/O on.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::{Op, Route};

/// An open file: of the operating system, simulated, or without contents.
pub trait Medium: Send + Sync + Debug {
    /// Runs one attempt of a request in the calling thread. It does not retry, round or interpret.
    ///
    /// # Errors
    /// The raw error number.
    fn transfer(&self, op: &mut Op) -> Result<usize, Errno>;

    /// The file descriptor of a route, for engines that need one.
    ///
    /// # Errors
    /// Why there is none.
    fn descriptor(&self, route: Route) -> io::Result<BorrowedFd<'_>>;

    /// Size in bytes, of a regular file or of a block device.
    ///
    /// # Errors
    /// What `statx(2)` answers.
    fn size(&self) -> io::Result<u64>;

    /// Sets the size. A smaller size cuts the file off; a larger one adds a hole.
    ///
    /// # Errors
    /// What `ftruncate(2)` answers.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Allocates blocks for a range, so that a later write to it cannot fail for lack of space. The
    /// size grows only if `extend` is set.
    ///
    /// # Errors
    /// What `fallocate(2)` answers: EOPNOTSUPP where the file system cannot allocate, ENOSPC
    /// without space.
    fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()>;

    /// Turns a range into a hole. The size stays the same.
    ///
    /// # Errors
    /// What `fallocate(2)` answers for `FALLOC_FL_PUNCH_HOLE`.
    fn punch(&self, range: Range<u64>) -> io::Result<()>;
}
