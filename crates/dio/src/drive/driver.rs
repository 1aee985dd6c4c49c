//! Feeding an engine, and finishing what is unfinished.

use std::collections::VecDeque;
use std::io;
use std::ops::DerefMut;
use std::sync::Arc;

use super::attempt::{Attempt, Part, Verdict, begin, judge, run_here};
use super::joint::{Joint, PartRequest, split};
use super::request::{Finished, Request, Spread, Target};
use crate::block::Pool;
use crate::engine::{Done, Engine, Op};

/// Runs a request to one file to its end in the calling thread, without an engine: the cheapest way for a single request.
///
/// # Panics
/// If the request is to several files.
pub fn run_one(request: Request) -> Finished {
    let (mut op, mut attempt) = begin(request, None);
    loop {
        match judge(run_here(op), attempt) {
            Verdict::Again(again, state) => (op, attempt) = (again, state),
            Verdict::Over(finished) => return finished,
        }
    }
}

/// Runs a request to its end: in the calling thread, and where it has several parts, all of them at once by a driver that
/// is borrowed for it.
pub fn run<D: DerefMut<Target = Driver>>(request: Request, borrow: impl FnOnce() -> D) -> Finished {
    let Target::Spread(spread) = &request.target else { return run_one(request) };
    let spread = Arc::clone(spread);
    if let Err(errno) = spread.before(request.kind) {
        return Finished::refused(request, errno);
    }
    let (mut joint, mut parts) = split(&spread, request);
    if parts.len() == 1 {
        let mut next = parts.pop();
        while let Some((object, part)) = next {
            next = joint.part_over(object, run_one(part));
        }
        return joint.finish();
    }
    let mut driver = borrow();
    match driver.run_parts(joint, parts) {
        Ok(over) => over,
        Err(joint) => {
            // The engine goes with it, and waits for what it still has: the memory comes back then.
            drop(driver);
            joint.abandon()
        }
    }
}

/// Feeds an engine and finishes what is unfinished.
///
/// Three invariants: an operation in the engine or in `backlog` has an entry in `attempts` under its ticket; `parts` counts
/// those of them that are parts; `joined` counts the entries of `joints` that are there.
pub struct Driver {
    engine: Box<dyn Engine>,
    /// Accepted, but the engine was full. Bounded by what users submit before they wait.
    backlog: VecDeque<Op>,
    /// By ticket.
    attempts: Vec<Option<Attempt>>,
    free_tickets: Vec<usize>,
    done: Vec<Done>,
    /// Over before they were split.
    refused: Vec<Finished>,
    /// Requests that were split, by number.
    joints: Vec<Option<Joint>>,
    joined: usize,
    parts: usize,
    /// How many parts the engine has, by the address of their file; empty while there are none.
    lanes: Vec<(usize, usize)>,
    attached: Option<Pool>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver({}, {} outstanding)", self.engine.name(), self.outstanding())
    }
}

/// Identifies the file of an operation among those in flight.
fn lane_of(op: &Op) -> usize {
    Arc::as_ptr(&op.medium).addr()
}

impl Driver {
    /// A driver of an engine that nobody else uses.
    pub fn new(engine: Box<dyn Engine>) -> Driver {
        Driver {
            engine,
            backlog: VecDeque::new(),
            attempts: Vec::new(),
            free_tickets: Vec::new(),
            done: Vec::new(),
            refused: Vec::new(),
            joints: Vec::new(),
            joined: 0,
            parts: 0,
            lanes: Vec::new(),
            attached: None,
        }
    }

