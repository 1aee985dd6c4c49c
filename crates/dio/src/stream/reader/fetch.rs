//! Requests of a reader: started ahead, run at once where the consumer waits for one alone, and taken in.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::limits::{ReadAhead, Sizes};
use super::shelf::{Held, Shelf};
use crate::block::Block;
use crate::drive::{Driver, Finished};
use crate::engine::OpKind;
use crate::file::{File, FileError};
use crate::geometry::{align_down, align_up};

/// Operations of a reader that are in flight at a time, at most.
const DEPTH: (usize, usize) = (8, 64);

/// Large requests after which registering the memory with the kernel has paid: it costs a page fault for all of it.
const REGISTERED_AFTER: u64 = 64;

/// Less than this is read when the consumer gets there, in bytes: a ring costs more than reading ahead would save.
const LEAST_AHEAD: u64 = 256 << 10;

/// Failed ranges that are remembered.
const MOST_SUSPECTS: usize = 16;

/// What a reader has done, see [`super::Reader::stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// Requests to the file.
    pub requests: u64,
    /// Bytes that they brought.
    pub read: u64,
    /// Bytes that were read and dropped without the consumer having seen them; of a block of the file of which it has
    /// seen any, none.
    pub vain: u64,
    /// Bytes that are held and that the consumer has not seen.
    pub ahead: u64,
    /// Blocks that were there when the consumer came.
    pub hits: u64,
    /// Blocks that were on their way.
    pub waits: u64,
    /// Blocks that had not been asked for.
    pub misses: u64,
}

/// The file, the memory, and the requests between them.
#[derive(Debug)]
pub(super) struct Fetcher {
    pub(super) file: Arc<File>,
    pub(super) shelf: Shelf,
    pub(super) stats: ReadStats,
    sizes: Sizes,
    /// Made for the first request that nobody waits for.
    driver: Option<Driver>,
    finished: Vec<Finished>,
    /// The size of the file when it was last asked for, which is when the consumer got there. Only a hint.
    size: Option<u64>,
    /// Where requests have failed and nothing has been read since. Nothing is read ahead there.
    suspects: Vec<Range<u64>>,
    large_requests: u64,
}

impl Fetcher {
    pub(super) fn new(file: Arc<File>, limits: ReadAhead) -> Fetcher {
        let sizes = Sizes::new(&file, limits);
        let shelf = Shelf::new(&sizes, limits.lent);
        let (stats, suspects) = (ReadStats::default(), Vec::new());
        Fetcher {
            file,
            shelf,
            stats,
            sizes,
            driver: None,
            finished: Vec::new(),
            size: None,
            suspects,
            large_requests: 0,
        }
    }

    pub(super) fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    fn unit(&self) -> u64 {
        self.sizes.bounds.unit
    }

    /// The size of the file, asked for when a consumer at `position` may have come to the end of what was known.
    pub(super) fn size_at(&mut self, position: u64) -> Option<u64> {
        if self.size.is_none_or(|size| position >= size) {
            self.size = self.file.size().ok();
            if let Some(size) = self.size {
                self.shelf.suit(size);
            }
        }
        self.size
    }

    /// The end of the file as far as it is known.
    pub(super) fn known_end(&self) -> u64 {
        self.size.unwrap_or(i64::MAX as u64 / 2)
    }

    /// Where the last whole block ends that an offset can be told of (`loff_t`).
    pub(super) fn last_end(&self) -> u64 {
        align_down(i64::MAX as u64, self.unit())
    }

    /// Whether a ring is worth making for what is `left` of the file.
    pub(super) fn worth_ahead(&self, left: u64) -> bool {
        self.driver.is_some() || left > LEAST_AHEAD
    }

    /// Whether a request failed around `position`.
    pub(super) fn is_suspect(&self, position: u64) -> bool {
        self.suspects.iter().any(|range| range.contains(&position))
    }

    /// The range of a request of about `len` bytes for a consumer at `position`, of which nothing is held.
    pub(super) fn range_at(&self, position: u64, len: u64) -> Range<u64> {
        let unit = self.unit();
        let start = align_down(position, unit);
        // Where a request has failed, all that can be read is to be, and no more of what cannot is tried than need be.
        let len = if self.is_suspect(position) { 1 } else { len };
        let request = self.sizes.bounds.request;
        let end = align_up(position.saturating_add(len).min(start + request), unit).min(start + request);
        let end = end.min(align_up(self.known_end().max(position + 1), unit)).min(self.last_end());
        start..self.shelf.next_start(start).map_or(end, |next| next.min(end))
    }

    /// Starts a request that the consumer waits for. The range may come out shorter, where memory for the whole is all
    /// in flight.
    pub(super) fn demand(&mut self, range: Range<u64>, plan: u32) -> io::Result<Range<u64>> {
        let (range, block) = self.memory_now(range, plan)?;
        self.submit(range.clone(), block, plan)?;
        Ok(range)
    }

    /// Runs a request that the consumer waits for, without an engine; requests in flight are not waited for.
    pub(super) fn run_now(&mut self, range: Range<u64>, plan: u32) -> io::Result<Option<FileError>> {
        let (range, block) = self.memory_now(range, plan)?;
        let ticket = self.shelf.reserve(range.clone(), plan);
        let len = (range.end - range.start) as usize;
        self.stats.requests += 1;
        let over =
            self.file.io().run(self.file.block_io().request(OpKind::Read, range.start, block.into_mem(0..len), ticket));
        Ok(self.take_in(over))
    }

