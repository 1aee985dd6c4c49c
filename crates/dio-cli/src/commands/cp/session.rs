//! State that the workers of one run of `dio cp` share.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use dio::names::FileId;
use parking_lot::Mutex;
use rustix::fs::{Mode, Stat};

use super::data::{DataPath, WorkerBuffer};
use super::dirs::Dir;
use super::durable::Durable;
use super::links::Links;
use super::options::CpOptions;
use super::queue::{JobQueue, RunJobs};
use super::report::CopyLog;
use super::role::Task;
use super::shared::{Parcel, Share};
use crate::receipt::Ledger;
use crate::tool::{Destination, Notes, Progress};

/// Maximum number of waiting jobs. With up to [`ENTRIES_PER_JOB`] names each, this limits what a
/// copy keeps in memory besides the listings of the directories in use.
const JOBS_WAITING_MAX: usize = 1024;
/// Number of entries given to a worker at once. Creating files locks their directory, so workers in
/// one directory mostly wait for each other: only large directories are shared.
pub(super) const ENTRIES_PER_JOB: usize = 128;

/// Maximum number of descriptors to request from the system. A deep tree keeps two directories open
/// for each level.
const DESCRIPTORS: u64 = 1 << 16;

/// Descriptors that a worker may have open at a time besides those of levels: for a directory that
/// it enters, or for a file in the copy loop.
const WORKERS_DESCRIPTORS: u64 = 12;

/// Descriptors reserved for the engine, the libraries and files that are opened briefly.
const OTHER_DESCRIPTORS: u64 = 40;

/// A job for a worker.
pub(crate) enum CopyJob {
    /// Entries of a directory, under the same names in the target.
    Entries { dir: Arc<Dir>, names: Vec<CString> },
    /// Entries that another process could not do, so that they stay here.
    Kept { dir: Arc<Dir>, names: Vec<CString> },
    /// Work of the process `rank`.
    Lent { parcel: Box<Parcel> },
    /// An operand, with its attributes.
    Operand { dir: Arc<Dir>, source: CString, target: CString, stat: Box<Stat> },
}

/// The shared state of a run.
pub(crate) struct CopyRun {
    pub(crate) options: CpOptions,
    pub(crate) report: CopyLog,
    pub(crate) data: DataPath,
    pub(crate) durable: Durable,
    pub(crate) progress: Arc<Progress>,
    pub(crate) ledger: Arc<Ledger>,
    pub(super) links: Links,
    /// Names created for operands, if there are several. A later operand must not overwrite them.
    pub(super) created: Option<Mutex<HashSet<PathBuf>>>,
    /// The first directory made for each operand, by device and inode, with its name. If the walk
    /// meets one as a source, the copy would go into itself.
    pub(super) roots: Mutex<HashMap<FileId, PathBuf>>,
    /// The other processes, if the copy is shared.
    pub(super) share: OnceLock<Share>,
    /// Notes of what is durable, if they are kept.
    pub(super) notes: OnceLock<Arc<dyn Notes>>,
    /// Device and inode of the source directory that the target is made like.
    pub(super) root_copied: OnceLock<FileId>,
    /// Number of entries that were done.
    pub(super) entries_done: AtomicU64,
    queue: JobQueue<CopyJob>,
    /// Number of levels of a tree that stay open, counted upwards from a directory in use.
    pub(super) levels: usize,
    /// Number of threads besides the workers that may have files open: each waits for another
    /// process, or reads back for one.
    pub(super) threads_beside: usize,
    /// The process's file mode creation mask.
    pub(super) umask: u32,
    /// The effective user is root.
    pub(super) root: bool,
}

impl CopyRun {
    /// Makes the state for a run with `options`. `several` says that there is more than one
    /// operand; `per_file_sync` that each file is synced by itself. At most `workers` threads work,
    /// and `beside` wait for other processes or read back for them.
    pub(crate) fn new(
        options: CpOptions,
        several: bool,
        per_file_sync: bool,
        (workers, beside): (usize, usize),
    ) -> Arc<Self> {
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        crate::tool::allow_descriptors(DESCRIPTORS);
        // Questions are asked about one file at a time, so there are no workers.
        let most = if options.existing == super::options::ExistingRule::Ask { 0 } else { workers };
        let free = crate::tool::free_descriptors();
        let Division { workers, beside, levels } = divide_descriptors(free, most, beside);
        let report = CopyLog::new(options.command(), options.verbose);
        let progress = Arc::new(Progress::new(options.progress, report.name(), "copied"));
        let ledger = Arc::new(Ledger::new(options.receipt.is_some()));
        Arc::new(Self {
            report,
            durable: Durable::new(options.sync, per_file_sync),
            data: DataPath::new(
                &options,
                options.sync && per_file_sync,
                Arc::clone(&progress),
                Arc::clone(&ledger),
            ),
            ledger,
            progress,
            links: Links::default(),
            created: several.then(Mutex::default),
            roots: Mutex::default(),
            share: OnceLock::new(),
            notes: OnceLock::new(),
            root_copied: OnceLock::new(),
            entries_done: AtomicU64::new(0),
            queue: JobQueue::new(workers, JOBS_WAITING_MAX),
            levels,
            threads_beside: beside,
            umask: umask.bits(),
            root: rustix::process::geteuid().is_root(),
            options,
        })
    }
}

