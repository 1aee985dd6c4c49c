//! Helpers for the modules of this folder, for striped files.

use std::os::fd::AsFd;
use std::path::Path;

use dio_sys::fd_path;
use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;

use super::details::{errno_of, keep};
use crate::file::FileError;
use crate::stripe::object::{device_length, object_error, open_checked, refused_to_owner};
use crate::stripe::{Descriptor, LeaseWait, descriptor_of};

/// Returns the number of an error of an open file, and keeps its details for
/// [`take_details`](super::take_details).
pub(super) fn errno_for(fd: impl AsFd, error: FileError) -> Errno {
    let name = || {
        let own = fd_path(&fd);
        std::fs::read_link(&own).unwrap_or(own)
    };
    if !error.path().as_os_str().is_empty() {
        // The error is about another path, for instance one of its targets.
        keep(&error);
    }
    errno_of(&error.called(name))
}

/// The error of an object whose path cannot be opened, of a file of the user `owner`.
pub(super) fn unreachable_object(
    operation: &'static str,
    index: usize,
    path: &Path,
    errno: Errno,
    owner: u32,
) -> FileError {
    let what = if errno == Errno::NOENT { "is missing" } else { refused_to_owner(owner, errno) };
    object_error(operation, Path::new(""), index, path, errno, what)
}

/// The descriptor in an open file; `None` if the file is not striped.
pub(super) fn descriptor_in(
    fd: impl AsFd,
    stat: &Stat,
    wait: LeaseWait,
) -> Result<Option<Descriptor>, Errno> {
    descriptor_of(&fd, stat, Path::new(""), wait).map_err(|error| errno_for(&fd, error))
}

/// Whether an open file is striped.
///
/// # Errors
/// What `fstat(2)` answers; EAGAIN if its owner holds a lease on it ([`LeaseWait::Briefly`]);
/// EBADMSG for a damaged descriptor.
pub fn is_striped(fd: impl AsFd) -> Result<bool, Errno> {
    let stat = rustix::fs::fstat(&fd)?;
    Ok(descriptor_in(fd, &stat, LeaseWait::Briefly)?.is_some())
}

/// The length in bytes of an object on a device.
pub(super) fn device_object_len(
    descriptor: &Descriptor,
    index: usize,
    owner: u32,
) -> Result<u64, FileError> {
    let path = descriptor.object_path(index);
    let failed =
        |errno, what: &str| object_error("look at", Path::new(""), index, &path, errno, what);
    let fd =
        open_checked(descriptor, index, owner, OFlags::RDONLY).map_err(
            |(errno, what)| match errno {
                Errno::NOENT => failed(errno, "is missing"),
                errno => failed(errno, what),
            },
        )?;
    device_length(fd, descriptor.id, descriptor.layout.start())
        .map_err(|(errno, what)| failed(errno, &what))
}

/// Offset in bytes at which an open object of a file ends. Also for a device, for which `fstat(2)`
/// reports no size.
///
/// # Errors
/// What `fstat(2)` answers; EBADMSG for a device whose length is damaged.
pub fn end_of_object(
    descriptor: &Descriptor,
    index: usize,
    object: impl AsFd,
) -> Result<u64, Errno> {
    if descriptor.is_device(index) {
        return device_length(object, descriptor.id, descriptor.layout.start())
            .map_err(|(errno, _)| errno);
    }
    Ok(rustix::fs::fstat(object)?.st_size as u64)
}
