//! Adding, removing and renaming names.

use std::ffi::OsStr;
use std::sync::atomic::Ordering;

use dio_sys::fd_path;
use rustix::fs::{AtFlags, CWD, RenameFlags, Stat, fstat, linkat, renameat_with, unlinkat};
use rustix::io::Result;

use super::descriptors::PathFd;
use super::resolve::check;
use super::{Caller, FoundInode, InodeId, Names, Objects};

/// An inode that the kernel holds, pinned while its name changes.
#[derive(Debug)]
struct Watched {
    inode: InodeId,
    place: PathFd,
}

impl Watched {
    /// Checks that all objects of a striped file can be removed with its name, if they must be;
    /// otherwise the name stays.
    fn check_removable(&self) -> Result<()> {
        dio::stripe::check_removable(&*self.place).map_err(|error| error.errno())
    }
}

impl Names {
    /// Sets the callback that decides when the objects of a striped file without a name are
    /// removed. `keep` removes them when the last descriptor of the file is closed, or returns them
    /// if the file is not open. The callback can be set once; without it the objects are removed at
    /// once.
    pub fn keep_objects_through(
        &self,
        keep: impl Fn(InodeId, Objects) -> Option<Objects> + Send + Sync + 'static,
    ) {
        self.keeper.keep_through(keep);
    }

    /// Gives an inode one more name. Here and below, the change is made as the caller, if the
    /// server can: the kernel may have checked permissions with cached attributes of the directory.
    ///
    /// # Errors
    /// `ESTALE` if it is gone, and those of `link(2)`.
    /// `ESTALE` if it is gone, those of `link(2)`.
    pub fn link(
        &self,
        caller: Caller,
        inode: InodeId,
        new_parent: InodeId,
        new_name: &OsStr,
    ) -> Result<FoundInode> {
        check(new_name)?;
        let place = self.descriptor(inode)?;
        let directory = self.descriptor(new_parent)?;
        // The link in /proc leads to the inode; no further link is followed.
        let link = || linkat(CWD, fd_path(&place), &*directory, new_name, AtFlags::SYMLINK_FOLLOW);
        self.as_caller(caller, 0, link)?;
        self.lookup(new_parent, new_name)
    }

    /// Removes a name of an inode that is no directory.
    ///
    /// # Errors
    /// Those of `unlink(2)`.
    pub fn unlink(&self, caller: Caller, parent: InodeId, name: &OsStr) -> Result<()> {
        self.remove(caller, parent, name, AtFlags::empty())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of `rmdir(2)`.
    pub fn remove_directory(&self, caller: Caller, parent: InodeId, name: &OsStr) -> Result<()> {
        self.remove(caller, parent, name, AtFlags::REMOVEDIR)
    }

    fn remove(&self, caller: Caller, parent: InodeId, name: &OsStr, flags: AtFlags) -> Result<()> {
        check(name)?;
        let directory = self.descriptor(parent)?;
        let watched = self.watch(&directory, parent, name);
        let removed = match watched.as_ref().map_or(Ok(()), Watched::check_removable) {
            Ok(()) => self.as_caller(caller, 0, || unlinkat(&*directory, name, flags)),
            refused => refused,
        };
        if let Some(watched) = watched {
            self.unwatch(caller, watched, removed.is_ok().then_some((parent, name)));
        }
        removed
    }

    /// Renames, with the flags that the file system below supports.
    ///
    /// # Errors
    /// Those of `renameat2(2)`.
    pub fn rename(
        &self,
        caller: Caller,
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
        // If both names are of one inode, a rename does nothing.
        let same = moved.as_ref().zip(other.as_ref()).is_some_and(|(a, b)| a.inode == b.inode);
        let replaces = !same && !flags.intersects(RenameFlags::EXCHANGE | RenameFlags::NOREPLACE);
        self.renames.fetch_add(1, Ordering::SeqCst);
        let renamed =
            match other.as_ref().filter(|_| replaces).map_or(Ok(()), Watched::check_removable) {
                Ok(()) => {
                    self.as_caller(caller, 0, || renameat_with(&*from, name, &*to, new_name, flags))
                }
                refused => refused,
            };
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
            self.unwatch(caller, moved, None);
        }
        let replaced = renamed.is_ok() && !same && !flags.contains(RenameFlags::EXCHANGE);
        if let Some(other) = other {
            self.unwatch(caller, other, replaced.then_some((new_parent, new_name)));
        }
        renamed
    }

    /// Records the new name of an inode; the paths of all inodes below it follow.
    fn moved(&self, inode: InodeId, parent: InodeId, name: &OsStr) {
        let mut state = self.shared.lock();
        state.table.place(inode, parent, name);
        state.named_again(inode);
        let unused = state.release_gone();
        drop(state);
        drop(unused);
    }

    /// Pins the inode of a name, if the kernel holds it: without that name the inode might not be
    /// found again.
    fn watch(&self, directory: &PathFd, parent: InodeId, name: &OsStr) -> Option<Watched> {
        // If the lookup fails, the system call that follows fails with the same error.
        let found = self.find_place(directory, self.mount_of(parent).ok()?, name).ok()?;
        let identity = self.identity(&found.place, &found.stat, found.mount);
        let mut state = self.shared.lock();
        let inode = state.table.find(&identity.key).filter(|inode| state.table.is_held(*inode))?;
        if !state.table.get(inode).is_ok_and(|record| record.identity.same(&identity)) {
            return None;
        }
        let place = PathFd::new(found.place);
        state.descriptors.pin(inode, &place);
        Some(Watched { inode, place })
    }

    /// Unpins an inode; `lost` is its name if the name was removed. An inode that lost its last
    /// name, or the only name by which it could be found, stays pinned until the kernel forgets it.
    fn unwatch(&self, caller: Caller, watched: Watched, lost: Option<(InodeId, &OsStr)>) {
        let Watched { inode, place } = watched;
        let links = fstat(&*place).map_or(0, |stat: Stat| stat.st_nlink);
        if links == 0
            && let Some((parent, _)) = lost
            && let Ok(directory) = self.descriptor(parent)
        {
            self.keeper.drop_objects(inode, &place, &*directory);
        }
        let mut state = self.shared.lock();
        if let Some((parent, name)) = lost {
            let record = state.table.get(inode).ok();
            let last_known =
                record.is_some_and(|record| record.parent == parent && *record.name == *name);
            let by_handle =
                record.is_some_and(|record| state.mounts.opens_handles(record.identity.mount));
            let is_directory = record
                .is_some_and(|record| record.identity.kind == rustix::fs::FileType::Directory);
            if is_directory || links == 0 || (last_known && !by_handle) {
                // For a user without a share left, the inode can be lost unless it is open.
                let share = self.users.take_descriptors(caller.uid, 1).ok();
                state.is_nameless(inode, &place, share);
            }
        }
        let unused = state.descriptors.unpin(inode);
        drop(state);
        drop((unused, place));
    }
}
