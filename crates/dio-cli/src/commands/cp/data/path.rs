//! The data path of a run, and the state of one file being copied.

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dio::transfer::Pace;
use parking_lot::Mutex;
use rustix::fs::FileType;
use rustix::io::Errno;

use super::super::checks::SharedPieces;
use super::super::error::CopyError;
use super::super::open::{Contents, OpenTarget};
use super::super::options::{CpOptions, Transfer};
use super::super::report::CopyLog;
use super::account::Account;
use super::copiers::Copiers;
use super::digests::Digests;
use super::forgetting::{DontCacheSupport, SmallTarget};
use crate::receipt::Ledger;
use crate::stop::Stop;
use crate::tool::Progress;
use crate::tool::evict::Evictor;

/// The data path of one run.
pub(crate) struct DataPath {
    pub(super) transfer: Transfer,
    /// Each file is synced when it is complete.
    pub(super) sync_each: bool,
    /// Everything must be durable when the process exits.
    pub(super) durable: bool,
    /// Cloning between these file systems failed permanently, so it is not tried for every file.
    pub(super) no_clone: AtomicBool,
    pub(super) progress: Arc<Progress>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) pace: Option<Pace>,
    pub(super) copiers: Copiers,
    /// Small targets that wait for a sync of the file system.
    pub(super) evictor: Evictor<SmallTarget>,
    pub(super) forgetting: DontCacheSupport,
    pub(super) stop: &'static Stop,
    /// Fall-backs reported so far: with `-v`, each kind is reported once.
    pub(super) told: Mutex<Vec<String>>,
    /// Set once it is reported that verification read through the page cache.
    pub(super) told_cached: AtomicBool,
    /// Set once it is reported that the process that wrote a file has verified it.
    pub(super) told_own: AtomicBool,
    pub(super) verified: VerifiedBytes,
    /// With `--verify`, a file that is made like its source gets its attributes last: a wrong copy
    /// would be taken for a right one later, by its time of modification.
    pub(super) attributes_last: bool,
    /// These attributes are synced for each file.
    pub(super) syncs_attributes: bool,
    pub(super) verbose: bool,
}

/// Bytes that were read back with `--verify`.
#[derive(Debug, Default)]
pub(super) struct VerifiedBytes {
    all: AtomicU64,
    own: AtomicU64,
}

impl VerifiedBytes {
    /// Counts bytes; `own` are those that this process has written.
    pub(super) fn add(&self, bytes: u64, own: bool) {
        self.all.fetch_add(bytes, Ordering::Relaxed);
        if own {
            self.own.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// All bytes so far, and those of them that this process has written itself.
    fn get(&self) -> (u64, u64) {
        (self.all.load(Ordering::Relaxed), self.own.load(Ordering::Relaxed))
    }
}

/// What a worker has for itself.
pub(crate) struct WorkerBuffer {
    pub(super) buffer: Vec<u8>,
    /// Entries of a directory that it has not begun.
    pub(in super::super) rest: VecDeque<CString>,
}

/// Callback that sets owner, times, mode and attributes on the open target. It is called when the
/// contents are complete, before they are synced or renamed into place. The flag says that the
/// target is new.
pub(crate) type Finish<'a> = &'a mut dyn FnMut(BorrowedFd<'_>, BorrowedFd<'_>, bool);

/// One file being copied, with its account.
pub(super) struct Task<'a> {
    pub(super) contents: &'a Contents<'a>,
    pub(super) source: OwnedFd,
    pub(super) account: Account<'a>,
    /// With `--verify`: digests of the blocks read while copying.
    pub(super) digests: Cell<Option<Digests>>,
    /// With `--verify`: pieces that several processes have written.
    pub(super) shared: Cell<Option<SharedPieces>>,
    /// The contents were written through the page cache without a flag that drops the pages.
    pub(super) plain: Cell<bool>,
    /// The file was copied by the small method, through the page cache.
    pub(super) small: Cell<bool>,
    /// The source or the target is striped: its bytes are in other files.
    pub(super) striped: bool,
}

impl<'a> Task<'a> {
    /// Makes the state of a file before it is copied.
    pub(super) fn new(
        contents: &'a Contents<'a>,
        source: OwnedFd,
        account: Account<'a>,
        striped: bool,
    ) -> Task<'a> {
        Task {
            contents,
            source,
            account,
            digests: Cell::new(None),
            shared: Cell::new(None),
            plain: Cell::new(false),
            small: Cell::new(false),
            striped,
        }
    }
}

