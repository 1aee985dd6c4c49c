//! From a name or a number to a descriptor.
//!
//! A descriptor opened with `O_PATH` (a *place*) serves for everything that is done to an inode and does nothing to it.
//! That of an inode without one is opened by its handle or, where the server may not do that, by its last name in its
//! last directory, and must then be the same inode.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dio::names::stat_of_contents;
use dio_sys::{handle_of, open_by_handle};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, Stat, StatxFlags, fstat, fstatfs, makedev, open,
    openat, openat2, statx,
};
use rustix::io::{Errno, Result};
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::path::DecInt;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::descriptors::Place;
use super::forbidden::Forbidden;
use super::inodes::{Handle, Identity, Key};
use super::{InodeId, Names, ROOT};

/// How places are opened.
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A path in the source that is longer is taken for a circle; `PATH_MAX` allows half of it.
const DEEPEST: usize = 1 << 16;

/// Bits of `st_ino` below the index of the file system.
const NUMBER_BITS: u32 = 48;

/// `TMPFS_MAGIC` of `include/uapi/linux/magic.h`.
pub(super) const TMPFS: u32 = 0x0102_1994;

/// File systems whose directories have times by the clock of this machine: ext2 to ext4, xfs, btrfs, tmpfs, f2fs, bcachefs and
/// zfs (`statfs(2)`, `f_type`).
const OWN: [u32; 7] = [0xef53, 0x5846_5342, 0x9123_683e, TMPFS, 0xf2f5_2010, 0xca45_1a4e, 0x2fc1_2fc1];

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
/// `EAGAIN` if its owner holds a lease on what may be a striped file: its size is not known then. If
/// objects are missing, the attributes are those of the descriptor, and whoever opens the file is told.
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

