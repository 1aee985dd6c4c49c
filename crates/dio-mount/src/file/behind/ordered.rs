//! What a program writes in order is acknowledged at once, gathered into large aligned blocks, and written
//! by a thread of the background, or by the first request that has to wait for it.
//!
//! A new file that stays small goes through the page cache, which drops it when it is written: with direct I/O its few bytes
//! would take the device twice, for whole blocks and for the end within a block, and its close would wait for both.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Result;

use super::super::memory::{Chunk, LARGE, SIZES};
use super::super::shared::Shared;
use super::{Aim, told_later};
use crate::stats::{Event, Wait};

/// Bytes of a block; blocks start at multiples of it in the file.
const BLOCK: u64 = SIZES[LARGE] as u64;

/// The most that is in a small file.
pub(in crate::file) const SMALL: u64 = 64 << 10;

/// Most blocks of one write to the source.
const MOST_JOINED: usize = 8;

/// What has not grown for so long is written although its last block is not full.
const IDLE: Duration = Duration::from_millis(300);

/// Acknowledged bytes of an inode that are not yet written.
#[derive(Debug, Default)]
pub(in crate::file) struct Ordered {
    /// Their number, for those who only want to know whether there are any. Changes under the lock.
    bytes: AtomicU64,
    state: Mutex<State>,
    written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Invariant: consecutive, and behind what is being written.
    pieces: VecDeque<Piece>,
    writing: Option<Range<u64>>,
    /// Invariant: set while there is anything.
    target: Option<Aim>,
    /// A thread of the background will come.
    scheduled: bool,
    /// Bytes taken in and written since the beginning: who waits, waits for what was taken in before.
    taken: u64,
    done: u64,
    latest: Option<Instant>,
}

/// A part of a block.
#[derive(Debug)]
struct Piece {
    start: u64,
    len: usize,
    chunk: Chunk,
}

impl Piece {
    fn place(&self) -> usize {
        (self.start % BLOCK) as usize
    }

    fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    fn is_full(&self) -> bool {
        self.len > 0 && self.end() % BLOCK == 0
    }
}

impl State {
    fn range(&self) -> Option<Range<u64>> {
        let start = self.writing.as_ref().map(|range| range.start).or(self.pieces.front().map(|piece| piece.start))?;
        let end = self.pieces.back().map(Piece::end).or(self.writing.as_ref().map(|range| range.end))?;
        Some(start..end)
    }

    /// Appends what fits into the last block.
    fn fill(&mut self, bytes: &[u8]) -> usize {
        let Some(piece) = self.pieces.back_mut().filter(|piece| !piece.is_full()) else { return 0 };
        let from = piece.place() + piece.len;
        let count = bytes.len().min(BLOCK as usize - from);
        piece.chunk.bytes_mut()[from..from + count].copy_from_slice(&bytes[..count]);
        piece.len += count;
        count
    }
}

impl Ordered {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes pending.
    pub(in crate::file) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Where the file will end at least when everything is written.
    pub(in crate::file) fn end(&self) -> Option<u64> {
        if self.bytes() == 0 { None } else { self.state().range().map(|range| range.end) }
    }

    /// Whether any byte of the range is pending.
    pub(in crate::file) fn overlaps(&self, range: &Range<u64>) -> bool {
        let overlaps = |pending: Range<u64>| pending.start < range.end && range.start < pending.end;
        self.bytes() > 0 && self.state().range().is_some_and(overlaps)
    }

    /// Whether it is time to write although nobody asks.
    pub(in crate::file) fn is_due(&self) -> bool {
        self.bytes() > 0 && self.state().latest.is_some_and(|latest| latest.elapsed() >= IDLE)
    }
}

