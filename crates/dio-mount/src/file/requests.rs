//! Reads, writes and syncs of a handle.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dio::lock::waited_here;
use dio::{Class, File, Mode as Manner};
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};

use super::appends::{appends, end_of};
use super::behind::{Aim, SMALL, Target};
use super::descriptors::{Descriptors, file_of, sync_method};
use super::habits::through_cache;
use super::interface::How;
use super::memory::{Chunk, with_buffer};
use super::modes::Way;
use super::shared::{Handle, Routes, Shared};
use crate::options::Mode;
use crate::set_id;
use crate::stats::{Event, FileStats, Kind, Wait};

/// A read that is to be answered.
struct Answer<'a, G> {
    figures: &'a FileStats,
    began: Instant,
    /// How long the thread had waited for locks by then.
    locked: Duration,
    give: G,
}

impl<G: FnOnce(Result<&[u8]>)> Answer<'_, G> {
    /// `waited`: for the device, to get at them.
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
        self.figures.error(Kind::Read);
    }
}

impl Handle {
    /// Reads up to `size` bytes; fewer only at the end of the file. `cache` says that it is for the
    /// kernel's cache of the mount.
    pub(super) fn read(&self, offset: u64, size: u32, cache: bool, give: impl FnOnce(Result<&[u8]>)) {
        let fills = cache && !self.is_cached();
        let watch = fills.then(|| self.shared.changes.watch());
        if cache {
            self.shared.fills();
        }
        self.read_and_give(offset, size, cache, give);
        if cache {
            // The kernel has the bytes only now; somebody may have looked meanwhile.
            self.shared.fills();
        }
        let range = offset..offset.saturating_add(u64::from(size));
        if watch.is_some_and(|watch| watch.has_changed(&range)) {
            // The kernel may have got what was there before, and keeps it.
            self.shared.common.kernel.drop_pages(self.shared.ino, range);
        }
    }

    fn read_and_give(&self, offset: u64, size: u32, cache: bool, give: impl FnOnce(Result<&[u8]>)) {
        let shared = &self.shared;
        let answer = Answer { figures: &shared.about.figures, began: Instant::now(), locked: waited_here(), give };
        if cache && !self.filled.swap(true, Ordering::Relaxed) {
            shared.begins_to_fill(self.wish);
            shared.about.figures.count(Event::BecameCached, 0);
        }
        let range = offset.min(i64::MAX as u64)..offset.saturating_add(u64::from(size)).min(i64::MAX as u64);
        // A mapping goes back and forth: its pages stay until it goes.
        if cache && self.way == Way::Cache && !self.is_cached() {
            self.drop_behind(&range);
        }
        let routes = shared.routes();
        // What is pending and wanted is written first.
        shared.make_way(&range);
        let prepared = routes.reading().and_then(|descriptors| {
            let mode = self.manner(&routes, descriptors, &range, false);
            Ok((
                mode,
                Target { file: file_of(descriptors, mode, OFlags::empty())?, descriptors: Arc::clone(descriptors) },
            ))
        });
        match prepared {
            Err(errno) => answer.fail(errno),
            Ok((Manner::Cached, from)) => {
                self.ahead.note(&range);
                read_straight(&from, &range, answer);
            }
            Ok((_, from)) if self.wish.is_buffered() && routes.may_hold_back() => {
                self.read_with_ahead(&from, &range, answer);
            }
            Ok((_, from)) => read_straight(&from, &range, answer),
        }
    }

    /// How a request is done, and why, where that is counted.
    pub(super) fn manner(&self, routes: &Routes, descriptors: &Descriptors, range: &Range<u64>, write: bool) -> Manner {
        let (manner, event) = if routes.is_cached() {
            (Manner::Cached, Some(Event::HybridShared))
        } else if self.wish.mode == Mode::Auto && self.wish.is_buffered() {
            let (habits, source) = (self.shared.habits(), descriptors.base());
            let from = self.shared.common.live.get().direct_from;
            let event = if write {
                habits.of_write(source, range, from, self.run.is_continued_by(range.start))
            } else {
                habits.of_read(source, range, from, self.ahead.is_stream(range))
            };
            (if through_cache(event) { Manner::Cached } else { Manner::Direct }, Some(event))
        } else {
            (self.wish.manner(), None)
        };
        if let Some(event) = event {
            self.shared.about.figures.count(event, range.end - range.start);
        }
        manner
    }

