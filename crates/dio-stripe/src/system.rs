//! What each part asks of the system in the same manner.

use std::io;

use rustix::io::Errno;

/// The error number of an error that came from a system call.
pub(crate) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
