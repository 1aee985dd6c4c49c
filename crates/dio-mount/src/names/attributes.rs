//! Attributes: owner, mode and times, the targets of links, access checks, and `statfs`.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dio_sys::access_of;
use rustix::fs::{
    Access, AtFlags, FileType, Gid, Mode, Stat, StatVfs, StatxFlags, Timespec, Timestamps,
    UTIME_NOW, UTIME_OMIT, Uid, chmodat, chownat, fstat, fstatvfs, readlinkat, statx, utimensat,
};
use rustix::io::{Errno, Result};
use rustix::path::DecInt;

use super::resolve::attributes_of_contents;
use super::{Caller, Changes, InodeId, Names, Time};
use crate::set_id;

/// `S_ISGID` (`inode(7)`).
const SET_GROUP_ID: u32 = 0o2000;

impl Names {
    /// Returns the attributes of an inode; `st_ino` is as in
    /// [`FoundInode::stat`](super::FoundInode::stat).
    ///
    /// # Errors
    /// `ESTALE` if it is gone, `EAGAIN` if its owner holds a lease on what may be a striped file,
    /// and those of `fstat(2)`.
    pub fn stat(&self, inode: InodeId) -> Result<Stat> {
        let place = self.descriptor(inode)?;
        let stat = fstat(&*place)?;
        let mut stat = attributes_of_contents(&place, stat)?;
        let mut state = self.shared.lock();
        let mount = state.table.get(inode)?.identity.mount;
        state.mounts.show(&mut stat, mount);
        Ok(stat)
    }

    /// Changes attributes of an inode of any type, in the order owner, mode, times: a change of the
    /// owner may clear set-id bits that the new mode sets. All other side effects of a change are
    /// left to the file system below.
    ///
    /// Everything is done as the caller. The kernel has checked the caller's permission with cached
    /// attributes, and for calls on an open descriptor it never refreshes them. Otherwise a program
    /// could keep a descriptor of a file that has meanwhile become another user's, and set the
    /// set-user-id bit on that user's file.
    ///
    /// # Errors
    /// `ESTALE` if it is gone, `EAGAIN` if its owner holds a lease on what may be a striped file,
    /// and those of `chown(2)`, `chmod(2)` and `utimensat(2)`.
    pub fn change(&self, caller: Caller, inode: InodeId, changes: &Changes) -> Result<()> {
        let place = self.descriptor(inode)?;
        let before = fstat(&*place)?;
        // Nothing is changed if it cannot be determined whether stripe objects must change too. A
        // damaged descriptor has no objects to change.
        if dio::names::is_striped(&*place) == Err(Errno::AGAIN) {
            return Err(Errno::AGAIN);
        }
        let apply = || self.apply(&place, changes);
        // Without the caller's supplementary groups the kernel would clear the set-group-id bit
        // instead of refusing it.
        match changes.mode.is_some_and(|mode| mode & SET_GROUP_ID != 0) {
            true => self.as_caller_in_full(caller, apply)?,
            false => self.as_caller(caller, 0, apply)?,
        }
        dio::names::pass_on_attributes(&*place, &before)
    }

