//! A copy that several processes do together, on file systems that all of them mount.
//!
//! Process 0 starts with the operands; the others have nothing, and ask. What a process has not
//! begun it lends: entries of directories with everything below them, and ranges of large files
//! (`lending`). A loan counts as one entry of its directory, so that the directory is finished
//! after it, by the process that made it. Process 0 is done when its operands are, and with them
//! every loan. Who asks whom, and how messages travel, is decided by the caller, which implements
//! [`Peers`].

mod account;
mod checking;
mod lending;
mod loans;
mod rounds;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{AtFlags, CWD, FileType, statat};
use serde::{Deserialize, Serialize};

use super::args::{self, CpArgs};
use super::data::WorkerBuffer;
use super::error::CopyError;
use super::operands::{TargetPath, Walk};
use super::options::{CpOptions, Dereference, ExistingRule};
use super::queue::RunJobs;
use super::session::{self, CopyRun};
use super::{Parsed, ranges};
use crate::grammar::{self, Grammar, Refusal};
use crate::stop::Stop;
use crate::tool::{Destination, Notes, When};
use account::Account;
use checking::Checkers;
pub(crate) use loans::Share;
use loans::Waiting;
pub use loans::{Parcel, Peers, Returned};
pub use ranges::{PIECE_BYTES, Rest};

/// Terms of a copy that process 0 decides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Terms {
    several: bool,
    per_file_sync: bool,
    links_at_first: bool,
}

/// What one process has done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    failed: bool,
    differs: bool,
    durable: bool,
    /// The account of this process, if a receipt is wanted.
    account: Option<Account>,
}

/// The commands that several processes do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `cp`, which copies.
    Cp,
    /// `sync`, which makes a tree like another one.
    Sync,
    /// `cmp`, which compares two trees.
    Cmp,
}

/// How much a process has done, and how many of its threads are at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Bytes that were copied.
    pub bytes: u64,
    /// Entries of directories that were done, whatever they are.
    pub entries: u64,
    /// Threads that work now and do not wait for another process.
    pub running: u64,
}

impl Load {
    /// The sum of both. Changes may be less than nothing, so all numbers wrap.
    #[must_use]
    pub fn plus(self, other: Load) -> Load {
        self.with(other, u64::wrapping_add)
    }

    /// The change since `other`.
    #[must_use]
    pub fn minus(self, other: Load) -> Load {
        self.with(other, u64::wrapping_sub)
    }

    fn with(self, other: Load, calculate: impl Fn(u64, u64) -> u64) -> Load {
        Load {
            bytes: calculate(self.bytes, other.bytes),
            entries: calculate(self.entries, other.entries),
            running: calculate(self.running, other.running),
        }
    }
}

/// One process's part of a copy.
pub struct Part {
    run: Arc<CopyRun>,
    checkers: Arc<Checkers>,
    walk: Option<JoinHandle<()>>,
    complete: Arc<AtomicBool>,
    receipt: Option<Destination>,
    /// In process 0: source and target, if what the source lacks is to be removed.
    delete: Option<(PathBuf, PathBuf)>,
}

/// A command line that process 0 has checked.
pub struct Command {
    parsed: Parsed,
    terms: Terms,
}

/// Has messages begin with `name` instead of `dio`.
pub fn set_program(name: &'static str) {
    grammar::set_program(name);
}

impl Tool {
    /// The name of the command.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cp => "cp",
            Self::Sync => "sync",
            Self::Cmp => "cmp",
        }
    }

    fn grammar(self) -> (Grammar<CpArgs>, CpArgs) {
        match self {
            Self::Cp => (args::grammar(), CpArgs::default()),
            Self::Sync => (args::mirror_grammar(), args::mirror_args()),
            Self::Cmp => (args::comparison_grammar(), args::comparison_args()),
        }
    }
}

impl Command {
    /// Parses the words behind the name of the command, and looks where the operands are to go.
    ///
    /// # Errors
    /// The exit status, if nothing is to be copied; the message was printed.
    pub fn parse(tool: Tool, words: Vec<OsString>) -> Result<Command, ExitCode> {
        let (grammar, args) = tool.grammar();
        let parsed = Parsed::parse((&grammar, args), words)?;
        if let Err(refusal) = is_possible(&parsed.options) {
            return Err(grammar.refuse(&refusal.with_status(2)));
        }
        let links = parsed.options.preserve.links;
        let is_directory = |path: &PathBuf| {
            statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
        };
        let terms = Terms {
            several: parsed.sources.len() > 1,
            per_file_sync: parsed.per_file_sync(),
            links_at_first: links && !parsed.sources.iter().all(is_directory),
        };
        Ok(Command { parsed, terms })
    }

