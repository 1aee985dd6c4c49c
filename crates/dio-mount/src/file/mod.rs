//! What is open: one shared state for each inode with open handles, reads and writes by its mode.
//!
//! | module | what it is |
//! |---|---|
//! | `modes` | what the kernel is told of a handle, by mode and by what else is open |
//! | `shared` | an inode with open handles; its change between direct and cached |
//! | `descriptors` | the server's own opens of an inode |
//! | `requests`, `operations` | reads, writes and syncs; everything else |
//! | `ahead`, `behind`, `scatter` | read-ahead and write-behind, in order and out of order, with `changes` to know what is stale and `errors` to tell |
//! | `turns` | writers of a file that is locked as a whole |
//! | `habits` | hybrid I/O: the choice for one request |
//! | `memory`, `crew`, `janitor` | blocks within the limit, threads of the background, what lies idle |

mod ahead;
mod behind;
mod changes;
mod crew;
mod descriptors;
mod errors;
mod habits;
mod janitor;
mod memory;
mod modes;
mod operations;
mod requests;
mod scatter;
mod shared;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use dio::lock::LockPolicy;
use dio_fuse::{BackingId, FopenFlags};
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};

use crate::names::InodeId;
use crate::options::{Live, Mode};
use crate::set_id;
use crate::stats::{Event, Gauge, Stats};
use ahead::Ahead;
use crew::Crew;
use descriptors::About;
use errors::Waiting;
use janitor::{Janitor, Place};
use memory::Memory;
use modes::{Company, Way, Wish};
use scatter::Writer;
use shared::{Backing, Common, Handle, Joined, Kept, Kernel, Run, Shared};

pub use requests::How;

/// What an open gives to the kernel.
#[derive(Debug)]
pub struct Opened {
    /// Names the handle in later requests.
    pub handle: u64,
    /// How the kernel is to treat it, but for `FOPEN_PASSTHROUGH`, which goes with `backing`.
    pub flags: FopenFlags,
    /// The file that the kernel itself reads, writes and maps, where it may.
    pub backing: Option<Arc<BackingId>>,
}

/// Opens an inode of the source for the server.
pub type Opener<'a> = &'a dyn Fn(OFlags) -> Result<OwnedFd>;

/// Makes a file known to the kernel as one that it may use by itself.
pub type MakeBacking<'a> = &'a dyn Fn(BorrowedFd<'_>) -> io::Result<BackingId>;

type MakeAnyBacking<'a> = &'a dyn Fn(BorrowedFd<'_>) -> io::Result<Backing>;

/// The open files of a mount.
#[derive(Debug)]
pub struct Files(Arc<Inner>);

/// By what a change of an inode shows that the kernel was not told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Signature {
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// When an inode was born: tells apart those that have had the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Born {
    seconds: i64,
    nanoseconds: u32,
}

/// Inodes whose signatures are remembered.
const MOST_SIGNATURES: usize = 1 << 16;

struct Inner {
    policy: LockPolicy,
    passthrough: bool,
    stats: Arc<Stats>,
    common: Arc<Common>,
    /// Invariant: an inode is here exactly while it has handles.
    inodes: Mutex<HashMap<InodeId, Arc<Shared>>>,
    handles: RwLock<HashMap<u64, Arc<Handle>>>,
    next: AtomicU64,
    /// What inodes were like when the last of their handles was closed that used the kernel's cache of the mount.
    signatures: Mutex<HashMap<InodeId, Signature>>,
    /// Taken within `inodes`.
    waiting: Mutex<Waiting>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("inodes", &self.inodes().len()).finish_non_exhaustive()
    }
}

