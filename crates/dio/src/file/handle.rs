//! An open file, and what holds its bytes: one medium, or the objects of a striped file, which are
//! files themselves. Every operation on a file begins here: how a request travels, what it demands,
//! and what it leaves in the page cache.
//!
//! Of this layer, this module alone tells the two kinds of backing apart. The other modules learn
//! what they need from [`BackingTraits`].

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::append_state::AppendState;
use super::backing::{BackingTraits, SingleFile};
use super::counters::{Class, Counters, Meter, Reason};
use super::error::{FileError, errno_of};
use super::latch::Latch;
use super::locking::FileLocks;
use super::mode::{Access, Mode, Need};
use super::routing::Routing;
use super::segments::RouteAlign;
use super::syncs::Syncs;
use crate::block::Mem;
use crate::drive::{CacheNote, Finished, Request, RequestTarget, StripedMedium};
use crate::engine::{Medium, OpFlags, OpKind, OsMedium, Route};
use crate::geometry::Geometry;
use crate::io::Io;
use crate::layout::Layout;

/// Largest block of a file system, in bytes, that zero-copy parts of requests are made to begin at.
const BLOCK_MAX: u64 = 64 << 10;

/// The cure where direct writes pass through the page cache.
pub(super) const CURE_BUFFERED: &str = "the file system buffers direct I/O; allow uncached I/O";

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
    pub(super) path: PathBuf,
    pub(super) io: Io,
    pub(super) geometry: Geometry,
    pub(super) access: Access,
    pub(super) backing: Backing,
    pub(super) traits: BackingTraits,
    pub(super) locks: FileLocks,
    pub(super) meter: Meter,
    pub(super) syncs: Syncs,
    pub(super) appending: AppendState,
    pub(super) latch: Latch,
}

