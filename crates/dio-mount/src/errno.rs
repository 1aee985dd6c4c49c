//! Error numbers for the programs that use a mount.

use std::io;

use rustix::io::Errno;

/// Returns the error number of an error; `EIO` where it has none.
pub(crate) fn errno_of(error: impl Into<io::Error>) -> Errno {
    Errno::from_io_error(&error.into()).unwrap_or(Errno::IO)
}
