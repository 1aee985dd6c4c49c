//! What this process made just now, opened. Whoever may rename in its directory puts nothing else in its place: owner,
//! mode and attributes are set through the descriptor, and of nothing that could be somebody else's.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use dio::credentials::is_trusted;
use dio::geometry::FileSystem;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::durable::parent_of;
use super::examine::kind;
use super::metadata::{Object, set_mode};

/// Bytes for the entries of a directory that should have none but itself and the one above.
const SHORT_LISTING: usize = 1 << 10;

/// File systems on which a new file belongs to whoever made it. Others (those of the network, FUSE) may say otherwise.
const OWNED_BY_MAKER: [&str; 11] =
    ["ext2/ext3/ext4", "xfs", "btrfs", "tmpfs", "ramfs", "overlayfs", "f2fs", "bcachefs", "zfs", "jfs", "nilfs2"];

/// A fifo, socket, device or symbolic link as it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Special<'a> {
    pub(super) kind: FileType,
    /// The number of a device.
    pub(super) device: u64,
    /// Where a symbolic link leads.
    pub(super) link: Option<&'a CStr>,
}

impl Special<'_> {
    /// Opens what was made as `name` in `dir`, as a place (`O_PATH`).
    ///
    /// # Errors
    /// `ESTALE` for anything that is not as it was made; those of `open(2)`.
    pub(super) fn open(&self, dir: BorrowedFd<'_>, name: &CStr) -> Result<(OwnedFd, Stat), Errno> {
        let place = openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&place)?;
        let device = matches!(self.kind, FileType::CharacterDevice | FileType::BlockDevice);
        let numbers = !device || stat.st_rdev == self.device;
        if kind(&stat) != self.kind || stat.st_nlink > 1 || !numbers || !may_be_ours(place.as_fd(), &stat) {
            return Err(Errno::STALE);
        }
        match self.link {
            Some(link) if *readlinkat(&place, c"", Vec::new())? != *link => Err(Errno::STALE),
            _ => Ok((place, stat)),
        }
    }
}

/// Opens the directory that was made as `name` in `dir`. If the umask kept its owner out, it is opened to its owner; then
/// the mode that it had before is there, too.
///
/// # Errors
/// `ESTALE` for a directory that is not as it was made; those of `open(2)`.
pub(super) fn open_directory(dir: BorrowedFd<'_>, name: &CStr) -> Result<(OwnedFd, Stat), Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (fd, mode) = match openat(dir, name, flags | OFlags::RDONLY, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let place = openat(dir, name, flags | OFlags::PATH, Mode::empty())?;
            let stat = fstat(&place)?;
            if !may_be_ours(place.as_fd(), &stat) {
                return Err(Errno::STALE);
            }
            set_mode(&Object::Place(place.as_fd()), 0o700)?;
            (openat(&place, c".", flags | OFlags::RDONLY, Mode::empty())?, Some(stat.st_mode))
        }
        opened => (opened?, None),
    };
    let mut stat = fstat(&fd)?;
    let above = statat(dir, parent_of(name.to_bytes()), AtFlags::empty())?;
    // Nothing is mounted on a new directory.
    let made_here = stat.st_dev == above.st_dev && may_be_ours(fd.as_fd(), &stat);
    if !made_here || (others_may_rename_in(&above) && !is_empty(&fd)?) {
        return Err(Errno::STALE);
    }
    stat.st_mode = mode.unwrap_or(stat.st_mode);
    Ok((fd, stat))
}

/// Whether this process may have made an open file.
fn may_be_ours(fd: BorrowedFd<'_>, stat: &Stat) -> bool {
    let maker_owns = || FileSystem::of(fd).is_ok_and(|found| found.name().is_some_and(|n| OWNED_BY_MAKER.contains(&n)));
    stat.st_uid == rustix::process::geteuid().as_raw() || !maker_owns()
}

/// Whether users whom this process does not trust may rename what it makes in a directory.
fn others_may_rename_in(dir: &Stat) -> bool {
    !is_trusted(dir.st_uid) || (dir.st_mode & 0o022 != 0 && dir.st_mode & 0o1000 == 0)
}

fn is_empty(dir: &OwnedFd) -> Result<bool, Errno> {
    let mut buffer: Vec<u8> = Vec::with_capacity(SHORT_LISTING);
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{mkdirat, mkfifoat, open};

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
        assert_eq!(fifo.open(dir.as_fd(), c"fifo").unwrap_err(), Errno::STALE, "it has another name");
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

    #[test]
    fn a_directory_in_the_place_of_a_new_one_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = open(scratch.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        mkdirat(&dir, "new", Mode::RWXU).unwrap();
        assert!(open_directory(dir.as_fd(), c"new").is_ok());
        symlink("new", scratch.path().join("link")).unwrap();
        assert!(open_directory(dir.as_fd(), c"link").is_err());
        std::fs::write(scratch.path().join("new/f"), "x").unwrap();
        assert!(open_directory(dir.as_fd(), c"new").is_ok(), "nobody else may rename here");
        rustix::fs::fchmod(&dir, Mode::from_bits_retain(0o777)).unwrap();
        assert_eq!(open_directory(dir.as_fd(), c"new").unwrap_err(), Errno::STALE, "it is not empty");
        if rustix::process::geteuid().is_root() {
            std::fs::create_dir(scratch.path().join("theirs")).unwrap();
            std::os::unix::fs::chown(scratch.path().join("theirs"), Some(65_534), None).unwrap();
            assert_eq!(open_directory(dir.as_fd(), c"theirs").unwrap_err(), Errno::STALE);
        }
    }
}
