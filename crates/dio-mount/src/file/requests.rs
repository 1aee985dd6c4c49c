//! Reads, writes and syncs of a handle.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dio::lock::waited_here;
use dio::{Class, File, Mode as IoMode};
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};

use super::appends::{appends, end_of};
use super::behind::{LazyTarget, OpenTarget, SMALL};
use super::descriptors::{Descriptors, file_of, sync_method};
use super::habits::through_cache;
use super::interface::WriteProperties;
use super::memory::{Chunk, with_buffer};
use super::modes::KernelRoute;
use super::shared::{Handle, OpenInode, Routes};
use crate::options::Mode;
use crate::set_id;
use crate::stats::{Event, FileStats, RequestKind, Wait};

/// A read request that must be answered.
struct ReadAnswer<'a, G> {
    figures: &'a FileStats,
    began: Instant,
    /// How long the thread had waited for locks when the request began.
    locked: Duration,
    give: G,
}

impl<G: FnOnce(Result<&[u8]>)> ReadAnswer<'_, G> {
    /// Answers with `bytes`. `waited` states that the request waited for the device.
    fn bytes(self, class: Class, waited: bool, bytes: &[u8]) {
        (self.give)(Ok(bytes));
        let took = self.began.elapsed();
        self.figures.read(class, bytes.len() as u64, took);
        if waited {
            self.figures.waited_for_device(took, self.locked);
        }
    }

    fn fail(self, errno: Errno) {
        (self.give)(Err(errno));
        self.figures.error(RequestKind::Read);
    }
}

impl Handle {
    /// Reads up to `size` bytes; fewer only at the end of the file. `cache` states that the bytes
    /// are for the kernel's cache of the mount.
    pub(super) fn read(
        &self,
        offset: u64,
        size: u32,
        cache: bool,
        give: impl FnOnce(Result<&[u8]>),
    ) {
        let give = self.throttled(u64::from(size), give);
        let fills = cache && !self.is_cached();
        let watch = fills.then(|| self.shared.changes.watch());
        if cache {
            self.shared.note_cached_pages();
        }
        self.read_and_give(offset, size, cache, give);
        if cache {
            // The kernel gets the bytes only now; the janitor may have checked the inode meanwhile.
            self.shared.note_cached_pages();
        }
        let range = offset..offset.saturating_add(u64::from(size));
        if watch.is_some_and(|watch| watch.has_changed(&range)) {
            // The kernel may have received bytes from before the change, and would keep them.
            self.shared.common.kernel.drop_pages(self.shared.ino, range);
        }
    }

    fn read_and_give(&self, offset: u64, size: u32, cache: bool, give: impl FnOnce(Result<&[u8]>)) {
        let shared = &self.shared;
        let answer = ReadAnswer {
            figures: &shared.about.figures,
            began: Instant::now(),
            locked: waited_here(),
            give,
        };
        if cache && !self.filled.swap(true, Ordering::Relaxed) {
            shared.add_cacher(self.opening);
            shared.about.figures.count(Event::BecameCached, 0);
        }
        let range = offset.min(i64::MAX as u64)
            ..offset.saturating_add(u64::from(size)).min(i64::MAX as u64);
        // A mapping accesses its pages in any order, so they stay until it is gone.
        if cache && self.route == KernelRoute::Cache && !self.is_cached() {
            self.drop_behind(&range);
        }
        let routes = shared.routes();
        // Pending bytes of the range are written first, so that the read returns them.
        shared.wait_for_range(&range);
        let prepared = routes.reading().and_then(|descriptors| {
            let mode = self.io_mode(&routes, descriptors, &range, false);
            Ok((
                mode,
                OpenTarget {
                    file: file_of(descriptors, mode, OFlags::empty())?,
                    descriptors: Arc::clone(descriptors),
                },
            ))
        });
        match prepared {
            Err(errno) => answer.fail(errno),
            Ok((IoMode::Cached, from)) => {
                self.ahead.note(&range);
                read_straight(&from, &range, answer);
            }
            Ok((_, from)) if self.opening.is_buffered() && routes.may_hold_back() => {
                self.read_with_ahead(&from, &range, answer);
            }
            Ok((_, from)) => read_straight(&from, &range, answer),
        }
    }

