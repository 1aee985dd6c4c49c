//! Files: open modes, locks, reads and writes at any offset, length and address, resize, sync, and counters.
//!
//! ```no_run
//! use dio::{File, Mode, OpenOptions};
//! # fn main() -> Result<(), dio::FileError> {
//! let file = OpenOptions::new().read(true).write(true).create(true).mode(Mode::Direct).open("data")?;
//! file.write_at(b"any length, at any offset", 4097)?;
//! file.sync_data()?;
//! let mut word = [0; 3];
//! assert_eq!(file.read_at(&mut word, 4097)?, 3);
//! println!("{:?}", file.counters());
//! # Ok(())
//! # }
//! ```

mod append;
mod blocks;
mod body;
pub(crate) mod byte_lock;
mod counters;
mod error;
mod flow;
pub(crate) mod held;
mod latch;
mod layout;
mod locking;
mod mode;
mod open;
mod read;
mod residue;
mod routing;
mod size;
mod syncs;
mod trial;
mod write;

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::block::Mem;
use crate::drive::{CacheNote, Finished, Request};
use crate::engine::{OpFlags, OpKind, OsMedium, Route};
use crate::geometry::Geometry;
use crate::io::Io;
use crate::lock::{LockGuard, LockStats};

pub use append::EndLock;
pub use counters::{ByClass, Class, Counters, Reason};
pub use error::{FileError, words, words_of};
pub use mode::{Mode, Need, SyncMethod};
pub use open::{DIRECT_FROM, OpenOptions};

pub(crate) use blocks::Blocks;
pub(crate) use body::Objects;

use append::Appending;
use body::{Body, Shape};
use counters::Meter;
use latch::Latch;
use layout::Align;
use locking::Locks;
use routing::Routing;
use syncs::Syncs;

/// Largest block of a file system that the straight parts of requests are made to begin at, in bytes.
const BLOCK_MAX: u64 = 64 << 10;

/// Parts of requests of a striped file that are in flight at a time, at most.
const PARTS_MAX: usize = 256;

/// What to do about a full target where some are devices.
const CURE_DEVICE: &str = "free space there, or move the file with 'dio stripe migrate' if that is a device";

/// An open file. All methods take `&self` and may be called from many threads.
///
/// A misaligned or extending write may pass through the page cache of the last block; it is written back and dropped
/// at the next sync and when the file is dropped, where an error has nobody to be told: sync first.
///
/// The first write or sync error stays in force: every later write, resize and sync of the file fails with it, since the
/// kernel may have thrown away what it failed to write. Reads still work.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    io: Io,
    geometry: Geometry,
    access: Access,
    body: Body,
    shape: Shape,
    locks: Locks,
    meter: Meter,
    syncs: Syncs,
    appending: Appending,
    latch: Latch,
}

/// What a file was opened for.
#[derive(Clone, Copy, Debug)]
struct Access {
    mode: Mode,
    need: Need,
    /// Requests of fewer bytes pass through the page cache and stay there.
    direct_from: u64,
    writable: bool,
    /// Opened for appending: no write names an offset.
    only_appends: bool,
    /// Each write is durable when it returns.
    durable: bool,
}

impl File {
    /// The name it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The mode it was opened in.
    pub fn mode(&self) -> Mode {
        self.access.mode
    }

    /// What the file demands and likes.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The shared I/O it uses.
    pub fn io(&self) -> &Io {
        &self.io
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        let mut reading = self.meter.reading();
        reading.add(&self.body.requests());
        reading
    }

    /// Lock waits by class, of all opens of this file in the process.
    pub fn lock_stats(&self) -> LockStats {
        self.locks.stats()
    }

