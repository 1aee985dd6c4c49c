//! The policy above every engine, written once: short transfers, EAGAIN, EINTR, end of file, and draining.
//!
//! Everything that runs operations (files, copies, streams, queues) does it through a [`Driver`], so that a rule found
//! wrong in the simulator is mended for all of them.

mod joint;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use crate::block::Pool;
use crate::engine::{Done, Engine, Kind, Op, Route};
use crate::geometry::align_down;

use joint::Joint;
pub use joint::{Composite, Place};

/// Attempts without progress before EAGAIN or EINTR is believed. A transient refusal is over long before.
const MOST_STALLED: u32 = 1000;

/// An operation that is over.
#[derive(Debug)]
pub struct Finished {
    /// The operation; `op.done` bytes of its memory were transferred, whatever the outcome.
    pub op: Op,
    /// Bytes transferred (of a read, fewer than asked only at the end of the file), or why it stopped.
    pub outcome: Result<usize, Errno>,
}

/// What follows from one attempt.
enum Verdict {
    Again(Op),
    Over(Finished),
}

/// Judges an attempt.
fn judge(done: Done) -> Verdict {
    let Done { mut op, result } = done;
    match result {
        Ok(count) if op.kind == Kind::Read || op.kind == Kind::Write => transferred(op, count),
        Ok(_) => Verdict::Over(Finished { op, outcome: Ok(0) }),
        Err(Errno::INTR | Errno::AGAIN) if op.stalled < MOST_STALLED => {
            op.stalled += 1;
            if op.stalled > 1 {
                std::thread::yield_now();
            }
            Verdict::Again(op)
        }
        Err(errno) => Verdict::Over(Finished { op, outcome: Err(errno) }),
    }
}

fn transferred(mut op: Op, count: usize) -> Verdict {
    assert!(count <= op.remaining(), "an engine transferred more than was asked");
    let before = op.done;
    op.done += count;
    if op.done == op.len() {
        return over(op);
    }
    if op.kind == Kind::Write && count == 0 {
        // pwrite(2) of a positive count has no reason to write nothing; retrying for ever would be worse.
        return Verdict::Over(Finished { op, outcome: Err(Errno::IO) });
    }
    if op.kind == Kind::Read && (count == 0 || at_end(&op)) {
        return over(op);
    }
    // A direct attempt can only continue at a multiple of the alignment; the few bytes before are transferred again.
    let resume = align_down(op.position(), op.align as u64).max(op.offset);
    op.done = (resume - op.offset) as usize;
    op.stalled = if op.done > before { 0 } else { op.stalled + 1 };
    if op.stalled > MOST_STALLED {
        return Verdict::Over(Finished { op, outcome: Err(Errno::IO) });
    }
    Verdict::Again(op)
}

fn over(op: Op) -> Verdict {
    let outcome = Ok(op.done);
    Verdict::Over(Finished { op, outcome })
}

/// Whether a short read stopped because the file ends there. Asking the size costs less than the request that would
/// find out, and small files are always read short.
fn at_end(op: &Op) -> bool {
    op.medium.size().is_ok_and(|size| op.position() >= size)
}

/// Asserts what every engine relies on, a second time behind the place where the operation was built.
fn check(op: &Op) {
    if op.route == Route::Direct {
        let align = op.align as u64;
        assert!(op.offset % align == 0, "direct operation at {} with alignment {align}", op.offset);
        assert!(op.len() as u64 % align == 0, "direct operation of {} bytes with alignment {align}", op.len());
    }
}

/// Runs one operation to its end in the calling thread, without an engine: the cheapest way for a single request.
pub fn run_here(mut op: Op) -> Finished {
    check(&op);
    if op.medium.composite().is_some() {
        return joint::run_together(op);
    }
    loop {
        let medium = Arc::clone(&op.medium);
        let result = medium.transfer(&mut op);
        match judge(Done { op, result }) {
            Verdict::Again(again) => op = again,
            Verdict::Over(finished) => return finished,
        }
    }
}

/// Feeds an engine and finishes what is unfinished.
pub struct Driver {
    engine: Box<dyn Engine>,
    /// Accepted, but the engine was full. Bounded by what users submit before they wait.
    backlog: VecDeque<Op>,
    done: Vec<Done>,
    /// Over before they were split.
    refused: Vec<Finished>,
    /// Operations that were split, by number.
    joints: Vec<Option<Joint>>,
    /// How many there are.
    joined: usize,
    /// Their parts, in the engine or waiting for it.
    parts: usize,
    /// Parts in the engine, by the address of their file; empty while there are none.
    lanes: Vec<(usize, usize)>,
    attached: Option<Pool>,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver({}, {} outstanding)", self.engine.name(), self.outstanding())
    }
}