    /// Chooses the I/O mode of a request, and counts the reason if there is an event for it.
    pub(super) fn io_mode(
        &self,
        routes: &Routes,
        descriptors: &Descriptors,
        range: &Range<u64>,
        write: bool,
    ) -> IoMode {
        let (io_mode, event) = if routes.is_cached() {
            (IoMode::Cached, Some(Event::HybridShared))
        } else if self.opening.mode == Mode::Auto && self.opening.is_buffered() {
            let (habits, source) = (self.shared.habits(), descriptors.base());
            let from = self.shared.common.live.get().direct_from;
            let event = if write {
                habits.of_write(source, range, from, self.run.is_continued_by(range.start))
            } else {
                habits.of_read(source, range, from, self.ahead.is_stream(range))
            };
            (if through_cache(event) { IoMode::Cached } else { IoMode::Direct }, Some(event))
        } else {
            (self.opening.io_mode(), None)
        };
        if let Some(event) = event {
            self.shared.about.figures.count(event, range.end - range.start);
        }
        io_mode
    }

    fn read_with_ahead(
        &self,
        from: &OpenTarget,
        range: &Range<u64>,
        answer: ReadAnswer<'_, impl FnOnce(Result<&[u8]>)>,
    ) {
        let (len, file) = (range.end - range.start, &from.file);
        let pieces = self.ahead.pieces(&self.shared, from, range);
        let Some(first) = pieces.first() else { return read_straight(from, range, answer) };
        if let Some((bytes, last)) = first.get(range)
            && (bytes.len() as u64 == len
                || last && ends_by(file, range.start + bytes.len() as u64))
        {
            answer.figures.count(Event::ReadAheadHit, bytes.len() as u64);
            return answer.bytes(Class::Bounced, false, bytes);
        }
        let figures = answer.figures;
        with_answer(len as usize, answer, |buffer| {
            let (mut done, mut at_end) = (0, false);
            for piece in &pieces {
                let rest = range.start + done as u64..range.end;
                let Some((bytes, last)) = piece.get(&rest) else { break };
                buffer[done..done + bytes.len()].copy_from_slice(bytes);
                done += bytes.len();
                at_end = last && ends_by(file, range.start + done as u64);
            }
            if done == buffer.len() || at_end {
                figures.count(Event::ReadAheadHit, done as u64);
                return Ok((Class::Bounced, false, done));
            }
            let (class, waited, more) =
                read_some(from, &mut buffer[done..], range.start + done as u64)?;
            Ok((class, waited, done + more))
        });
    }

    /// Waits until a read of `size` bytes may start. Returns `give`, which also counts how many of
    /// them there were.
    fn throttled(&self, size: u64, give: impl FnOnce(Result<&[u8]>)) -> impl FnOnce(Result<&[u8]>) {
        let counted = self.wait_for_throttle(size);
        move |bytes| {
            if counted {
                let read = bytes.map_or(0, |bytes| bytes.len() as u64);
                self.shared.common.throttle.give_back(size.saturating_sub(read));
            }
            give(bytes);
        }
    }

    /// Waits until a request of so many bytes may start; returns whether anything limits it.
    pub(super) fn wait_for_throttle(&self, bytes: u64) -> bool {
        let throttle = &self.shared.common.throttle;
        let waited = throttle.admit(bytes, || {
            let descriptors = Arc::clone(self.shared.routes().any().ok()?);
            throttle.probe(descriptors.base())
        });
        if let Some(waited) = waited.filter(|waited| !waited.is_zero()) {
            self.shared.about.figures.waited(Wait::Throttle, waited);
        }
        waited.is_some()
    }

    /// Whether writes of the handle take turns with those of the inode's other handles.
    fn takes_turns(&self) -> bool {
        self.opening.excludes_all() && self.route == KernelRoute::Requests
    }

