//! From a name or a number to a descriptor.
//!
//! A descriptor opened with `O_PATH` (a *place*) serves for everything that is done to an inode and
//! does nothing to it. That of an inode without one is opened by its handle or, where the server
//! may not do that, by its last name in its last directory, and must then be the same inode.

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

use super::descriptors::Place;
use super::forbidden::Forbidden;
use super::inodes::{Handle, Identity};
use super::mounts::{Mount, PLACE, handle, mount_of, reopen};
use super::{InodeId, Names, ROOT};

/// A path in the source that is longer is taken for a circle; `PATH_MAX` allows half of it.
const DEEPEST: usize = 1 << 16;

/// What a name led to.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) place: OwnedFd,
    pub(super) stat: Stat,
    /// Index of the mount.
    pub(super) mount: u32,
}

/// The attributes of what is in a file, from those of its place.
///
/// # Errors
/// `EAGAIN` if its owner holds a lease on what may be a striped file: its size is not known then.
/// If objects are missing, the attributes are those of the descriptor, and whoever opens the file
/// is told.
pub(super) fn attributes_of_contents(place: &OwnedFd, stat: Stat) -> Result<Stat> {
    match stat_of_contents(place, stat) {
        Err(Errno::AGAIN) => Err(Errno::AGAIN),
        other => Ok(other.map_or(stat, |(stat, _)| stat)),
    }
}

/// Only a single name is looked up, and never one that leads upwards.
///
/// # Errors
/// `EINVAL` for every other.
pub(super) fn check(name: &OsStr) -> Result<()> {
    match name.as_bytes() {
        b"" | b"." | b".." => Err(Errno::INVAL),
        bytes if bytes.contains(&b'/') || bytes.contains(&0) => Err(Errno::INVAL),
        _ => Ok(()),
    }
}

impl Names {
    /// A place of an inode.
    ///
    /// # Errors
    /// `ESTALE` if it is gone or cannot be found again.
    pub(super) fn descriptor(&self, inode: InodeId) -> Result<Place> {
        if let Some(place) = self.shared.lock().descriptors.get(inode) {
            return Ok(place);
        }
        loop {
            let renames = self.renames.load(Ordering::SeqCst);
            match self.find_again(inode) {
                // Perhaps by names that were being changed: what was moved is pinned, or has its
                // new name by now.
                Err(Errno::STALE) if self.renames.load(Ordering::SeqCst) != renames => {}
                other => return other,
            }
        }
    }

    /// The index of the mount where an inode was found.
    pub(super) fn mount_of(&self, inode: InodeId) -> Result<u32> {
        Ok(self.shared.lock().table.get(inode)?.identity.mount)
    }

