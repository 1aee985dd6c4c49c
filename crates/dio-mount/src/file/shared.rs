//! An inode with open handles: the state that its handles share.

use std::ops::{Deref, Range};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use dio::residency::{ResidencySnapshot, length_of, write_back};
use dio_fuse::BackingId;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use rustix::io::{Errno, Result};

use super::ahead::Ahead;
use super::behind::{Appended, Ordered, Scattered, Writer};
use super::commits::LogWrites;
use super::descriptors::Descriptors;
use super::errors::ReportedErrors;
use super::freshness::{FoundChange, Freshness, Signature};
use super::habits::Habits;
use super::inode::Inode;
use super::modes::{KernelRoute, OpenRequest};
use super::turns::Turns;
use crate::errno::errno_of;
use crate::names::Objects;
use crate::options::Mode;
use crate::stats::Event;

/// Bytes of the kernel's cache that are dropped at a time behind a reader, and bytes behind it that
/// are kept.
const DROPPED: u64 = 8 << 20;
const KEPT: u64 = 2 << 20;

/// The kernel's cache of the mount for an inode: it has no pages, it may have pages, or it may have
/// pages that it has read or written since the attributes of the source were last compared.
const NO_PAGES: u8 = 0;
const OLD_PAGES: u8 = 1;
const NEW_PAGES: u8 = 2;

/// The file that the kernel reads, writes and maps itself. It has no number only in tests, which
/// run without a kernel.
#[derive(Clone, Debug)]
pub(super) struct Backing(pub(super) Option<Arc<BackingId>>);

/// The decision that the first open of an inode makes for all its handles, see [`super::modes`].
#[derive(Debug, Default)]
pub(super) enum BackingChoice {
    #[default]
    Undecided,
    Apart,
    Backed(Backing),
}

/// Counts of the open handles of an inode.
#[derive(Debug, Default)]
pub(super) struct HandleCounts {
    pub(super) handles: u32,
    /// Handles that may write.
    pub(super) writers: u32,
    /// Handles for which the kernel uses the page cache of the source.
    pub(super) through_source: u32,
    /// Handles counted in `through_source` that stream. The pages that they leave in the page cache
    /// are dropped.
    pub(super) streams: u32,
    pub(super) joined: BackingChoice,
}

impl HandleCounts {
    /// Counts a handle whose I/O takes this path.
    pub(super) fn enter(&mut self, route: KernelRoute, opening: OpenRequest) {
        self.through_source += u32::from(route == KernelRoute::Source);
        self.streams += u32::from(route == KernelRoute::Source && opening.streams());
    }

    /// Removes a handle that [`HandleCounts::enter`] has counted.
    pub(super) fn leave(&mut self, route: KernelRoute, opening: OpenRequest) {
        self.through_source -= u32::from(route == KernelRoute::Source);
        self.streams -= u32::from(route == KernelRoute::Source && opening.streams());
    }
}

/// How requests reach the source at present.
#[derive(Debug, Default)]
pub(super) struct Routes {
    reading: Option<Arc<Descriptors>>,
    writing: Option<Arc<Descriptors>>,
    /// The kernel uses the page cache of the source, so all requests go through it.
    cached: bool,
    /// Handles may map the source, which the server cannot observe. So nothing is read ahead or
    /// written behind.
    backed: bool,
    /// Pages that were in the page cache when the inode became backed. `None` if they could not be
    /// determined; then no pages are dropped.
    before: Option<ResidencySnapshot>,
}