    /// Writes all of `bytes` and passes the outcome to `give`: now, or when it is this write's
    /// turn.
    pub(super) fn write_in_turn(
        self: &Arc<Self>,
        offset: u64,
        bytes: &[u8],
        how: WriteProperties,
        give: impl FnOnce(Result<u32>) + Send + 'static,
    ) {
        if how.cache {
            // The kernel writes its pages back, and nothing that needs memory may wait for that.
            self.shared.common.throttle.count(bytes.len() as u64);
        } else {
            self.wait_for_throttle(bytes.len() as u64);
        }
        if !self.takes_turns() {
            return give(self.write(offset, bytes, how, Duration::ZERO));
        }
        let turns = &self.shared.turns;
        if turns.take() {
            return turns.spend(|| give(self.write(offset, bytes, how, Duration::ZERO)));
        }
        // Without memory to put it aside, the write waits for the file's lock in this thread.
        let Some(copy) = self.copy_of(bytes) else {
            return give(self.write(offset, bytes, how, Duration::ZERO));
        };
        let (handle, len) = (Arc::clone(self), bytes.len());
        let write = move |waited| {
            handle.shared.about.figures.waited(Wait::File, waited);
            give(handle.write(offset, &copy.bytes()[..len], how, waited));
        };
        turns.later(write);
    }

    fn copy_of(&self, bytes: &[u8]) -> Option<Chunk> {
        let mut chunk =
            self.shared.memory(bytes.len()).filter(|chunk| chunk.room() >= bytes.len())?;
        chunk.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        Some(chunk)
    }

    /// Writes all of `bytes`. `blocked` is how long they have waited since they arrived.
    pub(super) fn write(
        &self,
        offset: u64,
        bytes: &[u8],
        how: WriteProperties,
        blocked: Duration,
    ) -> Result<u32> {
        let (began, locked) = (Instant::now(), waited_here());
        let figures = &self.shared.about.figures;
        match self.write_by(offset, bytes, how) {
            Ok((class, waited)) => {
                let took = began.elapsed();
                if self.route == KernelRoute::Cache {
                    self.shared.note_cached_pages();
                }
                figures.written(class, bytes.len() as u64, blocked + took);
                self.drop_replaced(offset, bytes, how);
                if waited {
                    figures.waited_for_device(took, locked);
                }
                Ok(bytes.len() as u32)
            }
            Err(errno) => {
                figures.error(RequestKind::Write);
                Err(errno)
            }
        }
    }

    /// Makes the kernel drop pages of the written range that it may have cached meanwhile. The
    /// kernel does so itself before a write, and only since Linux 6.19 after it too (commit
    /// b359af8275a9).
    fn drop_replaced(&self, offset: u64, bytes: &[u8], how: WriteProperties) {
        let shared = &self.shared;
        if !how.cache && shared.fillers.load(Ordering::Relaxed) > 0 {
            // Appended bytes may be at another offset, but no cache can have held them.
            shared
                .common
                .kernel
                .drop_pages(shared.ino, offset..offset.saturating_add(bytes.len() as u64));
        }
    }