/// What tells the files of parts apart.
fn lane_of(op: &Op) -> usize {
    Arc::as_ptr(&op.medium).addr()
}

impl Driver {
    /// A driver of an engine that nobody else uses.
    pub fn new(engine: Box<dyn Engine>) -> Driver {
        Driver {
            engine,
            backlog: VecDeque::new(),
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

    /// Operations submitted and not yet finished. One that was split counts once.
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

    /// Accepts an operation. It may not start before the next [`Driver::wait`].
    pub fn submit(&mut self, op: Op) {
        check(&op);
        if let Some(composite) = op.medium.composite() {
            if let Err(errno) = composite.before(op.kind) {
                self.refused.push(Finished { op, outcome: Err(errno) });
                return;
            }
            let number = self.joints.iter().position(Option::is_none).unwrap_or(self.joints.len());
            let (joint, parts) = joint::split(op, u32::try_from(number).expect("operations in flight are few"));
            self.adopt_as(number, joint, parts);
        } else {
            self.accept(op);
        }
    }

    /// Accepts the parts of an operation that has number 0; nothing may be outstanding.
    fn adopt(&mut self, joint: Joint, parts: Vec<Op>) {
        assert_eq!(self.joined, 0, "number 0 is taken");
        self.adopt_as(0, joint, parts);
    }

    fn adopt_as(&mut self, number: usize, joint: Joint, parts: Vec<Op>) {
        if number == self.joints.len() {
            self.joints.push(None);
        }
        self.joints[number] = Some(joint);
        self.joined += 1;
        self.parts += parts.len();
        for part in parts {
            check(&part);
            self.accept(part);
        }
    }

    /// Takes out the one operation that was split; its parts are lost with the engine.
    fn take_joint(&mut self) -> Joint {
        self.joints.iter_mut().find_map(Option::take).expect("one was there")
    }

    fn accept(&mut self, op: Op) {
        if !self.backlog.is_empty() {
            self.backlog.push_back(op);
        } else if let Err(op) = self.start(op) {
            self.backlog.push_back(op);
        }
    }

    #[expect(clippy::result_large_err, reason = "the operation is handed back, not reported")]
    fn start(&mut self, op: Op) -> Result<(), Op> {
        let lane = op.part.map(|_| lane_of(&op));
        self.engine.start(op)?;
        if let Some(lane) = lane {
            match self.lanes.iter_mut().find(|(file, _)| *file == lane) {
                Some((_, count)) => *count += 1,
                None => self.lanes.push((lane, 1)),
            }
        }
        Ok(())
    }

    /// Starts what was submitted, waits until at least `min` operations are over (or all, if fewer are outstanding) and
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

    /// Completions of the engine without which so many operations cannot be over. All are waited for at once where all
    /// are wanted, and those of one operation together.
    fn completions_for(&self, missing: usize) -> usize {
        if self.joined == 0 || missing == 0 {
            return missing;
        }
        if !self.backlog.is_empty() {
            // Each place that becomes free goes to what waits for it at once: those of a slow file must not hold up others.
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
            if done.op.part.is_some() {
                self.leave_lane(&done.op);
            }
            match judge(done) {
                Verdict::Again(op) => {
                    self.backlog.push_front(op);
                    again = true;
                }
                Verdict::Over(over) => match over.op.part {
                    Some(part) => self.part_over(part.joint as usize, over, finished),
                    None => finished.push(over),
                },
            }
        }
        self.done = all;
        again
    }

    fn part_over(&mut self, number: usize, over: Finished, finished: &mut Vec<Finished>) {
        self.parts -= 1;
        let joint = self.joints[number].as_mut().expect("a part belongs to an operation under way");
        if let Some(next) = joint.part_over(over) {
            check(&next);
            self.parts += 1;
            self.backlog.push_back(next);
        } else if joint.left == 0 {
            self.joined -= 1;
            finished.extend(self.joints[number].take().map(Joint::finish));
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
    /// engine. So what waits for a slow file keeps no place that another could use, until all that was submitted for the
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
