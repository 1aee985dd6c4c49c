//! Whole aligned blocks in flight, for the copy loop, streams and queues: they run their own [`Driver`], and the file
//! keeps its rules (route, counters, latch, what passed through the cache) in one place, here.
//!
//! [`Driver`]: crate::drive::Driver

use std::ops::Range;

use super::{File, FileError, Mode, Passage};
use crate::block::Mem;
use crate::drive::Finished;
use crate::engine::{Flags, Kind, Op, Route};
use crate::geometry::align_up;
use crate::lock::{LockClass, LockGuard};

/// A lock to ask for.
pub(super) enum Claim {
    Nothing,
    /// Beside all other operations, but not beside one that has the whole file.
    Beside(LockClass),
    Shared(Range<u64>),
    Exclusive(Range<u64>),
}

impl File {
    /// Multiple of bytes that offsets and lengths of blocks must have, for reading and for writing.
    pub fn block_align(&self) -> u64 {
        let route = self.route();
        self.align(route, Kind::Read).offset.max(self.align(route, Kind::Write).offset)
    }

    /// An operation on a block; the caller gives the finished operation to [`File::block_done`].
    pub(crate) fn block_op(&self, kind: Kind, offset: u64, mem: Mem, tag: u64) -> Op {
        let way = self.usual();
        let range = offset..offset + mem.len() as u64;
        let pages = match kind {
            Kind::Read => self.before_read(way, &range),
            _ => self.before_write(way, &range),
        };
        self.count_requests(kind, 1);
        let mut op = self.op(kind, way.route, self.flags(way), offset, Some(mem));
        (op.pages, op.tag) = (pages, tag);
        op
    }

    /// Keeps the file's accounts of a finished operation. A refused `RWF_DONTCACHE` is run again without it.
    pub(crate) fn block_done(&self, over: Finished) -> (Finished, Result<usize, FileError>) {
        let over = self.without_dontcache(over);
        let (kind, offset) = (over.op.kind, over.op.offset);
        let (range, pages) = (offset..offset + over.op.len() as u64, over.op.pages);
        let outcome = match (kind, over.outcome) {
            (Kind::Read, Ok(count)) => {
                self.count_straight_read(count as u64);
                self.after_read(Passage::of(&over.op), &range, pages, count as u64).map(|()| count)
            }
            (_, Ok(count)) => {
                self.count_straight_write(count as u64);
                self.after_write(Passage::of(&over.op), &range, pages).map(|()| count)
            }
            (Kind::Read, Err(_)) => self.read_outcome(&over),
            (_, Err(_)) => self.write_outcome(&over).map(|()| 0),
        };
        (over, outcome)
    }

    /// The part of an operation on a striped file that concerns this object of it.
    pub(crate) fn part_op(&self, whole: &Op, offset: u64, mem: Option<Mem>) -> Op {
        let route = if whole.route == Route::Direct { self.route() } else { Route::Buffered };
        let Some(mem) = mem else { return self.op(whole.kind, route, whole.flags, offset, None) };
        let range = offset..offset + mem.len() as u64;
        let way = Passage { keep: whole.flags.keep, ..Passage::by(route) };
        let pages = match whole.kind {
            Kind::Read => self.before_read(way, &range),
            _ => self.before_write(way, &range),
        };
        self.count_requests(whole.kind, 1);
        let flags = Flags { dsync: whole.flags.dsync, ..self.flags(way) };
        Op { pages, ..self.op(whole.kind, route, flags, offset, Some(mem)) }
    }

    /// Keeps the accounts of what concerns this object alone: what passed through the page cache, and whether it should
    /// have. Bytes are counted by the whole.
    pub(crate) fn part_done(&self, over: Finished) -> Finished {
        let over = self.without_dontcache(over);
        let (Ok(count), false) = (over.outcome, over.op.is_empty()) else { return over };
        let range = over.op.offset..over.op.offset + over.op.len() as u64;
        let kept = match over.op.kind {
            Kind::Read => self.after_read(Passage::of(&over.op), &range, over.op.pages, count as u64),
            _ => self.after_write(Passage::of(&over.op), &range, over.op.pages),
        };
        match kept {
            Ok(()) => over,
            // None of it is sure: the error is at the first byte, not behind the last, where it would concern nobody.
            Err(error) => Finished { outcome: Err(error.errno()), op: Op { done: 0, ..over.op } },
        }
    }

    /// Makes what was done durable where every write is to be.
    pub(crate) fn sync_if_durable(&self) -> Result<(), FileError> {
        if self.durable { self.sync_all() } else { Ok(()) }
    }

