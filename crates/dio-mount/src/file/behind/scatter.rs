//! Writing behind out of order. A small write inside its file is acknowledged once its bytes are in
//! memory. One thread of the mount writes these pieces, many in flight and many with one system
//! call.
//!
//! So the device gets more requests at a time than the program has threads, and no thread wakes up
//! for a single one of them. Pending pieces of an inode never overlap: a request that reads or
//! writes pending bytes waits until they are written.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dio::File;
use dio::block::{Block, Pool};
use dio::file::FileError;
use dio::queue::{Completion, Queue};
use dio_fuse::leave_processor;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;

use super::super::inode::Inode;
use super::super::memory::Memory;
use super::target::{OpenTarget, as_deferred_error};
use crate::stats::{Event, Wait};

/// Most bytes of a piece. A longer write keeps the device busy by itself.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// Most pieces of a mount that may be pending.
const PIECES_MAX: usize = 256;

/// When all pieces are taken and an inode has fewer than this, other inodes have taken them. Its
/// writes do not wait for those: they are not written behind.
const LOW_SHARE_PIECES: usize = PIECES_MAX / 8;

/// When all pieces are taken, waiting requests continue once this many are left. They do not
/// continue one by one, which would cost a thread switch for each, and they continue early enough
/// for the device to have work all the time.
const RESUME_AT_PIECES: usize = PIECES_MAX / 2;

/// Most pieces in flight.
const DEPTH: usize = 32;

/// The thread ends, and gives back its memory, when no piece has arrived for this long.
const IDLE: Duration = Duration::from_secs(5);

/// How long a result is reused: that there is room on the file system, or that there is no memory.
const ANSWER_COUNTS: Duration = Duration::from_millis(100);

/// The pending scattered writes of one inode.
#[derive(Debug)]
pub(in crate::file) struct Scattered {
    inode: Arc<Inode>,
    writer: Arc<Writer>,
    /// Number of pending bytes. It changes under the lock, and is read without it to find out
    /// whether any bytes are pending.
    bytes: AtomicU64,
    state: Mutex<Pending>,
    written: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    /// Pending pieces by their start: the end and the number of each. Invariant: no two overlap.
    pieces: BTreeMap<u64, (u64, u64)>,
    /// Number of pieces so far; also the number of the next piece.
    taken: u64,
    waiting: usize,
    /// When the file system was last found to have room.
    room: Option<Instant>,
}

/// The thread of a mount that writes pieces, and the pieces that it must write.
#[derive(Debug, Default)]
pub(in crate::file) struct Writer {
    post: Arc<WriterQueue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct WriterQueue {
    state: Mutex<ScatterState>,
    /// Wakes the thread when a piece has arrived.
    wake: Condvar,
    /// Wakes requests when there is room for more pieces.
    room: Condvar,
}

#[derive(Debug, Default)]
struct ScatterState {
    jobs: VecDeque<ScatteredWrite>,
    /// Pieces taken, queued or in flight.
    used: usize,
    waiting: usize,
    /// Memory for the pieces. Set while the thread runs.
    pool: Option<Pool>,
    /// When there was last no memory for the pool.
    refused: Option<Instant>,
    asleep: bool,
    over: bool,
}

/// A pending piece. If it is dropped before it is over, by a panic, its write has failed.
#[derive(Debug)]
struct Ticket {
    scattered: Arc<Scattered>,
    range: Range<u64>,
    over: bool,
}

/// A piece to be written.
#[derive(Debug)]
struct ScatteredWrite {
    ticket: Ticket,
    target: OpenTarget,
    block: Block,
}

/// A piece that is being written.
#[derive(Debug)]
struct Flight {
    ticket: Ticket,
    target: OpenTarget,
    /// The file that the piece is written through.
    file: Arc<File>,
}

impl Pending {
    fn overlaps(&self, range: &Range<u64>) -> bool {
        self.overlapping(range).next().is_some()
    }

    /// Returns the numbers of the pieces that overlap the range.
    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = u64> {
        // Pieces do not overlap, so their ends are in the same order as their starts.
        let start = range.start;
        let before_its_end = self.pieces.range(..range.end).rev();
        before_its_end.take_while(move |(_, (end, _))| *end > start).map(|(_, (_, number))| *number)
    }