impl CopyRun {
    /// Does the task of `dir` with one of its names.
    pub(super) fn process(self: &Arc<Self>, lane: &mut WorkerBuffer, dir: &Arc<Dir>, name: &CStr) {
        match dir.role.task {
            Task::Copy => self.copy(lane, dir, (name, name), None),
            Task::Remove => self.remove_extra(lane, dir, name),
            Task::Compare => self.compare(lane, dir, (name, name)),
        }
        self.entries_done.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits for the workers and ends them, then for the medium. Returns whether everything that
    /// was written is durable.
    pub(super) fn settle(self: &Arc<Self>, lane: &mut WorkerBuffer) -> bool {
        if !self.queue().close(self, lane) {
            self.report.error("a worker stopped: not everything was copied");
        }
        let synced = self.durable.finish();
        self.data.finish();
        let durable = synced.is_ok() && self.options.sync && !self.report.failed();
        if let Err(error) = synced {
            self.report.error(error);
        }
        self.ledger.count_syncs(self.durable.syncs());
        durable
    }

    /// Writes the receipt, if one was requested.
    pub(super) fn print_receipt(&self, to: Option<Destination>, durable: bool) {
        let (Some(to), Some(path)) = (to, &self.options.receipt) else { return };
        if let Err(error) =
            to.print(&self.ledger, self.options.command(), self.data.engine_name(), durable)
        {
            let (path, cause) = (crate::quote::quoted(path), crate::tool::receipt_words(&error));
            self.report.error(format_args!("cannot write the receipt {path}: {cause}"));
        }
    }
}

impl RunJobs<CopyJob> for CopyRun {
    type Lane = WorkerBuffer;

    fn queue(&self) -> &JobQueue<CopyJob> {
        &self.queue
    }

    fn lane(&self) -> WorkerBuffer {
        self.data.lane()
    }

    fn run(self: &Arc<Self>, lane: &mut WorkerBuffer, job: CopyJob) {
        match job {
            CopyJob::Entries { dir, names } => {
                self.copy_entries(lane, &dir, names);
                self.leave(dir);
            }
            CopyJob::Kept { dir, names } => {
                names.iter().for_each(|name| self.process(lane, &dir, name));
                self.leave(dir);
            }
            CopyJob::Lent { parcel } => self.run_lent(lane, *parcel),
            CopyJob::Operand { dir, source, target, stat } => {
                self.copy(lane, &dir, (&source, &target), Some(*stat));
                self.leave(dir);
            }
        }
    }
}

/// How the free descriptors are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    /// Number of workers.
    workers: usize,
    /// Number of threads besides them.
    beside: usize,
    /// Number of levels of a tree that stay open for each.
    levels: usize,
}

/// Divides `free` descriptors among at most `workers` workers and `beside` further threads, and the
/// levels of a tree that each keeps open. With few descriptors, one thread does everything and
/// keeps one level.
fn divide_descriptors(free: u64, workers: usize, beside: usize) -> Division {
    let free = usize::try_from(free.saturating_sub(OTHER_DESCRIPTORS)).unwrap_or(usize::MAX);
    let threads = free / 2 / WORKERS_DESCRIPTORS as usize;
    let workers = workers.min(threads - beside.min(threads / 2));
    let beside = beside.min(threads - workers);
    Division { workers, beside, levels: (free / 4 / (workers + beside + 1)).max(1) }
}

/// Number of workers: four times the processors, because on a cold disk workers mostly wait; but no
/// more than 16, which would only contend for directories.
pub(super) fn workers() -> usize {
    std::thread::available_parallelism().map_or(4, |n| n.get() * 4).min(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_together_have_the_descriptors_that_they_may_open() {
        for free in 0..3000 {
            for (workers, beside) in [(0, 0), (1, 0), (4, 0), (16, 0), (1, 36), (4, 16), (16, 36)] {
                let found = divide_descriptors(free, workers, beside);
                assert!(found.workers <= workers && found.beside <= beside && found.levels >= 1);
                let threads = found.workers + found.beside;
                let open = OTHER_DESCRIPTORS
                    + WORKERS_DESCRIPTORS * threads as u64
                    // Of each level, both directories.
                    + 2 * (found.levels * (threads + 1)) as u64;
                assert!(open <= free.max(OTHER_DESCRIPTORS + 2), "{free}: {found:?}");
            }
        }
        let usual = Division { workers: 16, beside: 36, levels: 308 };
        assert_eq!(divide_descriptors(DESCRIPTORS, 16, 36), usual);
        assert_eq!(divide_descriptors(40 + 24 * 10, 16, 36).workers, 5, "half of them at least");
    }
}
