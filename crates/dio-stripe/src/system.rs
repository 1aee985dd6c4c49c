//! A helper for errors of system calls.

use std::io;

use rustix::io::Errno;

/// Returns the error number of an error from a system call; `EIO` if it has none.
pub(crate) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
