//! Decides what follows from one attempt.

use std::sync::Arc;

use rustix::io::Errno;

use super::request::{CacheNote, Finished, Request, RequestTarget};
use crate::engine::{Done, Medium, Op, OpKind};
use crate::geometry::align_down;

/// Attempts without progress after which EAGAIN or EINTR becomes the result. A transient refusal
/// ends long before.
const STALLED_ATTEMPTS_MAX: u32 = 1000;

/// What a driver keeps about a request while an engine has its operation.
#[derive(Debug)]
pub(super) struct Attempt {
    align: usize,
    tag: u64,
    cache: CacheNote,
    /// Attempts since the last progress.
    stalled_attempts: u32,
    /// The part of a split request that this attempt belongs to.
    pub(super) part: Option<PartKey>,
}

/// Identifies a part of a split request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartKey {
    /// Number of the split request in its driver.
    pub(super) split: usize,
    /// Index of the object that the part concerns.
    pub(super) object: usize,
}

/// What a driver does after an attempt.
pub(super) enum NextStep {
    Retry(Op, Attempt),
    Finished(Finished),
}

/// Makes the first attempt of a request to one file.
///
/// # Panics
/// If the request is to a striped file, which must be split first.
pub(super) fn first_attempt(request: Request, part: Option<PartKey>) -> (Op, Attempt) {
    request.check();
    let Request { kind, route, flags, target, offset, mem, align, tag, cache } = request;
    let RequestTarget::Medium(medium) = target else {
        panic!("an engine knows files, not what is made of them")
    };
    (
        Op { kind, route, flags, medium, offset, skip: 0, mem, ticket: 0 },
        Attempt { align, tag, cache, stalled_attempts: 0, part },
    )
}

/// Runs one attempt in the calling thread.
pub(super) fn run_in_this_thread(mut op: Op) -> Done {
    let medium: Arc<dyn Medium> = Arc::clone(&op.medium);
    let result = medium.transfer(&mut op);
    Done { op, result }
}

/// Decides what follows from a completed attempt.
pub(super) fn next_step(done: Done, mut attempt: Attempt) -> NextStep {
    let Done { op, result } = done;
    match result {
        Ok(count) if op.kind == OpKind::Read || op.kind == OpKind::Write => {
            transferred(op, attempt, count)
        }
        Ok(_) => finish(op, attempt, 0, Ok(0)),
        Err(Errno::INTR | Errno::AGAIN) if attempt.stalled_attempts < STALLED_ATTEMPTS_MAX => {
            attempt.stalled_attempts += 1;
            if attempt.stalled_attempts > 1 {
                std::thread::yield_now();
            }
            NextStep::Retry(op, attempt)
        }
        Err(errno) => {
            let done = op.skip;
            finish(op, attempt, done, Err(errno))
        }
    }
}

fn transferred(mut op: Op, mut attempt: Attempt, count: usize) -> NextStep {
    assert!(count <= op.remaining(), "an engine transferred more than was asked");
    let (before, done) = (op.skip, op.skip + count);
    if done == op.len() {
        return finish(op, attempt, done, Ok(done));
    }
    if op.kind == OpKind::Write && count == 0 {
        // pwrite(2) of a positive count has no reason to write nothing. To retry for ever would be
        // worse.
        return finish(op, attempt, done, Err(Errno::IO));
    }
    if op.kind == OpKind::Read && (count == 0 || is_end(&op, done)) {
        return finish(op, attempt, done, Ok(done));
    }
    // A direct attempt can only start at a multiple of the alignment, so the bytes between that and
    // the end of the short transfer are transferred again. Example: a request of 4096 bytes at
    // offset 4096, with an alignment of 512. An attempt transfers 1000 bytes, up to byte 5096. The
    // next one starts at 4608, the multiple of 512 below, so `skip` becomes 512. An attempt that
    // transfers less than 512 bytes leaves `skip` as it was: it counts as stalled.
    let resume = align_down(op.offset + done as u64, attempt.align as u64).max(op.offset);
    op.skip = (resume - op.offset) as usize;
    attempt.stalled_attempts = if op.skip > before { 0 } else { attempt.stalled_attempts + 1 };
    if attempt.stalled_attempts > STALLED_ATTEMPTS_MAX {
        let done = op.skip;
        return finish(op, attempt, done, Err(Errno::IO));
    }
    NextStep::Retry(op, attempt)
}

fn finish(op: Op, attempt: Attempt, done: usize, outcome: Result<usize, Errno>) -> NextStep {
    let Op { kind, route, flags, medium, offset, mem, .. } = op;
    let Attempt { align, tag, cache, .. } = attempt;
    let request = Request {
        kind,
        route,
        flags,
        target: RequestTarget::Medium(medium),
        offset,
        mem,
        align,
        tag,
        cache,
    };
    NextStep::Finished(Finished { request, done, outcome })
}

/// Whether a short read stopped at the end of the file. Small files are always read short, and
/// asking for the size costs less than another read that would return nothing.
fn is_end(op: &Op, done: usize) -> bool {
    op.medium.size().is_ok_and(|size| op.offset + done as u64 >= size)
}
