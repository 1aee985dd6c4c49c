//! The mounts that contain the inodes: their file systems, whether handles can be opened in them,
//! and their restrictions.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use dio_sys::{handle_of, open_by_handle};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, StatxFlags, fstat, fstatfs, makedev,
    open, openat, statx,
};
use rustix::io::{Errno, Result};
use rustix::path::DecInt;

use super::forbidden::Forbidden;
use super::inodes::{Handle, InodeIdentity, InodeKey, shown};

/// The flags with which `O_PATH` descriptors are opened.
pub(super) const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// `TMPFS_MAGIC` of `include/uapi/linux/magic.h`.
pub(super) const TMPFS: u32 = 0x0102_1994;

/// File systems whose directory times come from this machine's clock: ext2 to ext4, xfs, btrfs,
/// tmpfs, f2fs, bcachefs and zfs (`statfs(2)`, `f_type`).
const OWN: [u32; 7] =
    [0xef53, 0x5846_5342, 0x9123_683e, TMPFS, 0xf2f5_2010, 0xca45_1a4e, 0x2fc1_2fc1];

/// The mounts that contain inodes of the tree.
#[derive(Debug)]
pub(super) struct Mounts {
    /// The first is the mount of the source.
    list: Vec<Mount>,
    /// `st_dev` of every file system; the first is that of the source.
    devices: Vec<u64>,
    pub(super) no_handles: bool,
}

/// A mount that contains inodes of the tree.
#[derive(Debug)]
pub(super) struct Mount {
    /// `stx_mnt_id` and device of the root: an identifier may be reused after its mount is gone.
    id: (u64, u64),
    /// A descriptor in this mount, with which handles are opened. For mounts below the source it is
    /// closed after a time without use, since an open descriptor keeps a mount from being
    /// unmounted.
    opened: Option<Arc<OwnedFd>>,
    /// Whether it was used since the last [`Mounts::rest`].
    used: bool,
    handles: Handles,
    /// See [`Mounts::tells_changes`].
    tells_changes: bool,
    /// See [`is_of_the_kernel`].
    of_the_kernel: bool,
    /// The restrictions that the dio mount does not have.
    forbidden: Forbidden,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Handles {
    /// The file system has no handles.
    Absent,
    /// Handles distinguish inodes, but this process may not open them.
    Known,
    /// Handles are opened.
    Opened,
}

impl Mounts {
    pub(super) fn new(no_handles: bool) -> Mounts {
        Mounts { list: Vec::new(), devices: Vec::new(), no_handles }
    }

    /// Returns the index of a mount that has all the descriptors it needs.
    pub(super) fn ready(&self, id: (u64, u64)) -> Option<u32> {
        let at = self.list.iter().position(|mount| mount.id == id)?;
        let mount = &self.list[at];
        (mount.opened.is_some() || mount.handles != Handles::Opened).then_some(at as u32)
    }

    /// See [`is_of_the_kernel`].
    pub(super) fn is_of_the_kernel(&self, mount: u32) -> bool {
        self.list.get(mount as usize).is_some_and(|mount| mount.of_the_kernel)
    }

    /// Returns the restrictions of an inode's mount that the dio mount does not have.
    pub(super) fn forbidden(&self, mount: u32) -> Forbidden {
        self.list.get(mount as usize).map_or(Forbidden::NOTHING, |mount| mount.forbidden)
    }

    pub(super) fn forbid(&mut self, mount: u32, forbidden: Forbidden) {
        if let Some(mount) = self.list.get_mut(mount as usize) {
            mount.forbidden = forbidden;
        }
    }

    /// Changes attributes to those that the dio mount shows: with an inode number that is unique in
    /// it, and without what the inode's mount forbids.
    pub(super) fn show(&mut self, stat: &mut Stat, mount: u32) {
        stat.st_ino = shown(self.device(stat.st_dev), stat.st_ino);
        self.forbidden(mount).hide(stat);
    }

    /// Adds a mount, or replaces the entry with the same identifier; returns its index.
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

    /// Whether handles of a mount can be opened.
    pub(super) fn opens_handles(&self, mount: u32) -> bool {
        self.list.get(mount as usize).is_some_and(|mount| mount.handles == Handles::Opened)
    }

