//! Where a file ends, and what space it has.

use std::ops::Range;

use rustix::io::Errno;

use super::{File, FileError, pages_around, patiently};
use crate::lock::LockClass;

impl File {
    /// Size in bytes.
    ///
    /// # Errors
    /// What `statx(2)` answers.
    pub fn size(&self) -> Result<u64, FileError> {
        patiently(|| self.medium.size()).map_err(|error| self.refused("ask the size of", &error))
    }

    /// Sets the size: cuts off, or extends by a hole. Excludes every read and write of the file.
    ///
    /// # Errors
    /// What `ftruncate(2)` answers, or an earlier write error.
    pub fn set_size(&self, size: u64) -> Result<(), FileError> {
        self.check_latch()?;
        let _guard = self.locks.whole(LockClass::Resize);
        self.resize(size)
    }

    /// Cuts the file off behind `size`, if it is longer, and of a striped file what some objects hold behind its end. Unlike
    /// [`File::set_size`] it does so after an error too, which stays in force: what could not be written need not stay as zeros.
    ///
    /// # Errors
    /// What `ftruncate(2)` answers.
    pub fn cut_off(&self, size: u64) -> Result<(), FileError> {
        let _guard = self.locks.whole(LockClass::Resize);
        let old = self.size()?;
        if old <= size && self.stripes.is_none() { Ok(()) } else { self.resize(size.min(old)) }
    }

    /// Sets the size; the caller is alone with the file.
    fn resize(&self, size: u64) -> Result<(), FileError> {
        let old = self.before_zeroing()?;
        patiently(|| self.medium.set_size(size)).map_err(|error| self.refused("resize", &error).at(size))?;
        self.after_zeroing(&[old, size])
    }

    /// Allocates blocks for a range, so that writing it cannot fail for lack of space; `extend` lets the size grow.
    ///
    /// # Errors
    /// What `fallocate(2)` answers: EINVAL for an empty range, EOPNOTSUPP where the file system cannot, ENOSPC without
    /// space; or an earlier write error.
    pub fn allocate(&self, range: Range<u64>, extend: bool) -> Result<(), FileError> {
        self.check_latch()?;
        let at = range.start;
        if range.is_empty() {
            return Err(self.failed("allocate space for", Errno::INVAL).at(at));
        }
        let _guard = extend.then(|| self.locks.whole(LockClass::Resize));
        let old = self.before_zeroing()?;
        patiently(|| self.medium.allocate(range.clone(), extend))
            .map_err(|error| self.refused("allocate space for", &error).at(at))?;
        self.after_zeroing(&[old])
    }

    /// Turns a range into a hole that reads as zeros.
    ///
    /// # Errors
    /// What `fallocate(2)` answers: EINVAL for an empty range, EOPNOTSUPP where the file system cannot; or an earlier
    /// write error.
    pub fn punch(&self, range: Range<u64>) -> Result<(), FileError> {
        self.check_latch()?;
        let at = range.start;
        if range.is_empty() {
            return Err(self.failed("punch a hole into", Errno::INVAL).at(at));
        }
        let _guard = self.locks.exclusive(self.lock_policy.span(pages_around(range.clone())), LockClass::Write);
        self.before_zeroing()?;
        let edges = [range.start, range.end];
        patiently(|| self.medium.punch(range.clone()))
            .map_err(|error| self.refused("punch a hole into", &error).at(at))?;
        self.after_zeroing(&edges)
    }
}
