//! The state that the threads of an open log share.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::allocator::SegmentAllocator;
use crate::error::WalError;
use crate::format::Lsn;
use crate::group_commit::GroupCommit;
use crate::live::LiveLog;
use crate::segments::Segments;
use crate::sync;
use crate::tail::Tail;
use crate::writer::Writer;

/// An open log. Its threads, its users and its readers share it.
pub(crate) struct LogInner {
    pub(crate) segments: Arc<Segments>,
    pub(crate) allocator: Arc<SegmentAllocator>,
    pub(crate) writer: Writer,
    pub(crate) group: Arc<GroupCommit<WalError>>,
    pub(crate) tail: sync::Mutex<Tail>,
    /// Number of the oldest segment that exists. The thread that truncates holds this lock.
    pub(crate) oldest: Mutex<u64>,
    /// How long the leader of a flush waits before it begins.
    pub(crate) commit_delay: Duration,
    /// The log is being closed.
    pub(crate) closing: Mutex<bool>,
    /// Signals that `closing` is set.
    pub(crate) closed: Condvar,
    /// The thread that flushes for callbacks, from the first callback on.
    pub(crate) flusher: Mutex<Option<JoinHandle<()>>>,
}

impl LogInner {
    pub(crate) fn tail(&self) -> sync::MutexGuard<'_, Tail> {
        self.tail.lock()
    }

    /// Locks the tail after the segment was made that holds the LSN that `reach` returns. The lock
    /// is not held while the segment is made, so that records can be committed meanwhile.
    ///
    /// # Errors
    /// Errors of the storage, if the segment cannot be made; the first failure of the log.
    pub(crate) fn tail_with_room(
        &self,
        reach: impl Fn(&Tail) -> u64,
    ) -> Result<sync::MutexGuard<'_, Tail>, WalError> {
        loop {
            let tail = self.tail();
            let number = self.segments.layout.segment_of(reach(&tail));
            if self.allocator.was_made(number) {
                return Ok(tail);
            }
            drop(tail);
            if let Some(failed) = self.group.failure() {
                return Err(failed);
            }
            if let Err(error) = self.allocator.make_up_to(number) {
                return Err(self.allocator.broken().map_or(error, |cause| self.writer.fail(cause)));
            }
        }
    }

    /// Makes all records durable that were appended before the call. Returns the LSN where the last
    /// of them ends.
    pub(crate) fn flush(&self) -> Result<u64, WalError> {
        if !self.commit_delay.is_zero() {
            std::thread::sleep(self.commit_delay);
        }
        let end = {
            let mut tail = self.tail();
            tail.seal(&self.writer);
            tail.end()
        };
        self.group.set_flush_end(end);
        self.writer.flush(end)?;
        Ok(end)
    }

    /// Returns when the record at `lsn` is durable.
    ///
    /// # Errors
    /// The first failure of the log.
    pub(crate) fn commit(&self, lsn: u64) -> Result<(), WalError> {
        self.group.commit(lsn, || self.flush())
    }

    /// Checks that a record at `lsn` was appended.
    pub(crate) fn check_appended(&self, lsn: Lsn) -> Result<(), WalError> {
        // A durable record is recognised without locking the tail, which other threads append to.
        if lsn.0 < self.group.durable() {
            return Ok(());
        }
        let end = self.tail().end();
        if lsn.0 < end { Ok(()) } else { Err(WalError::NotAppended { lsn, end: Lsn(end) }) }
    }

    /// Ends the log with a mark that says that everything before it is durable, unless it ends with
    /// one or has records that are not durable.
    pub(crate) fn write_end_mark(&self) -> Result<(), WalError> {
        let mark = {
            let mut tail = self.tail_with_room(Tail::reach_of_mark)?;
            let durable = self.group.durable();
            if tail.is_ended() || durable < tail.end() {
                return Ok(());
            }
            tail.seal(&self.writer);
            tail.begin_group(&self.writer, durable)?
        };
        self.commit(mark)
    }

    /// Writes an end mark whenever nothing was committed for `idle`, until the log is closed.
    /// `seen` is the LSN that was durable when the log was opened.
    pub(crate) fn run_idle_marks(&self, idle: Duration, mut seen: u64) {
        while let Some(durable) = self.group.wait_past(seen) {
            seen = durable;
            let mut closing = self.closing.lock();
            self.closed.wait_while_for(&mut closing, |closing| !*closing, idle);
            if *closing {
                return;
            }
            drop(closing);
            if self.group.durable() == durable {
                // A failed write makes the whole log fail. If there is no space for the mark, the
                // log gets none.
                let _ = self.write_end_mark();
            }
        }
    }

    /// Starts the thread that flushes for callbacks, unless it runs. `storage_lock` is dropped when
    /// the thread ends.
    pub(crate) fn start_flusher(
        self: &Arc<Self>,
        storage_lock: impl Send + 'static,
    ) -> Result<(), WalError> {
        let mut flusher = self.flusher.lock();
        if flusher.is_none() {
            let inner = Arc::clone(self);
            let thread = std::thread::Builder::new().name("dio-wal".into()).spawn(move || {
                let _storage_lock = storage_lock;
                while let Some(lsn) = inner.group.wait_for_callback() {
                    // The callback receives the outcome.
                    let _ = inner.commit(lsn);
                }
            });
            *flusher =
                Some(thread.map_err(|error| WalError::io("start a thread for", ".", None, error))?);
        }
        Ok(())
    }

    /// Makes all threads of the log end. Returns the thread that flushes for callbacks.
    pub(crate) fn close(&self) -> Option<JoinHandle<()>> {
        *self.closing.lock() = true;
        self.closed.notify_all();
        self.writer.close();
        self.allocator.close();
        self.group.close();
        self.flusher.lock().take()
    }
}

impl LiveLog for LogInner {
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
        *self.closing.lock()
    }
}
