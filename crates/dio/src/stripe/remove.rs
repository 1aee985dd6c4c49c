//! Removes striped files.
//!
//! The name is removed first, durably: a crash leaves objects that nobody refers to. Only objects
//! whose header names the inode of the descriptor are removed.

use crate::identity::FileId;
use crate::quote::quoted;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use dio_sys::reopen;
use rustix::fs::{Access, AtFlags, CWD, Mode as Permissions, OFlags, accessat, fstat, openat};
use rustix::io::Errno;

use super::cures::{CURE_FORCE, CURE_HALF, CURE_ORPHANS};
use super::device::free;
use super::directory::{NameDirectory, directory_of, remove_name_in, remove_name_of};
use super::error::{object_error, open_error};
use super::format::{Descriptor, HEADER_LEN, Header};
use super::head::DescriptorInode;
use super::open::{LeaseWait, check_header, check_owner, descriptor_of, open_checked};
use super::trust::{as_owner, refused_to_owner};
use crate::file::{FileError, errno_of};

/// What the removal of a striped file has removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoveOutcome {
    /// The name and all objects.
    All,
    /// The name only: the file has other names, and keeps its bytes.
    Name,
    /// A copy of the descriptor: the file is as it was.
    Copy,
}

/// Removes a name of a striped file and, if it was the last, the objects. If the name belongs to a
/// copy of the descriptor, only the copy is removed.
///
/// # Errors
/// EINVAL for a file that is not striped. What is wrong with the first object that is missing, is
/// not one of this file or cannot be removed, and ESTALE after an interrupted adoption
/// (`dio_stripe::adopt`); nothing is removed then. What syncing the directory answers; the objects
/// then stay. The error of the first object that could not be removed, after all others were.
pub fn remove(path: impl AsRef<Path>) -> Result<RemoveOutcome, FileError> {
    remove_as(path.as_ref(), false)
}

/// As [`remove`], also if objects are missing or cannot be removed: the others are removed.
/// `dio_stripe::objects_in` finds the rest when their target is there again.
///
/// # Errors
/// As [`remove`]. The error of the first object that is missing or cannot be removed comes after
/// all others were removed.
pub fn remove_forced(path: impl AsRef<Path>) -> Result<RemoveOutcome, FileError> {
    remove_as(path.as_ref(), true)
}

/// Checks that an open file could be removed with all of its objects, should it lose its last name.
///
/// # Errors
/// As [`remove`]; EAGAIN if its owner holds a lease on it ([`LeaseWait::Briefly`]). None for a file
/// that is not striped, or has other names.
pub fn check_removable(file: impl AsFd) -> Result<(), FileError> {
    let failed = |errno| FileError::new("remove", Path::new(""), errno);
    let stat = fstat(&file).map_err(failed)?;
    if stat.st_nlink > 1 {
        return Ok(());
    }
    let descriptor = match descriptor_of(&file, &stat, Path::new(""), LeaseWait::Briefly) {
        Ok(Some(descriptor)) => descriptor,
        // It may have objects, which would stay behind.
        Err(error) if error.errno() == Errno::AGAIN => return Err(error),
        // A damaged descriptor leads to no objects.
        _ => return Ok(()),
    };
    let head = DescriptorInode::of(&file).map_err(failed)?;
    let found = FoundObjects::of(Path::new(""), &descriptor, stat.st_uid, &head)?;
    found.check(Path::new(""), &descriptor, stat.st_uid)
}

fn remove_as(path: &Path, forced: bool) -> Result<RemoveOutcome, FileError> {
    let failed = |errno| FileError::new("remove", path, errno);
    let name = path.file_name().ok_or_else(|| failed(Errno::INVAL))?;
    // All names are looked up in this one directory: a user who may rename directories above it
    // must not have a file in another one removed.
    let place = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, directory_of(path), place, Permissions::empty()).map_err(failed)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let head = LeaseWait::Briefly
        .open(|more| openat(&directory, name, flags | more, Permissions::empty()));
    let head = head.map_err(|errno| open_error("remove", path, errno))?;
    let before = fstat(&head).map_err(failed)?;
    let Some(descriptor) = descriptor_of(&head, &before, path, LeaseWait::Briefly)? else {
        return Err(
            FileError::new("remove", path, Errno::INVAL).with_detail("it is no striped file")
        );
    };
    let own = DescriptorInode::of(&head).map_err(failed)?;
    if before.st_nlink <= 1 {
        // A file that cannot be removed as a whole keeps its name.
        let found = FoundObjects::of(path, &descriptor, before.st_uid, &own)?;
        if !forced {
            found.check(path, &descriptor, before.st_uid)?;
        }
    }
    let names = NameDirectory::beside(directory.as_fd(), c"").map_err(failed)?;
    remove_name_in(&directory, name, FileId::of(&before)).map_err(failed)?;
    names.sync(&head).map_err(failed)?;
    if fstat(&head).map_err(failed)?.st_nlink > 0 {
        return Ok(RemoveOutcome::Name);
    }
    remove_objects(path, &descriptor, before.st_uid, &own)
}

