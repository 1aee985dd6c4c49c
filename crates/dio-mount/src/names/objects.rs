//! The objects of striped files that lost their last name, and the callback that keeps them while
//! the file is open.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use dio::stripe::{LeaseWait, descriptor_of, may_be_striped, remove_objects_if_unlinked};
use dio_sys::reopen;
use rustix::fs::{OFlags, fstat};
use rustix::io::fcntl_dupfd_cloexec;

use super::descriptors::PathFd;
use super::inodes::InodeId;

/// The objects of a striped file that has lost its last name.
#[derive(Debug)]
pub struct Objects {
    /// The stripe descriptor, the file that names the objects. It is open for reading, so that no
    /// process can take a lease that blocks reading it.
    file: OwnedFd,
    /// The directory that contained its name.
    directory: OwnedFd,
}

impl Objects {
    fn of(place: &PathFd, directory: impl AsFd) -> Option<Objects> {
        let stat = fstat(&**place).ok().filter(may_be_striped)?;
        let file =
            LeaseWait::Briefly.open(|flags| reopen(&**place, OFlags::RDONLY | flags)).ok()?;
        descriptor_of(&file, &stat, Path::new(""), LeaseWait::Briefly).ok()??;
        Some(Objects { file, directory: fcntl_dupfd_cloexec(directory, 0).ok()? })
    }

    /// Removes the objects.
    pub fn remove(&self) {
        // The name is gone, so no caller is left to report a failure to.
        let _ = remove_objects_if_unlinked(Path::new(""), &self.file, &self.directory);
    }
}

/// Keeps objects while the file is open; returns them if it is not open.
type Keep = Box<dyn Fn(InodeId, Objects) -> Option<Objects> + Send + Sync>;

/// Holds the callback that keeps objects.
#[derive(Default)]
pub(super) struct Keeper(OnceLock<Keep>);

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Keeper").field(&self.0.get().is_some()).finish()
    }
}

impl Keeper {
    /// Sets the callback; the first one that was set stays.
    pub(super) fn keep_through(
        &self,
        keep: impl Fn(InodeId, Objects) -> Option<Objects> + Send + Sync + 'static,
    ) {
        let _ = self.0.set(Box::new(keep));
    }

    /// Removes the objects of a striped file that lost its last name, now or when the last
    /// descriptor of the file is closed.
    pub(super) fn drop_objects(&self, inode: InodeId, place: &PathFd, directory: impl AsFd) {
        let Some(objects) = Objects::of(place, directory) else { return };
        let left = match self.0.get() {
            Some(keep) => keep(inode, objects),
            None => Some(objects),
        };
        if let Some(objects) = left {
            objects.remove();
        }
    }
}
