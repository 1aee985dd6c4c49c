//! Large files whose ranges several processes copy.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use dio::File;
use dio::transfer::Contents as Whole;
use rustix::fs::{FileType, fstat};

use super::super::error::{CopyError, ErrorContext, FailedOperation};
use super::super::open::{OpenTarget, is_link};
use super::super::ranges::{Failure, FileFacts, Helpers, PIECE_BYTES, SharedFile};
use super::path::{DataPath, Task};

impl DataPath {
    /// Returns whether other processes may copy ranges of a file: each finds it by its name, and
    /// copies plain blocks.
    pub(super) fn is_shared(&self, task: &Task<'_>, whole: &Whole<'_>) -> bool {
        let (dir, name) = task.contents.target_dir();
        whole.size >= 2 * PIECE_BYTES
            && !self.transfer.verify
            && !self.transfer.atomic
            && !task.striped
            && !whole.target.is_device()
            && FileType::from_raw_mode(task.contents.stat.st_mode) == FileType::RegularFile
            && !is_link(dir, name)
    }

    /// Copies a file together with other processes. Returns the number of bytes in holes.
    pub(super) fn copy_shared(
        &self,
        task: &Task<'_>,
        target: &OpenTarget,
        whole: &Whole<'_>,
        helpers: &dyn Helpers,
    ) -> Result<u64, CopyError> {
        let contents = task.contents;
        let copied = whole.prepare()?;
        let made = fstat(&target.fd).at(FailedOperation::Stat, || contents.target_path())?;
        let stat = contents.stat;
        let facts = FileFacts {
            source_inode: stat.st_ino,
            size: stat.st_size as u64,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            target_inode: made.st_ino,
            follow: contents.follow,
        };
        let names = (contents.entry.source.to_owned(), contents.entry.target.to_owned());
        let dir = Arc::clone(contents.entry.dir);
        let file = Arc::new(SharedFile::new(dir, names, facts, copied.ranges));
        helpers.share(&file);
        let outcome = file.complete(helpers, |ranges| {
            self.run_job(&whole.job(ranges), None).map(drop).map_err(|(error, _)| error)
        });
        helpers.withdraw(&file);
        if let Err((missing, error)) = outcome {
            // This error is reported. A target that stays too long is no worse.
            let _ = whole.target.cut_off(missing);
            return Err(error);
        }
        whole.check_size()?;
        Ok(copied.holes)
    }

    /// Copies ranges of a file of another process, and lets further processes take of them.
    pub(crate) fn copy_ranges(
        &self,
        (source, target): (OwnedFd, OwnedFd),
        (source_path, target_path): (PathBuf, PathBuf),
        file: &Arc<SharedFile>,
        helpers: &dyn Helpers,
    ) -> Result<(), Failure> {
        let whole = |error: CopyError| (0, error);
        let options = self.open_options().map_err(whole)?;
        let open = |fd, path, write: bool| -> Result<File, Failure> {
            let mut options = options.clone();
            options.read(!write).write(write).adopt(fd, path).map_err(|error| whole(error.into()))
        };
        let (source, target) =
            (open(source, source_path, false)?, open(target, target_path, true)?);
        let contents = self.whole(&source, &target, file.facts.size);
        helpers.share(file);
        let copied = file.complete(helpers, |ranges| {
            self.run_job(&contents.job(ranges), None).map(drop).map_err(|(error, _)| error)
        });
        helpers.withdraw(file);
        let settled = target.settle().and(source.settle());
        self.ledger.count(&source.counters());
        self.ledger.count(&target.counters());
        copied?;
        settled.map_err(|error| whole(error.into()))?;
        if self.durable {
            // The process that lent them may be on another machine, where a sync of the file would
            // not write what is cached on this one.
            target.sync_data().map_err(|error| whole(error.into()))?;
            self.ledger.count_syncs(1);
        }
        Ok(())
    }
}
