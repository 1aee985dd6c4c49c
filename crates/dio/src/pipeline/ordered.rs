//! The pipeline with one source, several workers and one sink.

use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::ordered_queue::OrderedQueue;
use super::stage::{OnDrop, Pipeline, PipelineReport, StageTimes, StopRequest, attempt, timed};

/// The results of a pipeline in the source's order, for a sink that asks for them; see
/// [`Pipeline::pull`].
///
/// An error is the last item. A result counts as in the pipeline until the next one is asked for.
pub struct Items<'a, U, E> {
    feed: &'a mut dyn FnMut() -> Option<Result<U, E>>,
    stop: &'a StopRequest<'a>,
    given: u64,
    ended: bool,
    /// Time spent in `feed`.
    waited_in_feed: Duration,
}

impl<U, E> Items<'_, U, E> {
    /// Whether a request to stop ended the items. The items are then not complete.
    pub fn stopped(&self) -> bool {
        self.stop.is_set()
    }
}

impl<U, E> std::fmt::Debug for Items<'_, U, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Items({} given)", self.given)
    }
}

impl<U, E> Iterator for Items<'_, U, E> {
    type Item = Result<U, E>;

    fn next(&mut self) -> Option<Result<U, E>> {
        if self.ended {
            return None;
        }
        let next = timed(&mut self.waited_in_feed, &mut *self.feed);
        self.ended = !matches!(next, Some(Ok(_)));
        self.given += u64::from(!self.ended);
        next
    }
}

/// The result of a pipeline that has ended.
type PipelineResult<R, E> = Result<(R, PipelineReport), E>;

