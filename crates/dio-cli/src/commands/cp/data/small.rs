//! Small files: one read and one write through a page cache that forgets (`RWF_DONTCACHE`). A direct request would pay a
//! round trip to the device for each file where the kernel gathers many.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use dio::file::{Class, Reason};
use dio::residency::Picture;
use dio::sys::RWF_DONTCACHE;
use dio::transfer::TransferError;
use rustix::fs::{Mode as FileMode, OFlags, Stat, fstat, open};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use super::super::error::{At, CopyError, Doing};
use super::super::open::OpenTarget;
use super::{DataPath, Lane, Task};
use crate::tool::Mode;
use crate::tool::evict::{Reopen, drop_written};

/// A file of the default for `--small` and the byte behind it fit, so that one read also meets the end. That default,
/// 64 KiB, comes from the comparison `threshold` of the benchsuite.
const BUFFER: usize = (64 << 10) + 4096;

/// A small target that is complete.
#[derive(Debug)]
pub(super) struct SmallTarget(PathBuf);

impl Reopen for SmallTarget {
    fn reopen(&self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        open(&self.0, flags, FileMode::empty())
    }
}

/// Where `RWF_DONTCACHE` is of no use.
#[derive(Debug)]
pub(super) struct Refused {
    /// The kernel refused it for reads; found out at the first file.
    read: AtomicBool,
    /// The kernel refused it for writes, or pages are dropped after a sync of the file system anyway.
    write: AtomicBool,
}

impl Refused {
    /// `batches` says that the run syncs whole file systems.
    pub(super) fn new(batches: bool) -> Refused {
        Refused { read: AtomicBool::new(false), write: AtomicBool::new(batches) }
    }
}

impl DataPath {
    /// Copies a file that fits the lane's buffer; one that is longer than it said is copied all the same.
    pub(super) fn copy_small(&self, lane: &mut Lane, task: &Task<'_>, target: &OpenTarget) -> Result<(), CopyError> {
        task.small.set(true);
        self.empty(task, target)?;
        lane.buffer.resize(BUFFER, 0);
        let size = task.contents.stat.st_size as u64;
        if self.transfer.mode != Mode::Cached && self.evictor.journals(target.fd.as_fd()) {
            // It keeps the pages whatever it is told.
            self.refused.write.store(true, Ordering::Relaxed);
        }
        let mut before = None;
        let (mut offset, mut requests) = (0, 0);
        loop {
            let count = self.read_some(task, &mut lane.buffer, offset, &mut before)?;
            if count == 0 {
                break;
            }
            self.write_all(task, target, &lane.buffer[..count], offset)?;
            offset += count as u64;
            requests += 1;
            self.progress.add(count as u64);
            self.keep_pace(count as u64)?;
            if count < BUFFER && offset >= size && size > 0 {
                break;
            }
        }
        if offset < size {
            self.refuse_shrunk(task, offset)?;
        }
        if let Some(Some(before)) = before {
            // Pages that stay only cost memory.
            let _ = before.drop_new(&task.source, 0..offset);
        }
        let (class, reason) = match self.transfer.mode {
            Mode::Cached => (Class::Cached, None),
            _ => (Class::Uncached, Some(Reason::Small)),
        };
        task.account.moved_plainly(offset, requests, class, reason);
        Ok(())
    }

    /// An error if the source ended early because it was changed. Files of `/sys` say 4096 and hold less all the same.
    fn refuse_shrunk(&self, task: &Task<'_>, found: u64) -> Result<(), CopyError> {
        let (then, now) = (task.contents.stat, fstat(&task.source).at(Doing::Stat, || task.contents.source_path())?);
        let identity = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        if identity(then) == identity(&now) {
            return Ok(());
        }
        let shrunk = TransferError::Shrunk { path: task.contents.source_path(), expected: then.st_size as u64, found };
        Err(CopyError::Transfer(shrunk.to_string()))
    }

    fn flags(&self, refused: &AtomicBool) -> ReadWriteFlags {
        if self.transfer.mode == Mode::Cached || refused.load(Ordering::Relaxed) {
            ReadWriteFlags::empty()
        } else {
            RWF_DONTCACHE
        }
    }

    /// One read; EOPNOTSUPP, or EINVAL before Linux 6.14, is remembered and tried again without the flag. A picture of
    /// what is resident is taken `before` anything is read without it.
    fn read_some(
        &self,
        task: &Task<'_>,
        buffer: &mut [u8],
        offset: u64,
        before: &mut Option<Option<Picture>>,
    ) -> Result<usize, CopyError> {
        loop {
            let flags = self.flags(&self.refused.read);
            if flags.is_empty() && self.transfer.mode != Mode::Cached {
                let size = task.contents.stat.st_size as u64;
                before.get_or_insert_with(|| Picture::take(&task.source, size).ok());
            }
            match preadv2(&task.source, &mut [IoSliceMut::new(buffer)], offset, flags) {
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::INVAL) if !flags.is_empty() => {
                    self.refused.read.store(true, Ordering::Relaxed);
                }
                other => return other.at(Doing::Read, || task.contents.source_path()),
            }
        }
    }

    fn write_all(
        &self,
        task: &Task<'_>,
        target: &OpenTarget,
        mut rest: &[u8],
        mut offset: u64,
    ) -> Result<(), CopyError> {
        let failed = |errno| Err(errno).at(Doing::Write, || task.contents.target_path());
        while !rest.is_empty() {
            let flags = self.flags(&self.refused.write);
            match pwritev2(&target.fd, &[IoSlice::new(rest)], offset, flags) {
                Ok(0) => return failed(Errno::NOSPC),
                Ok(count) => {
                    rest = &rest[count..];
                    offset += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::INVAL) if !flags.is_empty() => {
                    self.refused.write.store(true, Ordering::Relaxed);
                }
                Err(errno) => return failed(errno),
            }
        }
        Ok(())
    }

    /// Drops the pages of a small target that the kernel would keep, once they are clean.
    pub(super) fn forget_small(&self, task: &Task<'_>, target: &OpenTarget) {
        let stays = task.plain.get() || (task.small.get() && self.refused.write.load(Ordering::Relaxed));
        if self.transfer.mode == Mode::Cached || !stays {
            return;
        }
        if self.sync_each {
            drop_written(&target.fd);
        } else {
            let file = SmallTarget(task.contents.target_path());
            self.evictor.wait_for_sync(target.fd.as_fd(), file, task.contents.stat.st_size as u64);
        }
    }
}
