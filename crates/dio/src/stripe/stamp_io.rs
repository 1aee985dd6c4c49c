//! Reads and writes the stamps of objects.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::fs::{Timespec, Timestamps};
use rustix::io::{Errno, ReadWriteFlags};

use super::format::FormatError;
use super::stamp::{STAMP_AT, STAMP_LEN, Stamp};
use crate::engine::{Medium, Route};
use crate::file::{File, FileError, errno_of};

/// How often a stamp is read that somebody may just be writing.
const ATTEMPTS: u32 = 5;

/// Reads the stamp of an object whose header says that it has one. Reads again if a write of the
/// stamp may be in progress.
///
/// # Errors
/// What `read` returns.
pub fn read_stamp<E>(
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize, E>,
) -> Result<Result<Stamp, FormatError>, E> {
    let mut bytes = [0; STAMP_LEN as usize];
    let mut attempt = || read(&mut bytes, STAMP_AT).map(|count| Stamp::decode(&bytes[..count]));
    let mut stamp = attempt()?;
    for _ in 1..ATTEMPTS {
        if stamp.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
        stamp = attempt()?;
    }
    Ok(stamp)
}

pub(super) fn of(object: &File, operation: &'static str, errno: Errno) -> FileError {
    FileError::new(operation, object.path(), errno)
}

/// Calls `work` with the descriptor of an object that goes through the page cache.
pub(super) fn with_descriptor<T>(
    object: &File,
    operation: &'static str,
    work: impl FnOnce(BorrowedFd<'_>) -> Result<T, Errno>,
) -> Result<T, FileError> {
    let os = object.os_medium().ok_or_else(|| of(object, operation, Errno::BADF))?;
    let fd =
        os.descriptor(Route::Buffered).map_err(|error| of(object, operation, errno_of(&error)))?;
    work(fd).map_err(|errno| of(object, operation, errno))
}

/// Writes a stamp, `durably` if it is the first change of a session. The file keeps its
/// modification time.
pub(super) fn write_stamp(object: &File, stamp: &Stamp, durably: bool) -> Result<(), FileError> {
    let bytes = stamp.encode().map_err(|_| of(object, "stamp", Errno::INVAL))?;
    with_descriptor(object, "stamp", |fd| {
        let before = rustix::fs::fstat(fd)?;
        let (slices, flags) = ([IoSlice::new(&bytes)], ReadWriteFlags::DSYNC);
        let plain = || rustix::io::pwrite(fd, &bytes, STAMP_AT);
        let written = match durably.then(|| rustix::io::pwritev2(fd, &slices, STAMP_AT, flags)) {
            None => plain(),
            // Not all file systems support the flag.
            Some(Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)) => {
                plain().and_then(|count| rustix::fs::fdatasync(fd).map(|()| count))
            }
            Some(other) => other,
        }?;
        if written as u64 != STAMP_LEN {
            return Err(Errno::IO);
        }
        let time =
            |tv_sec, nanoseconds: u64| Timespec { tv_sec, tv_nsec: nanoseconds.cast_signed() };
        let times = Timestamps {
            last_access: time(0, rustix::fs::UTIME_OMIT as u64),
            last_modification: time(before.st_mtime, before.st_mtime_nsec),
        };
        // Only the owner may do that. If another user writes, the file gets the time of the stamp.
        let _ = rustix::fs::futimens(fd, &times);
        Ok(())
    })
}
