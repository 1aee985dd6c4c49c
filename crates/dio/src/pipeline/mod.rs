//! Read – work – write: one thread reads, several work, one writes, all at once; order is kept and memory is bounded.
//!
//! Every form behaves as the plain loop would, which reads an item, works on it, writes the result and takes the next:
//! the sink sees the same results in the same order, and the error (or panic) that comes out is the one that the loop
//! would have met first, whichever thread met which first. Only the source may have been asked for items that nobody
//! needs any more, at most `depth` of them.
//!
//! At most `depth` items exist at any time, from the moment the source is asked for one until the sink is done with it.
//! So memory is `depth` times what an item holds, and a pool of `depth` blocks is never empty when the source takes one.
//!
//! No thread outlives the call, so all stages may borrow. A stage that waits for somebody outside (a read from a
//! terminal) is waited for: it has to look at its own stop request, with a timeout.

mod broadcast;
mod line;
mod ordered;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use ordered::Items;

/// How many threads work, on how much at a time, and who may end it early.
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
    workers: usize,
    depth: usize,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipeline({} workers, depth {})", self.workers, self.depth)
    }
}

impl<'a> Pipeline<'a> {
    /// A pipeline of so many worker threads beside the source's and the caller's; with 0, everything happens in the
    /// calling thread, one item after the other. Where the system refuses threads, fewer are used, or none.
    ///
    /// The depth is twice the number of workers and 2 more: one item with each worker, one waiting for each, one with
    /// the source and one with the sink.
    pub fn new(workers: usize) -> Pipeline<'a> {
        Pipeline { workers, depth: workers.saturating_mul(2).saturating_add(2), stop: &|| false }
    }

    /// Sets the most items that exist at a time, at least 1. All stages can be busy from `workers + 2` on.
    pub fn depth(self, depth: usize) -> Pipeline<'a> {
        Pipeline { depth: depth.max(1), ..self }
    }

    /// Sets a request to stop, which is looked at before each item. What is in flight then is dropped, and
    /// [`Report::stopped`] says so.
    pub fn stop(self, stop: &'a (dyn Fn() -> bool + Sync)) -> Pipeline<'a> {
        Pipeline { stop, ..self }
    }
}

/// What a pipeline did, and who waited for whom.
#[must_use = "a pipeline that was stopped has not done all of its work"]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Items that went all the way.
    pub items: u64,
    /// Whether it ended before the source did, because it was asked to.
    pub stopped: bool,
    /// Time from the start to the end.
    pub elapsed: Duration,
    /// The source; it waits when the others are behind.
    pub source: Stage,
    /// The workers, or the consumers of a broadcast; they wait for the source.
    pub work: Stage,
    /// The sink; it waits for the workers. A broadcast has none.
    pub sink: Stage,
}

/// How one stage spent its time. The stage that waits least is the one that limits the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// Its threads; 0 where it shared the calling thread with the others.
    pub threads: usize,
    /// Time in the caller's code, of all its threads together.
    pub busy: Duration,
    /// Time without anything to do, of all its threads together.
    pub waited: Duration,
}

impl Stage {
    /// The part of its time in which the stage had something to do, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        let total = (self.busy + self.waited).as_secs_f64();
        if total > 0.0 { self.busy.as_secs_f64() / total } else { 0.0 }
    }

    fn add(&mut self, other: Stage) {
        self.threads += other.threads;
        self.busy += other.busy;
        self.waited += other.waited;
    }
}

/// A request to stop that stays once it was seen.
struct Halt<'a> {
    asked: &'a (dyn Fn() -> bool + Sync),
    seen: AtomicBool,
}

impl<'a> Halt<'a> {
    fn new(asked: &'a (dyn Fn() -> bool + Sync)) -> Halt<'a> {
        Halt { asked, seen: AtomicBool::new(false) }
    }

    fn check(&self) -> bool {
        let now = self.seen() || (self.asked)();
        if now {
            self.seen.store(true, Ordering::Relaxed);
        }
        now
    }

    fn seen(&self) -> bool {
        self.seen.load(Ordering::Relaxed)
    }
}

/// Why a pipeline ends early.
enum Failure<E> {
    Error(E),
    Panic(Box<dyn Any + Send>),
}

impl<E> Failure<E> {
    /// The error, or the panic goes on in the calling thread.
    fn surface(self) -> E {
        match self {
            Failure::Error(error) => error,
            Failure::Panic(payload) => resume_unwind(payload),
        }
    }
}

/// Calls a stage. What it leaves behind when it panics is not used again: its thread ends, and so does the pipeline.
fn attempt<R, E>(call: impl FnOnce() -> Result<R, E>) -> Result<R, Failure<E>> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Failure::Error(error)),
        Err(payload) => Err(Failure::Panic(payload)),
    }
}

/// Adds the time that a call takes.
fn timed<R>(total: &mut Duration, call: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = call();
    *total += start.elapsed();
    result
}

/// Calls a function when dropped: also when the calling thread panics while others wait for it.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
