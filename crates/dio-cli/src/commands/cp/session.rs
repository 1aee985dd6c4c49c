//! What one run of `dio cp` shares among its workers.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, Stat};

use super::data::{DataPath, Lane};
use super::dirs::Dir;
use super::durable::Durable;
use super::links::Links;
use super::options::CpOptions;
use super::queue::{Queue, Work};
use super::report::{self, Report};
use crate::receipt::Ledger;
use crate::tool::Progress;

/// Jobs that may wait; with up to [`CHUNK`] names each this bounds what a copy keeps in memory
/// besides the listings of the directories it is in.
const WAITING: usize = 1024;
/// Entries handed to a worker at once. Creating files locks their directory, so workers in one
/// directory mostly wait for each other: only large ones are shared.
pub(super) const CHUNK: usize = 128;

/// A deep tree keeps two directories open for each level: as many descriptors are asked for as the system lets us have, up
/// to this.
const DESCRIPTORS: u64 = 1 << 16;

/// A piece of work.
pub(crate) enum Job {
    /// Entries of a directory, under the same names in the target.
    Entries { dir: Arc<Dir>, names: Vec<CString> },
    /// An operand, looked at already.
    Operand { dir: Arc<Dir>, source: CString, target: CString, stat: Box<Stat> },
}

/// One name to copy.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) dir: &'a Arc<Dir>,
    pub(crate) source: &'a CStr,
    pub(crate) target: &'a CStr,
    /// It was named on the command line.
    pub(crate) operand: bool,
}

impl Entry<'_> {
    pub(crate) fn source_path(&self) -> PathBuf {
        self.dir.source_path(self.source)
    }

    pub(crate) fn target_path(&self) -> PathBuf {
        self.dir.target_path(self.target)
    }
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
    /// Names created for operands, when there are several: none of them may be overwritten by a later one.
    pub(super) created: Option<Mutex<HashSet<PathBuf>>>,
    /// Directories named as operands and the first one made for each, by device and inode, with the
    /// target's name: met again while walking, a copy would go into itself.
    pub(super) roots: Mutex<HashMap<(u64, u64), PathBuf>>,
    queue: Queue<Job>,
    /// The process's file mode creation mask.
    pub(super) umask: u32,
    /// User and group that files get where the directory does not say otherwise.
    pub(super) root: bool,
}

impl Session {
    /// A run with `options`; `several` operands are given, `tree` says that directories may be among them.
    pub(crate) fn new(options: CpOptions, several: bool, per_file_sync: bool) -> Arc<Self> {
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        // Questions and their answers belong to one file at a time.
        let workers = if options.existing == super::options::Existing::Ask { 0 } else { workers() };
        crate::tool::allow_descriptors(DESCRIPTORS);
        let progress = Arc::new(Progress::new(options.progress, report::NAME.to_owned(), "copied"));
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
            umask: umask.bits(),
            root: rustix::process::geteuid().is_root(),
            options,
        })
    }
}

impl Session {
    /// Writes the receipt, if one was asked for.
    pub(super) fn print_receipt(&self, durable: bool) {
        let Some(to) = &self.options.receipt else { return };
        self.ledger.count_syncs(self.durable.syncs());
        if let Err(error) = self.ledger.print(to, "cp", self.data.engine_name(), durable) {
            let cause = super::super::words(&error);
            self.report.error(format_args!("cannot write the receipt {}: {cause}", crate::quote::quoted(to)));
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
                    self.copy(lane, Entry { dir: &dir, source: name, target: name, operand: false }, None);
                }
                self.leave(dir);
            }
            Job::Operand { dir, source, target, stat } => {
                self.copy(lane, Entry { dir: &dir, source: &source, target: &target, operand: true }, Some(*stat));
                self.leave(dir);
            }
        }
    }
}

/// Four times the processors, because on a cold disk workers mostly wait; more than 16 only fight over directories.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(4, |n| n.get() * 4).min(16)
}
