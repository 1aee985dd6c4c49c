//! Removing striped files, and making a copy of a descriptor the descriptor.
//!
//! The name goes first, durably: a crash leaves objects that nobody refers to. Only objects that say that they belong to the
//! file with this head are touched.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::fstat;
use rustix::io::Errno;

use super::create::{directory_of, errno, sync_directory};
use super::device::free;
use super::format::{Descriptor, HEADER_LEN, Header};
use super::head::Head;
use super::open::{alone, descriptor_of, judge_header, judge_kind, judge_owner, object_flags, of_object, wrong};
use crate::file::FileError;

/// What became of a striped file that was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    /// It is gone with all of its bytes.
    All,
    /// It has other names, and keeps its bytes.
    Name,
    /// The name led to a copy of its descriptor: the file is as it was.
    Copy,
}

/// Removes a striped file: the descriptor, and, when that had no other name, the objects. Of a copy of a descriptor, only that.
///
/// # Errors
/// EINVAL for what is no striped file; the first object that could not be removed, after all others were.
pub fn remove(path: impl AsRef<Path>) -> Result<Removed, FileError> {
    let path = path.as_ref();
    let failed = |error: io::Error| FileError::new("remove", path, errno(&error));
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let head = fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let look = || fstat(&head).map_err(|errno| failed(errno.into()));
    let before = look()?;
    let Some(descriptor) = descriptor_of(&head, &before, path)? else {
        return Err(FileError::new("remove", path, Errno::INVAL).with_detail("it is no striped file"));
    };
    fs::remove_file(path).map_err(failed)?;
    sync_directory(directory_of(path)).map_err(failed)?;
    if look()?.st_nlink > 0 {
        return Ok(Removed::Name);
    }
    let head = Head::of(&head).map_err(|errno| failed(errno.into()))?;
    remove_objects(path, &descriptor, before.st_uid, &head)
}

/// Removes the objects of a descriptor that had no other name, `path`, belonged to the user `owner` and was `head`; none if it was
/// a copy. The super-user removes only what belongs to the same user: anyone can write a descriptor.
///
/// # Errors
/// The first object that could not be removed, or is not one of this file, after all others were.
pub fn remove_objects(path: &Path, descriptor: &Descriptor, owner: u32, head: &Head) -> Result<Removed, FileError> {
    let (mut outcome, mut copy) = (Ok(()), false);
    for index in 0..descriptor.targets.len() {
        let object = descriptor.object_path(index);
        match is_own(path, descriptor, index, &object, owner, head) {
            Ok(Own::Yes(file)) => {
                let device = descriptor.is_device(index);
                match if device { free(&file, descriptor.id) } else { fs::remove_file(&object) } {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        let what = if device { "cannot be wiped" } else { "" };
                        outcome = outcome.and(Err(of_object("remove", path, index, &object, errno(&error), what)));
                    }
                    _ => {}
                }
            }
            Ok(Own::Gone) => {}
            Ok(Own::Others) => copy = true,
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    outcome.map(|()| if copy { Removed::Copy } else { Removed::All })
}

/// Whose an object is.
enum Own {
    /// This file's; open for reading.
    Yes(fs::File),
    /// It is not there.
    Gone,
    /// It belongs to the file, by another descriptor.
    Others,
}

fn is_own(
    path: &Path,
    descriptor: &Descriptor,
    index: usize,
    object: &Path,
    owner: u32,
    head: &Head,
) -> Result<Own, FileError> {
    let failed = |errno, what: &str| of_object("remove", path, index, object, errno, what);
    let flags = object_flags(descriptor, index).bits().cast_signed();
    let file = match fs::OpenOptions::new().read(true).custom_flags(flags).open(object) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Own::Gone),
        other => other.map_err(|error| failed(errno(&error), ""))?,
    };
    let stat = fstat(&file).map_err(|errno| failed(errno, ""))?;
    judge_kind(descriptor, index, &stat, owner).map_err(|(errno, what)| failed(errno, what))?;
    let found = header_of(&file, &descriptor.header(index, *head)).map_err(|(errno, what)| failed(errno, &what))?;
    judge_owner(descriptor, index, &found, owner).map_err(|(errno, what)| failed(errno, what))?;
    Ok(if found.head.may_be(head) { Own::Yes(file) } else { Own::Others })
}

/// The header of an object that is the right one.
fn header_of(file: &fs::File, expected: &Header) -> Result<Header, (Errno, String)> {
    let mut bytes = vec![0; HEADER_LEN as usize];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err((errno(&error), String::new())),
        _ => judge_header(&bytes, expected),
    }
}

/// Makes a copy of a descriptor the descriptor of the file: the one that was it, if there still is one, is a copy from now on.
/// For what was restored from a backup, or moved to another file system. An interrupted call can be repeated.
///
/// # Errors
/// EINVAL for what is no striped file; EBUSY while somebody writes to the file; what is wrong with an object.
pub fn adopt(path: impl AsRef<Path>) -> Result<(), FileError> {
    let path = path.as_ref();
    let failed = |error: io::Error| FileError::new("adopt", path, errno(&error));
    let head = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
    let stat = fstat(&head).map_err(|errno| failed(errno.into()))?;
    let Some(descriptor) = descriptor_of(&head, &stat, path)? else {
        return Err(failed(Errno::INVAL.into()).with_detail("it is no striped file"));
    };
    let head = Head::of(&head).map_err(|errno| failed(errno.into()))?;
    let _alone = alone(path, &descriptor)?;
    let name = fs::canonicalize(path).map_err(failed)?;
    let open = |index: usize| -> Result<(PathBuf, fs::File), FileError> {
        let object = descriptor.object_path(index);
        let failed = |errno, what: &str| of_object("adopt", path, index, &object, errno, what);
        let flags = object_flags(&descriptor, index).bits().cast_signed();
        let file = fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open(&object);
        let file = file.map_err(|error| failed(errno(&error), ""))?;
        let found = fstat(&file).map_err(|errno| failed(errno, ""))?;
        judge_kind(&descriptor, index, &found, stat.st_uid).map_err(|(errno, what)| failed(errno, what))?;
        let found = header_of(&file, &descriptor.header(index, head)).map_err(|(errno, what)| failed(errno, &what))?;
        judge_owner(&descriptor, index, &found, stat.st_uid).map_err(|(errno, what)| failed(errno, what))?;
        Ok((object, file))
    };
    // Each of them is looked at before one is changed.
    let objects = (0..descriptor.targets.len()).map(open).collect::<Result<Vec<_>, _>>()?;
    for (index, (object, file)) in objects.iter().enumerate() {
        let owner = descriptor.is_device(index).then_some(stat.st_uid);
        let header = Header { name: Some(name.clone()), owner, ..descriptor.header(index, head) };
        let bytes = header.encode().map_err(|error| wrong("adopt", path, &error))?;
        let written = file.write_all_at(&bytes, 0).and_then(|()| file.sync_data());
        written.map_err(|error| of_object("adopt", path, index, object, errno(&error), ""))?;
    }
    Ok(())
}
