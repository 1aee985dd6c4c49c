//! Creating files, directories, links and nodes.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use dio::names::{self, path_in};
use dio::stripe::{Descriptor, apply_default, default_may_apply, is_created_file};
use dio_sys::fd_path;
use rustix::fs::{
    FileType, Mode, OFlags, fstat, getxattr_query, mkdirat, mknodat, openat, symlinkat,
};
use rustix::io::{Errno, Result};

use super::attributes::permissions;
use super::credentials::Masked;
use super::resolve::{FoundName, check};
use super::{Caller, FoundInode, InodeId, Names};

/// The extended attribute with the default ACL of a directory, which replaces the file creation
/// mask (`acl(5)`).
const DEFAULT_ACL: &str = "system.posix_acl_default";

impl Names {
    /// Creates a regular file, a pipe, a socket or a device, by the type in `mode`. `rdev` is a
    /// device number in the kernel's 32-bit encoding. The umask is not applied where the directory
    /// has a default ACL. Here and below, a new inode belongs to the caller if the server may act
    /// as the caller.
    ///
    /// # Errors
    /// Those of `mknod(2)`.
    pub fn make_node(
        &self,
        caller: Caller,
        parent: InodeId,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
    ) -> Result<FoundInode> {
        check(name)?;
        let directory = self.descriptor(parent)?;
        let kind = match FileType::from_raw_mode(mode) {
            // A mode without a type means a regular file.
            FileType::Unknown => FileType::RegularFile,
            kind => kind,
        };
        self.masked(&directory, mode, umask, |permissions| {
            self.as_caller(caller, mode, || {
                mknodat(&*directory, name, kind, permissions, rdev.into())
            })
        })?;
        if kind == FileType::RegularFile {
            self.as_caller(caller, mode, || stripe(&path_in(directory.as_fd(), name)))?;
        }
        self.lookup(parent, name)
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// Those of `mkdir(2)`.
    pub fn make_directory(
        &self,
        caller: Caller,
        parent: InodeId,
        name: &OsStr,
        mode: u32,
        umask: u32,
    ) -> Result<FoundInode> {
        check(name)?;
        let directory = self.descriptor(parent)?;
        self.masked(&directory, mode, umask, |permissions| {
            // A new directory inherits the set-group-id bit from its parent, for every creator.
            self.as_caller(caller, 0, || mkdirat(&*directory, name, permissions))
        })?;
        self.lookup(parent, name)
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// Those of `symlink(2)`.
    pub fn symlink(
        &self,
        caller: Caller,
        parent: InodeId,
        name: &OsStr,
        target: &Path,
    ) -> Result<FoundInode> {
        check(name)?;
        let directory = self.descriptor(parent)?;
        self.as_caller(caller, 0, || symlinkat(target, &*directory, name))?;
        self.lookup(parent, name)
    }

    /// Creates a regular file and opens it, whatever its mode allows. The file is always new.
    /// `O_DIRECT`, which a file system may refuse after it has created the file, is left to a
    /// second open, and so are `O_TRUNC` and `O_APPEND`.
    ///
    /// # Errors
    /// `EEXIST` if the name exists and `flags` contain `O_EXCL`. Without `O_EXCL`, `ESTALE` if the
    /// name exists: the kernel then looks the name up again and opens the existing file with a
    /// check of its permissions. And those of `open(2)`.
    pub fn create(
        &self,
        caller: Caller,
        parent: InodeId,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: OFlags,
    ) -> Result<(FoundInode, OwnedFd)> {
        check(name)?;
        let directory = self.descriptor(parent)?;
        let left_out =
            OFlags::DIRECT | OFlags::TRUNC | OFlags::APPEND | OFlags::DIRECTORY | OFlags::PATH;
        let new =
            OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let how = flags.difference(left_out) | new;
        let created = self.masked(&directory, mode, umask, |permissions| {
            let open = || openat(&*directory, name, how, permissions);
            self.as_caller(caller, mode, || self.or_with_fewer_descriptors(open))
        });
        let file = match created {
            Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) => return Err(Errno::STALE),
            other => other?,
        };
        let file = self.as_by_default(caller, &directory, name, file, how)?;
        Ok((self.enter(self.created(parent, &file)?, parent, name), file))
    }

    /// Creates a regular file without a name and opens it (`O_TMPFILE`); with `O_EXCL` it can never
    /// be given a name.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the file system does not support such files, `ENFILE` beyond the caller's
    /// share of the descriptors, and those of `open(2)`.
    pub fn create_unnamed(
        &self,
        caller: Caller,
        parent: InodeId,
        mode: u32,
        umask: u32,
        flags: OFlags,
    ) -> Result<(FoundInode, OwnedFd)> {
        let share = self.users.take_descriptors(caller.uid, 1)?;
        let directory = self.descriptor(parent)?;
        let left_out =
            OFlags::DIRECT | OFlags::TRUNC | OFlags::APPEND | OFlags::CREATE | OFlags::PATH;
        let how = flags.difference(left_out) | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = self.masked(&directory, mode, umask, |permissions| {
            let open = || openat(&*directory, c".", how, permissions);
            self.as_caller(caller, mode, || self.or_with_fewer_descriptors(open))
        })?;
        Ok((self.enter_unnamed(self.created(parent, &file)?, share), file))
    }

    /// Makes a new file, which was opened with `how`, a striped file if that is its directory's
    /// default. The caller must be allowed to create files in the directories of the objects.
    fn as_by_default(
        &self,
        caller: Caller,
        directory: &Arc<OwnedFd>,
        name: &OsStr,
        file: OwnedFd,
        how: OFlags,
    ) -> Result<OwnedFd> {
        let (path, made) = (path_in(directory.as_fd(), name), fstat(&file)?);
        if !default_may_apply(&path, &made) {
            return Ok(file);
        }
        // The check whether another process has the file open works only after this descriptor is
        // closed.
        drop(file);
        let striped = self.as_caller(caller, 0, || stripe(&path))?;
        let again = how.difference(OFlags::CREATE | OFlags::EXCL);
        let file =
            self.or_with_fewer_descriptors(|| openat(&**directory, name, again, Mode::empty()))?;
        if is_created_file(&file, &made, striped.as_ref())? { Ok(file) } else { Err(Errno::STALE) }
    }

    /// Describes a new file by its descriptor, not by its name: the name, if it has one, may lead
    /// to another file by now.
    fn created(&self, parent: InodeId, file: &OwnedFd) -> Result<FoundName> {
        let stat = names::fstat(file)?;
        let mount = self.mount_of(parent)?;
        let place = self.or_with_fewer_descriptors(|| self.reopen_place(file, OFlags::PATH))?;
        Ok(FoundName { place, stat, mount })
    }

    /// Calls `create` with permissions to which the umask applies, unless the directory has a
    /// default ACL.
    fn masked<T>(
        &self,
        directory: &Arc<OwnedFd>,
        mode: u32,
        umask: u32,
        create: impl FnOnce(Mode) -> Result<T>,
    ) -> Result<T> {
        if let Some(_masked) = Masked::with(umask) {
            return create(permissions(mode));
        }
        let has_default =
            getxattr_query(fd_path(directory), DEFAULT_ACL).is_ok_and(|length| length > 0);
        create(permissions(if has_default { mode } else { mode & !umask }))
    }
}

fn stripe(path: &Path) -> Result<Option<Descriptor>> {
    apply_default(path).map_err(|error| error.errno())
}
