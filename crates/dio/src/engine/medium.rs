//! What engines do I/O on.

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::{Op, Route};

/// An open file of some kind: of the operating system, simulated, or none at all.
pub trait Medium: Send + Sync + Debug {
    /// Runs one attempt of an operation in the calling thread: no retry, no rounding, no interpretation.
    ///
    /// # Errors
    /// The raw error number.
    fn transfer(&self, op: &mut Op) -> Result<usize, Errno>;

    /// The descriptor behind a route, for engines that need one.
    ///
    /// # Errors
    /// Why there is none.
    fn descriptor(&self, route: Route) -> io::Result<BorrowedFd<'_>>;

    /// Size in bytes, of a regular file or of a block device.
    ///
    /// # Errors
    /// What `statx(2)` answers.
    fn size(&self) -> io::Result<u64>;

    /// Sets the size: cuts off, or extends by a hole.
    ///
    /// # Errors
    /// What `ftruncate(2)` answers.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Allocates blocks for a range, so that writing it later cannot fail for lack of space. Extends the size only when
    /// `extend` is set.
    ///
    /// # Errors
    /// What `fallocate(2)` answers: EOPNOTSUPP where the file system cannot, ENOSPC without space.
    fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()>;

    /// Turns a range into a hole. The size stays.
    ///
    /// # Errors
    /// What `fallocate(2)` answers for `FALLOC_FL_PUNCH_HOLE`.
    fn punch(&self, range: Range<u64>) -> io::Result<()>;
}
