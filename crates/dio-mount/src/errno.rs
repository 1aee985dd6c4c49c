//! Errors as the numbers that programs get.

use std::io;

use rustix::io::Errno;

/// The error number of what failed; `EIO` where it has none.
pub(crate) fn errno_of(error: impl Into<io::Error>) -> Errno {
    Errno::from_io_error(&error.into()).unwrap_or(Errno::IO)
}
