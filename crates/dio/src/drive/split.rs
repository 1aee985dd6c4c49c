//! Requests to striped files. The driver splits each into parts, submits all of them before it
//! waits for one, and joins the results when the last part is finished.
//!
//! The layers above see an ordinary request; an engine sees ordinary operations on ordinary files.

use std::collections::VecDeque;
use std::sync::Arc;

use rustix::io::Errno;

use super::request::{Finished, Request, RequestTarget, StripedMedium};
use crate::block::{DividedMem, Mem, MemDivider};
use crate::engine::OpKind;
use crate::layout::ObjectExtent;

/// Segments of memory after which a part is closed and another begun. A vector may have 1024
/// (`IOV_MAX`, `readv(2)`), and one stripe adds at most as many as the request has.
const SEGMENTS_PER_PART_MAX: usize = 256;

/// A part of a request: the index of its object, and the request to that object.
pub(super) type PartRequest = (usize, Request);

/// A request whose parts are in progress.
#[derive(Debug)]
pub(super) struct SplitRequest {
    striped: Arc<dyn StripedMedium>,
    /// The request without its memory.
    request: Request,
    memory: Option<DividedMem>,
    /// Parts of a write that wait for an earlier part of the same object. Parts that make an object
    /// longer are written in order, so that the object never holds unwritten bytes before its end.
    waiting: VecDeque<PartRequest>,
    pub(super) parts_left: usize,
    /// File offset of the first byte that a read did not reach.
    short_at: Option<u64>,
    /// File offset of the first byte that failed, and the error.
    failed_at: Option<(u64, Errno)>,
}

/// Splits a request to `striped` into parts, in the order of their first bytes.
pub(super) fn split_request(
    striped: &Arc<dyn StripedMedium>,
    mut request: Request,
) -> (SplitRequest, Vec<PartRequest>) {
    request.check();
    let (layout, striped) = (striped.layout(), Arc::clone(striped));
    let part = |request: &Request, draft: PartDraft| {
        let part = striped.part_request(draft.object, request, draft.offset, draft.mem);
        assert!(matches!(part.target, RequestTarget::Medium(_)), "a part concerns one file");
        (draft.object, part)
    };
    let Some(mem) = request.mem.take() else {
        // A sync concerns all objects.
        let parts: Vec<_> = (0..layout.objects())
            .map(|object| part(&request, PartDraft { object, offset: 0, mem: None }))
            .collect();
        let parts_left = parts.len();
        return (
            SplitRequest::new(Arc::clone(&striped), request, None, VecDeque::new(), parts_left),
            parts,
        );
    };
    let extent = layout.locate(request.offset);
    if extent.len >= mem.len() as u64 {
        // All bytes lie in one object, so the memory goes there undivided.
        let parts = vec![part(
            &request,
            PartDraft { object: extent.object, offset: extent.offset, mem: Some(mem) },
        )];
        return (SplitRequest::new(Arc::clone(&striped), request, None, VecDeque::new(), 1), parts);
    }
    let (memory, drafts) = divide_memory(&*striped, request.offset, mem);
    let mut parts: Vec<_> = drafts.into_iter().map(|draft| part(&request, draft)).collect();
    let (parts_left, mut waiting) = (parts.len(), Vec::new());
    if request.kind == OpKind::Write && parts_left > layout.objects() {
        let mut begun = vec![false; layout.objects()];
        let is_first = |(object, _): &PartRequest| !std::mem::replace(&mut begun[*object], true);
        (parts, waiting) = parts.into_iter().partition(is_first);
    }
    (
        SplitRequest::new(Arc::clone(&striped), request, Some(memory), waiting.into(), parts_left),
        parts,
    )
}

/// A part whose memory is still being collected.
struct PartDraft {
    object: usize,
    offset: u64,
    mem: Option<Mem>,
}

