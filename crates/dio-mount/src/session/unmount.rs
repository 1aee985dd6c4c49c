//! Unmounting: only mounts of dio, and only if they are topmost.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Dev;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::table::{self, KIND, MountRecord};
use super::{MountError, kernel, target};
use crate::errno::errno_of;

/// When to unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmount {
    /// Unmount only if the mount is not in use.
    Idle,
    /// Detach the mount now; it ends when its last file is closed (`MNT_DETACH`, `umount2(2)`).
    Lazy,
}

/// Unmounts one mount from any thread, also while it is served.
#[derive(Debug, Clone)]
pub struct Unmounter {
    pub(super) mountpoint: PathBuf,
    pub(super) device: Dev,
}

impl Unmounter {
    /// Unmounts it; it is no error if the mount is gone already.
    ///
    /// # Errors
    /// It is busy (not with [`Unmount::Lazy`]), or another file system is mounted over it.
    pub fn unmount(&self, how: Unmount) -> Result<(), MountError> {
        let mounts = table::mounts().map_err(|error| self.failed(error))?;
        if !mounts.iter().any(|mount| mount.device == self.device && mount.at == self.mountpoint) {
            return Ok(());
        }
        match table::mounted_on(&self.mountpoint).map_err(|error| self.failed(error))? {
            Some(top) if top.device == self.device => take_down(&self.mountpoint, how),
            Some(top) => Err(MountError::NotOurs { path: self.mountpoint.clone(), kind: top.kind }),
            None => Ok(()),
        }
    }

    fn failed(&self, error: io::Error) -> MountError {
        MountError::unmount(&self.mountpoint, errno_of(error))
    }
}

/// Returns the topmost mount on `path` if it is dio's, even if its server has ended.
///
/// # Errors
/// There is no mount, or the topmost one is of another type.
pub fn find(path: &Path) -> Result<MountRecord, MountError> {
    let failed = |errno| MountError::unmount(path, errno);
    let name = target::name_of_mountpoint(path).map_err(failed)?;
    let top = table::mounted_on(&name).map_err(|error| failed(errno_of(error)))?;
    match top {
        Some(mount) if mount.kind == KIND => Ok(mount),
        Some(mount) => Err(MountError::NotOurs { path: name, kind: mount.kind }),
        None => Err(MountError::NotMounted { path: path.to_path_buf() }),
    }
}

/// Unmounts the dio mount on `path`, even if its server has ended.
///
/// # Errors
/// Those of [`find`]; it is busy (not with [`Unmount::Lazy`]); it belongs to another user.
pub fn unmount(path: &Path, how: Unmount) -> Result<(), MountError> {
    take_down(&find(path)?.at, how)
}

fn take_down(mountpoint: &Path, how: Unmount) -> Result<(), MountError> {
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, how == Unmount::Lazy);
    match rustix::mount::unmount(mountpoint, flags) {
        Err(Errno::PERM) => kernel::unmount_by_fusermount(mountpoint, how == Unmount::Lazy),
        result => result.map_err(|errno| MountError::unmount(mountpoint, errno)),
    }
}
