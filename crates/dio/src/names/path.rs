//! Paths of what was found through open directories.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;

use dio_sys::fd_path;

/// The path of a name in an open directory.
pub fn path_in(dir: BorrowedFd<'_>, name: &OsStr) -> PathBuf {
    if dir.as_raw_fd() == rustix::fs::CWD.as_raw_fd() {
        return name.into();
    }
    fd_path(dir).join(name)
}
