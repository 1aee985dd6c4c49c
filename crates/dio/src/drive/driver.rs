//! Feeds an engine with requests until all are finished.

use std::collections::VecDeque;
use std::io;
use std::ops::DerefMut;
use std::sync::Arc;

use super::attempt::{Attempt, NextStep, PartKey, first_attempt, next_step, run_in_this_thread};
use super::request::{Finished, Request, RequestTarget, StripedMedium};
use super::split::{PartRequest, SplitRequest, split_request};
use crate::block::Pool;
use crate::engine::{Done, Engine, Op};

/// Runs a request to one file to its end in the calling thread, without an engine. This is the
/// cheapest way to run a single request.
///
/// # Panics
/// If the request is to a striped file.
pub fn run_one(request: Request) -> Finished {
    let (mut op, mut attempt) = first_attempt(request, None);
    loop {
        match next_step(run_in_this_thread(op), attempt) {
            NextStep::Retry(next_op, next_attempt) => (op, attempt) = (next_op, next_attempt),
            NextStep::Finished(finished) => return finished,
        }
    }
}

/// Runs a request to its end in the calling thread. If it has several parts, a borrowed driver runs
/// all of them at once.
pub fn run<D: DerefMut<Target = Driver>>(request: Request, borrow: impl FnOnce() -> D) -> Finished {
    let RequestTarget::Striped(striped) = &request.target else { return run_one(request) };
    let striped = Arc::clone(striped);
    if let Err(errno) = striped.prepare(request.kind) {
        return Finished::refused(request, errno);
    }
    let (mut split, mut parts) = split_request(&striped, request);
    if parts.len() == 1 {
        let mut next = parts.pop();
        while let Some((object, part)) = next {
            next = split.finish_part(object, run_one(part));
        }
        return split.finish();
    }
    let mut driver = borrow();
    match driver.run_parts(split, parts) {
        Ok(finished) => finished,
        Err(split) => {
            // The engine goes with it and waits for the parts in flight, so that their memory comes
            // back.
            drop(driver);
            split.abandon()
        }
    }
}

/// Feeds an engine with operations and retries what is unfinished.
///
/// Invariants:
/// 1. An operation in the engine or in `backlog` has an entry in `attempts` under its ticket.
/// 2. `parts` counts those of them that are parts of split requests.
/// 3. `splits_open` counts the occupied entries of `splits`.
pub struct Driver {
    engine: Box<dyn Engine>,
    /// Operations accepted while the engine was full. Their number is bounded by what callers
    /// submit before they wait.
    backlog: VecDeque<Op>,
    /// What the driver keeps about each operation, by ticket.
    attempts: Vec<Option<Attempt>>,
    free_tickets: Vec<usize>,
    done: Vec<Done>,
    /// Requests to striped files that were refused before they were split.
    refused: Vec<Finished>,
    /// Requests that were split, by number.
    splits: Vec<Option<SplitRequest>>,
    splits_open: usize,
    parts: usize,
    /// How many parts of each file are in the engine, by the address of the file. Empty while the
    /// engine has no parts.
    parts_by_file: Vec<(usize, usize)>,
    attached: Option<Pool>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver({}, {} outstanding)", self.engine.name(), self.outstanding())
    }
}

/// Identifies the file of an operation among those in flight.
fn file_key(op: &Op) -> usize {
    Arc::as_ptr(&op.medium).addr()
}

impl Driver {
    /// A driver for an engine that nobody else uses.
    pub fn new(engine: Box<dyn Engine>) -> Driver {
        Driver {
            engine,
            backlog: VecDeque::new(),
            attempts: Vec::new(),
            free_tickets: Vec::new(),
            done: Vec::new(),
            refused: Vec::new(),
            splits: Vec::new(),
            splits_open: 0,
            parts: 0,
            parts_by_file: Vec::new(),
            attached: None,
        }
    }

