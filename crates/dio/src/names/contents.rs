//! Contents of files: length, durability, pages in the cache.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Gid, Mode as Permissions, OFlags, Uid};
use rustix::io::Errno;

use super::path::path_in;
use super::removal::unlinkat;
use super::striped::{
    descriptor_in, device_object_len, end_of_object, errno_for, is_striped, unreachable_object,
};
use crate::credentials;
use crate::file::{FileError, OpenOptions};
use crate::residency::ResidencyError;
use crate::stripe::object::{
    BOOT_ID, FoundState, HEADER_LEN, ObjectFault, check_header, compare_stamps,
    damaged_object_error, is_local, object_error, open_checked, read_stamp, wait_until_consistent,
};
use crate::stripe::{self, Descriptor, DescriptorInode, LeaseWait, StripePlan, may_be_striped};

/// `ftruncate(2)`.
///
/// # Errors
/// What `ftruncate(2)` answers; those of opening a striped file.
pub fn ftruncate(fd: impl AsFd, size: u64) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(&fd)?;
    if !may_be_striped(&stat) {
        return rustix::fs::ftruncate(fd, size);
    }
    if !is_striped(&fd)? {
        return rustix::fs::ftruncate(fd, size);
    }
    let own = rustix::io::fcntl_dupfd_cloexec(&fd, 3)?;
    let file =
        OpenOptions::new().write(true).adopt(own, "").map_err(|error| errno_for(&fd, error))?;
    file.set_size(size).map_err(|error| errno_for(&fd, error))
}

/// `fsync(2)`. For a striped file, the objects are synced too.
///
/// # Errors
/// What `fsync(2)` answers; those of opening a striped file.
pub fn fsync(fd: impl AsFd) -> Result<(), Errno> {
    rustix::fs::fsync(&fd)?;
    let stat = rustix::fs::fstat(&fd)?;
    let Some(descriptor) = descriptor_in(&fd, &stat, LeaseWait::AsOpen)? else { return Ok(()) };
    // A sync writes the length record of a device, so the devices are opened for writing.
    let file = OpenOptions::new()
        .read(true)
        .write(descriptor.has_devices())
        .adopt(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?, "");
    file.and_then(|file| file.sync_all()).map_err(|error| errno_for(&fd, error))
}

/// Makes an empty file under a free name, striped like `other`, open for reading and writing.
///
/// # Errors
/// EINVAL if `other` is not striped; EOPNOTSUPP if it is on devices, because a device holds one
/// file only; those of [`create`](stripe::create).
pub fn striped_like(other: impl AsFd, dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let stat = rustix::fs::fstat(&other)?;
    let descriptor = descriptor_in(&other, &stat, LeaseWait::AsOpen)?.ok_or(Errno::INVAL)?;
    if descriptor.has_devices() {
        return Err(Errno::OPNOTSUPP);
    }
    let (stripe, count) = (Some(descriptor.layout.stripe()), Some(descriptor.targets.len()));
    let targets = descriptor.targets.iter().map(|target| target.path().to_owned()).collect();
    let plan = StripePlan { stripe, count, targets, force: false };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // No other user may open it until its owner and permissions are known.
    let empty = rustix::fs::openat(dir, name, flags, Permissions::RUSR | Permissions::WUSR)?;
    let own = rustix::fs::fstat(&empty)?;
    if own.st_uid != stat.st_uid && credentials::is_root() {
        // The targets are those of that user's descriptor, so the objects are made as that user.
        let group = Gid::from_raw(stat.st_gid);
        let given = rustix::fs::fchown(&empty, Some(Uid::from_raw(stat.st_uid)), Some(group));
        given.inspect_err(|_| {
            // The first error is returned.
            let _ = unlinkat(dir, name);
        })?;
    }
    drop(empty);
    let made = stripe::create(path_in(dir, OsStr::from_bytes(name.to_bytes())), &plan);
    let made = made.map_err(|error| errno_for(&other, error));
    let opened = made.and_then(|_| {
        rustix::fs::openat(dir, name, flags - OFlags::CREATE - OFlags::EXCL, Permissions::empty())
    });
    opened.inspect_err(|_| {
        // The first error is returned.
        let _ = unlinkat(dir, name);
    })
}

