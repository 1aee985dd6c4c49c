//! The log.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use dio::block::Pool;

use crate::commit::Commit;
use crate::error::WalError;
use crate::format::{Identity, Layout, Lsn, PAYLOAD_BYTES_MAX, SegmentHeader, segment_name};
use crate::group::Group;
use crate::identify::identify;
use crate::listing::{Listing, unfinished_name};
use crate::live::LiveLog;
use crate::log_end::LogEnd;
use crate::options::{Options, TornWrites};
use crate::reader::Reader;
use crate::recovery::{RecoveredLog, Recovery, recover};
use crate::segments::Segments;
use crate::storage::{AtomicWrites, Directory, Storage};
use crate::supply::Supply;
use crate::tail::Tail;
use crate::writer::{Ahead, Writer};

/// Buffers beyond those on their way in the background: one that fills, one that a commit writes, and one more of each so
/// that nobody waits.
const SPARE_BUFFERS: usize = 4;

/// Most threads that write in the background.
const MOST_BEHIND: usize = 256;

/// A log that is open for writing. All methods take `&self` and may be called from many threads.
///
/// Dropped without [`Log::close`], what was appended and not committed may be lost.
pub struct Log {
    shared: Arc<Shared>,
    recovery: Recovery,
    threads: Vec<JoinHandle<()>>,
    /// Given back after the threads have ended, although a reader may still hold the storage.
    _lock: Lock,
}

/// The lock of a storage.
struct Lock(Arc<dyn Storage>);

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

/// What the threads of a log share.
pub(crate) struct Shared {
    pub(crate) segments: Arc<Segments>,
    supply: Arc<Supply>,
    writer: Writer,
    group: Arc<Group<WalError>>,
    tail: Mutex<Tail>,
    /// Number of the oldest segment there is. Whoever truncates holds it.
    oldest: Mutex<u64>,
    delay: Duration,
    /// Set when the log is being closed.
    closing: Mutex<bool>,
    closed: Condvar,
    /// Starts the thread that commits for those who do not wait, once.
    flusher: Mutex<Option<JoinHandle<()>>>,
}

impl Log {
    /// Opens the log in a directory, which must exist; creates one in a directory without segments. Recovers first: see
    /// [`Log::recovery`].
    ///
    /// # Errors
    /// The storage's; [`WalError::InUse`]; [`WalError::Damaged`], [`WalError::Missing`] and [`WalError::Header`] when records
    /// that were durable cannot be read ([`crate::salvage`] takes what is sound); [`WalError::Options`].
    pub fn open(directory: impl AsRef<Path>, options: &Options) -> Result<Log, WalError> {
        let directory = directory.as_ref();
        let storage = Directory::open(directory, options.direct, options.method);
        let failed = |error| WalError::io("open", &directory.to_string_lossy(), None, error);
        Log::open_on(Arc::new(storage.map_err(failed)?), options)
    }

