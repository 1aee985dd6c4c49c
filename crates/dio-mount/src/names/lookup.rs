//! Lookups: a name is answered with a number, which the kernel holds until it forgets it.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::Stat;
use rustix::io::Result;

use super::inodes::InodeIdentity;
use super::resolve::{FoundName, check};
use super::{FoundInode, InodeId, Name, Names};
use crate::users::Share;

impl Names {
    /// Looks a name up, and counts one lookup of the inode. `.` is the inode itself, of any type,
    /// and `..` is the directory where it was last found. The kernel asks for these when it was
    /// given a file handle of the inode (`FUSE_EXPORT_SUPPORT`).
    ///
    /// # Errors
    /// `ENOENT`, also above the root, `ESTALE` if the directory is gone, `EAGAIN` if its owner
    /// holds a lease on what may be a striped file, and those of `open(2)`.
    pub fn lookup(&self, parent: InodeId, name: &OsStr) -> Result<FoundInode> {
        match name.as_encoded_bytes() {
            b"." => return self.again(parent),
            b".." => {
                let above = self.shared.lock().table.above(parent)?;
                return self.again(above);
            }
            _ => check(name)?,
        }
        let directory = self.descriptor(parent)?;
        let found = self.find(&directory, self.mount_of(parent)?, name)?;
        Ok(self.enter(found, parent, name))
    }

    /// Counts one more lookup of a known inode without a name.
    fn again(&self, inode: InodeId) -> Result<FoundInode> {
        let stat = self.stat(inode)?;
        self.shared.lock().table.count(inode)?;
        Ok(FoundInode { inode, generation: 0, stat })
    }

    /// Whether the kernel was answered a lookup of this name in a directory within the last `time`.
    pub fn was_told(&self, directory: InodeId, name: &Name, time: Duration) -> bool {
        let mut state = self.shared.lock();
        state.table.tick(self.now());
        let Ok(above) = state.table.get(directory) else { return false };
        let key = above.identity.key_below(name.number, name.kind);
        let milliseconds = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        state.table.was_told(&key, directory, &name.name, milliseconds)
    }

    /// The time for the table.
    fn now(&self) -> u32 {
        self.began.elapsed().as_millis() as u32
    }

    /// Records a lookup that found `name` in `parent`.
    pub(super) fn enter(&self, found: FoundName, parent: InodeId, name: &OsStr) -> FoundInode {
        let FoundName { place, mut stat, mount, .. } = found;
        let inode = match self.enter_open(&mut stat, mount, parent, name) {
            Some(known) => known,
            None => {
                let identity = self.identity(&place, &stat, mount);
                self.shared.lock().mounts.show(&mut stat, mount);
                self.enter_identity(identity, place, parent, name)
            }
        };
        FoundInode { inode, generation: 0, stat }
    }

    /// Records a new inode without a name, which is pinned until it has one.
    pub(super) fn enter_unnamed(&self, found: FoundName, share: Share) -> FoundInode {
        let FoundName { place, mut stat, mount, .. } = found;
        let identity = self.identity(&place, &stat, mount);
        let place = Arc::new(place);
        let mut state = self.shared.lock();
        state.mounts.show(&mut stat, mount);
        let inode = state.table.enter_unnamed(identity);
        let unused = state.release_gone();
        state.is_nameless(inode, &place, Some(share));
        drop(state);
        drop(unused);
        FoundInode { inode, generation: 0, stat }
    }

    /// The fast path for an inode with an open descriptor, which keeps the inode's number from
    /// being reused. It changes `stat` to the attributes that the mount shows.
    fn enter_open(
        &self,
        stat: &mut Stat,
        mount: u32,
        parent: InodeId,
        name: &OsStr,
    ) -> Option<InodeId> {
        let mut state = self.shared.lock();
        let key = state.mounts.key(stat, mount);
        let inode =
            state.table.find(&key).filter(|inode| state.descriptors.get(*inode).is_some())?;
        state.named_again(inode);
        state.table.tick(self.now());
        state.table.visit(inode, parent, name);
        state.mounts.show(stat, mount);
        let unused = state.release_gone();
        drop(state);
        drop(unused);
        Some(inode)
    }

    fn enter_identity(
        &self,
        identity: InodeIdentity,
        place: OwnedFd,
        parent: InodeId,
        name: &OsStr,
    ) -> InodeId {
        let mut state = self.shared.lock();
        state.table.tick(self.now());
        let inode = state.table.enter(identity, parent, name);
        let unused = (state.release_gone(), state.descriptors.keep(inode, Arc::new(place)));
        let bytes = state.table.bytes();
        drop(state);
        drop(unused);
        self.shared.grew_to(bytes);
        inode
    }
}
