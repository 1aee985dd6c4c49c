//! Operations that change a file other than by writing: size, allocation, and copies of ranges.
//! Also the search for data and holes.

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dio::names;
use dio::residency::{ResidencySnapshot, write_back};
use dio::{Mode as IoMode, OpenOptions};
use rustix::fs::{FallocateFlags, OFlags, SeekFrom};
use rustix::io::{Errno, Result};

use super::appends::end_of;
use super::descriptors::{Descriptors, file_of, open_for};
use super::shared::{Handle, OpenInode, Routes};
use crate::errno::errno_of;
use crate::stats::Event;

/// Most bytes that the kernel copies in one call. Between two calls other requests can use the
/// file, and only a little of it is in the page cache.
const COPIED: u64 = 16 << 20;

/// Bytes that one call copies where bytes per second are limited: it cannot be interrupted.
const COPIED_THROTTLED: u64 = 1 << 20;

/// `whence` of `lseek(2)`, the same on every architecture (`include/uapi/linux/fs.h`).
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

impl OpenInode {
    /// Sets the size while no other request of the inode runs.
    pub(super) fn set_size(
        &self,
        size: u64,
        opener: &dyn Fn(OFlags) -> Result<OwnedFd>,
    ) -> Result<()> {
        if self.routes().writing().is_err() {
            self.offer(self.about.user, open_for(opener, OFlags::WRONLY)?)?;
        }
        let routes = self.lock_exclusively();
        let descriptors = routes.writing()?;
        let old = descriptors.size()?;
        let _change = self.changes.begin(size.min(old)..u64::MAX);
        let file = file_of(descriptors, exclusive_mode(&routes), OFlags::empty())?;
        file.set_size(size).map_err(|error| descriptors.failed(&file, &error))?;
        self.known_end.store(size, Ordering::Relaxed);
        self.own_end.store(size, Ordering::Release);
        if size > old {
            self.about.figures.count(Event::Extend, size - old);
        }
        Ok(())
    }
}

/// Returns the I/O mode for an operation that runs alone on an inode. The file's locks are free
/// then.
fn exclusive_mode(routes: &Routes) -> IoMode {
    if routes.is_cached() { IoMode::Cached } else { IoMode::Direct }
}

/// Sets the size of an inode that has no handle.
pub(super) fn set_size_closed(size: u64, opener: &dyn Fn(OFlags) -> Result<OwnedFd>) -> Result<()> {
    let fd = open_for(opener, OFlags::WRONLY)?;
    let (stat, striped) = names::fstat_striped(&fd)?;
    let old = stat.st_size as u64;
    let page = rustix::param::page_size() as u64;
    if (old | size) % page == 0 && !striped {
        return rustix::fs::ftruncate(&fd, size);
    }
    // The kernel zeroes the rest of a page in the page cache; the file drops that page again.
    let file = OpenOptions::new().write(true).adopt(fd, "").map_err(|error| error.errno())?;
    file.set_size(size).and_then(|()| file.settle()).map_err(|error| error.errno())
}

impl Handle {
    /// Runs `fallocate(2)` while no other request of the inode runs. The kernel's FUSE asks for no
    /// mode that moves data (`fuse_file_fallocate`).
    pub(super) fn allocate(&self, mode: i32, offset: u64, length: u64) -> Result<()> {
        let shared = &self.shared;
        self.report_error()?;
        let end = end_of(offset, length)?;
        let routes = shared.lock_exclusively();
        let descriptors = routes.writing()?;
        let flags = FallocateFlags::from_bits_retain(mode as u32);
        let _change = shared.changes.begin(offset..end);
        let file = file_of(descriptors, exclusive_mode(&routes), OFlags::empty())?;
        let range = offset..end;
        let outcome = if flags.is_empty() {
            file.allocate(range, true)
        } else if flags == FallocateFlags::KEEP_SIZE {
            file.allocate(range, false)
        } else if flags == FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE {
            file.punch(range)
        } else if descriptors.is_striped() || !flags.contains(FallocateFlags::ZERO_RANGE) {
            return Err(Errno::OPNOTSUPP);
        } else {
            shared.known_end.store(0, Ordering::Relaxed);
            // Wherever the file ends afterwards, this server has put the end there.
            shared.own_end.store(u64::MAX, Ordering::Release);
            return with_pages_dropped(shared, &routes, descriptors, offset..end, |fd| {
                dio_sys::uninterrupted(|| rustix::fs::fallocate(fd, flags, offset, length))
            });
        };
        shared.known_end.store(0, Ordering::Relaxed);
        shared.own_end.fetch_max(end, Ordering::AcqRel);
        outcome.map_err(|error| descriptors.failed(&file, &error))
    }