impl Files {
    /// No file is open. `passthrough` says that the kernel may be given files to use by itself.
    pub fn new(live: Live, policy: LockPolicy, stats: Arc<Stats>, passthrough: bool) -> Files {
        let memory = Memory::new(live.clone());
        let (crew, kernel, janitor) = (Crew::new(crew::TRANSFERS), Kernel::default(), Janitor::default());
        let (writer, epoch) = (Writer::default(), AtomicU64::new(0));
        let dropper = Crew::new(1);
        let common = Common { live, memory, crew, writer, dropper, kernel, janitor, epoch };
        let inner = Arc::new(Inner {
            policy,
            passthrough,
            common: Arc::new(common),
            stats: Arc::clone(&stats),
            inodes: Mutex::default(),
            handles: RwLock::default(),
            next: AtomicU64::new(1),
            signatures: Mutex::default(),
            waiting: Mutex::default(),
        });
        janitor::employ(&inner);
        let ask = |answer: fn(&Inner) -> u64| {
            let inner = Arc::downgrade(&inner);
            move || inner.upgrade().map_or(0, |inner| answer(&inner))
        };
        stats.gauge(Gauge::Handles, ask(|inner| inner.handles.read().map_or(0, |handles| handles.len() as u64)));
        stats.gauge(Gauge::BlockMemory, ask(|inner| inner.common.memory.bytes()));
        stats.gauge(Gauge::WriteBehindPending, ask(|inner| inner.all().iter().map(|each| each.pending()).sum()));
        Files(inner)
    }

    /// How to have the kernel drop its cache of a range of an inode of the mount, all of it where the range is empty
    /// (`FUSE_NOTIFY_INVAL_INODE`). It is called in a thread of its own, never while a request is being served by it.
    pub fn on_drop_pages(&self, drop_pages: impl Fn(InodeId, Range<u64>) + Send + Sync + 'static) {
        self.0.common.kernel.on_drop_pages(drop_pages);
    }

    /// The access with which a file is best created that a program creates with `flags`: see [`Files::adopt`].
    pub fn creating(flags: OFlags) -> OFlags {
        (flags - OFlags::RWMODE) | descriptors::access(flags)
    }

    /// Opens an inode for a program. `path`, relative to the source, is for messages and statistics.
    ///
    /// # Errors
    /// Those of `open(2)`, and with `O_TRUNC` of `ftruncate(2)`.
    pub fn open(
        &self,
        ino: InodeId,
        path: &Path,
        opener: Opener<'_>,
        flags: OFlags,
        mode: Mode,
        backing: MakeBacking<'_>,
    ) -> Result<Opened> {
        let fd = descriptors::open_for(opener, flags)?;
        let wish = self.0.wish(mode, flags);
        let opened = self.0.enter(ino, path, fd, wish, &|fd| hand_over(fd, backing))?;
        if flags.contains(OFlags::TRUNC)
            && let Err(errno) = self.set_size(ino, Some(opened.handle), 0, opener)
        {
            self.release(opened.handle);
            return Err(errno);
        }
        Ok(opened)
    }