    pub(super) fn has_handles(&self, mount: u32) -> bool {
        self.list.get(mount as usize).is_some_and(|mount| mount.handles != Handles::Absent)
    }

    /// Whether the times of directories change at every change of their contents. That holds for
    /// local file systems. Network file systems have other clocks, and times in `/proc` mean
    /// nothing.
    pub(super) fn tells_changes(&self, mount: u32) -> bool {
        self.list.get(mount as usize).is_some_and(|mount| mount.tells_changes)
    }

    /// Returns the descriptor with which handles of a mount are opened, if there is one now.
    pub(super) fn opened(&mut self, mount: u32) -> Option<Arc<OwnedFd>> {
        let mount =
            self.list.get_mut(mount as usize).filter(|mount| mount.handles == Handles::Opened)?;
        mount.used = true;
        mount.opened.clone()
    }

    /// Returns the key of an inode with these attributes.
    pub(super) fn key(&mut self, stat: &Stat, mount: u32) -> InodeKey {
        let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let device = self.device(stat.st_dev);
        InodeKey { device, mount: if directory { mount } else { 0 }, number: stat.st_ino }
    }

    /// Returns the index of a file system, which is added if it is new.
    pub(super) fn device(&mut self, device: u64) -> u32 {
        let known = self.devices.iter().position(|known| *known == device);
        known.unwrap_or_else(|| {
            self.devices.push(device);
            self.devices.len() - 1
        }) as u32
    }

    /// Returns the identity of an inode.
    pub(super) fn identity(&mut self, place: &OwnedFd, stat: &Stat, mount: u32) -> InodeIdentity {
        let handle = if self.has_handles(mount) { handle(place) } else { Handle::None };
        InodeIdentity {
            key: self.key(stat, mount),
            handle,
            kind: FileType::from_raw_mode(stat.st_mode),
            mount,
        }
    }

    /// Removes and returns the descriptors that were not used since the last call, of all mounts
    /// but the first.
    pub(super) fn rest(&mut self) -> Vec<Arc<OwnedFd>> {
        let unused = |mount: &mut Mount| {
            if std::mem::take(&mut mount.used) { None } else { mount.opened.take() }
        };
        self.list.iter_mut().skip(1).filter_map(unused).collect()
    }
}

impl Mount {
    /// Describes the mount of `place`, which is its root or the first inode that was found there.
    /// Tries whether `place` can be opened by its handle.
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
        // `open_by_handle_at(2)` does not accept an `O_PATH` descriptor for the mount.
        let Ok(opened) = reopen(process, place, OFlags::RDONLY | OFlags::NONBLOCK) else {
            return Ok(mount);
        };
        if open_by_handle(opened.as_fd(), &handle, PLACE).is_ok() {
            mount.handles = Handles::Opened;
            mount.opened = Some(Arc::new(opened));
        }
        Ok(mount)
    }
}

/// Returns the mount identifier and the device of an inode, without a request to its file system,
/// which may be the dio mount itself.
pub(super) fn mount_of(place: &OwnedFd) -> Result<(u64, u64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = statx(place, c"", flags, StatxFlags::MNT_ID)?;
    let device = makedev(found.stx_dev_major, found.stx_dev_minor);
    let known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
    Ok((if known { found.stx_mnt_id } else { device }, device))
}

/// Reopens an `O_PATH` descriptor, through `/proc/self/fd`.
pub(super) fn reopen(process: &OwnedFd, place: &OwnedFd, flags: OFlags) -> Result<OwnedFd> {
    openat(process, DecInt::from_fd(place), flags | OFlags::CLOEXEC, Mode::empty())
}

/// Returns the handle of an inode, if its file system has one.
pub(super) fn handle(place: &OwnedFd) -> Handle {
    handle_of(place.as_fd()).map_or(Handle::None, Handle::from)
}

/// Opens `/proc/self/fd` of this process.
pub(super) fn own_descriptors() -> Result<OwnedFd> {
    let directory =
        open(c"/proc/self/fd", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    if fstatfs(&directory)?.f_type != PROC_SUPER_MAGIC { Err(Errno::NOENT) } else { Ok(directory) }
}
