//! Requests of whole aligned blocks, for the copy loop, streams and queues. These run their own
//! [`Driver`]; this module applies the file's rules to their requests (route, counters, latch, page
//! cache).

use std::ops::Range;

use super::counters::{Class, Reason};
use super::error::FileError;
use super::handle::File;
use super::routing::Routing;
use crate::block::Mem;
use crate::drive::{Driver, Finished, Request};
use crate::engine::{OpKind, Route};
use crate::geometry::align_up;
use crate::layout::depth_over;
use crate::lock::{LockClass, LockGuard};

/// Most parts of requests to a striped file that are in flight at a time.
const PARTS_MAX: usize = 256;

/// A file as a sequence of aligned blocks. Its callers take the locks themselves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockIo<'a> {
    file: &'a File,
}

impl<'a> BlockIo<'a> {
    pub(super) fn new(file: &'a File) -> BlockIo<'a> {
        BlockIo { file }
    }

    /// Alignment of the offsets and lengths of blocks, in bytes, for reading and for writing.
    pub(crate) fn align(self) -> u64 {
        let route = self.file.default_routing().route;
        let align = |kind| self.file.align(route, kind).offset;
        align(OpKind::Read).max(align(OpKind::Write))
    }

    /// `len` rounded up to whole blocks.
    pub(crate) fn round_up(self, len: u64) -> u64 {
        align_up(len, self.align())
    }

    /// Makes a request for a block. The caller must pass the finished request to
    /// [`BlockIo::finish`].
    pub(crate) fn request(self, kind: OpKind, offset: u64, mem: Mem, tag: u64) -> Request {
        let routing = self.file.default_routing();
        let resident_before =
            self.file.before_request(kind, routing, &(offset..offset + mem.len() as u64));
        self.file.count_requests(kind, 1);
        let mut request = self.file.request(kind, routing, offset, Some(mem));
        (request.cache.resident_before, request.tag) = (resident_before, tag);
        request
    }

    /// Counts a finished request. If `RWF_DONTCACHE` was refused, first runs it again without.
    pub(crate) fn finish(self, finished: Finished) -> (Finished, Result<usize, FileError>) {
        self.finish_as(finished, None)
    }

    /// As [`BlockIo::finish`]. If the bytes were copied between a block and the caller's memory,
    /// `bounced` says why, and which part of the request, in bytes from its start, is the caller's.
    pub(crate) fn finish_as(
        self,
        finished: Finished,
        bounced: Option<(Reason, Range<usize>)>,
    ) -> (Finished, Result<usize, FileError>) {
        let file = self.file;
        let finished = file.without_dontcache(finished);
        let kind = finished.request.kind;
        let outcome = match (kind, finished.outcome) {
            (_, Ok(count)) => {
                let (class, reason) = file.backing.class(file.access.mode, kind);
                let (bytes, how) = match bounced {
                    Some((_, part)) if class != Class::Direct => {
                        (count.clamp(part.start, part.end) - part.start, (class, reason))
                    }
                    Some((why, part)) => (
                        count.clamp(part.start, part.end) - part.start,
                        (Class::Bounced, Some(why)),
                    ),
                    None => (count, (class, reason)),
                };
                file.meter.count(kind, bytes as u64, how);
                self.after(&finished, count as u64).map(|()| count)
            }
            (OpKind::Read, Err(_)) => super::read::outcome(file, &finished),
            (_, Err(_)) => super::write::outcome(file, &finished).map(|()| 0),
        };
        (finished, outcome)
    }

    fn after(self, finished: &Finished, count: u64) -> Result<(), FileError> {
        let request = &finished.request;
        let range = request.offset..request.offset + request.len() as u64;
        let routing = Routing::of_request(request, self.file.is_cached());
        self.file.after_request(request.kind, routing, &range, request.cache.resident_before, count)
    }

    /// Makes the part of a request to a striped file that goes to this object.
    pub(crate) fn part_request(
        self,
        striped_request: &Request,
        offset: u64,
        mem: Option<Mem>,
    ) -> Request {
        let file = self.file;
        let route = if striped_request.route == Route::Direct {
            file.default_routing().route
        } else {
            Route::Buffered
        };
        let routing =
            Routing::new(route, file.is_cached()).with_kept_pages(striped_request.cache.keep_pages);
        let resident_before = mem.as_ref().and_then(|mem| {
            let range = offset..offset + mem.len() as u64;
            let resident_before = file.before_request(striped_request.kind, routing, &range);
            file.count_requests(striped_request.kind, 1);
            resident_before
        });
        let mut request = file.request(striped_request.kind, routing, offset, mem);
        request.flags.dsync = striped_request.flags.dsync;
        request.cache.resident_before = resident_before;
        request
    }

    /// Records what concerns this object alone: what passed through the page cache, and whether it
    /// should have. The striped file counts the bytes.
    pub(crate) fn finish_part(self, finished: Finished) -> Finished {
        let finished = self.file.without_dontcache(finished);
        let (Ok(count), false) = (finished.outcome, finished.request.is_empty()) else {
            return finished;
        };
        match self.after(&finished, count as u64) {
            Ok(()) => finished,
            // None of the bytes is certain, so the error lies at the first byte. Behind the last
            // one it would concern nothing.
            Err(error) => Finished { outcome: Err(error.errno()), done: 0, ..finished },
        }
    }

    /// Keeps resizes and misaligned writes out while blocks are in flight.
    pub(crate) fn lock(self, kind: OpKind) -> Option<LockGuard> {
        self.file.locks.shared_whole(kind)
    }

    /// Takes the lock of a request within the file's present size, for a thread that has requests
    /// of its own in flight, some of which `finish_some` finishes: see [`FileLocks::lock_beside`].
    ///
    /// [`FileLocks::lock_beside`]: super::locking::FileLocks::lock_beside
    ///
    /// # Errors
    /// Those of `finish_some`.
    pub(crate) fn lock_beside<E>(
        self,
        kind: OpKind,
        range: Range<u64>,
        finish_some: impl FnMut() -> Result<bool, E>,
    ) -> Result<Option<LockGuard>, E> {
        self.file.locks.lock_beside(None, kind, range, finish_some)
    }

    /// Takes the lock for a block at `from` that makes the file longer. It keeps out reads and
    /// writes at `from` or behind it, changes of the size, and writes of parts of blocks.
    ///
    /// # Errors
    /// Those of extending the file to `from`, if a gap before it has to be filled.
    pub(crate) fn lock_extension(self, from: u64) -> Result<LockGuard, FileError> {
        let file = self.file;
        loop {
            let guard = file.locks.exclusive(from..u64::MAX, LockClass::Resize);
            if !file.traits.ordered_growth || file.size()? >= from {
                return Ok(guard);
            }
            // Filling the gap writes to objects before `from`, where others may be writing.
            drop(guard);
            let _alone = file.locks.whole(LockClass::Resize);
            if file.size()? < from {
                super::size::extend_to(file, from)?;
            }
        }
    }

    /// A number that orders all files of the process. All opens of one file have the same.
    pub(crate) fn lock_order(self) -> usize {
        self.file.locks.address()
    }

    /// Requests of `block` bytes to keep in flight: `depth`, or for a striped file as many more as
    /// keep all objects busy within `bytes_max` bytes.
    pub(crate) fn depth_for_objects(self, depth: usize, block: usize, bytes_max: usize) -> usize {
        depth_over(self.file.traits.objects, depth, block, bytes_max)
    }

    /// A driver for `depth` requests in flight, with all of their parts if the file is striped.
    pub(crate) fn driver(self, depth: usize) -> Driver {
        self.file.io.driver(self.operations_max(depth))
    }

    /// Grows an idle `driver` so that `depth` requests to this file fit, however many parts each is
    /// split into. `alone` says that only the calling thread uses it.
    pub(crate) fn grow_driver(self, driver: &mut Driver, depth: usize, alone: bool) {
        let wanted = self.operations_max(depth);
        if wanted > driver.depth() && self.file.traits.is_striped() {
            driver.replace(self.file.io.engine(wanted, alone));
        }
    }

    /// Most operations that `depth` requests can become.
    fn operations_max(self, depth: usize) -> usize {
        match self.file.traits.objects {
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
    use crate::file::backing::SingleFile;
    use crate::file::handle::Backing;
    use crate::file::residue::Residue;
    use crate::lock::LockPolicy;
    use crate::queue::Queue;
    use crate::{Io, Limits, Mode, Need, OpenOptions};

    const BLOCK: usize = 64 << 10;
    const BLOCKS: u64 = 8;

    /// An uncached file whose direct I/O the kernel buffers without reporting it, as on btrfs.
    fn file_with_hidden_buffering(io: &Io, need: Need) -> (File, OwnedFd) {
        let plain = tempfile::tempfile_in("/var/tmp").unwrap();
        std::os::unix::fs::FileExt::write_all_at(&plain, &vec![7; BLOCK * BLOCKS as usize], 0)
            .unwrap();
        plain.sync_all().unwrap();
        crate::residency::evict(&plain, 0..BLOCK as u64 * BLOCKS).unwrap();
        let duplicate = || OwnedFd::from(plain.try_clone().unwrap());
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).need(need).io(io).adopt(duplicate(), "liar").unwrap();
        let medium = Arc::new(OsMedium::both(duplicate(), duplicate()));
        medium.no_read_ahead();
        let residue = Residue::new(false);
        file.backing = Backing::Single(SingleFile {
            medium: medium.clone(),
            os: Some(medium),
            refusal: None,
            residue,
        });
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

    /// Opens one file several times, with different modes and policies.
    fn opens<const N: usize>(how: [(Mode, LockPolicy); N]) -> [File; N] {
        let plain = tempfile::tempfile_in("/var/tmp").unwrap();
        how.map(|(mode, policy)| {
            let fd = OwnedFd::from(plain.try_clone().unwrap());
            let mut options = OpenOptions::new();
            options
                .read(true)
                .write(true)
                .mode(mode)
                .lock_policy(policy)
                .adopt(fd, "plain")
                .unwrap()
        })
    }

    #[test]
    fn opens_of_different_policies_exclude_each_other() {
        let [range, whole] =
            opens([(Mode::Direct, LockPolicy::Range), (Mode::Direct, LockPolicy::WholeFile)]);
        let writing = range.locks.lock(OpKind::Write, 0..512);
        assert!(whole.locks.try_lock(OpKind::Read, 8192..12288).is_none());
        assert!(range.locks.try_lock(OpKind::Read, 8192..12288).is_some());
        drop(writing);
        let writing = whole.locks.lock(OpKind::Write, 0..512);
        assert!(range.locks.try_lock(OpKind::Read, 8192..12288).is_none());
        drop(writing);
        assert_eq!(range.lock_stats().get(LockClass::Write).acquisitions, 2);
    }

    #[test]
    fn a_write_through_the_cache_keeps_direct_ones_out_of_its_pages() {
        let page = rustix::param::page_size() as u64;
        for cached in [Mode::Cached, Mode::Uncached] {
            let [direct, cached] =
                opens([(Mode::Direct, LockPolicy::Range), (cached, LockPolicy::Range)]);
            let writing = direct.locks.lock(OpKind::Write, 0..512);
            assert!(cached.locks.try_lock(OpKind::Write, page - 1..page).is_none());
            assert!(cached.locks.try_lock(OpKind::Write, page..page + 1).is_some());
            assert!(cached.locks.try_lock(OpKind::Read, 0..page).is_some());
            drop(writing);
            let _writing = cached.locks.lock(OpKind::Write, 600..700);
            assert!(direct.locks.try_lock(OpKind::Write, 0..512).is_none());
            assert!(direct.locks.try_lock(OpKind::Write, page..page + 512).is_some());
        }
    }

    #[test]
    fn a_queue_sees_that_direct_is_not_direct() {
        let io = default_engine();
        for kind in [OpKind::Read, OpKind::Write] {
            let (file, plain) = file_with_hidden_buffering(&io, Need::Preferred);
            let file = Arc::new(file);
            queue_all(&io, &file, kind)
                .into_iter()
                .for_each(|outcome| assert_eq!(outcome.unwrap(), BLOCK));
            let (class, _) =
                if kind == OpKind::Read { file.read_class() } else { file.write_class() };
            assert_eq!(class, crate::file::Class::Uncached, "{kind:?}");
            file.settle().unwrap();
            assert_eq!(crate::residency::resident_pages(&plain).unwrap(), 0, "{kind:?}");
        }
    }

    #[test]
    fn a_queue_fails_where_direct_is_required() {
        let io = default_engine();
        for kind in [OpKind::Read, OpKind::Write] {
            let (file, _plain) = file_with_hidden_buffering(&io, Need::Required);
            let outcomes = queue_all(&io, &Arc::new(file), kind);
            assert!(
                outcomes.iter().any(
                    |outcome| matches!(outcome, Err(error) if error.errno() == Errno::OPNOTSUPP)
                )
            );
        }
    }

    #[test]
    fn a_stream_sees_that_direct_is_not_direct() {
        let io = default_engine();
        let (file, plain) = file_with_hidden_buffering(&io, Need::Preferred);
        let mut reader = crate::stream::Reader::new(file).unwrap();
        std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
        assert_eq!(reader.file().read_class().0, crate::file::Class::Uncached);
        drop(reader);
        assert_eq!(crate::residency::resident_pages(&plain).unwrap(), 0);
    }
}