    /// As [`Files::open`], of a file that was just created for the program with [`Files::creating`] access.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub fn adopt(
        &self,
        ino: InodeId,
        path: &Path,
        created: OwnedFd,
        flags: OFlags,
        mode: Mode,
        backing: MakeBacking<'_>,
    ) -> Result<Opened> {
        let wish = self.0.wish(mode, flags);
        self.0.enter(ino, path, created, wish, &|fd| hand_over(fd, backing))
    }

    /// Reads up to `size` bytes and gives them, or the error, to `give`; fewer bytes only at the end of the file. `cache`
    /// says that the kernel wants them for its cache of the mount (a `FUSE_READ` without lock owner).
    pub fn read(&self, handle: u64, offset: u64, size: u32, cache: bool, give: impl FnOnce(Result<&[u8]>)) {
        match self.0.handle(handle) {
            Ok(handle) => handle.read(offset, size, cache, give),
            Err(errno) => give(Err(errno)),
        }
    }

    /// Writes all of `bytes` and gives their number, or the error, to `give`: in this thread, or, where the writers of a file
    /// take turns, in that of another of them. The error is one of `pwrite(2)`, or that of an earlier write that had been
    /// acknowledged, once for each handle.
    pub fn write(
        &self,
        handle: u64,
        offset: u64,
        bytes: &[u8],
        how: How,
        give: impl FnOnce(Result<u32>) + Send + 'static,
    ) {
        match self.0.handle(handle) {
            Ok(handle) => handle.write_in_turn(offset, bytes, how, give),
            Err(errno) => give(Err(errno)),
        }
    }

    /// A descriptor of the handle was closed: what was acknowledged is written now.
    ///
    /// # Errors
    /// Of a write that had been acknowledged, or of a sync, where this handle has not been told.
    pub fn flush(&self, handle: u64) -> Result<()> {
        self.0.handle(handle)?.flush()
    }

    /// The last descriptor of the handle was closed, and the last mapping has gone.
    pub fn release(&self, handle: u64) {
        let gone = self.0.handles.write().unwrap_or_else(PoisonError::into_inner).remove(&handle);
        if let Some(handle) = gone {
            self.0.leave(&handle);
        }
    }

    /// Makes durable what was written, with all attributes unless `data_only`.
    ///
    /// # Errors
    /// As [`Files::flush`], and those of `fsync(2)`.
    pub fn sync(&self, handle: u64, data_only: bool) -> Result<()> {
        self.0.handle(handle)?.sync(data_only)
    }

    /// `fallocate(2)` with its `mode`.
    ///
    /// # Errors
    /// Those of `fallocate(2)`, and as [`Files::write`].
    pub fn allocate(&self, handle: u64, mode: i32, offset: u64, length: u64) -> Result<()> {
        self.0.handle(handle)?.allocate(mode, offset, length)
    }

    /// `lseek(2)` with `SEEK_DATA` (3) or `SEEK_HOLE` (4).
    ///
    /// # Errors
    /// Those of `lseek(2)`: ENXIO behind the end of the file.
    pub fn seek(&self, handle: u64, offset: u64, whence: i32) -> Result<u64> {
        self.0.handle(handle)?.seek(offset, whence)
    }

    /// `copy_file_range(2)`; returns the bytes copied.
    ///
    /// # Errors
    /// Those of `copy_file_range(2)`, and as [`Files::write`].
    pub fn copy_range(&self, from: u64, from_offset: u64, to: u64, to_offset: u64, length: u64) -> Result<u64> {
        let (from, to) = (self.0.handle(from)?, self.0.handle(to)?);
        from.copy_to(from_offset, &to, to_offset, length)
    }

    /// Sets the size of an inode, open or not.
    ///
    /// # Errors
    /// Those of `open(2)` and `ftruncate(2)`.
    pub fn set_size(&self, ino: InodeId, handle: Option<u64>, size: u64, opener: Opener<'_>) -> Result<()> {
        let handle = handle.and_then(|handle| self.0.handle(handle).ok());
        match handle.map(|handle| Arc::clone(&handle.shared)).or_else(|| self.0.find(ino)) {
            Some(shared) => shared.set_size(size, opener),
            None => operations::set_size_closed(size, opener),
        }
    }

    /// Where the file ends at least, if more has been acknowledged than is written.
    pub fn size_of(&self, ino: InodeId) -> Option<u64> {
        self.0.find(ino)?.behind.end()
    }

    /// Whether anybody has the inode open for writing.
    pub fn is_written(&self, ino: InodeId) -> bool {
        self.0.find(ino).is_some_and(|shared| shared.routes().writing().is_ok())
    }

    /// Counts how often something was written that had been acknowledged before: while it stays the same, what was pending
    /// still is, and attributes asked for in between lack no more than that.
    pub fn epoch(&self) -> u64 {
        self.0.common.epoch.load(Ordering::Acquire)
    }

    /// Whether anything is acknowledged and not yet written.
    pub fn is_pending(&self, ino: InodeId) -> bool {
        self.0.find(ino).is_some_and(|shared| shared.pending() > 0)
    }

    /// Waits until everything acknowledged of an inode is written. Necessary before its attributes are changed, which a
    /// later write would change again.
    pub fn settle(&self, ino: InodeId) {
        if let Some(shared) = self.0.find(ino) {
            shared.settle();
        }
    }

    /// The same of what is written soon in any case, so that the time of the last change is that of the last write.
    pub fn settle_scattered(&self, ino: InodeId) {
        if let Some(shared) = self.0.find(ino) {
            shared.scattered.settle();
        }
    }

    /// The same as [`Files::settle`] of all inodes.
    pub fn settle_all(&self) {
        self.0.all().iter().for_each(|shared| shared.settle());
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.settle_all();
        self.0.common.janitor.wake();
    }
}