/// An inode with open handles.
#[derive(Debug)]
pub(super) struct OpenInode {
    inode: Arc<Inode>,
    /// Every request holds it shared while it runs. Operations that change the routes, or that must
    /// run alone (truncation, allocation), hold it exclusively. It is locked before any lock of a
    /// [`File`]. Of two inodes, the one with the lower number is locked first.
    gate: RwLock<Routes>,
    pub(super) book: Mutex<HandleCounts>,
    pub(super) freshness: Freshness,
    pub(super) ordered: Arc<Ordered>,
    pub(super) appended: Arc<Appended>,
    pub(super) scattered: Arc<Scattered>,
    pub(super) turns: Turns,
    habits: OnceLock<Habits>,
    /// Set while pages that streams have left in the page cache are being dropped, or soon will be.
    to_drop: AtomicBool,
    /// Held while pages that streams have left in the page cache are being dropped.
    dropping: Mutex<()>,
    /// Handles through which the kernel has filled its cache of the mount although their mode is
    /// not cached.
    pub(super) fillers: AtomicU32,
    /// Handles counted in `fillers`, and cached handles. While there are any, the kernel may fill
    /// its cache of the mount with pages of the inode.
    cachers: AtomicU32,
    /// State of the kernel's cache of the mount: one of [`NO_PAGES`], [`OLD_PAGES`], [`NEW_PAGES`].
    pages: AtomicU8,
    /// Handles counted in `cachers` that may write: their mappings may have made pages dirty
    /// without the server's knowledge.
    dirtiers: AtomicU32,
    /// The end of the file as far as operations through this mount have moved it.
    pub(super) known_end: AtomicU64,
    /// Bytes from the offset of the kernel's last append to the actual end of the file.
    pub(super) displaced: AtomicU64,
    /// The objects of a striped file that has lost its last name. They are removed with the last
    /// handle.
    pub(super) nameless: OnceLock<Objects>,
}

impl Deref for OpenInode {
    type Target = Inode;

    fn deref(&self) -> &Inode {
        &self.inode
    }
}

impl OpenInode {
    /// Creates the state of an inode that is being opened. `opened` holds its attributes from
    /// before anything of it was read.
    pub(super) fn new(inode: Inode, opened: Option<Signature>, writer: Arc<Writer>) -> OpenInode {
        let inode = Arc::new(inode);
        OpenInode {
            gate: RwLock::default(),
            book: Mutex::default(),
            freshness: Freshness::of(opened),
            ordered: Arc::new(Ordered::of(Arc::clone(&inode))),
            appended: Arc::new(Appended::of(Arc::clone(&inode))),
            scattered: Arc::new(Scattered::of(Arc::clone(&inode), writer)),
            turns: Turns::default(),
            habits: OnceLock::new(),
            to_drop: AtomicBool::new(false),
            dropping: Mutex::default(),
            fillers: AtomicU32::new(0),
            cachers: AtomicU32::new(0),
            pages: AtomicU8::new(NO_PAGES),
            dirtiers: AtomicU32::new(0),
            known_end: AtomicU64::new(0),
            displaced: AtomicU64::new(0),
            nameless: OnceLock::new(),
            inode,
        }
    }

    /// Bytes acknowledged and not yet written.
    pub(super) fn pending(&self) -> u64 {
        self.ordered.bytes() + self.appended.bytes() + self.scattered.bytes()
    }

    /// Waits until all bytes that are pending now are written. An error is recorded for the
    /// writers.
    pub(super) fn settle(&self) {
        self.ordered.settle();
        self.appended.settle();
        self.scattered.settle();
    }

    /// Waits until the bytes of the range that are pending now are written.
    pub(super) fn wait_for_range(&self, range: &Range<u64>) {
        if self.ordered.overlaps(range) {
            self.ordered.settle();
        }
        if self.appended.reaches_below(range.end) {
            self.appended.settle();
        }
        self.scattered.wait_for(range);
    }

    /// Whether pending bytes should be written although no request waits for them.
    pub(super) fn is_due(&self) -> bool {
        self.ordered.is_due() || self.appended.is_due()
    }

