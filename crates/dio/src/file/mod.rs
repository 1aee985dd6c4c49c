//! Files: open modes, locks, reads and writes at any offset, length and address, resize, sync, and
//! counters.
//!
//! ```no_run
//! use dio::{File, Mode, OpenOptions};
//! # fn main() -> Result<(), dio::FileError> {
//! let mut options = OpenOptions::new();
//! let file = options.read(true).write(true).create(true).mode(Mode::Direct).open("data")?;
//! file.write_at(b"any length, at any offset", 4097)?;
//! file.sync_data()?;
//! let mut word = [0; 3];
//! assert_eq!(file.read_at(&mut word, 4097)?, 3);
//! println!("{:?}", file.counters());
//! # Ok(())
//! # }
//! ```

mod append;
mod backing;
mod blocks;
pub(crate) mod byte_lock;
mod counters;
mod error;
mod flow;
pub(crate) mod held;
mod latch;
mod locking;
mod mode;
mod open;
mod read;
mod residue;
mod routing;
mod segments;
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
pub use counters::{BytesByClass, Class, Counters, Reason};
pub use error::{FileError, words, words_of};
pub use mode::{Mode, Need, SyncMethod};
pub use open::{DIRECT_FROM, OpenOptions};

pub(crate) use backing::StripedObjects;
pub(crate) use blocks::BlockIo;

use append::AppendState;
use backing::{Backing, BackingTraits};
use counters::Meter;
use latch::Latch;
use locking::FileLocks;
use routing::Routing;
use segments::RouteAlign;
use syncs::Syncs;

/// Largest block of a file system, in bytes, that zero-copy parts of requests are made to begin at.
const BLOCK_MAX: u64 = 64 << 10;

/// Most parts of requests to a striped file that are in flight at a time.
const PARTS_MAX: usize = 256;

/// The cure for a full target if some targets are devices.
const CURE_DEVICE: &str = "free space there, or move the file with 'dio stripe migrate' if that is a device";

/// An open file. All methods take `&self` and may be called from many threads.
///
/// A misaligned or extending write may pass through the page cache of the last block. These pages
/// are written back and dropped at the next sync and when the file is dropped. Nobody learns of an
/// error during the drop, so sync first.
///
/// The first write or sync error stays in force: every later write, resize and sync of the file
/// fails with it, since the kernel may have thrown away what it failed to write. Reads still work.
///
/// ```no_run
/// use dio::{File, OpenOptions};
///
/// let file = OpenOptions::new().read(true).write(true).create(true).open("data")?;
/// file.write_at(b"hello", 0)?;
/// file.sync_all()?;
/// let (class, reason) = file.write_class();
/// println!("writes are {} ({reason:?})", class.name());
///
/// let mut bytes = [0; 5];
/// File::open("data")?.read_exact_at(&mut bytes, 0)?;
/// # Ok::<(), dio::FileError>(())
/// ```
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    io: Io,
    geometry: Geometry,
    access: Access,
    backing: Backing,
    traits: BackingTraits,
    locks: FileLocks,
    meter: Meter,
    syncs: Syncs,
    appending: AppendState,
    latch: Latch,
}

/// How the file was opened.
#[derive(Clone, Copy, Debug)]
struct Access {
    mode: Mode,
    need: Need,
    /// Requests of fewer bytes pass through the page cache and stay there.
    direct_from: u64,
    writable: bool,
    /// Opened for appending only: no write names an offset.
    only_appends: bool,
    /// Each write is durable when it returns.
    durable: bool,
}

impl File {
    /// The name by which the file was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The mode in which the file was opened.
    pub fn mode(&self) -> Mode {
        self.access.mode
    }

    /// The alignments and sizes of the file.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The shared I/O that the file uses.
    pub fn io(&self) -> &Io {
        &self.io
    }

    /// The counters at this moment.
    pub fn counters(&self) -> Counters {
        let mut counters = self.meter.snapshot();
        counters.add(&self.backing.requests());
        counters
    }

    /// Lock waits by class, of all opens of this file in the process.
    pub fn lock_stats(&self) -> LockStats {
        self.locks.stats()
    }

