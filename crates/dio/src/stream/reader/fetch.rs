//! The requests of a reader. They are started ahead, or run at once if the consumer waits for a
//! single one; their blocks go into the cache.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::cache::{BlockCache, CachedBlock};
use super::limits::{BlockSizes, ReadAhead};
use crate::block::Block;
use crate::drive::{Driver, Finished};
use crate::engine::OpKind;
use crate::file::{File, FileError};
use crate::geometry::{align_down, align_up};

/// Fewest and most operations of a reader in flight.
const DEPTH_MIN: usize = 8;
const DEPTH_MAX: usize = 64;

/// After so many large requests, registering the memory with the kernel pays. It costs a page fault
/// for every page.
const REGISTER_AFTER_REQUESTS: u64 = 64;

/// Up to so many bytes are read when the consumer gets there. A ring costs more than reading ahead
/// would save.
const AHEAD_BYTES_MIN: u64 = 256 << 10;

/// Most failed ranges that are kept.
const SUSPECTS_MAX: usize = 16;

/// The counters of a reader; see [`super::Reader::stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// Requests to the file.
    pub requests: u64,
    /// Bytes that they read.
    pub read: u64,
    /// Bytes that were read and dropped before the consumer got to them. If it has used any byte of
    /// a file block, the whole file block counts as used.
    pub unused: u64,
    /// Bytes that are held and that the consumer has not got to.
    pub ahead: u64,
    /// Blocks that had been read when the consumer came.
    pub hits: u64,
    /// Blocks that were in flight when the consumer came.
    pub waits: u64,
    /// Blocks that had not been requested when the consumer came.
    pub misses: u64,
}

/// The file, the cache, and the requests between them.
#[derive(Debug)]
pub(super) struct Fetcher {
    pub(super) file: Arc<File>,
    pub(super) cache: BlockCache,
    pub(super) stats: ReadStats,
    sizes: BlockSizes,
    /// Made for the first request that nobody waits for.
    driver: Option<Driver>,
    finished: Vec<Finished>,
    /// The size of the file when the consumer last came to the known end. It is only a hint.
    size: Option<u64>,
    /// Ranges of failed requests of which nothing has been read since. They are not read ahead.
    suspects: Vec<Range<u64>>,
    large_requests: u64,
}

impl Fetcher {
    pub(super) fn new(file: Arc<File>, limits: ReadAhead) -> Fetcher {
        let sizes = BlockSizes::new(&file, limits);
        let cache = BlockCache::new(&sizes, limits.lent);
        let (stats, suspects) = (ReadStats::default(), Vec::new());
        Fetcher {
            file,
            cache,
            stats,
            sizes,
            driver: None,
            finished: Vec::new(),
            size: None,
            suspects,
            large_requests: 0,
        }
    }

    pub(super) fn sizes(&self) -> &BlockSizes {
        &self.sizes
    }

    fn unit(&self) -> u64 {
        self.sizes.bounds.unit
    }

    /// The size of the file. Asks for it if a consumer at `position` may have come to the known
    /// end.
    pub(super) fn size_at(&mut self, position: u64) -> Option<u64> {
        if self.size.is_none_or(|size| position >= size) {
            self.size = self.file.size().ok();
            if let Some(size) = self.size {
                self.cache.adapt_to_size(size);
            }
        }
        self.size
    }

    /// The known end of the file.
    pub(super) fn known_end(&self) -> u64 {
        self.size.unwrap_or(i64::MAX as u64 / 2)
    }

    /// The end of the last whole block that an offset can express (`loff_t`).
    pub(super) fn last_end(&self) -> u64 {
        align_down(i64::MAX as u64, self.unit())
    }

    /// Whether a ring pays for the `left` bytes of the file.
    pub(super) fn worth_ahead(&self, left: u64) -> bool {
        self.driver.is_some() || left > AHEAD_BYTES_MIN
    }

    /// Whether a request that covers `position` has failed.
    pub(super) fn is_suspect(&self, position: u64) -> bool {
        self.suspects.iter().any(|range| range.contains(&position))
    }

