//! One source, several consumers, each of which sees every item.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Failure, Halt, OnDrop, Pipeline, Report, Stage, attempt, timed};

impl Pipeline<'_> {
    /// Shows every item of the source to every consumer, such as several digests of one file that is read once.
    ///
    /// `source` runs in the calling thread, and each consumer in a thread of its own whatever the number of workers,
    /// unless that is 0: then all share the calling thread. Fast consumers run ahead of slow ones by `depth` items at
    /// most. The consumers are the caller's before and after.
    ///
    /// # Errors
    /// The first error in the order of the items, and of the consumers within one. All consumers have seen what came
    /// before it in that order; those that were ahead have seen up to `depth` items more.
    ///
    /// # Panics
    /// When a stage does: with its panic, in the place where its error would have come out.
    pub fn broadcast<T, E, C>(
        &self,
        mut source: impl FnMut() -> Result<Option<T>, E>,
        consumers: &mut [C],
        consume: impl Fn(&mut C, &T) -> Result<(), E> + Sync,
    ) -> Result<Report, E>
    where
        T: Send + Sync,
        E: Send,
        C: Send,
    {
        let halt = Halt::new(self.stop);
        if self.workers > 0
            && let Some(ended) = self.share(&halt, &mut source, consumers, &consume)
        {
            return ended;
        }
        here(&halt, source, consumers, consume)
    }

    /// `None`, with nothing done, if there are not enough threads to be had.
    fn share<T, E, C>(
        &self,
        halt: &Halt<'_>,
        source: &mut impl FnMut() -> Result<Option<T>, E>,
        consumers: &mut [C],
        consume: &(impl Fn(&mut C, &T) -> Result<(), E> + Sync),
    ) -> Option<Result<Report, E>>
    where
        T: Send + Sync,
        E: Send,
        C: Send,
    {
        let start = Instant::now();
        let board: Board<T, E> = Board::new(self.depth, consumers.len());
        let mut report = Report::default();
        thread::scope(|scope| {
            let _close = OnDrop(|| board.close());
            let mut threads = Vec::new();
            for (which, consumer) in consumers.iter_mut().enumerate() {
                let board = &board;
                let look = move || look(board, which, |item| consume(consumer, item));
                let thread = thread::Builder::new().name("dio-consumer".to_owned()).spawn_scoped(scope, look);
                threads.push(thread.ok()?);
            }
            report.source = show(&board, halt, source);
            if halt.seen() {
                board.close();
            }
            for thread in threads {
                report.work.add(thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload)));
            }
            Some(())
        })?;
        let state = board.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = state.failure {
            return Some(Err(failure.surface()));
        }
        report.items = state.seen.iter().copied().min().unwrap_or(state.shown);
        report.stopped = halt.seen();
        report.elapsed = start.elapsed();
        Some(Ok(report))
    }
}

/// The items that not everybody has seen yet.
struct Board<T, E> {
    state: Mutex<State<T, E>>,
    depth: u64,
    /// An item has been seen by all, or the end is near: for the source.
    room: Condvar,
    /// An item was shown, or no more will be: for the consumers.
    news: Condvar,
}

/// Invariant: `items` are those from number `shown - items.len()` to `shown`, and somebody has yet to see the first.
struct State<T, E> {
    items: VecDeque<Arc<T>>,
    shown: u64,
    /// How many items each consumer has seen.
    seen: Vec<u64>,
    /// The source will show no more.
    over: bool,
    closed: bool,
    /// Where the plain loop would have stopped: an item's number and a consumer's, in that order.
    horizon: (u64, usize),
    failure: Option<Failure<E>>,
}

