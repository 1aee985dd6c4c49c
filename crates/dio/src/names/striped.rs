//! What the modules of this folder ask of a striped file.

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;

use super::details::{errno_of, keep};
use crate::file::FileError;
use crate::stripe::object::{length_of, of_object, open_judged};
use crate::stripe::{Descriptor, descriptor_of};

/// The number of an error that a file had; what it says beyond that can be asked for ([`take_details`](super::take_details)).
pub(super) fn number(fd: impl AsFd, error: FileError) -> Errno {
    let name = || {
        let own = format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd());
        std::fs::read_link(&own).unwrap_or_else(|_| own.into())
    };
    if !error.path().as_os_str().is_empty() {
        // It happened to something else than the file, as to one of its targets.
        keep(&error);
    }
    errno_of(&error.called(name))
}

/// An object that its path does not lead to.
pub(super) fn not_reached(operation: &'static str, index: usize, path: &Path, errno: Errno) -> FileError {
    let what = if errno == Errno::NOENT { "is missing" } else { "" };
    of_object(operation, Path::new(""), index, path, errno, what)
}

/// The descriptor in an open file, if it is striped.
pub(super) fn described(fd: impl AsFd, stat: &Stat) -> Result<Option<Descriptor>, Errno> {
    descriptor_of(&fd, stat, Path::new("")).map_err(|error| number(&fd, error))
}

/// Whether an open file is striped.
///
/// # Errors
/// What `fstat(2)` answers; EBADMSG for a damaged descriptor.
pub fn is_striped(fd: impl AsFd) -> Result<bool, Errno> {
    let stat = rustix::fs::fstat(&fd)?;
    Ok(described(fd, &stat)?.is_some())
}

/// How long an object is that is a device.
pub(super) fn device_length(descriptor: &Descriptor, index: usize, owner: u32) -> Result<u64, FileError> {
    let path = descriptor.object_path(index);
    let failed = |errno, what: &str| of_object("look at", Path::new(""), index, &path, errno, what);
    let fd = open_judged(descriptor, index, owner, OFlags::RDONLY).map_err(|(errno, what)| match errno {
        Errno::NOENT => failed(errno, "is missing"),
        errno => failed(errno, what),
    })?;
    length_of(fd, descriptor.id, descriptor.layout.start()).map_err(|(errno, what)| failed(errno, &what))
}

/// Where an open object of a file ends, in bytes: also a device, of which `fstat(2)` says nothing.
///
/// # Errors
/// What `fstat(2)` answers; EBADMSG for a device whose length is damaged.
pub fn end_of_object(descriptor: &Descriptor, index: usize, object: impl AsFd) -> Result<u64, Errno> {
    if descriptor.is_device(index) {
        return length_of(object, descriptor.id, descriptor.layout.start()).map_err(|(errno, _)| errno);
    }
    Ok(rustix::fs::fstat(object)?.st_size as u64)
}