    /// As [`Log::open`], on any storage; of the options, those that are the storage's matter do not apply.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open_on(storage: Arc<dyn Storage>, options: &Options) -> Result<Log, WalError> {
        let failed = |operation| move |error| WalError::io(operation, ".", None, error);
        if !storage.lock().map_err(failed("lock"))? {
            return Err(WalError::InUse);
        }
        let lock = Lock(Arc::clone(&storage));
        let listing = Listing::of(&*storage)?;
        let (segments, found) = match listing.segments.last() {
            Some(last) => open_existing(&storage, *last, &listing)?,
            None => open_new(&storage, options)?,
        };
        for name in &listing.unfinished {
            storage.delete(name).map_err(|error| WalError::io("remove", name, None, error))?;
        }
        // Names of spares may be known to the running system only.
        storage.sync().map_err(failed("sync"))?;
        let count = listing.segments.last().map_or(0, |last| last + 1);
        let supply = Supply::new(Arc::clone(&segments), count, listing.spares, options);
        supply.segment(found.first)?;
        supply.retire(listing.segments.iter().copied().filter(|number| *number < found.first), &mut 0)?;
        Log::assemble(segments, Arc::new(supply), found, options, lock)
    }

    fn assemble(
        segments: Arc<Segments>,
        supply: Arc<Supply>,
        found: RecoveredLog,
        options: &Options,
        lock: Lock,
    ) -> Result<Log, WalError> {
        let layout = segments.layout;
        let chunk = dio::geometry::align_up(options.buffer_bytes.clamp(1, 1 << 30) as u64, layout.block_bytes());
        let chunk = chunk.min(layout.data_bytes());
        let buffers = options.write_behind_buffers.min(MOST_BEHIND) + SPARE_BUFFERS;
        let mut incarnation = [0; 8];
        let random = segments.storage.fill_random(&mut incarnation);
        random.map_err(|error| WalError::io("get random numbers for", ".", None, error))?;
        let group = Arc::new(Group::new(found.end.end, WalError::panicked));
        let ahead = Ahead { background: options.prepare_in_background, zeros: options.zeros_ahead };
        let untorn = goes_on(&segments, &supply, found.end.end, options.torn_writes)?;
        let shared = Shared {
            writer: Writer::new(layout, chunk, buffers, Arc::clone(&supply), Arc::clone(&group), ahead)?,
            tail: Mutex::new(Tail::new(layout, segments.identity, u64::from_le_bytes(incarnation), untorn, found.end)),
            segments,
            supply,
            group,
            oldest: Mutex::new(found.first),
            delay: options.commit_delay,
            closing: Mutex::default(),
            closed: Condvar::new(),
            flusher: Mutex::default(),
        };
        let mut log = Log { shared: Arc::new(shared), recovery: found.recovery, threads: Vec::new(), _lock: lock };
        for _ in 0..options.write_behind_buffers.min(MOST_BEHIND) {
            log.start_thread(|shared| shared.writer.work());
        }
        if options.prepare_in_background {
            log.start_thread(|shared| shared.supply.work());
            if options.zeros_ahead {
                log.start_thread(|shared| shared.writer.work_ahead());
            }
        }
        if let Some(idle) = options.idle_mark.filter(|idle| !idle.is_zero()) {
            let found = log.recovery.end.0;
            log.start_thread(move |shared| shared.mark_when_idle(idle, found));
        }
        Ok(log)
    }

    /// Without a thread more, what it would do in the background is done by those who wait.
    fn start_thread(&mut self, work: impl FnOnce(&Shared) + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("dio-wal".into()).spawn(move || work(&shared));
        self.threads.extend(thread);
    }

    /// What was found when the log was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// How torn writes are met, [`TornWrites::Auto`] decided.
    pub fn torn_writes(&self) -> TornWrites {
        if self.shared.tail().goes_on() { TornWrites::Atomic } else { TornWrites::NewBlock }
    }

    /// Who the log is.
    pub fn identity(&self) -> Identity {
        self.shared.segments.identity
    }

    /// Sizes of the log.
    pub fn layout(&self) -> Layout {
        self.shared.segments.layout
    }

    /// Appends a record and returns its place. It is durable after a commit of this place or a later one.
    ///
    /// # Errors
    /// [`WalError::TooLong`]; [`WalError::Failed`] once a write or sync has failed. [`WalError::Io`] when the segment that
    /// the record needs cannot be made, for want of room above all: then nothing was appended, the log is as it was, and the
    /// same append succeeds as soon as there is room. A block is kept for the mark of [`Log::truncate_before`], which may make some.
    pub fn append(&self, record: &[u8]) -> Result<Lsn, WalError> {
        self.append_vectored(&[record])
    }

    /// Appends one record of several parts.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_vectored(&self, parts: &[&[u8]]) -> Result<Lsn, WalError> {
        let length = parts.iter().map(|part| part.len()).fold(0, usize::saturating_add);
        if length > PAYLOAD_BYTES_MAX {
            return Err(WalError::TooLong(length));
        }
        let shared = &*self.shared;
        // Outside of the lock: of a long record it takes as long as copying it.
        let crc = parts.iter().fold(shared.segments.checksum_seed, |crc, part| crc32c::crc32c_append(crc, part));
        let mut tail = shared.tail_with_room(|tail| tail.reach(length))?;
        tail.append(&shared.writer, parts.iter().copied(), length, crc, || shared.group.durable()).map(Lsn)
    }

    /// Returns when the record at `lsn`, and all before it, are durable.
    ///
    /// # Errors
    /// [`WalError::Failed`] when a write or sync failed before it was; [`WalError::NotAppended`].
    pub fn commit(&self, lsn: Lsn) -> Result<(), WalError> {
        self.shared.check_appended(lsn)?;
        self.shared.group.commit(lsn.0, || self.shared.flush())
    }

    /// Calls `callback` when the record at `lsn`, and all before it, are durable, or when it is known that they will not be.
    /// It runs in a thread of the log or of one who commits: it should be short, and must neither commit nor drop the log. A panic
    /// in it ends there.
    ///
    /// # Errors
    /// [`WalError::NotAppended`].
    pub fn commit_later(
        &self,
        lsn: Lsn,
        callback: impl FnOnce(Result<(), WalError>) + Send + 'static,
    ) -> Result<(), WalError> {
        self.shared.check_appended(lsn)?;
        Shared::start_flusher(&self.shared)?;
        // One that panics has printed why. Neither the others nor those who wait for a commit must suffer for it.
        let alone = |outcome| drop(catch_unwind(AssertUnwindSafe(|| callback(outcome))));
        self.shared.group.later(lsn.0, Box::new(alone));
        Ok(())
    }

    /// As [`Log::commit_later`], with a future in place of the callback. The flush is asked for now, whether or not the future
    /// is ever polled.
    pub fn commit_async(&self, lsn: Lsn) -> Commit {
        let (commit, tell) = Commit::new();
        match self.commit_later(lsn, tell) {
            Ok(()) => commit,
            Err(error) => Commit::over(Err(error)),
        }
    }

    /// All records below this place are durable.
    pub fn flushed(&self) -> Lsn {
        Lsn(self.shared.group.durable())
    }

    /// Where the last record ends, durable or not.
    pub fn end(&self) -> Lsn {
        Lsn(self.shared.tail().end())
    }

    /// Records below this place were truncated.
    pub fn start(&self) -> Lsn {
        Lsn(self.shared.tail().start())
    }

    /// A reader of the durable records from `from` on. It sees those that become durable later too. It may outlive the log, and
    /// then reads what was durable at last, as far as another opening does not truncate that.
    ///
    /// # Errors
    /// [`WalError::Truncated`]; no memory.
    pub fn reader(&self, from: Lsn) -> Result<Reader, WalError> {
        Reader::live(Arc::clone(&self.shared) as Arc<dyn LiveLog>, Arc::clone(&self.shared.segments), from)
    }

    /// Gives up all records below `lsn`, durably. Their segments are used again or removed, as far as no record is in them
    /// that is still needed.
    ///
    /// # Errors
    /// [`WalError::NotAppended`]; [`WalError::Failed`]; the storage's, when only the removal of segments failed, with the rest
    /// of which the next truncation goes on.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<(), WalError> {
        let shared = &*self.shared;
        let mut oldest = shared.oldest.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let tail = shared.tail();
            if lsn.0 > tail.end() {
                return Err(WalError::NotAppended { lsn, end: Lsn(tail.end()) });
            }
            if lsn.0 <= tail.start() && tail.first_needed() <= *oldest {
                return Ok(());
            }
        }
        let mark = {
            let mut tail = shared.tail_with_room(Tail::reach_of_mark)?;
            tail.set_start(lsn.0);
            tail.seal(&shared.writer);
            tail.mark(&shared.writer, shared.group.durable())?
        };
        shared.group.commit(mark, || shared.flush())?;
        let needed = shared.tail().first_needed();
        if needed <= *oldest {
            return Ok(());
        }
        let retired = shared.supply.retire(*oldest..needed, &mut oldest);
        shared.supply.forget_below(*oldest);
        shared.tail().forget_below(*oldest);
        retired
    }

    /// Makes everything durable and ends the log with a mark that says so.
    ///
    /// # Errors
    /// [`WalError::Failed`]. [`WalError::Io`] when there is no room for the mark: then everything is durable all the same.
    pub fn close(self) -> Result<(), WalError> {
        let end = self.shared.tail().end();
        if end > 0 {
            self.shared.group.commit(end - 1, || self.shared.flush())?;
        }
        self.shared.end_with_a_mark().map(|_| ())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        *self.shared.closing.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.closed.notify_all();
        self.shared.writer.close();
        self.shared.supply.close();
        self.shared.group.close();
        let flusher = self.shared.flusher.lock().unwrap_or_else(PoisonError::into_inner).take();
        for thread in self.threads.drain(..).chain(flusher) {
            // A thread that panicked has printed why.
            let _ = thread.join();
        }
    }
}