    /// The terms for the other processes.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Whether the last operand is a directory that the copies go into.
    pub fn is_into(&self) -> bool {
        matches!(self.parsed.place, TargetPath::Into(_))
    }

    /// Has the copy take the name of the last operand, although a directory has that name now: an
    /// earlier attempt has made it.
    pub fn go_on_at(&mut self) {
        if let TargetPath::Into(path) = &mut self.parsed.place {
            self.parsed.place = TargetPath::At(std::mem::take(path));
        }
    }

    /// Whether everything is synced, so that it can be noted as durable.
    pub fn is_synced(&self) -> bool {
        self.parsed.options.sync
    }

    /// Whether files that exist may be left as they are. One that was cut short would be taken for
    /// a copy.
    pub fn leaves_existing(&self) -> bool {
        let options = &self.parsed.options;
        options.existing == ExistingRule::Keep || options.update
    }

    /// Starts the copy in process 0, of which `here` share this machine. What is durable is noted
    /// in `notes`.
    pub fn start(self, peers: Arc<dyn Peers>, here: usize, notes: Option<Arc<dyn Notes>>) -> Part {
        let Parsed { options, sources, place, receipt } = self.parsed;
        let mut part = Part::new(options, &self.terms, peers, here);
        part.keep_notes(notes);
        part.receipt = receipt;
        if part.run.options.mirror.is_some_and(|mirror| mirror.delete)
            && let (TargetPath::At(target), [source]) = (&place, &*sources)
        {
            part.delete = Some((source.clone(), target.clone()));
        }
        part.walk_by(move |run, lane| process_operands(run, lane, place, &sources));
        part
    }
}

fn process_operands(
    run: &Arc<CopyRun>,
    lane: &mut WorkerBuffer,
    place: TargetPath,
    sources: &[PathBuf],
) {
    match (run.data.check_engine(), &place, sources) {
        (Ok(()), TargetPath::At(target), [source]) if run.options.comparison.is_some() => {
            run.compare_operands(lane, (source, target));
        }
        (Ok(()), ..) => {
            let mut walk = Walk::new(run, place, sources.len() > 1);
            sources.iter().for_each(|source| walk.operand(lane, source));
        }
        (Err(error), ..) => run.report.error(error),
    }
}

/// Refuses options that need one process.
fn is_possible(options: &CpOptions) -> Result<(), Refusal> {
    let refused = [
        (options.existing == ExistingRule::Ask, "-i: nobody can be asked by several processes"),
        (options.transfer.resume, "--resume: not for several processes"),
    ];
    match refused.into_iter().find(|(is_given, _)| *is_given) {
        Some((_, told)) => Err(Refusal::plain(told)),
        None => Ok(()),
    }
}

impl Part {
    /// Starts the copy in another process than 0, by the same words.
    ///
    /// # Errors
    /// The exit status, if the words are not those that process 0 has checked.
    pub fn join(
        (tool, words): (Tool, Vec<OsString>),
        terms: &Terms,
        peers: Arc<dyn Peers>,
        here: usize,
        notes: Option<Arc<dyn Notes>>,
    ) -> Result<Part, ExitCode> {
        let (grammar, args) = tool.grammar();
        let resolve = |args| CpOptions::resolve(args).map(|(options, _)| options);
        let mut options = grammar.resolve_from(args, words, resolve)?;
        options.progress = When::Never;
        let part = Part::new(options, terms, peers, here);
        part.keep_notes(notes);
        Ok(part)
    }