    fn apply(&self, place: &OwnedFd, changes: &Changes) -> Result<()> {
        if changes.uid.is_some() || changes.gid.is_some() {
            let (uid, gid) =
                (changes.uid.map(user).transpose()?, changes.gid.map(group).transpose()?);
            chownat(place, c"", uid, gid, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if let Some(mode) = changes.mode {
            // `fchmod` refuses an `O_PATH` descriptor; the link in /proc leads to the inode, even
            // to that of a symbolic link.
            chmodat(&self.process, DecInt::from_fd(place), permissions(mode), AtFlags::empty())?;
        }
        if changes.accessed.is_some() || changes.modified.is_some() {
            let last_access = timespec(changes.accessed);
            let times = Timestamps { last_access, last_modification: timespec(changes.modified) };
            utimensat(place, c"", &times, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Clears the set-id bits of a regular file that a user without the right to set them changes.
    ///
    /// # Errors
    /// `ESTALE` if it is gone, those of `chmod(2)`.
    pub fn clear_set_id(&self, inode: InodeId) -> Result<()> {
        let place = self.descriptor(inode)?;
        match set_id::without(&fstat(&*place)?) {
            Some(left) => set_id::taken(chmodat(
                &self.process,
                DecInt::from_fd(&*place),
                left,
                AtFlags::empty(),
            )),
            None => Ok(()),
        }
    }

    /// Handles an attribute request without attributes: the file must lose its set-id bits and
    /// capabilities. The kernel sends it before a write, an allocation or a copy to the file. It
    /// also sends it for a `chown(2)` that changes neither owner nor group, without a check that
    /// the caller may do that. `is_written` says that the file is open for writing.
    ///
    /// # Errors
    /// `EPERM` if the caller does not own the file and the file is not open for writing, `ESTALE`
    /// if it is gone, and those of `chown(2)`.
    pub fn take_privileges(&self, caller: Caller, inode: InodeId, is_written: bool) -> Result<()> {
        let place = self.descriptor(inode)?;
        let stat = fstat(&*place)?;
        if !set_id::are_in(&stat) {
            return Ok(());
        }
        if self.callers.is_some() && !is_written && ![0, stat.st_uid].contains(&caller.uid) {
            return Err(Errno::PERM);
        }
        let taken =
            chownat(&*place, c"", None, None, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW);
        if is_written { set_id::taken(taken) } else { taken }
    }

    /// Returns when an inode was created, where the file system below reports it (`statx(2)`,
    /// `stx_btime`).
    pub fn birth(&self, inode: InodeId) -> Option<SystemTime> {
        let place = self.descriptor(inode).ok()?;
        let told = statx(&*place, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
        let known = told.stx_mask & StatxFlags::BTIME.bits() != 0 && told.stx_btime.tv_sec >= 0;
        known.then(|| {
            UNIX_EPOCH + Duration::new(told.stx_btime.tv_sec as u64, told.stx_btime.tv_nsec)
        })
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` if the inode is no symbolic link, `ESTALE` if it is gone, and those of
    /// `readlink(2)`.
    pub fn read_link(&self, inode: InodeId) -> Result<Vec<u8>> {
        // For other inodes the kernel would return ENOENT.
        if self.shared.lock().table.get(inode)?.identity.kind != FileType::Symlink {
            return Err(Errno::INVAL);
        }
        let place = self.descriptor(inode)?;
        readlinkat(&*place, c"", Vec::new()).map(std::ffi::CString::into_bytes)
    }

    /// Checks whether a caller may access an inode; a server that does not act as its callers
    /// checks for its own user.
    ///
    /// # Errors
    /// `EACCES` if not, `EROFS`, `ESTALE` if it is gone.
    pub fn access(&self, caller: Caller, inode: InodeId, access: Access) -> Result<()> {
        let place = self.descriptor(inode)?;
        self.as_caller_in_full(caller, || access_of(place.as_fd(), access))
    }

    /// Returns the statistics of the file system below an inode.
    ///
    /// # Errors
    /// `ESTALE` if the inode is gone, those of `fstatfs(2)`.
    pub fn statfs(&self, inode: InodeId) -> Result<StatVfs> {
        fstatvfs(&*self.descriptor(inode)?)
    }
}

/// Returns the permission bits of a mode.
pub(super) fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o7777)
}

/// Converts a user ID; `EINVAL` for -1.
pub(super) fn user(uid: u32) -> Result<Uid> {
    if uid == u32::MAX { Err(Errno::INVAL) } else { Ok(Uid::from_raw(uid)) }
}

/// Converts a group ID; `EINVAL` for -1.
pub(super) fn group(gid: u32) -> Result<Gid> {
    if gid == u32::MAX { Err(Errno::INVAL) } else { Ok(Gid::from_raw(gid)) }
}

fn timespec(time: Option<Time>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(Time::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(Time::At(time)) => since_epoch(time),
    }
}

fn since_epoch(time: SystemTime) -> Timespec {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => {
            Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() }
        }
        Err(error) => {
            let before = error.duration();
            let (seconds, nanoseconds) = (before.as_secs() as i64, before.subsec_nanos());
            // `tv_nsec` is never negative, also before 1970.
            match nanoseconds {
                0 => Timespec { tv_sec: -seconds, tv_nsec: 0 },
                part => Timespec { tv_sec: -seconds - 1, tv_nsec: (1_000_000_000 - part).into() },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_before_1970_count_their_nanoseconds_forwards() {
        let at = |time| {
            let spec = since_epoch(time);
            (spec.tv_sec, spec.tv_nsec)
        };
        assert_eq!(at(UNIX_EPOCH + Duration::new(7, 5)), (7, 5));
        assert_eq!(at(UNIX_EPOCH - Duration::from_secs(3)), (-3, 0));
        assert_eq!(at(UNIX_EPOCH - Duration::new(3, 1)), (-4, 999_999_999));
    }
}
