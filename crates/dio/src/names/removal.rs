//! Taking names away: with the last name of a striped file, its objects go.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode as Permissions, OFlags};
use rustix::io::Errno;

use super::details::errno_of;
use super::striped::number;
use crate::stripe::directory::Names;
use crate::stripe::{self, Descriptor, Head, descriptor_of, may_be_striped};

/// `unlink(2)`. With the last name of a striped file, its objects go.
///
/// # Errors
/// What `unlink(2)` answers; the first object that could not be removed.
pub fn unlink(path: &Path) -> Result<(), Errno> {
    if may_be_striped(&rustix::fs::lstat(path)?) {
        match stripe::remove(path) {
            Err(error) if error.errno() == Errno::INVAL => {}
            other => return other.map(drop).map_err(|error| errno_of(&error)),
        }
    }
    rustix::fs::unlink(path)
}

/// A striped file that may be about to lose its last name.
struct Leaving {
    head: OwnedFd,
    descriptor: Descriptor,
    owner: u32,
    /// Where the name is.
    names: Names,
}

impl Leaving {
    /// What has a name, if that is a striped file.
    fn look(dir: BorrowedFd<'_>, name: &CStr) -> Option<Leaving> {
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if !may_be_striped(&stat) {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let head = rustix::fs::openat(dir, name, flags, Permissions::empty()).ok()?;
        let descriptor = descriptor_of(&head, &rustix::fs::fstat(&head).ok()?, Path::new("")).ok()??;
        let names = Names::beside(dir, name).ok()?;
        Some(Leaving { head, descriptor, owner: stat.st_uid, names })
    }

    /// Whether all objects can go with the name, if they are to.
    fn check(&self) -> Result<(), Errno> {
        stripe::check_removable(&self.head).map_err(|error| number(&self.head, error))
    }

    /// Its name has gone: with the last one, its objects go.
    fn left(self) -> Result<(), Errno> {
        if rustix::fs::fstat(&self.head)?.st_nlink > 0 {
            return Ok(());
        }
        // A crash must not bring the name back without the bytes.
        self.names.sync(&self.head)?;
        let head = Head::of(&self.head)?;
        let removed = stripe::remove_objects(Path::new(""), &self.descriptor, self.owner, &head);
        removed.map(drop).map_err(|error| number(&self.head, error))
    }
}

/// `unlinkat(2)` of anything but a directory. With the last name of a striped file, its objects go, once it is durable that the
/// name has gone.
///
/// # Errors
/// What `unlinkat(2)` answers; what syncing the directory answers: then the objects stay; the first object that could not be
/// removed. Nothing is removed where one of them is missing, as [`remove`](stripe::remove) has it.
pub fn unlinkat(dir: impl AsFd, name: &CStr) -> Result<(), Errno> {
    let leaving = Leaving::look(dir.as_fd(), name);
    leaving.as_ref().map_or(Ok(()), Leaving::check)?;
    rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
    leaving.map_or(Ok(()), Leaving::left)
}

/// `renameat(2)` within a directory. A striped file that is replaced loses its objects with its last name, once it is durable that
/// this has gone.
///
/// # Errors
/// What `renameat(2)` answers. As [`unlinkat`], nothing is replaced where an object is missing or cannot be removed.
pub fn renameat(dir: impl AsFd, from: &CStr, to: &CStr) -> Result<(), Errno> {
    let leaving = Leaving::look(dir.as_fd(), to);
    leaving.as_ref().map_or(Ok(()), Leaving::check)?;
    rustix::fs::renameat(&dir, from, &dir, to)?;
    // Two names of one file: nothing happened, and it has them still.
    leaving.map_or(Ok(()), |leaving| leaving.left().or(Ok(())))
}
