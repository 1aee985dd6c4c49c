//! Small files: one read and one write through the page cache, whose pages are dropped
//! (`RWF_DONTCACHE`). A direct request would cost a round trip to the device for each file, while
//! the kernel writes many cached files back together.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsFd;

use dio::file::{Class, Reason};
use dio::residency::ResidencySnapshot;
use dio::transfer::TransferError;
use rustix::fs::{Stat, fstat};
use rustix::io::{Errno, preadv2, pwritev2};

use super::super::error::{CopyError, ErrorContext, FailedOperation};
use super::super::open::OpenTarget;
use super::forgetting::SmallTarget;
use super::path::{DataPath, Task, WorkerBuffer};
use crate::tool::Mode;
use crate::tool::evict::drop_written;

/// Size of the buffer. It holds a file of the default `--small` size and at least one byte more, so
/// that one read also finds the end. The default, 64 KiB, comes from the comparison `threshold` of
/// the benchsuite.
pub(super) const BUFFER: usize = (64 << 10) + 4096;

impl DataPath {
    /// Copies a file that fits in the lane's buffer. A file that turns out longer than its size is
    /// copied completely too.
    pub(super) fn copy_small(
        &self,
        lane: &mut WorkerBuffer,
        task: &Task<'_>,
        target: &OpenTarget,
    ) -> Result<(), CopyError> {
        task.small.set(true);
        self.empty(task, target)?;
        lane.buffer.resize(BUFFER, 0);
        let size = task.contents.stat.st_size as u64;
        if self.transfer.mode != Mode::Cached && self.evictor.journals(target.fd.as_fd()) {
            // Such a file system keeps the pages in spite of the flag.
            self.forgetting.write.refuse();
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
            // An error is harmless: pages that stay only use memory.
            let _ = before.drop_new(&task.source, 0..offset);
        }
        let (class, reason) = match self.transfer.mode {
            Mode::Cached => (Class::Cached, None),
            _ => (Class::Uncached, Some(Reason::Small)),
        };
        task.account.moved_plainly(offset, requests, class, reason);
        Ok(())
    }

    /// Returns an error if the source ended early because it was changed. Files of `/sys` have size
    /// 4096 and contain less, which is no error.
    pub(super) fn refuse_shrunk(&self, task: &Task<'_>, found: u64) -> Result<(), CopyError> {
        let (then, now) = (
            task.contents.stat,
            fstat(&task.source).at(FailedOperation::Stat, || task.contents.source_path())?,
        );
        let identity = |stat: &Stat| (stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        if identity(then) == identity(&now) {
            return Ok(());
        }
        let shrunk = TransferError::Shrunk {
            path: task.contents.source_path(),
            expected: then.st_size as u64,
            found,
        };
        Err(CopyError::Transfer(shrunk.to_string()))
    }

    /// Reads once. Before the first read without the flag, stores in `before` which pages are
    /// resident.
    pub(super) fn read_some(
        &self,
        task: &Task<'_>,
        buffer: &mut [u8],
        offset: u64,
        before: &mut Option<Option<ResidencySnapshot>>,
    ) -> Result<usize, CopyError> {
        let read = self.forgetting.read.request(|flags| {
            if flags.is_empty() && self.transfer.mode != Mode::Cached {
                let size = task.contents.stat.st_size as u64;
                before.get_or_insert_with(|| ResidencySnapshot::take(&task.source, size).ok());
            }
            preadv2(&task.source, &mut [IoSliceMut::new(buffer)], offset, flags)
        });
        read.at(FailedOperation::Read, || task.contents.source_path())
    }

    pub(super) fn write_all(
        &self,
        task: &Task<'_>,
        target: &OpenTarget,
        mut rest: &[u8],
        mut offset: u64,
    ) -> Result<(), CopyError> {
        while !rest.is_empty() {
            let write = |flags| pwritev2(&target.fd, &[IoSlice::new(rest)], offset, flags);
            let written = match self.forgetting.write.request(write) {
                Ok(0) => Err(Errno::NOSPC),
                other => other,
            };
            let count = written.at(FailedOperation::Write, || task.contents.target_path())?;
            rest = &rest[count..];
            offset += count as u64;
        }
        Ok(())
    }

    /// Drops the pages of a small target that the kernel would keep, once they are clean.
    pub(super) fn forget_small(&self, task: &Task<'_>, target: &OpenTarget) {
        let stays = task.plain.get() || (task.small.get() && self.forgetting.write.is_refused());
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
