//! Threads that write small files while the archive is read on.
//!
//! Files are independent of each other unless they have the same name, or one has the name of a
//! directory above the other. In those cases the caller waits until earlier files are written, so
//! that the outcome is the same as with a single thread.
//!
//! If several processes extract an archive, files go to these instead ([`Others`]).

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{CStr, CString};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use super::super::run::EarlyEnd;
use super::file::{Context, ExtractJob, Finished};
use super::others::Others;
use super::root::Dir;
use super::stored::Stored;
use dio::names::FileId;
use parking_lot::{Condvar, Mutex, MutexGuard};

/// Limits for the files that wait to be written or are being written: their number and their bytes.
const MOST_JOBS: usize = 256;
const MOST_BYTES: usize = 32 << 20;

/// With fewer free descriptors than this, no threads are started.
const DESCRIPTORS: u64 = MOST_JOBS as u64 * 3 / 2;

/// More threads than this would only wait for each other in the kernel.
const MOST_THREADS: usize = 4;

/// A file, identified by its directory and its name there.
type NamedFile = (FileId, CString);

#[derive(Debug, Default)]
struct ExtractCrewState {
    waiting: VecDeque<ExtractJob>,
    /// Files that wait or are being written. Invariant: each occurs only once.
    files: HashSet<NamedFile>,
    /// The paths of these files.
    paths: HashSet<Vec<u8>>,
    /// The number of these files in each directory, by path.
    parents: HashMap<Vec<u8>, usize>,
    bytes: usize,
    closed: bool,
}

impl ExtractCrewState {
    /// Adds a file to the lists.
    fn enter(&mut self, job: &ExtractJob) -> Finished {
        let (key, outline) = ((job.dir.id, job.name.clone()), job.outline());
        self.bytes += outline.2;
        self.files.insert(key.clone());
        *self.parents.entry(outline.1.clone()).or_default() += 1;
        self.paths.insert(outline.0.clone());
        (key, outline)
    }

