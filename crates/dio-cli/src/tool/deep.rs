//! Opens directories whose paths may be longer than the kernel accepts in one call.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

/// The longest path that the kernel accepts, with its NUL (`PATH_MAX`).
pub(crate) const LONGEST: usize = 4096;

/// Opens the directory `path` in `root` with `flags`, in as many steps as its length needs.
///
/// # Errors
/// Errors of `openat(2)`.
pub(crate) fn open_in_steps(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir: Option<OwnedFd> = None;
    let mut rest = path;
    loop {
        let within = dir.as_ref().map_or(root, AsFd::as_fd);
        if rest.len() < LONGEST {
            return openat(within, OsStr::from_bytes(rest), flags, Mode::empty());
        }
        let step =
            rest[..LONGEST - 1].iter().rposition(|byte| *byte == b'/').ok_or(Errno::NAMETOOLONG)?;
        let next = OsStr::from_bytes(&rest[..step]);
        let next = openat(
            within,
            next,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        rest = &rest[step + 1..];
        dir = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, fstat, mkdirat, open};

    use super::*;

    #[test]
    fn a_path_of_more_bytes_than_the_system_takes_is_opened() {
        let scratch = tempfile::tempdir().unwrap();
        let root = open(scratch.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let name = "n".repeat(250);
        let mut deepest =
            open(scratch.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..40 {
            mkdirat(&deepest, &*name, Mode::RWXU).unwrap();
            deepest =
                openat(&deepest, &*name, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        let path = vec![name; 40].join("/");
        let found = open_in_steps(root.as_fd(), path.as_bytes(), OFlags::RDONLY).unwrap();
        assert_eq!(fstat(&found).unwrap().st_ino, fstat(&deepest).unwrap().st_ino);
        let absent = format!("{path}/none");
        assert_eq!(open_in_steps(CWD, absent.as_bytes(), OFlags::PATH).unwrap_err(), Errno::NOENT);
    }
}