    /// Locks the routes for the duration of a request.
    pub(super) fn routes(&self) -> RwLockReadGuard<'_, Routes> {
        self.gate.read()
    }

    /// Locks the inode exclusively: no request is running, and nothing is pending.
    pub(super) fn lock_exclusively(&self) -> RwLockWriteGuard<'_, Routes> {
        let routes = self.gate.write();
        // Requests add pending bytes only while they hold the gate, so nothing becomes pending
        // after this.
        self.settle();
        routes
    }

    pub(super) fn book(&self) -> MutexGuard<'_, HandleCounts> {
        self.book.lock()
    }

    pub(super) fn habits(&self) -> &Habits {
        self.habits.get_or_init(Habits::default)
    }

    /// Records that the kernel begins to fill its cache of the mount through a handle.
    pub(super) fn add_cacher(&self, opening: OpenRequest) {
        self.cachers.fetch_add(1, Ordering::Relaxed);
        self.fillers.fetch_add(u32::from(opening.mode != Mode::Cached), Ordering::Relaxed);
        self.dirtiers.fetch_add(u32::from(opening.writes()), Ordering::Relaxed);
        self.note_cached_pages();
    }

    /// Records that the kernel fills its cache of the mount, or has just done so.
    pub(super) fn note_cached_pages(&self) {
        if self.pages.swap(NEW_PAGES, Ordering::AcqRel) == NO_PAGES {
            self.common.janitor.wake_if_idle();
        }
    }

    /// Removes a handle through which the kernel has filled its cache of the mount.
    pub(super) fn remove_cacher(&self, opening: OpenRequest) {
        self.cachers.fetch_sub(1, Ordering::Relaxed);
        self.fillers.fetch_sub(u32::from(opening.mode != Mode::Cached), Ordering::Relaxed);
        self.dirtiers.fetch_sub(u32::from(opening.writes()), Ordering::Relaxed);
    }

    /// Whether mappings may have dirty pages, which the kernel writes back to this server at any
    /// time.
    pub(super) fn may_be_dirty(&self) -> bool {
        self.dirtiers.load(Ordering::Relaxed) > 0
    }

    /// Whether the kernel may have pages of the inode in its cache of the mount.
    pub(super) fn is_kept(&self) -> bool {
        self.cachers.load(Ordering::Relaxed) > 0
    }

    /// Compares attributes of the source that are about to be returned with the previous ones. If
    /// they show a change, bytes that were read before are no longer used; so the attributes must
    /// have been read before this call.
    pub(super) fn compare_attributes(&self, now: Signature) {
        match self.freshness.compare(now, self.changes.own()) {
            FoundChange::Same => {}
            FoundChange::Changed { shown: false } => self.drop_read(),
            FoundChange::Changed { shown: true } | FoundChange::Explained => {
                self.changes.note_beside()
            }
        }
    }

    /// Whether changes beside the mount must be looked for without a request: the kernel may have
    /// pages.
    pub(super) fn is_watched(&self) -> bool {
        self.is_kept() && self.pages.load(Ordering::Acquire) != NO_PAGES
    }

    /// Whether the janitor has anything to look after here.
    pub(super) fn is_restless(&self) -> bool {
        self.is_watched()
            || self.ordered.bytes() + self.appended.bytes() > 0
            || self.book().streams > 0
    }

    /// Checks whether the source was changed beside the mount, if the kernel may have pages and a
    /// check is due. With `too_many` watched inodes, an inode that the kernel has not accessed
    /// since the last check loses its pages instead.
    pub(super) fn check_source(&self, too_many: bool) {
        if !self.is_watched() || !self.freshness.is_due() {
            return;
        }
        let exchange = |from, to| {
            self.pages.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        if too_many && exchange(OLD_PAGES, NO_PAGES) {
            self.drop_read();
            return;
        }
        exchange(NEW_PAGES, OLD_PAGES);
        // If an operation has locked the inode exclusively, the janitor goes on to the other inodes
        // instead of waiting. It checks this one next time.
        let Some(routes) = self.gate.try_read() else { return };
        let Ok(now) = routes.any().and_then(|descriptors| Signature::now(descriptors.base()))
        else {
            return;
        };
        drop(routes);
        let found = self.freshness.compare(now, self.changes.own());
        if matches!(found, FoundChange::Changed { .. }) || self.freshness.is_doubtful() {
            self.drop_read();
        }
    }

    /// Invalidates bytes that were read from the source: those that the server has read ahead, and
    /// the kernel's pages.
    pub(super) fn drop_read(&self) {
        // The order matters: after the kernel has dropped its pages, it must not read bytes that
        // were read ahead before.
        self.changes.note_beside();
        if self.is_kept() {
            self.common.kernel.drop_pages(self.ino, 0..0);
        }
    }

    /// Takes over a descriptor that a user has opened on the inode, if it allows more than the
    /// present ones.
    pub(super) fn offer(&self, user: u32, fd: OwnedFd) -> Result<()> {
        let share = |count| self.common.descriptors.take_descriptors(user, count);
        let new = Descriptors::new(fd, self.about.clone(), share)?;
        let better =
            |old: &Option<Arc<Descriptors>>, may: bool, worth: fn(&Descriptors) -> (bool, bool)| {
                may && old.as_ref().is_none_or(|old| worth(old) < worth(&new))
            };
        let reads = |routes: &Routes| {
            better(&routes.reading, new.is_readable(), |each| (each.is_writable(), true))
        };
        let anywhere = |each: &Descriptors| (!each.is_append_only(), each.is_readable());
        let writes = |routes: &Routes| better(&routes.writing, new.is_writable(), anywhere);
        let routes = self.routes();
        if !reads(&routes) && !writes(&routes) {
            return Ok(());
        }
        drop(routes);
        // Pending bytes refer to the old descriptors, so they are written first.
        let mut routes = self.lock_exclusively();
        if reads(&routes) {
            routes.reading = Some(Arc::clone(&new));
        }
        if writes(&routes) {
            routes.writing = Some(new);
        }
        Ok(())
    }

    /// Brings the routes into line with the open handles: I/O goes through the page cache of the
    /// source while the kernel uses it, and past it otherwise. No reader gets stale bytes: no
    /// request is running meanwhile, and all acknowledged bytes are in the source (pending bytes
    /// are written before the kernel reads by itself, dirty pages before the first request bypasses
    /// them).
    pub(super) fn reconcile(&self) -> Result<()> {
        let wanted = self.book().through_source > 0;
        if self.routes().cached == wanted {
            return Ok(());
        }
        let mut routes = self.lock_exclusively();
        let book = self.book();
        let wanted = book.through_source > 0;
        drop(book);
        let was = std::mem::replace(&mut routes.cached, wanted);
        match (was, wanted) {
            (false, true) => self.about.figures.count(Event::BecameCached, 0),
            (true, false) => self.drop_pages(&routes)?,
            _ => {}
        }
        Ok(())
    }

    /// Drops the pages of the source that a mapping of a backed inode may have brought in, unless
    /// the page cache is in use.
    pub(super) fn drop_mapped(&self) {
        let brought = |routes: &Routes| routes.backed && !routes.cached;
        if brought(&self.routes()) {
            let routes = self.lock_exclusively();
            if brought(&routes)
                && let Err(errno) = self.drop_pages(&routes)
            {
                self.errors.record(errno);
            }
        }
    }

    /// Writes back and drops, in the background, the pages that streams have left in the page cache
    /// of the source. Does nothing if a background job already does so.
    pub(super) fn drop_streamed_soon(self: &Arc<Self>) {
        if self.to_drop.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(self);
        let runs = self.common.dropper.run(false, move || {
            shared.drop_streamed();
            shared.to_drop.store(false, Ordering::Release);
        });
        if !runs {
            self.to_drop.store(false, Ordering::Release);
        }
    }

    fn drop_streamed(&self) {
        let _dropping = self.dropping();
        let routes = self.routes();
        match routes.any().and_then(|descriptors| drop_pages(descriptors, routes.before.as_ref())) {
            Ok(dropped) => self.about.figures.count(Event::HybridStream, dropped),
            Err(errno) => self.errors.record(errno),
        }
    }

    /// Waits until the pages that streams have left are dropped, if that is in progress.
    pub(super) fn dropping(&self) -> MutexGuard<'_, ()> {
        self.dropping.lock()
    }

    /// Writes back bytes that went through the page cache. This is done before the files are
    /// closed, since a close would report no error.
    pub(super) fn settle_files(&self) {
        let routes = self.routes();
        if let Some(Err(errno)) = routes.writing.as_ref().map(|descriptors| descriptors.settle()) {
            self.errors.record(errno);
        }
    }

    fn drop_pages(&self, routes: &Routes) -> Result<()> {
        let dropped = drop_pages(routes.any()?, routes.before.as_ref())?;
        self.about.figures.count(Event::BecameDirect, dropped);
        Ok(())
    }
}

