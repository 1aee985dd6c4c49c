//! The mounts where inodes are found: which file systems they hold, whether handles can be opened
//! in them, and what they forbid.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use dio_sys::{handle_of, open_by_handle};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, StatxFlags, fstat, fstatfs, makedev, open, openat, statx,
};
use rustix::io::{Errno, Result};
use rustix::path::DecInt;

use super::forbidden::Forbidden;
use super::inodes::{Handle, Identity, Key, shown};

/// How places are opened.
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// `TMPFS_MAGIC` of `include/uapi/linux/magic.h`.
pub(super) const TMPFS: u32 = 0x0102_1994;

/// File systems whose directories have times by the clock of this machine: ext2 to ext4, xfs,
/// btrfs, tmpfs, f2fs, bcachefs and zfs (`statfs(2)`, `f_type`).
const OWN: [u32; 7] = [0xef53, 0x5846_5342, 0x9123_683e, TMPFS, 0xf2f5_2010, 0xca45_1a4e, 0x2fc1_2fc1];

/// The mounts where inodes were found.
#[derive(Debug)]
pub(super) struct Mounts {
    /// The first is that of the source.
    list: Vec<Mount>,
    /// `st_dev` of every file system; the first is that of the source.
    devices: Vec<u64>,
    pub(super) no_handles: bool,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Mount {
    /// `stx_mnt_id` and device of its root: an identifier may be used again when its mount is gone.
    id: (u64, u64),
    /// Where its handles are opened. Of mounts below the source it is given up when it was not used
    /// for a while, since they cannot be unmounted while it is open.
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
    pub(super) fn ready(&self, id: (u64, u64)) -> Option<u32> {
        let at = self.list.iter().position(|mount| mount.id == id)?;
        let mount = &self.list[at];
        (mount.opened.is_some() || mount.handles != Handles::Opened).then_some(at as u32)
    }

    /// See [`is_of_the_kernel`].
    pub(super) fn is_of_the_kernel(&self, mount: u32) -> bool {
        self.list.get(mount as usize).is_some_and(|mount| mount.of_the_kernel)
    }

    /// What the mount of an inode forbids and that of dio does not.
    pub(super) fn forbidden(&self, mount: u32) -> Forbidden {
        self.list.get(mount as usize).map_or(Forbidden::NOTHING, |mount| mount.forbidden)
    }

    pub(super) fn forbid(&mut self, mount: u32, forbidden: Forbidden) {
        if let Some(mount) = self.list.get_mut(mount as usize) {
            mount.forbidden = forbidden;
        }
    }

    /// Makes attributes those that the mount of dio shows: with a number that is unique in it, and
    /// without what is forbidden where the inode was found.
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

    pub(super) fn has_handles(&self, mount: u32) -> bool {
        self.list.get(mount as usize).is_some_and(|mount| mount.handles != Handles::Absent)
    }

    /// Whether the times of directories tell of every change in them, as on file systems of this
    /// machine's own. Those of others have other clocks, and what there is in `/proc` has times
    /// that mean nothing.
    pub(super) fn tells_changes(&self, mount: u32) -> bool {
        self.list.get(mount as usize).is_some_and(|mount| mount.tells_changes)
    }

    /// Where handles of a mount are opened, if they can be now.
    pub(super) fn opened(&mut self, mount: u32) -> Option<Arc<OwnedFd>> {
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
    /// The mount of a place, its root or whatever was found there first: tries whether that can be
    /// had by its handle.
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

/// Identifier of the mount and device of a place, without asking the file system: it may be our
/// own.
pub(super) fn mount_of(place: &OwnedFd) -> Result<(u64, u64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = statx(place, c"", flags, StatxFlags::MNT_ID)?;
    let device = makedev(found.stx_dev_major, found.stx_dev_minor);
    let known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
    Ok((if known { found.stx_mnt_id } else { device }, device))
}

/// Opens a place anew, by way of `/proc/self/fd`.
pub(super) fn reopen(process: &OwnedFd, place: &OwnedFd, flags: OFlags) -> Result<OwnedFd> {
    openat(process, DecInt::from_fd(place), flags | OFlags::CLOEXEC, Mode::empty())
}

/// The handle of a place, if its file system has one for it.
pub(super) fn handle(place: &OwnedFd) -> Handle {
    handle_of(place.as_fd()).map_or(Handle::None, Handle::from)
}

/// `/proc/self/fd` of this process.
pub(super) fn own_descriptors() -> Result<OwnedFd> {
    let directory = open(c"/proc/self/fd", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    if fstatfs(&directory)?.f_type != PROC_SUPER_MAGIC { Err(Errno::NOENT) } else { Ok(directory) }
}