    /// Whether any of the first `mark` pieces is still pending.
    fn has_before(&self, mark: u64) -> bool {
        self.pieces.values().any(|(_, number)| *number < mark)
    }
}

impl Scattered {
    /// Creates the state of an inode with nothing pending. `writer` will write its pieces.
    pub(in crate::file) fn of(inode: Arc<Inode>, writer: Arc<Writer>) -> Scattered {
        Scattered {
            inode,
            writer,
            bytes: AtomicU64::new(0),
            state: Mutex::default(),
            written: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, Pending> {
        self.state.lock()
    }

    fn wait(&self, state: &mut MutexGuard<'_, Pending>) {
        state.waiting += 1;
        self.written.wait(state);
        state.waiting -= 1;
    }

    /// Bytes pending.
    pub(in crate::file) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Waits until the bytes of the range that are pending now are written. Later writes are
    /// concurrent with the request that waits; waiting for them too might never end on a busy
    /// range.
    pub(in crate::file) fn wait_for(&self, range: &Range<u64>) {
        if self.bytes() == 0 {
            return;
        }
        let mut state = self.state();
        let mark = state.taken;
        while state.overlapping(range).any(|number| number < mark) {
            self.wait(&mut state);
        }
    }

    /// Waits until all bytes that are pending now are written.
    pub(in crate::file) fn settle(&self) {
        if self.bytes() == 0 {
            return;
        }
        let mut state = self.state();
        let mark = state.taken;
        while state.has_before(mark) {
            self.wait(&mut state);
        }
    }

    /// Waits until no pending piece overlaps the range and at most `most` bytes are pending with
    /// it. Then records it as pending, and returns the number of pending pieces, this one included.
    fn enter(&self, range: &Range<u64>, most: u64) -> usize {
        let len = range.end - range.start;
        let mut state = self.state();
        while state.overlaps(range) || self.bytes() + len > most {
            self.wait(&mut state);
        }
        let number = state.taken;
        state.pieces.insert(range.start, (range.end, number));
        state.taken += 1;
        self.bytes.fetch_add(len, Ordering::AcqRel);
        state.pieces.len()
    }

    fn leave(&self, range: &Range<u64>) {
        let mut state = self.state();
        state.pieces.remove(&range.start);
        self.bytes.fetch_sub(range.end - range.start, Ordering::AcqRel);
        if state.waiting > 0 {
            self.written.notify_all();
        }
    }

    /// Whether there is room. `look` is called unless room was found recently.
    fn has_room(&self, look: impl FnOnce() -> bool) -> bool {
        let lately =
            |asked: Option<Instant>| asked.is_some_and(|asked| asked.elapsed() < ANSWER_COUNTS);
        if lately(self.state().room) {
            return true;
        }
        let room = look();
        self.state().room = room.then(Instant::now);
        room
    }

    /// Adds a small write of whole blocks inside the file. At most `most` bytes are pending
    /// afterwards. Returns false if the write cannot be added; the caller then writes it. Pending
    /// bytes of `ordered` must not overlap it.
    pub(in crate::file) fn take(
        self: &Arc<Self>,
        target: &OpenTarget,
        offset: u64,
        bytes: &[u8],
        most: u64,
    ) -> bool {
        let len = bytes.len() as u64;
        let range = offset..offset + len;
        let fits = !bytes.is_empty() && bytes.len() <= PIECE_BYTES_MAX && len <= most;
        let whole = (offset | len) % target.file.block_align() == 0;
        if !fits || !whole || !target.file.size().is_ok_and(|size| range.end <= size) {
            return false;
        }
        let writer = &self.writer;
        if !self.has_room(|| self.inode.has_room(&target.descriptors))
            || !writer.start(target, &self.inode.common.memory)
        {
            return false;
        }
        let own = self.enter(&range, most);
        let told = |waited| self.inode.about.figures.waited(Wait::Room, waited);
        let Some(mut block) = writer.post.block(own, told) else {
            self.leave(&range);
            return false;
        };
        block.copy_in(0, bytes);
        // Noted before the write is acknowledged: bytes of the range that were read ahead are now
        // stale.
        self.inode.changes.note(range.clone());
        self.inode.about.figures.count(Event::WriteBehind, len);
        let ticket = Ticket { scattered: Arc::clone(self), range, over: false };
        let job = ScatteredWrite { ticket, target: target.clone(), block };
        if let Some(job) = writer.post.push(job) {
            // The thread has ended meanwhile.
            job.run_here();
            writer.post.give_back(1);
        }
        true
    }
}

impl Writer {
    /// Starts the thread if it is not running. Returns whether it runs.
    fn start(&self, target: &OpenTarget, memory: &Arc<Memory>) -> bool {
        let mut state = self.post.state();
        if state.pool.is_some() || state.over {
            return !state.over;
        }
        if state.refused.is_some_and(|refused| refused.elapsed() < ANSWER_COUNTS) {
            return false;
        }
        let Some(reserved) = memory.reserve_for(PIECE_BYTES_MAX * PIECES_MAX) else {
            state.refused = Some(Instant::now());
            return false;
        };
        let Ok(pool) = Pool::new(PIECE_BYTES_MAX, PIECES_MAX) else { return false };
        let (post, io, blocks) = (Arc::clone(&self.post), target.file.io().clone(), pool.clone());
        let work = move || {
            leave_processor();
            if catch_unwind(AssertUnwindSafe(|| post.work(Queue::with_pool(&io, blocks, DEPTH))))
                .is_err()
            {
                post.give_up();
            }
            drop(reserved);
        };
        let Ok(handle) = thread::Builder::new().name("dio-writer".into()).spawn(work) else {
            return false;
        };
        *self.thread.lock() = Some(handle);
        state.pool = Some(pool);
        true
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.post.state().over = true;
        self.post.wake.notify_all();
        let thread = self.thread.get_mut().take();
        // The last reference to a mount may be dropped in this very thread.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

impl WriterQueue {
    fn state(&self) -> MutexGuard<'_, ScatterState> {
        self.state.lock()
    }

    /// Returns memory for a piece of an inode that has `own` pieces, and waits until there is some.
    /// Returns `None` if the thread has ended or other inodes hold all pieces. If it had to wait,
    /// it passes the time to `waited`.
    fn block(&self, own: usize, waited: impl FnOnce(Duration)) -> Option<Block> {
        let mut state = self.state();
        // A request that arrives now must not overtake those that wait.
        if state.used >= PIECES_MAX || state.waiting > 0 && state.used > RESUME_AT_PIECES {
            if own < LOW_SHARE_PIECES {
                return None;
            }
            let since = Instant::now();
            while state.used > RESUME_AT_PIECES {
                state.waiting += 1;
                self.room.wait(&mut state);
                state.waiting -= 1;
            }
            waited(since.elapsed());
        }
        let block = state.pool.as_ref()?.try_take()?;
        state.used += 1;
        Some(block)
    }

    /// Hands a job to the thread. Returns the job if the thread has ended.
    fn push(&self, job: ScatteredWrite) -> Option<ScatteredWrite> {
        let mut state = self.state();
        if state.pool.is_none() {
            return Some(job);
        }
        state.jobs.push_back(job);
        if state.asleep {
            state.asleep = false;
            self.wake.notify_one();
        }
        None
    }

    fn give_back(&self, count: usize) {
        let mut state = self.state();
        // `used` is 0 already if the thread has given up.
        state.used = state.used.saturating_sub(count);
        if state.waiting > 0 && state.used <= RESUME_AT_PIECES {
            self.room.notify_all();
        }
    }

    /// Moves up to `most` jobs to `jobs`. With `wait`, waits for the first one. Returns `None` if
    /// the thread must end: no piece has arrived for [`IDLE`], or the writer is being dropped.
    fn take(&self, most: usize, wait: bool, jobs: &mut Vec<ScatteredWrite>) -> Option<()> {
        let mut state = self.state();
        while wait && state.jobs.is_empty() {
            if state.over {
                state.pool = None;
                return None;
            }
            state.asleep = true;
            let slept = self.wake.wait_for(&mut state, IDLE);
            state.asleep = false;
            if slept.timed_out() && state.jobs.is_empty() && state.used == 0 {
                state.pool = None;
                return None;
            }
        }
        let count = most.min(state.jobs.len());
        jobs.extend(state.jobs.drain(..count));
        Some(())
    }

    fn work(&self, mut queue: Queue) {
        let (mut jobs, mut done) = (Vec::new(), Vec::new());
        let mut flights: Vec<Option<Flight>> = (0..DEPTH).map(|_| None).collect();
        while self.take(DEPTH - queue.in_flight(), queue.in_flight() == 0, &mut jobs).is_some() {
            let mut refused = Vec::new();
            for job in jobs.drain(..) {
                let place = flights
                    .iter()
                    .position(Option::is_none)
                    .expect("no more are taken than there are places");
                match job.start(&mut queue, place) {
                    Ok(flight) => flights[place] = Some(flight),
                    Err(job) => refused.push(job),
                }
            }
            // A refused job is written in this thread, and may wait for a lock that a piece in
            // flight holds. So all pieces in flight are finished first.
            let least = if refused.is_empty() { 1 } else { DEPTH };
            let engine = queue.wait(least, &mut done);
            let count = done.len() + refused.len();
            for Completion { tag, outcome, block } in done.drain(..) {
                drop(block);
                flights[tag as usize]
                    .take()
                    .expect("every completion has its flight")
                    .end(outcome.map(drop));
            }
            if engine.is_err() {
                // Dropping the queue releases the locks of the pieces in flight. Their outcome is
                // unknown, so they count as failed.
                drop(queue);
                drop(flights);
                refused.into_iter().for_each(ScatteredWrite::run_here);
                return self.give_up();
            }
            refused.into_iter().for_each(ScatteredWrite::run_here);
            self.give_back(count);
        }
    }

    /// Ends the thread early. Jobs that it has not begun are written here.
    fn give_up(&self) {
        let mut state = self.state();
        state.pool = None;
        let jobs = std::mem::take(&mut state.jobs);
        state.used = 0;
        drop(state);
        self.room.notify_all();
        jobs.into_iter().for_each(ScatteredWrite::run_here);
    }
}

impl ScatteredWrite {
    /// Starts the write. Returns the job if the queue refuses it.
    fn start(self, queue: &mut Queue, place: usize) -> Result<Flight, ScatteredWrite> {
        let ScatteredWrite { ticket, target, block } = self;
        let (file, len) = (target.current(), (ticket.range.end - ticket.range.start) as usize);
        match queue.write(&file, block, ticket.range.start, len, place as u64) {
            Ok(()) => Ok(Flight { ticket, target, file }),
            Err(refused) => Err(ScatteredWrite { ticket, target, block: refused.block }),
        }
    }

    /// Writes a piece in this thread if it could not be queued. If the file was truncated beside
    /// the mount meanwhile, the bytes after its end are lost, as they would be with the page cache.
    fn run_here(self) {
        let ScatteredWrite { ticket, target, block } = self;
        let (file, range) = (target.current(), ticket.range.clone());
        let outcome = file.size().and_then(|size| {
            let len = size.clamp(range.start, range.end) - range.start;
            file.write_at(&block.filled()[..len as usize], range.start)
        });
        drop(block);
        Flight { ticket, target, file }.end(outcome);
    }
}

impl Flight {
    fn end(self, outcome: Result<(), FileError>) {
        let Flight { ticket, target, file } = self;
        ticket.end(outcome.map_err(|error| target.descriptors.failed(&file, &error)));
    }
}

impl Ticket {
    fn end(mut self, outcome: Result<(), Errno>) {
        self.close(outcome);
    }

    fn close(&mut self, outcome: Result<(), Errno>) {
        self.over = true;
        let Ticket { scattered, range, .. } = self;
        let inode = &scattered.inode;
        if let Err(errno) = outcome {
            inode.errors.record(as_deferred_error(errno));
        }
        inode.about.figures.count(Event::WriteBehindWritten, range.end - range.start);
        inode.changes.note(range.clone());
        inode.common.epoch.fetch_add(1, Ordering::AcqRel);
        scattered.leave(range);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.over {
            self.close(Err(Errno::IO));
        }
    }
}
