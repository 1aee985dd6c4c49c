//! Threads that write small files while the archive is read on.
//!
//! Files are independent of each other unless they have the same name, or one has the name of a
//! directory above the other. In those cases the caller waits until earlier files are written, so
//! that the outcome is the same as with a single thread.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{CStr, CString};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use super::file::{Context, ExtractJob, Outline};
use super::root::Dir;
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

#[derive(Debug, Default)]
pub(super) struct CrewShared {
    state: Mutex<ExtractCrewState>,
    /// Signalled when a file is put into `waiting`, and when `closed` is set.
    more: Condvar,
    /// Signalled when a file is finished.
    less: Condvar,
}

/// The threads that write small files.
#[derive(Debug)]
pub(super) struct ExtractCrew<'s> {
    shared: &'s CrewShared,
    threads: Vec<ScopedJoinHandle<'s, ()>>,
    context: &'s Context<'s>,
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
        ExtractCrew { shared, threads: (0..count).map_while(start).collect(), context }
    }

    /// Hands over a file, and waits while the queue is full. The caller must have made sure that
    /// the file does not conflict with another one in the queue; see [`ExtractCrew::meets`].
    pub(super) fn take(&self, job: ExtractJob) {
        if self.threads.is_empty() {
            return job.write(self.context);
        }
        let mut state = self.shared.lock();
        while !state.files.is_empty()
            && (state.files.len() >= MOST_JOBS || state.bytes + job.bytes() > MOST_BYTES)
        {
            self.shared.less.wait(&mut state);
        }
        state.bytes += job.bytes();
        state.files.insert((job.dir.id, job.name.clone()));
        *state.parents.entry(job.parent().to_vec()).or_default() += 1;
        state.paths.insert(job.path.0.clone());
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
            let _done = FinishedFile {
                shared: self,
                key: Some((job.dir.id, job.name.clone())),
                job: Some(job.outline()),
            };
            job.write(context);
        }
    }
}

struct FinishedFile<'a> {
    shared: &'a CrewShared,
    key: Option<NamedFile>,
    job: Option<Outline>,
}

impl Drop for FinishedFile<'_> {
    fn drop(&mut self) {
        let (Some(key), Some((path, parent, bytes))) = (self.key.take(), self.job.take()) else {
            return;
        };
        let mut state = self.shared.lock();
        state.bytes -= bytes;
        state.files.remove(&key);
        state.paths.remove(&path);
        if let Some(count) = state.parents.get_mut(&parent) {
            *count -= 1;
            if *count == 0 {
                state.parents.remove(&parent);
            }
        }
        drop(state);
        self.shared.less.notify_all();
    }
}