impl Pipeline<'_> {
    /// Runs until the source ends (`None`), a stage fails, or a request to stop is made.
    ///
    /// `source` runs in a thread of its own. `worker` is called once in each worker thread that
    /// gets an item, and what it returns maps the items. So a worker can make what it needs for
    /// itself there (a compressor, a buffer). `sink` gets the results in the source's order in the
    /// calling thread.
    ///
    /// # Errors
    /// The first error in the order of the items: that of the item at which the plain loop would
    /// have stopped. The sink has got all results before it and none behind it.
    ///
    /// # Panics
    /// When a stage panics: with its panic, where its error would have been returned.
    pub fn run<T, U, E, W>(
        &self,
        source: impl FnMut() -> Result<Option<T>, E> + Send,
        worker: impl Fn() -> W + Sync,
        mut sink: impl FnMut(U) -> Result<(), E>,
    ) -> Result<PipelineReport, E>
    where
        T: Send,
        U: Send,
        E: Send,
        W: FnMut(T) -> Result<U, E>,
    {
        let drain = |items: &mut Items<'_, U, E>| {
            for item in items {
                sink(item?)?;
            }
            Ok(())
        };
        self.pull(source, worker, drain).map(|((), report)| report)
    }

    /// As [`Pipeline::run`], with a sink that asks for the results, such as a decoder that reads
    /// from something. A sink that returns early ends the pipeline; results that it did not ask for
    /// are dropped.
    ///
    /// # Errors
    /// What the sink returns. It gets the first error in the order of the items as the last item.
    ///
    /// # Panics
    /// As [`Pipeline::run`]. A panic of a worker is resumed where the sink asks for its item.
    pub fn pull<T, U, E, W, R>(
        &self,
        source: impl FnMut() -> Result<Option<T>, E> + Send,
        worker: impl Fn() -> W + Sync,
        sink: impl FnOnce(&mut Items<'_, U, E>) -> Result<R, E>,
    ) -> Result<(R, PipelineReport), E>
    where
        T: Send,
        U: Send,
        E: Send,
        W: FnMut(T) -> Result<U, E>,
    {
        let stop = StopRequest::new(self.stop);
        // Only its thread ever locks it. But if the thread cannot be started, the source must still
        // be here.
        let source = Mutex::new(source);
        let sink = match self.workers {
            0 => sink,
            _ => match self.with_threads(&stop, &source, &worker, sink) {
                Ok(result) => return result,
                Err(sink) => sink,
            },
        };
        run_in_this_thread(&stop, source.into_inner(), worker, sink)
    }

    /// Hands the sink back, with nothing done, if no threads can be started.
    fn with_threads<T, U, E, W, R, Sink>(
        &self,
        stop: &StopRequest<'_>,
        source: &Mutex<impl FnMut() -> Result<Option<T>, E> + Send>,
        worker: &(impl Fn() -> W + Sync),
        sink: Sink,
    ) -> Result<PipelineResult<R, E>, Sink>
    where
        T: Send,
        U: Send,
        E: Send,
        W: FnMut(T) -> Result<U, E>,
        Sink: FnOnce(&mut Items<'_, U, E>) -> Result<R, E>,
    {
        let start = Instant::now();
        let queue: OrderedQueue<T, U, E> = OrderedQueue::new(self.depth);
        thread::scope(|scope| {
            let close = OnDrop(|| queue.close());
            let spawn_worker = |_| {
                let work = || work(&queue, worker);
                thread::Builder::new().name("dio-work".to_owned()).spawn_scoped(scope, work).ok()
            };
            let workers: Vec<_> = (0..self.workers).map_while(spawn_worker).collect();
            if workers.is_empty() {
                return Err(sink);
            }
            let read = || {
                // The queue must end for the workers, however the source ends.
                let _dry = OnDrop(|| queue.source_ended());
                feed(&queue, stop, &mut *source.lock())
            };
            let Ok(source) =
                thread::Builder::new().name("dio-source".to_owned()).spawn_scoped(scope, read)
            else {
                return Err(sink);
            };
            let mut next = || {
                let outcome = queue.next()?;
                if stop.check() {
                    return None;
                }
                Some(outcome.map_err(super::stage::StageFailure::surface))
            };
            let mut items = Items {
                feed: &mut next,
                stop,
                given: 0,
                ended: false,
                waited_in_feed: Duration::ZERO,
            };
            let result = sink(&mut items);
            let (given, waited_in_feed) = (items.given, items.waited_in_feed);
            let sink = StageTimes {
                threads: 1,
                busy: start.elapsed().saturating_sub(waited_in_feed),
                waited: waited_in_feed,
            };
            drop(close);
            let mut report = PipelineReport { items: given, sink, ..PipelineReport::default() };
            report.source.add(join(source));
            workers.into_iter().for_each(|worker| report.work.add(join(worker)));
            report.stopped = stop.is_set();
            report.elapsed = start.elapsed();
            Ok(result.map(|value| (value, report)))
        })
    }
}

/// Panics of a stage are outcomes of items. Any other panic (of an item being dropped) goes on
/// here.
fn join(thread: thread::ScopedJoinHandle<'_, StageTimes>) -> StageTimes {
    thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

/// Runs the source's thread.
fn feed<T, U, E>(
    queue: &OrderedQueue<T, U, E>,
    stop: &StopRequest<'_>,
    source: &mut impl FnMut() -> Result<Option<T>, E>,
) -> StageTimes {
    let mut stage = StageTimes { threads: 1, ..StageTimes::default() };
    while let Some(number) = timed(&mut stage.waited, || queue.claim()) {
        if stop.check() {
            queue.close();
            break;
        }
        match timed(&mut stage.busy, || attempt(&mut *source)) {
            Ok(Some(item)) => queue.put(number, item),
            Ok(None) => queue.end(number),
            Err(failure) => queue.settle(number, Err(failure)),
        }
    }
    stage
}

/// Runs a worker's thread.
fn work<T, U, E, W>(queue: &OrderedQueue<T, U, E>, worker: impl Fn() -> W) -> StageTimes
where
    W: FnMut(T) -> Result<U, E>,
{
    let mut stage = StageTimes { threads: 1, ..StageTimes::default() };
    let mut state = None;
    while let Some((number, item)) = timed(&mut stage.waited, || queue.take()) {
        if !queue.counts(number) {
            continue;
        }
        let outcome =
            timed(&mut stage.busy, || attempt(|| state.get_or_insert_with(&worker)(item)));
        let panicked = matches!(outcome, Err(super::stage::StageFailure::Panic(_)));
        queue.settle(number, outcome);
        if panicked {
            // The state may be anything now. Earlier items may still wait for another worker, or
            // for this one with new state.
            state = None;
        }
    }
    stage
}

/// Runs everything in the calling thread.
fn run_in_this_thread<T, U, E, W, R>(
    stop: &StopRequest<'_>,
    mut source: impl FnMut() -> Result<Option<T>, E>,
    worker: impl Fn() -> W,
    sink: impl FnOnce(&mut Items<'_, U, E>) -> Result<R, E>,
) -> PipelineResult<R, E>
where
    W: FnMut(T) -> Result<U, E>,
{
    let start = Instant::now();
    let (mut reading, mut working) = (Duration::ZERO, Duration::ZERO);
    let mut state = None;
    let mut next = || {
        if stop.check() {
            return None;
        }
        let item = match timed(&mut reading, &mut source) {
            Ok(item) => item?,
            Err(error) => return Some(Err(error)),
        };
        Some(timed(&mut working, || state.get_or_insert_with(&worker)(item)))
    };
    let mut items =
        Items { feed: &mut next, stop, given: 0, ended: false, waited_in_feed: Duration::ZERO };
    let value = sink(&mut items)?;
    let (given, waited_in_feed) = (items.given, items.waited_in_feed);
    let busy = |busy| StageTimes { busy, ..StageTimes::default() };
    let elapsed = start.elapsed();
    let report = PipelineReport {
        items: given,
        stopped: stop.is_set(),
        elapsed,
        source: busy(reading),
        work: busy(working),
        sink: busy(elapsed.saturating_sub(waited_in_feed)),
    };
    Ok((value, report))
}
