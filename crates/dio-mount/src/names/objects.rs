//! The objects of striped files that have lost their last name, and who keeps them while somebody
//! has the file open.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use dio::stripe::{LeaseWait, descriptor_of, may_be_striped, remove_objects_if_unlinked};
use dio_sys::reopen;
use rustix::fs::{OFlags, fstat};
use rustix::io::fcntl_dupfd_cloexec;

use super::descriptors::Place;
use super::inodes::InodeId;

/// The objects of a striped file that has lost its last name.
#[derive(Debug)]
pub struct Objects {
    /// The descriptor of the file. It is open for reading, so that nobody can take a lease that
    /// keeps it from being read.
    file: OwnedFd,
    /// Where it had its name.
    directory: OwnedFd,
}

impl Objects {
    fn of(place: &Place, directory: impl AsFd) -> Option<Objects> {
        let stat = fstat(&**place).ok().filter(may_be_striped)?;
        let file = LeaseWait::Briefly.open(|flags| reopen(&**place, OFlags::RDONLY | flags)).ok()?;
        descriptor_of(&file, &stat, Path::new(""), LeaseWait::Briefly).ok()??;
        Some(Objects { file, directory: fcntl_dupfd_cloexec(directory, 0).ok()? })
    }

    /// Removes them.
    pub fn remove(&self) {
        // The name has gone, and nobody is left to be told of what could not be removed.
        let _ = remove_objects_if_unlinked(Path::new(""), &self.file, &self.directory);
    }
}

/// Keeps objects as long as somebody has the file open, and gives them back where nobody has.
type Keep = Box<dyn Fn(InodeId, Objects) -> Option<Objects> + Send + Sync>;

/// Who does so.
#[derive(Default)]
pub(super) struct Keeper(OnceLock<Keep>);

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Keeper").field(&self.0.get().is_some()).finish()
    }
}

impl Keeper {
    /// Tells it how; whoever is told first goes on to do it.
    pub(super) fn keep_through(&self, keep: impl Fn(InodeId, Objects) -> Option<Objects> + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(keep));
    }

    /// Removes the objects of a striped file that has lost its last name, now or when the last
    /// closes it.
    pub(super) fn drop_objects(&self, inode: InodeId, place: &Place, directory: impl AsFd) {
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
