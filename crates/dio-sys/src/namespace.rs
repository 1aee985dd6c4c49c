//! Namespaces of processes (`namespaces(7)`).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Whether a namespace is owned by this process's user namespace. Root of the owning user namespace
/// controls what is in it.
///
/// # Errors
/// `ENOTTY` if the file is no namespace; `EPERM` if its owner is outside the caller's scope.
pub fn is_of_own_user_namespace(namespace: BorrowedFd<'_>) -> io::Result<bool> {
    /// `_IO(0xb7, 1)`, `include/uapi/linux/nsfs.h`.
    const NS_GET_USERNS: libc::Ioctl = 0xb701;
    // SAFETY: the request takes no argument, and returns a descriptor or an error.
    let owner = unsafe { libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS) };
    if owner < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor, so it has no other owner.
    let owner = unsafe { OwnedFd::from_raw_fd(owner) };
    let own = File::open("/proc/self/ns/user")?;
    let id = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
    Ok(id(rustix::fs::fstat(&owner)?) == id(rustix::fs::fstat(&own)?))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn own_namespaces_are_known() {
        let own = File::open("/proc/self/ns/mnt").unwrap();
        assert!(is_of_own_user_namespace(own.as_fd()).unwrap());
        let none = tempfile::tempfile().unwrap();
        let error = is_of_own_user_namespace(none.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }
}
