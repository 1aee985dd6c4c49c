//! Appends that are acknowledged and not yet in the source.
//!
//! An append has no offset until it is in the source: other programs may append there too, beside
//! the mount. So its bytes are gathered without an offset, and the kernel finds the end of the
//! source when they are written (`RWF_APPEND`). Invariants:
//!
//! 1. One system call writes whole requests, so bytes of other programs never come between the
//!    bytes of one request.
//! 2. While appends are pending, no bytes that were acknowledged before them are pending in
//!    `ordered`.
//! 3. A request that reads where the bytes may end up, or that resizes, syncs or closes the file,
//!    waits until they are written.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Result;

use super::super::inode::Inode;
use super::super::memory::{Chunk, LARGE, SIZES};
use super::ordered::SMALL;
use super::queue::{BehindQueue, QueuedBytes, QueuedParts};
use super::target::{LazyTarget, as_deferred_error};

/// Most bytes of a batch.
const BATCH_BYTES_MAX: usize = SIZES[LARGE];

/// The pending appends of an inode.
pub(in crate::file) type Appended = BehindQueue<Batch>;

/// Consecutive append requests.
#[derive(Debug)]
pub(in crate::file) struct Batch {
    chunk: Chunk,
    len: usize,
    /// Set when the next request did not fit.
    closed: bool,
}

impl Batch {
    fn fits(&self, len: usize) -> bool {
        !self.closed && self.len + len <= BATCH_BYTES_MAX
    }

    fn add(&mut self, bytes: &[u8]) {
        self.chunk.bytes_mut()[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl QueuedBytes for Batch {
    fn len(&self) -> u64 {
        self.len as u64
    }

    fn is_full(&self) -> bool {
        self.closed || self.len == BATCH_BYTES_MAX
    }

    fn write(inode: &Inode, target: &LazyTarget, parts: &[Batch], _reach: u64) -> Result<()> {
        let start = target.descriptors.size().unwrap_or(0);
        let _change = inode.changes.begin(start..u64::MAX);
        write(target, parts)
    }

    fn end_after_write(inode: &Inode, target: &LazyTarget, rest: u64, expected: u64) -> u64 {
        let Ok(end) = target.descriptors.size() else { return expected };
        inode.own_end.fetch_max(end, Ordering::AcqRel);
        if end + rest != expected {
            // Other programs have written beside the mount, so the size that the kernel has cached
            // is wrong.
            inode.common.kernel.drop_pages(inode.ino, 0..0);
        }
        end + rest
    }
}

impl QueuedParts<Batch> {
    fn size_of_source(&self) -> Option<u64> {
        self.target.as_ref()?.descriptors.size().ok()
    }
}

impl Appended {
    /// Returns the end of the file when all pending bytes are written. While a write is in
    /// progress, bytes that other programs have appended since the last one are not counted.
    pub(in crate::file) fn end(&self) -> Option<u64> {
        if self.bytes() == 0 {
            return None;
        }
        let state = self.state();
        let size = if state.writing == 0 { state.size_of_source() } else { None };
        self.range(&state)
            .map(|range| size.map_or(range.end, |size| size + range.end - range.start))
    }

    /// Whether bytes before `end` may be pending.
    pub(in crate::file) fn reaches_below(&self, end: u64) -> bool {
        if self.bytes() == 0 {
            return false;
        }
        let state = self.state();
        self.range(&state)
            .is_some_and(|range| range.start.min(state.size_of_source().unwrap_or(0)) < end)
    }

    /// Adds one append request. At most `most` bytes are pending afterwards. Returns false if it
    /// cannot be added; the caller then writes it, after the pending bytes.
    pub(in crate::file) fn take(
        self: &Arc<Self>,
        target: &LazyTarget,
        bytes: &[u8],
        most: u64,
    ) -> bool {
        let len = bytes.len() as u64;
        if bytes.is_empty() || bytes.len() > BATCH_BYTES_MAX || len > most {
            return false;
        }
        let mut state = self.with_room(len, most);
        if !state.takes(target) {
            return false;
        }
        if self.bytes() == 0 {
            let Ok(size) = target.descriptors.size() else { return false };
            state.end = size;
        }
        if !state.parts.back().is_some_and(|batch| batch.fits(bytes.len())) {
            if !self.inode.has_room(&target.descriptors) {
                return false;
            }
            let Some(chunk) = self.inode.memory(BATCH_BYTES_MAX) else { return false };
            if let Some(last) = state.parts.back_mut() {
                last.closed = true;
            }
            state.parts.push_back(Batch { chunk, len: 0, closed: false });
        }
        // Noted before the bytes become visible: bytes of the range that were read ahead are now
        // stale.
        self.inode.changes.note(state.end..state.end + len);
        state.parts.back_mut().expect("there is one that the bytes fit into").add(bytes);
        self.added(state, target, len);
        true
    }
}

fn write(target: &LazyTarget, batches: &[Batch]) -> Result<()> {
    let slices: Vec<IoSlice<'_>> =
        batches.iter().map(|batch| IoSlice::new(&batch.chunk.bytes()[..batch.len])).collect();
    let len: usize = batches.iter().map(|batch| batch.len).sum();
    if len as u64 <= SMALL
        && let Some(written) = target.descriptors.write_new(&slices, true)
    {
        return written.map_err(as_deferred_error);
    }
    // If no file can be opened any more, acknowledged bytes go through the descriptor that is open.
    let Ok(file) = target.file() else {
        return target.descriptors.append_plainly(&slices).map_err(as_deferred_error);
    };
    let outcome = file.append(&slices);
    outcome.map(drop).map_err(|error| as_deferred_error(target.descriptors.failed(&file, &error)))
}
