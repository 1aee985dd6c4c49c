//! Opening files: what holds the descriptor of a striped file is opened as that file.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::Stat;
use rustix::io::Errno;

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