    /// Keeps resizes and misaligned writes out while blocks are in flight.
    pub(crate) fn lock_blocks(&self, kind: Kind) -> Option<LockGuard> {
        let class = if kind == Kind::Read { LockClass::Read } else { LockClass::Write };
        (self.mode.wants_direct() || kind == Kind::Write).then(|| self.locks.whole_shared(class))
    }

    /// While a block in flight at `from` makes the file longer, keeps out what reads or writes there or behind it, what
    /// changes the size, and what writes a part of a block.
    ///
    /// # Errors
    /// Those of making the file reach there, where a gap before it has to be filled.
    pub(crate) fn lock_extension(&self, from: u64) -> Result<LockGuard, FileError> {
        loop {
            let guard = self.locks.exclusive(from..u64::MAX, LockClass::Resize);
            if self.stripes.is_none() || self.size()? >= from {
                return Ok(guard);
            }
            // A gap is filled in objects that others may be writing to, before `from`.
            drop(guard);
            let _alone = self.locks.whole(LockClass::Resize);
            if self.size()? < from {
                self.reach(from)?;
            }
        }
    }

    /// A place in an order of all files of the process, the same for all opens of one file.
    pub(crate) fn lock_order(&self) -> usize {
        std::sync::Arc::as_ptr(&self.locks).addr()
    }

    /// Whether both are opens of one file.
    pub(crate) fn shares_locks(&self, other: &File) -> bool {
        std::sync::Arc::ptr_eq(&self.locks, &other.locks)
    }

    /// As [`File::lock`], without waiting: the outer `None` says that it would have to.
    pub(crate) fn try_lock(&self, kind: Kind, range: Range<u64>) -> Option<Option<LockGuard>> {
        match self.claim(kind, range) {
            Claim::Nothing => Some(None),
            Claim::Beside(class) => self.locks.try_whole_shared(class).map(Some),
            Claim::Shared(range) => self.locks.try_shared(range, LockClass::Read).map(Some),
            Claim::Exclusive(range) => self.locks.try_exclusive(range, LockClass::Write).map(Some),
        }
    }

    /// What an operation inside the file locks, by mode.
    pub(super) fn claim(&self, kind: Kind, range: Range<u64>) -> Claim {
        let range = self.span(kind, range);
        match (self.mode, kind) {
            (Mode::Concurrent, Kind::Write) => Claim::Beside(LockClass::Write),
            (_, Kind::Write) => Claim::Exclusive(range),
            (Mode::Cached | Mode::Uncached, _) => Claim::Nothing,
            (Mode::Direct, _) => Claim::Shared(range),
            (Mode::Concurrent, _) => Claim::Beside(LockClass::Read),
        }
    }

    fn count_straight_write(&self, bytes: u64) {
        let (class, reason) = self.write_class();
        self.meter.count_written(class, bytes);
        if let Some(reason) = reason {
            self.meter.count_reason(reason, bytes);
        }
    }

    /// `len` rounded up to whole blocks.
    pub(crate) fn whole_blocks(&self, len: u64) -> u64 {
        align_up(len, self.block_align())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use rustix::io::Errno;

    use super::*;
    use crate::engine::OsMedium;
    use crate::file::trial::Trial;
    use crate::lock::LockPolicy;
    use crate::queue::Queue;
    use crate::{Io, Limits, Need, OpenOptions};

    const BLOCK: usize = 64 << 10;
    const BLOCKS: u64 = 8;

    /// A file whose direct I/O is buffered, as on btrfs, without the kernel saying so; none of it cached.
    fn file_of_a_liar(io: &Io, need: Need) -> (File, OwnedFd) {
        let plain = tempfile::tempfile_in("/var/tmp").unwrap();
        std::os::unix::fs::FileExt::write_all_at(&plain, &vec![7; BLOCK * BLOCKS as usize], 0).unwrap();
        plain.sync_all().unwrap();
        crate::residency::evict(&plain, 0..BLOCK as u64 * BLOCKS).unwrap();
        let duplicate = || OwnedFd::from(plain.try_clone().unwrap());
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).need(need).io(io).adopt(duplicate(), "liar").unwrap();
        let medium = Arc::new(OsMedium::both(duplicate(), duplicate()));
        medium.no_read_ahead();
        (file.os, file.medium, file.refusal) = (Some(medium.clone()), medium, None);
        (file.read_trial, file.write_trial) = (Trial::new(false), Trial::new(false));
        (file, plain.into())
    }