    fn new(mut options: CpOptions, terms: &Terms, peers: Arc<dyn Peers>, here: usize) -> Part {
        let (rank, ranks) = (peers.rank(), peers.ranks());
        options.transfer.limit = options.transfer.limit.map(|limit| (limit / ranks as u64).max(1));
        let workers = (threads_at_first() / here.max(1)).max(1);
        let most = (THREADS_MAX / here.max(1)).max(1);
        let verify = options.transfer.verify;
        let threads = (most, Waiting::wanted(verify));
        let run = CopyRun::new(options, terms.several, terms.per_file_sync, threads);
        run.queue().set_workers(&run, workers);
        if rank != 0 {
            let to = Arc::clone(&peers);
            run.report.print_elsewhere(Box::new(move |error, line| to.print(error, line)));
        }
        let links = run.options.dereference != Dereference::Never || terms.links_at_first;
        let waiting = Waiting::within(run.threads_beside, verify);
        // This is the first call, so the value is set.
        let _ = run.share.set(Share::new(peers, links, waiting, workers));
        let checkers = Checkers::new(Arc::clone(&run), waiting.checkers.min(workers));
        Part { run, checkers, walk: None, complete: Arc::default(), receipt: None, delete: None }
    }

    /// Starts a walk in process 0, which is complete when all that it leads to is done.
    fn walk_by(&mut self, walk: impl FnOnce(&Arc<CopyRun>, &mut WorkerBuffer) + Send + 'static) {
        self.complete.store(false, Ordering::Release);
        let (run, complete) = (Arc::clone(&self.run), Arc::clone(&self.complete));
        let thread = std::thread::Builder::new().name("dio-walk".into());
        let begun = thread.spawn(move || {
            let mut lane = run.lane();
            run.queue().working(|| walk(&run, &mut lane));
            run.queue().drain(&run, &mut lane);
            complete.store(true, Ordering::Release);
        });
        match begun {
            Ok(begun) => self.walk = Some(begun),
            Err(error) => {
                self.run.report.error(format_args!("cannot start a thread: {error}"));
                self.complete.store(true, Ordering::Release);
            }
        }
    }

    /// Returns whether what the source lacks is to be removed when all is copied; only process 0
    /// knows.
    pub fn is_to_delete(&self) -> bool {
        self.delete.is_some()
    }

    /// Waits until everything that this process has copied is on the medium. Returns whether all of
    /// it was copied and is durable, so that others may be removed.
    pub fn is_durable(&self) -> bool {
        let run = &self.run;
        if let Err(errno) = if run.options.is_dry() { Ok(()) } else { run.durable.sync_now() } {
            run.report.error(format_args!("error syncing: {}", crate::quote::words(errno)));
        }
        !run.report.failed() && !run.data.stopped()
    }

    /// In process 0, starts to remove what the source lacks if `is_durable` says that the copies of
    /// all processes are durable.
    pub fn delete(&mut self, is_durable: bool) {
        let Some((source, target)) = self.delete.take() else { return };
        if !is_durable {
            self.run.report.error("not everything was copied: nothing is removed");
            return;
        }
        self.join_walk();
        self.walk_by(move |run, lane| run.remove_extras(lane, (&source, &target)));
    }

    fn join_walk(&mut self) {
        if self.walk.take().is_some_and(|walk| walk.join().is_err()) {
            self.run.report.error("a thread stopped: not everything was done");
        }
    }

    fn keep_notes(&self, notes: Option<Arc<dyn Notes>>) {
        if let Some(notes) = notes {
            // This is the first call, so the value is set.
            let _ = self.run.notes.set(notes);
            self.run.ledger.count_noted(0, 0);
        }
    }

    /// Returns what waits until everything that was written so far is on the medium. Another thread
    /// may call it, also while this part goes on.
    pub fn syncer(&self) -> impl Fn() -> io::Result<()> + Send + use<> {
        let run = Arc::clone(&self.run);
        move || Ok(run.durable.sync_now()?)
    }

    /// Prints a message about the whole part; with `failure` the copy has failed.
    pub fn tell(&self, failure: bool, told: impl std::fmt::Display) {
        if failure { self.run.report.error(told) } else { self.run.report.note(told) }
    }

    fn share(&self) -> &Share {
        self.run.share.get().expect("it was set when this was made")
    }

    /// Returns whether all operands are copied; only process 0 knows.
    pub fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// Returns whether a thread of this process panicked. Other processes would wait for it for
    /// ever.
    pub fn is_broken(&self) -> bool {
        let walk_stopped = self.walk.as_ref().is_some_and(JoinHandle::is_finished);
        self.run.queue().has_panicked()
            || self.checkers.has_panicked()
            || walk_stopped && !self.is_complete()
    }

    /// Returns whether this process has less to do than it can.
    pub fn is_hungry(&self) -> bool {
        !self.share().is_at_rest() && self.run.queue().is_hungry()
    }