    /// The file descriptor for questions to the system about the file; `None` for a simulated file.
    /// It must not be used for the bytes: those of a striped file lie elsewhere.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.backing.descriptor()
    }

    /// How the file is striped; `None` for an ordinary file.
    pub fn layout(&self) -> Option<&crate::layout::Layout> {
        self.backing.layout()
    }

    /// Whether the file is a block device, whose size is fixed.
    pub fn is_device(&self) -> bool {
        let stat = self.backing.os().and_then(|os| rustix::fs::fstat(os.any()).ok());
        stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice)
    }

    /// How reads travel now. If they do not go direct although the mode asks for it, also the
    /// reason.
    pub fn read_class(&self) -> (Class, Option<Reason>) {
        self.backing.class(self.access.mode, OpKind::Read)
    }

    /// How writes travel now. If they do not go direct although the mode asks for it, also the
    /// reason.
    pub fn write_class(&self) -> (Class, Option<Reason>) {
        self.backing.class(self.access.mode, OpKind::Write)
    }

    /// Reads into `buffer` from `offset`. Returns the bytes read, which are fewer than asked for
    /// only at the end of the file.
    ///
    /// # Errors
    /// The first error of any part of the request, with its offset.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, FileError> {
        read::read_at(self, buffer, offset)
    }

    /// Reads consecutive bytes of the file into several buffers in turn, as `preadv(2)` does, but
    /// without any rule of alignment.
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

    /// Writes all of `bytes` at `offset`, and extends the file if need be. They are durable after a
    /// sync, or at once with a sync method other than explicit.
    ///
    /// # Errors
    /// The first error of any part, with its offset; the contents of the range are undefined then.
    /// The error latches: see [`File`]. EFBIG and EBADF are found before anything is written and do
    /// not latch.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        self.write_vectored_at(&[IoSlice::new(bytes)], offset)
    }

    /// Writes several buffers in turn to consecutive bytes of the file, as `pwritev(2)` does, but
    /// without any rule of alignment.
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

    /// Appends all of `buffers`, one behind the other, wherever the file ends at that moment.
    /// Returns how most of the bytes travelled.
    ///
    /// The append overwrites nothing that other programs append. Their bytes do not come between
    /// those of one call, unless the kernel writes only a part of these at first, as it does when
    /// space runs out.
    ///
    /// Whole blocks go direct where the file ends with a block and the kernel keeps direct appends of
    /// several programs apart ([`FileSystem::keeps_direct_appends_apart`]). Other bytes go through
    /// the page cache and are dropped from it.
    ///
    /// [`FileSystem::keeps_direct_appends_apart`]:
    ///     crate::geometry::FileSystem::keeps_direct_appends_apart
    ///
    /// # Errors
    /// As [`File::write_at`]. EOPNOTSUPP for a striped file (see [`File::lock_end`]) and for a
    /// simulated one.
    pub fn append(&self, buffers: &[IoSlice<'_>]) -> Result<Class, FileError> {
        append::append(self, buffers)
    }

    /// Waits for the right to append to a striped file. A write to it names an offset, so of two
    /// programs that look for the end at the same time one would overwrite the other's bytes. A
    /// program that appends therefore takes this lock, asks for the size, writes there and drops
    /// the lock. `None` for other files, where the system finds the end (`O_APPEND`).
    ///
    /// # Errors
    /// EBADF for a file that is open for reading only; what `fcntl(2)` answers. If the file system
    /// of the last object has no such locks, only the threads that share this file exclude each
    /// other.
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

    /// Sets the size. A smaller size cuts the file off; a larger one adds a hole. Excludes every
    /// read and write of the file.
    ///
    /// # Errors
    /// What `ftruncate(2)` answers, or an earlier write error.
    pub fn set_size(&self, size: u64) -> Result<(), FileError> {
        size::set_size(self, size)
    }

    /// Cuts the file off behind `size` if it is longer. Of a striped file it also cuts off the
    /// bytes that some objects hold behind the end. Unlike [`File::set_size`] it works after an
    /// error too, which stays in force, so that bytes that could not be written need not remain as
    /// zeros.
    ///
    /// # Errors
    /// What `ftruncate(2)` answers.
    pub fn cut_off(&self, size: u64) -> Result<(), FileError> {
        size::cut_off(self, size)
    }

    /// Allocates blocks for a range, so that writing it cannot fail for lack of space. The size
    /// grows only if `extend` is set.
    ///
    /// # Errors
    /// What `fallocate(2)` answers: EINVAL for an empty range, EOPNOTSUPP where the file system
    /// cannot allocate, ENOSPC without space. Or an earlier write error.
    pub fn allocate(&self, range: Range<u64>, extend: bool) -> Result<(), FileError> {
        size::allocate(self, range, extend)
    }

    /// Turns a range into a hole that reads as zeros.
    ///
    /// # Errors
    /// What `fallocate(2)` answers: EINVAL for an empty range, EOPNOTSUPP where the file system
    /// cannot make holes. Or an earlier write error.
    pub fn punch(&self, range: Range<u64>) -> Result<(), FileError> {
        size::punch(self, range)
    }

    /// Makes written data durable, with the metadata needed to read it back (`fdatasync(2)`).
    ///
    /// # Errors
    /// The write or sync error, which stays in force: see [`File`].
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
        let lengths = self.backing.lengths_before_sync();
        {
            let _in_progress = self.syncs.begin();
            if !self.access.mode.wants_direct() || self.access.direct_from > 0 {
                self.backing.start_write_back();
            }
            let finished = self.io.run(self.request(kind, self.default_routing(), 0, None));
            finished.outcome.map_err(|errno| {
                // The offset of a failed sync identifies the object of a striped file.
                self.latch.set(self.failed("sync", errno).of(self.backing.holder(finished.request.offset)))
            })?;
        }
        self.syncs.wait_for_others();
        self.latch.check()?;
        self.settle_now()?;
        self.backing.record_durable(lengths.as_deref());
        Ok(())
    }

    /// Makes earlier writes durable if the sync method demands it of every write.
    pub(crate) fn sync_if_durable(&self) -> Result<(), FileError> {
        if self.access.durable { self.sync_all() } else { Ok(()) }
    }

    /// Writes back and drops the pages that this file brought into the page cache.
    ///
    /// # Errors
    /// An error of writing back, which latches, or an earlier one.
    pub fn settle(&self) -> Result<(), FileError> {
        self.latch.check()?;
        self.settle_now()
    }

    fn settle_now(&self) -> Result<(), FileError> {
        let _in_progress = self.syncs.begin();
        self.backing.settle(|errno, object| {
            let error = self.failed("write back", errno);
            self.latch.set(object.map_or(error.clone(), |object| error.by(object)))
        })
    }

    /// How many of the `len` bytes of an aligned request are in flight at once: all of them, unless
    /// it has more parts than an engine takes.
    pub fn in_flight_of(&self, len: u64) -> u64 {
        flow::in_flight_of(self, len)
    }

    /// Alignment of the offsets and lengths of blocks, in bytes, for reading and for writing.
    pub fn block_align(&self) -> u64 {
        self.block_io().align()
    }

    /// Requests of whole aligned blocks to this file, for callers that keep many in flight.
    pub(crate) fn block_io(&self) -> BlockIo<'_> {
        BlockIo::new(self)
    }

    /// The files that hold its bytes: the objects of a striped file, or the file itself.
    pub fn objects(&self) -> &[File] {
        self.backing.objects().unwrap_or(std::slice::from_ref(self))
    }

    /// The system's file that holds the bytes; `None` if there is none.
    pub(crate) fn os_medium(&self) -> Option<Arc<OsMedium>> {
        self.backing.os().cloned()
    }

    /// Sends requests, sizes and resizes through `medium`, which is the same file under its own
    /// rules.
    ///
    /// # Panics
    /// If the file is striped.
    pub(crate) fn ruled_by(&mut self, medium: Arc<dyn crate::engine::Medium>) {
        let Backing::Single(single) = &mut self.backing else { panic!("only an object has a medium of its own") };
        single.medium = medium;
    }

    /// Whether growing the file writes zeros. A caller that writes all of it should not grow it
    /// first.
    pub(crate) fn zeroes_growth(&self) -> bool {
        self.traits.zeroed_growth
    }

    /// The write or sync error in force.
    pub(crate) fn check_latch(&self) -> Result<(), FileError> {
        self.latch.check()
    }

    /// Takes the lock of a request within the file's present size.
    pub(crate) fn lock(&self, kind: OpKind, range: Range<u64>) -> Option<LockGuard> {
        self.locks.lock(kind, range)
    }

    /// As [`File::lock`], without waiting. The outer `None` means that it would have to wait.
    pub(crate) fn try_lock(&self, kind: OpKind, range: Range<u64>) -> Option<Option<LockGuard>> {
        self.locks.try_lock(kind, range)
    }

    // The rest of this block is shared by the modules of this folder: how a request travels, what
    // it demands, and what it leaves in the page cache.

    fn is_cached(&self) -> bool {
        self.access.mode == Mode::Cached
    }

    /// How requests travel unless they are small.
    fn default_routing(&self) -> Routing {
        let direct = self.access.mode.wants_direct() && !self.backing.is_refused();
        Routing::new(if direct { Route::Direct } else { Route::Buffered }, self.is_cached())
    }

    /// How a read or write of so many bytes travels.
    fn routing(&self, bytes: u64) -> Routing {
        if bytes < self.access.direct_from {
            Routing::new(Route::Buffered, self.is_cached()).with_kept_pages(true)
        } else {
            self.default_routing()
        }
    }

    fn align(&self, route: Route, kind: OpKind) -> RouteAlign {
        let offset = match (route, kind) {
            (Route::Buffered, _) => return RouteAlign::NONE,
            (Route::Direct, OpKind::Read) => self.geometry.read_offset_align(),
            (Route::Direct, _) => self.geometry.offset_align(),
        };
        // A file system may report a block of any size. Only a block of a usual size makes it worth
        // copying a little more.
        let block = self.geometry.block();
        let block = if block.is_power_of_two() && block <= BLOCK_MAX { block.max(offset) } else { offset };
        RouteAlign { offset, memory: self.geometry.mem_align(), block }
    }

    fn request(&self, kind: OpKind, routing: Routing, offset: u64, mem: Option<Mem>) -> Request {
        let single = self.backing.single();
        let dontcache = mem.is_some() && routing.route == Route::Buffered && routing.drop_pages;
        let flags =
            OpFlags { dsync: false, dontcache: dontcache && single.is_none_or(|single| single.residue.dontcache()) };
        let align = self.align(routing.route, kind).offset as usize;
        let cache = CacheNote { resident_before: None, keep_pages: routing.keep_pages };
        Request { kind, route: routing.route, flags, target: self.backing.target(), offset, mem, align, tag: 0, cache }
    }

    /// Records the resident pages before a request that may leave pages in the page cache. Returns
    /// the number of resident pages of the range while direct requests are on trial.
    fn before_request(&self, kind: OpKind, routing: Routing, range: &Range<u64>) -> Option<u64> {
        let single = self.backing.single()?;
        single.residue.before_request(single.os.as_ref()?, kind, routing, range)
    }

    /// Records after a request what passed through the page cache. Drops the pages when enough have
    /// gathered.
    fn after_request(
        &self,
        kind: OpKind,
        routing: Routing,
        range: &Range<u64>,
        pages: Option<u64>,
        count: u64,
    ) -> Result<(), FileError> {
        let Some(single) = self.backing.single() else { return Ok(()) };
        let Some(os) = &single.os else { return Ok(()) };
        if single.residue.after_request(os, kind, routing, range, pages, count) {
            self.settle()?;
        }
        self.refuse_buffered(kind)
    }

    /// The error of a file that must be direct and is known to be buffered.
    fn refuse_buffered(&self, kind: OpKind) -> Result<(), FileError> {
        let buffered = self.backing.single().is_some_and(|single| single.residue.trial(kind).is_buffered());
        if buffered && self.access.need == Need::Required {
            let operation = if kind == OpKind::Read { "read directly from" } else { "write directly to" };
            return Err(self.failed(operation, Errno::OPNOTSUPP).with_cure(open::CURE_BUFFERED));
        }
        Ok(())
    }

    /// If the kernel has no `RWF_DONTCACHE` for this file (EOPNOTSUPP, or EINVAL before 6.14), runs
    /// the request again without it. Later requests do without it too, and `settle` drops the
    /// pages.
    fn without_dontcache(&self, finished: Finished) -> Finished {
        let refused =
            matches!(finished.outcome, Err(Errno::OPNOTSUPP | Errno::INVAL)) && finished.request.flags.dontcache;
        let Some(single) = self.backing.single().filter(|_| refused) else { return finished };
        single.residue.no_dontcache();
        let mut request = finished.request;
        request.flags.dontcache = false;
        self.io.run(request)
    }

    /// Counts requests, unless the objects count them.
    fn count_requests(&self, kind: OpKind, count: u64) {
        if self.backing.counts_requests() {
            self.meter.count_requests(kind, count);
        }
    }

    fn failed(&self, operation: &'static str, errno: Errno) -> FileError {
        FileError::new(operation, &self.path, errno)
    }

    /// The error of a request at a byte of the file. For a striped file it names the object that
    /// holds the byte.
    fn failed_at(&self, operation: &'static str, errno: Errno, position: u64) -> FileError {
        self.with_device_cure(self.failed(operation, errno).of(self.backing.holder(position)).at(position))
    }

    /// The error of a call to the medium.
    fn refused(&self, operation: &'static str, error: &std::io::Error) -> FileError {
        self.with_device_cure(match error.get_ref().and_then(|inner| inner.downcast_ref::<FileError>()) {
            Some(inner) => self.failed(operation, inner.errno()).by(inner),
            None => self.failed(operation, raw(error)),
        })
    }

    fn with_device_cure(&self, error: FileError) -> FileError {
        if error.errno() == Errno::NOSPC && self.traits.zeroed_growth { error.with_cure(CURE_DEVICE) } else { error }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Nobody learns of an error here; the documentation of the type says to sync first.
        let _ = self.settle_now();
    }
}

fn raw(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