impl Shared {
    pub(crate) fn tail(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tail, when the segments up to a place are there that depends on it. They are made without holding it, so that what
    /// was appended can be committed meanwhile.
    ///
    /// # Errors
    /// The storage's, when they cannot be made; the failure that latched.
    fn tail_with_room(&self, reach: impl Fn(&Tail) -> u64) -> Result<MutexGuard<'_, Tail>, WalError> {
        loop {
            let tail = self.tail();
            let number = self.segments.layout.locate(reach(&tail)).0;
            if self.supply.has(number) {
                return Ok(tail);
            }
            drop(tail);
            if let Some(failed) = self.group.failure() {
                return Err(failed);
            }
            if let Err(error) = self.supply.make_up_to(number) {
                return Err(self.supply.broken().map_or(error, |cause| self.writer.fail(cause)));
            }
        }
    }

    /// Ends the log with a mark that says that everything before it is durable, unless it ends so; whether it wrote one.
    fn end_with_a_mark(&self) -> Result<bool, WalError> {
        let mark = {
            let mut tail = self.tail_with_room(Tail::reach_of_mark)?;
            let durable = self.group.durable();
            if tail.is_ended() || durable < tail.end() {
                return Ok(false);
            }
            tail.seal(&self.writer);
            tail.mark(&self.writer, durable)?
        };
        self.group.commit(mark, || self.flush())?;
        Ok(true)
    }

