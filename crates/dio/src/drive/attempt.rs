//! What follows from one attempt.

use std::sync::Arc;

use rustix::io::Errno;

use super::request::{Finished, Noted, Request, Target};
use crate::engine::{Done, Kind, Medium, Op};
use crate::geometry::align_down;

/// Attempts without progress before EAGAIN or EINTR is believed. A transient refusal is over long before.
const STALLED_MAX: u32 = 1000;

/// What a driver remembers of a request whose operation an engine has.
#[derive(Debug)]
pub(super) struct Attempt {
    align: usize,
    tag: u64,
    noted: Noted,
    /// Attempts since the last progress.
    stalled: u32,
    /// Whose part it is, where a request was split.
    pub(super) part: Option<Part>,
}

/// Which part of a split request an attempt belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Number of the split request in its driver.
    pub(super) joint: usize,
    /// The object that it concerns.
    pub(super) object: usize,
}

/// What follows from an attempt.
pub(super) enum Verdict {
    Again(Op, Attempt),
    Over(Finished),
}

/// Begins a request to one file.
///
/// # Panics
/// If the request is to several: those are split first.
pub(super) fn begin(request: Request, part: Option<Part>) -> (Op, Attempt) {
    request.check();
    let Request { kind, route, flags, target, offset, mem, align, tag, noted } = request;
    let Target::One(medium) = target else { panic!("an engine knows files, not what is made of them") };
    (
        Op { kind, route, flags, medium, offset, skip: 0, mem, ticket: 0 },
        Attempt { align, tag, noted, stalled: 0, part },
    )
}

/// Runs one attempt in the calling thread.
pub(super) fn run_here(mut op: Op) -> Done {
    let medium: Arc<dyn Medium> = Arc::clone(&op.medium);
    let result = medium.transfer(&mut op);
    Done { op, result }
}

/// Judges an attempt.
pub(super) fn judge(done: Done, mut attempt: Attempt) -> Verdict {
    let Done { op, result } = done;
    match result {
        Ok(count) if op.kind == Kind::Read || op.kind == Kind::Write => transferred(op, attempt, count),
        Ok(_) => over(op, attempt, 0, Ok(0)),
        Err(Errno::INTR | Errno::AGAIN) if attempt.stalled < STALLED_MAX => {
            attempt.stalled += 1;
            if attempt.stalled > 1 {
                std::thread::yield_now();
            }
            Verdict::Again(op, attempt)
        }
        Err(errno) => {
            let done = op.skip;
            over(op, attempt, done, Err(errno))
        }
    }
}

fn transferred(mut op: Op, mut attempt: Attempt, count: usize) -> Verdict {
    assert!(count <= op.remaining(), "an engine transferred more than was asked");
    let (before, done) = (op.skip, op.skip + count);
    if done == op.len() {
        return over(op, attempt, done, Ok(done));
    }
    if op.kind == Kind::Write && count == 0 {
        // pwrite(2) of a positive count has no reason to write nothing; retrying for ever would be worse.
        return over(op, attempt, done, Err(Errno::IO));
    }
    if op.kind == Kind::Read && (count == 0 || is_end(&op, done)) {
        return over(op, attempt, done, Ok(done));
    }
    // A direct attempt can only continue at a multiple of the alignment; the few bytes before are transferred again.
    let resume = align_down(op.offset + done as u64, attempt.align as u64).max(op.offset);
    op.skip = (resume - op.offset) as usize;
    attempt.stalled = if op.skip > before { 0 } else { attempt.stalled + 1 };
    if attempt.stalled > STALLED_MAX {
        let done = op.skip;
        return over(op, attempt, done, Err(Errno::IO));
    }
    Verdict::Again(op, attempt)
}

fn over(op: Op, attempt: Attempt, done: usize, outcome: Result<usize, Errno>) -> Verdict {
    let Op { kind, route, flags, medium, offset, mem, .. } = op;
    let Attempt { align, tag, noted, .. } = attempt;
    let request = Request { kind, route, flags, target: Target::One(medium), offset, mem, align, tag, noted };
    Verdict::Over(Finished { request, done, outcome })
}

/// Whether a short read stopped because the file ends there. Asking the size costs less than the request that would find
/// out, and small files are always read short.
fn is_end(op: &Op, done: usize) -> bool {
    op.medium.size().is_ok_and(|size| op.offset + done as u64 >= size)
}