    fn default_engine() -> Io {
        Io::new(Limits::default()).unwrap()
    }

    fn queue_all(io: &Io, file: &Arc<File>, kind: Kind) -> Vec<Result<usize, FileError>> {
        let mut queue = Queue::new(io, BLOCK, BLOCKS as usize).unwrap();
        for at in 0..BLOCKS {
            let block = queue.block().unwrap();
            match kind {
                Kind::Read => queue.read(file, block, at * BLOCK as u64, BLOCK, at).unwrap(),
                _ => queue.write(file, block, at * BLOCK as u64, BLOCK, at).unwrap(),
            }
        }
        let mut completions = Vec::new();
        queue.wait(BLOCKS as usize, &mut completions).unwrap();
        completions.into_iter().map(|completion| completion.outcome).collect()
    }

    /// Opens of one file, which may differ in mode and policy.
    fn opens<const N: usize>(how: [(Mode, LockPolicy); N]) -> [File; N] {
        let plain = tempfile::tempfile_in("/var/tmp").unwrap();
        how.map(|(mode, policy)| {
            let fd = OwnedFd::from(plain.try_clone().unwrap());
            let mut options = OpenOptions::new();
            options.read(true).write(true).mode(mode).lock_policy(policy).adopt(fd, "plain").unwrap()
        })
    }

    #[test]
    fn opens_of_different_policies_exclude_each_other() {
        let [range, whole] = opens([(Mode::Direct, LockPolicy::Range), (Mode::Direct, LockPolicy::WholeFile)]);
        let writing = range.lock(Kind::Write, 0..512);
        assert!(whole.try_lock(Kind::Read, 8192..12288).is_none());
        assert!(range.try_lock(Kind::Read, 8192..12288).is_some());
        drop(writing);
        let writing = whole.lock(Kind::Write, 0..512);
        assert!(range.try_lock(Kind::Read, 8192..12288).is_none());
        drop(writing);
        assert_eq!(range.lock_stats().get(LockClass::Write).acquisitions, 2);
    }

    #[test]
    fn a_write_through_the_cache_keeps_direct_ones_out_of_its_pages() {
        let page = rustix::param::page_size() as u64;
        for cached in [Mode::Cached, Mode::Uncached] {
            let [direct, cached] = opens([(Mode::Direct, LockPolicy::Range), (cached, LockPolicy::Range)]);
            let writing = direct.lock(Kind::Write, 0..512);
            assert!(cached.try_lock(Kind::Write, page - 1..page).is_none());
            assert!(cached.try_lock(Kind::Write, page..page + 1).is_some());
            assert!(cached.try_lock(Kind::Read, 0..page).is_some());
            drop(writing);
            let _writing = cached.lock(Kind::Write, 600..700);
            assert!(direct.try_lock(Kind::Write, 0..512).is_none());
            assert!(direct.try_lock(Kind::Write, page..page + 512).is_some());
        }
    }

    #[test]
    fn a_queue_sees_that_direct_is_not_direct() {
        let io = default_engine();
        for kind in [Kind::Read, Kind::Write] {
            let (file, plain) = file_of_a_liar(&io, Need::Preferred);
            let file = Arc::new(file);
            queue_all(&io, &file, kind).into_iter().for_each(|outcome| assert_eq!(outcome.unwrap(), BLOCK));
            let (class, _) = if kind == Kind::Read { file.read_class() } else { file.write_class() };
            assert_eq!(class, crate::file::Class::Uncached, "{kind:?}");
            file.settle().unwrap();
            assert_eq!(crate::residency::resident_pages(&plain).unwrap(), 0, "{kind:?}");
        }
    }

    #[test]
    fn a_queue_fails_where_direct_is_required() {
        let io = default_engine();
        for kind in [Kind::Read, Kind::Write] {
            let (file, _plain) = file_of_a_liar(&io, Need::Required);
            let outcomes = queue_all(&io, &Arc::new(file), kind);
            assert!(outcomes.iter().any(|outcome| matches!(outcome, Err(error) if error.errno() == Errno::OPNOTSUPP)));
        }
    }

    #[test]
    fn a_stream_sees_that_direct_is_not_direct() {
        let io = default_engine();
        let (file, plain) = file_of_a_liar(&io, Need::Preferred);
        let mut reader = crate::stream::Reader::new(file).unwrap();
        std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
        assert_eq!(reader.file().read_class().0, crate::file::Class::Uncached);
        drop(reader);
        assert_eq!(crate::residency::resident_pages(&plain).unwrap(), 0);
    }
}
