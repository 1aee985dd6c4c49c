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
mod counters;
mod error;
mod flow;
pub(crate) mod held;
mod layout;
mod mode;
mod open;
mod read;
mod run;
mod size;
mod syncs;
mod trial;
mod uncache;
mod write;

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::drive::{Composite, run_here};
use crate::engine::{Flags, Kind, Medium, Op, OsMedium, Route};
use crate::geometry::{Geometry, align_down, align_up};
use crate::io::Io;
use crate::lock::{LockClass, LockGuard, LockPolicy, LockStats, LockTable};
use crate::stripe::Striped;

pub use append::EndLock;
pub use counters::{ByClass, Class, Counters, Reason};
pub use error::{FileError, words, words_of};
pub use mode::{Mode, Need, SyncMethod};
pub use open::{DIRECT_FROM, OpenOptions};

use blocks::Claim;
use counters::Meter;
use layout::Align;
use syncs::Syncs;
use trial::Trial;
use uncache::Uncache;

/// The way of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Passage {
    route: Route,
    /// It is below the threshold: its pages stay in the page cache, as those of a cached file.
    keep: bool,
    /// Each of its parts begins when the one before is over: so a striped file that grows holds no gap at any moment.
    in_order: bool,
    /// Why it goes through the page cache of a direct file, where it does.
    reason: Reason,
}

impl Passage {
    fn by(route: Route) -> Passage {
        Passage { route, keep: false, in_order: false, reason: Reason::EndOfFile }
    }

    fn of(op: &Op) -> Passage {
        Passage { keep: op.flags.keep, ..Passage::by(op.route) }
    }
}

/// Largest block of a file system that the straight parts of requests are made to begin at, in bytes.
const MOST_BLOCK: u64 = 64 << 10;

/// Parts of requests of a striped file that are in flight at a time, at most.
const MOST_PARTS: usize = 256;

/// What to do about a full target where some are devices.
const CURE_DEVICE: &str = "free space there, or move the file with 'dio stripe migrate' if that is a device";

/// An open file. All methods take `&self` and may be called from many threads.
///
/// A misaligned or extending write may pass through the page cache of the last block; it is written back and dropped
/// at the next sync and when the file is dropped, where an error has nobody to be told: sync first.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    io: Io,
    medium: Arc<dyn Medium>,
    /// The same medium when it belongs to the operating system; what concerns the page cache needs it.
    os: Option<Arc<OsMedium>>,
    geometry: Geometry,
    mode: Mode,
    need: Need,
    lock_policy: LockPolicy,
    /// Requests of fewer bytes pass through the page cache and stay there.
    direct_from: u64,
    writable: bool,
    /// Opened for appending: no write names an offset.
    only_appends: bool,
    /// Each write is durable when it returns.
    durable: bool,
    /// The same medium when the file is striped.
    stripes: Option<Arc<Striped>>,
    /// Why everything is uncached although direct I/O was asked for.
    refusal: Option<Reason>,
    /// What direct reads and writes were seen to do, where that had to be seen.
    read_trial: Trial,
    write_trial: Trial,
    locks: Arc<LockTable>,
    meter: Meter,
    uncache: Uncache,
    syncs: Syncs,
    /// Held by the thread that appends to a striped file.
    appending: Mutex<()>,
    /// For appending, where the flag of a single write is not enough; `None` within where it cannot be opened.
    append_only: OnceLock<Option<OwnedFd>>,
    /// Invariant: set once; from then on every write, resize and sync fails with it, since the kernel may have thrown
    /// away what it failed to write, and a later success would acknowledge what is lost.
    latch: OnceLock<FileError>,
}

impl File {
    fn assemble(
        options: &OpenOptions,
        path: &Path,
        io: Io,
        medium: Arc<dyn Medium>,
        geometry: Geometry,
        locks: Arc<LockTable>,
    ) -> File {
        let proven = !uncache::unproven(&geometry);
        File {
            path: path.to_owned(),
            io,
            medium,
            os: None,
            geometry,
            mode: options.mode,
            need: options.need,
            lock_policy: options.lock_policy,
            direct_from: if options.mode == Mode::Direct { options.direct_from } else { 0 },
            writable: options.write,
            only_appends: options.append_only,
            durable: options.sync != SyncMethod::Explicit,
            stripes: None,
            refusal: None,
            read_trial: Trial::new(proven),
            write_trial: Trial::new(proven),
            locks,
            meter: Meter::default(),
            uncache: Uncache::default(),
            syncs: Syncs::default(),
            appending: Mutex::default(),
            append_only: OnceLock::new(),
            latch: OnceLock::new(),
        }
    }

