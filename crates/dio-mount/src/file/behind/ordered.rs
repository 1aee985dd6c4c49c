//! Sequential writes. They are acknowledged at once, gathered into large aligned blocks, and
//! written by a background thread, or by the first request that must wait for them.
//!
//! A new file that stays small is written through the page cache, which drops the pages once they
//! are written. With direct I/O its few bytes would use the device twice, once for whole blocks and
//! once for the end within a block, and its close would wait for both.

use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dio_sys::uninterrupted;
use rustix::fs::SeekFrom;
use rustix::io::{Errno, Result};

use super::super::inode::Inode;
use super::super::memory::{Chunk, LARGE, SIZES};
use super::queue::{BehindQueue, QueuedBytes};
use super::target::{LazyTarget, as_deferred_error};

/// Bytes of a block; blocks start at multiples of it in the file.
const BLOCK: u64 = SIZES[LARGE] as u64;

/// Most bytes of a small file.
pub(in crate::file) const SMALL: u64 = 64 << 10;

/// The pending sequential writes of an inode.
pub(in crate::file) type Ordered = BehindQueue<OrderedPiece>;

/// Consecutive bytes within one block.
#[derive(Debug)]
pub(in crate::file) struct OrderedPiece {
    start: u64,
    len: usize,
    chunk: Chunk,
}

impl OrderedPiece {
    fn place(&self) -> usize {
        (self.start % BLOCK) as usize
    }

    fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    /// Appends the bytes that fit into the block; returns their number.
    fn fill(&mut self, bytes: &[u8]) -> usize {
        let from = self.place() + self.len;
        let count = bytes.len().min(BLOCK as usize - from);
        self.chunk.bytes_mut()[from..from + count].copy_from_slice(&bytes[..count]);
        self.len += count;
        count
    }
}

impl QueuedBytes for OrderedPiece {
    fn len(&self) -> u64 {
        self.len as u64
    }

    fn is_full(&self) -> bool {
        self.len > 0 && self.end() % BLOCK == 0
    }

    fn write(inode: &Inode, target: &LazyTarget, parts: &[OrderedPiece], reach: u64) -> Result<()> {
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return Ok(()) };
        let range = first.start..last.end();
        let outcome = write_around(inode, target, parts, &range, reach);
        inode.changes.note(range);
        outcome
    }
}

impl Ordered {
    /// Whether any byte of the range is pending.
    pub(in crate::file) fn overlaps(&self, range: &Range<u64>) -> bool {
        let overlaps = |pending: Range<u64>| pending.start < range.end && range.start < pending.end;
        self.bytes() > 0 && self.range(&self.state()).is_some_and(overlaps)
    }

    /// Adds a write that continues the pending bytes, or begins the queue if there are none. At
    /// most `most` bytes are pending afterwards. Returns false if the write cannot be added; the
    /// caller then writes it, after the pending bytes.
    pub(in crate::file) fn take(
        self: &Arc<Self>,
        target: &LazyTarget,
        offset: u64,
        bytes: &[u8],
        most: u64,
    ) -> bool {
        let len = bytes.len() as u64;
        if len > most || bytes.is_empty() {
            return false;
        }
        let mut state = self.with_room(len, most);
        // Pending bytes never begin after the end of the source, so the bytes before them can be
        // read from the source.
        let follows = match self.range(&state) {
            Some(pending) => pending.end == offset,
            None => target.descriptors.size().is_ok_and(|size| {
                (state.reach, state.end) = (size, offset);
                offset <= size
            }),
        };
        if !follows || !state.takes(target) {
            return false;
        }
        let room =
            state.parts.back().map_or(0, |piece| piece.end().next_multiple_of(BLOCK) - piece.end());
        let Some(mut chunks) = self.chunks(target, offset + room.min(len), len - room.min(len))
        else {
            return false;
        };
        // Noted before the bytes become visible: bytes of the range that were read ahead are now
        // stale.
        self.inode.changes.note(offset..offset + len);
        let mut done = 0;
        while done < bytes.len() {
            if state.parts.back().is_none_or(OrderedPiece::is_full) {
                let chunk = chunks.pop().expect("there is a chunk for every block that is begun");
                state.parts.push_back(OrderedPiece { start: offset + done as u64, len: 0, chunk });
            }
            done += state.parts.back_mut().map_or(0, |piece| piece.fill(&bytes[done..]));
        }
        self.added(state, target, len);
        true
    }

