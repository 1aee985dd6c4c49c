//! The file that is made.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use dio::names;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, fchmod, fchown, futimens, openat,
    statat,
};
use rustix::io::Errno;

use crate::tool::unnamed::{Naming, open_parent, unnamed};
use crate::tool::{Sink, Tool, synced};

/// A file that is being made. Dropped without [`Target::keep`], it leaves nothing.
#[derive(Debug)]
pub(crate) struct Target {
    fd: OwnedFd,
    path: PathBuf,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// It gets its name at the end.
    File {
        name: CString,
        naming: Naming<OwnedFd>,
        /// What has the name then is replaced.
        replace: bool,
    },
    /// A device or a pipe: written as it is.
    Special,
}

impl Target {
    /// Begins a file that will be called `path`. What has that name is not changed before [`Target::keep`].
    ///
    /// # Errors
    /// EEXIST when something has that name and is not to be replaced, EISDIR when that is a directory; what `open(2)`
    /// answers.
    pub(crate) fn create(path: &Path, replace: bool) -> io::Result<Target> {
        let name = path.file_name().ok_or(Errno::ISDIR)?;
        let name = CString::new(name.as_bytes())?;
        let dir = open_parent(path)?;
        match statat(&dir, &*name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => return Err(Errno::ISDIR.into()),
            Ok(_) if !replace => return Err(Errno::EXIST.into()),
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
        let (fd, temporary) = unnamed(&dir, flags, mode)?;
        let way = Way::File { name, naming: Naming::new(dir, temporary), replace };
        Ok(Target { fd, path: path.to_owned(), way })
    }

    /// Opens what is there and is no regular file, to be written as it is; `None` for a regular file, or none.
    ///
    /// # Errors
    /// What `open(2)` answers.
    pub(crate) fn special(path: &Path) -> io::Result<Option<Target>> {
        match rustix::fs::stat(path) {
            Ok(stat)
                if !matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Directory) => {}
            _ => return Ok(None),
        }
        let fd = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?;
        Ok(Some(Target { fd, path: path.to_owned(), way: Way::Special }))
    }

    /// Its name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is a regular file.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.way, Way::File { .. })
    }

    /// The open file.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.fd
    }

    /// A stream to it.
    ///
    /// # Errors
    /// As [`Tool::output`].
    pub(crate) fn sink(&self, tool: &Tool) -> io::Result<Sink> {
        tool.output(self.fd.try_clone()?, &self.path)
    }

    /// Makes the contents durable.
    ///
    /// # Errors
    /// What `fsync(2)` answers.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(if self.is_file() { names::fsync(&self.fd) } else { synced::fsync(&self.fd) }?)
    }

    /// Makes its name durable.
    ///
    /// # Errors
    /// What `fsync(2)` answers.
    pub(crate) fn sync_name(&self) -> io::Result<()> {
        match &self.way {
            Way::File { naming, .. } => Ok(naming.sync(&self.fd)?),
            Way::Special => Ok(()),
        }
    }

    /// Gives the whole file its name, for good where that is to be `durable`.
    ///
    /// # Errors
    /// As [`Target::sync`], [`Target::name`] and [`Target::sync_name`].
    pub(crate) fn keep(&mut self, durable: bool) -> io::Result<()> {
        if !durable {
            return self.name();
        }
        self.sync()?;
        self.name()?;
        self.sync_name()
    }

    /// Gives the whole file its name. What is replaced is so for good only when the new contents are durable.
    ///
    /// # Errors
    /// EEXIST when something has taken the name meanwhile; what `link(2)` and `rename(2)` answer.
    fn name(&mut self) -> io::Result<()> {
        let Way::File { name, naming, replace } = &mut self.way else { return Ok(()) };
        if *replace || names::is_striped(&self.fd)? {
            names::fsync(&self.fd)?;
        }
        Ok(if *replace { naming.replace(&self.fd, name) } else { naming.claim(&self.fd, name) }?)
    }
}

/// Gives a file the owner, permissions and times of another, `mtime` instead of its time of modification. Owner and group
/// as far as they may be given; with another owner nobody gets the right to run it as that owner.
///
/// # Errors
/// What setting the times or the permissions answers.
pub(crate) fn give_attributes(fd: &OwnedFd, stat: &Stat, mtime: Option<i64>) -> Result<(), Errno> {
    let modified = Timespec { tv_sec: stat.st_mtime as _, tv_nsec: stat.st_mtime_nsec as _ };
    let times = Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime as _, tv_nsec: stat.st_atime_nsec as _ },
        last_modification: mtime.map_or(modified, |seconds| Timespec { tv_sec: seconds, tv_nsec: 0 }),
    };
    let before = rustix::fs::fstat(fd)?;
    let _ = fchown(fd, None, Some(Gid::from_raw(stat.st_gid)));
    let permitted = fchmod(fd, Mode::from_bits_retain(stat.st_mode & 0o777));
    let _ = fchown(fd, Some(Uid::from_raw(stat.st_uid)), None);
    futimens(fd, &times).and(permitted).and_then(|()| names::pass_on_attributes(fd, &before))
}
