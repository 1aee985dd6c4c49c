//! Opens inodes by name or by number.
//!
//! A descriptor opened with `O_PATH` (a *place*) suffices for all operations that do not access the
//! contents of an inode. An inode without a descriptor is opened by its handle. Where the server
//! may not open handles, it is opened by its last name in its last directory, and must then be the
//! same inode.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dio::names::stat_of_contents;
use dio_sys::open_by_handle;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2};
use rustix::io::{Errno, Result};
use rustix::mount::{OpenTreeFlags, open_tree};

use super::descriptors::PathFd;
use super::forbidden::Forbidden;
use super::inodes::{Handle, InodeIdentity};
use super::mounts::{Mount, PLACE, handle, mount_of, reopen};
use super::{InodeId, Names, ROOT};

/// Most directories on a path; a longer path is treated as a circle. `PATH_MAX` allows half of it.
const DEEPEST: usize = 1 << 16;

/// The result of a lookup.
#[derive(Debug)]
pub(super) struct FoundName {
    pub(super) place: OwnedFd,
    pub(super) stat: Stat,
    /// Index of the mount.
    pub(super) mount: u32,
}

/// Returns the attributes of a file's contents, given those of its place: the attributes of a
/// striped file differ.
///
/// # Errors
/// `EAGAIN` if its owner holds a lease on what may be a striped file: its size cannot be determined
/// then. If objects are missing, the attributes are those of the descriptor, and an open of the
/// file fails.
pub(super) fn attributes_of_contents(place: &OwnedFd, stat: Stat) -> Result<Stat> {
    match stat_of_contents(place, stat) {
        Err(Errno::AGAIN) => Err(Errno::AGAIN),
        other => Ok(other.map_or(stat, |(stat, _)| stat)),
    }
}

