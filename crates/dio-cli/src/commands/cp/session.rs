//! What one run of `dio cp` shares among its workers.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;

use dio::names::FileId;
use parking_lot::Mutex;
use rustix::fs::{Mode, Stat};

use super::data::{DataPath, Lane};
use super::dirs::Dir;
use super::durable::Durable;
use super::links::Links;
use super::options::CpOptions;
use super::queue::{Queue, Work};
use super::report::{self, Report};
use crate::receipt::Ledger;
use crate::tool::{Destination, Progress};

/// Jobs that may wait; with up to [`CHUNK`] names each this bounds what a copy keeps in memory
/// besides the listings of the directories it is in.
const WAITING: usize = 1024;
/// Entries handed to a worker at once. Creating files locks their directory, so workers in one
/// directory mostly wait for each other: only large ones are shared.
pub(super) const CHUNK: usize = 128;

/// A deep tree keeps two directories open for each level: as many descriptors are asked for as the
/// system lets us have, up to this.
const DESCRIPTORS: u64 = 1 << 16;

/// Descriptors that a worker may have open at a time beside those of levels: a directory that it
/// comes to, or a file as the copy loop needs it.
const WORKERS_DESCRIPTORS: u64 = 12;

/// Descriptors that are left for the engine, the libraries and what is opened in passing.
const OTHER_DESCRIPTORS: u64 = 40;

/// A piece of work.
pub(crate) enum Job {
    /// Entries of a directory, under the same names in the target.
    Entries { dir: Arc<Dir>, names: Vec<CString> },
    /// An operand, looked at already.
    Operand { dir: Arc<Dir>, source: CString, target: CString, stat: Box<Stat> },
}

/// The shared state of a run.
pub(crate) struct Session {
    pub(crate) options: CpOptions,
    pub(crate) report: Report,
    pub(crate) data: DataPath,
    pub(crate) durable: Durable,
    pub(crate) progress: Arc<Progress>,
    pub(crate) ledger: Arc<Ledger>,
    pub(super) links: Links,
    /// Names created for operands, when there are several: none of them may be overwritten by a
    /// later one.
    pub(super) created: Option<Mutex<HashSet<PathBuf>>>,
    /// Directories named as operands and the first one made for each, by device and inode, with the
    /// target's name: met again while walking, a copy would go into itself.
    pub(super) roots: Mutex<HashMap<FileId, PathBuf>>,
    queue: Queue<Job>,
    /// Levels of a tree that are open, counted from one that is worked in.
    pub(super) levels: usize,
    /// The process's file mode creation mask.
    pub(super) umask: u32,
    /// User and group that files get where the directory does not say otherwise.
    pub(super) root: bool,
}

impl Session {
    /// A run with `options`; `several` operands are given, `tree` says that directories may be
    /// among them.
    pub(crate) fn new(options: CpOptions, several: bool, per_file_sync: bool) -> Arc<Self> {
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        crate::tool::allow_descriptors(DESCRIPTORS);
        // Questions and their answers belong to one file at a time.
        let most = if options.existing == super::options::Existing::Ask { 0 } else { workers() };
        let (workers, levels) = means(crate::tool::free_descriptors(), most);
        let progress = Arc::new(Progress::new(options.progress, report::name(), "copied"));
        let ledger = Arc::new(Ledger::new(options.receipt.is_some()));
        Arc::new(Self {
            report: Report::new(options.verbose),
            durable: Durable::new(options.sync, per_file_sync),
            data: DataPath::new(&options, options.sync && per_file_sync, Arc::clone(&progress), Arc::clone(&ledger)),
            ledger,
            progress,
            links: Links::default(),
            created: several.then(Mutex::default),
            roots: Mutex::default(),
            queue: Queue::new(workers, WAITING),
            levels,
            umask: umask.bits(),
            root: rustix::process::geteuid().is_root(),
            options,
        })
    }
}

impl Session {
    /// Writes the receipt, if one was asked for.
    pub(super) fn print_receipt(&self, to: Option<Destination>, durable: bool) {
        let (Some(to), Some(path)) = (to, &self.options.receipt) else { return };
        self.ledger.count_syncs(self.durable.syncs());
        if let Err(error) = to.print(&self.ledger, "cp", self.data.engine_name(), durable) {
            let (path, cause) = (crate::quote::quoted(path), crate::tool::receipt_words(&error));
            self.report.error(format_args!("cannot write the receipt {path}: {cause}"));
        }
    }
}

impl Work<Job> for Session {
    type Lane = Lane;

    fn queue(&self) -> &Queue<Job> {
        &self.queue
    }

    fn lane(&self) -> Lane {
        self.data.lane()
    }

    fn run(self: &Arc<Self>, lane: &mut Lane, job: Job) {
        match job {
            Job::Entries { dir, names } => {
                for name in &names {
                    self.copy(lane, &dir, (name, name), None);
                }
                self.leave(dir);
            }
            Job::Operand { dir, source, target, stat } => {
                self.copy(lane, &dir, (&source, &target), Some(*stat));
                self.leave(dir);
            }
        }
    }
}

/// Of so many workers those, and of the levels of a tree as many open for each, as there are
/// descriptors for. With few of them everything is done by one thread in one directory.
fn means(free: u64, workers: usize) -> (usize, usize) {
    let free = usize::try_from(free.saturating_sub(OTHER_DESCRIPTORS)).unwrap_or(usize::MAX);
    let workers = workers.min(free / 2 / WORKERS_DESCRIPTORS as usize);
    (workers, (free / 4 / (workers + 1)).max(1))
}

/// Four times the processors, because on a cold disk workers mostly wait; more than 16 only fight
/// over directories.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(4, |n| n.get() * 4).min(16)
}