    /// The engine's name.
    pub fn engine_name(&self) -> &'static str {
        self.engine.name()
    }

    /// Most operations in flight at once. More requests may be submitted; they wait their turn.
    pub fn depth(&self) -> usize {
        self.engine.depth()
    }

    /// Requests submitted and not yet finished. A split request counts once.
    pub fn outstanding(&self) -> usize {
        self.engine.in_flight() + self.backlog.len() - self.parts
            + self.splits_open
            + self.refused.len()
    }

    /// Registers a pool with the engine.
    ///
    /// # Errors
    /// Why the pool is used unregistered, which is harmless.
    pub fn attach(&mut self, pool: &Pool) -> io::Result<()> {
        self.attached = Some(pool.clone());
        self.engine.attach(pool)
    }

    /// Replaces the engine by another of the same kind. Nothing may be outstanding.
    pub(crate) fn replace(&mut self, engine: Box<dyn Engine>) {
        assert_eq!(self.outstanding(), 0, "operations are in flight in the old engine");
        self.engine = engine;
        if let Some(pool) = &self.attached {
            // Unregistered buffers only cost a little speed.
            let _ = self.engine.attach(pool);
        }
    }

    /// Accepts a request. It starts in the next call of [`Driver::wait`] at the latest.
    pub fn submit(&mut self, request: Request) {
        let RequestTarget::Striped(striped) = &request.target else {
            return self.accept(request, None);
        };
        let striped: Arc<dyn StripedMedium> = Arc::clone(striped);
        if let Err(errno) = striped.prepare(request.kind) {
            self.refused.push(Finished::refused(request, errno));
            return;
        }
        let (split, parts) = split_request(&striped, request);
        self.accept_split(split, parts);
    }

    fn accept_split(&mut self, split: SplitRequest, parts: Vec<PartRequest>) {
        let number = self.splits.iter().position(Option::is_none).unwrap_or(self.splits.len());
        if number == self.splits.len() {
            self.splits.push(None);
        }
        self.splits[number] = Some(split);
        self.splits_open += 1;
        self.parts += parts.len();
        for (object, part) in parts {
            self.accept(part, Some(PartKey { split: number, object }));
        }
    }

    /// Runs the parts of a request. Nothing else may be outstanding.
    ///
    /// # Errors
    /// The split request itself, if the engine failed.
    #[expect(clippy::result_large_err, reason = "the request is handed back, not reported")]
    fn run_parts(
        &mut self,
        split: SplitRequest,
        parts: Vec<PartRequest>,
    ) -> Result<Finished, SplitRequest> {
        assert_eq!(self.outstanding(), 0, "a borrowed driver is idle");
        self.accept_split(split, parts);
        let mut finished = Vec::with_capacity(1);
        match self.drain(&mut finished) {
            Ok(()) => Ok(finished.pop().expect("it was the only one")),
            Err(_) => {
                Err(self.splits.iter_mut().find_map(Option::take).expect("it was the only one"))
            }
        }
    }

    /// Accepts a request to one file.
    fn accept(&mut self, request: Request, part: Option<PartKey>) {
        let op = self.assign_ticket(request, part);
        if !self.backlog.is_empty() {
            self.backlog.push_back(op);
        } else if let Err(op) = self.start(op) {
            self.backlog.push_back(op);
        }
    }

    /// Makes the first attempt of a request to one file and gives it a ticket.
    fn assign_ticket(&mut self, request: Request, part: Option<PartKey>) -> Op {
        let (mut op, attempt) = first_attempt(request, part);
        let ticket = self.free_tickets.pop().unwrap_or_else(|| {
            self.attempts.push(None);
            self.attempts.len() - 1
        });
        self.attempts[ticket] = Some(attempt);
        op.ticket = ticket as u64;
        op
    }

    fn is_part(&self, op: &Op) -> bool {
        self.attempts[op.ticket as usize].as_ref().is_some_and(|attempt| attempt.part.is_some())
    }

    #[expect(clippy::result_large_err, reason = "the operation is handed back, not reported")]
    fn start(&mut self, op: Op) -> Result<(), Op> {
        let key = self.is_part(&op).then(|| file_key(&op));
        self.engine.start(op)?;
        if let Some(key) = key {
            match self.parts_by_file.iter_mut().find(|(file, _)| *file == key) {
                Some((_, count)) => *count += 1,
                None => self.parts_by_file.push((key, 1)),
            }
        }
        Ok(())
    }

    /// Starts the submitted requests, waits until at least `min` requests are finished (or all, if
    /// fewer are outstanding) and appends all finished ones. With `min` 0 it does not wait.
    ///
    /// # Errors
    /// The engine itself failed; the driver must not be used again.
    pub fn wait(&mut self, min: usize, finished: &mut Vec<Finished>) -> io::Result<()> {
        let wanted = finished.len() + min.min(self.outstanding());
        finished.append(&mut self.refused);
        loop {
            let missing = self.completions_for(wanted.saturating_sub(finished.len()));
            self.engine.finish(missing.min(self.engine.in_flight()), &mut self.done)?;
            let retry = self.take_next_steps(finished);
            let refilled = self.refill();
            if finished.len() >= wanted && !retry && !refilled {
                return Ok(());
            }
        }
    }

    /// How many completions to wait for, as a lower bound of those without which `missing` requests
    /// cannot finish. If all requests are wanted, it is all completions; otherwise at least the
    /// parts of one request.
    fn completions_for(&self, missing: usize) -> usize {
        if self.splits_open == 0 || missing == 0 {
            return missing;
        }
        if !self.backlog.is_empty() {
            // Every free place in the engine goes to a waiting operation at once, so that a slow
            // file does not hold up the others.
            return 1;
        }
        let alone = self.engine.in_flight() - self.parts;
        if missing >= self.splits_open + alone {
            return self.parts + alone;
        }
        let fewest = self.splits.iter().flatten().map(|split| split.parts_left).min().unwrap_or(1);
        if alone > 0 { missing } else { missing.max(fewest) }
    }

    /// Decides what follows from each completed operation. Returns true if some must be tried
    /// again.
    fn take_next_steps(&mut self, finished: &mut Vec<Finished>) -> bool {
        let mut retry = false;
        let mut all = std::mem::take(&mut self.done);
        for done in all.drain(..) {
            let ticket = done.op.ticket as usize;
            let attempt =
                self.attempts[ticket].take().expect("an engine gives back what it was given");
            let part = attempt.part;
            if part.is_some() {
                self.release_file(&done.op);
            }
            match next_step(done, attempt) {
                NextStep::Retry(op, attempt) => {
                    self.attempts[ticket] = Some(attempt);
                    self.backlog.push_front(op);
                    retry = true;
                }
                NextStep::Finished(result) => {
                    self.free_tickets.push(ticket);
                    match part {
                        Some(part) => self.finish_part(part, result, finished),
                        None => finished.push(result),
                    }
                }
            }
        }
        self.done = all;
        retry
    }

    fn finish_part(&mut self, part: PartKey, result: Finished, finished: &mut Vec<Finished>) {
        self.parts -= 1;
        let split =
            self.splits[part.split].as_mut().expect("a part belongs to a request under way");
        if let Some((object, next)) = split.finish_part(part.object, result) {
            self.parts += 1;
            let op = self.assign_ticket(next, Some(PartKey { object, ..part }));
            self.backlog.push_back(op);
        } else if split.parts_left == 0 {
            self.splits_open -= 1;
            finished.extend(self.splits[part.split].take().map(SplitRequest::finish));
        }
    }

    fn release_file(&mut self, op: &Op) {
        let key = file_key(op);
        if let Some(index) = self.parts_by_file.iter().position(|(file, _)| *file == key) {
            self.parts_by_file[index].1 -= 1;
            if self.parts_by_file[index].1 == 0 {
                self.parts_by_file.swap_remove(index);
            }
        }
    }

    /// Waits for everything.
    ///
    /// # Errors
    /// As [`Driver::wait`].
    pub fn drain(&mut self, finished: &mut Vec<Finished>) -> io::Result<()> {
        while self.outstanding() > 0 {
            self.wait(self.outstanding(), finished)?;
        }
        Ok(())
    }

    /// Moves waiting operations into the engine. Returns true if it moved any.
    fn refill(&mut self) -> bool {
        let mut moved = false;
        while let Some(op) = self.next() {
            if let Err(op) = self.start(op) {
                self.backlog.push_front(op);
                break;
            }
            moved = true;
        }
        moved
    }

    /// The operation to start next. Without parts it is the oldest. With parts it is the oldest one
    /// of the file that has the fewest operations in the engine: operations for a slow file then
    /// occupy no place that another file could use, until all operations for the others are done.
    fn next(&mut self) -> Option<Op> {
        if self.parts == 0 || self.engine.in_flight() >= self.engine.depth() {
            return self.backlog.pop_front();
        }
        let busy = |op: &Op| {
            let key = file_key(op);
            self.parts_by_file.iter().find(|(file, _)| *file == key).map_or(0, |(_, count)| *count)
        };
        let index = (0..self.backlog.len()).min_by_key(|index| busy(&self.backlog[*index]))?;
        self.backlog.remove(index)
    }
}