    /// Writes all of `bytes`. Returns the class of most of them, and whether they waited for the
    /// device.
    fn write_by(&self, offset: u64, bytes: &[u8], how: WriteProperties) -> Result<(Class, bool)> {
        let shared = &self.shared;
        if !how.cache {
            // If a write from the kernel's cache failed, the kernel would drop the page and report
            // the error to no program.
            self.report_error()?;
        }
        let routes = shared.routes();
        let descriptors = routes.writing()?;
        self.wrote.store(true, Ordering::Relaxed);
        if how.kill_privileges {
            clear_set_id(descriptors)?;
        }
        if appends(how) {
            return self.append(&routes, descriptors, offset, bytes, how);
        }
        if descriptors.is_append_only() {
            // The program has cleared `O_APPEND` on its descriptor, or a mapping has changed a
            // page.
            return Err(Errno::PERM);
        }
        // Bytes reach the source in the order in which they were acknowledged.
        shared.appended.settle();
        let end = end_of(offset, bytes.len() as u64)?;
        let mode = self.io_mode(&routes, descriptors, &(offset..end), true);
        let streams = self.run.continues(offset, end);
        let from = shared.note_end(descriptors, offset, end);
        let explicit = sync_method(how.flags) == dio::SyncMethod::Explicit;
        let soon_synced = self.commits.wrote();
        if explicit
            && !soon_synced
            && mode != IoMode::Cached
            && !how.cache
            && self.may_be_behind(&routes)
        {
            let most = shared.common.live.get().write_behind;
            if streams {
                let aim = LazyTarget { mode, descriptors: Arc::clone(descriptors) };
                if end > SMALL {
                    // Opened before the bytes are acknowledged, so that the file is open when they
                    // are written.
                    aim.file()?;
                }
                shared.scattered.wait_for(&(offset..end));
                if from == offset && shared.ordered.take(&aim, offset, bytes, most) {
                    return Ok((Class::Bounced, false));
                }
            }
            if !self.opening.excludes_all() {
                let file = file_of(descriptors, mode, how.flags)?;
                let target = OpenTarget { file, descriptors: Arc::clone(descriptors) };
                shared.wait_for_range(&(offset..end));
                if shared.scattered.take(&target, offset, bytes, most) {
                    return Ok((Class::Bounced, false));
                }
            }
        }
        // Bytes reach the source in the order in which they were acknowledged.
        shared.ordered.settle();
        shared.scattered.wait_for(&(offset..end));
        let file = file_of(descriptors, mode, how.flags)?;
        shared.own_end.fetch_max(end, Ordering::AcqRel);
        let _change = shared.changes.begin(from..end);
        file.write_at(bytes, offset).map_err(|error| descriptors.failed(&file, &error))?;
        Ok(if mode == IoMode::Cached {
            (Class::Cached, false)
        } else {
            (file.write_class().0, true)
        })
    }

    pub(super) fn may_be_behind(&self, routes: &Routes) -> bool {
        let durable = OFlags::DSYNC;
        self.opening.is_buffered()
            && !self.opening.flags.intersects(durable)
            && routes.may_hold_back()
    }

    /// Handles the close of a descriptor: waits until all acknowledged bytes are written, and
    /// returns an error that no sync of the handle has returned yet.
    pub(super) fn flush(&self) -> Result<()> {
        self.shared.settle();
        if self.wrote.load(Ordering::Relaxed) {
            self.shared.errors.report_to_close(&self.reported)
        } else {
            Ok(())
        }
    }

    /// Makes acknowledged writes durable.
    pub(super) fn sync(&self, data_only: bool) -> Result<()> {
        let (began, locked) = (Instant::now(), waited_here());
        let shared = &self.shared;
        self.commits.synced();
        shared.settle();
        // If streamed pages are being dropped, this sync must report the errors of their
        // write-back.
        drop(shared.dropping());
        let routes = shared.routes();
        if let Err(errno) = sync_through(&routes, self.opening.io_mode(), data_only) {
            // The error concerns every handle that has written.
            shared.errors.record(errno);
        }
        drop(routes);
        let outcome = shared.errors.report_to_sync(&self.reported);
        match outcome {
            Ok(()) => {
                let took = began.elapsed();
                shared.about.figures.synced(took);
                shared.about.figures.waited_for_device(took, locked);
            }
            Err(_) => shared.about.figures.error(RequestKind::Sync),
        }
        outcome
    }
}

/// Syncs through the file that was used for writing, which records the bytes that went through the
/// page cache.
fn sync_through(routes: &Routes, io_mode: IoMode, data_only: bool) -> Result<()> {
    let Ok(descriptors) = routes.writing() else {
        let descriptors = routes.any()?;
        let base = descriptors.base();
        if descriptors.is_striped() {
            let file = file_of(descriptors, IoMode::Direct, OFlags::empty())?;
            let outcome = if data_only { file.sync_data() } else { file.sync_all() };
            return outcome.map_err(|error| descriptors.failed(&file, &error));
        }
        return if data_only { rustix::fs::fdatasync(base) } else { rustix::fs::fsync(base) };
    };
    let mode = if routes.is_cached() { IoMode::Cached } else { io_mode };
    let file = file_of(descriptors, mode, OFlags::empty())?;
    let outcome = if data_only { file.sync_data() } else { file.sync_all() };
    let outcome = outcome.map_err(|error| descriptors.failed(&file, &error));
    // Called in any case, so that no error is reported again later.
    let lost = descriptors.lost();
    outcome.and(lost)
}