    /// Writes such a mark whenever nothing was committed for a while, until the log is closed. `seen` was durable at first.
    fn mark_when_idle(&self, idle: Duration, mut seen: u64) {
        while let Some(durable) = self.group.wait_past(seen) {
            seen = durable;
            let closing = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.closed.wait_timeout_while(closing, idle, |closing| !*closing);
            let closing = *waited.unwrap_or_else(PoisonError::into_inner).0;
            if closing {
                return;
            }
            if self.group.durable() == durable {
                // A failure latches, and where there is no room for a mark there is none.
                let _ = self.end_with_a_mark();
            }
        }
    }

    /// Makes everything durable that was appended before the call.
    fn flush(&self) -> Result<u64, WalError> {
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        let end = {
            let mut tail = self.tail();
            tail.seal(&self.writer);
            tail.end()
        };
        self.group.takes(end);
        self.writer.flush(end)?;
        Ok(end)
    }

    fn check_appended(&self, lsn: Lsn) -> Result<(), WalError> {
        // What is durable needs no look at the tail, which others are appending to.
        if lsn.0 < self.group.durable() {
            return Ok(());
        }
        let end = self.tail().end();
        if lsn.0 < end { Ok(()) } else { Err(WalError::NotAppended { lsn, end: Lsn(end) }) }
    }

    fn start_flusher(shared: &Arc<Shared>) -> Result<(), WalError> {
        let mut flusher = shared.flusher.lock().unwrap_or_else(PoisonError::into_inner);
        if flusher.is_none() {
            let own = Arc::clone(shared);
            let thread = std::thread::Builder::new().name("dio-wal".into()).spawn(move || {
                while let Some(lsn) = own.group.asked_for() {
                    // Who asked is told by the callback.
                    let _ = own.group.commit(lsn, || own.flush());
                }
            });
            *flusher = Some(thread.map_err(|error| WalError::io("start a thread for", ".", None, error))?);
        }
        Ok(())
    }
}