impl Shared {
    /// Takes in what a program wrote behind what is pending, if anything is; at most `most` bytes are pending then. False
    /// where that cannot be: the caller writes it, after what is pending.
    pub(in crate::file) fn take_in(self: &Arc<Self>, target: &Aim, offset: u64, bytes: &[u8], most: u64) -> bool {
        let len = bytes.len() as u64;
        if len > most || bytes.is_empty() {
            return false;
        }
        let mut state = self.ordered.state();
        while state.range().is_some() && self.ordered.bytes() + len > most {
            let since = Instant::now();
            let partial = !state.pieces.front().is_some_and(Piece::is_full);
            state = self.write_some(state, partial);
            self.about.figures.waited(Wait::Room, since.elapsed());
        }
        // Nothing pending begins behind the end of the source, so what is before it can be read there.
        let follows = match state.range() {
            Some(pending) => pending.end == offset,
            None => target.descriptors.size().is_ok_and(|size| offset <= size),
        };
        if !follows || state.range().is_some() && !state.target.as_ref().is_some_and(|known| known.is(target)) {
            return false;
        }
        let room = state.pieces.back().map_or(0, |piece| piece.end().next_multiple_of(BLOCK) - piece.end());
        let Some(mut chunks) = self.chunks(target, offset + room.min(len), len - room.min(len)) else { return false };
        // Before the bytes can be seen here: what was read ahead of them no longer counts.
        self.changes.note(offset..offset + len);
        let mut done = state.fill(bytes);
        while done < bytes.len() {
            let chunk = chunks.pop().expect("there is a chunk for every block that is begun");
            state.pieces.push_back(Piece { start: offset + done as u64, len: 0, chunk });
            done += state.fill(&bytes[done..]);
        }
        state.target = Some(target.clone());
        state.latest = Some(Instant::now());
        state.taken += len;
        self.ordered.bytes.fetch_add(len, Ordering::AcqRel);
        self.about.figures.count(Event::WriteBehind, len);
        self.common.janitor.stir();
        if !state.scheduled && state.writing.is_none() && state.pieces.front().is_some_and(Piece::is_full) {
            let shared = Arc::clone(self);
            state.scheduled = self.common.crew.run(true, move || shared.write_full());
        }
        true
    }

    /// Memory for the blocks that `len` bytes at `start` begin.
    fn chunks(&self, target: &Aim, start: u64, len: u64) -> Option<Vec<Chunk>> {
        if len == 0 {
            return Some(Vec::new());
        }
        let count = (start + len).div_ceil(BLOCK) - start / BLOCK;
        if !self.has_room(&target.descriptors) {
            return None;
        }
        (0..count).map(|_| self.common.memory.take(BLOCK as usize)).collect()
    }

    /// Writes full blocks while there are any.
    fn write_full(&self) {
        let mut state = self.ordered.state();
        state.scheduled = false;
        while state.pieces.front().is_some_and(Piece::is_full) {
            state = self.write_some(state, false);
        }
    }

    /// The same as [`Shared::settle`] of what was written in order, in this thread unless another does so.
    pub(in crate::file) fn settle_ordered(&self) {
        if self.ordered.bytes() == 0 {
            return;
        }
        let mut state = self.ordered.state();
        let mark = state.taken;
        while state.done < mark {
            state = self.write_some(state, true);
        }
    }

    /// Writes the first blocks, or waits for the thread that does. Without `partial`, only full ones.
    fn write_some<'a>(&'a self, mut state: MutexGuard<'a, State>, partial: bool) -> MutexGuard<'a, State> {
        if state.writing.is_some() {
            return self.ordered.written.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let count = state.pieces.iter().take(MOST_JOINED).take_while(|piece| partial || piece.is_full()).count();
        let pieces: Vec<Piece> = state.pieces.drain(..count).collect();
        let (Some(first), Some(last), Some(target)) = (pieces.first(), pieces.last(), state.target.clone()) else {
            return state;
        };
        let range = first.start..last.end();
        let len = range.end - range.start;
        state.writing = Some(range.clone());
        drop(state);
        let outcome = write(&target, &pieces);
        self.about.figures.count(Event::WriteBehindWritten, len);
        if let Err(errno) = outcome {
            self.errors.record(errno);
        }
        self.changes.note(range);
        drop(pieces);
        let mut state = self.ordered.state();
        state.writing = None;
        state.done += len;
        if state.pieces.is_empty() {
            state.target = None;
        }
        self.common.epoch.fetch_add(1, Ordering::AcqRel);
        self.ordered.bytes.fetch_sub(len, Ordering::AcqRel);
        self.ordered.written.notify_all();
        state
    }
}

fn write(target: &Aim, pieces: &[Piece]) -> Result<()> {
    let slices: Vec<IoSlice<'_>> = pieces
        .iter()
        .map(|piece| IoSlice::new(&piece.chunk.bytes()[piece.place()..piece.place() + piece.len]))
        .collect();
    let (start, end) = (pieces[0].start, pieces[pieces.len() - 1].end());
    if start == 0
        && end <= SMALL
        && let Some(written) = target.descriptors.write_new(&slices)
    {
        return written.map_err(told_later);
    }
    // Where nothing more can be opened, what is acknowledged takes the way that is open.
    let file = match target.file() {
        Ok(file) => file,
        // Behind the descriptor of a striped file there is no place for bytes.
        Err(errno) if target.descriptors.is_striped() => return Err(told_later(errno)),
        Err(_) => return target.descriptors.write_plainly(&slices, start).map_err(told_later),
    };
    let outcome = file.write_vectored_at(&slices, start);
    outcome.map_err(|error| told_later(target.descriptors.failed(&file, &error)))
}