/// Writes back dirty pages and drops the pages that are not in `picture`; returns the number of
/// bytes dropped.
fn drop_pages(descriptors: &Descriptors, picture: Option<&ResidencySnapshot>) -> Result<u64> {
    let fd = descriptors.base();
    let length = length_of(fd).map_err(errno_of)?;
    write_back(fd, 0..i64::MAX as u64).map_err(errno_of)?;
    let pages = picture.map_or(0, |picture| picture.drop_new(fd, 0..length).unwrap_or(0));
    Ok(pages * rustix::param::page_size() as u64)
}

impl Routes {
    /// # Errors
    /// EBADF if the inode is not open for reading.
    pub(super) fn reading(&self) -> Result<&Arc<Descriptors>> {
        self.reading.as_ref().ok_or(Errno::BADF)
    }

    /// # Errors
    /// EBADF if the inode is not open for writing.
    pub(super) fn writing(&self) -> Result<&Arc<Descriptors>> {
        self.writing.as_ref().ok_or(Errno::BADF)
    }

    /// # Errors
    /// EBADF if the inode is not open.
    pub(super) fn any(&self) -> Result<&Arc<Descriptors>> {
        self.writing.as_ref().or(self.reading.as_ref()).ok_or(Errno::BADF)
    }

    pub(super) fn is_cached(&self) -> bool {
        self.cached
    }

