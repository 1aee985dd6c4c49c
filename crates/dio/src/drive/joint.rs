//! Requests to striped files: each is split into parts, all of which are submitted before one is waited for, and put
//! together again when the last is over.
//!
//! Layers above see a request like any other; an engine sees plain operations on plain files.

use std::collections::VecDeque;
use std::sync::Arc;

use rustix::io::Errno;

use super::request::{Finished, Request, Spread, Target};
use crate::block::{Dealer, Dealt, Mem};
use crate::engine::Kind;
use crate::layout::Place;

/// Pieces of memory after which a part is closed and another begun: a vector may have 1024 (`IOV_MAX`, `readv(2)`), and
/// one stripe adds at most as many as a request has.
const PIECES_MAX: usize = 256;

/// A part of a request: the object that it concerns, and the request to it.
pub(super) type PartRequest = (usize, Request);

/// A request whose parts are under way.
#[derive(Debug)]
pub(super) struct Joint {
    spread: Arc<dyn Spread>,
    /// Without its memory.
    request: Request,
    whole: Option<Dealt>,
    /// Parts of a write that wait for another of the same object: what makes an object longer arrives in order, so that
    /// nothing but what was written is ever before its end.
    later: VecDeque<PartRequest>,
    pub(super) left: usize,
    /// The first byte that a read did not reach.
    short: Option<u64>,
    /// The first byte that failed, and why.
    failed: Option<(u64, Errno)>,
}

/// Splits a request to `spread` into parts, in the order of their first bytes.
pub(super) fn split(spread: &Arc<dyn Spread>, mut request: Request) -> (Joint, Vec<PartRequest>) {
    request.check();
    let (layout, spread) = (spread.layout(), Arc::clone(spread));
    let part = |request: &Request, draft: Draft| {
        let part = spread.part(draft.object, request, draft.offset, draft.mem);
        assert!(matches!(part.target, Target::One(_)), "a part concerns one file");
        (draft.object, part)
    };
    let Some(mem) = request.mem.take() else {
        // A sync concerns all objects.
        let parts: Vec<_> =
            (0..layout.objects()).map(|object| part(&request, Draft { object, offset: 0, mem: None })).collect();
        let left = parts.len();
        return (Joint::new(Arc::clone(&spread), request, None, VecDeque::new(), left), parts);
    };
    let place = layout.place(request.offset);
    if place.len >= mem.len() as u64 {
        // All of it is in one object: its memory goes there and comes back as it is.
        let parts = vec![part(&request, Draft { object: place.file, offset: place.offset, mem: Some(mem) })];
        return (Joint::new(Arc::clone(&spread), request, None, VecDeque::new(), 1), parts);
    }
    let (whole, drafts) = deal(&*spread, request.offset, mem);
    let mut parts: Vec<_> = drafts.into_iter().map(|draft| part(&request, draft)).collect();
    let (left, mut later) = (parts.len(), Vec::new());
    if request.kind == Kind::Write && left > layout.objects() {
        let mut begun = vec![false; layout.objects()];
        let is_first = |(object, _): &PartRequest| !std::mem::replace(&mut begun[*object], true);
        (parts, later) = parts.into_iter().partition(is_first);
    }
    (Joint::new(Arc::clone(&spread), request, Some(whole), later.into(), left), parts)
}

/// A part to be.
struct Draft {
    object: usize,
    offset: u64,
    mem: Option<Mem>,
}

/// Deals out the memory of a request. What follows in one object goes into one part, however far apart it is in memory.
fn deal(spread: &dyn Spread, start: u64, mem: Mem) -> (Dealt, Vec<Draft>) {
    let (layout, end) = (spread.layout(), start + mem.len() as u64);
    let mut dealer = Dealer::new(mem);
    let mut drafts: Vec<Draft> = Vec::with_capacity(layout.objects());
    // The part of each object that can still grow.
    let mut open: Vec<Option<usize>> = vec![None; layout.objects()];
    let mut at = start;
    while at < end {
        let Place { file: object, offset, len } = layout.place(at);
        let len = len.min(end - at);
        let index = *open[object].get_or_insert_with(|| {
            drafts.push(Draft { object, offset, mem: None });
            drafts.len() - 1
        });
        let mem = &mut drafts[index].mem;
        dealer.give(len as usize, mem);
        if mem.as_ref().is_some_and(|mem| mem.segments() >= PIECES_MAX) {
            open[object] = None;
        }
        at += len;
    }
    (dealer.finish(), drafts)
}

impl Joint {
    fn new(
        spread: Arc<dyn Spread>,
        request: Request,
        whole: Option<Dealt>,
        later: VecDeque<PartRequest>,
        left: usize,
    ) -> Joint {
        Joint { spread, request, whole, later, left, short: None, failed: None }
    }

    /// Takes a part of `object` that is over into account. Returns the one that may begin now.
    pub(super) fn part_over(&mut self, object: usize, over: Finished) -> Option<PartRequest> {
        let mut over = self.spread.part_done(object, over);
        let (layout, len) = (self.spread.layout(), over.request.len());
        if self.whole.is_none() {
            self.request.mem = over.request.mem.take();
        }
        match over.outcome {
            Ok(count) if count < len => {
                let reached = layout.position(object, over.request.offset + count as u64);
                self.short = Some(self.short.map_or(reached, |short| short.min(reached)));
            }
            Ok(_) => {}
            Err(errno) => {
                let at = layout.position(object, over.position());
                if self.failed.is_none_or(|(first, _)| at < first) {
                    self.failed = Some((at, errno));
                }
            }
        }
        self.left -= 1;
        let of_object = |(other, _): &PartRequest| *other == object;
        if over.outcome.is_err() {
            // What is behind it in this object would be behind a gap.
            let before = self.later.len();
            self.later.retain(|part| !of_object(part));
            self.left -= before - self.later.len();
            return None;
        }
        let next = self.later.iter().position(of_object)?;
        self.later.remove(next)
    }

    /// All parts are over: what became of the whole. Bytes are good up to the first that failed or was not there.
    pub(super) fn finish(self) -> Finished {
        let Joint { mut request, whole, short, failed, .. } = self;
        if let Some(whole) = whole {
            request.mem = whole.rejoin();
        }
        if request.kind != Kind::Read && request.kind != Kind::Write {
            // The place of an error says which object it was.
            request.offset = failed.map_or(request.offset, |(at, _)| at);
            return Finished { request, done: 0, outcome: failed.map_or(Ok(0), |(_, errno)| Err(errno)) };
        }
        let end = request.offset + request.len() as u64;
        let reached = short.unwrap_or(end).min(failed.map_or(end, |(at, _)| at)).max(request.offset);
        let done = (reached - request.offset) as usize;
        let outcome = match failed {
            Some((at, errno)) if at <= reached => Err(errno),
            _ => Ok(done),
        };
        if let (Kind::Read, Ok(count), Some(mem)) = (request.kind, outcome, request.mem.as_mut()) {
            // What one object holds behind the end that another has is no part of the whole.
            mem.slices_mut(count).iter_mut().for_each(|slice| slice.fill(0));
        }
        Finished { request, done, outcome }
    }

    /// The engine failed: what has become of the parts is not known.
    pub(super) fn abandon(mut self) -> Finished {
        self.failed = Some((self.request.offset, Errno::IO));
        self.finish()
    }
}
