//! What every form of pipeline is made of: its settings, its stages, their times and failures.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The number of threads that work, the number of items at a time, and a request to stop.
///
/// ```
/// use dio::pipeline::Pipeline;
///
/// let mut numbers = 1..=100u64;
/// let mut squares = Vec::new();
/// let report = Pipeline::new(2).depth(8).run(
///     || Ok::<_, std::io::Error>(numbers.next()),
///     || |number: u64| Ok(number * number),
///     |square| {
///         squares.push(square);
///         Ok(())
///     },
/// )?;
/// assert_eq!(squares[..3], [1, 4, 9]);
/// assert_eq!((report.items, report.stopped), (100, false));
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Pipeline<'a> {
    pub(super) workers: usize,
    pub(super) depth: usize,
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipeline({} workers, depth {})", self.workers, self.depth)
    }
}

impl<'a> Pipeline<'a> {
    /// A pipeline of so many worker threads beside the source's and the caller's. With 0,
    /// everything happens in the calling thread, one item after the other. Where the system refuses
    /// threads, fewer are used, or none.
    ///
    /// The depth is twice the number of workers and 2 more: one item with each worker, one waiting
    /// for each, one with the source and one with the sink.
    pub fn new(workers: usize) -> Pipeline<'a> {
        Pipeline { workers, depth: workers.saturating_mul(2).saturating_add(2), stop: &|| false }
    }

    /// Sets the most items that exist at a time, at least 1. All stages can be busy if it is at
    /// least `workers + 2`.
    pub fn depth(self, depth: usize) -> Pipeline<'a> {
        Pipeline { depth: depth.max(1), ..self }
    }

    /// Sets a request to stop, which is checked before each item. Items in progress are then
    /// dropped, and [`PipelineReport::stopped`] is set.
    pub fn stop(self, stop: &'a (dyn Fn() -> bool + Sync)) -> Pipeline<'a> {
        Pipeline { stop, ..self }
    }
}

/// What a pipeline did, and how long its stages waited.
#[must_use = "a pipeline that was stopped has not done all of its work"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineReport {
    /// Items that the sink has taken.
    pub items: u64,
    /// Whether a request to stop ended the pipeline before the source ended.
    pub stopped: bool,
    /// Time from the start to the end.
    pub elapsed: Duration,
    /// The source, which waits when the others are behind.
    pub source: StageTimes,
    /// The workers, or the consumers of a broadcast, which wait for the source.
    pub work: StageTimes,
    /// The sink, which waits for the workers. A broadcast has none.
    pub sink: StageTimes,
}

/// How one stage spent its time. The stage that waits least limits the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    /// Its threads; 0 if it shared the calling thread with the others.
    pub threads: usize,
    /// Time in the caller's code, summed over its threads.
    pub busy: Duration,
    /// Time without anything to do, summed over its threads.
    pub waited: Duration,
}

impl StageTimes {
    /// The fraction of its time in which the stage had something to do, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        let total = (self.busy + self.waited).as_secs_f64();
        if total > 0.0 { self.busy.as_secs_f64() / total } else { 0.0 }
    }

    pub(super) fn add(&mut self, other: StageTimes) {
        self.threads += other.threads;
        self.busy += other.busy;
        self.waited += other.waited;
    }
}

/// A request to stop. Once made, it stays.
pub(super) struct StopRequest<'a> {
    requested: &'a (dyn Fn() -> bool + Sync),
    is_set: AtomicBool,
}

impl<'a> StopRequest<'a> {
    pub(super) fn new(requested: &'a (dyn Fn() -> bool + Sync)) -> StopRequest<'a> {
        StopRequest { requested, is_set: AtomicBool::new(false) }
    }

    pub(super) fn check(&self) -> bool {
        let is_set_now = self.is_set() || (self.requested)();
        if is_set_now {
            self.is_set.store(true, Ordering::Relaxed);
        }
        is_set_now
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }
}

/// Why a pipeline ends early.
pub(super) enum StageFailure<E> {
    Error(E),
    Panic(Box<dyn Any + Send>),
}

impl<E> StageFailure<E> {
    /// Returns the error, or resumes the panic in the calling thread.
    pub(super) fn surface(self) -> E {
        match self {
            StageFailure::Error(error) => error,
            StageFailure::Panic(payload) => resume_unwind(payload),
        }
    }
}

/// Calls a stage. State that a panic leaves behind is not used again: the thread ends, and so does
/// the pipeline.
pub(super) fn attempt<R, E>(call: impl FnOnce() -> Result<R, E>) -> Result<R, StageFailure<E>> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(StageFailure::Error(error)),
        Err(payload) => Err(StageFailure::Panic(payload)),
    }
}

/// Adds the time that a call takes.
pub(super) fn timed<R>(total: &mut Duration, call: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = call();
    *total += start.elapsed();
    result
}

/// Calls a function when dropped, also when the calling thread panics while others wait for it.
pub(super) struct OnDrop<F: Fn()>(pub(super) F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
