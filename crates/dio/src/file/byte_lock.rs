//! Locks on a single byte of an open file, against other opens of it in whatever process
//! (`fcntl(2)`, "Open file description locks").
//!
//! Whoever can write to a file can also keep such a lock for ever. So every wait has an end: a
//! server that waited without one would lose a thread to each kept lock.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;

use dio_sys::{try_lock_byte, uninterrupted, unlock_byte};

use crate::patience::take_within;

/// How long to wait for a lock that others hold for one write, or for a few durable ones.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A lock on one byte, held until this is dropped.
#[derive(Debug)]
pub(crate) struct ByteLock<'a> {
    fd: BorrowedFd<'a>,
    byte: i64,
}

impl<'a> ByteLock<'a> {
    /// Locks the byte. `None` if the file system has no such locks.
    ///
    /// # Errors
    /// EAGAIN if somebody else has held the lock for as long as `patience`; EBADF for a file that
    /// is not open for writing.
    pub(crate) fn take(
        fd: BorrowedFd<'a>,
        byte: i64,
        patience: Duration,
    ) -> Result<Option<ByteLock<'a>>, Errno> {
        let take = || match uninterrupted(|| try_lock_byte(fd, byte)) {
            Ok(()) => Ok(Some(ByteLock { fd, byte })),
            Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => Ok(None),
            Err(Errno::ACCESS) => Err(Errno::AGAIN),
            Err(errno) => Err(errno),
        };
        take_within(patience, take)
    }
}

impl Drop for ByteLock<'_> {
    fn drop(&mut self) {
        // It was locked, so it can be unlocked.
        let _ = unlock_byte(self.fd, self.byte);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use std::time::Instant;

    use super::*;

    #[test]
    fn whoever_keeps_a_lock_for_ever_is_not_waited_for() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        let other = std::fs::File::options().write(true).open(file.path()).unwrap();
        let kept = ByteLock::take(file.as_file().as_fd(), 7, PATIENCE).unwrap().unwrap();
        let start = Instant::now();
        let patience = Duration::from_millis(30);
        assert_eq!(ByteLock::take(other.as_fd(), 7, patience).unwrap_err(), Errno::AGAIN);
        assert!(start.elapsed() >= patience);
        assert!(ByteLock::take(other.as_fd(), 8, patience).unwrap().is_some());
        drop(kept);
        assert!(ByteLock::take(other.as_fd(), 7, patience).unwrap().is_some());
        let reader = std::fs::File::open(file.path()).unwrap();
        assert_eq!(ByteLock::take(reader.as_fd(), 7, patience).unwrap_err(), Errno::BADF);
    }

    #[test]
    fn a_lock_that_is_given_up_is_taken_by_who_waits() {
        let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
        let kept = ByteLock::take(file.as_file().as_fd(), 0, PATIENCE).unwrap();
        std::thread::scope(|scope| {
            let other = std::fs::File::options().write(true).open(file.path()).unwrap();
            let waiting =
                scope.spawn(move || ByteLock::take(other.as_fd(), 0, PATIENCE).unwrap().is_some());
            std::thread::sleep(Duration::from_millis(10));
            drop(kept);
            assert!(waiting.join().unwrap());
        });
    }
}
