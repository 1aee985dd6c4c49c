//! Threads that sort batches. They also write batches as runs when the reader needs the memory.

use std::collections::{BTreeMap, VecDeque};
use std::thread::{self, Scope};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::batch::Batch;
use super::failure::{SortFailure, SortResult};
use super::merge::LineWriter;
use super::piece::LineRules;
use super::plan::MemoryPlan;
use super::store::{Store, StoredRun};

/// The sorting threads and their shared state.
///
/// Batches are numbered in the order of the input, and each run has the number of its batch. A
/// sorted batch stays in memory until the reader needs its memory; batches that are in memory when
/// the input ends are never written.
#[derive(Debug)]
pub(super) struct SortCrew<'a> {
    pub(super) plan: &'a MemoryPlan,
    pub(super) store: &'a Store<'a>,
    pub(super) how: LineRules<'a>,
    state: Mutex<SortCrewState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SortCrewState {
    /// Batches that wait to be sorted.
    filled: VecDeque<(u64, Batch)>,
    sorted: BTreeMap<u64, Batch>,
    kept: BTreeMap<u64, StoredRun>,
    free: Vec<Batch>,
    /// Memory of all existing batches, in bytes.
    memory: u64,
    /// Number of threads, and how many of them are working.
    threads: usize,
    busy: usize,
    /// Set while sorted batches have to be written to free their memory.
    spilling: bool,
    ended: bool,
    failure: Option<SortFailure>,
}

/// The next task of a thread.
enum SortJob {
    Sort(u64, Batch),
    Write(u64, Batch),
}

impl SortCrewState {
    /// Takes the next job, if there is one. While `spilling` is set, writing comes before sorting.
    fn take_job(&mut self) -> Option<SortJob> {
        let written = if self.spilling { self.sorted.pop_first() } else { None };
        let job = match written {
            Some((number, batch)) => Some(SortJob::Write(number, batch)),
            None => self.filled.pop_front().map(|(number, batch)| SortJob::Sort(number, batch)),
        };
        self.busy += usize::from(job.is_some());
        job
    }
}

impl<'a> SortCrew<'a> {
    pub(super) fn new(
        plan: &'a MemoryPlan,
        store: &'a Store<'a>,
        how: LineRules<'a>,
    ) -> SortCrew<'a> {
        SortCrew { plan, store, how, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, SortCrewState> {
        self.state.lock()
    }

    /// Returns an empty batch of `size` bytes, and waits until there is memory for it.
    ///
    /// # Errors
    /// A thread failed, or memory cannot be allocated.
    pub(super) fn batch(&self, size: u64, mean: u64) -> SortResult<Batch> {
        let mut state = self.lock();
        loop {
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            if let Some(index) = state.free.iter().position(|batch| batch.suits(size, mean)) {
                let batch = state.free.swap_remove(index);
                // The reader needs the next free batch soon, so spilling begins early.
                state.spilling = state.free.is_empty() && state.memory + size > self.plan.batches;
                self.changed.notify_all();
                return Ok(batch);
            }
            if state.memory == 0 || state.memory + size <= self.plan.batches {
                state.memory += size;
                state.spilling = state.free.is_empty() && state.memory + size > self.plan.batches;
                self.changed.notify_all();
                drop(state);
                return Batch::new(size, mean).map_err(SortFailure::Memory);
            }
            if let Some(batch) = state.free.pop() {
                state.memory -= batch.size();
                continue;
            }
            state.spilling = true;
            self.changed.notify_all();
            state = self.work_or_wait(state);
        }
    }

    /// Queues a batch for sorting and starts another thread in `scope` if all are busy. If no
    /// thread can be started, the caller sorts the batch.
    pub(super) fn hand_over<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        number: u64,
        batch: Batch,
    ) {
        let mut state = self.lock();
        state.filled.push_back((number, batch));
        if state.threads < self.plan.workers && state.filled.len() + state.busy > state.threads {
            let spawned =
                thread::Builder::new().name("sort".into()).spawn_scoped(scope, || self.work());
            // A failed spawn is not an error: sorting only takes longer.
            state.threads += usize::from(spawned.is_ok());
        }
        let alone = state.threads == 0;
        drop(state);
        self.changed.notify_all();
        if alone {
            self.work_here();
        }
    }

    /// Number of kept runs.
    pub(super) fn kept(&self) -> usize {
        self.lock().kept.len()
    }