    /// Runs `lseek(2)` for data and holes.
    pub(super) fn seek(&self, offset: u64, whence: i32) -> Result<u64> {
        let from = match whence {
            SEEK_DATA => SeekFrom::Data(offset),
            SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        let routes = self.shared.routes();
        self.shared.settle();
        let descriptors = routes.any()?;
        if descriptors.is_striped() || self.shared.may_be_dirty() {
            // The whole file counts as data: the holes of a striped file are unknown, and so are
            // the holes that a mapping has written into. The kernel does not write such pages back
            // before it sends this request, and could not do so while this thread waited for it.
            let size = descriptors.size()?;
            let place = if whence == SEEK_DATA { offset } else { size };
            return if offset < size { Ok(place) } else { Err(Errno::NXIO) };
        }
        rustix::fs::seek(descriptors.base(), from)
    }

    /// Runs `copy_file_range(2)` on the files of the source, so that the kernel shares blocks if
    /// the file system can. No other request of the target runs while a part is copied.
    pub(super) fn copy_to(&self, from: u64, to: &Handle, at: u64, length: u64) -> Result<u64> {
        to.report_error()?;
        let same = Arc::ptr_eq(&self.shared, &to.shared);
        let mut copied = 0;
        while copied < length {
            let mut part = COPIED.min(length - copied);
            if self.shared.common.throttle.is_on() {
                if copied > 0 {
                    // The rest is for the program's next call.
                    break;
                }
                part = part.min(COPIED_THROTTLED);
                // The bytes are read and written.
                self.wait_for_throttle(2 * part);
            }
            let count = match (same, self.shared.ino < to.shared.ino) {
                (true, _) => {
                    copy(&to.shared.lock_exclusively(), None, to, from + copied, at + copied, part)
                }
                (false, true) => {
                    let source = self.shared.routes();
                    copy(
                        &to.shared.lock_exclusively(),
                        Some((&self.shared, &source)),
                        to,
                        from + copied,
                        at + copied,
                        part,
                    )
                }
                (false, false) => {
                    let target = to.shared.lock_exclusively();
                    let source = self.shared.routes();
                    copy(
                        &target,
                        Some((&self.shared, &source)),
                        to,
                        from + copied,
                        at + copied,
                        part,
                    )
                }
            };
            match count {
                Ok(count) => {
                    copied += count;
                    // The source ended there when it was read. The copy may have extended it since.
                    if count < part {
                        break;
                    }
                }
                // The bytes copied so far are reported. The error occurs again with the next call.
                Err(_) if copied > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(copied)
    }
}

/// Copies a part. Without `source`, it copies within the target.
fn copy(
    target: &Routes,
    source: Option<(&OpenInode, &Routes)>,
    to: &Handle,
    from: u64,
    at: u64,
    length: u64,
) -> Result<u64> {
    if let Some((shared, _)) = source {
        shared.settle();
    }
    let (from_shared, from_routes) = source.unwrap_or((&*to.shared, target));
    let writing = target.writing()?;
    let reading = from_routes.reading()?;
    if writing.is_striped() || reading.is_striped() {
        // The kernel then copies by reading and writing.
        return Err(Errno::OPNOTSUPP);
    }
    let _change = to.shared.changes.begin(at..at.saturating_add(length));
    to.shared.known_end.store(0, Ordering::Relaxed);
    to.shared.own_end.fetch_max(at.saturating_add(length), Ordering::AcqRel);
    with_pages_dropped(
        from_shared,
        from_routes,
        reading,
        from..from.saturating_add(length),
        |input| {
            with_pages_dropped(
                &to.shared,
                target,
                writing,
                at..at.saturating_add(length),
                |output| {
                    let (mut from, mut at) = (from, at);
                    let count = usize::try_from(length).unwrap_or(usize::MAX);
                    rustix::fs::copy_file_range(
                        input,
                        Some(&mut from),
                        output,
                        Some(&mut at),
                        count,
                    )
                    .map(|count| count as u64)
                },
            )
        },
    )
}

/// Runs `work`, which may bring pages of the range into the page cache. Unless the file is cached,
/// the pages are then written back and dropped, except those that were there before. If the
/// write-back fails, the lost bytes may be those of any writer, so the error is recorded.
fn with_pages_dropped<T>(
    shared: &OpenInode,
    routes: &Routes,
    descriptors: &Descriptors,
    range: Range<u64>,
    work: impl FnOnce(BorrowedFd<'_>) -> Result<T>,
) -> Result<T> {
    let fd = descriptors.base();
    if routes.is_cached() {
        return work(fd);
    }
    let size = rustix::fs::fstat(fd)?.st_size as u64;
    let before = ResidencySnapshot::take(fd, size);
    let done = work(fd)?;
    if descriptors.is_writable()
        && let Err(error) = write_back(fd, range.clone())
    {
        shared.errors.record(errno_of(error));
    }
    if let Ok(before) = before {
        let size = rustix::fs::fstat(fd)?.st_size as u64;
        // Pages that stay only cost memory.
        let _ = before.drop_new(fd, range.start.min(size)..range.end.min(size));
    }
    Ok(done)
}
