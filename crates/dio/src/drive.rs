//! The policy above every engine, written once: short transfers, EAGAIN, EINTR, end of file, and draining.
//!
//! Everything that runs operations (files, copies, streams, queues) does it through a [`Driver`], so that a rule found
//! wrong in the simulator is mended for all of them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use crate::block::Pool;
use crate::engine::{Done, Engine, Kind, Op, Route};
use crate::geometry::align_down;

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
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver({}, {} outstanding)", self.engine.name(), self.outstanding())
    }
}

impl Driver {
    /// A driver of an engine that nobody else uses.
    pub fn new(engine: Box<dyn Engine>) -> Driver {
        Driver { engine, backlog: VecDeque::new(), done: Vec::new() }
    }

    /// The engine's name.
    pub fn engine_name(&self) -> &'static str {
        self.engine.name()
    }

    /// Most operations that are in flight at once; more may be submitted and wait their turn.
    pub fn depth(&self) -> usize {
        self.engine.depth()
    }

    /// Operations submitted and not yet finished.
    pub fn outstanding(&self) -> usize {
        self.engine.in_flight() + self.backlog.len()
    }

    /// Registers a pool with the engine.
    ///
    /// # Errors
    /// Why it is used unregistered; harmless.
    pub fn attach(&mut self, pool: &Pool) -> io::Result<()> {
        self.engine.attach(pool)
    }

    /// Accepts an operation. It may not start before the next [`Driver::wait`].
    pub fn submit(&mut self, op: Op) {
        check(&op);
        if !self.backlog.is_empty() {
            self.backlog.push_back(op);
        } else if let Err(op) = self.engine.start(op) {
            self.backlog.push_back(op);
        }
    }

    /// Starts what was submitted, waits until at least `min` operations are over (or all, if fewer are outstanding) and
    /// appends all that are. With `min` 0 it starts and looks, but does not wait.
    ///
    /// # Errors
    /// The engine itself failed; it must not be used again.
    pub fn wait(&mut self, min: usize, finished: &mut Vec<Finished>) -> io::Result<()> {
        let wanted = finished.len() + min.min(self.outstanding());
        loop {
            let missing = wanted.saturating_sub(finished.len());
            self.engine.finish(missing.min(self.engine.in_flight()), &mut self.done)?;
            let mut again = false;
            for done in self.done.drain(..) {
                match judge(done) {
                    Verdict::Again(op) => {
                        self.backlog.push_front(op);
                        again = true;
                    }
                    Verdict::Over(over) => finished.push(over),
                }
            }
            let refilled = self.refill();
            if finished.len() >= wanted && !again && !refilled {
                return Ok(());
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
        while let Some(op) = self.backlog.pop_front() {
            if let Err(op) = self.engine.start(op) {
                self.backlog.push_front(op);
                break;
            }
            moved = true;
        }
        moved
    }
}