/// Checks a name for a lookup: it must be a single name, and neither `.` nor `..`.
///
/// # Errors
/// `EINVAL` for every other name.
pub(super) fn check(name: &OsStr) -> Result<()> {
    match name.as_bytes() {
        b"" | b"." | b".." => Err(Errno::INVAL),
        bytes if bytes.contains(&b'/') || bytes.contains(&0) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

impl Names {
    /// Returns a place of an inode, opened if necessary.
    ///
    /// # Errors
    /// `ESTALE` if it is gone or cannot be found again.
    pub(super) fn descriptor(&self, inode: InodeId) -> Result<PathFd> {
        if let Some(place) = self.shared.lock().descriptors.get(inode) {
            return Ok(place);
        }
        loop {
            let renames = self.renames.load(Ordering::SeqCst);
            match self.find_again(inode) {
                // A concurrent rename may have caused the failure. The inode it moved is pinned, or
                // has its new name by now.
                Err(Errno::STALE) if self.renames.load(Ordering::SeqCst) != renames => {}
                other => return other,
            }
        }
    }

    /// Returns the index of the mount where an inode was found.
    pub(super) fn mount_of(&self, inode: InodeId) -> Result<u32> {
        Ok(self.shared.lock().table.get(inode)?.identity.mount)
    }

    /// Opens an inode by its handle, or by the names from the nearest ancestor that has a
    /// descriptor or can be opened by handle.
    fn find_again(&self, inode: InodeId) -> Result<PathFd> {
        let mut missing = Vec::new();
        let mut at = inode;
        let mut place = loop {
            if let Some(place) = self.without_name(at)? {
                break place;
            }
            let state = self.shared.lock();
            let record = state.table.get(at)?;
            missing.push((at, record.identity.clone(), record.name.clone()));
            at = record.parent;
            if missing.len() > DEEPEST {
                return Err(Errno::STALE);
            }
        };
        let mut mount = self.mount_of(at)?;
        for (inode, identity, name) in missing.into_iter().rev() {
            let found = self.find_place(&place, mount, &name).map_err(|errno| match errno {
                Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV => Errno::STALE,
                other => other,
            })?;
            if !self.identity(&found.place, &found.stat, found.mount).same(&identity) {
                return Err(Errno::STALE);
            }
            mount = found.mount;
            place = Arc::new(found.place);
            self.keep(inode, Arc::clone(&place));
        }
        Ok(place)
    }

    /// Returns the open place of an inode, or opens one by handle.
    fn without_name(&self, inode: InodeId) -> Result<Option<PathFd>> {
        let mut state = self.shared.lock();
        if let Some(place) = state.descriptors.get(inode) {
            return Ok(Some(place));
        }
        let identity = &state.table.get(inode)?.identity;
        let (Some(handle), mount) = (identity.handle.full(), identity.mount) else {
            return Ok(None);
        };
        let Some(mount) = state.mounts.opened(mount) else { return Ok(None) };
        drop(state);
        // Some file systems can open their handles for a limited time only; then the name may do.
        let Ok(place) =
            self.or_with_fewer_descriptors(|| open_by_handle(mount.as_fd(), &handle, PLACE))
        else {
            return Ok(None);
        };
        let place = Arc::new(place);
        self.keep(inode, Arc::clone(&place));
        Ok(Some(place))
    }

    /// Keeps a place in the cache.
    pub(super) fn keep(&self, inode: InodeId, place: PathFd) {
        let mut state = self.shared.lock();
        let unused = if state.table.get(inode).is_ok() {
            state.descriptors.keep(inode, place)
        } else {
            Some(place)
        };
        drop(state);
        drop(unused);
    }

    /// Looks one name up in an open directory.
    ///
    /// # Errors
    /// Those of `open(2)` and of [`attributes_of_contents`].
    pub(super) fn find(&self, directory: &OwnedFd, mount: u32, name: &OsStr) -> Result<FoundName> {
        let found = self.find_place(directory, mount, name)?;
        let stat = attributes_of_contents(&found.place, found.stat)?;
        Ok(FoundName { stat, ..found })
    }

    /// As [`Names::find`], but without access to the file's contents: the attributes of a striped
    /// file are those of its descriptor.
    pub(super) fn find_place(
        &self,
        directory: &OwnedFd,
        mount: u32,
        name: &OsStr,
    ) -> Result<FoundName> {
        let (place, mount) =
            self.or_with_fewer_descriptors(|| match in_mount(directory, name) {
                Ok(place) => Ok((place, mount)),
                // The name is a mount point, or the kernel is older than 5.6.
                Err(Errno::XDEV | Errno::NOSYS) => self.cross(directory, mount, name),
                Err(errno) => Err(errno),
            })?;
        let stat = fstat(&place)?;
        Ok(FoundName { place, stat, mount })
    }

    /// Enters the mount at `name`, and returns its root. Exceptions are the mount that we serve
    /// and, if the server acts as its callers, a file system of the kernel's own: for these,
    /// returns the covered directory.
    fn cross(&self, directory: &OwnedFd, mount: u32, name: &OsStr) -> Result<(OwnedFd, u32)> {
        let place = openat(directory, name, PLACE, Mode::empty())?;
        let id = mount_of(&place)?;
        let own = self.own_device.load(Ordering::Relaxed);
        if own != 0 && id.1 == own {
            return Ok((covered(directory, name)?, mount));
        }
        let state = self.shared.lock();
        let (ready, no_handles) = (state.mounts.ready(id), state.mounts.no_handles);
        drop(state);
        let index = match ready {
            Some(index) => index,
            None => {
                // Without the lock: the file system may be slow, or be served by this process.
                let found = Mount::of(&place, &self.process, no_handles)?;
                self.shared.lock().mounts.put(found)
            }
        };
        if self.callers.is_some() && self.shared.lock().mounts.is_of_the_kernel(index) {
            return Ok((covered(directory, name)?, mount));
        }
        // Determined each time, because the mount may be remounted with other flags.
        let below = Forbidden::by_mount_of(&place);
        let forbidden =
            if below.is_nothing() { below } else { below.beyond(self.forbidden_here()) };
        self.shared.lock().mounts.forbid(index, forbidden);
        Ok((place, index))
    }

    /// Returns the restrictions of the dio mount, through which the source is seen. Until
    /// [`Names::served_by`] is called, these are the restrictions of the source's mount, which the
    /// dio mount always inherits.
    fn forbidden_here(&self) -> Forbidden {
        match self.forbidden_by_own.get() {
            Some(ask) => ask.0(),
            None => self
                .shared
                .lock()
                .descriptors
                .get(ROOT)
                .map_or(Forbidden::NOTHING, Forbidden::by_mount_of),
        }
    }

    /// Returns the identity of an inode.
    pub(super) fn identity(&self, place: &OwnedFd, stat: &Stat, mount: u32) -> InodeIdentity {
        let mut state = self.shared.lock();
        let (key, has_handles) = (state.mounts.key(stat, mount), state.mounts.has_handles(mount));
        drop(state);
        let handle = if has_handles { handle(place) } else { Handle::None };
        InodeIdentity { key, handle, kind: FileType::from_raw_mode(stat.st_mode), mount }
    }

    /// Reopens a place, without flags for creation.
    pub(super) fn reopen_place(&self, place: &OwnedFd, flags: OFlags) -> Result<OwnedFd> {
        let left_out = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::NOCTTY;
        reopen(&self.process, place, flags.difference(left_out))
    }

    /// Makes an attempt. If the process has no free descriptors, closes some cached ones and tries
    /// once more.
    pub(super) fn or_with_fewer_descriptors<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        match attempt() {
            Err(Errno::MFILE | Errno::NFILE) => {
                let unused = self.shared.lock().descriptors.halve();
                drop(unused);
                attempt()
            }
            other => other,
        }
    }

    /// Returns the inode number of the root in the source.
    pub(super) fn root_number(&self) -> u64 {
        self.shared.lock().table.get(ROOT).map_or(0, |root| root.identity.key.number)
    }
}

/// Opens a name without entering a mount at it.
fn in_mount(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd> {
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    openat2(directory, name, PLACE, Mode::empty(), rules)
}

/// Opens the directory that a mount at `name` covers, through a copy of the directory's mount that
/// contains no other mounts.
///
/// # Errors
/// `ELOOP` if the copy cannot be made, which needs CAP_SYS_ADMIN.
/// `ELOOP` if that cannot be had, which needs CAP_SYS_ADMIN.
fn covered(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    let copy = open_tree(directory, c"", flags).map_err(|_| Errno::LOOP)?;
    in_mount(&copy, name)
}
