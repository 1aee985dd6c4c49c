//! Keeps the segments of ranges in flight.

use std::ops::Range;

use super::error::RangesError;
use crate::block::{Block, Mem};
use crate::drive::{Finished, Request};
use crate::engine::OpKind;
use crate::file::error::{FileError, errno_of};
use crate::file::routing::Routing;
use crate::file::segments::buffer_parts;
use crate::file::{File, read, write};
use crate::io::BorrowedDriver;
use crate::lock::LockGuard;
use rustix::io::Errno;

/// A range of which some segments are in flight.
struct ActiveRange<'a> {
    index: usize,
    file: &'a File,
    kind: OpKind,
    range: Range<u64>,
    /// Address of its memory.
    address: usize,
    routing: Routing,
    _guard: Option<LockGuard>,
    /// Resident pages before, while direct requests are on trial.
    pages: Option<u64>,
    /// Segments that are not finished, and one until all are begun.
    left: usize,
    /// Offset up to which the file was read.
    reached: u64,
    failed: bool,
}

/// A segment in flight.
struct Flight<'env> {
    /// Number of its range in [`Pump::active`].
    active: usize,
    /// Where the bytes of a bounced read belong: their offset in the file, and the memory.
    target: Option<(u64, &'env mut [u8])>,
}

/// Keeps requests in flight.
pub(super) struct Pump<'p, 'a, 'env> {
    driver: BorrowedDriver<'p>,
    depth: usize,
    stopped: &'p mut dyn FnMut() -> bool,
    flights: Vec<Option<Flight<'env>>>,
    free: Vec<usize>,
    active: Vec<Option<ActiveRange<'a>>>,
    active_free: Vec<usize>,
    finished: Vec<Finished>,
    /// Bytes transferred of each range that is done.
    counts: Vec<Option<usize>>,
    error: Option<RangesError>,
    /// The engine itself failed: what it has never ends.
    broken: bool,
}