    /// Writes all batches, takes all runs out, and releases the memory of the batches.
    ///
    /// # Errors
    /// A thread failed.
    pub(super) fn clear(&self) -> SortResult<BTreeMap<u64, StoredRun>> {
        let mut state = self.lock();
        while !(state.filled.is_empty() && state.sorted.is_empty() && state.busy == 0)
            && state.failure.is_none()
        {
            state.spilling = true;
            self.changed.notify_all();
            state = self.work_or_wait(state);
        }
        if let Some(failure) = state.failure.take() {
            return Err(failure);
        }
        state.free.clear();
        state.memory = 0;
        Ok(std::mem::take(&mut state.kept))
    }

    /// Adds runs that were made by merging other runs.
    pub(super) fn keep(&self, runs: BTreeMap<u64, StoredRun>) {
        self.lock().kept.extend(runs);
    }

    /// Returns a guard that, when dropped, tells the threads that no more batches come.
    pub(super) fn end_at_the_end(&self) -> EndOfBatches<'_> {
        EndOfBatches(self)
    }

    /// Returns the batches in memory and the kept runs, after all threads have ended.
    ///
    /// # Errors
    /// A thread failed.
    pub(super) fn into_runs(self) -> SortResult<(BTreeMap<u64, Batch>, BTreeMap<u64, StoredRun>)> {
        let state = self.state.into_inner();
        match state.failure {
            Some(failure) => Err(failure),
            None => Ok((state.sorted, state.kept)),
        }
    }

    fn work(&self) {
        let panicked = Panicked(self);
        while let Some(job) = self.next_job() {
            self.run(job);
        }
        drop(panicked);
    }

    /// Does all pending jobs in the calling thread.
    fn work_here(&self) {
        let next = || self.lock().take_job();
        while let Some(job) = next() {
            self.run(job);
        }
    }

    /// Waits for a change by the threads. If there are no threads, does their jobs instead.
    fn work_or_wait<'g>(
        &'g self,
        mut state: MutexGuard<'g, SortCrewState>,
    ) -> MutexGuard<'g, SortCrewState> {
        if state.threads > 0 {
            self.changed.wait(&mut state);
            return state;
        }
        drop(state);
        self.work_here();
        self.lock()
    }

    fn run(&self, job: SortJob) {
        let failure = match job {
            SortJob::Sort(number, mut batch) => {
                batch.sort(self.how.terminator, self.how.order);
                self.lock().sorted.insert(number, batch);
                None
            }
            SortJob::Write(number, batch) => self.write(number, batch).err(),
        };
        let mut state = self.lock();
        state.busy -= 1;
        if failure.is_some() {
            state.failure = failure;
            state.ended = true;
            state.filled.clear();
        }
        drop(state);
        self.changed.notify_all();
    }

    fn next_job(&self) -> Option<SortJob> {
        let mut state = self.lock();
        loop {
            let job = state.take_job();
            if job.is_some() {
                return job;
            }
            if state.ended {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    fn write(&self, number: u64, mut batch: Batch) -> SortResult<()> {
        let kept = write(self.store, self.plan, self.how, &batch)?;
        batch.clear();
        let mut state = self.lock();
        state.kept.insert(number, kept);
        if state.ended {
            state.memory -= batch.size();
        } else {
            state.free.push(batch);
            state.spilling = false;
        }
        Ok(())
    }
}

/// Guard of the caller that hands batches over; dropping it ends the threads.
pub(super) struct EndOfBatches<'a>(&'a SortCrew<'a>);

impl Drop for EndOfBatches<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.ended = true;
        state.spilling = false;
        state.free.clear();
        drop(state);
        self.0.changed.notify_all();
    }
}

/// Guard of a thread. If the thread panics, it records a failure, so that nobody waits for that
/// thread's work. The panic itself continues in the thread that joins the scope.
struct Panicked<'a>(&'a SortCrew<'a>);

impl Drop for Panicked<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.lock().failure = Some(SortFailure::Memory(std::io::ErrorKind::Other.into()));
            self.0.changed.notify_all();
        }
    }
}

/// Writes a sorted batch as a run.
///
/// # Errors
/// The run cannot be written.
pub(super) fn write(
    store: &Store<'_>,
    plan: &MemoryPlan,
    how: LineRules<'_>,
    batch: &Batch,
) -> SortResult<StoredRun> {
    let (bytes, entries) = batch.lines();
    let most = bytes.len() as u64;
    store.keep(&plan.writing, Some(most), &mut |out| {
        LineWriter::new(how, out).put_all(entries, bytes)
    })
}