impl Inner {
    fn inodes(&self) -> MutexGuard<'_, HashMap<InodeId, Arc<Shared>>> {
        self.inodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn signatures(&self) -> MutexGuard<'_, HashMap<InodeId, Signature>> {
        self.signatures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wish(&self, mode: Mode, flags: OFlags) -> Wish {
        Wish { mode, flags, policy: self.policy, gather: self.common.live.get().gather }
    }

    fn find(&self, ino: InodeId) -> Option<Arc<Shared>> {
        self.inodes().get(&ino).cloned()
    }

    fn all(&self) -> Vec<Arc<Shared>> {
        self.inodes().values().cloned().collect()
    }

    fn handle(&self, handle: u64) -> Result<Arc<Handle>> {
        let handles = self.handles.read().unwrap_or_else(PoisonError::into_inner);
        handles.get(&handle).cloned().ok_or(Errno::BADF)
    }

    /// Adds a handle to an inode.
    fn enter(&self, ino: InodeId, path: &Path, fd: OwnedFd, wish: Wish, make: MakeAnyBacking<'_>) -> Result<Opened> {
        let now = signature(&fd);
        let shared = {
            let mut inodes = self.inodes();
            let shared = inodes.entry(ino).or_insert_with(|| {
                let figures = self.stats.file(ino, path);
                let about = About { path: path.to_owned(), policy: self.policy, figures };
                let shared = Shared::new(ino, about, Arc::clone(&self.common));
                if let Some(errno) = self.waiting().take(ino, || born(&fd)) {
                    shared.errors.record(errno);
                }
                Arc::new(shared)
            });
            // Counted before the lock is given up, so that nobody takes the inode away.
            let mut book = shared.book();
            book.handles += 1;
            book.writers += u32::from(wish.writes());
            drop(book);
            Arc::clone(shared)
        };
        let opened = shared.offer(fd).and_then(|()| self.join(&shared, wish, make));
        let (way, backing) = match opened {
            Ok(joined) => joined,
            Err(errno) => {
                self.step_out(&shared, wish);
                return Err(errno);
            }
        };
        let unchanged = way == Way::Cache && now.is_some() && self.signatures().get(&ino).copied() == now;
        let flags = wish.flags(way, unchanged);
        if way == Way::Cache && wish.mode != Mode::Cached {
            shared.fillers.fetch_add(1, Ordering::Relaxed);
        }
        let told = shared.errors.begin();
        let (ahead, run, filled) = (Ahead::default(), Run::default(), (way == Way::Cache).into());
        let handle = Arc::new(Handle {
            shared,
            wish,
            way,
            told,
            ahead,
            run,
            filled,
            wrote: false.into(),
            kept: Kept::default(),
        });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.handles.write().unwrap_or_else(PoisonError::into_inner).insert(number, handle);
        Ok(Opened { handle: number, flags, backing: backing.and_then(|Backing(number)| number) })
    }

    /// Decides which way the kernel takes for a handle, and makes way.
    fn join(&self, shared: &Shared, wish: Wish, make: MakeAnyBacking<'_>) -> Result<(Way, Option<Backing>)> {
        // Never the gate within the book: others take them the other way round.
        let descriptors = Arc::clone(shared.routes().any()?);
        let mut book = shared.book();
        if matches!(book.joined, Joined::Undecided) {
            let backing = (self.passthrough && wish.wants_backing()).then(|| make(descriptors.base()));
            // A refusal (a file system stacked too deep, no privilege) leaves the other way.
            book.joined = backing.and_then(io::Result::ok).map_or(Joined::Apart, Joined::Backed);
        }
        let backing = match &book.joined {
            Joined::Backed(backing) => Some(backing.clone()),
            _ => None,
        };
        let way = wish.way(Company { backed: backing.is_some(), writers: book.writers > 0 });
        book.enter(way, wish);
        drop(book);
        if backing.is_some() && shared.routes().may_hold_back() {
            let mut routes = shared.alone();
            // Unless somebody else has done so meanwhile.
            if routes.may_hold_back() {
                routes.back();
            }
        }
        if let Err(errno) = shared.reconcile() {
            shared.book().leave(way, wish);
            return Err(errno);
        }
        if wish.streams() && way == Way::Source {
            self.common.janitor.stir();
        }
        Ok((way, backing))
    }

