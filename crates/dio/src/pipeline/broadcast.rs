//! The pipeline with one source and several consumers, each of which gets every item.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::stage::{
    OnDrop, Pipeline, PipelineReport, StageFailure, StageTimes, StopRequest, attempt, timed,
};

impl Pipeline<'_> {
    /// Gives every item of the source to every consumer, such as several digests of one file that
    /// is read once.
    ///
    /// `source` runs in the calling thread, and each consumer in a thread of its own, whatever the
    /// number of workers, unless that is 0: then all share the calling thread. Fast consumers run
    /// ahead of slow ones by at most `depth` items. The caller owns the consumers before and after.
    ///
    /// # Errors
    /// The first error in the order of the items, and of the consumers for one item. All consumers
    /// have got everything before it in that order; those that were ahead have got up to `depth`
    /// items more.
    ///
    /// # Panics
    /// When a stage panics: with its panic, where its error would have been returned.
    pub fn broadcast<T, E, C>(
        &self,
        mut source: impl FnMut() -> Result<Option<T>, E>,
        consumers: &mut [C],
        consume: impl Fn(&mut C, &T) -> Result<(), E> + Sync,
    ) -> Result<PipelineReport, E>
    where
        T: Send + Sync,
        E: Send,
        C: Send,
    {
        let stop = StopRequest::new(self.stop);
        if self.workers > 0
            && let Some(ended) =
                self.broadcast_with_threads(&stop, &mut source, consumers, &consume)
        {
            return ended;
        }
        run_in_this_thread(&stop, source, consumers, consume)
    }

    /// Returns `None`, with nothing done, if too few threads can be started.
    fn broadcast_with_threads<T, E, C>(
        &self,
        stop: &StopRequest<'_>,
        source: &mut impl FnMut() -> Result<Option<T>, E>,
        consumers: &mut [C],
        consume: &(impl Fn(&mut C, &T) -> Result<(), E> + Sync),
    ) -> Option<Result<PipelineReport, E>>
    where
        T: Send + Sync,
        E: Send,
        C: Send,
    {
        let start = Instant::now();
        let queue: BroadcastQueue<T, E> = BroadcastQueue::new(self.depth, consumers.len());
        let mut report = PipelineReport::default();
        thread::scope(|scope| {
            let _close = OnDrop(|| queue.close());
            let mut threads = Vec::new();
            for (which, consumer) in consumers.iter_mut().enumerate() {
                let queue = &queue;
                let run_consumer =
                    move || run_consumer(queue, which, |item| consume(consumer, item));
                let thread = thread::Builder::new()
                    .name("dio-consumer".to_owned())
                    .spawn_scoped(scope, run_consumer);
                threads.push(thread.ok()?);
            }
            report.source = run_source(&queue, stop, source);
            if stop.is_set() {
                queue.close();
            }
            for thread in threads {
                report.work.add(
                    thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload)),
                );
            }
            Some(())
        })?;
        let state = queue.state.into_inner();
        if let Some(failure) = state.failure {
            return Some(Err(failure.surface()));
        }
        report.items = state.consumed.iter().copied().min().unwrap_or(state.produced);
        report.stopped = stop.is_set();
        report.elapsed = start.elapsed();
        Some(Ok(report))
    }
}

/// The items that some consumer has not got yet.
struct BroadcastQueue<T, E> {
    state: Mutex<BroadcastState<T, E>>,
    depth: u64,
    /// Signals to the source that all consumers have got an item, or that the end is near.
    room: Condvar,
    /// Signals to the consumers that there is an item, or that no more will come.
    item_ready: Condvar,
}

/// Invariant: `items` are those with the numbers from `produced - items.len()` to `produced`, and
/// some consumer has yet to get the first.
struct BroadcastState<T, E> {
    items: VecDeque<Arc<T>>,
    produced: u64,
    /// How many items each consumer is done with.
    consumed: Vec<u64>,
    /// The source will produce no more items.
    source_ended: bool,
    closed: bool,
    /// Where the plain loop would have stopped: the number of an item, then that of a consumer.
    horizon: (u64, usize),
    failure: Option<StageFailure<E>>,
}