    fn read_with_ahead(&self, from: &Target, range: &Range<u64>, answer: Answer<'_, impl FnOnce(Result<&[u8]>)>) {
        let (len, file) = (range.end - range.start, &from.file);
        let pieces = self.ahead.pieces(&self.shared, from, range);
        let Some(first) = pieces.first() else { return read_straight(from, range, answer) };
        if let Some((bytes, last)) = first.get(range)
            && (bytes.len() as u64 == len || last && ends_by(file, range.start + bytes.len() as u64))
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
            let (class, waited, more) = read_some(from, &mut buffer[done..], range.start + done as u64)?;
            Ok((class, waited, done + more))
        });
    }

    /// Whether its writes take turns with those of the inode's other handles.
    fn takes_turns(&self) -> bool {
        self.wish.excludes_all() && self.way == Way::Requests
    }

    /// Writes all of `bytes` and gives how that went to `give`: now, or when it is this write's
    /// turn.
    pub(super) fn write_in_turn(
        self: &Arc<Self>,
        offset: u64,
        bytes: &[u8],
        how: How,
        give: impl FnOnce(Result<u32>) + Send + 'static,
    ) {
        if !self.takes_turns() {
            return give(self.write(offset, bytes, how, Duration::ZERO));
        }
        let turns = &self.shared.turns;
        if turns.take() {
            return turns.spend(|| give(self.write(offset, bytes, how, Duration::ZERO)));
        }
        // Without memory to put it aside, it waits for the file's lock in this thread.
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
        let mut chunk = self.shared.memory(bytes.len()).filter(|chunk| chunk.room() >= bytes.len())?;
        chunk.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        Some(chunk)
    }

    /// Writes all of `bytes`, having been `blocked` for so long since they came.
    pub(super) fn write(&self, offset: u64, bytes: &[u8], how: How, blocked: Duration) -> Result<u32> {
        let (began, locked) = (Instant::now(), waited_here());
        let figures = &self.shared.about.figures;
        match self.write_by(offset, bytes, how) {
            Ok((class, waited)) => {
                let took = began.elapsed();
                if self.way == Way::Cache {
                    self.shared.fills();
                }
                figures.written(class, bytes.len() as u64, blocked + took);
                self.drop_replaced(offset, bytes, how);
                if waited {
                    figures.waited_for_device(took, locked);
                }
                Ok(bytes.len() as u32)
            }
            Err(errno) => {
                figures.error(Kind::Write);
                Err(errno)
            }
        }
    }

    /// Has the kernel drop what it may have cached meanwhile of what was written. It does so itself
    /// before a write, and only since Linux 6.19 after it too (commit b359af8275a9).
    fn drop_replaced(&self, offset: u64, bytes: &[u8], how: How) {
        let shared = &self.shared;
        if !how.cache && shared.fillers.load(Ordering::Relaxed) > 0 {
            // What is appended may have gone elsewhere, and was in nobody's cache.
            shared.common.kernel.drop_pages(shared.ino, offset..offset.saturating_add(bytes.len() as u64));
        }
    }

    /// Returns how most of the bytes travelled, and whether they waited for the device.
    fn write_by(&self, offset: u64, bytes: &[u8], how: How) -> Result<(Class, bool)> {
        let shared = &self.shared;
        if !how.cache {
            // The kernel would give up the page, and nobody would be told.
            self.told()?;
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
            // The program has taken back its O_APPEND, or a mapping has changed a page.
            return Err(Errno::PERM);
        }
        // In the order in which they were acknowledged.
        shared.appended.settle();
        let end = end_of(offset, bytes.len() as u64)?;
        let mode = self.manner(&routes, descriptors, &(offset..end), true);
        let streams = self.run.continues(offset, end);
        let from = shared.note_end(descriptors, offset, end);
        let explicit = sync_method(how.flags) == dio::SyncMethod::Explicit;
        let soon_synced = self.commits.wrote();
        if explicit && !soon_synced && mode != Manner::Cached && !how.cache && self.may_be_behind(&routes) {
            let most = shared.common.live.get().write_behind;
            if streams {
                let aim = Aim { mode, descriptors: Arc::clone(descriptors) };
                if end > SMALL {
                    // What is acknowledged finds it open.
                    aim.file()?;
                }
                shared.scattered.wait_for(&(offset..end));
                if from == offset && shared.ordered.take(&aim, offset, bytes, most) {
                    return Ok((Class::Bounced, false));
                }
            }
            if !self.wish.excludes_all() {
                let file = file_of(descriptors, mode, how.flags)?;
                let target = Target { file, descriptors: Arc::clone(descriptors) };
                shared.make_way(&(offset..end));
                if shared.scattered.take(&target, offset, bytes, most) {
                    return Ok((Class::Bounced, false));
                }
            }
        }
        // In the order in which they were acknowledged.
        shared.ordered.settle();
        shared.scattered.wait_for(&(offset..end));
        let file = file_of(descriptors, mode, how.flags)?;
        shared.own_end.fetch_max(end, Ordering::AcqRel);
        let _change = shared.changes.begin(from..end);
        file.write_at(bytes, offset).map_err(|error| descriptors.failed(&file, &error))?;
        Ok(if mode == Manner::Cached { (Class::Cached, false) } else { (file.write_class().0, true) })
    }

    pub(super) fn may_be_behind(&self, routes: &Routes) -> bool {
        let durable = OFlags::DSYNC;
        self.wish.is_buffered() && !self.wish.flags.intersects(durable) && routes.may_hold_back()
    }

    /// A descriptor is closed: waits until what was acknowledged is written, and says what the
    /// handle has not been told of.
    pub(super) fn flush(&self) -> Result<()> {
        self.shared.settle();
        if self.wrote.load(Ordering::Relaxed) { self.shared.errors.remind(&self.told) } else { Ok(()) }
    }

    /// Makes what was acknowledged durable.
    pub(super) fn sync(&self, data_only: bool) -> Result<()> {
        let (began, locked) = (Instant::now(), waited_here());
        let shared = &self.shared;
        self.commits.synced();
        shared.settle();
        // What that finds is for this sync to tell.
        drop(shared.dropping());
        let routes = shared.routes();
        if let Err(errno) = sync_through(&routes, self.wish.manner(), data_only) {
            // It concerns everybody who has written.
            shared.errors.record(errno);
        }
        drop(routes);
        let outcome = shared.errors.tell(&self.told);
        match outcome {
            Ok(()) => {
                let took = began.elapsed();
                shared.about.figures.synced(took);
                shared.about.figures.waited_for_device(took, locked);
            }
            Err(_) => shared.about.figures.error(Kind::Sync),
        }
        outcome
    }
}

