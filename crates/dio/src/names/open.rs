//! Opens files. A file that holds the descriptor of a striped file is opened as that striped file.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Mode as Permissions, OFlags, Stat};
use rustix::io::Errno;

use super::contents::ftruncate;
use super::details::errno_of;
use super::path::path_in;
use crate::engine::{Medium, OsMedium, Route};
use crate::file::{File, FileError, OpenOptions};
use crate::stripe::{self, LeaseWait};

impl File {
    /// Opens a file for reading, with direct I/O where possible.
    ///
    /// ```no_run
    /// let file = dio::File::open("data")?;
    /// let mut bytes = vec![0; 4096];
    /// let count = file.read_at(&mut bytes, 0)?;
    /// # Ok::<(), dio::FileError>(())
    /// ```
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
    /// [`FileError`]: what `open(2)` answers; EINVAL for files without blocks (pipes, terminals);
    /// EOPNOTSUPP if direct I/O is required and the file system does not support it.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<File, FileError> {
        let path = path.as_ref();
        let medium = self.open_medium_at(path)?;
        if self.creates().0 {
            let made = rustix::fs::fstat(medium.any())
                .map_err(|errno| FileError::new("open", path, errno))?;
            if stripe::default_may_apply(path, &made) {
                return self.open_by_default(path, medium, &made);
            }
        }
        self.recognise(medium, path)
    }

    /// Takes over a file that the caller opened without `O_DIRECT`, for instance relative to a
    /// directory. `name` is used in messages. The options that create and resolve names do not
    /// apply. The access mode must be that of the descriptor.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn adopt(&self, fd: OwnedFd, name: impl AsRef<Path>) -> Result<File, FileError> {
        let name = name.as_ref();
        self.recognise(self.take_over(fd, name)?, name)
    }

    /// Stripes a file just created, if the default of its directory applies, and opens it.
    fn open_by_default(
        &self,
        path: &Path,
        medium: OsMedium,
        made: &Stat,
    ) -> Result<File, FileError> {
        let failed = |errno| FileError::new("open", path, errno);
        // Whether another process has the file open can only be asked when this one has closed it.
        drop(medium);
        let striped = stripe::apply_default(path)?;
        let (mut again, (_, is_new)) = (self.clone(), self.creates());
        again.create(false).create_new(false);
        if is_new {
            again.no_follow(true);
        }
        let file = again.open(path)?;
        if let (true, Some(fd)) = (is_new, file.descriptor())
            && !stripe::is_created_file(fd, made, striped.as_ref()).map_err(failed)?
        {
            return Err(failed(Errno::EXIST));
        }
        Ok(file)
    }

    /// The file behind an open one: itself, or the striped file whose descriptor it holds.
    fn recognise(&self, medium: OsMedium, path: &Path) -> Result<File, FileError> {
        let stat =
            rustix::fs::fstat(medium.any()).map_err(|errno| FileError::new("open", path, errno))?;
        if stripe::may_be_striped(&stat)
            && let Some(descriptor) = self.descriptor_of(&medium, &stat, path)?
        {
            return self.open_striped(path, medium, &descriptor, &stat, self.shared_io(path)?);
        }
        self.finish(medium, path)
    }

    /// Reads the descriptor of a striped file, if the file is one. The medium's own descriptor is
    /// used where it can read.
    fn descriptor_of(
        &self,
        medium: &OsMedium,
        stat: &Stat,
        path: &Path,
    ) -> Result<Option<stripe::Descriptor>, FileError> {
        match medium.descriptor(Route::Buffered) {
            Ok(own) if self.reads() => stripe::descriptor_in(own, stat, path),
            _ => stripe::descriptor_of(medium.any(), stat, path, LeaseWait::AsOpen),
        }
    }
}

/// `openat(2)`. With `O_TRUNC`, a striped file stays striped and is emptied. With `O_CREAT`, a new
/// or empty file is striped if its directory has a default.
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

/// Applies the default of its directory to an empty file that was just created with `flags`. The
/// second value is whether it was striped; if so, the returned descriptor is a new one.
///
/// # Errors
/// Those of [`apply_default`](stripe::apply_default); EEXIST if, with `O_EXCL`, somebody
/// else's file has taken the name meanwhile.
pub fn striped_by_default(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    fd: OwnedFd,
    flags: OFlags,
) -> Result<(OwnedFd, bool), Errno> {
    let (path, made) = (path_in(dir, name), rustix::fs::fstat(&fd)?);
    if !stripe::default_may_apply(&path, &made) {
        return Ok((fd, false));
    }
    // Whether another process has the file open can only be asked when this one has closed it.
    drop(fd);
    let striped = stripe::apply_default(path).map_err(|error| errno_of(&error))?;
    let mut again = flags - OFlags::CREATE - OFlags::EXCL - OFlags::TRUNC;
    again.set(OFlags::NOFOLLOW, flags.intersects(OFlags::EXCL | OFlags::NOFOLLOW));
    let fd = rustix::fs::openat(dir, name, again, Permissions::empty())?;
    if flags.contains(OFlags::EXCL) && !stripe::is_created_file(&fd, &made, striped.as_ref())? {
        return Err(Errno::EXIST);
    }
    Ok((fd, striped.is_some()))
}