    /// Counts a handle out; true if it was the last one of the inode.
    fn step_out(&self, shared: &Arc<Shared>, wish: Wish) -> bool {
        let mut inodes = self.inodes();
        let mut book = shared.book();
        book.handles -= 1;
        book.writers -= u32::from(wish.writes());
        let last = book.handles == 0;
        if last {
            inodes.remove(&shared.ino);
        }
        last
    }

    /// Takes a handle away from an inode.
    fn leave(&self, handle: &Handle) {
        let shared = &handle.shared;
        shared.settle();
        let filled = handle.filled.load(Ordering::Relaxed);
        if filled && !handle.is_cached() {
            shared.fillers.fetch_sub(1, Ordering::Relaxed);
        }
        if handle.is_cached() && handle.way == Way::Cache {
            self.remember(shared);
        }
        shared.book().leave(handle.way, handle.wish);
        if shared.book().handles == 1 {
            // While whoever opens it now is told.
            shared.settle_files();
        }
        let last = self.step_out(shared, handle.wish);
        // In cached mode the pages stay, as those of any file do.
        if !(last && handle.is_cached()) {
            if handle.way == Way::Source
                && let Err(errno) = shared.reconcile()
            {
                shared.errors.record(errno);
            }
            if handle.way == Way::Requests {
                shared.drop_mapped();
            }
            if filled {
                shared.about.figures.count(Event::DroppedCache, 0);
                self.common.kernel.drop_pages(shared.ino, 0..0);
            }
        }
        if last {
            shared.settle_files();
            self.bequeath(shared);
        }
    }

    /// Of an error that nobody was told, whoever opens the inode next is.
    fn bequeath(&self, shared: &Shared) {
        let Some(errno) = shared.errors.untold() else { return };
        let Ok(descriptors) = shared.routes().any().map(Arc::clone) else { return };
        if rustix::fs::fstat(descriptors.base()).is_ok_and(|stat| stat.st_nlink == 0) {
            // Nobody can.
            return;
        }
        let born = born(descriptors.base());
        let inodes = self.inodes();
        match inodes.get(&shared.ino) {
            Some(heir) => heir.errors.record(errno),
            None => self.waiting().keep(shared.ino, born, errno),
        }
    }

    fn remember(&self, shared: &Shared) {
        let now = shared.routes().any().ok().and_then(|descriptors| signature(descriptors.base()));
        let mut signatures = self.signatures();
        if signatures.len() >= MOST_SIGNATURES {
            signatures.clear();
        }
        if let Some(now) = now {
            signatures.insert(shared.ino, now);
        }
    }
}

impl Place for Inner {
    fn janitor(&self) -> &Janitor {
        &self.common.janitor
    }

    fn tidy(&self) -> bool {
        let mut left = false;
        for shared in self.all() {
            if shared.behind.is_due() {
                let idle = Arc::clone(&shared);
                self.common.crew.run(true, move || idle.settle());
            }
            left |= shared.behind.bytes() > 0;
            if shared.book().streams > 0 {
                left = true;
                shared.drop_streamed_soon();
            }
        }
        let handles: Vec<Arc<Handle>> =
            self.handles.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        for handle in handles {
            left |= handle.ahead.tidy();
        }
        self.common.memory.trim();
        left || self.common.memory.bytes() > 0
    }
}

fn born(fd: impl std::os::fd::AsFd) -> Option<Born> {
    use rustix::fs::{AtFlags, StatxFlags};
    let found = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let born = Born { seconds: found.stx_btime.tv_sec, nanoseconds: found.stx_btime.tv_nsec };
    (found.stx_mask & StatxFlags::BTIME.bits() != 0).then_some(born)
}

/// Hands a file to the kernel, which is to keep nothing by what it writes that a caller could not.
fn hand_over(fd: BorrowedFd<'_>, backing: MakeBacking<'_>) -> io::Result<Backing> {
    set_id::unable_to_keep(|| backing(fd)).map(|number| Backing(Some(Arc::new(number))))
}

fn signature(fd: impl std::os::fd::AsFd) -> Option<Signature> {
    let stat = rustix::fs::fstat(fd).ok()?;
    Some(Signature {
        size: stat.st_size,
        modified: (stat.st_mtime, stat.st_mtime_nsec),
        changed: (stat.st_ctime, stat.st_ctime_nsec),
    })
}
