//! Operations on a file that is made of others: each is split into parts, all of which are submitted before one is waited
//! for, and put together again when the last one is over.
//!
//! This is the whole of what the layers above and below would have to know about striped files, and neither does: above,
//! an operation on such a file looks like any other; an engine sees the parts, which are plain operations on plain files.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use rustix::io::Errno;

use super::{Driver, Finished, run_here};
use crate::block::{Dealer, Dealt, Mem};
use crate::engine::{Kind, Op, Part};
use crate::io::Io;

/// Pieces of memory after which a part is closed and another begun: a vector may have 1024 (`IOV_MAX`, `readv(2)`), and
/// one stripe adds at most as many as an operation has.
const MOST_PIECES: usize = 256;

/// Where a byte of a composite file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// In which of its files.
    pub file: usize,
    /// At which offset there, in bytes.
    pub offset: u64,
    /// Bytes that follow there before another file has its turn, at least one.
    pub len: u64,
}

/// A file made of others, as a driver sees it. Each byte is in one place, and each file holds its bytes in the order of
/// the whole.
pub trait Composite: Send + Sync + Debug {
    /// How many files.
    fn files(&self) -> usize;

    /// Comes before each operation; an error is that of the operation, of which nothing is begun.
    ///
    /// # Errors
    /// Why it must not be.
    fn before(&self, kind: Kind) -> Result<(), Errno>;

    /// Where a byte is.
    fn place(&self, position: u64) -> Place;

    /// Which byte is at an offset of a file: the inverse of [`Composite::place`]. An offset before the first byte counts as
    /// that.
    fn position(&self, file: usize, offset: u64) -> u64;

    /// The part of an operation that concerns one file: of `whole` only the kind, the route and the flags matter.
    fn part(&self, file: usize, whole: &Op, offset: u64, mem: Option<Mem>) -> Op;

    /// A part is over; keeps the file's accounts, and may change the outcome.
    fn part_done(&self, file: usize, over: Finished) -> Finished;

    /// The engines to use where the caller has none.
    fn io(&self) -> &Io;
}

/// An operation whose parts are under way.
#[derive(Debug)]
pub(super) struct Joint {
    /// Without its memory.
    op: Op,
    whole: Option<Dealt>,
    /// Parts of a write that wait for another of the same file: what makes that longer arrives in order, so that nothing but
    /// what was written is ever before its end.
    later: VecDeque<Op>,
    pub(super) left: usize,
    /// The first byte that a read did not reach.
    short: Option<u64>,
    /// The first byte that failed, and why.
    failed: Option<(u64, Errno)>,
}

/// Splits an operation into parts, in the order of their first bytes. The number of the joint is in each.
pub(super) fn split(mut op: Op, joint: u32) -> (Joint, Vec<Op>) {
    let medium = Arc::clone(&op.medium);
    let composite = medium.composite().expect("only operations on composite files are split");
    op.done = 0;
    if let Some(mem) = op.mem.take() {
        let place = composite.place(op.offset);
        if place.len >= mem.len() as u64 {
            // All in one file: its memory goes there and comes back as it is.
            let part = composite.part(place.file, &op, place.offset, Some(mem));
            let of = u32::try_from(place.file).expect("files are few");
            let part = Op { part: Some(Part { joint, of }), ..part };
            return (Joint::new(op, None, VecDeque::new(), 1), vec![part]);
        }
        op.mem = Some(mem);
    }
    let (whole, drafts) = match op.mem.take() {
        Some(mem) => deal(composite, op.offset, mem),
        // A sync concerns all files.
        None => (None, (0..composite.files()).map(|file| Draft { file, offset: 0, mem: None }).collect()),
    };
    let part = |draft: Draft| {
        let of = u32::try_from(draft.file).expect("files are few");
        let part = composite.part(draft.file, &op, draft.offset, draft.mem);
        Op { part: Some(Part { joint, of }), ..part }
    };
    let mut parts: Vec<Op> = drafts.into_iter().map(part).collect();
    let (left, mut later) = (parts.len(), Vec::new());
    if op.kind == Kind::Write && left > composite.files() {
        let mut begun = vec![false; composite.files()];
        let is_first = |part: &Op| !std::mem::replace(&mut begun[file_of(part)], true);
        (parts, later) = parts.into_iter().partition(is_first);
    }
    (Joint::new(op, whole, later.into(), left), parts)
}

/// Which file a part concerns.
fn file_of(part: &Op) -> usize {
    part.part.expect("only parts come here").of as usize
}

/// A part to be.
struct Draft {
    file: usize,
    offset: u64,
    mem: Option<Mem>,
}

