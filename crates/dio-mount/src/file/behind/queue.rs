//! A queue of acknowledged bytes, which `ordered` and `appended` fill.
//!
//! Requests are added at the back and gathered into parts. Parts are written from the front,
//! several with one call. A background thread writes full parts. Other parts are written once the
//! queue has not grown for [`IDLE`] or nothing of it was written for [`LONGEST`], when a request
//! waits for them, or when there is no more room.
//! Invariants:
//!
//! 1. One thread at a time writes, and the bytes reach the source in the order of their requests.
//! 2. The pending bytes are those that are being written and those of the parts, without a gap.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Result;

use super::super::inode::Inode;
use super::target::LazyTarget;
use crate::stats::{Event, Wait};

/// Most parts of one write to the source.
const PARTS_JOINED_MAX: usize = 8;

/// A queue that has not grown for this long is written although its last part is not full.
const IDLE: Duration = Duration::from_millis(300);

/// No byte is held back for longer, however slowly and steadily a program goes on writing. (The
/// kernel starts to write its own page cache back after 30 s, `dirty_expire_centisecs`.)
const LONGEST: Duration = Duration::from_secs(1);

/// Consecutive bytes of a queue.
pub(in crate::file) trait QueuedBytes: Debug + Send + Sized + 'static {
    /// Number of bytes in the part.
    fn len(&self) -> u64;

    /// Whether the part takes no more bytes.
    fn is_full(&self) -> bool;

    /// Writes consecutive parts. `reach` is the end of the source when the first of the pending
    /// bytes was added.
    ///
    /// # Errors
    /// The error to report to the writers.
    fn write(inode: &Inode, target: &LazyTarget, parts: &[Self], reach: u64) -> Result<()>;

    /// Returns the end offset of the queue after a write, with `rest` bytes still pending.
    /// `expected` is the end as it was before the write.
    fn end_after_write(_inode: &Inode, _target: &LazyTarget, _rest: u64, expected: u64) -> u64 {
        expected
    }
}

/// Acknowledged bytes of an inode that are not yet written.
#[derive(Debug)]
pub(in crate::file) struct BehindQueue<P> {
    pub(super) inode: Arc<Inode>,
    /// Number of pending bytes. It changes under the lock, and is read without it to find out
    /// whether any bytes are pending.
    bytes: AtomicU64,
    state: Mutex<QueuedParts<P>>,
    written: Condvar,
}

#[derive(Debug)]
pub(super) struct QueuedParts<P> {
    pub(super) parts: VecDeque<P>,
    /// Bytes that are being written.
    pub(super) writing: u64,
    /// Invariant: set while any bytes are pending.
    pub(super) target: Option<LazyTarget>,
    /// A background thread will write full parts.
    scheduled: bool,
    /// Bytes added since the queue was created. A thread that waits, waits for the bytes added
    /// before.
    taken: u64,
    /// End offset of the pending bytes. For appends it is right only if no other program appends
    /// too.
    pub(super) end: u64,
    /// When bytes were last added.
    latest: Option<Instant>,
    /// When the first of the pending bytes was added, or the last write to the source began.
    oldest: Option<Instant>,
    /// End of the source when the first of the pending bytes was added.
    pub(super) reach: u64,
}

impl<P> Default for QueuedParts<P> {
    fn default() -> QueuedParts<P> {
        let (parts, target, latest, oldest) = Default::default();
        QueuedParts {
            parts,
            writing: 0,
            target,
            scheduled: false,
            taken: 0,
            end: 0,
            latest,
            oldest,
            reach: 0,
        }
    }
}

