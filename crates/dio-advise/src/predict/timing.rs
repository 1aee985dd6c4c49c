//! How long requests take by a way, from the costs in a profile.

use std::collections::{BTreeMap, HashMap};

use rustix::fs::OFlags;

use super::facts::{History, Known};
use super::simulate::Timing;
use crate::replay::planned::PlannedRequest;
use crate::speed::{CostTable, Operation, Way};
use crate::trace::Call;

/// The size of the largest requests that are measured. A stream reads or writes so far ahead while
/// the program computes.
const AHEAD: u64 = 1 << 20;

/// Up to so many bytes, a sync costs what an append with a sync does.
const SMALL_SYNC: u64 = 64 << 10;

/// Requests to a file in order.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Where the next request begins.
    next: u64,
    /// When the disk has moved what the stream has asked for so far.
    moved: u64,
}

/// The times of requests: of each file by its way.
pub(super) struct WayTiming<'a> {
    history: &'a History,
    tables: &'a BTreeMap<Way, CostTable>,
    /// The way of each file.
    ways: &'a [Way],
    /// Requests through the page cache take the time that they took when they were recorded.
    as_recorded: bool,
    streams: HashMap<(u32, u32, bool), Stream>,
    /// From when on the disk is free.
    disk_free: u64,
    /// Bytes that were written since the last sync, by file.
    pending: HashMap<u32, u64>,
    /// Seconds of processor time of all requests.
    pub(super) cpu: f64,
}