    /// Has up to `threads` threads work from now on. With 0, this process asks for no work any
    /// more, and goes on by one thread in what no other one takes.
    pub fn set_threads(&self, threads: usize) {
        self.share().threads.store(threads, Ordering::Relaxed);
        self.run.queue().set_workers(&self.run, threads);
    }

    /// What this process has done so far.
    pub fn load(&self) -> Load {
        Load {
            bytes: self.run.progress.bytes(),
            entries: self.run.entries_done.load(Ordering::Relaxed),
            running: self.run.queue().running() as u64,
        }
    }

    /// Returns whether the speed is limited by an option, so that it tells nothing about the file
    /// system.
    pub fn is_limited(&self) -> bool {
        self.run.options.transfer.limit.is_some()
    }

    /// With `-v`, prints a message about the whole part.
    pub fn explain(&self, told: impl std::fmt::Display) {
        if self.run.options.verbose {
            self.run.report.note(told);
        }
    }

    /// Returns whether there is something to lend.
    pub fn can_lend(&self) -> bool {
        self.run.queue().has_spare() || self.share().files.lock().iter().any(|file| file.can_lend())
    }

    /// Gives away half of what has not begun; may be nothing.
    pub fn lend(&self) -> Vec<Parcel> {
        self.run.lend(self.share())
    }

    /// Takes work of another process.
    pub fn accept(&self, parcel: Parcel) {
        if parcel.is_check() {
            self.checkers.accept(parcel);
        } else {
            self.run.accept(parcel);
        }
    }

    /// Another process is done with work of this one.
    pub fn returned(&self, returned: Returned) {
        self.run.returned(self.share(), returned);
    }

    /// Shows bytes that other processes have copied as progress.
    pub fn add_bytes(&self, bytes: u64) {
        self.run.progress.add(bytes);
    }

    /// Prints a line of another process.
    pub fn print(&self, error: bool, line: &[u8]) {
        self.run.progress.aside(|| self.run.report.print(error, line));
    }

    /// Ends this process's part when nothing is left to do: waits for the medium.
    pub fn finish(&mut self) -> Summary {
        self.join_walk();
        let mut lane = self.run.lane();
        let durable = self.run.settle(&mut lane);
        if !self.checkers.close() {
            self.run.report.error("a thread stopped: not everything was verified");
        }
        let is_wanted = self.run.options.receipt.is_some();
        let account = is_wanted.then(|| Account::of(&self.run, self.share(), durable));
        let report = &self.run.report;
        let (failed, differs) = (report.failed(), report.differs());
        Summary { failed, differs, durable, account }
    }

    /// Ends the copy in process 0: prints what concerns all, given the summaries of all processes
    /// in their order. Returns the exit status: 0 if everything was done, else 1; of a comparison,
    /// 1 if something differs, and 2 after an error.
    pub fn conclude(self, summaries: &[Summary]) -> u8 {
        let run = &self.run;
        run.progress.finish();
        if run.data.stopped() {
            run.report.error(CopyError::Interrupted);
        }
        if let (Some(to), Some(path)) = (self.receipt, &run.options.receipt)
            && let Err(error) = print_receipt(to, summaries)
        {
            let (path, cause) = (crate::quote::quoted(path), crate::tool::receipt_words(&error));
            run.report.error(format_args!("cannot write the receipt {path}: {cause}"));
        }
        let failed = !run.report.finish() || summaries.iter().any(|summary| summary.failed);
        let differs = summaries.iter().any(|summary| summary.differs);
        match run.options.comparison {
            Some(_) if failed => 2,
            _ => u8::from(failed || differs),
        }
    }
}

/// The most threads that the processes of a machine use together.
pub const THREADS_MAX: usize = 64;

/// The number of threads with which the processes of a machine begin, together.
pub fn threads_at_first() -> usize {
    session::workers()
}

/// Requests a stop of this process, as by `signal`.
pub fn interrupt(signal: i32) {
    Stop::on_signals().ask(signal);
}

/// The signal by which this process was asked to stop.
pub fn interrupted() -> Option<i32> {
    Stop::on_signals().signal()
}

/// Writes the receipt of the job.
fn print_receipt(to: Destination, summaries: &[Summary]) -> io::Result<()> {
    let accounts: Vec<_> = summaries.iter().map(|summary| summary.account.as_ref()).collect();
    account::print(to, &accounts, summaries.iter().all(|summary| summary.durable))
}