impl<P> BehindQueue<P> {
    /// Creates an empty queue for the inode.
    pub(in crate::file) fn of(inode: Arc<Inode>) -> BehindQueue<P> {
        BehindQueue {
            inode,
            bytes: AtomicU64::new(0),
            state: Mutex::default(),
            written: Condvar::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, QueuedParts<P>> {
        self.state.lock()
    }

    /// Bytes pending.
    pub(in crate::file) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Returns the offsets of the pending bytes in the file. For appends they are right only if no
    /// other program appends too.
    pub(super) fn range(&self, state: &QueuedParts<P>) -> Option<Range<u64>> {
        let pending = self.bytes();
        (pending > 0).then(|| state.end - pending..state.end)
    }

    /// Returns the end offset of the pending bytes, as far as it is known without asking the
    /// source.
    pub(in crate::file) fn expected_end(&self) -> Option<u64> {
        if self.bytes() == 0 { None } else { self.range(&self.state()).map(|range| range.end) }
    }

    /// Whether the queue should be written although no request waits for it.
    pub(in crate::file) fn is_due(&self) -> bool {
        if self.bytes() == 0 {
            return false;
        }
        let state = self.state();
        let is_past =
            |time: Option<Instant>, limit| time.is_some_and(|time| time.elapsed() >= limit);
        is_past(state.latest, IDLE) || is_past(state.oldest, LONGEST)
    }
}

impl<P> QueuedParts<P> {
    /// Whether bytes for the target may follow the pending bytes.
    pub(super) fn takes(&self, target: &LazyTarget) -> bool {
        self.target.as_ref().is_none_or(|known| known.is(target))
    }
}

impl<P: QueuedBytes> BehindQueue<P> {
    /// Locks the queue once it has room for `len` more bytes, with at most `most` bytes pending.
    pub(super) fn with_room(&self, len: u64, most: u64) -> MutexGuard<'_, QueuedParts<P>> {
        let mut state = self.state();
        while self.bytes() > 0 && self.bytes() + len > most {
            let since = Instant::now();
            let partial = !state.parts.front().is_some_and(P::is_full);
            state = self.write_some(state, partial);
            self.inode.about.figures.waited(Wait::Room, since.elapsed());
        }
        state
    }

    /// Records that `len` bytes have been added to the parts.
    pub(super) fn added(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, QueuedParts<P>>,
        target: &LazyTarget,
        len: u64,
    ) {
        if state.target.is_none() {
            state.target = Some(target.clone());
        }
        state.latest = Some(Instant::now());
        if self.bytes() == 0 {
            state.oldest = state.latest;
        }
        state.taken += len;
        state.end += len;
        self.bytes.fetch_add(len, Ordering::AcqRel);
        self.inode.about.figures.count(Event::WriteBehind, len);
        self.inode.common.janitor.wake_if_idle();
        if !state.scheduled && state.writing == 0 && state.parts.front().is_some_and(P::is_full) {
            let queue = Arc::clone(self);
            state.scheduled = self.inode.common.crew.run(true, move || queue.write_full());
        }
    }

    /// Writes full parts while there are any.
    fn write_full(&self) {
        let mut state = self.state();
        state.scheduled = false;
        while state.parts.front().is_some_and(P::is_full) {
            state = self.write_some(state, false);
        }
    }

    /// Waits until all bytes that are pending now are written. This thread writes them unless
    /// another one does.
    pub(in crate::file) fn settle(&self) {
        if self.bytes() == 0 {
            return;
        }
        let mut state = self.state();
        let mark = state.taken;
        while state.taken - self.bytes() < mark {
            state = self.write_some(state, true);
        }
    }

    /// Writes the first parts, or waits for the thread that is writing. Without `partial`, writes
    /// only full parts.
    fn write_some<'a>(
        &'a self,
        mut state: MutexGuard<'a, QueuedParts<P>>,
        partial: bool,
    ) -> MutexGuard<'a, QueuedParts<P>> {
        if state.writing > 0 {
            self.written.wait(&mut state);
            return state;
        }
        let count = state
            .parts
            .iter()
            .take(PARTS_JOINED_MAX)
            .take_while(|part| partial || part.is_full())
            .count();
        let parts: Vec<P> = state.parts.drain(..count).collect();
        let Some(target) = state.target.clone().filter(|_| count > 0) else { return state };
        let len: u64 = parts.iter().map(P::len).sum();
        state.writing = len;
        let reach = state.reach;
        state.oldest = Some(Instant::now());
        drop(state);
        let outcome = P::write(&self.inode, &target, &parts, reach);
        self.inode.about.figures.count(Event::WriteBehindWritten, len);
        if let Err(errno) = outcome {
            self.inode.errors.record(errno);
        }
        drop(parts);
        let mut state = self.state();
        state.end = P::end_after_write(&self.inode, &target, self.bytes() - len, state.end);
        state.writing = 0;
        if state.parts.is_empty() {
            state.target = None;
        }
        self.inode.common.epoch.fetch_add(1, Ordering::AcqRel);
        self.bytes.fetch_sub(len, Ordering::AcqRel);
        self.written.notify_all();
        state
    }
}
