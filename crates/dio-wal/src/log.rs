//! The log that users open.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::commit::CommitFuture;
use crate::error::WalError;
use crate::format::{Identity, Layout, Lsn, PAYLOAD_BYTES_MAX};
use crate::inner::LogInner;
use crate::live::LiveLog;
use crate::open::{OpenedLog, StorageLock, WRITE_BEHIND_THREADS_MAX, open};
use crate::options::{Options, TornWrites};
use crate::reader::Reader;
use crate::recovery::Recovery;
use crate::storage::{Directory, Storage};
use crate::tail::Tail;

/// A log that is open for writing. All methods take `&self` and may be called from many threads.
///
/// If the log is dropped without [`Log::close`], records that were not committed may be lost.
///
/// ```
/// use dio_wal::{Log, Options};
/// # let directory = tempfile::tempdir()?;
/// let log = Log::open(directory.path(), &Options::new())?;
/// std::thread::scope(|scope| {
///     for client in 0..4_u8 {
///         let log = &log;
///         scope.spawn(move || {
///             let lsn = log.append(&[client])?;
///             log.commit(lsn) // Durable from here on. One flush may serve all clients.
///         });
///     }
/// });
/// assert_eq!(log.flushed(), log.end());
/// log.close()?;
///
/// let log = Log::open(directory.path(), &Options::new())?;
/// assert_eq!(log.recovery().records, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Log {
    inner: Arc<LogInner>,
    recovery: Recovery,
    threads: Vec<JoinHandle<()>>,
    /// Released after the threads have ended, even if a reader still uses the storage.
    lock: Arc<StorageLock>,
}

impl Log {
    /// Opens the log in an existing directory. If the directory has no segments, a new log is
    /// created. If it has some, the log is recovered first: see [`Log::recovery`].
    ///
    /// # Errors
    /// - [`WalError::InUse`].
    /// - [`WalError::Damaged`], [`WalError::Missing`] and [`WalError::Header`] if records that were
    ///   durable cannot be read. [`crate::salvage()`] takes what is sound.
    /// - [`WalError::Options`].
    /// - [`WalError::Io`] for the storage's errors.
    pub fn open(directory: impl AsRef<Path>, options: &Options) -> Result<Log, WalError> {
        let directory = directory.as_ref();
        let storage = Directory::open(directory, options.direct, options.method);
        let failed = |error| WalError::io("open", &directory.to_string_lossy(), None, error);
        Log::open_on(Arc::new(storage.map_err(failed)?), options)
    }

