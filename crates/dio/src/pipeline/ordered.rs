//! The pipeline proper: a source, workers, a sink.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::line::Line;
use super::{Halt, OnDrop, Pipeline, Report, Stage, attempt, timed};

/// The results of a pipeline in the source's order, for a sink that asks for them: see [`Pipeline::pull`].
///
/// An error is the last item. A result counts as in the pipeline until the next one is asked for.
pub struct Items<'a, U, E> {
    feed: &'a mut dyn FnMut() -> Option<Result<U, E>>,
    halt: &'a Halt<'a>,
    given: u64,
    over: bool,
    /// Time spent in `feed`.
    away: Duration,
}

impl<U, E> Items<'_, U, E> {
    /// Whether the items ended because the pipeline was asked to stop: then what came is not all.
    pub fn stopped(&self) -> bool {
        self.halt.seen()
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
        if self.over {
            return None;
        }
        let next = timed(&mut self.away, &mut *self.feed);
        self.over = !matches!(next, Some(Ok(_)));
        self.given += u64::from(!self.over);
        next
    }
}

/// A pipeline that has ended.
type Ended<R, E> = Result<(R, Report), E>;

impl Pipeline<'_> {
    /// Runs until the source is at its end (`None`), a stage fails, or a stop is asked for.
    ///
    /// `source` runs in a thread of its own. `worker` is called once in each worker thread that gets anything to do, and
    /// what it returns maps the items: what a worker needs for itself (a compressor, a buffer) is made there. `sink` gets
    /// the results in the source's order in the calling thread.
    ///
    /// # Errors
    /// The first error in the order of the items: that of the item for which the plain loop would have stopped. What came
    /// before it has been through the sink, nothing after it has.
    ///
    /// # Panics
    /// When a stage does: with its panic, in the place where its error would have come out.
    pub fn run<T, U, E, W>(
        &self,
        source: impl FnMut() -> Result<Option<T>, E> + Send,
        worker: impl Fn() -> W + Sync,
        mut sink: impl FnMut(U) -> Result<(), E>,
    ) -> Result<Report, E>
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

    /// As [`Pipeline::run`], with a sink that asks for the results: such as a decoder that wants to read from something.
    /// A sink that returns early ends the pipeline; what it did not ask for is dropped.
    ///
    /// # Errors
    /// What the sink returns; it is given the first error in the order of the items as the last item.
    ///
    /// # Panics
    /// As [`Pipeline::run`]; a panic of a worker comes out where the sink asks for its item.
    pub fn pull<T, U, E, W, R>(
        &self,
        source: impl FnMut() -> Result<Option<T>, E> + Send,
        worker: impl Fn() -> W + Sync,
        sink: impl FnOnce(&mut Items<'_, U, E>) -> Result<R, E>,
    ) -> Result<(R, Report), E>
    where
        T: Send,
        U: Send,
        E: Send,
        W: FnMut(T) -> Result<U, E>,
    {
        let halt = Halt::new(self.stop);
        // Only its thread ever locks it; but a thread that cannot be started must leave the source here.
        let source = Mutex::new(source);
        let sink = match self.workers {
            0 => sink,
            _ => match self.with_threads(&halt, &source, &worker, sink) {
                Ok(ended) => return ended,
                Err(sink) => sink,
            },
        };
        here(&halt, source.into_inner().unwrap_or_else(PoisonError::into_inner), worker, sink)
    }

    /// Gives the sink back, with nothing done, if there are no threads to be had.
    fn with_threads<T, U, E, W, R, Sink>(
        &self,
        halt: &Halt<'_>,
        source: &Mutex<impl FnMut() -> Result<Option<T>, E> + Send>,
        worker: &(impl Fn() -> W + Sync),
        sink: Sink,
    ) -> Result<Ended<R, E>, Sink>
    where
        T: Send,
        U: Send,
        E: Send,
        W: FnMut(T) -> Result<U, E>,
        Sink: FnOnce(&mut Items<'_, U, E>) -> Result<R, E>,
    {
        let start = Instant::now();
        let line: Line<T, U, E> = Line::new(self.depth);
        thread::scope(|scope| {
            let close = OnDrop(|| line.close());
            let spawn_worker = |_| {
                let work = || work(&line, worker);
                thread::Builder::new().name("dio-work".to_owned()).spawn_scoped(scope, work).ok()
            };
            let workers: Vec<_> = (0..self.workers).map_while(spawn_worker).collect();
            if workers.is_empty() {
                return Err(sink);
            }
            let read = || {
                // The line must end for the workers however the source does.
                let _dry = OnDrop(|| line.dry());
                feed(&line, halt, &mut *source.lock().unwrap_or_else(PoisonError::into_inner))
            };
            let Ok(source) = thread::Builder::new().name("dio-source".to_owned()).spawn_scoped(scope, read) else {
                return Err(sink);
            };
            let mut next = || {
                let outcome = line.next()?;
                if halt.check() {
                    return None;
                }
                Some(outcome.map_err(super::Failure::surface))
            };
            let mut items = Items { feed: &mut next, halt, given: 0, over: false, away: Duration::ZERO };
            let result = sink(&mut items);
            let (given, away) = (items.given, items.away);
            let sink = Stage { threads: 1, busy: start.elapsed().saturating_sub(away), waited: away };
            drop(close);
            let mut report = Report { items: given, sink, ..Report::default() };
            report.source.add(join(source));
            workers.into_iter().for_each(|worker| report.work.add(join(worker)));
            report.stopped = halt.seen();
            report.elapsed = start.elapsed();
            Ok(result.map(|value| (value, report)))
        })
    }
}

/// A stage's own panics are outcomes of items; what else panics (an item being dropped) goes on here.
fn join(thread: thread::ScopedJoinHandle<'_, Stage>) -> Stage {
    thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

/// The source's thread.
fn feed<T, U, E>(line: &Line<T, U, E>, halt: &Halt<'_>, source: &mut impl FnMut() -> Result<Option<T>, E>) -> Stage {
    let mut stage = Stage { threads: 1, ..Stage::default() };
    while let Some(number) = timed(&mut stage.waited, || line.claim()) {
        if halt.check() {
            line.close();
            break;
        }
        match timed(&mut stage.busy, || attempt(&mut *source)) {
            Ok(Some(item)) => line.put(number, item),
            Ok(None) => line.end(number),
            Err(failure) => line.settle(number, Err(failure)),
        }
    }
    stage
}

/// A worker's thread.
fn work<T, U, E, W>(line: &Line<T, U, E>, worker: impl Fn() -> W) -> Stage
where
    W: FnMut(T) -> Result<U, E>,
{
    let mut stage = Stage { threads: 1, ..Stage::default() };
    let mut state = None;
    while let Some((number, item)) = timed(&mut stage.waited, || line.take()) {
        if !line.counts(number) {
            continue;
        }
        let outcome = timed(&mut stage.busy, || attempt(|| state.get_or_insert_with(&worker)(item)));
        let panicked = matches!(outcome, Err(super::Failure::Panic(_)));
        line.settle(number, outcome);
        if panicked {
            // The state may be anything now. Items before this one may still wait: another worker's, or a new state's.
            state = None;
        }
    }
    stage
}

/// Everything in the calling thread.
fn here<T, U, E, W, R>(
    halt: &Halt<'_>,
    mut source: impl FnMut() -> Result<Option<T>, E>,
    worker: impl Fn() -> W,
    sink: impl FnOnce(&mut Items<'_, U, E>) -> Result<R, E>,
) -> Ended<R, E>
where
    W: FnMut(T) -> Result<U, E>,
{
    let start = Instant::now();
    let (mut reading, mut working) = (Duration::ZERO, Duration::ZERO);
    let mut state = None;
    let mut next = || {
        if halt.check() {
            return None;
        }
        let item = match timed(&mut reading, &mut source) {
            Ok(item) => item?,
            Err(error) => return Some(Err(error)),
        };
        Some(timed(&mut working, || state.get_or_insert_with(&worker)(item)))
    };
    let mut items = Items { feed: &mut next, halt, given: 0, over: false, away: Duration::ZERO };
    let value = sink(&mut items)?;
    let (given, away) = (items.given, items.away);
    let busy = |busy| Stage { busy, ..Stage::default() };
    let elapsed = start.elapsed();
    let report = Report {
        items: given,
        stopped: halt.seen(),
        elapsed,
        source: busy(reading),
        work: busy(working),
        sink: busy(elapsed.saturating_sub(away)),
    };
    Ok((value, report))
}
