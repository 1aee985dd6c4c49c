//! Writes files through their only descriptor when there are too few descriptors for streams.

use std::io::{self, Write};
use std::os::fd::OwnedFd;

use dio_sys::uninterrupted;
use rustix::io::{Errno, pwrite};

use crate::tool::Sink;

/// A destination for the contents of a large file.
pub(super) trait LargeDestination: Write {
    /// Continues at another offset.
    ///
    /// # Errors
    /// Errors of writing what was buffered.
    fn go_on_at(&mut self, offset: u64) -> io::Result<()>;
}

impl LargeDestination for Sink {
    fn go_on_at(&mut self, offset: u64) -> io::Result<()> {
        self.seek(offset).map(drop)
    }
}

/// A file that is written through the page cache.
#[derive(Debug)]
pub(super) struct Plain<'a> {
    pub(super) fd: &'a OwnedFd,
    pub(super) at: u64,
}

impl LargeDestination for Plain<'_> {
    fn go_on_at(&mut self, offset: u64) -> io::Result<()> {
        self.at = offset;
        Ok(())
    }
}

impl Write for Plain<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut requests = 0;
        put_all(self.fd, bytes, self.at, &mut requests)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes all bytes at an offset, and counts the requests.
pub(super) fn put_all(
    fd: &OwnedFd,
    mut rest: &[u8],
    mut offset: u64,
    requests: &mut u64,
) -> Result<(), Errno> {
    while !rest.is_empty() {
        match uninterrupted(|| pwrite(fd, rest, offset)) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(count) => {
                rest = &rest[count..];
                offset += count as u64;
                *requests += 1;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
