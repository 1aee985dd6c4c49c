//! Files that nobody sees before they are complete.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use dio::stripe::calls::{self, path_in};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

/// Makes a file without a name in the directory `dir` (`O_TMPFILE`). Where the file system, or the kernel, has none such, or the
/// directory gives its files stripes, it is hidden by a name that is returned as well.
///
/// # Errors
/// What `open(2)` answers.
pub(crate) fn unnamed(dir: impl AsFd, flags: OFlags, mode: Mode) -> Result<(OwnedFd, Option<CString>), Errno> {
    let dir = dir.as_fd();
    let hidden = || {
        let name = temporary_name();
        let fd = calls::openat(dir, &*name, flags | OFlags::CREATE | OFlags::EXCL, mode);
        match fd {
            Ok(fd) => Ok((fd, Some(name))),
            // It could not be striped.
            Err(errno) if errno != Errno::EXIST => {
                let _ = calls::unlinkat(dir, &name);
                Err(errno)
            }
            Err(errno) => Err(errno),
        }
    };
    if dio::stripe::has_default(path_in(dir, OsStr::new("."))) {
        return hidden();
    }
    match openat(dir, c".", flags | OFlags::TMPFILE, mode) {
        Ok(fd) => Ok((fd, None)),
        Err(Errno::ISDIR | Errno::OPNOTSUPP | Errno::NOENT | Errno::INVAL) => hidden(),
        Err(errno) => Err(errno),
    }
}

/// A name that nothing has by accident, and that whoever wrote an archive could not know.
pub(crate) fn temporary_name() -> CString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = clock_gettime(ClockId::Realtime);
    let moment = now.tv_sec ^ now.tv_nsec.rotate_left(20);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    CString::new(format!(".dio-{}-{moment:x}-{next}", std::process::id())).expect("it is made of letters and digits")
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn files_have_no_name_or_a_hidden_one() {
        let scratch = tempfile::tempdir_in("/var/tmp").unwrap();
        let dir = File::open(scratch.path()).unwrap();
        let (fd, hidden) = unnamed(&dir, OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR).unwrap();
        let names: Vec<_> =
            std::fs::read_dir(scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        let seen: Vec<_> = names.iter().map(|name| name.as_encoded_bytes()).collect();
        assert_eq!(seen, hidden.iter().map(|name| name.to_bytes()).collect::<Vec<_>>());
        let stat = rustix::fs::fstat(&fd).unwrap();
        assert_eq!((stat.st_nlink as usize, stat.st_mode & 0o777), (names.len(), 0o400));
        assert_eq!(unnamed(File::open("/proc").unwrap(), OFlags::RDWR, Mode::RUSR).unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn names_are_all_different() {
        let mut names: Vec<_> = (0..1000).map(|_| temporary_name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 1000);
    }
}