impl<'a> WayTiming<'a> {
    pub(super) fn new(
        history: &'a History,
        tables: &'a BTreeMap<Way, CostTable>,
        ways: &'a [Way],
        as_recorded: bool,
    ) -> WayTiming<'a> {
        WayTiming {
            history,
            tables,
            ways,
            as_recorded,
            streams: HashMap::new(),
            disk_free: 0,
            pending: HashMap::new(),
            cpu: 0.0,
        }
    }

    /// Nanoseconds of an operation by a way, which is also counted as processor time.
    fn cost(&mut self, way: Way, operation: Operation, bytes: u64) -> u64 {
        self.cpu += self.tables[&way].cpu(operation, bytes);
        self.nanos(way, operation, bytes)
    }

    fn nanos(&self, way: Way, operation: Operation, bytes: u64) -> u64 {
        let table = &self.tables[&way];
        to_nanos(table.seconds(operation, bytes).unwrap_or(0.0))
    }

    /// Has the disk do something of this length, from `from` on at the earliest; returns when it
    /// begins.
    fn occupy(&mut self, from: u64, length: u64) -> u64 {
        let begin = from.max(self.disk_free);
        self.disk_free = begin.saturating_add(length);
        begin
    }

    /// Counts the processor time of a request that takes its recorded time.
    fn count_cpu(&mut self, request: &PlannedRequest) {
        let bytes = request.done;
        let table = &self.tables[&Way::Cached];
        self.cpu += match request.call {
            // The system call without the copy.
            _ if request.direct => table.cpu(Operation::ReadAgain, 0),
            Call::Open => table.cpu(Operation::Open, 0),
            call if call.reads() && request.new_to_cache == 0 => {
                table.cpu(Operation::ReadAgain, bytes)
            }
            call if call.reads() => table.cpu(Operation::ReadInOrder, bytes),
            call if call.writes() => table.cpu(Operation::WriteInOrder, bytes),
            call => of_names(call).map_or(0.0, |operation| table.cpu(operation, 0)),
        };
    }

    /// Nanoseconds for which the disk is occupied by a request at a random place.
    fn occupied(&self, way: Way, operation: Operation, bytes: u64) -> u64 {
        to_nanos(self.tables[&way].occupied(operation, bytes).unwrap_or(0.0))
    }

    /// A request that goes on where a stream is. The stream reads or writes ahead, so a program
    /// that computes between its requests does not wait for the disk.
    fn in_order(
        &mut self,
        way: Way,
        [unpaced, paced]: [Operation; 2],
        bytes: u64,
        before: u64,
        now: u64,
    ) -> (u64, u64) {
        let hidden = self.cost(way, paced, bytes);
        let ahead = self.nanos(way, unpaced, AHEAD);
        let from = before.max(now.saturating_sub(ahead));
        let mut moved = from.saturating_add(self.nanos(way, unpaced, bytes));
        if way != Way::Cached || unpaced == Operation::ReadInOrder {
            let occupied = (u128::from(ahead) * u128::from(bytes) / u128::from(AHEAD)) as u64;
            let begin = self.occupy(from, occupied);
            moved = moved.max(begin.saturating_add(occupied));
        }
        (moved.max(now.saturating_add(hidden)), moved)
    }

    fn read(&mut self, thread: u32, request: &PlannedRequest, known: Known, now: u64) -> u64 {
        let (way, bytes) = (self.ways[request.file as usize], request.done);
        let is_known = match way {
            Way::Cached => known.cached,
            Way::Auto => known.auto,
            _ => false,
        };
        let key = (thread, request.file, false);
        let stream = self.streams.get(&key).filter(|stream| stream.next == request.offset).copied();
        let (end, moved) = match stream {
            _ if is_known || bytes == 0 => {
                let end = now.saturating_add(self.hit(way, stream.is_some(), bytes));
                (end, end)
            }
            Some(stream) => {
                let operations = [Operation::ReadInOrder, Operation::ReadInOrderPaced];
                self.in_order(way, operations, bytes, stream.moved, now)
            }
            None => {
                let end = self.at_random(way, Operation::ReadAtRandom, bytes, now);
                (end, end)
            }
        };
        let next = request.offset.saturating_add(bytes);
        self.streams.insert(key, Stream { next, moved });
        end
    }

    /// A read of what is in memory. Below a mount, a request at another place than the last one is
    /// a question to the server, as a look at a file is, which reads the same from its page cache.
    fn hit(&mut self, way: Way, is_in_order: bool, bytes: u64) -> u64 {
        match (way, is_in_order) {
            (Way::Cached, _) => self.cost(way, Operation::ReadAgain, bytes),
            (_, true) => self.cost(way, Operation::ReadInOrderPaced, bytes),
            (_, false) => {
                let read = self.cost(Way::Cached, Operation::ReadAgain, bytes);
                read.saturating_add(self.cost(way, Operation::Look, 0))
            }
        }
    }

    fn at_random(&mut self, way: Way, operation: Operation, bytes: u64, now: u64) -> u64 {
        let latency = self.cost(way, operation, bytes);
        if way == Way::Cached && operation == Operation::Overwrite {
            return now.saturating_add(latency);
        }
        let occupied = self.occupied(way, operation, bytes).min(latency);
        let begin = self.occupy(now, occupied);
        begin.saturating_add(latency)
    }

    fn write(&mut self, thread: u32, request: &PlannedRequest, to: (u32, u64), now: u64) -> u64 {
        let ((file, offset), bytes) = (to, request.done);
        let way = self.ways[file as usize];
        if request.synced {
            return self.at_random(way, Operation::AppendAndSync, bytes, now);
        }
        self.note_pending(file, bytes);
        let key = (thread, file, true);
        let stream = self.streams.get(&key).copied();
        let is_in_order = stream.map_or(offset == 0, |stream| stream.next == offset);
        let (end, moved) = if is_in_order {
            let operations = [Operation::WriteInOrder, Operation::WriteInOrderPaced];
            self.in_order(way, operations, bytes, stream.map_or(now, |stream| stream.moved), now)
        } else {
            let end = self.at_random(way, Operation::Overwrite, bytes, now);
            (end, end)
        };
        self.streams.insert(key, Stream { next: offset.saturating_add(bytes), moved });
        end
    }

    fn note_pending(&mut self, file: u32, bytes: u64) {
        let pending = self.pending.entry(file).or_default();
        *pending = pending.saturating_add(bytes);
    }

    /// A copy within the kernel. Of what is in the page cache, only the writing takes time.
    fn copy(&mut self, way: Way, request: &PlannedRequest, known: Known, now: u64) -> u64 {
        let (bytes, (to, _)) = (request.done, request.to.unwrap_or_default());
        self.note_pending(to, bytes);
        let length = if way == Way::Cached && known.cached {
            let read = self.cost(way, Operation::ReadAgain, bytes);
            read.saturating_add(self.cost(way, Operation::WriteInOrder, bytes))
        } else {
            self.cost(way, Operation::Copy, bytes)
        };
        self.occupy(now, length).saturating_add(length)
    }

    fn sync(&mut self, request: &PlannedRequest, now: u64) -> u64 {
        let way = self.ways[request.file as usize];
        let length = match self.pending.remove(&request.file).unwrap_or(0) {
            0 => request.took,
            // An append was measured with its sync; the write has been counted already.
            bytes if bytes <= SMALL_SYNC => {
                let write = self.nanos(way, Operation::WriteInOrder, bytes);
                self.cost(way, Operation::AppendAndSync, bytes).saturating_sub(write)
            }
            bytes => self.cost(way, Operation::Sync, bytes),
        };
        self.occupy(now, length).saturating_add(length)
    }

    /// A call that opens a file or is about names took some time when it was recorded; what a way
    /// adds to that is known.
    fn added(&mut self, way: Way, operation: Operation, request: &PlannedRequest) -> u64 {
        let cached = self.nanos(Way::Cached, operation, 0);
        let added = self.cost(way, operation, 0).saturating_sub(cached);
        request.took.saturating_add(added)
    }
}