/// Deals out the memory of an operation. What follows in one file goes into one part, however far apart it is in memory.
fn deal(composite: &dyn Composite, start: u64, mem: Mem) -> (Option<Dealt>, Vec<Draft>) {
    let end = start + mem.len() as u64;
    let mut dealer = Dealer::new(mem);
    let mut drafts: Vec<Draft> = Vec::with_capacity(composite.files());
    // The part of each file that can still grow.
    let mut open: Vec<Option<usize>> = vec![None; composite.files()];
    let mut at = start;
    while at < end {
        let Place { file, offset, len } = composite.place(at);
        let len = len.min(end - at);
        let index = *open[file].get_or_insert_with(|| {
            drafts.push(Draft { file, offset, mem: None });
            drafts.len() - 1
        });
        let mem = &mut drafts[index].mem;
        dealer.give(len as usize, mem);
        if mem.as_ref().is_some_and(|mem| mem.segments() >= MOST_PIECES) {
            open[file] = None;
        }
        at += len;
    }
    (Some(dealer.finish()), drafts)
}

impl Joint {
    fn new(op: Op, whole: Option<Dealt>, later: VecDeque<Op>, left: usize) -> Joint {
        Joint { op, whole, later, left, short: None, failed: None }
    }

    /// Takes a part that is over into account. Returns the one that may begin now.
    pub(super) fn part_over(&mut self, over: Finished) -> Option<Op> {
        let composite = self.op.medium.composite().expect("it was split as one");
        let file = file_of(&over.op);
        let mut over = composite.part_done(file, over);
        let len = over.op.len();
        if self.whole.is_none() {
            self.op.mem = over.op.mem.take();
        }
        match over.outcome {
            Ok(count) if count < len => {
                let reached = composite.position(file, over.op.offset + count as u64);
                self.short = Some(self.short.map_or(reached, |short| short.min(reached)));
            }
            Ok(_) => {}
            Err(errno) => {
                let at = composite.position(file, over.op.position());
                if self.failed.is_none_or(|(first, _)| at < first) {
                    self.failed = Some((at, errno));
                }
            }
        }
        self.left -= 1;
        if over.outcome.is_err() {
            // What is behind it in this file would be behind a gap.
            let before = self.later.len();
            self.later.retain(|part| file_of(part) != file);
            self.left -= before - self.later.len();
            return None;
        }
        let next = self.later.iter().position(|part| file_of(part) == file)?;
        self.later.remove(next)
    }

    /// All parts are over: what became of the whole. Bytes are good up to the first that failed or was not there.
    pub(super) fn finish(self) -> Finished {
        let Joint { mut op, whole, short, failed, .. } = self;
        if let Some(whole) = whole {
            op.mem = whole.rejoin();
        }
        if op.kind != Kind::Read && op.kind != Kind::Write {
            // The place of an error says which file it was.
            op.offset = failed.map_or(op.offset, |(at, _)| at);
            return Finished { op, outcome: failed.map_or(Ok(0), |(_, errno)| Err(errno)) };
        }
        let end = op.offset + op.len() as u64;
        let reached = short.unwrap_or(end).min(failed.map_or(end, |(at, _)| at)).max(op.offset);
        op.done = (reached - op.offset) as usize;
        let outcome = match failed {
            Some((at, errno)) if at <= reached => Err(errno),
            _ => Ok(op.done),
        };
        if let (Kind::Read, Ok(count), Some(mem)) = (op.kind, outcome, op.mem.as_mut()) {
            // What one file holds behind the end that another has is no part of the whole.
            mem.slices_mut(count).iter_mut().for_each(|slice| slice.fill(0));
        }
        Finished { op, outcome }
    }

    /// The engine failed: what has become of the parts is not known.
    fn abandon(mut self) -> Finished {
        self.failed = Some((self.op.offset, Errno::IO));
        self.finish()
    }
}

/// Runs an operation on a composite file to its end: all parts at once.
pub(super) fn run_together(op: Op) -> Finished {
    let medium = Arc::clone(&op.medium);
    let composite = medium.composite().expect("the caller looked");
    if let Err(errno) = composite.before(op.kind) {
        return Finished { op, outcome: Err(errno) };
    }
    let (mut joint, mut parts) = split(op, 0);
    if parts.len() == 1 {
        let mut next = parts.pop();
        while let Some(part) = next {
            next = joint.part_over(run_here(part));
        }
        return joint.finish();
    }
    let mut driver = composite.io().borrow_driver();
    match run_parts(&mut driver, joint, parts) {
        Ok(over) => over,
        Err(joint) => {
            // The engine goes with it, and waits for what it still has: the memory comes back then.
            drop(driver);
            joint.abandon()
        }
    }
}

#[expect(clippy::result_large_err, reason = "the operation is handed back, not reported")]
fn run_parts(driver: &mut Driver, joint: Joint, parts: Vec<Op>) -> Result<Finished, Joint> {
    driver.adopt(joint, parts);
    let mut finished = Vec::with_capacity(1);
    match driver.drain(&mut finished) {
        Ok(()) => Ok(finished.pop().expect("it was the only one")),
        Err(_) => Err(driver.take_joint()),
    }
}
