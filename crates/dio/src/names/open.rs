//! Opening files: what holds the descriptor of a striped file is opened as that file.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode as Permissions, OFlags, Stat};
use rustix::io::Errno;

use super::contents::ftruncate;
use super::details::errno_of;
use crate::engine::OsMedium;
use crate::file::{File, FileError, OpenOptions};
use crate::stripe;

impl File {
    /// Opens a file for reading: direct where possible.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<File, FileError> {
        OpenOptions::new().read(true).open(path)
    }
}

impl OpenOptions {
    /// Opens a regular file, plain or striped, or a block device.
    ///
    /// # Errors
    /// [`FileError`]: what `open(2)` answers; EINVAL for what has no blocks (pipes, terminals); EOPNOTSUPP when direct
    /// I/O is required and the file system has none.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, FileError> {
        let path = path.as_ref();
        let medium = self.open_medium_at(path)?;
        if self.creates().0 {
            let made = rustix::fs::fstat(medium.any()).map_err(|errno| FileError::new("open", path, errno))?;
            if stripe::may_apply(path, &made) {
                return self.open_by_default(path, medium, &made);
            }
        }
        self.recognise(medium, path)
    }

    /// Takes over a file that the caller opened without `O_DIRECT`, relative to a directory for instance; `name` is for
    /// messages. The flags that create and resolve names do not apply; access must be what the descriptor has.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn adopt(&self, fd: OwnedFd, name: impl AsRef<Path>) -> Result<File, FileError> {
        let name = name.as_ref();
        self.recognise(self.take_over(fd, name)?, name)
    }

    /// Stripes what was made, if it is to be, and opens it.
    fn open_by_default(&self, path: &Path, medium: OsMedium, made: &Stat) -> Result<File, FileError> {
        let failed = |errno| FileError::new("open", path, errno);
        // Whether somebody else has it open can be asked only when we have not.
        drop(medium);
        let striped = stripe::stripe_by_default(path)?;
        let (mut again, (_, is_new)) = (self.clone(), self.creates());
        again.create(false).create_new(false);
        if is_new {
            again.no_follow(true);
        }
        let file = again.open(path)?;
        if let (true, Some(fd)) = (is_new, file.descriptor())
            && !stripe::is_what_was_made(fd, made, striped.as_ref()).map_err(failed)?
        {
            return Err(failed(Errno::EXIST));
        }
        Ok(file)
    }

    /// The file that an open one is: itself, or the striped one whose descriptor it holds.
    fn recognise(&self, medium: OsMedium, path: &Path) -> Result<File, FileError> {
        let stat = rustix::fs::fstat(medium.any()).map_err(|errno| FileError::new("open", path, errno))?;
        if stripe::may_be_striped(&stat)
            && let Some(descriptor) = stripe::descriptor_of(medium.any(), &stat, path)?
        {
            return self.open_striped(path, medium, &descriptor, &stat, self.shared_io(path)?);
        }
        self.finish(medium, path)
    }
}

/// `openat(2)`. With `O_TRUNC`, a striped file stays striped and is emptied. With `O_CREAT`, an empty file gets the stripes that
/// are the default of its directory.
///
/// # Errors
/// What `openat(2)` and `ftruncate(2)` answer.
pub fn openat(
    dir: impl AsFd,
    name: impl rustix::path::Arg,
    flags: OFlags,
    mode: impl Into<Permissions>,
) -> Result<OwnedFd, Errno> {
    let name = name.as_cow_c_str()?;
    let fd = rustix::fs::openat(&dir, &*name, flags - OFlags::TRUNC, mode.into())?;
    if !flags.intersects(OFlags::TRUNC | OFlags::CREATE) {
        return Ok(fd);
    }
    let stat = rustix::fs::fstat(&fd)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(fd);
    }
    if flags.contains(OFlags::TRUNC) && stat.st_size > 0 {
        ftruncate(&fd, 0)?;
    }
    if !flags.contains(OFlags::CREATE) || stat.st_size > 0 {
        return Ok(fd);
    }
    Ok(striped_by_default(dir.as_fd(), OsStr::from_bytes(name.to_bytes()), fd, flags)?.0)
}

/// An empty file that was opened with `flags`, just after it was made: as its directory has it by default. Whether it was striped;
/// then it was opened anew.
///
/// # Errors
/// Those of [`stripe_by_default`](stripe::stripe_by_default); EEXIST when with `O_EXCL` somebody else's file has taken the name
/// meanwhile.
pub fn striped_by_default(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    fd: OwnedFd,
    flags: OFlags,
) -> Result<(OwnedFd, bool), Errno> {
    let (path, made) = (path_in(dir, name), rustix::fs::fstat(&fd)?);
    if !stripe::may_apply(&path, &made) {
        return Ok((fd, false));
    }
    // Whether somebody else has it open can be asked only when we have not.
    drop(fd);
    let striped = stripe::stripe_by_default(path).map_err(|error| errno_of(&error))?;
    let mut again = flags - OFlags::CREATE - OFlags::EXCL - OFlags::TRUNC;
    again.set(OFlags::NOFOLLOW, flags.intersects(OFlags::EXCL | OFlags::NOFOLLOW));
    let fd = rustix::fs::openat(dir, name, again, Permissions::empty())?;
    if flags.contains(OFlags::EXCL) && !stripe::is_what_was_made(&fd, &made, striped.as_ref())? {
        return Err(Errno::EXIST);
    }
    Ok((fd, striped.is_some()))
}

/// A name in an open directory as a path.
pub fn path_in(dir: BorrowedFd<'_>, name: &OsStr) -> PathBuf {
    if dir.as_raw_fd() == rustix::fs::CWD.as_raw_fd() {
        return name.into();
    }
    Path::new(&format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name)
}
