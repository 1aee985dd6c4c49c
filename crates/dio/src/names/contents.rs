//! What a file holds: its length, its durability, its pages in the cache.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode as Permissions, OFlags};
use rustix::io::Errno;

use super::open::path_in;
use super::removal::unlinkat;
use super::striped::{described, device_length, end_of_object, is_striped, not_reached, number};
use crate::file::{FileError, OpenOptions};
use crate::residency::ResidencyError;
use crate::stripe::object::{
    BOOT, Fault, HEADER_LEN, Seen, damaged, is_local, judge, judge_header, of_object, open_judged, read_stamp,
    settle_judgement,
};
use crate::stripe::{self, Descriptor, Head, Plan, may_be_striped};

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
    let file = OpenOptions::new().write(true).adopt(own, "").map_err(|error| number(&fd, error))?;
    file.set_size(size).map_err(|error| number(&fd, error))
}

/// `fsync(2)`: of a striped file, the objects too.
///
/// # Errors
/// What `fsync(2)` answers; those of opening a striped file.
pub fn fsync(fd: impl AsFd) -> Result<(), Errno> {
    rustix::fs::fsync(&fd)?;
    let stat = rustix::fs::fstat(&fd)?;
    let Some(descriptor) = described(&fd, &stat)? else { return Ok(()) };
    // The length of a device is written by syncs.
    let file = OpenOptions::new()
        .read(true)
        .write(descriptor.has_devices())
        .adopt(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?, "");
    file.and_then(|file| file.sync_all()).map_err(|error| number(&fd, error))
}

/// Makes an empty file that is striped as another one is, under a name that is free, open for reading and writing.
///
/// # Errors
/// EINVAL if the other one is not striped; EOPNOTSUPP if it is on devices, which are one file's; those of
/// [`create`](stripe::create).
pub fn striped_like(other: impl AsFd, dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let stat = rustix::fs::fstat(&other)?;
    let descriptor = described(&other, &stat)?.ok_or(Errno::INVAL)?;
    if descriptor.has_devices() {
        return Err(Errno::OPNOTSUPP);
    }
    let (stripe, count) = (Some(descriptor.layout.stripe()), Some(descriptor.targets.len()));
    let targets = descriptor.targets.iter().map(|target| target.path().to_owned()).collect();
    let plan = Plan { stripe, count, targets, force: false };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // For nobody else until its owner and permissions are known.
    drop(rustix::fs::openat(dir, name, flags, Permissions::RUSR | Permissions::WUSR)?);
    let made = stripe::create(path_in(dir, OsStr::from_bytes(name.to_bytes())), &plan);
    let made = made.map_err(|error| number(&other, error));
    let opened =
        made.and_then(|_| rustix::fs::openat(dir, name, flags - OFlags::CREATE - OFlags::EXCL, Permissions::empty()));
    opened.inspect_err(|_| {
        // The error that is told is the first.
        let _ = unlinkat(dir, name);
    })
}

/// An object, open for reading.
#[derive(Debug)]
pub struct Object {
    /// The object.
    pub file: OwnedFd,
    /// Where its data begin, in bytes.
    pub start: u64,
    /// Nothing of the file is behind; where a device goes on, in bytes.
    pub end: u64,
}

/// The objects of an open file, in order; `None` of one that is not striped.
///
/// # Errors
/// What opening them answers; EBADMSG for a damaged descriptor.
pub fn objects(fd: impl AsFd) -> Result<Option<Vec<Object>>, Errno> {
    let stat = rustix::fs::fstat(&fd)?;
    let Some(descriptor) = described(&fd, &stat)? else { return Ok(None) };
    parts_of(&descriptor, stat.st_uid).map(Some).map_err(|error| number(&fd, error))
}

fn parts_of(descriptor: &Descriptor, owner: u32) -> Result<Vec<Object>, FileError> {
    let open = |index: usize| {
        let path = descriptor.object_path(index);
        let file = open_judged(descriptor, index, owner, OFlags::RDONLY).map_err(|(errno, what)| match what {
            "" => not_reached("open", index, &path, errno),
            what => of_object("open", Path::new(""), index, &path, errno, what),
        })?;
        let end = if descriptor.is_device(index) { device_length(descriptor, index, owner)? } else { u64::MAX };
        Ok(Object { file: file.into(), start: descriptor.layout.start(), end })
    };
    let parts: Vec<Object> = (0..descriptor.targets.len()).map(open).collect::<Result<_, FileError>>()?;
    check_parts(descriptor, &parts)?;
    Ok(parts)
}

/// Whether objects that were opened fit together.
fn check_parts(descriptor: &Descriptor, parts: &[Object]) -> Result<(), FileError> {
    let one = |(index, part): (usize, &Object)| {
        let failed =
            |errno, what: &str| of_object("open", Path::new(""), index, &descriptor.object_path(index), errno, what);
        let plain = |errno| failed(errno, "");
        let mut header = vec![0; HEADER_LEN as usize];
        let count = rustix::io::pread(&part.file, &mut header[..], 0).map_err(plain)?;
        let header = judge_header(&header[..count], &descriptor.header(index, Head::default()));
        let stamped = header.map_err(|(errno, what)| failed(errno, &what))?.stamped;
        let stamp = stamped.then(|| read_stamp(|bytes, at| rustix::io::pread(&part.file, bytes, at)));
        let stamp = stamp.transpose().map_err(plain)?;
        let length = end_of_object(descriptor, index, &part.file).map_err(plain)?;
        Ok(Seen { index, stamp, length, is_local: is_local(&part.file) })
    };
    let look = || {
        let seen = parts.iter().enumerate().map(one).collect::<Result<Vec<_>, FileError>>()?;
        let judged = judge(descriptor.id, &seen, &BOOT);
        Ok((seen, judged))
    };
    let path = |fault: &Fault| descriptor.object_path(fault.index);
    settle_judgement(look, |faults| damaged(Path::new(""), &faults[0], &path(&faults[0]))).map(drop)
}

/// [`residency::resident_pages`](crate::residency::resident_pages); of a striped file, those of its data in all objects.
///
/// # Errors
/// As there; those of [`objects`].
pub fn resident_pages(fd: impl AsFd) -> Result<u64, ResidencyError> {
    let failed = |errno: Errno| ResidencyError::System { operation: "open", offset: 0, source: errno.into() };
    match objects(&fd).map_err(failed)? {
        None => crate::residency::resident_pages(fd),
        Some(parts) => {
            let pages = |part: &Object| crate::residency::resident_in(&part.file, part.start..part.end);
            parts.iter().map(pages).sum()
        }
    }
}
