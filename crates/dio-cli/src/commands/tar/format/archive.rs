//! The source of an archive's bytes.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use dio_sys::uninterrupted;

use crate::tool::Source;

/// An archive that is read from front to back. Parts of it may be skipped.
pub trait Archive: BufRead {
    /// Skips up to `bytes` bytes. Returns the number skipped, which is smaller only at the end.
    ///
    /// # Errors
    /// Errors of reading.
    fn pass(&mut self, bytes: u64) -> io::Result<u64> {
        let mut left = bytes;
        while left > 0 {
            let there = uninterrupted(|| self.fill_buf().map(<[u8]>::len))?;
            if there == 0 {
                break;
            }
            let taken = usize::try_from(left).map_or(there, |left| left.min(there));
            self.consume(taken);
            left -= taken as u64;
        }
        Ok(bytes - left)
    }
}

impl Archive for Source {
    fn pass(&mut self, bytes: u64) -> io::Result<u64> {
        self.skip(bytes)
    }
}

impl<R: Read + ?Sized> Archive for BufReader<R> {}
impl<T: AsRef<[u8]>> Archive for Cursor<T> {}
impl Archive for &[u8] {}

impl<A: Archive + ?Sized> Archive for Box<A> {
    fn pass(&mut self, bytes: u64) -> io::Result<u64> {
        (**self).pass(bytes)
    }
}

impl<A: Archive + ?Sized> Archive for &mut A {
    fn pass(&mut self, bytes: u64) -> io::Result<u64> {
        (**self).pass(bytes)
    }
}