/// `/proc/self/fd` of this process.
pub(super) fn own_descriptors() -> Result<OwnedFd> {
    let directory = open(c"/proc/self/fd", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    if fstatfs(&directory)?.f_type != PROC_SUPER_MAGIC { Err(Errno::NOENT) } else { Ok(directory) }
}

/// Raises the limit on descriptors as far as it may be raised, and returns it.
pub(super) fn raise_descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum {
        // Where this is refused, the old limit goes on to hold.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize)
}

/// The mounts where inodes were found.
#[derive(Debug)]
pub(super) struct Mounts {
    /// The first is that of the source.
    list: Vec<Mount>,
    /// `st_dev` of every file system; the first is that of the source.
    devices: Vec<u64>,
    no_handles: bool,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Mount {
    /// `stx_mnt_id` and device of its root: an identifier may be used again when its mount is gone.
    id: (u64, u64),
    /// Where its handles are opened. Of mounts below the source it is given up when it was not used for a while, since
    /// they cannot be unmounted while it is open.
    opened: Option<Arc<OwnedFd>>,
    /// Since [`Mounts::rest`] last came by.
    used: bool,
    handles: Handles,
    /// See [`Mounts::tells_changes`].
    tells_changes: bool,
    /// See [`is_of_the_kernel`].
    of_the_kernel: bool,
    /// What it forbids and the mount of dio does not.
    forbidden: Forbidden,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handles {
    /// The file system has none.
    Absent,
    /// They tell inodes apart, but this process may not open them.
    Known,
    /// They are opened.
    Opened,
}

impl Mounts {
    pub(super) fn new(no_handles: bool) -> Mounts {
        Mounts { list: Vec::new(), devices: Vec::new(), no_handles }
    }

    /// The index of a mount that needs no more to be opened.
    fn ready(&self, id: (u64, u64)) -> Option<u32> {
        let at = self.list.iter().position(|mount| mount.id == id)?;
        let mount = &self.list[at];
        (mount.opened.is_some() || mount.handles != Handles::Opened).then_some(at as u32)
    }

    /// See [`is_of_the_kernel`].
    fn is_of_the_kernel(&self, mount: u32) -> bool {
        self.list.get(mount as usize).is_some_and(|mount| mount.of_the_kernel)
    }

    /// What the mount of an inode forbids and that of dio does not.
    pub(super) fn forbidden(&self, mount: u32) -> Forbidden {
        self.list.get(mount as usize).map_or(Forbidden::NOTHING, |mount| mount.forbidden)
    }

    fn forbid(&mut self, mount: u32, forbidden: Forbidden) {
        if let Some(mount) = self.list.get_mut(mount as usize) {
            mount.forbidden = forbidden;
        }
    }

    /// Makes attributes those that the mount of dio shows: with a number that is unique in it, and without what is
    /// forbidden where the inode was found.
    pub(super) fn show(&mut self, stat: &mut Stat, mount: u32) {
        stat.st_ino = shown(self.device(stat.st_dev), stat.st_ino);
        self.forbidden(mount).hide(stat);
    }

    /// The index of a mount, which may have been there before.
    pub(super) fn put(&mut self, mount: Mount) -> u32 {
        match self.list.iter().position(|known| known.id == mount.id) {
            Some(at) => {
                self.list[at] = mount;
                at as u32
            }
            None => {
                self.list.push(mount);
                self.list.len() as u32 - 1
            }
        }
    }

    /// Whether the handles of a mount can be opened.
    pub(super) fn opens_handles(&self, mount: u32) -> bool {
        self.list.get(mount as usize).is_some_and(|mount| mount.handles == Handles::Opened)
    }

    fn has_handles(&self, mount: u32) -> bool {
        self.list.get(mount as usize).is_some_and(|mount| mount.handles != Handles::Absent)
    }

    /// Whether the times of directories tell of every change in them, as on file systems of this machine's own. Those of
    /// others have other clocks, and what there is in `/proc` has times that mean nothing.
    pub(super) fn tells_changes(&self, mount: u32) -> bool {
        self.list.get(mount as usize).is_some_and(|mount| mount.tells_changes)
    }

    /// Where handles of a mount are opened, if they can be now.
    fn opened(&mut self, mount: u32) -> Option<Arc<OwnedFd>> {
        let mount = self.list.get_mut(mount as usize).filter(|mount| mount.handles == Handles::Opened)?;
        mount.used = true;
        mount.opened.clone()
    }

    /// The key of what `fstat(2)` says.
    pub(super) fn key(&mut self, stat: &Stat, mount: u32) -> Key {
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let device = self.device(stat.st_dev);
        Key { device, mount: if directory { mount } else { 0 }, number: stat.st_ino }
    }

    /// The index of a file system.
    pub(super) fn device(&mut self, device: u64) -> u32 {
        let known = self.devices.iter().position(|known| *known == device);
        known.unwrap_or_else(|| {
            self.devices.push(device);
            self.devices.len() - 1
        }) as u32
    }

    /// Who a place is.
    pub(super) fn identity(&mut self, place: &OwnedFd, stat: &Stat, mount: u32) -> Identity {
        let handle = if self.has_handles(mount) { handle(place) } else { Handle::None };
        Identity { key: self.key(stat, mount), handle, kind: FileType::from_raw_mode(stat.st_mode), mount }
    }

    /// Gives up what was not used since this was last called, of all mounts but the first.
    pub(super) fn rest(&mut self) -> Vec<Arc<OwnedFd>> {
        let unused = |mount: &mut Mount| if std::mem::take(&mut mount.used) { None } else { mount.opened.take() };
        self.list.iter_mut().skip(1).filter_map(unused).collect()
    }
}

impl Mount {
    /// The mount of a place, its root or whatever was found there first: tries whether that can be had by its handle.
    pub(super) fn of(place: &OwnedFd, process: &OwnedFd, no_handles: bool) -> Result<Mount> {
        let tells_changes = fstatfs(place).is_ok_and(|fs| OWN.contains(&(fs.f_type as u32)));
        let id = mount_of(place)?;
        let of_the_kernel = dio::names::is_of_the_kernel(place);
        let mut mount = Mount {
            id,
            opened: None,
            used: true,
            handles: Handles::Absent,
            tells_changes,
            of_the_kernel,
            forbidden: Forbidden::NOTHING,
        };
        let Ok(handle) = handle_of(place.as_fd()) else { return Ok(mount) };
        mount.handles = Handles::Known;
        let kind = FileType::from_raw_mode(fstat(place)?.st_mode);
        if no_handles || !matches!(kind, FileType::Directory | FileType::RegularFile) {
            return Ok(mount);
        }
        // `open_by_handle_at(2)` takes no place here.
        let Ok(opened) = reopen(process, place, OFlags::RDONLY | OFlags::NONBLOCK) else { return Ok(mount) };
        if open_by_handle(opened.as_fd(), &handle, PLACE).is_ok() {
            mount.handles = Handles::Opened;
            mount.opened = Some(Arc::new(opened));
        }
        Ok(mount)
    }
}

/// Identifier of the mount and device of a place, without asking the file system: it may be our own.
fn mount_of(place: &OwnedFd) -> Result<(u64, u64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = statx(place, c"", flags, StatxFlags::MNT_ID)?;
    let device = makedev(found.stx_dev_major, found.stx_dev_minor);
    let known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
    Ok((if known { found.stx_mnt_id } else { device }, device))
}

/// Opens a place anew, by way of `/proc/self/fd`.
fn reopen(process: &OwnedFd, place: &OwnedFd, flags: OFlags) -> Result<OwnedFd> {
    openat(process, DecInt::from_fd(place), flags | OFlags::CLOEXEC, Mode::empty())
}

/// The handle of a place, if its file system has one for it.
fn handle(place: &OwnedFd) -> Handle {
    handle_of(place.as_fd()).map_or(Handle::None, Handle::from)
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
                // Perhaps by names that were being changed: what was moved is pinned, or has its new name by now.
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

    /// As [`Names::find`], without looking into the file: of a striped file the attributes are those of the descriptor.
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

    /// Enters what is mounted at `name`, unless it is the mount that we serve, or, for others than the server's user, a file
    /// system of the kernel's own: what that covers is shown.
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

    /// What the mount of dio forbids, through which the source is seen. While nobody has said how to find out, it is what
    /// the mount of the source forbids: so much is always passed on.
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

    /// When the process has no more descriptors, some places are given up and it is tried once more.
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

/// A number that is unique among all file systems of a mount.
pub(super) fn shown(device: u32, number: u64) -> u64 {
    number ^ (u64::from(device) << NUMBER_BITS)
}

/// Opens a name without entering what is mounted there.
fn in_mount(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd> {
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    openat2(directory, name, PLACE, Mode::empty(), rules)
}

/// What is covered by a mount at `name`: it is seen in a copy of the mount of the directory that has no others in it.
///
/// # Errors
/// `ELOOP` if that cannot be had, which needs CAP_SYS_ADMIN.
fn covered(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let copy = open_tree(directory, c"", flags).map_err(|_| Errno::LOOP)?;
    in_mount(&copy, name)
}
