//! Names given, taken away and changed.

use std::ffi::OsStr;
use std::sync::atomic::Ordering;

use dio_sys::fd_path;
use rustix::fs::{AtFlags, CWD, RenameFlags, Stat, fstat, linkat, renameat_with, unlinkat};
use rustix::io::Result;

use super::descriptors::Place;
use super::resolve::check;
use super::{Caller, Entry, InodeId, Names, Objects};

/// A name whose inode the kernel knows, pinned while the name changes.
#[derive(Debug)]
struct Watched {
    inode: InodeId,
    place: Place,
}

impl Watched {
    /// Whether all objects of a striped file can go with the name, if they are to: otherwise it
    /// stays.
    fn check_removable(&self) -> Result<()> {
        dio::stripe::check_removable(&*self.place).map_err(|error| error.errno())
    }
}

impl Names {
    /// Has `keep` asked for how long the objects of a striped file are needed that has lost its
    /// last name: it removes them when nobody has the file open any more, or returns them if nobody
    /// has. It can be set once; without it they go at once.
    pub fn keep_objects_through(&self, keep: impl Fn(InodeId, Objects) -> Option<Objects> + Send + Sync + 'static) {
        self.keeper.keep_through(keep);
    }

    /// Gives an inode one more name. Here and below it is done as the caller, if the server can:
    /// the kernel checked permissions by attributes of the directory that it may have remembered
    /// for a while.
    ///
    /// # Errors
    /// `ESTALE` if it is gone, those of `link(2)`.
    pub fn link(&self, caller: Caller, inode: InodeId, new_parent: InodeId, new_name: &OsStr) -> Result<Entry> {
        check(new_name)?;
        let place = self.descriptor(inode)?;
        let directory = self.descriptor(new_parent)?;
        // The link in /proc leads to the inode; following it is all that is followed.
        let link = || linkat(CWD, fd_path(&place), &*directory, new_name, AtFlags::SYMLINK_FOLLOW);
        self.as_caller(caller, 0, link)?;
        self.lookup(new_parent, new_name)
    }

    /// Removes a name of anything but a directory.
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

    /// Changes a name, as far as the file system below knows the flags.
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
        // Two names of one inode: nothing happens.
        let same = moved.as_ref().zip(other.as_ref()).is_some_and(|(a, b)| a.inode == b.inode);
        let replaces = !same && !flags.intersects(RenameFlags::EXCHANGE | RenameFlags::NOREPLACE);
        self.renames.fetch_add(1, Ordering::SeqCst);
        let renamed = match other.as_ref().filter(|_| replaces).map_or(Ok(()), Watched::check_removable) {
            Ok(()) => self.as_caller(caller, 0, || renameat_with(&*from, name, &*to, new_name, flags)),
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

    /// The inode has this name now; what is below it has its path with it.
    fn moved(&self, inode: InodeId, parent: InodeId, name: &OsStr) {
        let mut state = self.shared.lock();
        state.table.place(inode, parent, name);
        state.named_again(inode);
        let unused = state.release_gone();
        drop(state);
        drop(unused);
    }

    /// Pins the inode of a name, if the kernel knows it: without that name it might not be found
    /// again.
    fn watch(&self, directory: &Place, parent: InodeId, name: &OsStr) -> Option<Watched> {
        // If there is nothing, what is tried next says so.
        let found = self.find_place(directory, self.mount_of(parent).ok()?, name).ok()?;
        let identity = self.identity(&found.place, &found.stat, found.mount);
        let mut state = self.shared.lock();
        let inode = state.table.find(&identity.key).filter(|inode| state.table.is_held(*inode))?;
        if !state.table.get(inode).is_ok_and(|record| record.identity.same(&identity)) {
            return None;
        }
        let place = Place::new(found.place);
        state.descriptors.pin(inode, &place);
        Some(Watched { inode, place })
    }

    /// Ends a watch; the name may have been taken away. An inode that has lost the last name, or
    /// that by which alone it could be found, stays pinned until the kernel forgets it.
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
            let last_known = record.is_some_and(|record| record.parent == parent && *record.name == *name);
            let by_handle = record.is_some_and(|record| state.mounts.opens_handles(record.identity.mount));
            let is_directory = record.is_some_and(|record| record.identity.kind == rustix::fs::FileType::Directory);
            if is_directory || links == 0 || (last_known && !by_handle) {
                // Whoever has no share left may lose it, unless it is open.
                let share = self.users.take_descriptors(caller.uid, 1).ok();
                state.is_nameless(inode, &place, share);
            }
        }
        let unused = state.descriptors.unpin(inode);
        drop(state);
        drop((unused, place));
    }
}