/// A sync through the file that has been written through, which knows what of it passed the page
/// cache.
fn sync_through(routes: &Routes, manner: Manner, data_only: bool) -> Result<()> {
    let Ok(descriptors) = routes.writing() else {
        let descriptors = routes.any()?;
        let base = descriptors.base();
        if descriptors.is_striped() {
            let file = file_of(descriptors, Manner::Direct, OFlags::empty())?;
            let outcome = if data_only { file.sync_data() } else { file.sync_all() };
            return outcome.map_err(|error| descriptors.failed(&file, &error));
        }
        return if data_only { rustix::fs::fdatasync(base) } else { rustix::fs::fsync(base) };
    };
    let mode = if routes.is_cached() { Manner::Cached } else { manner };
    let file = file_of(descriptors, mode, OFlags::empty())?;
    let outcome = if data_only { file.sync_data() } else { file.sync_all() };
    let outcome = outcome.map_err(|error| descriptors.failed(&file, &error));
    // Asked in any case, so that it is not told again.
    let lost = descriptors.lost();
    outcome.and(lost)
}

impl Shared {
    /// Where the file ends, pending bytes included.
    pub(super) fn end(&self, descriptors: &Descriptors) -> Result<u64> {
        // In this order: what is pending at first and then written is in the size.
        let pending = self.ordered.expected_end().max(self.appended.end()).unwrap_or(0);
        Ok(descriptors.size()?.max(pending))
    }

    /// Counts what a write makes the file longer by. Returns from where on it changes the file:
    /// from its old end, where that is before the write.
    pub(super) fn note_end(&self, descriptors: &Descriptors, start: u64, end: u64) -> u64 {
        if end <= self.known_end.load(Ordering::Relaxed) {
            return start;
        }
        // Not what is known: the file may be shorter by now, cut off beside the mount.
        let pending = self.ordered.expected_end().filter(|pending| *pending == start);
        let old = pending.or_else(|| self.end(descriptors).ok()).unwrap_or(0);
        self.known_end.fetch_max(end.max(old), Ordering::Relaxed);
        if end > old {
            self.about.figures.count(Event::Extend, end - old);
        }
        start.min(old)
    }
}

/// Clears the set-id bits, which the kernel does not do for what a privileged server writes.
fn clear_set_id(descriptors: &Descriptors) -> Result<()> {
    match set_id::without(&rustix::fs::fstat(descriptors.base())?) {
        Some(left) => set_id::taken(rustix::fs::fchmod(descriptors.base(), left)),
        None => Ok(()),
    }
}

/// Whether the file ends at `end`, or before it, at this moment.
fn ends_by(file: &File, end: u64) -> bool {
    file.size().is_ok_and(|size| size <= end)
}

fn read_straight(from: &Target, range: &Range<u64>, answer: Answer<'_, impl FnOnce(Result<&[u8]>)>) {
    let len = (range.end - range.start) as usize;
    with_answer(len, answer, |buffer| read_some(from, buffer, range.start));
}

/// Reads past the page cache if the file does; says how most of the bytes travelled, and whether
/// they waited for the device. A direct read first writes back what is dirty in the cache; a file
/// system that has turned read-only after an error refuses that with EROFS, yet reads through the
/// cache.
fn read_some(from: &Target, buffer: &mut [u8], offset: u64) -> Result<(Class, bool, usize)> {
    let file = &from.file;
    match file.read_at(buffer, offset).map_err(|error| error.errno()) {
        Err(Errno::ROFS) => {
            let file = file_of(&from.descriptors, Manner::Cached, OFlags::empty())?;
            Ok((Class::Cached, false, file.read_at(buffer, offset).map_err(|error| error.errno())?))
        }
        Err(errno) => Err(errno),
        Ok(count) if file.mode() == Manner::Cached => Ok((Class::Cached, false, count)),
        Ok(count) => Ok((file.read_class().0, true, count)),
    }
}

/// Answers with what `read` puts into the thread's buffer.
fn with_answer<G: FnOnce(Result<&[u8]>)>(
    len: usize,
    answer: Answer<'_, G>,
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
