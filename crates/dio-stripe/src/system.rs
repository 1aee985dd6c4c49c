//! What each part asks of the system in the same manner.

use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::io::Errno;

/// The error number of an error that came from a system call.
pub(crate) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Opens whatever has the name for reading, without waiting for it and without following a symbolic
/// link; `None` if that fails.
pub(crate) fn open(path: &Path) -> Option<fs::File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()
}
