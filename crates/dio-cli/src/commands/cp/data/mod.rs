//! The data path: moves the contents of one file. No other part of `dio cp` touches bytes.
//!
//! One [`DataPath`] serves a run. Every worker has a [`WorkerBuffer`] of its own, so that small
//! files need no lock and no allocation. A file is copied by one of these methods: `clone`, if the
//! file system can share blocks; `small`, with one buffer through the page cache, whose pages are
//! dropped; `large`, with the library's copy loop; `plain`, for files without a size (devices,
//! pipes, `/proc`); and `few` instead of `large` if few descriptors are free. `contents_file`
//! decides under which name the bytes appear. `verify`, `resume` and `shared` extend
//! `large`.

mod account;
mod compare;
mod contents_file;
mod copiers;
mod digests;
mod few;
mod forgetting;
mod large;
mod path;
mod plain;
mod resume;
mod shared;
mod small;
mod verify;

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use dio::names;
use rustix::fs::{FileType, OFlags, fstat, ioctl_ficlone};
use rustix::io::Errno;

use super::error::{CopyError, ErrorContext, FailedOperation};
use super::open::{Contents, OpenTarget};
use crate::tool::{Mode, When, synced};

use account::Account;
use contents_file::ContentsFile;
pub(crate) use path::{DataPath, WorkerBuffer};
use path::{Finish, Task, has_blocks};
#[cfg(feature = "fuzzing")]
pub(crate) use resume::fuzz_note;

