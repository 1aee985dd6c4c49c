//! Appending to a striped file, whose end only those who append can find: one at a time may look for it and write there.

use std::os::fd::BorrowedFd;
use std::sync::{MutexGuard, PoisonError};

use rustix::io::Errno;

use super::{File, FileError};
use crate::sys::{lock_byte, unlock_byte};

/// The byte that is locked: one of the header, which nobody writes while the file is open.
const BYTE: i64 = 0;

/// The right to append to a striped file. It ends when this is dropped.
#[derive(Debug)]
pub struct EndLock<'a> {
    /// Locked against other opens of the file, in whatever process; `None` where there are no such locks.
    locked: Option<BorrowedFd<'a>>,
    /// Against other threads with the same one.
    _alone: MutexGuard<'a, ()>,
}

impl Drop for EndLock<'_> {
    fn drop(&mut self) {
        if let Some(fd) = self.locked {
            // It was locked, so it can be unlocked.
            let _ = unlock_byte(fd, BYTE);
        }
    }
}

impl File {
    /// Waits for the right to append to a striped file. Its bytes go where an offset says: of two that look for the end at the same
    /// time, the one would overwrite the other's. So whoever appends takes this, asks for the size, writes there and drops it.
    /// `None` for other files: of those the system finds the end (`O_APPEND`).
    ///
    /// # Errors
    /// EBADF for a file that is open for reading only; what `fcntl(2)` answers. Where the file system of the last object has no
    /// such locks, only the threads that share this file keep each other out.
    pub fn lock_end(&self) -> Result<Option<EndLock<'_>>, FileError> {
        let Some(stripes) = &self.stripes else { return Ok(None) };
        let alone = self.appending.lock().unwrap_or_else(PoisonError::into_inner);
        // Not the first: over NFS its flock(2), which every writer shares, is a lock of all of its bytes.
        let last = stripes.objects().last().and_then(File::descriptor);
        let locked = match last.map(patient_lock) {
            Some(Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK)) => None,
            Some(Err(errno)) => return Err(self.failed("lock the end of", errno)),
            Some(Ok(())) => last,
            None => None,
        };
        Ok(Some(EndLock { locked, _alone: alone }))
    }
}

fn patient_lock(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    loop {
        match lock_byte(fd, BYTE) {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