    /// Whether bytes may be read ahead or written behind. They may if all access to the inode goes
    /// through this server.
    pub(super) fn may_hold_back(&self) -> bool {
        !self.backed && !self.cached
    }

    /// Marks the inode as backed from now on, and records which pages are in the page cache.
    pub(super) fn back(&mut self) {
        self.backed = true;
        let fd = self.any().map(Arc::clone);
        let picture = fd.map(|descriptors| {
            let fd = descriptors.base();
            length_of(fd).and_then(|length| ResidencySnapshot::take(fd, length))
        });
        self.before = picture.ok().and_then(|picture| picture.ok());
    }
}

/// An open handle.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) shared: Arc<OpenInode>,
    pub(super) opening: OpenRequest,
    pub(super) route: KernelRoute,
    pub(super) reported: ReportedErrors,
    pub(super) ahead: Ahead,
    pub(super) run: WritePosition,
    pub(super) commits: LogWrites,
    /// Something was written through the handle. So its writes and closes report errors too, not
    /// only its syncs.
    pub(super) wrote: AtomicBool,
    /// The kernel has filled its cache of the mount through the handle: for a mapping, or because
    /// the handle's path is [`KernelRoute::Cache`].
    pub(super) filled: AtomicBool,
    /// Bytes that the kernel still caches from reads through the handle.
    pub(super) kept: KernelCached,
}

impl Handle {
    /// Returns an error of the inode's writes and syncs if the handle has written, once for each
    /// error.
    pub(super) fn report_error(&self) -> Result<()> {
        if self.wrote.load(Ordering::Relaxed) {
            self.shared.errors.report_to_write(&self.reported)
        } else {
            Ok(())
        }
    }

    pub(super) fn is_cached(&self) -> bool {
        self.opening.mode == Mode::Cached
    }

    /// Makes the kernel drop, now and then, pages that it has cached for this reader. `range` is
    /// what the reader requests now.
    pub(super) fn drop_behind(&self, range: &Range<u64>) {
        if let Some(drop) = self.kept.note(range) {
            self.shared.common.kernel.drop_pages(self.shared.ino, drop);
        }
    }
}

/// Bytes that the kernel has cached from reads through a handle, and was not told to drop.
#[derive(Debug, Default)]
pub(super) struct KernelCached {
    bytes: AtomicU64,
    /// Offset at which they begin, if they were read in order.
    start: AtomicU64,
}

impl KernelCached {
    /// Notes a read. Returns the range to drop, if any; an empty range stands for everything.
    fn note(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let len = range.end - range.start;
        if self.bytes.fetch_add(len, Ordering::Relaxed) + len < DROPPED + KEPT {
            return None;
        }
        let start = self.start.load(Ordering::Relaxed);
        let upto = range.start.saturating_sub(KEPT);
        // The reads were in order, except for requests that the kernel sends early or late.
        if start < upto && upto - start <= DROPPED + 2 * KEPT {
            self.bytes.store(KEPT, Ordering::Relaxed);
            self.start.store(upto, Ordering::Relaxed);
            Some(start..upto)
        } else {
            self.bytes.store(0, Ordering::Relaxed);
            self.start.store(range.start, Ordering::Relaxed);
            Some(0..0)
        }
    }
}

/// The offset that the writes of a handle have reached.
#[derive(Debug)]
pub(super) struct WritePosition {
    next: AtomicU64,
}

impl Default for WritePosition {
    fn default() -> WritePosition {
        WritePosition { next: AtomicU64::new(u64::MAX) }
    }
}

impl WritePosition {
    /// Whether a write at `start` would continue the previous one, or would be the first one and at
    /// the start of the file.
    pub(super) fn is_continued_by(&self, start: u64) -> bool {
        let before = self.next.load(Ordering::Relaxed);
        before == start || before == u64::MAX && start == 0
    }

    /// Notes a write. Returns true if it continues the previous one, or is the first one and at the
    /// start of the file.
    pub(super) fn continues(&self, start: u64, end: u64) -> bool {
        let before = self.next.swap(end, Ordering::Relaxed);
        before == start || before == u64::MAX && start == 0
    }
}
