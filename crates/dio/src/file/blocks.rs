//! Whole aligned blocks in flight, for the copy loop, streams and queues: they run their own [`Driver`], and the file
//! keeps its rules (route, counters, latch, what passed through the cache) in one place, here.

use super::routing::Routing;
use super::{File, FileError, PARTS_MAX};
use crate::block::Mem;
use crate::drive::{Driver, Finished, Request};
use crate::engine::{OpKind, Route};
use crate::geometry::align_up;
use crate::layout::depth_over;
use crate::lock::{LockClass, LockGuard};

/// A file as a sequence of aligned blocks. Who uses it locks for itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks<'a> {
    file: &'a File,
}

impl<'a> Blocks<'a> {
    pub(super) fn of(file: &'a File) -> Blocks<'a> {
        Blocks { file }
    }

    /// Multiple of bytes that offsets and lengths of blocks must have, for reading and for writing.
    pub(crate) fn align(self) -> u64 {
        let route = self.file.usual().route;
        let align = |kind| self.file.align(route, kind).offset;
        align(OpKind::Read).max(align(OpKind::Write))
    }

    /// `len` rounded up to whole blocks.
    pub(crate) fn whole(self, len: u64) -> u64 {
        align_up(len, self.align())
    }

    /// A request for a block; the caller gives the finished request to [`Blocks::finish`].
    pub(crate) fn request(self, kind: OpKind, offset: u64, mem: Mem, tag: u64) -> Request {
        let routing = self.file.usual();
        let pages = self.file.before_request(kind, routing, &(offset..offset + mem.len() as u64));
        self.file.count_requests(kind, 1);
        let mut request = self.file.request(kind, routing, offset, Some(mem));
        (request.cache.resident_before, request.tag) = (pages, tag);
        request
    }

    /// Takes a finished request into the file's accounts. A refused `RWF_DONTCACHE` is run again without it.
    pub(crate) fn finish(self, over: Finished) -> (Finished, Result<usize, FileError>) {
        let file = self.file;
        let over = file.without_dontcache(over);
        let kind = over.request.kind;
        let outcome = match (kind, over.outcome) {
            (_, Ok(count)) => {
                file.meter.count(kind, count as u64, file.body.class(file.access.mode, kind));
                self.after(&over, count as u64).map(|()| count)
            }
            (OpKind::Read, Err(_)) => super::read::outcome(file, &over),
            (_, Err(_)) => super::write::outcome(file, &over).map(|()| 0),
        };
        (over, outcome)
    }

    fn after(self, over: &Finished, count: u64) -> Result<(), FileError> {
        let request = &over.request;
        let range = request.offset..request.offset + request.len() as u64;
        let routing = Routing::of(request, self.file.is_cached());
        self.file.after_request(request.kind, routing, &range, request.cache.resident_before, count)
    }

    /// The part of a request to a striped file that concerns this object of it.
    pub(crate) fn part(self, whole: &Request, offset: u64, mem: Option<Mem>) -> Request {
        let file = self.file;
        let route = if whole.route == Route::Direct { file.usual().route } else { Route::Buffered };
        let routing = Routing::by(route, file.is_cached()).keeping(whole.cache.keep_pages);
        let pages = mem.as_ref().and_then(|mem| {
            let range = offset..offset + mem.len() as u64;
            let pages = file.before_request(whole.kind, routing, &range);
            file.count_requests(whole.kind, 1);
            pages
        });
        let mut request = file.request(whole.kind, routing, offset, mem);
        request.flags.dsync = whole.flags.dsync;
        request.cache.resident_before = pages;
        request
    }

    /// Takes what concerns this object alone into its accounts: what passed through the page cache, and whether it should
    /// have. Bytes are counted by the whole.
    pub(crate) fn finish_part(self, over: Finished) -> Finished {
        let over = self.file.without_dontcache(over);
        let (Ok(count), false) = (over.outcome, over.request.is_empty()) else { return over };
        match self.after(&over, count as u64) {
            Ok(()) => over,
            // None of it is sure: the error is at the first byte, not behind the last, where it would concern nobody.
            Err(error) => Finished { outcome: Err(error.errno()), done: 0, ..over },
        }
    }

    /// Keeps resizes and misaligned writes out while blocks are in flight.
    pub(crate) fn lock(self, kind: OpKind) -> Option<LockGuard> {
        self.file.locks.beside(kind)
    }

    /// While a block in flight at `from` makes the file longer, keeps out what reads or writes there or behind it, what
    /// changes the size, and what writes a part of a block.
    ///
    /// # Errors
    /// Those of making the file reach there, where a gap before it has to be filled.
    pub(crate) fn lock_extension(self, from: u64) -> Result<LockGuard, FileError> {
        let file = self.file;
        loop {
            let guard = file.locks.exclusive(from..u64::MAX, LockClass::Resize);
            if !file.shape.ordered_growth || file.size()? >= from {
                return Ok(guard);
            }
            // A gap is filled in objects that others may be writing to, before `from`.
            drop(guard);
            let _alone = file.locks.whole(LockClass::Resize);
            if file.size()? < from {
                super::size::reach(file, from)?;
            }
        }
    }

    /// A place in an order of all files of the process, equal for all opens of one file.
    pub(crate) fn lock_order(self) -> usize {
        self.file.locks.address()
    }

    /// Requests of `block` bytes to keep in flight: `depth`, and where the file is striped, as many as keep all of its
    /// targets busy, as far as `most` bytes go.
    pub(crate) fn depth_over(self, depth: usize, block: usize, most: usize) -> usize {
        depth_over(self.file.shape.objects, depth, block, most)
    }

    /// A driver for `depth` requests in flight; for the parts of each, where the file is striped.
    pub(crate) fn driver(self, depth: usize) -> Driver {
        self.file.io.driver(self.operations(depth))
    }

    /// Grows an idle `driver` so that `depth` requests to this file fit, however many parts each is split into. `alone`
    /// says that only the calling thread uses it.
    pub(crate) fn grow(self, driver: &mut Driver, depth: usize, alone: bool) {
        let wanted = self.operations(depth);
        if wanted > driver.depth() && self.file.shape.is_striped() {
            driver.replace(self.file.io.engine(wanted, alone));
        }
    }

    /// Operations that `depth` requests can be.
    fn operations(self, depth: usize) -> usize {
        match self.file.shape.objects {
            1 => depth,
            objects => depth.saturating_mul(objects).min(PARTS_MAX).max(depth),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    use rustix::io::Errno;

    use super::*;
    use crate::engine::OsMedium;
    use crate::file::body::{Body, Single};
    use crate::file::residue::Residue;
    use crate::lock::LockPolicy;
    use crate::queue::Queue;
    use crate::{Io, Limits, Mode, Need, OpenOptions};

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
        let residue = Residue::new(false);
        file.body = Body::Single(Single { medium: medium.clone(), os: Some(medium), refusal: None, residue });
        (file, plain.into())
    }

    fn default_engine() -> Io {
        Io::new(Limits::default()).unwrap()
    }

    fn queue_all(io: &Io, file: &Arc<File>, kind: OpKind) -> Vec<Result<usize, FileError>> {
        let mut queue = Queue::new(io, BLOCK, BLOCKS as usize).unwrap();
        for at in 0..BLOCKS {
            let block = queue.block().unwrap();
            match kind {
                OpKind::Read => queue.read(file, block, at * BLOCK as u64, BLOCK, at).unwrap(),
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
        let writing = range.lock(OpKind::Write, 0..512);
        assert!(whole.try_lock(OpKind::Read, 8192..12288).is_none());
        assert!(range.try_lock(OpKind::Read, 8192..12288).is_some());
        drop(writing);
        let writing = whole.lock(OpKind::Write, 0..512);
        assert!(range.try_lock(OpKind::Read, 8192..12288).is_none());
        drop(writing);
        assert_eq!(range.lock_stats().get(LockClass::Write).acquisitions, 2);
    }

    #[test]
    fn a_write_through_the_cache_keeps_direct_ones_out_of_its_pages() {
        let page = rustix::param::page_size() as u64;
        for cached in [Mode::Cached, Mode::Uncached] {
            let [direct, cached] = opens([(Mode::Direct, LockPolicy::Range), (cached, LockPolicy::Range)]);
            let writing = direct.lock(OpKind::Write, 0..512);
            assert!(cached.try_lock(OpKind::Write, page - 1..page).is_none());
            assert!(cached.try_lock(OpKind::Write, page..page + 1).is_some());
            assert!(cached.try_lock(OpKind::Read, 0..page).is_some());
            drop(writing);
            let _writing = cached.lock(OpKind::Write, 600..700);
            assert!(direct.try_lock(OpKind::Write, 0..512).is_none());
            assert!(direct.try_lock(OpKind::Write, page..page + 512).is_some());
        }
    }

    #[test]
    fn a_queue_sees_that_direct_is_not_direct() {
        let io = default_engine();
        for kind in [OpKind::Read, OpKind::Write] {
            let (file, plain) = file_of_a_liar(&io, Need::Preferred);
            let file = Arc::new(file);
            queue_all(&io, &file, kind).into_iter().for_each(|outcome| assert_eq!(outcome.unwrap(), BLOCK));
            let (class, _) = if kind == OpKind::Read { file.read_class() } else { file.write_class() };
            assert_eq!(class, crate::file::Class::Uncached, "{kind:?}");
            file.settle().unwrap();
            assert_eq!(crate::residency::resident_pages(&plain).unwrap(), 0, "{kind:?}");
        }
    }

    #[test]
    fn a_queue_fails_where_direct_is_required() {
        let io = default_engine();
        for kind in [OpKind::Read, OpKind::Write] {
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