    /// As [`Log::open`], on any storage. [`Options::direct`] and [`Options::method`] have no
    /// effect, because they are the storage's.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open_on(storage: Arc<dyn Storage>, options: &Options) -> Result<Log, WalError> {
        let OpenedLog { inner, recovery, lock } = open(&storage, options)?;
        let (inner, lock) = (Arc::new(inner), Arc::new(lock));
        let mut log = Log { inner, recovery, threads: Vec::new(), lock };
        for _ in 0..options.write_behind_buffers.min(WRITE_BEHIND_THREADS_MAX) {
            log.start_thread(|inner| inner.writer.run_write_behind());
        }
        if options.prepare_in_background {
            log.start_thread(|inner| inner.allocator.run());
            if options.zeros_ahead {
                log.start_thread(|inner| inner.writer.run_zeros());
            }
        }
        if let Some(idle) = options.idle_mark.filter(|idle| !idle.is_zero()) {
            log.start_thread(move |inner| inner.run_idle_marks(idle, recovery.end.0));
        }
        Ok(log)
    }

    /// Starts a thread for work in the background. If the system allows no more threads, the
    /// threads that need the work do it themselves.
    fn start_thread(&mut self, work: impl FnOnce(&LogInner) + Send + 'static) {
        let inner = Arc::clone(&self.inner);
        let thread = std::thread::Builder::new().name("dio-wal".into()).spawn(move || work(&inner));
        self.threads.extend(thread);
    }

    /// The outcome of the recovery that ran when the log was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// How the log protects itself against torn writes: the method in use, never
    /// [`TornWrites::Auto`].
    pub fn torn_writes(&self) -> TornWrites {
        if self.inner.tail().continues_blocks() { TornWrites::Atomic } else { TornWrites::NewBlock }
    }

    /// Identity of the log.
    pub fn identity(&self) -> Identity {
        self.inner.segments.identity
    }

    /// Sizes of the log.
    pub fn layout(&self) -> Layout {
        self.inner.segments.layout
    }

    /// Appends a record and returns its LSN. The record is durable after a commit of this or a
    /// later LSN.
    ///
    /// # Errors
    /// - [`WalError::TooLong`].
    /// - [`WalError::Failed`] once a write or sync has failed.
    /// - [`WalError::Io`] if the segment that the record needs cannot be made, mostly for want of
    ///   space. Then nothing was appended, the log is as it was, and the same append succeeds as
    ///   soon as there is space. A block is reserved for the mark of [`Log::truncate_before`],
    ///   which may free space.
    pub fn append(&self, record: &[u8]) -> Result<Lsn, WalError> {
        self.append_vectored(&[record])
    }

    /// Appends one record that consists of several parts.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn append_vectored(&self, parts: &[&[u8]]) -> Result<Lsn, WalError> {
        let length = parts.iter().map(|part| part.len()).fold(0, usize::saturating_add);
        if length > PAYLOAD_BYTES_MAX {
            return Err(WalError::TooLong(length));
        }
        let inner = &*self.inner;
        // The checksum of a long record takes as long as copying it, so it is computed without the
        // lock.
        let crc = parts
            .iter()
            .fold(inner.segments.checksum_seed, |crc, part| crc32c::crc32c_append(crc, part));
        let mut tail = inner.tail_with_room(|tail| tail.reach_of_record(length))?;
        tail.append(&inner.writer, parts.iter().copied(), length, crc, || inner.group.durable())
            .map(Lsn)
    }

    /// Returns when the record at `lsn`, and all before it, are durable.
    ///
    /// # Errors
    /// [`WalError::Failed`] if a write or sync failed before that; [`WalError::NotAppended`].
    pub fn commit(&self, lsn: Lsn) -> Result<(), WalError> {
        self.inner.check_appended(lsn)?;
        self.inner.commit(lsn.0)
    }

    /// Calls `callback` when the record at `lsn`, and all before it, are durable, or when they
    /// never will be.
    ///
    /// The callback runs in a thread of the log or in one that commits. It should be short, and
    /// must not commit. If it panics, nothing else is affected. It may drop the log, which then
    /// does not wait for the thread of the callback.
    ///
    /// # Errors
    /// [`WalError::NotAppended`].
    pub fn commit_later(
        &self,
        lsn: Lsn,
        callback: impl FnOnce(Result<(), WalError>) + Send + 'static,
    ) -> Result<(), WalError> {
        self.inner.check_appended(lsn)?;
        self.inner.start_flusher(Arc::clone(&self.lock))?;
        // A panic of the callback has printed its own message. It must not affect other callbacks
        // and committers.
        let isolated = |outcome| drop(catch_unwind(AssertUnwindSafe(|| callback(outcome))));
        self.inner.group.call_when_durable(lsn.0, Box::new(isolated));
        Ok(())
    }

    /// As [`Log::commit_later`], with a future in place of the callback. The flush is requested
    /// now, whether or not the future is ever polled.
    pub fn commit_async(&self, lsn: Lsn) -> CommitFuture {
        let (future, complete) = CommitFuture::new();
        match self.commit_later(lsn, complete) {
            Ok(()) => future,
            Err(error) => CommitFuture::ready(Err(error)),
        }
    }

    /// LSN below which all records are durable.
    pub fn flushed(&self) -> Lsn {
        Lsn(self.inner.group.durable())
    }

    /// LSN where the last record ends, durable or not.
    pub fn end(&self) -> Lsn {
        Lsn(self.inner.tail().end())
    }

    /// LSN below which all records were truncated.
    pub fn start(&self) -> Lsn {
        Lsn(self.inner.tail().start())
    }

    /// Makes a reader of the durable records from `from` on, including those that become durable
    /// later.
    ///
    /// The reader may outlive the log. It then returns the records that were durable when the log
    /// was closed, unless another opening of the log truncates them.
    ///
    /// # Errors
    /// [`WalError::Truncated`]; no memory.
    pub fn reader(&self, from: Lsn) -> Result<Reader, WalError> {
        let live: Arc<dyn LiveLog> = Arc::clone(&self.inner) as _;
        Reader::live(live, Arc::clone(&self.inner.segments), from)
    }

    /// Truncates the log: gives up all records below `lsn`, durably. Segments that hold no record
    /// that is still needed are reused or removed.
    ///
    /// # Errors
    /// - [`WalError::NotAppended`].
    /// - [`WalError::Failed`].
    /// - [`WalError::Io`] if only the removal of segments failed. The next truncation removes the
    ///   rest.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<(), WalError> {
        let inner = &*self.inner;
        let mut oldest = inner.oldest.lock();
        {
            let tail = inner.tail();
            if lsn.0 > tail.end() {
                return Err(WalError::NotAppended { lsn, end: Lsn(tail.end()) });
            }
            if lsn.0 <= tail.start() && tail.first_needed() <= *oldest {
                return Ok(());
            }
        }
        let mark = {
            let mut tail = inner.tail_with_room(Tail::reach_of_mark)?;
            tail.set_start(lsn.0);
            tail.seal(&inner.writer);
            tail.begin_group(&inner.writer, inner.group.durable())?
        };
        inner.commit(mark)?;
        let needed = inner.tail().first_needed();
        if needed <= *oldest {
            return Ok(());
        }
        let retired = inner.allocator.retire(*oldest..needed, &mut oldest);
        inner.allocator.forget_below(*oldest);
        inner.tail().forget_below(*oldest);
        retired
    }

    /// Makes everything durable and ends the log with a mark that says so.
    ///
    /// # Errors
    /// [`WalError::Failed`]. [`WalError::Io`] if there is no space for the mark; all records are
    /// durable then.
    pub fn close(self) -> Result<(), WalError> {
        let end = self.inner.tail().end();
        if end > 0 {
            self.inner.commit(end - 1)?;
        }
        self.inner.write_end_mark()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let flusher = self.inner.close();
        let own = std::thread::current().id();
        for thread in self.threads.drain(..).chain(flusher) {
            // A callback that drops the log may run in the flusher, which cannot wait for itself.
            // It ends after the callback, and the storage stays locked until then.
            if thread.thread().id() != own {
                // A thread that panicked has printed its own message.
                let _ = thread.join();
            }
        }
    }
}