/// Divides the memory of a request among parts. Consecutive bytes of an object go into one part,
/// however far apart they lie in memory.
fn divide_memory(
    striped: &dyn StripedMedium,
    start: u64,
    mem: Mem,
) -> (DividedMem, Vec<PartDraft>) {
    let (layout, end) = (striped.layout(), start + mem.len() as u64);
    let mut divider = MemDivider::new(mem);
    let mut drafts: Vec<PartDraft> = Vec::with_capacity(layout.objects());
    // For each object, the index of the part that can still grow.
    let mut open: Vec<Option<usize>> = vec![None; layout.objects()];
    let mut at = start;
    while at < end {
        let ObjectExtent { object, offset, len } = layout.locate(at);
        let len = len.min(end - at);
        let index = *open[object].get_or_insert_with(|| {
            drafts.push(PartDraft { object, offset, mem: None });
            drafts.len() - 1
        });
        let mem = &mut drafts[index].mem;
        divider.give(len as usize, mem);
        if mem.as_ref().is_some_and(|mem| mem.segments() >= SEGMENTS_PER_PART_MAX) {
            open[object] = None;
        }
        at += len;
    }
    (divider.finish(), drafts)
}

impl SplitRequest {
    fn new(
        striped: Arc<dyn StripedMedium>,
        request: Request,
        memory: Option<DividedMem>,
        waiting: VecDeque<PartRequest>,
        parts_left: usize,
    ) -> SplitRequest {
        SplitRequest {
            striped,
            request,
            memory,
            waiting,
            parts_left,
            short_at: None,
            failed_at: None,
        }
    }

    /// Records a finished part of `object`. Returns the part that may begin now.
    pub(super) fn finish_part(&mut self, object: usize, part: Finished) -> Option<PartRequest> {
        let mut part = self.striped.finish_part(object, part);
        let (layout, len) = (self.striped.layout(), part.request.len());
        if self.memory.is_none() {
            self.request.mem = part.request.mem.take();
        }
        match part.outcome {
            Ok(count) if count < len => {
                let reached = layout.position(object, part.request.offset + count as u64);
                self.short_at =
                    Some(self.short_at.map_or(reached, |short_at| short_at.min(reached)));
            }
            Ok(_) => {}
            Err(errno) => {
                let at = layout.position(object, part.position());
                if self.failed_at.is_none_or(|(first, _)| at < first) {
                    self.failed_at = Some((at, errno));
                }
            }
        }
        self.parts_left -= 1;
        let of_object = |(other, _): &PartRequest| *other == object;
        if part.outcome.is_err() {
            // The parts behind it in this object would lie behind a gap, so they are dropped.
            let before = self.waiting.len();
            self.waiting.retain(|part| !of_object(part));
            self.parts_left -= before - self.waiting.len();
            return None;
        }
        let next = self.waiting.iter().position(of_object)?;
        self.waiting.remove(next)
    }

    /// Joins the results of all parts. Bytes count up to the first one that failed or was not
    /// there.
    pub(super) fn finish(self) -> Finished {
        let SplitRequest { mut request, memory, short_at, failed_at, .. } = self;
        if let Some(memory) = memory {
            request.mem = memory.rejoin();
        }
        if request.kind != OpKind::Read && request.kind != OpKind::Write {
            // The offset of the error identifies the object that failed.
            request.offset = failed_at.map_or(request.offset, |(at, _)| at);
            return Finished {
                request,
                done: 0,
                outcome: failed_at.map_or(Ok(0), |(_, errno)| Err(errno)),
            };
        }
        let end = request.offset + request.len() as u64;
        let reached =
            short_at.unwrap_or(end).min(failed_at.map_or(end, |(at, _)| at)).max(request.offset);
        let done = (reached - request.offset) as usize;
        let outcome = match failed_at {
            Some((at, errno)) if at <= reached => Err(errno),
            _ => Ok(done),
        };
        if let (OpKind::Read, Ok(count), Some(mem)) = (request.kind, outcome, request.mem.as_mut())
        {
            // Bytes that one object holds behind the end of the file do not belong to the file.
            mem.slices_mut(count).iter_mut().for_each(|slice| slice.fill(0));
        }
        Finished { request, done, outcome }
    }

    /// Gives up after the engine failed: the result of the parts is not known.
    pub(super) fn abandon(mut self) -> Finished {
        self.failed_at = Some((self.request.offset, Errno::IO));
        self.finish()
    }
}
