//! Removing striped files, and making a copy of a descriptor the descriptor.
//!
//! The name goes first, durably: a crash leaves objects that nobody refers to. Only objects that say that they belong to the
//! file with this head are touched.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode as Permissions, OFlags, fstat, openat};
use rustix::io::Errno;

use super::create::{directory_of, errno};
use super::device::free;
use super::format::{Descriptor, HEADER_LEN, Header};
use super::head::Head;
use super::names::Names;
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
/// EINVAL for what is no striped file; ESTALE, and nothing is removed, after an adoption that was interrupted ([`adopt`]); what
/// syncing the directory answers: then the objects stay; the first object that could not be removed, after all others were.
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
    let own = Head::of(&head).map_err(|errno| failed(errno.into()))?;
    if before.st_nlink <= 1 {
        // What cannot be removed as a whole keeps its name.
        Found::of(path, &descriptor, before.st_uid, &own)?;
    }
    let names = Names::of(directory_of(path)).map_err(|errno| failed(errno.into()))?;
    fs::remove_file(path).map_err(failed)?;
    names.sync(&head).map_err(|errno| failed(errno.into()))?;
    if look()?.st_nlink > 0 {
        return Ok(Removed::Name);
    }
    remove_objects(path, &descriptor, before.st_uid, &own)
}

/// Removes the objects of a file that has just lost a name, `path`, in the directory `dir`, if it is striped and that was the last:
/// once it is durable that the name has gone, since a crash must not bring it back without the bytes.
///
/// # Errors
/// What syncing the directory answers: then the objects stay; as [`remove_objects`].
pub fn remove_nameless(path: &Path, file: impl AsFd, dir: impl AsFd) -> Result<(), FileError> {
    let failed = |errno| FileError::new("remove", path, errno);
    let stat = fstat(&file).map_err(failed)?;
    if stat.st_nlink > 0 {
        return Ok(());
    }
    let Some(descriptor) = descriptor_of(&file, &stat, path)? else { return Ok(()) };
    let head = Head::of(&file).map_err(failed)?;
    // What the caller has may be a place only, which cannot be synced.
    let again = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let own = openat(CWD, again, OFlags::RDONLY | OFlags::CLOEXEC, Permissions::empty()).map_err(failed)?;
    Names::beside(dir.as_fd(), c"").and_then(|names| names.sync(own)).map_err(failed)?;
    remove_objects(path, &descriptor, stat.st_uid, &head).map(drop)
}

/// Removes the objects of a descriptor that had no other name, `path`, belonged to the user `owner` and was `head`; none if it was
/// a copy. That the name has gone is durable already. The super-user removes only what belongs to the same user: anyone can write a descriptor.
///
/// # Errors
/// ESTALE, and none is removed, where some belong to the file by this descriptor and others by another one; the first object that
/// could not be removed, or is not one of this file, after all others were.
pub fn remove_objects(path: &Path, descriptor: &Descriptor, owner: u32, head: &Head) -> Result<Removed, FileError> {
    let found = Found::of(path, descriptor, owner, head)?;
    let mut outcome = found.outcome;
    // The first one last: who looks for what an interruption leaves asks of it whether somebody writes to the file.
    for (index, object, file) in found.own.iter().rev() {
        if *index == 0 && outcome.is_err() {
            // By it the others can still be removed.
            break;
        }
        match file.as_ref().map_or_else(|| fs::remove_file(object), |device| free(device, descriptor.id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let what = if file.is_some() { "cannot be wiped" } else { "" };
                outcome = outcome.and(Err(of_object("remove", path, *index, object, errno(&error), what)));
            }
            _ => {}
        }
    }
    outcome.map(|()| if found.copy { Removed::Copy } else { Removed::All })
}

const CURE_HALF: &str = "make the one that is to be the file so with 'dio stripe adopt'";

/// What was found of the objects of a file that is to be removed.
struct Found {
    /// Each with what is open of it, if it is a device.
    own: Vec<(usize, PathBuf, Option<fs::File>)>,
    /// All that were found belong to the file by another descriptor.
    copy: bool,
    /// The first that is not one of the file.
    outcome: Result<(), FileError>,
}

impl Found {
    /// Looks at all of them, before anything happens to one.
    ///
    /// # Errors
    /// ESTALE where some belong to this descriptor and others to another one: an adoption was interrupted.
    fn of(path: &Path, descriptor: &Descriptor, owner: u32, head: &Head) -> Result<Found, FileError> {
        let mut found = Found { own: Vec::new(), copy: false, outcome: Ok(()) };
        for index in 0..descriptor.targets.len() {
            let object = descriptor.object_path(index);
            match is_own(path, descriptor, index, &object, owner, head) {
                Ok(Own::Yes(file)) => found.own.push((index, object, file)),
                Ok(Own::Gone) => {}
                Ok(Own::Others) => found.copy = true,
                Err(error) => found.outcome = found.outcome.and(Err(error)),
            }
        }
        if found.copy && !found.own.is_empty() {
            let what = "some of its objects belong to another descriptor: an adoption was interrupted";
            return Err(FileError::new("remove", path, Errno::STALE).with_detail(what).with_cure(CURE_HALF));
        }
        Ok(found)
    }
}

/// Whose an object is.
enum Own {
    /// This file's; a device is open.
    Yes(Option<fs::File>),
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
    Ok(if found.head.may_be(head) { Own::Yes(Some(file).filter(|_| descriptor.is_device(index))) } else { Own::Others })
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
/// For what was restored from a backup, or moved to another file system. An interrupted call can be repeated, by either of them;
/// until then neither can be removed.
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