impl LiveLog for Shared {
    fn durable(&self) -> u64 {
        self.group.durable()
    }

    fn start(&self) -> u64 {
        self.tail().start()
    }

    fn start_and_mark_before(&self, lsn: u64) -> (u64, u64) {
        let tail = self.tail();
        (tail.start(), tail.mark_before(lsn))
    }

    fn is_closed(&self) -> bool {
        *self.closing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether blocks are gone on with. What the storage claims is tried, on the header of the segment at the end, which is
/// written as it is.
fn goes_on(segments: &Segments, supply: &Supply, end: u64, torn: TornWrites) -> Result<bool, WalError> {
    let (number, block) = (segments.layout.locate(end).0, segments.layout.block_bytes());
    let file = supply.segment(number)?;
    match (torn, file.atomic_writes(block)) {
        (TornWrites::Auto, AtomicWrites::Hardware)
        | (TornWrites::Atomic, AtomicWrites::Hardware | AtomicWrites::Software) => {}
        _ => return Ok(false),
    }
    let pool = Pool::new(block as usize, 1).map_err(|error| WalError::io("map memory for", ".", None, error))?;
    let mut memory = pool.try_take().expect("a new pool has its block");
    let header = &mut memory.bytes_mut()[..block as usize];
    let failed = |operation| move |error| WalError::io(operation, &segment_name(number), Some(0), error);
    file.read_at(header, 0).map_err(failed("read"))?;
    match file.write_atomic(header, 0, false) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput) => Ok(false),
        Err(error) => Err(failed("write")(error)),
    }
}

fn open_existing(
    storage: &Arc<dyn Storage>,
    last: u64,
    listing: &Listing,
) -> Result<(Arc<Segments>, RecoveredLog), WalError> {
    let header = identify(&**storage, last)?;
    let name = segment_name(last);
    let blocks =
        storage.block_sizes(&name).map_err(|error| WalError::io("ask for the blocks of", &name, None, error))?;
    if header.layout.block_bytes() % blocks.min != 0 {
        let (block, least) = (header.layout.block_bytes(), blocks.min);
        let text = format!("the log has blocks of {block} bytes, and direct I/O needs {least} here: open it without");
        return Err(WalError::Options(text));
    }
    let segments = Arc::new(Segments::new(Arc::clone(storage), &header, true));
    let found = recover(&segments, listing)?;
    Ok((segments, found))
}

/// A log that does not exist yet; its first segment is made by the supply.
fn open_new(storage: &Arc<dyn Storage>, options: &Options) -> Result<(Arc<Segments>, RecoveredLog), WalError> {
    let name = unfinished_name(0);
    let failed = |operation| move |error| WalError::io(operation, &unfinished_name(0), None, error);
    drop(storage.create(&name).map_err(failed("create"))?);
    let blocks = storage.block_sizes(&name).map_err(failed("ask for the blocks of"))?;
    let block = options.block_bytes.map_or(blocks.preferred.max(512), u64::from);
    let layout = u32::try_from(block).ok().and_then(|block| Layout::new(block, options.segment_bytes).ok());
    let Some(layout) = layout.filter(|layout| layout.block_bytes() % blocks.min == 0) else {
        let (segment, least) = (options.segment_bytes, blocks.min);
        let text =
            format!("a log cannot have blocks of {block} and segments of {segment} bytes here (direct I/O: {least})");
        return Err(WalError::Options(text));
    };
    let mut identity = [0; 16];
    storage.fill_random(&mut identity).map_err(failed("get random numbers for"))?;
    let header = SegmentHeader { layout, identity: Identity(identity), number: 0 };
    let segments = Arc::new(Segments::new(Arc::clone(storage), &header, true));
    let end = LogEnd { end: 0, chain: 0, start: 0, ended: true, first_marks: BTreeMap::new() };
    Ok((segments, RecoveredLog { recovery: Recovery::default(), end, first: 0 }))
}