/// Removes the objects of an open file, if it is striped and has no names left. It has just lost
/// the name `path` in the directory `dir`. The removal of the name is made durable first, since a
/// crash must not bring it back without the bytes.
///
/// # Errors
/// What syncing the directory answers: then the objects stay; as [`remove_objects`].
pub fn remove_objects_if_unlinked(
    path: &Path,
    file: impl AsFd,
    dir: impl AsFd,
) -> Result<(), FileError> {
    let failed = |errno| FileError::new("remove", path, errno);
    let stat = fstat(&file).map_err(failed)?;
    if stat.st_nlink > 0 {
        return Ok(());
    }
    let Some(descriptor) = descriptor_of(&file, &stat, path, LeaseWait::Briefly)? else {
        return Ok(());
    };
    let head = DescriptorInode::of(&file).map_err(failed)?;
    // The caller may have opened it with `O_PATH`; such a descriptor cannot be synced.
    let own = LeaseWait::Briefly.open(|flags| reopen(&file, OFlags::RDONLY | flags));
    let own = own.map_err(|errno| open_error("remove", path, errno))?;
    NameDirectory::beside(dir.as_fd(), c"").and_then(|names| names.sync(own)).map_err(failed)?;
    remove_objects(path, &descriptor, stat.st_uid, &head).map(drop)
}

/// Removes the objects of a descriptor file that has lost its last name, `path`, durably; none if
/// it was a copy. Root removes only objects that belong to `owner`, and with the rights of that
/// user, because anyone can write a descriptor.
///
/// # Errors
/// ESTALE if some objects name this descriptor and others another one; none is removed then. The
/// error of the first object that could not be removed, or is not one of this file, after all
/// others were removed.
pub fn remove_objects(
    path: &Path,
    descriptor: &Descriptor,
    owner: u32,
    head: &DescriptorInode,
) -> Result<RemoveOutcome, FileError> {
    let found = FoundObjects::of(path, descriptor, owner, head)?;
    let mut outcome = found.outcome;
    if let Some((index, object)) = found.missing.first().filter(|_| !found.copy) {
        // The others are removed; the error reports this one.
        let error = object_error("remove", path, *index, object, Errno::NOENT, "is missing");
        outcome = outcome.and(Err(error.with_cure(CURE_ORPHANS)));
    }
    // Object 0 is removed last, because its lock tells a search for orphans whether the file is in
    // use.
    for (index, object, kept) in found.own.iter().rev() {
        if *index == 0 && outcome.is_err() {
            // By object 0 the others can still be found and removed.
            if let (false, RemovableObject::File(identity)) = (found.missing.is_empty(), kept) {
                // Without the others its bytes are useless. An error here only leaves them
                // allocated.
                let _ = cut_to_header(object, *identity, descriptor.layout.start(), owner);
            }
            break;
        }
        let (removed, what) = match kept {
            RemovableObject::File(identity) => {
                let removed = as_owner(owner, || remove_name_of(object, *identity));
                let what = removed.map_or_else(|errno| refused_to_owner(owner, errno), |()| "");
                (removed.map_err(io::Error::from), what)
            }
            RemovableObject::Device(device) => (free(device, descriptor.id), "cannot be wiped"),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                outcome = outcome.and(Err(object_error(
                    "remove",
                    path,
                    *index,
                    object,
                    errno_of(&error),
                    what,
                )));
            }
            _ => {}
        }
    }
    outcome.map(|()| if found.copy { RemoveOutcome::Copy } else { RemoveOutcome::All })
}

/// Frees the data of an object, and keeps its header.
fn cut_to_header(object: &Path, looked_at: FileId, start: u64, owner: u32) -> io::Result<()> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file =
        as_owner(owner, || fs::OpenOptions::new().write(true).custom_flags(flags).open(object))?;
    if FileId::of(&fstat(&file)?) != looked_at {
        return Err(Errno::STALE.into());
    }
    file.set_len(start)
}

/// How an object was identified. It must be the same when it is removed.
enum RemovableObject {
    /// A file, by its identity.
    File(FileId),
    /// An open device.
    Device(fs::File),
}

/// The objects of a file that is to be removed, as found.
struct FoundObjects {
    /// Objects of the file, with index and path.
    own: Vec<(usize, PathBuf, RemovableObject)>,
    /// The objects found name another descriptor: this one is a copy.
    copy: bool,
    /// The error of the first object that is not one of the file.
    outcome: Result<(), FileError>,
    /// Missing objects, with index and path.
    missing: Vec<(usize, PathBuf)>,
}