impl<T, E> BroadcastQueue<T, E> {
    fn new(depth: usize, consumers: usize) -> BroadcastQueue<T, E> {
        let state = BroadcastState {
            items: VecDeque::new(),
            produced: 0,
            consumed: vec![0; consumers],
            source_ended: false,
            closed: false,
            horizon: (u64::MAX, usize::MAX),
            failure: None,
        };
        BroadcastQueue {
            state: Mutex::new(state),
            depth: depth as u64,
            room: Condvar::new(),
            item_ready: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BroadcastState<T, E>> {
        self.state.lock()
    }

    /// Waits until there may be one more item. False when none is wanted.
    fn has_room(&self) -> bool {
        let mut state = self.lock();
        while state.failure.is_none() && state.items.len() as u64 >= self.depth {
            self.room.wait(&mut state);
        }
        state.failure.is_none()
    }

    fn put(&self, item: T) {
        let mut state = self.lock();
        state.produced += 1;
        if !state.consumed.is_empty() {
            state.items.push_back(Arc::new(item));
        }
        self.item_ready.notify_all();
    }

    /// The next item for a consumer. `None` when there is none that counts for it.
    fn next(&self, which: usize) -> Option<Arc<T>> {
        let mut state = self.lock();
        loop {
            let number = state.consumed[which];
            if state.closed || (number, which) >= state.horizon {
                return None;
            }
            let first = state.produced - state.items.len() as u64;
            if number < state.produced {
                return Some(Arc::clone(&state.items[(number - first) as usize]));
            }
            if state.source_ended {
                return None;
            }
            self.item_ready.wait(&mut state);
        }
    }

    /// Records that a consumer is done with its next item and has dropped it.
    fn mark_consumed(&self, which: usize) {
        let mut state = self.lock();
        state.consumed[which] += 1;
        let first = state.produced - state.items.len() as u64;
        if !state.items.is_empty() && state.consumed.iter().all(|consumed| *consumed > first) {
            // Dropped under the lock, because only then is there room for another.
            state.items.pop_front();
            self.room.notify_one();
        }
    }

    fn fail(&self, at: (u64, usize), failure: StageFailure<E>) {
        let mut state = self.lock();
        let mut later = Some(failure);
        if at < state.horizon {
            state.horizon = at;
            later = std::mem::replace(&mut state.failure, later);
        }
        self.room.notify_all();
        self.item_ready.notify_all();
        drop(state);
        drop(later);
    }

    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.source_ended = true;
        drop(state);
        self.item_ready.notify_all();
    }
}

/// Runs the source, in the calling thread.
fn run_source<T, E>(
    queue: &BroadcastQueue<T, E>,
    stop: &StopRequest<'_>,
    source: &mut impl FnMut() -> Result<Option<T>, E>,
) -> StageTimes {
    let mut stage = StageTimes { threads: 1, ..StageTimes::default() };
    while timed(&mut stage.waited, || queue.has_room()) && !stop.check() {
        match timed(&mut stage.busy, || attempt(&mut *source)) {
            Ok(Some(item)) => queue.put(item),
            Ok(None) => break,
            Err(failure) => {
                let produced = queue.lock().produced;
                queue.fail((produced, 0), failure);
            }
        }
    }
    queue.lock().source_ended = true;
    queue.item_ready.notify_all();
    stage
}

/// Runs a consumer's thread.
fn run_consumer<T, E>(
    queue: &BroadcastQueue<T, E>,
    which: usize,
    mut consume: impl FnMut(&T) -> Result<(), E>,
) -> StageTimes {
    let mut stage = StageTimes { threads: 1, ..StageTimes::default() };
    let mut number = 0;
    while let Some(item) = timed(&mut stage.waited, || queue.next(which)) {
        let outcome = timed(&mut stage.busy, || attempt(|| consume(&item)));
        drop(item);
        match outcome {
            Ok(()) => queue.mark_consumed(which),
            Err(failure) => {
                queue.fail((number, which), failure);
                break;
            }
        }
        number += 1;
    }
    stage
}

/// Runs everything in the calling thread.
fn run_in_this_thread<T, E, C>(
    stop: &StopRequest<'_>,
    mut source: impl FnMut() -> Result<Option<T>, E>,
    consumers: &mut [C],
    consume: impl Fn(&mut C, &T) -> Result<(), E>,
) -> Result<PipelineReport, E> {
    let start = Instant::now();
    let (mut reading, mut working) = (Duration::ZERO, Duration::ZERO);
    let mut items = 0;
    while !stop.check()
        && let Some(item) = timed(&mut reading, &mut source)?
    {
        timed(&mut working, || {
            consumers.iter_mut().try_for_each(|consumer| consume(consumer, &item))
        })?;
        items += 1;
    }
    let busy = |busy| StageTimes { busy, ..StageTimes::default() };
    Ok(PipelineReport {
        items,
        stopped: stop.is_set(),
        elapsed: start.elapsed(),
        source: busy(reading),
        work: busy(working),
        sink: StageTimes::default(),
    })
}
