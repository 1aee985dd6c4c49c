//! Names given, taken away and changed.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, CWD, RenameFlags, Stat, fstat, linkat, renameat_with, unlinkat};
use rustix::io::Result;

use super::attributes::path_of;
use super::descriptors::Place;
use super::resolve::check;
use super::{Entry, InodeId, Names};

/// A name whose inode the kernel knows, pinned while the name changes.
#[derive(Debug)]
struct Watched {
    inode: InodeId,
    place: Place,
    /// With its last name, its objects go.
    striped: bool,
}

impl Names {
    /// Gives an inode one more name.
    ///
    /// # Errors
    /// `ESTALE` if it is gone, those of `link(2)`.
    pub fn link(&self, inode: InodeId, new_parent: InodeId, new_name: &OsStr) -> Result<Entry> {
        check(new_name)?;
        let place = self.descriptor(inode)?;
        let directory = self.descriptor(new_parent)?;
        // The link in /proc leads to the inode; following it is all that is followed.
        linkat(CWD, path_of(&place), &*directory, new_name, AtFlags::SYMLINK_FOLLOW)?;
        self.lookup(new_parent, new_name)
    }

    /// Removes a name of anything but a directory.
    ///
    /// # Errors
    /// Those of `unlink(2)`.
    pub fn unlink(&self, parent: InodeId, name: &OsStr) -> Result<()> {
        self.remove(parent, name, AtFlags::empty())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of `rmdir(2)`.
    pub fn remove_directory(&self, parent: InodeId, name: &OsStr) -> Result<()> {
        self.remove(parent, name, AtFlags::REMOVEDIR)
    }

    fn remove(&self, parent: InodeId, name: &OsStr, flags: AtFlags) -> Result<()> {
        check(name)?;
        let directory = self.descriptor(parent)?;
        let watched = self.watch(&directory, parent, name);
        let removed = unlinkat(&*directory, name, flags);
        if let Some(watched) = watched {
            self.unwatch(watched, removed.is_ok().then_some((parent, name)));
        }
        removed
    }

    /// Changes a name, as far as the file system below knows the flags.
    ///
    /// # Errors
    /// Those of `renameat2(2)`.
    pub fn rename(
        &self,
        parent: InodeId,
        name: &OsStr,
        new_parent: InodeId,
        new_name: &OsStr,
        flags: RenameFlags,
    ) -> Result<()> {
        check(name)?;
        check(new_name)?;
        let (from, to) = (self.descriptor(parent)?, self.descriptor(new_parent)?);
        let moved = self.watch(&from, parent, name);
        let other = self.watch(&to, new_parent, new_name);
        self.renames.fetch_add(1, Ordering::SeqCst);
        let renamed = renameat_with(&*from, name, &*to, new_name, flags);
        // Two names of one inode: nothing happens.
        let same = moved.as_ref().zip(other.as_ref()).is_some_and(|(a, b)| a.inode == b.inode);
        if renamed.is_ok() && !same {
            if let Some(moved) = &moved {
                self.moved(moved.inode, new_parent, new_name);
            }
            if flags.contains(RenameFlags::EXCHANGE)
                && let Some(other) = &other
            {
                self.moved(other.inode, parent, name);
            }
        }
        if let Some(moved) = moved {
            self.unwatch(moved, None);
        }
        let replaced = renamed.is_ok() && !same && !flags.contains(RenameFlags::EXCHANGE);
        if let Some(other) = other {
            self.unwatch(other, replaced.then_some((new_parent, new_name)));
        }
        renamed
    }

    /// The inode has this name now; what is below it has its path with it.
    fn moved(&self, inode: InodeId, parent: InodeId, name: &OsStr) {
        let mut state = self.shared.lock();
        state.table.place(inode, parent, name);
        state.named_again(inode);
        let unused = state.release_gone();
        drop(state);
        drop(unused);
    }

    /// Pins the inode of a name, if the kernel knows it: without that name it might not be found again.
    fn watch(&self, directory: &Place, parent: InodeId, name: &OsStr) -> Option<Watched> {
        // If there is nothing, what is tried next says so.
        let found = self.find(directory, self.mount_of(parent).ok()?, name).ok()?;
        let identity = self.identity(&found.place, &found.stat, found.mount);
        let mut state = self.shared.lock();
        let inode = state.table.find(&identity.key).filter(|inode| state.table.is_held(*inode))?;
        if !state.table.get(inode).is_ok_and(|record| record.identity.same(&identity)) {
            return None;
        }
        let (place, striped) = (Place::new(found.place), found.striped);
        state.descriptors.pin(inode, &place);
        Some(Watched { inode, place, striped })
    }

    /// Ends a watch; the name may have been taken away. An inode that has lost the last name, or that by which alone it
    /// could be found, stays pinned until the kernel forgets it.
    fn unwatch(&self, watched: Watched, lost: Option<(InodeId, &OsStr)>) {
        let Watched { inode, place, striped } = watched;
        let links = fstat(&*place).map_or(0, |stat: Stat| stat.st_nlink);
        if striped
            && links == 0
            && let Some((parent, _)) = lost
            && let Ok(directory) = self.descriptor(parent)
        {
            // Whoever has it open keeps them until the end. The name has gone, and nobody is left to be told of what could not
            // be removed.
            let _ = dio::stripe::remove_nameless(Path::new(""), &*place, &*directory);
        }
        let mut state = self.shared.lock();
        if let Some((parent, name)) = lost {
            let record = state.table.get(inode).ok();
            let last_known = record.is_some_and(|record| record.parent == parent && *record.name == *name);
            let by_handle = record.is_some_and(|record| state.mounts.opens_handles(record.identity.mount));
            let is_directory = record.is_some_and(|record| record.identity.kind == rustix::fs::FileType::Directory);
            if is_directory || links == 0 || (last_known && !by_handle) {
                state.is_nameless(inode, &place);
            }
        }
        let unused = state.descriptors.unpin(inode);
        drop(state);
        drop((unused, place));
    }
}