    /// Removes a file from the lists.
    fn leave(&mut self, (key, (path, parent, bytes)): Finished) {
        self.bytes -= bytes;
        self.files.remove(&key);
        self.paths.remove(&path);
        if let Some(count) = self.parents.get_mut(&parent) {
            *count -= 1;
            if *count == 0 {
                self.parents.remove(&parent);
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct CrewShared {
    state: Mutex<ExtractCrewState>,
    /// Signalled when a file is put into `waiting`, and when `closed` is set.
    more: Condvar,
    /// Signalled when a file is finished.
    less: Condvar,
}

/// The threads that write small files, or the processes that write all.
pub(super) struct ExtractCrew<'s> {
    shared: &'s CrewShared,
    threads: Vec<ScopedJoinHandle<'s, ()>>,
    context: &'s Context<'s>,
    others: Option<RefCell<Others<'s>>>,
}

impl<'s> ExtractCrew<'s> {
    /// Starts the threads. If none can be started, the calling thread writes the files.
    pub(super) fn new<'e>(
        scope: &'s Scope<'s, 'e>,
        shared: &'s CrewShared,
        context: &'s Context<'s>,
    ) -> ExtractCrew<'s> {
        let cores =
            std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_THREADS));
        // Each waiting file keeps its directory open.
        let count = if crate::tool::free_descriptors() < DESCRIPTORS { 0 } else { cores };
        let start = |_| {
            Builder::new().name("extract".into()).spawn_scoped(scope, || shared.work(context)).ok()
        };
        let threads = (0..count).map_while(start).collect();
        ExtractCrew { shared, threads, context, others: None }
    }

    /// Has other processes extract files.
    pub(super) fn of_others(
        shared: &'s CrewShared,
        context: &'s Context<'s>,
        others: Others<'s>,
    ) -> ExtractCrew<'s> {
        let others = Some(RefCell::new(others));
        ExtractCrew { shared, threads: Vec::new(), context, others }
    }

    /// Whether files go to other processes, by [`ExtractCrew::share`] instead of
    /// [`ExtractCrew::take`].
    pub(super) fn is_shared(&self) -> bool {
        self.others.is_some()
    }

    /// Whether another process cannot read the archive, or a signal arrived.
    pub(super) fn has_ended(&self) -> bool {
        self.others.as_ref().is_some_and(|others| others.borrow().has_ended())
    }

    /// Hands a file over to other processes. The caller must have made sure what
    /// [`ExtractCrew::take`] demands.
    pub(super) fn share(&self, job: ExtractJob, stored: Stored) {
        let Some(others) = &self.others else { return };
        let finished = self.shared.lock().enter(&job);
        others.borrow_mut().give(job, finished, stored);
        self.leave(&mut others.borrow_mut());
    }

    /// Ends the work of other processes.
    ///
    /// # Errors
    /// The reason for which it ended early.
    pub(super) fn finish(&self) -> Result<(), EarlyEnd> {
        self.others.as_ref().map_or(Ok(()), |others| others.borrow_mut().finish())
    }

    fn leave(&self, others: &mut Others<'s>) {
        let mut state = self.shared.lock();
        others.take_done().into_iter().for_each(|finished| state.leave(finished));
    }

    /// Hands over a file, and waits while the queue is full. The caller must have made sure that
    /// the file does not conflict with another one in the queue; see [`ExtractCrew::meets`].
    pub(super) fn take(&self, job: ExtractJob) {
        if self.threads.is_empty() {
            return drop(job.write(self.context));
        }
        let mut state = self.shared.lock();
        while !state.files.is_empty()
            && (state.files.len() >= MOST_JOBS || state.bytes + job.bytes() > MOST_BYTES)
        {
            self.shared.less.wait(&mut state);
        }
        state.enter(&job);
        state.waiting.push_back(job);
        drop(state);
        self.shared.more.notify_one();
    }

    /// Whether an unfinished file has this name in `dir`, or lies in the directory `path`.
    pub(super) fn meets(&self, dir: &Dir, name: &CStr, path: &[u8]) -> bool {
        let state = self.shared.lock();
        !state.files.is_empty()
            && (state.parents.contains_key(path)
                || state.files.contains(&(dir.id, name.to_owned())))
    }

    /// Whether an unfinished file has the path `path` or that of a directory above it.
    pub(super) fn is_under(&self, path: &[u8]) -> bool {
        let state = self.shared.lock();
        if state.paths.is_empty() {
            return false;
        }
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.chain([path.len()]).any(|end| state.paths.contains(&path[..end]))
    }

    /// Waits until all files handed over are written.
    pub(super) fn settle(&self) {
        if let Some(others) = &self.others {
            let mut others = others.borrow_mut();
            others.settle();
            return self.leave(&mut others);
        }
        let mut state = self.shared.lock();
        while !state.files.is_empty() {
            self.shared.less.wait(&mut state);
        }
    }
}

impl Drop for ExtractCrew<'_> {
    /// Waits for the threads, which first finish the files in the queue.
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.more.notify_all();
        for thread in self.threads.drain(..) {
            // The thread itself has already reported the panic.
            if thread.join().is_err() {
                self.context.run.fail();
            }
        }
    }
}

impl CrewShared {
    fn lock(&self) -> MutexGuard<'_, ExtractCrewState> {
        self.state.lock()
    }

    fn work(&self, context: &Context<'_>) {
        loop {
            let mut state = self.lock();
            let job = loop {
                match state.waiting.pop_front() {
                    Some(job) => break job,
                    None if state.closed => return,
                    None => self.more.wait(&mut state),
                }
            };
            drop(state);
            // The guard removes the file from the queue even if writing panics: other threads wait
            // for it.
            let key = (job.dir.id, job.name.clone());
            let _done = FinishedFile { shared: self, file: Some((key, job.outline())) };
            drop(job.write(context));
        }
    }
}

struct FinishedFile<'a> {
    shared: &'a CrewShared,
    file: Option<Finished>,
}

impl Drop for FinishedFile<'_> {
    fn drop(&mut self) {
        let Some(finished) = self.file.take() else { return };
        self.shared.lock().leave(finished);
        self.shared.less.notify_all();
    }
}