    /// Returns memory for the blocks that the `len` bytes at `start` lie in.
    fn chunks(&self, target: &LazyTarget, start: u64, len: u64) -> Option<Vec<Chunk>> {
        if len == 0 {
            return Some(Vec::new());
        }
        let count = (start + len).div_ceil(BLOCK) - start / BLOCK;
        if !self.inode.has_room(&target.descriptors) {
            return None;
        }
        (0..count).map(|_| self.inode.memory(BLOCK as usize)).collect()
    }
}

/// Writes the pending bytes, except where other programs have put data beside the mount, after the
/// former end of the source. That data may be synced; the pending bytes are not. The other programs
/// could not know of the pending bytes, since the source does not show them. So this write fails.
fn write_around(
    inode: &Inode,
    target: &LazyTarget,
    pieces: &[OrderedPiece],
    range: &Range<u64>,
    reach: u64,
) -> Result<()> {
    let theirs = grown_beside(inode, target, range, reach);
    inode.own_end.fetch_max(range.end, Ordering::AcqRel);
    let Some(theirs) = theirs else { return write(target, pieces, range) };
    let before = write(target, pieces, &(range.start..theirs.start));
    let behind = write(target, pieces, &(theirs.end..range.end));
    before.and(behind).and(Err(Errno::IO))
}

/// Returns the part of the range that other programs have filled with data by extending the source.
fn grown_beside(
    inode: &Inode,
    target: &LazyTarget,
    range: &Range<u64>,
    reach: u64,
) -> Option<Range<u64>> {
    if target.descriptors.is_striped() {
        return None;
    }
    let known = reach.max(inode.own_end.load(Ordering::Acquire));
    let size = target.descriptors.size().ok()?;
    let theirs = known.max(range.start)..size.min(range.end);
    if theirs.is_empty() {
        return None;
    }
    let data = match rustix::fs::seek(target.descriptors.base(), SeekFrom::Data(theirs.start)) {
        Ok(data) if data < theirs.end => data..theirs.end,
        Ok(_) | Err(Errno::NXIO) => return None,
        Err(_) => theirs,
    };
    filled(target, data)
}

/// Returns the part of a range from its first to its last byte that is not zero. Zeros in the block
/// of the old end may belong to no writer. Returns the whole range if it cannot be read.
fn filled(target: &LazyTarget, range: Range<u64>) -> Option<Range<u64>> {
    let mut buffer = vec![0; 64 << 10];
    let (mut at, mut found) = (range.start, None);
    while at < range.end {
        let len = buffer.len().min((range.end - at) as usize);
        match uninterrupted(|| rustix::io::pread(target.descriptors.base(), &mut buffer[..len], at))
        {
            Ok(0) => break,
            Ok(count) => {
                let read = &buffer[..count];
                let first = read.iter().position(|byte| *byte != 0).map(|index| at + index as u64);
                let last = read.iter().rposition(|byte| *byte != 0).map(|index| at + index as u64);
                if let (Some(first), Some(last)) = (first, last) {
                    found = Some(found.map_or(first, |known: Range<u64>| known.start)..last + 1);
                }
                at += count as u64;
            }
            Err(_) => return Some(range),
        }
    }
    found
}

/// Writes the part of the pieces that lies in the range.
fn write(target: &LazyTarget, pieces: &[OrderedPiece], range: &Range<u64>) -> Result<()> {
    let within = |piece: &OrderedPiece| {
        let (start, end) = (range.start.max(piece.start), range.end.min(piece.end()));
        let at = |offset: u64| piece.place() + (offset - piece.start) as usize;
        (start < end).then(|| at(start)..at(end))
    };
    let parts =
        pieces.iter().filter_map(|piece| Some(IoSlice::new(&piece.chunk.bytes()[within(piece)?])));
    let slices: Vec<IoSlice<'_>> = parts.collect();
    let Range { start, end } = *range;
    if slices.is_empty() {
        return Ok(());
    }
    if start == 0
        && end <= SMALL
        && let Some(written) = target.descriptors.write_new(&slices, false)
    {
        return written.map_err(as_deferred_error);
    }
    // If no file can be opened any more, acknowledged bytes go through the descriptor that is open.
    let file = match target.file() {
        Ok(file) => file,
        // The descriptor of a striped file does not hold the file's bytes.
        Err(errno) if target.descriptors.is_striped() => return Err(as_deferred_error(errno)),
        Err(_) => {
            return target.descriptors.write_plainly(&slices, start).map_err(as_deferred_error);
        }
    };
    let outcome = file.write_vectored_at(&slices, start);
    outcome.map_err(|error| as_deferred_error(target.descriptors.failed(&file, &error)))
}
