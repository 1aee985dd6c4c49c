//! Files without a size: devices, pipes and terminals, as source or target. They are read and
//! written sequentially to the end.

use dio_sys::uninterrupted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};

use dio::file::Class;

use super::super::error::{CopyError, ErrorContext, FailedOperation};
use super::super::open::OpenTarget;
use super::digests::Digests;
use super::path::{DataPath, Task, WorkerBuffer, has_blocks};
use crate::tool::Mode;

/// Bytes per read: the largest capacity a pipe can get without privileges (`pipe(7)`).
const BUFFER: usize = 1 << 20;

impl DataPath {
    /// Copies until the source ends.
    pub(super) fn copy_plain(
        &self,
        lane: &mut WorkerBuffer,
        task: &Task<'_>,
        target: &OpenTarget,
    ) -> Result<(), CopyError> {
        self.empty(task, target)?;
        // Verification compares digests of blocks, so the reads have the size of its blocks.
        let mut digests = self.transfer.verify.then(Digests::default);
        let most = if digests.is_some() { self.copiers.block() } else { BUFFER };
        lane.buffer.resize(most.max(lane.buffer.len()), 0);
        let (mut total, mut requests) = (0, 0);
        loop {
            if self.stopped() {
                return Err(CopyError::Interrupted);
            }
            let count = self.read_plain(task, &mut lane.buffer[..most], digests.is_some())?;
            if count == 0 {
                break;
            }
            if let Some(digests) = &mut digests {
                digests.add(total, &lane.buffer[..count]);
                digests.ranges = std::iter::once(0..total + count as u64).collect();
            }
            write_all(task, target, &lane.buffer[..count])?;
            total += count as u64;
            requests += 1;
            self.progress.add(count as u64);
            self.keep_pace(count as u64)?;
        }
        task.digests.replace(digests);
        let passes = self.transfer.mode != Mode::Cached && has_blocks(target);
        task.plain.set(passes);
        task.account.moved_plainly(
            total,
            requests,
            if passes { Class::Uncached } else { Class::Cached },
            None,
        );
        Ok(())
    }

    /// Reads once, or, with `full`, until the buffer is full or the source ends. Returns the number
    /// of bytes.
    fn read_plain(
        &self,
        task: &Task<'_>,
        buffer: &mut [u8],
        full: bool,
    ) -> Result<usize, CopyError> {
        let mut filled = 0;
        while filled < buffer.len() {
            // A signal handler restarts a waiting read, but never a poll (signal(7)). Polling first
            // makes a stop effective.
            while !self.is_readable(task) {
                if self.stopped() {
                    return Err(CopyError::Interrupted);
                }
            }
            match read(&task.source, &mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) if self.stopped() => return Err(CopyError::Interrupted),
                Err(Errno::INTR) => {}
                Err(errno) => {
                    return Err(errno).at(FailedOperation::Read, || task.contents.source_path());
                }
            }
            if !full {
                break;
            }
        }
        Ok(filled)
    }

    /// Waits up to 100 ms for data to read. Returns true for a source that cannot be polled.
    fn is_readable(&self, task: &Task<'_>) -> bool {
        let moment = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        match poll(&mut [PollFd::new(&task.source, PollFlags::IN)], Some(&moment)) {
            Ok(ready) => ready > 0,
            Err(errno) => errno != Errno::INTR,
        }
    }
}

fn write_all(task: &Task<'_>, target: &OpenTarget, mut rest: &[u8]) -> Result<(), CopyError> {
    while !rest.is_empty() {
        match uninterrupted(|| write(&target.fd, rest)) {
            Ok(0) => {
                return Err(Errno::NOSPC)
                    .at(FailedOperation::Write, || task.contents.target_path());
            }
            Ok(count) => rest = &rest[count..],
            Err(errno) => {
                return Err(errno).at(FailedOperation::Write, || task.contents.target_path());
            }
        }
    }
    Ok(())
}