impl<T, E> Board<T, E> {
    fn new(depth: usize, consumers: usize) -> Board<T, E> {
        let state = State {
            items: VecDeque::new(),
            shown: 0,
            seen: vec![0; consumers],
            over: false,
            closed: false,
            horizon: (u64::MAX, usize::MAX),
            failure: None,
        };
        Board { state: Mutex::new(state), depth: depth as u64, room: Condvar::new(), news: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there may be one more item; false when none is wanted.
    fn has_room(&self) -> bool {
        let mut state = self.lock();
        while state.failure.is_none() && state.items.len() as u64 >= self.depth {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.failure.is_none()
    }

    fn show(&self, item: T) {
        let mut state = self.lock();
        state.shown += 1;
        if !state.seen.is_empty() {
            state.items.push_back(Arc::new(item));
        }
        self.news.notify_all();
    }

    /// The next item that a consumer has not seen; `None` when there is none that matters to it.
    fn next(&self, which: usize) -> Option<Arc<T>> {
        let mut state = self.lock();
        loop {
            let number = state.seen[which];
            if state.closed || (number, which) >= state.horizon {
                return None;
            }
            let first = state.shown - state.items.len() as u64;
            if number < state.shown {
                return Some(Arc::clone(&state.items[(number - first) as usize]));
            }
            if state.over {
                return None;
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A consumer has seen its next item, and gave it back.
    fn saw(&self, which: usize) {
        let mut state = self.lock();
        state.seen[which] += 1;
        let first = state.shown - state.items.len() as u64;
        if !state.items.is_empty() && state.seen.iter().all(|seen| *seen > first) {
            // Dropped under the lock: only then is there room for another.
            state.items.pop_front();
            self.room.notify_one();
        }
    }

    fn fail(&self, at: (u64, usize), failure: Failure<E>) {
        let mut state = self.lock();
        let mut later = Some(failure);
        if at < state.horizon {
            state.horizon = at;
            later = std::mem::replace(&mut state.failure, later);
        }
        self.room.notify_all();
        self.news.notify_all();
        drop(state);
        drop(later);
    }

    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.over = true;
        drop(state);
        self.news.notify_all();
    }
}

/// The source, in the calling thread.
fn show<T, E>(board: &Board<T, E>, halt: &Halt<'_>, source: &mut impl FnMut() -> Result<Option<T>, E>) -> Stage {
    let mut stage = Stage { threads: 1, ..Stage::default() };
    while timed(&mut stage.waited, || board.has_room()) && !halt.check() {
        match timed(&mut stage.busy, || attempt(&mut *source)) {
            Ok(Some(item)) => board.show(item),
            Ok(None) => break,
            Err(failure) => {
                let shown = board.lock().shown;
                board.fail((shown, 0), failure);
            }
        }
    }
    board.lock().over = true;
    board.news.notify_all();
    stage
}

/// A consumer's thread.
fn look<T, E>(board: &Board<T, E>, which: usize, mut consume: impl FnMut(&T) -> Result<(), E>) -> Stage {
    let mut stage = Stage { threads: 1, ..Stage::default() };
    let mut number = 0;
    while let Some(item) = timed(&mut stage.waited, || board.next(which)) {
        let outcome = timed(&mut stage.busy, || attempt(|| consume(&item)));
        drop(item);
        match outcome {
            Ok(()) => board.saw(which),
            Err(failure) => {
                board.fail((number, which), failure);
                break;
            }
        }
        number += 1;
    }
    stage
}

/// Everything in the calling thread.
fn here<T, E, C>(
    halt: &Halt<'_>,
    mut source: impl FnMut() -> Result<Option<T>, E>,
    consumers: &mut [C],
    consume: impl Fn(&mut C, &T) -> Result<(), E>,
) -> Result<Report, E> {
    let start = Instant::now();
    let (mut reading, mut working) = (Duration::ZERO, Duration::ZERO);
    let mut items = 0;
    while !halt.check()
        && let Some(item) = timed(&mut reading, &mut source)?
    {
        timed(&mut working, || consumers.iter_mut().try_for_each(|consumer| consume(consumer, &item)))?;
        items += 1;
    }
    let busy = |busy| Stage { busy, ..Stage::default() };
    Ok(Report {
        items,
        stopped: halt.seen(),
        elapsed: start.elapsed(),
        source: busy(reading),
        work: busy(working),
        sink: Stage::default(),
    })
}
