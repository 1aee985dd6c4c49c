//! Parts of the source that a mount has put at or below the target. They are not below the source
//! by the names that lead to them, but what is written there changes the source.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use dio::geometry::Mount;
use dio::names::FileId;
use dio_sys::fd_path;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, StatxFlags, openat, statat, statx};

use super::dirs::Operand;
use super::error::{CopyError, ErrorContext, FailedOperation};

/// Where a directory is within its file system, whatever is mounted.
#[derive(Debug, PartialEq, Eq)]
struct Location {
    device: (u32, u32),
    path: PathBuf,
}

impl Location {
    /// `None` if the kernel does not tell.
    fn of(dir: impl AsFd) -> Option<Location> {
        let mount = Mount::of(&dir)?;
        let path = std::fs::read_link(fd_path(&dir)).ok()?;
        let below = path.strip_prefix(&mount.point).ok()?;
        Some(Location { device: mount.device, path: mount.root.join(below) })
    }

    fn is_within(&self, other: &Location) -> bool {
        self.device == other.device && self.path.starts_with(&other.path)
    }
}

impl Operand {
    /// Returns device and inode of the source.
    fn source_root(&self) -> Result<FileId, CopyError> {
        if let Some(known) = self.source_root.get() {
            return Ok(*known);
        }
        // Another process has met it.
        let stat = statat(CWD, &self.source, AtFlags::empty());
        let stat = stat.at(FailedOperation::Stat, || self.source.clone())?;
        Ok(*self.source_root.get_or_init(|| FileId::of(&stat)))
    }

    /// Returns whether the directory `name` of the target directory `above`, whose attributes are
    /// `found`, is the source, or a part of it that a mount has put there. `above` was examined
    /// before.
    ///
    /// # Errors
    /// The source cannot be examined any more.
    pub(super) fn is_mounted_at(
        &self,
        (above, name): (impl AsFd, &CStr),
        found: &Stat,
    ) -> Result<bool, CopyError> {
        let (source, found) = (self.source_root()?, FileId::of(found));
        if source == found || source.device() != found.device() {
            return Ok(source == found);
        }
        match open(&above, name) {
            Some(dir) if !is_same_mount(&above, &dir) => self.holds(dir),
            _ => Ok(false),
        }
    }

    /// Returns whether the directory `name` of `above`, which is the target of the operand, is a
    /// part of the source by another name.
    ///
    /// # Errors
    /// The source cannot be examined any more.
    pub(super) fn holds_target(
        &self,
        (above, name): (impl AsFd, &CStr),
        found: &Stat,
    ) -> Result<bool, CopyError> {
        let (source, found) = (self.source_root()?, FileId::of(found));
        if source == found || source.device() != found.device() {
            // That they are the same is another error.
            return Ok(false);
        }
        open(&above, name).map_or(Ok(false), |dir| self.holds(dir))
    }

    fn holds(&self, dir: impl AsFd) -> Result<bool, CopyError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let source = openat(CWD, &self.source, flags, Mode::empty())
            .at(FailedOperation::Access, || self.source.clone())?;
        let both = Location::of(dir).zip(Location::of(source));
        Ok(both.is_some_and(|(dir, source)| dir.is_within(&source)))
    }
}

/// Opens a directory. What cannot be opened is not written to either.
fn open(above: impl AsFd, name: &CStr) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(above, name, flags, Mode::empty()).ok()
}

/// Returns whether two open directories were reached through the same mount.
fn is_same_mount(one: impl AsFd, other: impl AsFd) -> bool {
    fn mount(dir: impl AsFd) -> Option<u64> {
        let found = statx(dir, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
        (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
    }
    mount(one) == mount(other)
}
