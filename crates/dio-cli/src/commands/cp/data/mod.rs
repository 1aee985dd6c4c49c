//! The data path: moves the contents of one file. The only part of `dio cp` that touches bytes.
//!
//! One [`DataPath`] serves a run; every worker has a [`Lane`] of its own, so that small files need no lock and no
//! allocation. A file takes one of these ways: `clone`, where the file system shares blocks; `small`, one buffer through
//! a page cache that forgets; `large`, through the library's copy loop; `plain`, for what has no size (devices, pipes,
//! `/proc`); and `few` instead of `large` where there are few descriptors. Under which name the bytes appear is `place`'s matter; `verify` and `resume` stand beside `large`.

mod account;
mod few;
mod large;
mod place;
mod plain;
mod resume;
mod small;
mod verify;

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dio::names;
use dio::transfer::Pace;
use parking_lot::Mutex;
use rustix::fs::{FileType, OFlags, fstat, ioctl_ficlone};
use rustix::io::Errno;

use super::error::{At, CopyError, Doing};
use super::open::{Contents, OpenTarget};
use super::options::{CpOptions, Transfer};
use super::report::Report;
use crate::receipt::Ledger;
use crate::stop::Stop;
use crate::tool::evict::Evictor;
use crate::tool::{Mode, Progress, When, synced};

use account::Account;
use large::Copiers;
#[cfg(feature = "fuzzing")]
pub(crate) use resume::fuzz_note;
use small::{Forgetting, SmallTarget};
use verify::Digests;

/// The data path of one run.
pub(crate) struct DataPath {
    transfer: Transfer,
    /// Every file is synced as it is done.
    sync_each: bool,
    /// Everything is to be durable on exit.
    durable: bool,
    /// Cloning was refused for good between these file systems: do not ask for every file.
    no_clone: AtomicBool,
    progress: Arc<Progress>,
    ledger: Arc<Ledger>,
    pace: Option<Pace>,
    copiers: Copiers,
    /// Small targets that wait for a sync of the file system.
    evictor: Evictor<SmallTarget>,
    forgetting: Forgetting,
    stop: &'static Stop,
    /// The first fall-back of each kind is told under `-v`.
    told: Mutex<Vec<String>>,
    /// That verification read the page cache was told.
    told_cached: AtomicBool,
    verbose: bool,
}

/// A worker's own buffer.
pub(crate) struct Lane {
    buffer: Vec<u8>,
}

/// Called once the contents are complete and before they are synced (or renamed into place): sets owner, times, mode and
/// attributes on the open target. The flag says that the target is new.
pub(crate) type Finish<'a> = &'a mut dyn FnMut(BorrowedFd<'_>, BorrowedFd<'_>, bool);

/// One file under way: what is copied, and where it is accounted for.
struct Task<'a> {
    contents: &'a Contents<'a>,
    source: OwnedFd,
    account: Account<'a>,
    /// Under `--verify`: what was read while copying.
    digests: Cell<Option<Digests>>,
    /// The contents were written through the page cache without a flag that makes it forget them.
    plain: Cell<bool>,
    /// It took the small way, through the page cache.
    small: Cell<bool>,
    /// The bytes of the source, or those of the target, are not behind its descriptor.
    striped: bool,
}

impl DataPath {
    /// A data path for a run with `options`; `sync_each` asks that each file be durable by itself.
    pub(crate) fn new(options: &CpOptions, sync_each: bool, progress: Arc<Progress>, ledger: Arc<Ledger>) -> Self {
        let transfer = options.transfer.clone();
        Self {
            // What is verified or renamed into place must be on the medium before.
            sync_each: sync_each || transfer.verify || (transfer.atomic && options.sync) || transfer.resume,
            durable: options.sync,
            no_clone: AtomicBool::new(false),
            pace: transfer.limit.map(Pace::new),
            copiers: Copiers::new(transfer.block, transfer.depth),
            evictor: Evictor::default(),
            forgetting: Forgetting::new(transfer.mode, options.sync && !sync_each),
            stop: Stop::on_signals(),
            told: Mutex::default(),
            told_cached: AtomicBool::new(false),
            verbose: options.verbose,
            transfer,
            progress,
            ledger,
        }
    }

    /// State for one worker.
    pub(crate) fn lane(&self) -> Lane {
        Lane { buffer: Vec::new() }
    }

