//! Removing striped files, and making a copy of a descriptor the descriptor.
//!
//! The name goes first, durably: a crash leaves objects that nobody refers to. Only objects that say that they belong to the
//! file with this head are touched.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode as Permissions, OFlags, accessat, fstat, openat};
use rustix::io::Errno;

use super::create::{directory_of, errno};
use super::device::free;
use super::directory::{Identity, Names, identity, remove_name_in, remove_name_of};
use super::format::{Descriptor, HEADER_LEN, Header};
use super::head::Head;
use super::open::{descriptor_of, judge_header, judge_owner, of_object, open_judged};
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
/// EINVAL for what is no striped file; what is wrong with the first object that is missing, is not one of this file or cannot be
/// removed, and ESTALE after an adoption that was interrupted ([`adopt`]): then nothing is removed. What syncing the directory
/// answers: then the objects stay; the first object that could not be removed, after all others were.
pub fn remove(path: impl AsRef<Path>) -> Result<Removed, FileError> {
    remove_as(path.as_ref(), false)
}

/// As [`remove`], also where objects are missing or cannot be removed: what there is goes, and the others stay, which
/// [`objects_in`](super::objects_in) finds when their target is there again.
///
/// # Errors
/// As [`remove`], but for those objects; of them the first, after all others were removed.
pub fn remove_what_is_there(path: impl AsRef<Path>) -> Result<Removed, FileError> {
    remove_as(path.as_ref(), true)
}

/// Whether an open file could be removed with all of its objects, should it lose its last name.
///
/// # Errors
/// As [`remove`]. None for what is no striped file, or has other names.
pub fn check_removable(file: impl AsFd) -> Result<(), FileError> {
    let failed = |errno| FileError::new("remove", Path::new(""), errno);
    let stat = fstat(&file).map_err(failed)?;
    if stat.st_nlink > 1 {
        return Ok(());
    }
    let Ok(Some(descriptor)) = descriptor_of(&file, &stat, Path::new("")) else { return Ok(()) };
    let head = Head::of(&file).map_err(failed)?;
    let found = Found::of(Path::new(""), &descriptor, stat.st_uid, &head)?;
    found.check(Path::new(""), &descriptor)
}

fn remove_as(path: &Path, what_is_there: bool) -> Result<Removed, FileError> {
    let failed = |errno| FileError::new("remove", path, errno);
    let name = path.file_name().ok_or_else(|| failed(Errno::INVAL))?;
    // One directory from here on: whoever may rename directories on the way must not have a file in another one removed.
    let place = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, directory_of(path), place, Permissions::empty()).map_err(failed)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let head = openat(&directory, name, flags, Permissions::empty()).map_err(failed)?;
    let before = fstat(&head).map_err(failed)?;
    let Some(descriptor) = descriptor_of(&head, &before, path)? else {
        return Err(FileError::new("remove", path, Errno::INVAL).with_detail("it is no striped file"));
    };
    let own = Head::of(&head).map_err(failed)?;
    if before.st_nlink <= 1 {
        // What cannot be removed as a whole keeps its name.
        let found = Found::of(path, &descriptor, before.st_uid, &own)?;
        if !what_is_there {
            found.check(path, &descriptor)?;
        }
    }
    let names = Names::beside(directory.as_fd(), c"").map_err(failed)?;
    remove_name_in(&directory, name, identity(&before)).map_err(failed)?;
    names.sync(&head).map_err(failed)?;
    if fstat(&head).map_err(failed)?.st_nlink > 0 {
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
    if let Some((index, object)) = found.missing.first().filter(|_| !found.copy) {
        // Others are removed; this one has to be told of.
        let error = of_object("remove", path, *index, object, Errno::NOENT, "is missing");
        outcome = outcome.and(Err(error.with_cure(CURE_ORPHANS)));
    }
    // The first one last: who looks for what an interruption leaves asks of it whether somebody writes to the file.
    for (index, object, kept) in found.own.iter().rev() {
        if *index == 0 && outcome.is_err() {
            // By it the others can still be removed.
            if let (false, Kept::File(identity)) = (found.missing.is_empty(), kept) {
                // They are as good as gone, and so are its bytes; what cannot be freed stays.
                let _ = cut_to_header(object, *identity, descriptor.layout.start());
            }
            break;
        }
        let (removed, what) = match kept {
            Kept::File(identity) => (remove_name_of(object, *identity).map_err(io::Error::from), ""),
            Kept::Device(device) => (free(device, descriptor.id), "cannot be wiped"),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                outcome = outcome.and(Err(of_object("remove", path, *index, object, errno(&error), what)));
            }
            _ => {}
        }
    }
    outcome.map(|()| if found.copy { Removed::Copy } else { Removed::All })
}