    fn memory_now(&mut self, range: Range<u64>, plan: u32) -> io::Result<(Range<u64>, Block)> {
        self.shelf.drop_cut(range.start);
        let len = (range.end - range.start) as usize;
        let small = self.shelf.small_len();
        loop {
            if let Some(block) = self.shelf.memory(len, plan, None)? {
                return Ok((range, block));
            }
            let other = if len > small && small > 0 { self.shelf.memory(small, plan, None)? } else { None };
            if let Some(block) = other {
                return Ok((range.start..range.start + small as u64, block));
            }
            if self.in_flight() == 0 {
                // All with the consumer: one comes back when another thread drops it.
                let block = self.shelf.pool_for(len)?.take_many(1).pop().expect("one block was asked for");
                return Ok((range, block));
            }
            self.collect(1)?;
        }
    }

    /// Starts requests for what is not held of a range, as far as there is memory; true when all of it is held then.
    pub(super) fn ahead(&mut self, range: &Range<u64>, plan: u32, others: &[u32]) -> io::Result<bool> {
        let mut at = align_down(range.start, self.unit());
        while at < range.end {
            if let Some(end) = self.shelf.covered(at) {
                at = end;
                continue;
            }
            let end = range.end.min(at + self.sizes.bounds.request);
            let end = self.shelf.next_start(at).map_or(end, |next| next.min(end));
            if self.suspects.iter().any(|suspect| suspect.start < end && at < suspect.end) {
                return Ok(false);
            }
            let small = end.min(at + self.shelf.small_len() as u64);
            let mut memory = (end, self.shelf.memory((end - at) as usize, plan, Some(others))?);
            if memory.1.is_none() && at < small && small < end {
                memory = (small, self.shelf.memory((small - at) as usize, plan, Some(others))?);
            }
            let (end, Some(block)) = memory else { return Ok(false) };
            self.submit(at..end, block, plan)?;
            at = end;
        }
        Ok(true)
    }

    fn submit(&mut self, range: Range<u64>, block: Block, plan: u32) -> io::Result<()> {
        let ticket = self.shelf.reserve(range.clone(), plan);
        let len = (range.end - range.start) as usize;
        self.large_requests += u64::from(len > self.shelf.small_len());
        let register = self.large_requests == REGISTERED_AFTER;
        let op = self.file.block_io().request(OpKind::Read, range.start, block.into_mem(0..len), ticket);
        let depth = (self.sizes.small.1 + self.sizes.large.1).clamp(DEPTH.0, DEPTH.1);
        let driver = self.driver.get_or_insert_with(|| self.file.block_io().driver(depth));
        if register {
            self.large_requests += 1;
            // Unregistered buffers cost a little speed; nothing else.
            let _ = driver.attach(self.shelf.pool_for(len)?);
        }
        self.stats.requests += 1;
        driver.submit(op);
        Ok(())
    }

    /// Requests started and not yet taken in.
    pub(super) fn in_flight(&self) -> usize {
        self.driver.as_ref().map_or(0, Driver::outstanding)
    }

    /// Starts what was submitted and takes in what has been read, waiting for at least `min` requests.
    pub(super) fn collect(&mut self, min: usize) -> io::Result<()> {
        let Some(driver) = self.driver.as_mut().filter(|driver| driver.outstanding() > 0) else { return Ok(()) };
        let mut finished = std::mem::take(&mut self.finished);
        let engine = driver.wait(min, &mut finished);
        for over in finished.drain(..) {
            // What was read ahead and failed is tried again when the consumer gets there.
            self.take_in(over);
        }
        self.finished = finished;
        engine
    }

    /// Keeps what a request has brought, which may be something although it failed; its error.
    fn take_in(&mut self, over: Finished) -> Option<FileError> {
        let (over, outcome) = self.file.block_io().finish(over);
        let (start, asked, ticket) = (over.request.offset, over.request.len() as u64, over.request.tag);
        let usable = match (&outcome, &over.outcome) {
            (Ok(count), _) => *count,
            (Err(_), Err(_)) => over.done,
            // Read, but not in the way that the file was opened for.
            (Err(_), Ok(_)) => 0,
        };
        let block = over.request.mem.and_then(|mem| mem.into_block(usable)).expect("a read returns its block");
        self.stats.read += usable as u64;
        let last = outcome.as_ref().is_ok_and(|count| (*count as u64) < asked);
        self.shelf.fill(start, ticket, block, last);
        match &outcome {
            Ok(_) => self.clear_suspects(&(start..start + asked)),
            Err(_) => self.suspect(start + usable as u64..start + asked),
        }
        outcome.err()
    }

    /// Remembers that a request failed.
    pub(super) fn suspect(&mut self, range: Range<u64>) {
        if self.suspects.iter().any(|known| known.start <= range.start && range.end <= known.end) {
            return;
        }
        if self.suspects.len() == MOST_SUSPECTS {
            self.suspects.remove(0);
        }
        self.suspects.push(range);
    }

    fn clear_suspects(&mut self, read: &Range<u64>) {
        if self.suspects.is_empty() {
            return;
        }
        let rest = |suspect: Range<u64>| {
            let (before, after) =
                (suspect.start..suspect.end.min(read.start), suspect.start.max(read.end)..suspect.end);
            [before, after].into_iter().filter(|range| !range.is_empty())
        };
        self.suspects = std::mem::take(&mut self.suspects).into_iter().flat_map(rest).collect();
        let surplus = self.suspects.len().saturating_sub(MOST_SUSPECTS);
        self.suspects.drain(..surplus);
    }

    /// What has been done so far, the block that the consumer has included.
    pub(super) fn reading(&self, current: Option<&Held>) -> ReadStats {
        let out = current.map_or(0, |held| held.vain(self.unit()));
        ReadStats { vain: self.shelf.vain, ahead: self.shelf.unseen() + out, ..self.stats }
    }
}