    /// Whether the run was asked to stop.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.asked()
    }

    /// Copies the contents of one file.
    pub(crate) fn copy(&self, lane: &mut Lane, contents: &Contents<'_>, finish: Finish<'_>) -> Result<(), CopyError> {
        if self.stopped() {
            return Err(CopyError::Interrupted);
        }
        let source = contents.open_source(OFlags::empty())?;
        let (stat, striped) =
            names::stat_of_contents(&source, *contents.stat).at(Doing::Stat, || contents.source_path())?;
        let contents = &Contents { stat: &stat, ..*contents };
        let account = Account::open(&self.ledger, contents, &source);
        let (small, plain) = (Cell::new(false), Cell::new(false));
        let mut task = Task { contents, source, account, digests: Cell::new(None), small, plain, striped };
        let place = self.place(&task)?;
        if !place.target().fresh || self.transfer.atomic {
            let fd = &place.target().fd;
            task.striped |= names::is_striped(fd).at(Doing::Stat, || contents.target_path())?;
        }
        let outcome = self.fill(lane, &task, place.target()).and_then(|()| {
            let target = &place.target().fd;
            let before = if task.striped { fstat(target).ok() } else { None };
            finish(task.source.as_fd(), target.as_fd(), place.target().fresh);
            if let Some(before) = before {
                names::pass_on_attributes(target, &before).at(Doing::SetPermissions, || task.contents.target_path())?;
            }
            self.make_durable(&task, place.target())
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

    /// Chooses a way and takes it.
    fn fill(&self, lane: &mut Lane, task: &Task<'_>, target: &OpenTarget) -> Result<(), CopyError> {
        let stat = task.contents.stat;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::BlockDevice if task.striped => self.copy_large(lane, task, target),
            _ if !target.fresh && !has_blocks(target) => self.copy_plain(lane, task, target),
            FileType::RegularFile if self.clone(task, target)? => {
                task.account.reflinked(size);
                // An existing target may have been longer.
                rustix::fs::ftruncate(&target.fd, size).at(Doing::Extend, || task.contents.target_path())
            }
            // A file that says 0 may still have contents, as those of /proc do.
            FileType::RegularFile if size == 0 && self.transfer.verify => self.copy_plain(lane, task, target),
            FileType::RegularFile if self.is_small(size) => self.copy_small(lane, task, target),
            FileType::RegularFile | FileType::BlockDevice => self.copy_large(lane, task, target),
            _ => self.copy_plain(lane, task, target),
        }
    }

    /// Whether a file of this size takes the small way.
    fn is_small(&self, size: u64) -> bool {
        let transfer = &self.transfer;
        // What is uncached by choice falls back where the kernel cannot, so under --strict all go direct.
        let plain = !transfer.verify && !transfer.resume && !transfer.strict;
        let plain = plain && transfer.sparse != When::Always && transfer.limit.is_none();
        match transfer.mode {
            Mode::Auto => size == 0 || (size <= transfer.small && plain),
            Mode::Direct | Mode::Uncached | Mode::Cached => size == 0,
        }
    }

    /// Shares the blocks of the source, where the options and the file system allow.
    fn clone(&self, task: &Task<'_>, target: &OpenTarget) -> Result<bool, CopyError> {
        let contents = task.contents;
        let wanted = self.transfer.reflink;
        if wanted == When::Never
            || (wanted == When::Auto && (self.no_clone.load(Ordering::Relaxed) || contents.stat.st_size == 0))
            || (wanted == When::Auto && (self.transfer.sparse != When::Auto || self.transfer.verify))
        {
            return Ok(false);
        }
        match ioctl_ficlone(&target.fd, &task.source) {
            Ok(()) => Ok(true),
            Err(errno) if wanted == When::Always => {
                Err(CopyError::Clone { path: contents.target_path(), from: contents.source_path(), errno })
            }
            Err(errno) => {
                if matches!(errno, Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY) {
                    self.no_clone.store(true, Ordering::Relaxed);
                }
                Ok(false)
            }
        }
    }

    /// Syncs the file where files are synced one by one; only then are its pages clean and can go.
    fn make_durable(&self, task: &Task<'_>, target: &OpenTarget) -> Result<(), CopyError> {
        if self.sync_each {
            synced::fsync(&target.fd).at(Doing::Sync, || task.contents.target_path())?;
            self.ledger.count_syncs(1);
        }
        let verified = if self.transfer.verify { self.verify(task, target) } else { Ok(()) };
        // What proved wrong is not to be continued either.
        self.forget_note(task);
        verified?;
        self.forget_small(task, target);
        task.account.close(&task.source, target);
        Ok(())
    }

    /// Waits as long as `--limit` asks for after so many bytes.
    fn keep_pace(&self, bytes: u64) -> Result<(), CopyError> {
        let Some(pace) = &self.pace else { return Ok(()) };
        pace.spend(bytes);
        while let Some(pause) = pace.pause() {
            if self.stopped() {
                return Err(CopyError::Interrupted);
            }
            std::thread::sleep(pause.min(std::time::Duration::from_millis(50)));
        }
        Ok(())
    }

    /// Tells once, under `-v`, why something is not as fast or as direct as it could be.
    fn tell(&self, report: &Report, what: &str, path: Option<&std::path::Path>) {
        if !self.verbose {
            return;
        }
        let mut told = self.told.lock();
        if told.iter().any(|known| known == what) {
            return;
        }
        told.push(what.to_owned());
        match path {
            Some(path) => report.note(format_args!("{}: {what}", crate::quote::quoted(path))),
            None => report.note(what),
        }
    }

    /// Finds out early that an engine which was asked for by name cannot be had. Without a wish it is made when the first
    /// large file comes.
    pub(crate) fn check_engine(&self) -> Result<(), CopyError> {
        let wished = std::env::var_os("DIO_ENGINE").is_some_and(|name| !name.is_empty());
        if wished { self.copiers.try_io().map(drop) } else { Ok(()) }
    }

    /// After the whole run: drops what only a sync of the file system made clean.
    pub(crate) fn finish(&self) {
        self.evictor.finish();
        self.ledger.count_buffers(self.copiers.bytes());
        self.ledger.look_again();
    }

    /// The engine that large files took, for the receipt.
    pub(crate) fn engine_name(&self) -> &'static str {
        self.copiers.io().map_or("none", |io| io.engine_name())
    }
}

/// Whether an existing target is a regular file or a block device that can be written at any
/// offset, rather than a pipe, a terminal or one of those files of `proc(5)` that take bytes only
/// in order.
fn has_blocks(target: &OpenTarget) -> bool {
    let blocks = rustix::fs::fstat(&target.fd).is_ok_and(|stat| {
        matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::BlockDevice)
    });
    // Nothing is written; only the answer differs.
    blocks && rustix::io::pwrite(&target.fd, &[], 0) != Err(Errno::SPIPE)
}