    /// By handle, or by the names from the next inode above it of which there is a place.
    fn find_again(&self, inode: InodeId) -> Result<Place> {
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

    /// A place that is open, or one by handle.
    fn without_name(&self, inode: InodeId) -> Result<Option<Place>> {
        let mut state = self.shared.lock();
        if let Some(place) = state.descriptors.get(inode) {
            return Ok(Some(place));
        }
        let identity = &state.table.get(inode)?.identity;
        let (Some(handle), mount) = (identity.handle.full(), identity.mount) else { return Ok(None) };
        let Some(mount) = state.mounts.opened(mount) else { return Ok(None) };
        drop(state);
        // Some file systems know their handles for a while only; then the name may do.
        let Ok(place) = self.or_with_fewer_descriptors(|| open_by_handle(mount.as_fd(), &handle, PLACE)) else {
            return Ok(None);
        };
        let place = Arc::new(place);
        self.keep(inode, Arc::clone(&place));
        Ok(Some(place))
    }

    /// Keeps a place for later.
    pub(super) fn keep(&self, inode: InodeId, place: Place) {
        let mut state = self.shared.lock();
        let unused = if state.table.get(inode).is_ok() { state.descriptors.keep(inode, place) } else { Some(place) };
        drop(state);
        drop(unused);
    }

    /// Looks one name up in an open directory.
    ///
    /// # Errors
    /// Those of `open(2)` and of [`attributes_of_contents`].
    pub(super) fn find(&self, directory: &OwnedFd, mount: u32, name: &OsStr) -> Result<Found> {
        let found = self.find_place(directory, mount, name)?;
        let stat = attributes_of_contents(&found.place, found.stat)?;
        Ok(Found { stat, ..found })
    }

    /// As [`Names::find`], without looking into the file: of a striped file the attributes are
    /// those of the descriptor.
    pub(super) fn find_place(&self, directory: &OwnedFd, mount: u32, name: &OsStr) -> Result<Found> {
        let (place, mount) = self.or_with_fewer_descriptors(|| match in_mount(directory, name) {
            Ok(place) => Ok((place, mount)),
            // A mount point, or a kernel before 5.6.
            Err(Errno::XDEV | Errno::NOSYS) => self.cross(directory, mount, name),
            Err(errno) => Err(errno),
        })?;
        let stat = fstat(&place)?;
        Ok(Found { place, stat, mount })
    }

    /// Enters what is mounted at `name`, unless it is the mount that we serve, or, for others than
    /// the server's user, a file system of the kernel's own: what that covers is shown.
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
                // Without the lock: the file system may take its time, or be served by us.
                let found = Mount::of(&place, &self.process, no_handles)?;
                self.shared.lock().mounts.put(found)
            }
        };
        if self.callers.is_some() && self.shared.lock().mounts.is_of_the_kernel(index) {
            return Ok((covered(directory, name)?, mount));
        }
        // Asked each time: it may be mounted anew with other flags.
        let below = Forbidden::by_mount_of(&place);
        let forbidden = if below.is_nothing() { below } else { below.beyond(self.forbidden_here()) };
        self.shared.lock().mounts.forbid(index, forbidden);
        Ok((place, index))
    }

    /// What the mount of dio forbids, through which the source is seen. While nobody has said how
    /// to find out, it is what the mount of the source forbids: so much is always passed on.
    fn forbidden_here(&self) -> Forbidden {
        match self.forbidden_by_own.get() {
            Some(ask) => ask.0(),
            None => self.shared.lock().descriptors.get(ROOT).map_or(Forbidden::NOTHING, Forbidden::by_mount_of),
        }
    }

    /// Who a place is.
    pub(super) fn identity(&self, place: &OwnedFd, stat: &Stat, mount: u32) -> Identity {
        let mut state = self.shared.lock();
        let (key, has_handles) = (state.mounts.key(stat, mount), state.mounts.has_handles(mount));
        drop(state);
        let handle = if has_handles { handle(place) } else { Handle::None };
        Identity { key, handle, kind: FileType::from_raw_mode(stat.st_mode), mount }
    }

    /// Opens a place anew.
    pub(super) fn reopen_place(&self, place: &OwnedFd, flags: OFlags) -> Result<OwnedFd> {
        let left_out = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::NOCTTY;
        reopen(&self.process, place, flags.difference(left_out))
    }

    /// When the process has no more descriptors, some places are given up and it is tried once
    /// more.
    pub(super) fn or_with_fewer_descriptors<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        match attempt() {
            Err(Errno::MFILE | Errno::NFILE) => {
                let unused = self.shared.lock().descriptors.halve();
                drop(unused);
                attempt()
            }
            other => other,
        }
    }

    /// Whether the inode of the root is meant.
    pub(super) fn root_number(&self) -> u64 {
        self.shared.lock().table.get(ROOT).map_or(0, |root| root.identity.key.number)
    }
}

/// Opens a name without entering what is mounted there.
fn in_mount(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd> {
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    openat2(directory, name, PLACE, Mode::empty(), rules)
}

/// What is covered by a mount at `name`: it is seen in a copy of the mount of the directory that
/// has no others in it.
///
/// # Errors
/// `ELOOP` if that cannot be had, which needs CAP_SYS_ADMIN.
fn covered(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let copy = open_tree(directory, c"", flags).map_err(|_| Errno::LOOP)?;
    in_mount(&copy, name)
}