/// An object of a striped file, open for reading.
#[derive(Debug)]
pub struct Object {
    /// The open object.
    pub file: OwnedFd,
    /// Offset at which its data begin, in bytes.
    pub start: u64,
    /// Offset in bytes at which its data end, if it is a device; otherwise `u64::MAX`.
    pub end: u64,
}

/// The objects of an open file, in the order of the layout. `None` if the file is not striped.
///
/// # Errors
/// What opening them answers; EBADMSG for a damaged descriptor.
pub fn objects(fd: impl AsFd) -> Result<Option<Vec<Object>>, Errno> {
    let stat = rustix::fs::fstat(&fd)?;
    let Some(descriptor) = descriptor_in(&fd, &stat, LeaseWait::AsOpen)? else { return Ok(None) };
    open_objects(&descriptor, stat.st_uid).map(Some).map_err(|error| errno_for(&fd, error))
}

fn open_objects(descriptor: &Descriptor, owner: u32) -> Result<Vec<Object>, FileError> {
    let open = |index: usize| {
        let path = descriptor.object_path(index);
        let file =
            open_checked(descriptor, index, owner, OFlags::RDONLY).map_err(|(errno, what)| {
                match what {
                    "" => unreachable_object("open", index, &path, errno, owner),
                    what => object_error("open", Path::new(""), index, &path, errno, what),
                }
            })?;
        let end = if descriptor.is_device(index) {
            device_object_len(descriptor, index, owner)?
        } else {
            u64::MAX
        };
        Ok(Object { file: file.into(), start: descriptor.layout.start(), end })
    };
    let parts: Vec<Object> =
        (0..descriptor.targets.len()).map(open).collect::<Result<_, FileError>>()?;
    check_objects(descriptor, &parts)?;
    Ok(parts)
}

/// Checks that the opened objects fit together.
fn check_objects(descriptor: &Descriptor, parts: &[Object]) -> Result<(), FileError> {
    let one = |(index, part): (usize, &Object)| {
        let failed = |errno, what: &str| {
            object_error("open", Path::new(""), index, &descriptor.object_path(index), errno, what)
        };
        let plain = |errno| failed(errno, "");
        let mut header = vec![0; HEADER_LEN as usize];
        let count = rustix::io::pread(&part.file, &mut header[..], 0).map_err(plain)?;
        let header =
            check_header(&header[..count], &descriptor.header(index, DescriptorInode::default()));
        let stamped = header.map_err(|(errno, what)| failed(errno, &what))?.stamped;
        let stamp =
            stamped.then(|| read_stamp(|bytes, at| rustix::io::pread(&part.file, bytes, at)));
        let stamp = stamp.transpose().map_err(plain)?;
        let length = end_of_object(descriptor, index, &part.file).map_err(plain)?;
        Ok(FoundState { index, stamp, length, is_local: is_local(&part.file) })
    };
    let look = || {
        let seen = parts.iter().enumerate().map(one).collect::<Result<Vec<_>, FileError>>()?;
        let judged = compare_stamps(descriptor.id, &seen, &BOOT_ID);
        Ok((seen, judged))
    };
    let path = |fault: &ObjectFault| descriptor.object_path(fault.index);
    wait_until_consistent(look, |faults| {
        damaged_object_error(Path::new(""), &faults[0], &path(&faults[0]))
    })
    .map(drop)
}

/// As [`residency::resident_pages`](crate::residency::resident_pages). For a striped file, the sum
/// over the data of its objects.
///
/// # Errors
/// As there, and those of [`objects`].
pub fn resident_pages(fd: impl AsFd) -> Result<u64, ResidencyError> {
    let failed = |errno: Errno| ResidencyError::System {
        operation: "open",
        offset: 0,
        source: errno.into(),
    };
    match objects(&fd).map_err(failed)? {
        None => crate::residency::resident_pages(fd),
        Some(parts) => {
            let pages =
                |part: &Object| crate::residency::resident_in(&part.file, part.start..part.end);
            parts.iter().map(pages).sum()
        }
    }
}