    /// The range of a request of about `len` bytes for a consumer at `position`. Nothing of it is
    /// held.
    pub(super) fn range_at(&self, position: u64, len: u64) -> Range<u64> {
        let unit = self.unit();
        let start = align_down(position, unit);
        // After a failed request, everything readable is still to be read, and no more of the
        // unreadable part is tried than necessary.
        let len = if self.is_suspect(position) { 1 } else { len };
        let request = self.sizes.bounds.request;
        let end =
            align_up(position.saturating_add(len).min(start + request), unit).min(start + request);
        let end = end.min(align_up(self.known_end().max(position + 1), unit)).min(self.last_end());
        start..self.cache.next_start(start).map_or(end, |next| next.min(end))
    }

    /// Starts a request that the consumer waits for. The range may come out shorter if all memory
    /// for the whole is in flight.
    pub(super) fn demand(&mut self, range: Range<u64>, stream_id: u32) -> io::Result<Range<u64>> {
        let (range, block) = self.memory_now(range, stream_id)?;
        self.submit(range.clone(), block, stream_id)?;
        Ok(range)
    }

    /// Runs a request that the consumer waits for, without an engine. It does not wait for requests
    /// in flight.
    pub(super) fn run_now(
        &mut self,
        range: Range<u64>,
        stream_id: u32,
    ) -> io::Result<Option<FileError>> {
        let (range, block) = self.memory_now(range, stream_id)?;
        let ticket = self.cache.reserve(range.clone(), stream_id);
        let len = (range.end - range.start) as usize;
        self.stats.requests += 1;
        let finished = self.file.io().run(self.file.block_io().request(
            OpKind::Read,
            range.start,
            block.into_mem(0..len),
            ticket,
        ));
        Ok(self.take_in(finished))
    }

    fn memory_now(&mut self, range: Range<u64>, stream_id: u32) -> io::Result<(Range<u64>, Block)> {
        self.cache.drop_cut(range.start);
        let len = (range.end - range.start) as usize;
        let small = self.cache.small_len();
        loop {
            if let Some(block) = self.cache.memory(len, stream_id, None)? {
                return Ok((range, block));
            }
            let other = if len > small && small > 0 {
                self.cache.memory(small, stream_id, None)?
            } else {
                None
            };
            if let Some(block) = other {
                return Ok((range.start..range.start + small as u64, block));
            }
            if self.in_flight() == 0 {
                // The consumer has all blocks. One comes back when another thread drops it.
                let block =
                    self.cache.pool_for(len)?.take_many(1).pop().expect("one block was asked for");
                return Ok((range, block));
            }
            self.collect(1)?;
        }
    }

    /// Starts requests for the missing parts of a range, as far as there is memory. True if all of
    /// the range is then held or in flight.
    pub(super) fn ahead(
        &mut self,
        range: &Range<u64>,
        stream_id: u32,
        live_streams: &[u32],
    ) -> io::Result<bool> {
        let mut at = align_down(range.start, self.unit());
        while at < range.end {
            if let Some(end) = self.cache.covered(at) {
                at = end;
                continue;
            }
            let end = range.end.min(at + self.sizes.bounds.request);
            let end = self.cache.next_start(at).map_or(end, |next| next.min(end));
            if self.suspects.iter().any(|suspect| suspect.start < end && at < suspect.end) {
                return Ok(false);
            }
            let small = end.min(at + self.cache.small_len() as u64);
            let mut memory =
                (end, self.cache.memory((end - at) as usize, stream_id, Some(live_streams))?);
            if memory.1.is_none() && at < small && small < end {
                memory = (
                    small,
                    self.cache.memory((small - at) as usize, stream_id, Some(live_streams))?,
                );
            }
            let (end, Some(block)) = memory else { return Ok(false) };
            self.submit(at..end, block, stream_id)?;
            at = end;
        }
        Ok(true)
    }