impl OpenInode {
    /// Returns the end of the file, pending bytes included.
    pub(super) fn end(&self, descriptors: &Descriptors) -> Result<u64> {
        // The order matters: bytes that are pending now and written before the next line are in the
        // size.
        let pending = self.ordered.expected_end().max(self.appended.end()).unwrap_or(0);
        Ok(descriptors.size()?.max(pending))
    }

    /// Counts the bytes by which a write extends the file. Returns the offset from which the write
    /// changes the file: the old end, if that is before the write.
    pub(super) fn note_end(&self, descriptors: &Descriptors, start: u64, end: u64) -> u64 {
        if end <= self.known_end.load(Ordering::Relaxed) {
            return start;
        }
        // `known_end` is not the old end if the file was truncated beside the mount.
        let pending = self.ordered.expected_end().filter(|pending| *pending == start);
        let old = pending.or_else(|| self.end(descriptors).ok()).unwrap_or(0);
        self.known_end.fetch_max(end.max(old), Ordering::Relaxed);
        if end > old {
            self.about.figures.count(Event::Extend, end - old);
        }
        start.min(old)
    }
}

/// Clears the set-id bits. The kernel does not clear them on writes of a privileged server.
fn clear_set_id(descriptors: &Descriptors) -> Result<()> {
    match set_id::without(&rustix::fs::fstat(descriptors.base())?) {
        Some(left) => set_id::taken(rustix::fs::fchmod(descriptors.base(), left)),
        None => Ok(()),
    }
}

/// Whether the file now ends at `end` or before it.
fn ends_by(file: &File, end: u64) -> bool {
    file.size().is_ok_and(|size| size <= end)
}

fn read_straight(
    from: &OpenTarget,
    range: &Range<u64>,
    answer: ReadAnswer<'_, impl FnOnce(Result<&[u8]>)>,
) {
    let len = (range.end - range.start) as usize;
    with_answer(len, answer, |buffer| read_some(from, buffer, range.start));
}

/// Reads past the page cache if the file does. Returns the class of most of the bytes, whether the
/// read waited for the device, and the number of bytes.
///
/// A direct read first writes back what is dirty in the page cache. A file system that has turned
/// read-only after an error refuses that with EROFS, but still allows reads through the cache.
fn read_some(from: &OpenTarget, buffer: &mut [u8], offset: u64) -> Result<(Class, bool, usize)> {
    let file = &from.file;
    match file.read_at(buffer, offset).map_err(|error| error.errno()) {
        Err(Errno::ROFS) => {
            let file = file_of(&from.descriptors, IoMode::Cached, OFlags::empty())?;
            Ok((Class::Cached, false, file.read_at(buffer, offset).map_err(|error| error.errno())?))
        }
        Err(errno) => Err(errno),
        Ok(count) if file.mode() == IoMode::Cached => Ok((Class::Cached, false, count)),
        Ok(count) => Ok((file.read_class().0, true, count)),
    }
}

/// Answers with the bytes that `read` puts into the thread's buffer.
fn with_answer<G: FnOnce(Result<&[u8]>)>(
    len: usize,
    answer: ReadAnswer<'_, G>,
    read: impl FnOnce(&mut [u8]) -> Result<(Class, bool, usize)>,
) {
    let mut answer = Some(answer);
    let lent = with_buffer(len, |buffer| {
        let outcome = read(buffer);
        let answer = answer.take().expect("it is given once");
        match outcome {
            Ok((class, waited, count)) => answer.bytes(class, waited, &buffer[..count]),
            Err(errno) => answer.fail(errno),
        }
    });
    if let (Err(_), Some(answer)) = (lent, answer) {
        answer.fail(Errno::NOMEM);
    }
}
