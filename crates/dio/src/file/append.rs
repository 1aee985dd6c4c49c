//! Appending, whoever else appends.
//!
//! An append names no offset: between the question where a file ends and a write there, another program may append and
//! sync. So the kernel finds the end (`RWF_APPEND`), under its own lock of the inode. Of a striped file only those who
//! append can find the end: one at a time may look for it and write there.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use rustix::fs::{Mode as Permissions, OFlags};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use super::counters::{Class, Reason};
use super::{File, FileError, Mode};
use crate::engine::{Kind, Medium, OsMedium, Route};
use crate::geometry::{Directness, FileSystem};
use crate::lock::LockClass;
use dio_sys::{RWF_DONTCACHE, lock_byte, uninterrupted, unlock_byte};

/// Buffers of one call (`IOV_MAX`, `writev(2)`).
const MOST_BUFFERS: usize = 1024;

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
    /// Appends all of `buffers`, one behind the other, wherever the file ends at that moment. Nothing that other programs
    /// append is overwritten, and nothing of theirs comes between the bytes of one call, unless the kernel writes only a
    /// part of them at first, as it does when it runs out of space. Returns how most of the bytes travelled.
    ///
    /// Whole blocks go direct where the file ends with a block and the kernel keeps direct appends of several programs
    /// apart ([`FileSystem::keeps_direct_appends_apart`]); others go through the page cache, which drops them.
    ///
    /// # Errors
    /// As [`File::write_at`]. EOPNOTSUPP for a striped file, see [`File::lock_end`], and for a simulated one.
    pub fn append(&self, buffers: &[IoSlice<'_>]) -> Result<Class, FileError> {
        self.check_latch()?;
        if !self.writable {
            return Err(self.failed("append to", Errno::BADF).with_cure("it was opened for reading only"));
        }
        let Some(os) = &self.os else { return Err(self.failed("append to", Errno::OPNOTSUPP)) };
        let _guard = self.locks.whole(LockClass::Resize);
        let old = self.before_zeroing()?;
        let (outcome, buffered) = self.append_to(os, buffers);
        if buffered > 0 && self.mode != Mode::Cached {
            // Others may have cut the file off meanwhile.
            let end = self.size()?;
            if self.uncache.touch(old.min(end)..end, true) {
                self.settle_now()?;
            }
        }
        outcome
    }

    /// Returns with the outcome how many bytes went through the page cache.
    fn append_to(&self, os: &OsMedium, buffers: &[IoSlice<'_>]) -> (Result<Class, FileError>, u64) {
        let mut rest = buffers.to_vec();
        let mut rest = rest.as_mut_slice();
        IoSlice::advance_slices(&mut rest, 0);
        let (mut direct, mut buffered, mut may_be_direct) = (0, 0, self.appends_directly());
        while !rest.is_empty() {
            let part = &rest[..rest.len().min(MOST_BUFFERS)];
            let straight = may_be_direct && self.ends_with_a_block() && self.is_whole(part);
            let route = if straight { Route::Direct } else { Route::Buffered };
            let forget = route == Route::Buffered && self.mode != Mode::Cached && self.uncache.dontcache();
            let flags = ReadWriteFlags::APPEND | if forget { RWF_DONTCACHE } else { ReadWriteFlags::empty() };
            let written = self.descriptor_to_append(os, route);
            match written.and_then(|fd| pwritev2(fd, part, 0, flags)) {
                Ok(0) => return (Err(self.append_failed(Errno::IO)), buffered),
                Ok(count) => {
                    *(if straight { &mut direct } else { &mut buffered }) += count as u64;
                    self.count_appended(route, count as u64);
                    IoSlice::advance_slices(&mut rest, count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP) if forget => self.uncache.no_dontcache.store(true, Ordering::Relaxed),
                // Another program has appended a part of a block meanwhile.
                Err(Errno::INVAL) if straight => may_be_direct = false,
                Err(errno) => return (Err(self.append_failed(errno)), buffered),
            }
        }
        let class = if direct > buffered { Class::Direct } else { self.buffered_class().0 };
        (Ok(class), buffered)
    }

    /// A FUSE file system hears of the flags of the descriptor and not of those of the single write, for which the kernel
    /// names the end that it believes in (`fuse_write_flags`, fs/fuse/file.c).
    fn descriptor_to_append<'a>(&'a self, os: &'a OsMedium, route: Route) -> Result<BorrowedFd<'a>, Errno> {
        let fd = os.descriptor(route).map_err(|error| super::raw(&error))?;
        if route == Route::Direct || !self.geometry.file_system().is_some_and(FileSystem::passes_data_through) {
            return Ok(fd);
        }
        let open = || {
            let kept = rustix::fs::fcntl_getfl(fd).ok()? & (OFlags::SYNC | OFlags::DSYNC);
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC | kept;
            rustix::fs::open(format!("/proc/self/fd/{}", fd.as_raw_fd()), flags, Permissions::empty()).ok()
        };
        Ok(self.append_only.get_or_init(open).as_ref().map_or(fd, AsFd::as_fd))
    }

    fn append_failed(&self, errno: Errno) -> FileError {
        let error = self.failed("append to", errno);
        // The request itself was refused: nothing was lost.
        if matches!(errno, Errno::BADF | Errno::FBIG | Errno::INVAL) { error } else { self.latched(error) }
    }

    /// Whether the kernel keeps direct appends of several programs to this file apart.
    fn appends_directly(&self) -> bool {
        self.route() == Route::Direct
            && self.geometry.directness() == Directness::Reported
            && self.geometry.file_system().is_some_and(FileSystem::keeps_direct_appends_apart)
    }

    fn ends_with_a_block(&self) -> bool {
        self.size().is_ok_and(|size| size % self.geometry.offset_align() == 0)
    }

    fn is_whole(&self, buffers: &[IoSlice<'_>]) -> bool {
        let (block, memory) = (self.geometry.offset_align(), self.geometry.mem_align());
        buffers.iter().all(|buffer| buffer.len() as u64 % block == 0 && buffer.as_ptr() as u64 % memory == 0)
    }

    fn count_appended(&self, route: Route, bytes: u64) {
        self.count_requests(Kind::Write, 1);
        let (class, reason) = if route == Route::Direct { (Class::Direct, None) } else { self.buffered_class() };
        self.meter.count_written(class, bytes);
        if let Some(reason) = reason {
            self.meter.count_reason(reason, bytes);
        }
    }

    /// How what goes through the page cache travels, and why it does.
    fn buffered_class(&self) -> (Class, Option<Reason>) {
        match self.write_class() {
            (Class::Direct, _) => (Class::Uncached, Some(Reason::EndOfFile)),
            other => other,
        }
    }

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
        let locked = match last.map(|fd| uninterrupted(|| lock_byte(fd, BYTE))) {
            Some(Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK)) => None,
            Some(Err(errno)) => return Err(self.failed("lock the end of", errno)),
            Some(Ok(())) => last,
            None => None,
        };
        Ok(Some(EndLock { locked, _alone: alone }))
    }
}