impl File {
    pub(super) fn sync(&self, kind: OpKind) -> Result<(), FileError> {
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
                self.latch.set(
                    self.failed("sync", errno).of(self.backing.holder(finished.request.offset)),
                )
            })?;
        }
        self.syncs.wait_for_others();
        self.latch.check()?;
        self.settle_now()?;
        self.backing.record_durable(lengths.as_deref());
        Ok(())
    }

    /// Writes back and drops the pages that this file brought into the page cache.
    ///
    /// # Errors
    /// An error of writing back, which latches, or an earlier one.
    pub fn settle(&self) -> Result<(), FileError> {
        self.latch.check()?;
        self.settle_now()
    }

    pub(super) fn settle_now(&self) -> Result<(), FileError> {
        let _in_progress = self.syncs.begin();
        self.backing.settle(|errno, object| {
            let error = self.failed("write back", errno);
            self.latch.set(object.map_or(error.clone(), |object| error.by(object)))
        })
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
        let Backing::Single(single) = &mut self.backing else {
            panic!("only an object has a medium of its own")
        };
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

    pub(super) fn is_cached(&self) -> bool {
        self.access.mode == Mode::Cached
    }

    /// How requests travel unless they are small.
    pub(super) fn default_routing(&self) -> Routing {
        let direct = self.access.mode.wants_direct() && !self.backing.is_refused();
        Routing::new(if direct { Route::Direct } else { Route::Buffered }, self.is_cached())
    }

    /// How a read or write of so many bytes travels.
    pub(super) fn routing(&self, bytes: u64) -> Routing {
        if bytes < self.access.direct_from {
            Routing::new(Route::Buffered, self.is_cached()).with_kept_pages(true)
        } else {
            self.default_routing()
        }
    }

    pub(super) fn align(&self, route: Route, kind: OpKind) -> RouteAlign {
        let offset = match (route, kind) {
            (Route::Buffered, _) => return RouteAlign::NONE,
            (Route::Direct, OpKind::Read) => self.geometry.read_offset_align(),
            (Route::Direct, _) => self.geometry.offset_align(),
        };
        // A file system may report a block of any size. Only a block of a usual size makes it worth
        // copying a little more.
        let block = self.geometry.block();
        let block =
            if block.is_power_of_two() && block <= BLOCK_MAX { block.max(offset) } else { offset };
        RouteAlign { offset, memory: self.geometry.mem_align(), block }
    }

    pub(super) fn request(
        &self,
        kind: OpKind,
        routing: Routing,
        offset: u64,
        mem: Option<Mem>,
    ) -> Request {
        let single = self.backing.single();
        let dontcache = mem.is_some() && routing.route == Route::Buffered && routing.drop_pages;
        let flags = OpFlags {
            dsync: false,
            dontcache: dontcache && single.is_none_or(|single| single.residue.dontcache()),
        };
        let align = self.align(routing.route, kind).offset as usize;
        let cache = CacheNote { resident_before: None, keep_pages: routing.keep_pages };
        Request {
            kind,
            route: routing.route,
            flags,
            target: self.backing.target(),
            offset,
            mem,
            align,
            tag: 0,
            cache,
        }
    }

    /// Records the resident pages before a request that may leave pages in the page cache. Returns
    /// the number of resident pages of the range while direct requests are on trial.
    pub(super) fn before_request(
        &self,
        kind: OpKind,
        routing: Routing,
        range: &Range<u64>,
    ) -> Option<u64> {
        let single = self.backing.single()?;
        single.residue.before_request(single.os.as_ref()?, kind, routing, range)
    }

    /// Records after a request what passed through the page cache. Drops the pages when enough have
    /// gathered.
    pub(super) fn after_request(
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
    pub(super) fn refuse_buffered(&self, kind: OpKind) -> Result<(), FileError> {
        let buffered =
            self.backing.single().is_some_and(|single| single.residue.trial(kind).is_buffered());
        if buffered && self.access.need == Need::Required {
            let operation =
                if kind == OpKind::Read { "read directly from" } else { "write directly to" };
            return Err(self.failed(operation, Errno::OPNOTSUPP).with_cure(CURE_BUFFERED));
        }
        Ok(())
    }

    /// If the kernel has no `RWF_DONTCACHE` for this file (EOPNOTSUPP, or EINVAL before 6.14), runs
    /// the request again without it. Later requests do without it too, and `settle` drops the
    /// pages.
    pub(super) fn without_dontcache(&self, finished: Finished) -> Finished {
        let refused = matches!(finished.outcome, Err(Errno::OPNOTSUPP | Errno::INVAL))
            && finished.request.flags.dontcache;
        let Some(single) = self.backing.single().filter(|_| refused) else { return finished };
        single.residue.no_dontcache();
        let mut request = finished.request;
        request.flags.dontcache = false;
        self.io.run(request)
    }

    /// Counts requests, unless the objects count them.
    pub(super) fn count_requests(&self, kind: OpKind, count: u64) {
        if self.backing.counts_requests() {
            self.meter.count_requests(kind, count);
        }
    }

    pub(super) fn failed(&self, operation: &'static str, errno: Errno) -> FileError {
        FileError::new(operation, &self.path, errno)
    }

    /// The error of a request at a byte of the file. For a striped file it names the object that
    /// holds the byte.
    pub(super) fn failed_at(
        &self,
        operation: &'static str,
        errno: Errno,
        position: u64,
    ) -> FileError {
        let error = self.failed(operation, errno);
        self.with_space_cure(error.of(self.backing.holder(position)).at(position))
    }

    /// The error of a call to the medium.
    pub(super) fn refused(&self, operation: &'static str, error: &std::io::Error) -> FileError {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<FileError>());
        self.with_space_cure(match inner {
            Some(inner) => self.failed(operation, inner.errno()).by(inner),
            None => self.failed(operation, errno_of(error)),
        })
    }

    pub(super) fn with_space_cure(&self, error: FileError) -> FileError {
        match self.traits.space_cure {
            Some(cure) if error.errno() == Errno::NOSPC => error.with_cure(cure),
            _ => error,
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Nobody learns of an error here; the documentation of the type says to sync first.
        let _ = self.settle_now();
    }
}

/// The objects of a striped file. Each is a [`File`], opened as the striped file is. The locks of a
/// request are those of the striped file; an object's own locks only protect its bookkeeping.
pub(crate) trait StripedObjects: StripedMedium {
    /// The objects, in the order of the layout.
    fn objects(&self) -> &[File];

    /// The file descriptor of the file that has the name; `None` for a file of the tests.
    fn named_file(&self) -> Option<BorrowedFd<'_>>;

    /// Whether growing writes zeros, as it does on block devices, which hold old bytes.
    fn zeroes_growth(&self) -> bool;

    /// The cure for a lack of space, if it is not the usual one.
    fn space_cure(&self) -> Option<&'static str>;

    /// Size in bytes.
    ///
    /// # Errors
    /// Those of the objects. Here and below, each error names its object.
    fn size(&self) -> io::Result<u64>;

    /// Sets the size. A smaller size cuts the file off; a larger one adds a hole.
    ///
    /// # Errors
    /// Those of the objects.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// As [`Medium::allocate`].
    ///
    /// # Errors
    /// Those of the objects.
    fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()>;

    /// As [`Medium::punch`].
    ///
    /// # Errors
    /// Those of the objects.
    fn punch(&self, range: Range<u64>) -> io::Result<()>;

    /// Extends the file by a hole to at least `size` bytes, because something is about to be
    /// written there. It never shortens the file. The caller keeps out all writes before `size`.
    ///
    /// # Errors
    /// Those of the objects.
    fn extend_to(&self, size: u64) -> io::Result<()>;

    /// Requests to the objects so far, apart from those that opened them.
    fn requests(&self) -> Counters;

    /// Whether some objects hold bytes behind the end of the file.
    ///
    /// # Errors
    /// Those of the objects.
    fn has_surplus(&self) -> io::Result<bool>;

    /// The lengths of the objects before a sync, if they are to be recorded as durable after it.
    fn lengths_before_sync(&self) -> Option<Vec<u64>>;

    /// Records after a sync that so much of each object is durable.
    fn record_durable(&self, lengths: &[u64]);
}

/// What holds the bytes of a file.
#[derive(Debug)]
pub(super) enum Backing {
    Single(SingleFile),
    Striped(Arc<dyn StripedObjects>),
}

impl Backing {
    pub(super) fn traits(&self) -> BackingTraits {
        match self {
            Backing::Single(_) => BackingTraits {
                objects: 1,
                stripe: u64::MAX,
                ordered_growth: false,
                zeroed_growth: false,
                space_cure: None,
            },
            Backing::Striped(striped) => BackingTraits {
                objects: striped.layout().objects(),
                stripe: striped.layout().stripe(),
                ordered_growth: true,
                zeroed_growth: striped.zeroes_growth(),
                space_cure: striped.space_cure(),
            },
        }
    }

    /// The target of requests to the file.
    pub(super) fn target(&self) -> RequestTarget {
        match self {
            Backing::Single(single) => RequestTarget::Medium(Arc::clone(&single.medium)),
            Backing::Striped(striped) => {
                RequestTarget::Striped(Arc::clone(striped) as Arc<dyn StripedMedium>)
            }
        }
    }

    pub(super) fn single(&self) -> Option<&SingleFile> {
        match self {
            Backing::Single(single) => Some(single),
            Backing::Striped(_) => None,
        }
    }

    /// The system's file that holds the bytes; `None` for a simulated and for a striped file.
    pub(super) fn os(&self) -> Option<&Arc<OsMedium>> {
        self.single().and_then(|single| single.os.as_ref())
    }

    pub(super) fn layout(&self) -> Option<&Layout> {
        match self {
            Backing::Single(_) => None,
            Backing::Striped(striped) => Some(striped.layout()),
        }
    }

    /// The objects of a striped file.
    pub(super) fn objects(&self) -> Option<&[File]> {
        match self {
            Backing::Single(_) => None,
            Backing::Striped(striped) => Some(striped.objects()),
        }
    }

    /// The file descriptor for questions to the system about the file.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Backing::Single(single) => single.os.as_ref().map(|os| os.any()),
            Backing::Striped(striped) => striped.named_file(),
        }
    }

    /// The object of a striped file that holds a byte.
    pub(super) fn holder(&self, position: u64) -> Option<&Path> {
        match self {
            Backing::Single(_) => None,
            Backing::Striped(striped) => {
                let object = striped.layout().locate(position).object;
                Some(striped.objects()[object].path())
            }
        }
    }

    /// Whether direct I/O was refused, for a striped file by all objects.
    pub(super) fn is_refused(&self) -> bool {
        match self {
            Backing::Single(single) => single.refusal.is_some(),
            Backing::Striped(striped) => {
                striped.objects().iter().all(|object| object.backing.is_refused())
            }
        }
    }

    /// How reads, or writes, travel now. For a striped file, how they travel to the object that is
    /// furthest from direct.
    pub(super) fn class(&self, mode: Mode, kind: OpKind) -> (Class, Option<Reason>) {
        match (self, mode) {
            (_, Mode::Cached) => (Class::Cached, None),
            (_, Mode::Uncached) => (Class::Uncached, None),
            (Backing::Single(single), _) if single.refusal.is_some() => {
                (Class::Uncached, single.refusal)
            }
            (Backing::Single(single), _) if single.residue.trial(kind).is_buffered() => {
                (Class::Uncached, Some(Reason::KernelBuffers))
            }
            (Backing::Single(_), _) => (Class::Direct, None),
            (Backing::Striped(striped), _) => {
                let objects = striped.objects().iter();
                let classes = objects.map(|object| object.backing.class(mode, kind));
                classes.max_by_key(|(class, _)| *class as usize).expect("a file has objects")
            }
        }
    }

    /// Whether requests are counted where they are made. Otherwise the objects count them.
    pub(super) fn counts_requests(&self) -> bool {
        matches!(self, Backing::Single(_))
    }

    /// Requests that the objects have counted.
    pub(super) fn requests(&self) -> Counters {
        match self {
            Backing::Single(_) => Counters::default(),
            Backing::Striped(striped) => striped.requests(),
        }
    }

    pub(super) fn size(&self) -> io::Result<u64> {
        match self {
            Backing::Single(single) => single.medium.size(),
            Backing::Striped(striped) => striped.size(),
        }
    }

    pub(super) fn set_size(&self, size: u64) -> io::Result<()> {
        match self {
            Backing::Single(single) => single.medium.set_size(size),
            Backing::Striped(striped) => striped.set_size(size),
        }
    }

    pub(super) fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()> {
        match self {
            Backing::Single(single) => single.medium.allocate(range, extend),
            Backing::Striped(striped) => striped.allocate(range, extend),
        }
    }

    pub(super) fn punch(&self, range: Range<u64>) -> io::Result<()> {
        match self {
            Backing::Single(single) => single.medium.punch(range),
            Backing::Striped(striped) => striped.punch(range),
        }
    }

    /// Extends the file to at least `size`, because something is about to be written there. A file
    /// that is not striped needs no extending first.
    pub(super) fn extend_to(&self, size: u64) -> io::Result<()> {
        match self {
            Backing::Single(_) => Ok(()),
            Backing::Striped(striped) => striped.extend_to(size),
        }
    }

    /// Whether a failed write beyond the end may have left bytes that must not become part of the
    /// file.
    pub(super) fn may_have_surplus(&self) -> bool {
        match self {
            Backing::Single(_) => true,
            Backing::Striped(striped) => striped.has_surplus().unwrap_or(true),
        }
    }

    /// The lengths that [`Backing::record_durable`] needs after a sync.
    pub(super) fn lengths_before_sync(&self) -> Option<Vec<u64>> {
        match self {
            Backing::Single(_) => None,
            Backing::Striped(striped) => striped.lengths_before_sync(),
        }
    }

    pub(super) fn record_durable(&self, lengths: Option<&[u64]>) {
        if let (Backing::Striped(striped), Some(lengths)) = (self, lengths) {
            striped.record_durable(lengths);
        }
    }

    /// Makes all disks of a striped file write back dirty pages at the same time. The kernel runs
    /// the syncs of a ring one after the other, and each waits for its disk.
    pub(super) fn start_write_back(&self) {
        for object in self.objects().unwrap_or_default() {
            let os = object.backing.os();
            if let Some(fd) = os.and_then(|os| os.descriptor(Route::Buffered).ok()) {
                // This only begins the write-back. The sync does the rest and reports errors.
                let _ = dio_sys::start_write_back(fd);
            }
        }
    }

    /// Writes back and drops what passed through the page cache, for all objects even if one fails.
    /// Returns the first error.
    pub(super) fn settle(
        &self,
        failed: impl Fn(Errno, Option<&FileError>) -> FileError,
    ) -> Result<(), FileError> {
        match self {
            Backing::Single(single) => match &single.os {
                Some(os) => single.residue.settle(os).map_err(|errno| failed(errno, None)),
                None => Ok(()),
            },
            Backing::Striped(striped) => {
                let all = striped.objects().iter().map(File::settle).fold(Ok(()), Result::and);
                all.map_err(|error: FileError| failed(error.errno(), Some(&error)))
            }
        }
    }
}