impl<'p, 'a, 'env> Pump<'p, 'a, 'env> {
    /// A pump for so many ranges.
    pub(super) fn new(
        driver: BorrowedDriver<'p>,
        ranges: usize,
        depth: usize,
        stopped: &'p mut dyn FnMut() -> bool,
    ) -> Pump<'p, 'a, 'env> {
        Pump {
            driver,
            depth: depth.clamp(1, DEPTH_MAX),
            stopped,
            flights: Vec::new(),
            free: Vec::new(),
            active: Vec::new(),
            active_free: Vec::new(),
            finished: Vec::new(),
            counts: vec![None; ranges],
            error: None,
            broken: false,
        }
    }

    /// Has the engine take as many requests to this file as are wanted. Nothing may be in flight.
    pub(super) fn grow(&mut self, file: &File) {
        if self.depth > self.driver.depth() {
            let engine = file.io.engine(self.depth, false);
            self.driver.replace(engine);
        }
        file.block_io().grow_driver(&mut self.driver, self.depth, false);
    }

    /// True if no further range is to be begun.
    pub(super) fn is_over(&self) -> bool {
        self.error.is_some()
    }

    /// True if a range has failed, so that the rest is not wanted.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.error, Some(RangesError::Failed { .. }))
    }

    /// Keeps the error of the first range that failed.
    pub(super) fn fail(&mut self, index: usize, error: FileError) {
        match &self.error {
            Some(RangesError::Failed { index: known, .. }) if *known <= index => {}
            _ => self.error = Some(RangesError::Failed { index, error }),
        }
    }

    /// Takes the lock of a range and makes it active.
    pub(super) fn begin(
        &mut self,
        kind: OpKind,
        (index, file, offset): (usize, &'a File, u64),
        (address, len): (usize, usize),
    ) -> Result<usize, FileError> {
        file.refuse_buffered(kind)?;
        let (range, routing) = (offset..offset + len as u64, file.routing(len as u64));
        let guard = file.locks.lock_beside(Some(routing), kind, range.clone(), || {
            if self.broken {
                return Err(file.failed("run I/O on", Errno::IO).at(offset));
            }
            let is_any = self.driver.outstanding() > 0;
            self.collect(usize::from(is_any));
            Ok(is_any)
        })?;
        let pages = file.before_request(kind, routing, &range);
        let reached = range.end;
        let active = ActiveRange {
            index,
            file,
            kind,
            range,
            address,
            routing,
            _guard: guard,
            pages,
            left: 1,
            reached,
            failed: false,
        };
        let number = self.active_free.pop().unwrap_or_else(|| {
            self.active.push(None);
            self.active.len() - 1
        });
        self.active[number] = Some(active);
        Ok(number)
    }

    /// Takes back the beginning of a range of which no segment has begun.
    pub(super) fn forget(&mut self, number: usize) {
        self.active[number] = None;
        self.active_free.push(number);
    }

    /// Waits until there is room for one more request.
    pub(super) fn make_room(&mut self) {
        while self.driver.outstanding() >= self.depth && !self.has_failed() {
            self.collect((self.depth / 8).max(1));
        }
    }

    /// A block to bounce bytes through; `None` if the engine failed.
    pub(super) fn block(&mut self, file: &File) -> Option<Block> {
        while !self.broken {
            if let Some(block) = file.io.bounce().try_take() {
                return Some(block);
            }
            if self.driver.outstanding() == 0 {
                return file.io.bounce().take_many(1).pop();
            }
            self.collect(1);
        }
        None
    }

    pub(super) fn submit(
        &mut self,
        active: usize,
        offset: u64,
        mem: Mem,
        target: Option<(u64, &'env mut [u8])>,
    ) {
        let range = self.active[active].as_mut().expect("segments belong to an active range");
        range.left += 1;
        range.file.count_requests(range.kind, 1);
        let request = range.file.request(range.kind, range.routing, offset, Some(mem));
        let flight = Some(Flight { active, target });
        let tag = match self.free.pop() {
            Some(tag) => {
                self.flights[tag] = flight;
                tag
            }
            None => {
                self.flights.push(flight);
                self.flights.len() - 1
            }
        };
        self.driver.submit(Request { tag: tag as u64, ..request });
    }

    /// Takes finished requests, waiting for at least `min` of them.
    fn collect(&mut self, min: usize) {
        if (self.stopped)() && self.error.is_none() {
            self.error = Some(RangesError::Stopped { done: Vec::new() });
        }
        let mut finished = std::mem::take(&mut self.finished);
        if let Err(error) = self.driver.wait(min, &mut finished) {
            self.lose(&error);
            return;
        }
        for one in finished.drain(..) {
            let tag = one.request.tag as usize;
            let flight = self.flights[tag].take().expect("a request has an entry");
            self.free.push(tag);
            self.end_segment(flight, one);
        }
        self.finished = finished;
    }

    /// Fails all active ranges. The engine waits for what it has when it is dropped.
    fn lose(&mut self, error: &std::io::Error) {
        self.broken = true;
        for number in 0..self.active.len() {
            let Some(range) = self.active[number].as_mut() else { continue };
            range.failed = true;
            let failed = range.file.failed("run I/O on", errno_of(error));
            // What became of the writes in flight is not known.
            let failed = match range.kind {
                OpKind::Read => failed,
                _ => range.file.latch.set(failed),
            };
            let index = range.index;
            self.fail(index, failed);
        }
    }

    fn end_segment(&mut self, flight: Flight<'env>, finished: Finished) {
        let range = self.active[flight.active].as_mut().expect("it has a segment in flight");
        let finished = range.file.without_dontcache(finished);
        let outcome = match range.kind {
            OpKind::Read => read::outcome(range.file, &finished).map(|count| {
                let request = &finished.request;
                if count < request.len() {
                    range.reached = range.reached.min(request.offset + count as u64);
                }
                if let Some(target) = flight.target {
                    let start = finished.request.offset;
                    copy_out(finished.request.mem, count, start, target);
                }
            }),
            _ => write::outcome(range.file, &finished),
        };
        if let Err(error) = outcome {
            range.failed = true;
            let index = range.index;
            self.fail(index, error);
        }
        self.end_part(flight.active);
    }

    /// Ends a segment of a range, or the beginning of its segments. After the last part the range
    /// is done.
    pub(super) fn end_part(&mut self, number: usize) {
        let range = self.active[number].as_mut().expect("it has a part that ends");
        range.left -= 1;
        if range.left > 0 {
            return;
        }
        let range = self.active[number].take().expect("it was there just now");
        self.active_free.push(number);
        if range.failed {
            return;
        }
        let index = range.index;
        match range.end() {
            Ok(count) => self.counts[index] = Some(count),
            Err(error) => self.fail(index, error),
        }
    }

    /// Notes that a range needs no request.
    pub(super) fn note_empty(&mut self, index: usize) {
        self.counts[index] = Some(0);
    }

    /// Ends the beginning of a range whose last segments were not begun.
    pub(super) fn abandon(&mut self, number: usize) {
        self.active[number].as_mut().expect("its beginning has not ended").failed = true;
        self.end_part(number);
    }

    /// Waits for everything in flight. Returns the bytes transferred of each range that is done.
    pub(super) fn finish(mut self) -> (Vec<Option<usize>>, Option<RangesError>) {
        while self.driver.outstanding() > 0 && !self.broken {
            self.collect(1);
        }
        (self.counts, self.error)
    }
}

/// Most requests in flight. More gain nothing on any device.
const DEPTH_MAX: usize = 1024;

impl ActiveRange<'_> {
    /// Counts the bytes of a range that is done. Returns how many were transferred.
    fn end(self) -> Result<usize, FileError> {
        let Range { start, end } = self.range;
        let count = self.reached.clamp(start, end) - start;
        self.file.after_request(self.kind, self.routing, &self.range, self.pages, count)?;
        let align = self.file.align(self.routing.route, self.kind);
        let memory = std::iter::once((self.address, (end - start) as usize));
        let parts = buffer_parts(start, memory, align);
        match self.kind {
            OpKind::Read if self.routing.keep_pages => {
                read::count_whole(self.file, self.routing, count);
            }
            OpKind::Read => {
                read::count_parts(self.file, &parts, start + count, start, align.offset);
            }
            _ => write::count_parts(self.file, self.routing, &parts, align),
        }
        Ok(count as usize)
    }
}

/// Copies what was read into a block, which begins at file offset `start`, to where it belongs.
fn copy_out(mem: Option<Mem>, count: usize, start: u64, (at, target): (u64, &mut [u8])) {
    let Some(block) = mem.and_then(|mem| mem.into_block(count)) else { return };
    let skipped = (at - start) as usize;
    let from = block.filled().get(skipped..).unwrap_or_default();
    let len = from.len().min(target.len());
    target[..len].copy_from_slice(&from[..len]);
}