const CURE_ORPHANS: &str = "when its target is there again, 'dio stripe orphans --rm' removes it";
const CURE_FORCE: &str =
    "nothing was removed; 'dio stripe rm --force' removes what is there, and 'dio stripe orphans' finds the rest";

/// Frees what an object holds, but for what says whose it is.
fn cut_to_header(object: &Path, looked_at: Identity, start: u64) -> io::Result<()> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = fs::OpenOptions::new().write(true).custom_flags(flags).open(object)?;
    if identity(&fstat(&file)?) != looked_at {
        return Err(Errno::STALE.into());
    }
    file.set_len(start)
}

const CURE_HALF: &str = "make the one that is to be the file so with 'dio stripe adopt'";

/// What is known of an object, and must still be so when it is removed.
enum Kept {
    /// A file.
    File(Identity),
    /// A device, open.
    Device(fs::File),
}

/// What was found of the objects of a file that is to be removed.
struct Found {
    /// Each with its name.
    own: Vec<(usize, PathBuf, Kept)>,
    /// All that were found belong to the file by another descriptor.
    copy: bool,
    /// The first that is not one of the file.
    outcome: Result<(), FileError>,
    /// Those that are not there.
    missing: Vec<(usize, PathBuf)>,
}

impl Found {
    /// Looks at all of them, before anything happens to one.
    ///
    /// # Errors
    /// ESTALE where some belong to this descriptor and others to another one: an adoption was interrupted.
    fn of(path: &Path, descriptor: &Descriptor, owner: u32, head: &Head) -> Result<Found, FileError> {
        let mut found = Found { own: Vec::new(), copy: false, outcome: Ok(()), missing: Vec::new() };
        for index in 0..descriptor.targets.len() {
            let object = descriptor.object_path(index);
            match is_own(path, descriptor, index, &object, owner, head) {
                Ok(Own::Yes(kept)) => found.own.push((index, object, kept)),
                Ok(Own::Gone) => found.missing.push((index, object)),
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

    /// Whether all objects can be removed; of a copy of the descriptor none is.
    ///
    /// # Errors
    /// The first that is missing, is not one of the file, or is in a directory that cannot be written to.
    fn check(&self, path: &Path, descriptor: &Descriptor) -> Result<(), FileError> {
        if self.copy {
            return Ok(());
        }
        if let Err(error) = &self.outcome {
            return Err(error.clone().with_cure(CURE_FORCE));
        }
        if let Some((index, object)) = self.missing.first() {
            let away = directory_of(object);
            let what = match away.is_dir() {
                true => "is missing: nothing may be mounted at its target".to_owned(),
                false => format!("is missing: its target '{}' is away", away.display()),
            };
            return Err(of_object("remove", path, *index, object, Errno::NOENT, &what).with_cure(CURE_FORCE));
        }
        for (index, object, _) in self.own.iter().filter(|(index, ..)| !descriptor.is_device(*index)) {
            let writable = accessat(CWD, directory_of(object), Access::WRITE_OK, AtFlags::EACCESS);
            // Not every file system can say.
            if let Err(errno @ (Errno::ROFS | Errno::ACCESS | Errno::PERM)) = writable {
                return Err(of_object("remove", path, *index, object, errno, "").with_cure(CURE_FORCE));
            }
        }
        Ok(())
    }
}

/// Whose an object is.
enum Own {
    /// This file's.
    Yes(Kept),
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
    let file = match open_judged(descriptor, index, owner, OFlags::RDONLY) {
        Err((Errno::NOENT, _)) => return Ok(Own::Gone),
        other => other.map_err(|(errno, what)| failed(errno, what))?,
    };
    let stat = fstat(&file).map_err(|errno| failed(errno, ""))?;
    let found = header_of(&file, &descriptor.header(index, *head)).map_err(|(errno, what)| failed(errno, &what))?;
    judge_owner(descriptor, index, &found, owner).map_err(|(errno, what)| failed(errno, what))?;
    let kept = if descriptor.is_device(index) { Kept::Device(file) } else { Kept::File(identity(&stat)) };
    Ok(if found.head.may_be(head) { Own::Yes(kept) } else { Own::Others })
}

/// The header of an object that is the right one.
pub fn header_of(file: &fs::File, expected: &Header) -> Result<Header, (Errno, String)> {
    let mut bytes = vec![0; HEADER_LEN as usize];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => Err((errno(&error), String::new())),
        _ => judge_header(&bytes, expected),
    }
}