impl DataPath {
    /// Makes the data path for a run with `options`. `sync_each` says that each file is synced by
    /// itself.
    pub(crate) fn new(
        options: &CpOptions,
        sync_each: bool,
        progress: Arc<Progress>,
        ledger: Arc<Ledger>,
    ) -> Self {
        let transfer = options.transfer.clone();
        Self {
            // A file must be on the medium before it is verified or renamed into place.
            sync_each: sync_each
                || transfer.verify
                || (transfer.atomic && options.sync)
                || transfer.resume,
            durable: options.sync,
            no_clone: AtomicBool::new(false),
            pace: transfer.limit.map(Pace::new),
            copiers: Copiers::new(transfer.block, transfer.depth),
            evictor: Evictor::default(),
            forgetting: DontCacheSupport::new(transfer.mode, options.sync && !sync_each),
            stop: Stop::on_signals(),
            told: Mutex::default(),
            told_cached: AtomicBool::new(false),
            told_own: AtomicBool::new(false),
            verified: VerifiedBytes::default(),
            attributes_last: transfer.verify && options.mirror.is_some(),
            syncs_attributes: sync_each || (transfer.atomic && options.sync),
            verbose: options.verbose,
            transfer,
            progress,
            ledger,
        }
    }

    /// Makes the state of one worker.
    pub(crate) fn lane(&self) -> WorkerBuffer {
        WorkerBuffer { buffer: Vec::new(), rest: VecDeque::new() }
    }

    /// Returns whether the run was asked to stop.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.asked()
    }

    /// Bytes that were read back so far: all, and those that this process had written itself.
    pub(crate) fn verified(&self) -> (u64, u64) {
        self.verified.get()
    }

    /// After `bytes` bytes, waits as long as `--limit` demands.
    pub(super) fn keep_pace(&self, bytes: u64) -> Result<(), CopyError> {
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

    /// With `-v`, reports once why something is not as fast or as direct as it could be.
    pub(super) fn tell(&self, report: &CopyLog, what: &str, path: Option<&std::path::Path>) {
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

    /// If an engine was requested by name, makes it now, so that a failure is found early.
    /// Otherwise the engine is made when the first large file is copied.
    pub(crate) fn check_engine(&self) -> Result<(), CopyError> {
        let wished = std::env::var_os("DIO_ENGINE").is_some_and(|name| !name.is_empty());
        if wished { self.copiers.try_io().map(drop) } else { Ok(()) }
    }

    /// After the whole run, drops the pages that only a sync of the file system has cleaned.
    pub(crate) fn finish(&self) {
        self.evictor.finish();
        self.ledger.count_buffers(self.copiers.bytes());
        self.ledger.look_again();
    }

    /// Name of the engine that copied large files, for the receipt.
    pub(crate) fn engine_name(&self) -> &'static str {
        self.copiers.io().map_or("none", |io| io.engine_name())
    }
}

/// Returns whether an existing target is a regular file or a block device that can be written at
/// any offset. Pipes, terminals and those files of `proc(5)` that accept bytes only in order are
/// not.
pub(super) fn has_blocks(target: &OpenTarget) -> bool {
    let blocks = rustix::fs::fstat(&target.fd).is_ok_and(|stat| {
        matches!(
            FileType::from_raw_mode(stat.st_mode),
            FileType::RegularFile | FileType::BlockDevice
        )
    });
    // The write has no bytes, so it changes nothing; only its error matters.
    blocks && rustix::io::pwrite(&target.fd, &[], 0) != Err(Errno::SPIPE)
}