    /// The descriptor to ask the system about the file; `None` for a simulated one. Not for its bytes: those of a striped
    /// file are elsewhere.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.body.descriptor()
    }

    /// How the file is striped, if it is.
    pub fn layout(&self) -> Option<&crate::layout::Layout> {
        self.body.layout()
    }

    /// Whether it is a block device, whose size is fixed.
    pub fn is_device(&self) -> bool {
        let stat = self.body.os().and_then(|os| rustix::fs::fstat(os.any()).ok());
        stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice)
    }

    /// How reads travel now and, if not directly although that was asked for, why.
    pub fn read_class(&self) -> (Class, Option<Reason>) {
        self.body.class(self.access.mode, OpKind::Read)
    }

    /// How writes travel now and, if not directly although that was asked for, why.
    pub fn write_class(&self) -> (Class, Option<Reason>) {
        self.body.class(self.access.mode, OpKind::Write)
    }

    /// Reads into `buffer` from `offset`; returns the bytes read, fewer than asked only at the end of the file.
    ///
    /// # Errors
    /// The first error of any part of the request, with its place.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, FileError> {
        read::read_at(self, buffer, offset)
    }

    /// Reads into several buffers in turn, from consecutive bytes of the file; as `preadv(2)`, under no alignment rule.
    ///
    /// # Errors
    /// As [`File::read_at`].
    pub fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize, FileError> {
        read::read_vectored_at(self, buffers, offset)
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// As [`File::read_at`]; ENODATA when the file ends before the buffer is full.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), FileError> {
        let count = self.read_at(buffer, offset)?;
        if count < buffer.len() {
            return Err(self.failed("read", Errno::NODATA).at(offset + count as u64));
        }
        Ok(())
    }

    /// Writes `bytes` at `offset`, all of them, extending the file if need be. Durable only after a sync, or with a
    /// sync method other than explicit.
    ///
    /// # Errors
    /// The first error of any part, with its place; what the range holds then is undefined. The error latches: see
    /// [`File`]. EFBIG and EBADF are found before anything is written and do not latch.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        self.write_vectored_at(&[IoSlice::new(bytes)], offset)
    }

    /// Writes several buffers in turn to consecutive bytes of the file; as `pwritev(2)`, under no alignment rule.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_vectored_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> Result<(), FileError> {
        write::write_vectored_at(self, buffers, offset)
    }

    /// As [`File::write_at`], for a caller that holds the lock of the file's blocks.
    pub(crate) fn write_unlocked(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        write::write_unlocked(self, bytes, offset)
    }

    /// Appends all of `buffers`, one behind the other, wherever the file ends at that moment. Nothing that other programs
    /// append is overwritten, and nothing of theirs comes between the bytes of one call, unless the kernel writes only a
    /// part of them at first, as it does when it runs out of space. Returns how most of the bytes travelled.
    ///
    /// Whole blocks go direct where the file ends with a block and the kernel keeps direct appends of several programs
    /// apart ([`FileSystem::keeps_direct_appends_apart`](crate::geometry::FileSystem::keeps_direct_appends_apart)); others
    /// go through the page cache, which drops them.
    ///
    /// # Errors
    /// As [`File::write_at`]. EOPNOTSUPP for a striped file, see [`File::lock_end`], and for a simulated one.
    pub fn append(&self, buffers: &[IoSlice<'_>]) -> Result<Class, FileError> {
        append::append(self, buffers)
    }

    /// Waits for the right to append to a striped file. Its bytes go where an offset says: of two that look for the end at
    /// the same time, the one would overwrite the other's. So whoever appends takes this, asks for the size, writes there
    /// and drops it. `None` for other files: of those the system finds the end (`O_APPEND`).
    ///
    /// # Errors
    /// EBADF for a file that is open for reading only; what `fcntl(2)` answers. Where the file system of the last object
    /// has no such locks, only the threads that share this file keep each other out.
    pub fn lock_end(&self) -> Result<Option<EndLock<'_>>, FileError> {
        append::lock_end(self)
    }

    /// Size in bytes.
    ///
    /// # Errors
    /// What `statx(2)` answers.
    pub fn size(&self) -> Result<u64, FileError> {
        size::size(self)
    }

    /// Sets the size: cuts off, or extends by a hole. Excludes every read and write of the file.
    ///
    /// # Errors
    /// What `ftruncate(2)` answers, or an earlier write error.
    pub fn set_size(&self, size: u64) -> Result<(), FileError> {
        size::set_size(self, size)
    }

    /// Cuts the file off behind `size`, if it is longer, and of a striped file what some objects hold behind its end.
    /// Unlike [`File::set_size`] it does so after an error too, which stays in force: what could not be written need not
    /// stay as zeros.
    ///
    /// # Errors
    /// What `ftruncate(2)` answers.
    pub fn cut_off(&self, size: u64) -> Result<(), FileError> {
        size::cut_off(self, size)
    }

    /// Allocates blocks for a range, so that writing it cannot fail for lack of space; `extend` lets the size grow.
    ///
    /// # Errors
    /// What `fallocate(2)` answers: EINVAL for an empty range, EOPNOTSUPP where the file system cannot, ENOSPC without
    /// space; or an earlier write error.
    pub fn allocate(&self, range: Range<u64>, extend: bool) -> Result<(), FileError> {
        size::allocate(self, range, extend)
    }

    /// Turns a range into a hole that reads as zeros.
    ///
    /// # Errors
    /// What `fallocate(2)` answers: EINVAL for an empty range, EOPNOTSUPP where the file system cannot; or an earlier
    /// write error.
    pub fn punch(&self, range: Range<u64>) -> Result<(), FileError> {
        size::punch(self, range)
    }

    /// Makes written data durable, with the metadata needed to read it back (`fdatasync(2)`).
    ///
    /// # Errors
    /// The write or sync error, now and from now on: see [`File`].
    pub fn sync_data(&self) -> Result<(), FileError> {
        self.sync(OpKind::SyncData)
    }

    /// Makes data and all metadata durable (`fsync(2)`).
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_all(&self) -> Result<(), FileError> {
        self.sync(OpKind::SyncAll)
    }

    fn sync(&self, kind: OpKind) -> Result<(), FileError> {
        self.latch.check()?;
        self.meter.syncs.fetch_add(1, Ordering::Relaxed);
        let lengths = self.body.lengths_to_note();
        {
            let _under_way = self.syncs.begin();
            if !self.access.mode.wants_direct() || self.access.direct_from > 0 {
                self.body.start_write_back();
            }
            let over = self.io.run(self.request(kind, self.usual(), 0, None));
            over.outcome.map_err(|errno| {
                // The place of a failed sync says which object of a striped file it was.
                self.latch.set(self.failed("sync", errno).of(self.body.holder(over.request.offset)))
            })?;
        }
        self.syncs.wait_for_others();
        self.latch.check()?;
        self.settle_now()?;
        self.body.note_durable(lengths.as_deref());
        Ok(())
    }

    /// Makes what was done durable where every write is to be.
    pub(crate) fn sync_if_durable(&self) -> Result<(), FileError> {
        if self.access.durable { self.sync_all() } else { Ok(()) }
    }

    /// Writes back and drops what passed through the page cache and was not there before.
    ///
    /// # Errors
    /// An error of writing back, which latches, or an earlier one.
    pub fn settle(&self) -> Result<(), FileError> {
        self.latch.check()?;
        self.settle_now()
    }

    fn settle_now(&self) -> Result<(), FileError> {
        let _under_way = self.syncs.begin();
        self.body.settle(|errno, object| {
            let error = self.failed("write back", errno);
            self.latch.set(object.map_or(error.clone(), |object| error.by(object)))
        })
    }

    /// Bytes of an aligned request of so many bytes that are under way at once: all of it, unless it has more parts than
    /// an engine takes at a time.
    pub fn in_flight_of(&self, len: u64) -> u64 {
        flow::in_flight_of(self, len)
    }

    /// Multiple of bytes that offsets and lengths of blocks must have, for reading and for writing.
    pub fn block_align(&self) -> u64 {
        self.blocks().align()
    }

    /// The file as users that have whole aligned blocks in flight see it.
    pub(crate) fn blocks(&self) -> Blocks<'_> {
        Blocks::of(self)
    }

    /// The files that hold its bytes: the objects of a striped file, or the file itself.
    pub fn objects(&self) -> &[File] {
        self.body.objects().unwrap_or(std::slice::from_ref(self))
    }

    /// The system's file with the bytes, if there is one.
    pub(crate) fn os_medium(&self) -> Option<Arc<OsMedium>> {
        self.body.os().cloned()
    }

    /// Has requests, sizes and resizes go by `medium`, which is the same file under rules of its own.
    ///
    /// # Panics
    /// If the file is striped.
    pub(crate) fn ruled_by(&mut self, medium: Arc<dyn crate::engine::Medium>) {
        let Body::Single(single) = &mut self.body else { panic!("only an object has a medium of its own") };
        single.medium = medium;
    }

    /// Whether making it longer writes zeros: what writes all of it should do without.
    pub(crate) fn zeroes_growth(&self) -> bool {
        self.shape.zeroed_growth
    }

    /// The error in force, if a write or sync has failed.
    pub(crate) fn check_latch(&self) -> Result<(), FileError> {
        self.latch.check()
    }

    /// The lock of a request within the file's present size.
    pub(crate) fn lock(&self, kind: OpKind, range: Range<u64>) -> Option<LockGuard> {
        self.locks.lock(kind, range)
    }

    /// As [`File::lock`], without waiting: the outer `None` says that it would have to.
    pub(crate) fn try_lock(&self, kind: OpKind, range: Range<u64>) -> Option<Option<LockGuard>> {
        self.locks.try_lock(kind, range)
    }

    // What the modules of this folder share: how a request travels, what it demands, and what it leaves behind.

    fn is_cached(&self) -> bool {
        self.access.mode == Mode::Cached
    }

    /// How requests travel usually.
    fn usual(&self) -> Routing {
        let direct = self.access.mode.wants_direct() && !self.body.is_refused();
        Routing::by(if direct { Route::Direct } else { Route::Buffered }, self.is_cached())
    }

    /// How a read or write of so many bytes travels.
    fn routing(&self, bytes: u64) -> Routing {
        if bytes < self.access.direct_from {
            Routing::by(Route::Buffered, self.is_cached()).keeping(true)
        } else {
            self.usual()
        }
    }

    fn align(&self, route: Route, kind: OpKind) -> Align {
        let offset = match (route, kind) {
            (Route::Buffered, _) => return Align::NONE,
            (Route::Direct, OpKind::Read) => self.geometry.read_offset_align(),
            (Route::Direct, _) => self.geometry.offset_align(),
        };
        // The block of a file system may be anything; only of one that is a usual size is there something to gain.
        let block = self.geometry.block();
        let block = if block.is_power_of_two() && block <= BLOCK_MAX { block.max(offset) } else { offset };
        Align { offset, memory: self.geometry.mem_align(), block }
    }

    fn request(&self, kind: OpKind, routing: Routing, offset: u64, mem: Option<Mem>) -> Request {
        let single = self.body.single();
        let dontcache = mem.is_some() && routing.route == Route::Buffered && routing.forget;
        let flags =
            OpFlags { dsync: false, dontcache: dontcache && single.is_none_or(|single| single.residue.dontcache()) };
        let align = self.align(routing.route, kind).offset as usize;
        let cache = CacheNote { resident_before: None, keep_pages: routing.keep };
        Request { kind, route: routing.route, flags, target: self.body.target(), offset, mem, align, tag: 0, cache }
    }

    /// Before a read or write that may leave pages in the cache: notes what is there. Returns the pages of the range where
    /// direct requests are on trial.
    fn before_request(&self, kind: OpKind, routing: Routing, range: &Range<u64>) -> Option<u64> {
        let single = self.body.single()?;
        single.residue.before(single.os.as_ref()?, kind, routing, range)
    }

    /// After it: what passed through the cache is noted, and dropped when enough has gathered.
    fn after_request(
        &self,
        kind: OpKind,
        routing: Routing,
        range: &Range<u64>,
        pages: Option<u64>,
        count: u64,
    ) -> Result<(), FileError> {
        let Some(single) = self.body.single() else { return Ok(()) };
        let Some(os) = &single.os else { return Ok(()) };
        if single.residue.after(os, kind, routing, range, pages, count) {
            self.settle()?;
        }
        self.refuse_buffered(kind)
    }

    /// The error of a file that was to be direct and is known not to be.
    fn refuse_buffered(&self, kind: OpKind) -> Result<(), FileError> {
        let buffered = self.body.single().is_some_and(|single| single.residue.trial(kind).is_buffered());
        if buffered && self.access.need == Need::Required {
            let operation = if kind == OpKind::Read { "read directly from" } else { "write directly to" };
            return Err(self.failed(operation, Errno::OPNOTSUPP).with_cure(open::CURE_BUFFERED));
        }
        Ok(())
    }

    /// Where the kernel has no `RWF_DONTCACHE` for this file (EOPNOTSUPP, or EINVAL before 6.14), the request is run
    /// again without, now and from now on: `settle` drops the pages instead.
    fn without_dontcache(&self, over: Finished) -> Finished {
        let refused = matches!(over.outcome, Err(Errno::OPNOTSUPP | Errno::INVAL)) && over.request.flags.dontcache;
        let Some(single) = self.body.single().filter(|_| refused) else { return over };
        single.residue.no_dontcache();
        let mut request = over.request;
        request.flags.dontcache = false;
        self.io.run(request)
    }

    /// Counts requests, unless the objects count theirs.
    fn count_requests(&self, kind: OpKind, count: u64) {
        if self.body.counts_requests() {
            self.meter.count_requests(kind, count);
        }
    }

    fn failed(&self, operation: &'static str, errno: Errno) -> FileError {
        FileError::new(operation, &self.path, errno)
    }

    /// The error of a request at a place; of a striped file, with the object that holds it.
    fn failed_at(&self, operation: &'static str, errno: Errno, position: u64) -> FileError {
        self.with_device_cure(self.failed(operation, errno).of(self.body.holder(position)).at(position))
    }

    /// The error of a call of the medium.
    fn refused(&self, operation: &'static str, error: &std::io::Error) -> FileError {
        self.with_device_cure(match error.get_ref().and_then(|inner| inner.downcast_ref::<FileError>()) {
            Some(inner) => self.failed(operation, inner.errno()).by(inner),
            None => self.failed(operation, raw(error)),
        })
    }

    fn with_device_cure(&self, error: FileError) -> FileError {
        if error.errno() == Errno::NOSPC && self.shape.zeroed_growth { error.with_cure(CURE_DEVICE) } else { error }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Nobody is left to be told of an error; the type's documentation says to sync first.
        let _ = self.settle_now();
    }
}

fn raw(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
