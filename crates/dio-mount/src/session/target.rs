//! The source and the mount point. Both are opened before anything is mounted, because a mount over
//! the source would hide it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use dio::names::FileId;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, StatxFlags, fstat, open, openat, statx};
use rustix::io::Errno;

use super::MountError;
use super::table::{self, KIND};
use crate::errno::errno_of;

/// An open directory to serve and an open directory to mount it on. They may be the same.
#[derive(Debug)]
pub struct MountTarget {
    /// The source, `O_PATH`.
    pub(crate) source: OwnedFd,
    /// The absolute path of the source, without links.
    source_path: PathBuf,
    /// The directory that the mount covers, `O_PATH`.
    pub(super) point: OwnedFd,
    /// The absolute path of the mount point, without links.
    pub(super) mountpoint: PathBuf,
}

impl MountTarget {
    /// Opens both directories.
    ///
    /// # Errors
    /// One of them does not exist, is not a directory or may not be searched. Or the mount point is
    /// a mount whose server is gone, lies below the source, or has this source mounted on it.
    pub fn open(source: &Path, mountpoint: &Path) -> Result<MountTarget, MountError> {
        let (source, source_path) = directory(source)
            .map_err(|errno| MountError::Source { path: source.to_path_buf(), errno })?;
        let (point, mountpoint) =
            directory(mountpoint).map_err(|errno| unsuitable(mountpoint, errno))?;
        // Without a forced request, cached attributes could hide for a while that the server is
        // gone.
        let (ask, what) = (AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC, StatxFlags::TYPE);
        statx(&point, "", ask, what).map_err(|errno| unsuitable(&mountpoint, errno))?;
        let target = MountTarget { source, source_path, point, mountpoint };
        target.check_for_loop()?;
        target.check_for_twin()?;
        Ok(target)
    }

    /// The absolute path of the source.
    pub fn source_path(&self) -> &Path {
        &self.source_path
    }

    /// The absolute path of the mount point.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Refuses a mount point below the source, where the mount would contain itself: a server that
    /// walks the source would send itself a request and wait for its own answer.
    fn check_for_loop(&self) -> Result<(), MountError> {
        let failed = |errno| unsuitable(&self.mountpoint, errno);
        let same = |a: &Stat, b: &Stat| FileId::of(a) == FileId::of(b);
        let source = fstat(&self.source).map_err(failed)?;
        let mut here = fstat(&self.point).map_err(failed)?;
        let mut above = up(&self.point).map_err(failed)?;
        loop {
            let next = fstat(&above).map_err(failed)?;
            if same(&next, &here) {
                return Ok(());
            }
            if same(&next, &source) {
                return Err(MountError::Below {
                    path: self.mountpoint.clone(),
                    source_path: self.source_path.clone(),
                });
            }
            above = match up(&above) {
                Ok(above) => above,
                // This process may not look further up, so the source is not there.
                Err(Errno::ACCESS) => return Ok(()),
                Err(errno) => return Err(failed(errno)),
            };
            here = next;
        }
    }

    fn check_for_twin(&self) -> Result<(), MountError> {
        let there = table::mounted_on(&self.mountpoint).unwrap_or(None);
        match there {
            Some(mount) if mount.kind == KIND && mount.source == self.source_path.as_os_str() => {
                let source_name = self.source_path.display().to_string();
                Err(MountError::Already { path: self.mountpoint.clone(), source_name })
            }
            _ => Ok(()),
        }
    }
}

fn unsuitable(mountpoint: &Path, errno: Errno) -> MountError {
    let path = mountpoint.to_path_buf();
    if errno == Errno::NOTCONN {
        MountError::Stale { path }
    } else {
        MountError::MountPoint { path, errno }
    }
}

/// Opens a directory, and returns it with its path without links.
fn directory(path: &Path) -> Result<(OwnedFd, PathBuf), Errno> {
    let name = path.canonicalize().map_err(errno_of)?;
    let fd = open(&name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((fd, name))
}

fn up(fd: impl AsFd) -> Result<OwnedFd, Errno> {
    openat(fd, "..", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Returns the absolute path of a mount point, even if the mount point cannot be accessed because
/// its server is gone or a permission is missing.
///
/// # Errors
/// The path to it cannot be resolved.
pub(super) fn name_of_mountpoint(path: &Path) -> Result<PathBuf, Errno> {
    let errno = match path.canonicalize() {
        Ok(name) => return Ok(name),
        Err(error) => errno_of(error),
    };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(errno) };
    if errno == Errno::NOENT || rustix::fs::readlinkat(CWD, path, Vec::new()).is_ok() {
        return Err(errno);
    }
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    parent.canonicalize().map(|parent| parent.join(name)).map_err(|_| errno)
}