    /// The engine's name.
    pub fn engine_name(&self) -> &'static str {
        self.engine.name()
    }

    /// Most operations that are in flight at once; more may be submitted and wait their turn.
    pub fn depth(&self) -> usize {
        self.engine.depth()
    }

    /// Requests submitted and not yet finished. One that was split counts once.
    pub fn outstanding(&self) -> usize {
        self.engine.in_flight() + self.backlog.len() - self.parts + self.joined + self.refused.len()
    }

    /// Registers a pool with the engine.
    ///
    /// # Errors
    /// Why it is used unregistered; harmless.
    pub fn attach(&mut self, pool: &Pool) -> io::Result<()> {
        self.attached = Some(pool.clone());
        self.engine.attach(pool)
    }

    /// Goes on with another engine, which must be of the same kind. Nothing may be outstanding.
    pub(crate) fn replace(&mut self, engine: Box<dyn Engine>) {
        assert_eq!(self.outstanding(), 0, "operations are in flight in the old engine");
        self.engine = engine;
        if let Some(pool) = &self.attached {
            // Unregistered buffers cost a little speed; nothing else.
            let _ = self.engine.attach(pool);
        }
    }

    /// Accepts a request. It may not start before the next [`Driver::wait`].
    pub fn submit(&mut self, request: Request) {
        let Target::Spread(spread) = &request.target else { return self.accept(request, None) };
        let spread: Arc<dyn Spread> = Arc::clone(spread);
        if let Err(errno) = spread.before(request.kind) {
            self.refused.push(Finished::refused(request, errno));
            return;
        }
        let (joint, parts) = split(&spread, request);
        self.adopt(joint, parts);
    }

    fn adopt(&mut self, joint: Joint, parts: Vec<PartRequest>) {
        let number = self.joints.iter().position(Option::is_none).unwrap_or(self.joints.len());
        if number == self.joints.len() {
            self.joints.push(None);
        }
        self.joints[number] = Some(joint);
        self.joined += 1;
        self.parts += parts.len();
        for (object, part) in parts {
            self.accept(part, Some(Part { joint: number, object }));
        }
    }

    /// Runs the parts of a request; nothing else may be outstanding.
    ///
    /// # Errors
    /// The request itself, where the engine failed.
    #[expect(clippy::result_large_err, reason = "the request is handed back, not reported")]
    fn run_parts(&mut self, joint: Joint, parts: Vec<PartRequest>) -> Result<Finished, Joint> {
        assert_eq!(self.outstanding(), 0, "a borrowed driver is idle");
        self.adopt(joint, parts);
        let mut finished = Vec::with_capacity(1);
        match self.drain(&mut finished) {
            Ok(()) => Ok(finished.pop().expect("it was the only one")),
            Err(_) => Err(self.joints.iter_mut().find_map(Option::take).expect("it was the only one")),
        }
    }

    /// Accepts a request to one file.
    fn accept(&mut self, request: Request, part: Option<Part>) {
        let op = self.admit(request, part);
        if !self.backlog.is_empty() {
            self.backlog.push_back(op);
        } else if let Err(op) = self.start(op) {
            self.backlog.push_back(op);
        }
    }

    /// The first attempt of a request to one file, under a ticket.
    fn admit(&mut self, request: Request, part: Option<Part>) -> Op {
        let (mut op, attempt) = begin(request, part);
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
        let lane = self.is_part(&op).then(|| lane_of(&op));
        self.engine.start(op)?;
        if let Some(lane) = lane {
            match self.lanes.iter_mut().find(|(file, _)| *file == lane) {
                Some((_, count)) => *count += 1,
                None => self.lanes.push((lane, 1)),
            }
        }
        Ok(())
    }

    /// Starts what was submitted, waits until at least `min` requests are over (or all, if fewer are outstanding) and
    /// appends all that are. With `min` 0 it starts and looks, but does not wait.
    ///
    /// # Errors
    /// The engine itself failed; it must not be used again.
    pub fn wait(&mut self, min: usize, finished: &mut Vec<Finished>) -> io::Result<()> {
        let wanted = finished.len() + min.min(self.outstanding());
        finished.append(&mut self.refused);
        loop {
            let missing = self.completions_for(wanted.saturating_sub(finished.len()));
            self.engine.finish(missing.min(self.engine.in_flight()), &mut self.done)?;
            let again = self.judge_all(finished);
            let refilled = self.refill();
            if finished.len() >= wanted && !again && !refilled {
                return Ok(());
            }
        }
    }

    /// Completions of the engine without which `missing` requests cannot be over. All are waited for at once where all
    /// are wanted, and those of one request together.
    fn completions_for(&self, missing: usize) -> usize {
        if self.joined == 0 || missing == 0 {
            return missing;
        }
        if !self.backlog.is_empty() {
            // Each place that becomes free goes to what waits for it at once: a slow file must not hold up others.
            return 1;
        }
        let alone = self.engine.in_flight() - self.parts;
        if missing >= self.joined + alone {
            return self.parts + alone;
        }
        let fewest = self.joints.iter().flatten().map(|joint| joint.left).min().unwrap_or(1);
        if alone > 0 { missing } else { missing.max(fewest) }
    }

    /// Judges what the engine gave back; true when some of it has to be tried again.
    fn judge_all(&mut self, finished: &mut Vec<Finished>) -> bool {
        let mut again = false;
        let mut all = std::mem::take(&mut self.done);
        for done in all.drain(..) {
            let ticket = done.op.ticket as usize;
            let attempt = self.attempts[ticket].take().expect("an engine gives back what it was given");
            let part = attempt.part;
            if part.is_some() {
                self.leave_lane(&done.op);
            }
            match judge(done, attempt) {
                Verdict::Again(op, attempt) => {
                    self.attempts[ticket] = Some(attempt);
                    self.backlog.push_front(op);
                    again = true;
                }
                Verdict::Over(over) => {
                    self.free_tickets.push(ticket);
                    match part {
                        Some(part) => self.part_over(part, over, finished),
                        None => finished.push(over),
                    }
                }
            }
        }
        self.done = all;
        again
    }

    fn part_over(&mut self, part: Part, over: Finished, finished: &mut Vec<Finished>) {
        self.parts -= 1;
        let joint = self.joints[part.joint].as_mut().expect("a part belongs to a request under way");
        if let Some((object, next)) = joint.part_over(part.object, over) {
            self.parts += 1;
            let op = self.admit(next, Some(Part { object, ..part }));
            self.backlog.push_back(op);
        } else if joint.left == 0 {
            self.joined -= 1;
            finished.extend(self.joints[part.joint].take().map(Joint::finish));
        }
    }

    fn leave_lane(&mut self, op: &Op) {
        let lane = lane_of(op);
        if let Some(index) = self.lanes.iter().position(|(file, _)| *file == lane) {
            self.lanes[index].1 -= 1;
            if self.lanes[index].1 == 0 {
                self.lanes.swap_remove(index);
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

    /// Moves waiting operations into the engine; true when any moved.
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

    /// The operation that is to start next: the first, or, among parts, the first of the file with the fewest in the
    /// engine. So what waits for a slow file takes no place that another could use, until all that was submitted for the
    /// others is done.
    fn next(&mut self) -> Option<Op> {
        if self.parts == 0 || self.engine.in_flight() >= self.engine.depth() {
            return self.backlog.pop_front();
        }
        let busy = |op: &Op| {
            let lane = lane_of(op);
            self.lanes.iter().find(|(file, _)| *file == lane).map_or(0, |(_, count)| *count)
        };
        let index = (0..self.backlog.len()).min_by_key(|index| busy(&self.backlog[*index]))?;
        self.backlog.remove(index)
    }
}
