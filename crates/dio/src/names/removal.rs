//! Removes and replaces names. When a striped file loses its last name, its objects are removed.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode as Permissions, OFlags, RenameFlags, renameat_with, statat};
use rustix::io::Errno;

use super::details::errno_of;
use super::striped::errno_for;
use crate::stripe::directory::NameDirectory;
use crate::stripe::object::open_error;
use crate::stripe::{self, Descriptor, DescriptorInode, LeaseWait, descriptor_of, may_be_striped};

/// `unlink(2)`. When a striped file loses its last name, its objects are removed.
///
/// # Errors
/// What `unlink(2)` answers; the error of the first object that could not be removed.
pub fn unlink(path: &Path) -> Result<(), Errno> {
    if may_be_striped(&rustix::fs::lstat(path)?) {
        match stripe::remove(path) {
            Err(error) if error.errno() == Errno::INVAL => {}
            other => return other.map(drop).map_err(|error| errno_of(&error)),
        }
    }
    rustix::fs::unlink(path)
}

/// A striped file that is about to lose a name, perhaps its last.
struct UnlinkedFile {
    head: OwnedFd,
    descriptor: Descriptor,
    owner: u32,
    /// The directory of the name.
    names: NameDirectory,
}

impl UnlinkedFile {
    /// The file that has the name, if it is striped.
    ///
    /// # Errors
    /// EAGAIN if its owner holds a lease on it: if it is striped, its objects would stay behind.
    fn find(dir: BorrowedFd<'_>, name: &CStr) -> Result<Option<UnlinkedFile>, Errno> {
        let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if may_be_striped(&stat) => stat,
            _ => return Ok(None),
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |more| rustix::fs::openat(dir, name, flags | more, Permissions::empty());
        let head = match LeaseWait::Briefly.open(open) {
            Ok(head) => head,
            Err(errno @ Errno::AGAIN) => {
                let path = Path::new(OsStr::from_bytes(name.to_bytes()));
                return Err(errno_of(&open_error("remove", path, errno)));
            }
            // What may not be read cannot be recognised.
            Err(_) => return Ok(None),
        };
        Ok(UnlinkedFile::of(dir, name, head, stat.st_uid))
    }

    fn of(dir: BorrowedFd<'_>, name: &CStr, head: OwnedFd, owner: u32) -> Option<UnlinkedFile> {
        let stat = rustix::fs::fstat(&head).ok()?;
        let descriptor = descriptor_of(&head, &stat, Path::new(""), LeaseWait::Briefly).ok()??;
        let names = NameDirectory::beside(dir, name).ok()?;
        Some(UnlinkedFile { head, descriptor, owner, names })
    }

    /// Checks that all objects can be removed, should this be the last name.
    fn check(&self) -> Result<(), Errno> {
        stripe::check_removable(&self.head).map_err(|error| errno_for(&self.head, error))
    }

    /// Removes the objects if the file has no name left.
    fn name_removed(self) -> Result<(), Errno> {
        if rustix::fs::fstat(&self.head)?.st_nlink > 0 {
            return Ok(());
        }
        // The removal of the name must be durable first: a crash must not bring it back without the
        // bytes.
        self.names.sync(&self.head)?;
        let head = DescriptorInode::of(&self.head)?;
        let removed = stripe::remove_objects(Path::new(""), &self.descriptor, self.owner, &head);
        removed.map(drop).map_err(|error| errno_for(&self.head, error))
    }
}

/// `unlinkat(2)` of anything but a directory. When a striped file loses its last name, its objects
/// are removed once the removal of the name is durable.
///
/// # Errors
/// What `unlinkat(2)` answers. What syncing the directory answers; the objects then stay. The error
/// of the first object that could not be removed. If an object is missing, nothing is removed, as
/// in [`remove`](stripe::remove).
pub fn unlinkat(dir: impl AsFd, name: &CStr) -> Result<(), Errno> {
    let unlinked = UnlinkedFile::find(dir.as_fd(), name)?;
    unlinked.as_ref().map_or(Ok(()), UnlinkedFile::check)?;
    rustix::fs::unlinkat(dir, name, AtFlags::empty())?;
    unlinked.map_or(Ok(()), UnlinkedFile::name_removed)
}

/// `renameat2(2)` within a directory with `RENAME_NOREPLACE`. On a file system without this flag,
/// `to` is looked for first.
///
/// # Errors
/// EEXIST if `to` exists; what `renameat2(2)` answers.
pub fn rename_new(dir: impl AsFd, from: &CStr, to: &CStr) -> Result<(), Errno> {
    match renameat_with(&dir, from, &dir, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => match statat(&dir, to, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(_) => rustix::fs::renameat(&dir, from, &dir, to),
        },
        done => done,
    }
}

/// `renameat(2)` within a directory. If it replaces the last name of a striped file, the objects of
/// that file are removed once the replacement is durable.
///
/// # Errors
/// What `renameat(2)` answers. As in [`unlinkat`], nothing is replaced if an object is missing or
/// cannot be removed.
pub fn renameat(dir: impl AsFd, from: &CStr, to: &CStr) -> Result<(), Errno> {
    let unlinked = UnlinkedFile::find(dir.as_fd(), to)?;
    unlinked.as_ref().map_or(Ok(()), UnlinkedFile::check)?;
    rustix::fs::renameat(&dir, from, &dir, to)?;
    // If both names were of one file, rename(2) did nothing, and the file still has both.
    unlinked.map_or(Ok(()), |unlinked| unlinked.name_removed().or(Ok(())))
}