impl DataPath {
    /// Copies the contents of one file.
    pub(crate) fn copy(
        &self,
        lane: &mut WorkerBuffer,
        contents: &Contents<'_>,
        finish: Finish<'_>,
    ) -> Result<(), CopyError> {
        if self.stopped() {
            return Err(CopyError::Interrupted);
        }
        let source = contents.open_source(OFlags::empty())?;
        let (stat, striped) = names::stat_of_contents(&source, *contents.stat)
            .at(FailedOperation::Stat, || contents.source_path())?;
        let contents = &Contents { stat: &stat, ..*contents };
        let account = Account::open(&self.ledger, contents, &source);
        let mut task = Task::new(contents, source, account, striped);
        let mut place = self.place(&task)?;
        if !place.target().fresh || self.transfer.atomic {
            let fd = &place.target().fd;
            task.striped |=
                names::is_striped(fd).at(FailedOperation::Stat, || contents.target_path())?;
        }
        let outcome = self.fill(lane, &task, place.target()).and_then(|()| {
            if !self.attributes_last {
                finish_attributes(&task, place.target(), finish)?;
                return self.make_durable(&task, &mut place);
            }
            self.make_durable(&task, &mut place)?;
            finish_attributes(&task, place.target(), finish)?;
            let syncs = self.syncs_attributes || self.needs_own_sync(&task, place.target());
            if syncs { self.sync_file(&task, place.target()) } else { Ok(()) }
        });
        match outcome {
            Ok(()) => place.keep(&task, self.durable)?,
            Err(error) => {
                task.account.close(&task.source, place.target());
                place.give_up(&task);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Chooses a method and copies with it.
    fn fill(
        &self,
        lane: &mut WorkerBuffer,
        task: &Task<'_>,
        target: &OpenTarget,
    ) -> Result<(), CopyError> {
        let stat = task.contents.stat;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::BlockDevice if task.striped => {
                self.copy_large(lane, task, target)
            }
            _ if !target.fresh && !has_blocks(target) => self.copy_plain(lane, task, target),
            FileType::RegularFile if self.clone(task, target)? => {
                task.account.reflinked(size);
                // An existing target may have been longer.
                rustix::fs::ftruncate(&target.fd, size)
                    .at(FailedOperation::Extend, || task.contents.target_path())
            }
            // A file with size 0 may still have contents, as files of /proc do.
            FileType::RegularFile if size == 0 && self.transfer.verify => {
                self.copy_plain(lane, task, target)
            }
            FileType::RegularFile if self.is_small(size) => self.copy_small(lane, task, target),
            FileType::RegularFile | FileType::BlockDevice => self.copy_large(lane, task, target),
            _ => self.copy_plain(lane, task, target),
        }
    }

    /// Returns whether a file of this size is copied by the small method.
    fn is_small(&self, size: u64) -> bool {
        let transfer = &self.transfer;
        // The small method falls back to cached I/O if the kernel does not support uncached I/O.
        // With --strict all files therefore use direct I/O.
        let plain = !transfer.verify && !transfer.resume && !transfer.strict;
        let plain = plain && transfer.sparse != When::Always && transfer.limit.is_none();
        match transfer.mode {
            Mode::Auto => size == 0 || (size <= transfer.small && plain),
            Mode::Direct | Mode::Uncached | Mode::Cached => size == 0,
        }
    }

    /// Clones the source by sharing its blocks, if the options and the file system allow it.
    fn clone(&self, task: &Task<'_>, target: &OpenTarget) -> Result<bool, CopyError> {
        let contents = task.contents;
        let wanted = self.transfer.reflink;
        if wanted == When::Never
            || (wanted == When::Auto
                && (self.no_clone.load(Ordering::Relaxed) || contents.stat.st_size == 0))
            || (wanted == When::Auto
                && (self.transfer.sparse != When::Auto || self.transfer.verify))
        {
            return Ok(false);
        }
        match ioctl_ficlone(&target.fd, &task.source) {
            Ok(()) => Ok(true),
            Err(errno) if wanted == When::Always => Err(CopyError::Clone {
                path: contents.target_path(),
                from: contents.source_path(),
                errno,
            }),
            Err(errno) => {
                if matches!(errno, Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY) {
                    self.no_clone.store(true, Ordering::Relaxed);
                }
                Ok(false)
            }
        }
    }

    /// Syncs the file if files are synced one by one. Only after that are its pages clean and can
    /// be dropped.
    fn make_durable(&self, task: &Task<'_>, place: &mut ContentsFile) -> Result<(), CopyError> {
        if self.sync_each || self.needs_own_sync(task, place.target()) {
            self.sync_file(task, place.target())?;
        } else if !self.durable {
            // What a server has not taken is told here, or never.
            let flushed = dio_sys::flush(&place.target().fd);
            flushed.at(FailedOperation::Close, || task.contents.target_path())?;
        }
        let verified = if self.transfer.verify { self.verify(task, place) } else { Ok(()) };
        // The note is also removed if verification failed, because a wrong copy must not be
        // resumed.
        self.forget_note(task);
        verified?;
        self.forget_small(task, place.target());
        task.account.close(&task.source, place.target());
        Ok(())
    }

    /// Returns whether a target has to be synced by itself because no sync of its file system
    /// covers it.
    fn needs_own_sync(&self, task: &Task<'_>, target: &OpenTarget) -> bool {
        // A new file is on the file system of its directory; an old name may be a link.
        let has_syncfs = || match target.fresh {
            true => task.contents.entry.dir.has_syncfs(&target.fd),
            false => synced::has_syncfs(&target.fd),
        };
        self.durable && !has_syncfs()
    }

    fn sync_file(&self, task: &Task<'_>, target: &OpenTarget) -> Result<(), CopyError> {
        synced::fsync(&target.fd).at(FailedOperation::Sync, || task.contents.target_path())?;
        self.ledger.count_syncs(1);
        Ok(())
    }
}

/// Calls `finish`, which sets the attributes of a target whose contents are complete.
fn finish_attributes(
    task: &Task<'_>,
    target: &OpenTarget,
    finish: Finish<'_>,
) -> Result<(), CopyError> {
    let before = if task.striped { fstat(&target.fd).ok() } else { None };
    finish(task.source.as_fd(), target.fd.as_fd(), target.fresh);
    match before {
        Some(before) => names::pass_on_attributes(&target.fd, &before)
            .at(FailedOperation::SetPermissions, || task.contents.target_path()),
        None => Ok(()),
    }
}