    fn submit(&mut self, range: Range<u64>, block: Block, stream_id: u32) -> io::Result<()> {
        let ticket = self.cache.reserve(range.clone(), stream_id);
        let len = (range.end - range.start) as usize;
        self.large_requests += u64::from(len > self.cache.small_len());
        let register = self.large_requests == REGISTER_AFTER_REQUESTS;
        let op =
            self.file.block_io().request(OpKind::Read, range.start, block.into_mem(0..len), ticket);
        let depth = (self.sizes.small.1 + self.sizes.large.1).clamp(DEPTH_MIN, DEPTH_MAX);
        let driver = self.driver.get_or_insert_with(|| self.file.block_io().driver(depth));
        if register {
            self.large_requests += 1;
            // Unregistered buffers only cost a little speed.
            let _ = driver.attach(self.cache.pool_for(len)?);
        }
        self.stats.requests += 1;
        driver.submit(op);
        Ok(())
    }

    /// Requests started and not yet taken in.
    pub(super) fn in_flight(&self) -> usize {
        self.driver.as_ref().map_or(0, Driver::outstanding)
    }

    /// Starts the submitted requests and takes in the finished ones, waiting for at least `min` of
    /// them.
    pub(super) fn collect(&mut self, min: usize) -> io::Result<()> {
        let Some(driver) = self.driver.as_mut().filter(|driver| driver.outstanding() > 0) else {
            return Ok(());
        };
        let mut finished = std::mem::take(&mut self.finished);
        let engine = driver.wait(min, &mut finished);
        for finished in finished.drain(..) {
            // A failed read ahead is tried again when the consumer gets there.
            self.take_in(finished);
        }
        self.finished = finished;
        engine
    }

    /// Keeps the bytes that a request has read, which may be some although it failed. Returns its
    /// error.
    fn take_in(&mut self, finished: Finished) -> Option<FileError> {
        let (finished, outcome) = self.file.block_io().finish(finished);
        let (start, asked, ticket) =
            (finished.request.offset, finished.request.len() as u64, finished.request.tag);
        let usable = match (&outcome, &finished.outcome) {
            (Ok(count), _) => *count,
            (Err(_), Err(_)) => finished.done,
            // The bytes were read, but not in the required mode.
            (Err(_), Ok(_)) => 0,
        };
        let block = finished
            .request
            .mem
            .and_then(|mem| mem.into_block(usable))
            .expect("a read returns its block");
        self.stats.read += usable as u64;
        let last = outcome.as_ref().is_ok_and(|count| (*count as u64) < asked);
        self.cache.fill(start, ticket, block, last);
        match &outcome {
            Ok(_) => self.clear_suspects(&(start..start + asked)),
            Err(_) => self.suspect(start + usable as u64..start + asked),
        }
        outcome.err()
    }

    /// Records that a request failed.
    pub(super) fn suspect(&mut self, range: Range<u64>) {
        if self.suspects.iter().any(|known| known.start <= range.start && range.end <= known.end) {
            return;
        }
        if self.suspects.len() == SUSPECTS_MAX {
            self.suspects.remove(0);
        }
        self.suspects.push(range);
    }

    fn clear_suspects(&mut self, read: &Range<u64>) {
        if self.suspects.is_empty() {
            return;
        }
        let rest = |suspect: Range<u64>| {
            let (before, after) = (
                suspect.start..suspect.end.min(read.start),
                suspect.start.max(read.end)..suspect.end,
            );
            [before, after].into_iter().filter(|range| !range.is_empty())
        };
        self.suspects = std::mem::take(&mut self.suspects).into_iter().flat_map(rest).collect();
        let surplus = self.suspects.len().saturating_sub(SUSPECTS_MAX);
        self.suspects.drain(..surplus);
    }

    /// The counters so far, with the block that the consumer has.
    pub(super) fn stats_with(&self, current: Option<&CachedBlock>) -> ReadStats {
        let out = current.map_or(0, |cached| cached.unused(self.unit()));
        ReadStats {
            unused: self.cache.unused,
            ahead: self.cache.unused_bytes() + out,
            ..self.stats
        }
    }
}