    /// A file over the objects of a striped one.
    pub(crate) fn striped(options: &OpenOptions, path: &Path, striped: Arc<Striped>, locks: Arc<LockTable>) -> File {
        let (io, geometry) = (striped.io().clone(), *striped.geometry());
        let mut file = File::assemble(options, path, io, striped.clone(), geometry, locks);
        let refused = striped.objects().iter().all(|object| object.refusal.is_some());
        file.refusal = refused.then_some(Reason::NoDirectIo);
        file.stripes = Some(striped);
        file
    }

    /// Opens a file for reading: direct where possible.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<File, FileError> {
        OpenOptions::new().read(true).open(path)
    }

    /// The name it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The mode it was opened in.
    pub fn mode(&self) -> Mode {
        self.mode
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
        if let Some(stripes) = &self.stripes {
            reading.add(&stripes.requests());
        }
        reading
    }

    /// Lock waits by class, of all opens of this file in the process.
    pub fn lock_stats(&self) -> LockStats {
        self.locks.stats()
    }

    /// The descriptor to ask the system about the file; `None` for a simulated one. Not for its bytes: those of a striped
    /// file are elsewhere.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.stripes {
            Some(stripes) => stripes.head(),
            None => self.os.as_ref().map(|os| os.any()),
        }
    }

    /// What it is to the operating system, if it is anything.
    pub(crate) fn os_medium(&self) -> Option<Arc<OsMedium>> {
        self.os.clone()
    }

    /// Has operations, sizes and resizes go by `medium`, which is the same file under rules of its own.
    pub(crate) fn ruled_by(&mut self, medium: Arc<dyn Medium>) {
        self.medium = medium;
    }

    /// Whether making it longer writes zeros: what writes all of it should do without.
    pub(crate) fn zeroes_growth(&self) -> bool {
        self.stripes.as_ref().is_some_and(|stripes| stripes.has_devices())
    }

    /// How the file is striped, if it is.
    pub fn layout(&self) -> Option<&crate::stripe::Layout> {
        self.stripes.as_ref().map(|stripes| stripes.layout())
    }

    /// The files that hold its bytes: the objects of a striped file, or the file itself.
    pub(crate) fn objects(&self) -> &[File] {
        self.stripes.as_ref().map_or(std::slice::from_ref(self), |stripes| stripes.objects())
    }

    /// Whether it is a block device, whose size is fixed.
    pub fn is_device(&self) -> bool {
        let stat = self.os.as_ref().and_then(|os| rustix::fs::fstat(os.any()).ok());
        stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice)
    }

    /// How reads travel now and, if not directly although that was asked for, why.
    pub fn read_class(&self) -> (Class, Option<Reason>) {
        match &self.stripes {
            Some(stripes) => stripes.class(File::read_class),
            None => self.class(&self.read_trial),
        }
    }

    /// How writes travel now and, if not directly although that was asked for, why.
    pub fn write_class(&self) -> (Class, Option<Reason>) {
        match &self.stripes {
            Some(stripes) => stripes.class(File::write_class),
            None => self.class(&self.write_trial),
        }
    }

    fn class(&self, trial: &Trial) -> (Class, Option<Reason>) {
        match self.mode {
            Mode::Cached => (Class::Cached, None),
            Mode::Uncached => (Class::Uncached, None),
            Mode::Direct | Mode::Concurrent if self.refusal.is_some() => (Class::Uncached, self.refusal),
            _ if trial.is_buffered() => (Class::Uncached, Some(Reason::KernelBuffers)),
            _ => (Class::Direct, None),
        }
    }

    /// Makes written data durable, with the metadata needed to read it back (`fdatasync(2)`).
    ///
    /// # Errors
    /// The write or sync error, now and from now on: see [`File`].
    pub fn sync_data(&self) -> Result<(), FileError> {
        self.sync(Kind::SyncData)
    }

    /// Makes data and all metadata durable (`fsync(2)`).
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_all(&self) -> Result<(), FileError> {
        self.sync(Kind::SyncAll)
    }

    fn sync(&self, kind: Kind) -> Result<(), FileError> {
        self.check_latch()?;
        self.meter.syncs.fetch_add(1, Ordering::Relaxed);
        let op = self.op(kind, self.route(), Flags::default(), 0, None);
        let lengths = self.stripes.as_ref().and_then(|stripes| stripes.lengths_to_note());
        {
            let _under_way = self.syncs.begin();
            self.start_write_back();
            let over = run_here(op);
            over.outcome.map_err(|errno| {
                // The place of a failed sync says which object of a striped file it was.
                self.latched(self.failed("sync", errno).of(self.holder(over.op.offset)))
            })?;
        }
        self.syncs.wait_for_others();
        self.check_latch()?;
        self.settle_now()?;
        if let (Some(stripes), Some(lengths)) = (&self.stripes, lengths) {
            stripes.note_durable(&lengths);
        }
        Ok(())
    }

    /// Writes back and drops what passed through the page cache and was not there before.
    ///
    /// # Errors
    /// An error of writing back, which latches, or an earlier one.
    pub fn settle(&self) -> Result<(), FileError> {
        self.check_latch()?;
        self.settle_now()
    }

    /// Has all disks of a striped file write at once what is dirty in the page cache: the kernel runs the syncs of a ring one after
    /// the other, each waiting for its disk.
    fn start_write_back(&self) {
        if self.stripes.is_none() || (self.mode.wants_direct() && self.direct_from == 0) {
            return;
        }
        for object in self.objects() {
            if let Some(fd) = object.os.as_ref().and_then(|os| os.descriptor(Route::Buffered).ok()) {
                // Only a beginning: the sync does what this cannot, and tells of what fails.
                let _ = dio_sys::start_write_back(fd);
            }
        }
    }

    fn settle_now(&self) -> Result<(), FileError> {
        let _under_way = self.syncs.begin();
        if let Some(stripes) = &self.stripes {
            return stripes.settle().map_err(|error| self.latched(self.failed("write back", error.errno()).by(&error)));
        }
        match &self.os {
            Some(os) => self.uncache.settle(os).map_err(|errno| self.latched(self.failed("write back", errno))),
            None => Ok(()),
        }
    }

    /// Before something that makes the kernel zero a part of a block, which it does in the page cache whatever the mode.
    /// Returns the size.
    fn before_zeroing(&self) -> Result<u64, FileError> {
        match &self.os {
            Some(os) if self.mode != Mode::Cached => {
                self.uncache.prepare(os);
                self.size()
            }
            _ => Ok(0),
        }
    }

    /// After it: `edges` are the places within whose blocks bytes may have been zeroed.
    fn after_zeroing(&self, edges: &[u64]) -> Result<(), FileError> {
        if self.os.is_none() || self.mode == Mode::Cached {
            return Ok(());
        }
        let block = self.geometry.block().max(rustix::param::page_size() as u64);
        let mut enough = false;
        for edge in edges.iter().filter(|edge| **edge % block != 0) {
            enough |= self.uncache.touch(align_down(*edge, block)..edge + 1, true);
        }
        if enough { self.settle_now() } else { Ok(()) }
    }

    fn route(&self) -> Route {
        if self.mode.wants_direct() && self.refusal.is_none() { Route::Direct } else { Route::Buffered }
    }

    fn align(&self, route: Route, kind: Kind) -> Align {
        let offset = match (route, kind) {
            (Route::Buffered, _) => return Align::NONE,
            (Route::Direct, Kind::Read) => self.geometry.read_offset_align(),
            (Route::Direct, _) => self.geometry.offset_align(),
        };
        // The block of a file system may be anything; only of one that is a usual size is there something to gain.
        let block = self.geometry.block();
        let block = if block.is_power_of_two() && block <= MOST_BLOCK { block.max(offset) } else { offset };
        Align { offset, memory: self.geometry.mem_align(), block }
    }

    /// The usual way of requests.
    fn usual(&self) -> Passage {
        Passage::by(self.route())
    }

    /// The way of a read or write of so many bytes.
    fn passage(&self, bytes: u64) -> Passage {
        if bytes < self.direct_from { Passage { keep: true, ..Passage::by(Route::Buffered) } } else { self.usual() }
    }

    /// The flags of requests: what passes through the cache leaves it again, unless caching was asked for.
    fn flags(&self, way: Passage) -> Flags {
        let forget = way.route == Route::Buffered && self.mode != Mode::Cached && !way.keep;
        Flags { dsync: false, dontcache: forget && self.uncache.dontcache(), keep: way.keep }
    }

    fn op(&self, kind: Kind, route: Route, flags: Flags, offset: u64, mem: Option<crate::block::Mem>) -> Op {
        let align = self.align(route, kind).offset as usize;
        let medium = Arc::clone(&self.medium);
        Op { kind, route, flags, medium, offset, done: 0, mem, align, stalled: 0, pages: None, tag: 0, part: None }
    }

    /// What the lock of a range covers. Writes through the cache dirty whole pages, and a direct write of another block of
    /// such a page, or the eviction after it, would race with them (`open(2)`, NOTES).
    fn span(&self, kind: Kind, range: Range<u64>) -> Range<u64> {
        let through_cache = kind == Kind::Write && !self.mode.wants_direct();
        self.lock_policy.span(if through_cache { pages_around(range) } else { range })
    }

    /// The lock of an operation within the file's present size, by mode. The kernel orders cached ones among themselves;
    /// writes also keep out direct ones of their pages, and whatever writes a part of a block or changes the size.
    fn lock_for(&self, way: Passage, kind: Kind, range: Range<u64>) -> Option<LockGuard> {
        self.lock(kind, if way.keep { pages_around(range) } else { range })
    }

    /// As `lock_for`, of a request on the usual way.
    pub(crate) fn lock(&self, kind: Kind, range: Range<u64>) -> Option<LockGuard> {
        match self.claim(kind, range) {
            Claim::Nothing => None,
            Claim::Beside(class) => Some(self.locks.whole_shared(class)),
            Claim::Shared(range) => Some(self.locks.shared(range, LockClass::Read)),
            Claim::Exclusive(range) => Some(self.locks.exclusive(range, LockClass::Write)),
        }
    }

    fn failed(&self, operation: &'static str, errno: Errno) -> FileError {
        FileError::new(operation, &self.path, errno)
    }

    /// The error of a request at a place; of a striped file, with the object that holds it.
    fn failed_at(&self, operation: &'static str, errno: Errno, position: u64) -> FileError {
        let error = self.failed(operation, errno).of(self.holder(position)).at(position);
        if errno == Errno::NOSPC && self.zeroes_growth() { error.with_cure(CURE_DEVICE) } else { error }
    }

    /// The error of a call of the medium.
    fn refused(&self, operation: &'static str, error: &std::io::Error) -> FileError {
        let failed = match error.get_ref().and_then(|inner| inner.downcast_ref::<FileError>()) {
            Some(inner) => self.failed(operation, inner.errno()).by(inner),
            None => self.failed(operation, raw(error)),
        };
        if failed.errno() == Errno::NOSPC && self.zeroes_growth() { failed.with_cure(CURE_DEVICE) } else { failed }
    }

    /// The object of a striped file that holds a byte.
    fn holder(&self, position: u64) -> Option<&Path> {
        self.stripes.as_ref().map(|stripes| stripes.holder(position))
    }

    /// Makes a striped file reach to where something is about to be written, see [`Medium::reach`].
    fn reach(&self, size: u64) -> Result<(), FileError> {
        self.medium.reach(size).map_err(|error| {
            let error = self.refused("extend", &error).at(size);
            let surplus = || self.stripes.as_ref().is_none_or(|stripes| stripes.has_surplus().unwrap_or(true));
            // What is too large for an object that nothing was changed for leaves the file as it was. What has made others
            // longer must not become part of it, which who opens it next sees to.
            if error.errno() == Errno::FBIG && !surplus() { error } else { self.latched(error) }
        })
    }

    /// Largest single request: of a striped file, one to each object.
    fn largest_request(&self) -> usize {
        let objects = self.stripes.as_ref().map_or(1, |stripes| stripes.layout().objects());
        self.io.limits().request.saturating_mul(objects)
    }

    /// Requests of `block` bytes to keep in flight: `depth`, and where the file is striped, as many as keep all of its targets
    /// busy, as far as `most` bytes go.
    pub(crate) fn depth_over(&self, depth: usize, block: usize, most: usize) -> usize {
        crate::stripe::depth_over(self.objects().len(), depth, block, most)
    }

    /// An engine for so many requests in flight; the parts of each, where the file is striped.
    pub(crate) fn driver(&self, depth: usize) -> crate::drive::Driver {
        self.io.driver(self.depth_for(depth))
    }

    /// Has a driver of `depth` requests that nothing is outstanding in take all parts of as many of this file.
    pub(crate) fn suit(&self, driver: &mut crate::drive::Driver, depth: usize, alone: bool) {
        let wanted = self.depth_for(depth);
        if wanted > driver.depth() && self.stripes.is_some() {
            driver.replace(self.io.engine(wanted, alone));
        }
    }

    /// Operations that `depth` requests can be.
    fn depth_for(&self, depth: usize) -> usize {
        let objects = self.stripes.as_ref().map_or(1, |stripes| stripes.layout().objects());
        if objects == 1 { depth } else { depth.saturating_mul(objects).min(MOST_PARTS).max(depth) }
    }

    pub(crate) fn check_latch(&self) -> Result<(), FileError> {
        self.latch.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Records the first write or sync error and returns the one that is in force.
    fn latched(&self, error: FileError) -> FileError {
        self.latch.get_or_init(|| error).clone()
    }

    fn count_requests(&self, kind: Kind, count: u64) {
        if self.stripes.is_some() {
            // The objects count theirs.
            return;
        }
        let counter: &AtomicU64 =
            if kind == Kind::Read { &self.meter.read_requests } else { &self.meter.write_requests };
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // Nobody is left to be told of an error; the type's documentation says to sync first.
        let _ = self.settle_now();
    }
}

/// The whole pages that hold a range of a file, as far as there are any bytes in it.
fn pages_around(range: Range<u64>) -> Range<u64> {
    let page = rustix::param::page_size() as u64;
    if range.is_empty() { range } else { align_down(range.start, page)..align_up(range.end, page) }
}

/// Runs a call again that a signal interrupted before it did anything, as `fallocate(2)` on a large range.
fn patiently<T>(mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn raw(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}
