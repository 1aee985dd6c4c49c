//! Opens a directory that this process has just made (for other files, see [`crate::tool::made`]).

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use dio::credentials::is_trusted;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::durable::parent_of;
use super::metadata::{Object, set_mode};
use crate::tool::made::may_be_ours;

/// Bytes for the entries of an empty directory, which are `.` and `..`.
const SHORT_LISTING: usize = 1 << 10;

/// Opens the directory that was made as `name` in `dir`. If the umask denies access to its owner,
/// the directory's mode is changed to 0700 first; the returned attributes have the original mode.
///
/// # Errors
/// `ESTALE` for a directory that is not as it was made; errors of `open(2)`.
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
    // A new directory is not a mount point.
    let made_here = stat.st_dev == above.st_dev && may_be_ours(fd.as_fd(), &stat);
    if !made_here || (others_may_rename_in(&above) && !is_empty(&fd)?) {
        return Err(Errno::STALE);
    }
    stat.st_mode = mode.unwrap_or(stat.st_mode);
    Ok((fd, stat))
}

/// Returns whether users whom this process does not trust may rename what it creates in a
/// directory.
fn others_may_rename_in(dir: &Stat) -> bool {
    !is_trusted(dir.st_uid) || (dir.st_mode & 0o022 != 0 && dir.st_mode & 0o1000 == 0)
}

pub(super) fn is_empty(dir: &OwnedFd) -> Result<bool, Errno> {
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

    use rustix::fs::{mkdirat, open};

    use super::*;

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
        assert_eq!(
            open_directory(dir.as_fd(), c"new").unwrap_err(),
            Errno::STALE,
            "it is not empty"
        );
        if rustix::process::geteuid().is_root() {
            std::fs::create_dir(scratch.path().join("theirs")).unwrap();
            std::os::unix::fs::chown(scratch.path().join("theirs"), Some(65_534), None).unwrap();
            assert_eq!(open_directory(dir.as_fd(), c"theirs").unwrap_err(), Errno::STALE);
        }
    }
}