impl Timing for WayTiming<'_> {
    fn end(&mut self, thread: u32, index: u32, request: &PlannedRequest, now: u64) -> u64 {
        let way = self.ways[request.file as usize];
        let target_way = request.to.map_or(way, |(to, _)| self.ways[to as usize]);
        if self.as_recorded && way == Way::Cached && target_way == Way::Cached {
            self.count_cpu(request);
            return now.saturating_add(request.took);
        }
        let known = self.history.known[thread as usize][index as usize];
        if request.direct && (request.call.reads() || request.call.writes()) {
            // No other way has fewer costs. A mount adds those of asking the server.
            self.count_cpu(request);
            let asked = if way == Way::Cached { 0 } else { self.cost(way, Operation::Look, 0) };
            return now.saturating_add(request.took).saturating_add(asked);
        }
        // Requests that were in flight at once go on where the owner's others are.
        let thread = self.history.owners[thread as usize];
        match request.call {
            Call::Open => {
                let makes = OFlags::CREATE | OFlags::EXCL;
                let is_made = OFlags::from_bits_retain(request.flags).contains(makes);
                let operation = if is_made { Operation::Create } else { Operation::Open };
                let end = now.saturating_add(self.added(way, operation, request));
                // The time of opening was measured with the look at the name.
                let looked = self.nanos(way, Operation::Look, 0);
                let looked = looked.saturating_sub(self.nanos(Way::Cached, Operation::Look, 0));
                let saved = if request.is_of_known { looked } else { 0 };
                end.saturating_sub(saved).max(now.saturating_add(request.took))
            }
            // The kernel remembers what an open file is like.
            Call::Stat if !request.is_of_unknown => now.saturating_add(request.took),
            Call::Fsync | Call::Fdatasync => self.sync(request, now),
            Call::CopyFileRange if way == target_way && request.to.is_some() => {
                self.copy(way, request, known, now)
            }
            call if call.reads() => {
                let read = self.read(thread, request, known, now);
                request.to.map_or(read, |to| self.write(thread, request, to, read))
            }
            // Only memory is written; the disk is later, and at the latest when the file is synced.
            Call::WriteFault => {
                self.note_pending(request.file, request.done);
                now.saturating_add(request.took)
            }
            call if call.writes() => {
                self.write(thread, request, (request.file, request.offset), now)
            }
            call => match of_names(call) {
                Some(operation) => now.saturating_add(self.added(way, operation, request)),
                None => now.saturating_add(request.took),
            },
        }
    }
}

/// What was measured in place of a call that is about names.
fn of_names(call: Call) -> Option<Operation> {
    Some(match call {
        Call::Stat => Operation::Look,
        Call::Getdents => Operation::List,
        Call::Rename => Operation::Rename,
        Call::Unlink | Call::Rmdir => Operation::Remove,
        Call::Mkdir | Call::Mknod | Call::Link | Call::Symlink => Operation::Create,
        call if call.is_of_names() => Operation::Change,
        _ => return None,
    })
}

fn to_nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