impl FoundObjects {
    /// Finds all objects, before any of them is changed.
    ///
    /// # Errors
    /// ESTALE if some objects name this descriptor and others another one: an adoption was
    /// interrupted.
    fn of(
        path: &Path,
        descriptor: &Descriptor,
        owner: u32,
        head: &DescriptorInode,
    ) -> Result<FoundObjects, FileError> {
        let mut found =
            FoundObjects { own: Vec::new(), copy: false, outcome: Ok(()), missing: Vec::new() };
        for index in 0..descriptor.targets.len() {
            let object = descriptor.object_path(index);
            match owner_of(path, descriptor, index, &object, owner, head) {
                Ok(Owner::ThisFile(kept)) => found.own.push((index, object, kept)),
                Ok(Owner::Missing) => found.missing.push((index, object)),
                Ok(Owner::OtherDescriptor) => found.copy = true,
                Err(error) => found.outcome = found.outcome.and(Err(error)),
            }
        }
        if found.copy && !found.own.is_empty() {
            let what =
                "some of its objects belong to another descriptor: an adoption was interrupted";
            return Err(FileError::new("remove", path, Errno::STALE)
                .with_detail(what)
                .with_cure(CURE_HALF));
        }
        Ok(found)
    }

    /// Checks that all objects can be removed. For a copy of the descriptor none is.
    ///
    /// # Errors
    /// The error of the first object that is missing, is not one of the file, or is in a directory
    /// that may not be written.
    fn check(&self, path: &Path, descriptor: &Descriptor, owner: u32) -> Result<(), FileError> {
        if self.copy {
            return Ok(());
        }
        if let Err(error) = &self.outcome {
            return Err(error.clone().with_cure(CURE_FORCE));
        }
        if let Some((index, object)) = self.missing.first() {
            let away = directory_of(object);
            let is_there = as_owner(owner, || fs::metadata(away)).is_ok_and(|found| found.is_dir());
            let what = match is_there {
                true => "is missing: nothing may be mounted at its target".to_owned(),
                false => format!("is missing: its target {} is away", quoted(away)),
            };
            return Err(object_error("remove", path, *index, object, Errno::NOENT, &what)
                .with_cure(CURE_FORCE));
        }
        for (index, object, _) in
            self.own.iter().filter(|(index, ..)| !descriptor.is_device(*index))
        {
            let writable = as_owner(owner, || {
                accessat(CWD, directory_of(object), Access::WRITE_OK, AtFlags::EACCESS)
            });
            // Other errors mean that the file system cannot answer.
            if let Err(errno @ (Errno::ROFS | Errno::ACCESS | Errno::PERM)) = writable {
                let what = refused_to_owner(owner, errno);
                return Err(
                    object_error("remove", path, *index, object, errno, what).with_cure(CURE_FORCE)
                );
            }
        }
        Ok(())
    }
}

/// The file that an object belongs to.
enum Owner {
    /// This file, by this descriptor.
    ThisFile(RemovableObject),
    /// The object is missing.
    Missing,
    /// It belongs to the file, by another descriptor.
    OtherDescriptor,
}

fn owner_of(
    path: &Path,
    descriptor: &Descriptor,
    index: usize,
    object: &Path,
    owner: u32,
    head: &DescriptorInode,
) -> Result<Owner, FileError> {
    let failed = |errno, what: &str| object_error("remove", path, index, object, errno, what);
    let file = match open_checked(descriptor, index, owner, OFlags::RDONLY) {
        Err((Errno::NOENT, _)) => return Ok(Owner::Missing),
        other => other.map_err(|(errno, what)| failed(errno, what))?,
    };
    let stat = fstat(&file).map_err(|errno| failed(errno, ""))?;
    let found = read_checked_header(&file, &descriptor.header(index, *head))
        .map_err(|(errno, what)| failed(errno, &what))?;
    check_owner(descriptor, index, &found, owner).map_err(|(errno, what)| failed(errno, what))?;
    let kept = if descriptor.is_device(index) {
        RemovableObject::Device(file)
    } else {
        RemovableObject::File(FileId::of(&stat))
    };
    Ok(if found.head.may_be(head) { Owner::ThisFile(kept) } else { Owner::OtherDescriptor })
}

/// The header of an object that is the right one.
pub fn read_checked_header(file: &fs::File, expected: &Header) -> Result<Header, (Errno, String)> {
    let mut bytes = vec![0; HEADER_LEN as usize];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            Err((errno_of(&error), String::new()))
        }
        _ => check_header(&bytes, expected),
    }
}
