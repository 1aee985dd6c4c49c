//! Opens objects that this process has just created. Another user who may rename in the directory
//! can replace them, so owner, mode, times and attributes are set through the descriptor, and only
//! on an object that this process may have created itself.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use dio::geometry::FileSystem;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;

/// File systems on which a new file belongs to its creator. Others (network file systems, FUSE) may
/// assign another owner.
const OWNED_BY_MAKER: [&str; 11] = [
    "ext2/ext3/ext4",
    "xfs",
    "btrfs",
    "tmpfs",
    "ramfs",
    "overlayfs",
    "f2fs",
    "bcachefs",
    "zfs",
    "jfs",
    "nilfs2",
];

/// A FIFO, socket, device or symbolic link, as it was created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Special<'a> {
    pub(crate) kind: FileType,
    /// The device number.
    pub(crate) device: u64,
    /// The target of a symbolic link.
    pub(crate) link: Option<&'a CStr>,
}

impl Special<'_> {
    /// Opens the object that was created as `name` in `dir`, with `O_PATH`.
    ///
    /// # Errors
    /// `ESTALE` for an object that is not as it was created; errors of `open(2)`.
    pub(crate) fn open(&self, dir: BorrowedFd<'_>, name: &CStr) -> Result<(OwnedFd, Stat), Errno> {
        let place =
            openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&place)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let device = matches!(kind, FileType::CharacterDevice | FileType::BlockDevice);
        let numbers = !device || stat.st_rdev == self.device;
        if kind != self.kind || stat.st_nlink > 1 || !numbers || !may_be_ours(place.as_fd(), &stat)
        {
            return Err(Errno::STALE);
        }
        match self.link {
            Some(link) if *readlinkat(&place, c"", Vec::new())? != *link => Err(Errno::STALE),
            _ => Ok((place, stat)),
        }
    }
}

/// Returns whether this process may have created an open file.
pub(crate) fn may_be_ours(fd: BorrowedFd<'_>, stat: &Stat) -> bool {
    let maker_owns = || {
        FileSystem::of(fd)
            .is_ok_and(|found| found.name().is_some_and(|n| OWNED_BY_MAKER.contains(&n)))
    };
    stat.st_uid == rustix::process::geteuid().as_raw() || !maker_owns()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{mkfifoat, open};

    use super::*;

    #[test]
    fn what_was_put_in_the_place_of_something_new_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        let dir = open(scratch.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let fifo = Special { kind: FileType::Fifo, device: 0, link: None };
        mkfifoat(&dir, "fifo", Mode::RUSR).unwrap();
        assert!(fifo.open(dir.as_fd(), c"fifo").is_ok());
        std::fs::hard_link(path("fifo"), path("second")).unwrap();
        assert_eq!(
            fifo.open(dir.as_fd(), c"fifo").unwrap_err(),
            Errno::STALE,
            "it has another name"
        );
        std::fs::write(path("file"), "x").unwrap();
        symlink("file", path("link")).unwrap();
        for name in [c"file", c"link"] {
            assert_eq!(fifo.open(dir.as_fd(), name).unwrap_err(), Errno::STALE, "{name:?}");
        }
        let link = |to| Special { kind: FileType::Symlink, device: 0, link: Some(to) };
        assert!(link(c"file").open(dir.as_fd(), c"link").is_ok());
        assert_eq!(link(c"other").open(dir.as_fd(), c"link").unwrap_err(), Errno::STALE);
        assert_eq!(link(c"file").open(dir.as_fd(), c"file").unwrap_err(), Errno::STALE);
    }
}
