//! Opening and closing of inodes and their handles. Decides which path the I/O of each handle takes
//! in the kernel.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dio::geometry::{Directness, Geometry};
use dio::lock::LockPolicy;
use parking_lot::{Mutex, MutexGuard, RwLock};
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};

use super::ahead::Ahead;
use super::behind::Writer;
use super::commits::LogWrites;
use super::descriptors::{Descriptors, InodeProperties, file_of};
use super::errors::{BirthTime, WaitingErrors};
use super::freshness::{self, FoundChange, Signature};
use super::inode::{Common, Inode};
use super::interface::{MakeBacking, Opened, Wanted};
use super::janitor::{self, Janitor, Tidied};
use super::modes::{InodeState, KernelRoute, OpenRequest};
use super::shared::{Backing, BackingChoice, Handle, KernelCached, OpenInode, WritePosition};
use crate::names::{InodeId, Objects};
use crate::options::Mode;
use crate::set_id;
use crate::stats::{Event, Stats};

pub(super) type MakeAnyBacking<'a> = &'a dyn Fn(BorrowedFd<'_>) -> io::Result<Backing>;

/// Longest path in bytes that is kept for messages and statistics (`PATH_MAX`). A user can make far
/// longer ones, one directory at a time.
const LONGEST_SHOWN: usize = 4096;

/// Returns the path as it is kept: of a path that is too long, only the end.
fn shown(path: &Path) -> Cow<'_, Path> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() <= LONGEST_SHOWN {
        return Cow::Borrowed(path);
    }
    let mut end = b".../".to_vec();
    end.extend_from_slice(&bytes[bytes.len() - (LONGEST_SHOWN - end.len())..]);
    Cow::Owned(OsString::from_vec(end).into())
}

/// Most inodes whose signatures are remembered.
const MOST_SIGNATURES: usize = 1 << 16;

/// The inodes with open handles, and the handles.
pub(super) struct Inner {
    policy: LockPolicy,
    passthrough: bool,
    stats: Arc<Stats>,
    pub(super) common: Arc<Common>,
    writer: Arc<Writer>,
    /// Invariant: an inode is here exactly while it has handles.
    inodes: Mutex<HashMap<InodeId, Arc<OpenInode>>>,
    pub(super) handles: RwLock<HashMap<u64, Arc<Handle>>>,
    next: AtomicU64,
    /// The signature of each inode at the latest close of a handle that used the kernel's cache of
    /// the mount.
    signatures: Mutex<HashMap<InodeId, Signature>>,
    /// Locked only while `inodes` is held.
    waiting: Mutex<WaitingErrors>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("inodes", &self.inodes().len()).finish_non_exhaustive()
    }
}

impl Inner {
    /// Creates the state with no open file. `passthrough` allows files to be handed to the kernel,
    /// which then does their I/O itself.
    pub(super) fn new(
        policy: LockPolicy,
        passthrough: bool,
        stats: Arc<Stats>,
        common: Arc<Common>,
    ) -> Inner {
        Inner {
            policy,
            passthrough,
            stats,
            common,
            writer: Arc::default(),
            inodes: Mutex::default(),
            handles: RwLock::default(),
            next: AtomicU64::new(1),
            signatures: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    pub(super) fn inodes(&self) -> MutexGuard<'_, HashMap<InodeId, Arc<OpenInode>>> {
        self.inodes.lock()
    }

    fn signatures(&self) -> MutexGuard<'_, HashMap<InodeId, Signature>> {
        self.signatures.lock()
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingErrors> {
        self.waiting.lock()
    }

    pub(super) fn open_request(&self, mode: Mode, flags: OFlags) -> OpenRequest {
        let settings = self.common.live.get();
        OpenRequest {
            mode,
            flags,
            policy: self.policy,
            gather: settings.gather,
            native: settings.native,
            throttled: settings.throttle.is_on(),
        }
    }

    pub(super) fn find(&self, ino: InodeId) -> Option<Arc<OpenInode>> {
        self.inodes().get(&ino).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<OpenInode>> {
        self.inodes().values().cloned().collect()
    }

    /// Returns the inodes that the janitor must look after.
    fn restless(&self) -> Vec<Arc<OpenInode>> {
        self.inodes().values().filter(|shared| shared.is_restless()).cloned().collect()
    }

    pub(super) fn handle(&self, handle: u64) -> Result<Arc<Handle>> {
        let handles = self.handles.read();
        handles.get(&handle).cloned().ok_or(Errno::BADF)
    }

    /// Adds a handle to an inode.
    pub(super) fn enter(
        &self,
        wanted: &Wanted<'_>,
        fd: OwnedFd,
        opening: OpenRequest,
        make: MakeAnyBacking<'_>,
    ) -> Result<Opened> {
        let Wanted { ino, path, user } = *wanted;
        let path = &*shown(path);
        let now = Signature::now(&fd).ok();
        let shared = {
            let mut inodes = self.inodes();
            let shared = inodes.entry(ino).or_insert_with(|| {
                let figures = self.stats.file(ino, path);
                let about =
                    InodeProperties { path: path.to_owned(), policy: self.policy, user, figures };
                let inode = Inode::new(ino, about, Arc::clone(&self.common));
                let shared = OpenInode::new(inode, now, Arc::clone(&self.writer));
                if let Some(errno) = self.waiting().take(ino, || born(&fd)) {
                    shared.errors.record(errno);
                }
                Arc::new(shared)
            });
            // Counted before the lock is released, so that no other thread removes the inode.
            let mut book = shared.book();
            book.handles += 1;
            book.writers += u32::from(opening.writes());
            drop(book);
            Arc::clone(shared)
        };
        let suited = shared.offer(user, fd).and_then(|()| suited(&shared, opening));
        let opened = suited.and_then(|opening| Ok((opening, self.join(&shared, opening, make)?)));
        let (opening, (route, backing)) = match opened {
            Ok(joined) => joined,
            Err(errno) => {
                self.step_out(&shared, opening);
                return Err(errno);
            }
        };
        let unchanged = route == KernelRoute::Cache
            && now.is_some()
            && self.signatures().get(&ino).copied() == now;
        let flags = opening.flags(route, unchanged);
        if route == KernelRoute::Cache {
            shared.add_cacher(opening);
        }
        let reported = shared.errors.begin();
        let (ahead, run, filled) =
            (Ahead::default(), WritePosition::default(), (route == KernelRoute::Cache).into());
        let handle = Arc::new(Handle {
            shared,
            opening,
            route,
            reported,
            ahead,
            run,
            commits: LogWrites::default(),
            filled,
            wrote: false.into(),
            kept: KernelCached::default(),
        });
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.handles.write().insert(number, handle);
        Ok(Opened { handle: number, flags, backing: backing.and_then(|Backing(number)| number) })
    }

    /// Decides which path the I/O of a handle takes in the kernel, and prepares the inode for it.
    fn join(
        &self,
        shared: &OpenInode,
        opening: OpenRequest,
        make: MakeAnyBacking<'_>,
    ) -> Result<(KernelRoute, Option<Backing>)> {
        // The gate must not be locked while the book is held: other threads lock them in the
        // opposite order.
        let descriptors = Arc::clone(shared.routes().any()?);
        let reported = opening.native && reports_alignment(&descriptors);
        let mut book = shared.book();
        if matches!(book.joined, BackingChoice::Undecided) {
            let alone = InodeState { reported, ..InodeState::default() };
            let backing = (self.passthrough && opening.wants_backing(alone))
                .then(|| make(descriptors.base()));
            // If the kernel refuses (a file system stacked too deep, no privilege), the inode is
            // apart.
            book.joined = backing
                .and_then(io::Result::ok)
                .map_or(BackingChoice::Apart, BackingChoice::Backed);
        }
        let backing = match &book.joined {
            BackingChoice::Backed(backing) => Some(backing.clone()),
            _ => None,
        };
        let route = opening.route(InodeState {
            backed: backing.is_some(),
            writers: book.writers > 0,
            reported,
        });
        book.enter(route, opening);
        drop(book);
        if backing.is_some() && shared.routes().may_hold_back() {
            let mut routes = shared.lock_exclusively();
            // Another thread may have done so meanwhile.
            if routes.may_hold_back() {
                routes.back();
            }
        }
        if let Err(errno) = shared.reconcile() {
            shared.book().leave(route, opening);
            return Err(errno);
        }
        if opening.streams() && route == KernelRoute::Source {
            self.common.janitor.wake_if_idle();
        }
        Ok((route, backing))
    }

    /// Removes a handle from the counts. Returns true if it was the last one of the inode.
    fn step_out(&self, shared: &Arc<OpenInode>, opening: OpenRequest) -> bool {
        let mut inodes = self.inodes();
        let mut book = shared.book();
        book.handles -= 1;
        book.writers -= u32::from(opening.writes());
        let last = book.handles == 0;
        if last {
            inodes.remove(&shared.ino);
        }
        drop((book, inodes));
        if last && let Some(objects) = shared.nameless.get() {
            objects.remove();
        }
        last
    }

    /// Keeps the objects of an inode that has lost its last name until its last handle is closed.
    /// Returns them if the inode has no handle.
    pub(super) fn keep_until_closed(&self, ino: InodeId, objects: Objects) -> Option<Objects> {
        match self.inodes().get(&ino) {
            // Only one name can have been the last.
            Some(shared) => shared.nameless.set(objects).err(),
            None => Some(objects),
        }
    }

    /// Removes a handle from its inode.
    pub(super) fn leave(&self, handle: &Handle) {
        let shared = &handle.shared;
        shared.settle();
        let filled = handle.filled.load(Ordering::Relaxed);
        if handle.is_cached() && handle.route == KernelRoute::Cache {
            self.remember(shared);
            if !shared.freshness.is_settled() {
                // The last change may not be complete yet, and after this close the janitor may no
                // longer check.
                shared.drop_read();
            }
        }
        if filled {
            shared.remove_cacher(handle.opening);
        }
        shared.book().leave(handle.route, handle.opening);
        if shared.book().handles == 1 {
            // The inode is still registered here, so that an error reaches a handle that is opened
            // now.
            shared.settle_files();
        }
        let last = self.step_out(shared, handle.opening);
        // In cached mode the pages stay, as those of any file do.
        if !(last && handle.is_cached()) {
            if handle.route == KernelRoute::Source
                && let Err(errno) = shared.reconcile()
            {
                shared.errors.record(errno);
            }
            if matches!(handle.route, KernelRoute::Requests | KernelRoute::Native) {
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

    /// Keeps an error that no sync has reported for the next open of the inode.
    fn bequeath(&self, shared: &OpenInode) {
        let Some(errno) = shared.errors.unreported() else { return };
        let Ok(descriptors) = shared.routes().any().map(Arc::clone) else { return };
        if rustix::fs::fstat(descriptors.base()).is_ok_and(|stat| stat.st_nlink == 0) {
            // The file has no name, so it cannot be opened again.
            return;
        }
        let born = born(descriptors.base());
        let inodes = self.inodes();
        match inodes.get(&shared.ino) {
            Some(heir) => heir.errors.record(errno),
            None => self.waiting().keep(shared.ino, born, errno),
        }
    }

    fn remember(&self, shared: &OpenInode) {
        let now = shared
            .routes()
            .any()
            .ok()
            .and_then(|descriptors| Signature::now(descriptors.base()).ok());
        let mut signatures = self.signatures();
        if signatures.len() >= MOST_SIGNATURES {
            signatures.clear();
        }
        let Some(now) = now else { return };
        // The kernel may have pages from before a change that was not detected until now.
        if matches!(
            shared.freshness.compare(now, shared.changes.own()),
            FoundChange::Changed { .. }
        ) {
            signatures.remove(&shared.ino);
        } else {
            signatures.insert(shared.ino, now);
        }
    }
}

impl Tidied for Inner {
    fn janitor(&self) -> &Janitor {
        &self.common.janitor
    }

    fn tidy(&self) -> Option<Duration> {
        let (mut left, mut watched) = (false, 0);
        for shared in self.restless() {
            watched += usize::from(shared.is_watched());
            shared.check_source(watched > freshness::WATCHED_MAX);
            if shared.is_due() {
                let idle = Arc::clone(&shared);
                self.common.crew.run(true, move || idle.settle());
            }
            left |= shared.ordered.bytes() + shared.appended.bytes() > 0;
            if shared.book().streams > 0 {
                left = true;
                shared.drop_streamed_soon();
            }
        }
        // If no block is allocated, nothing was read ahead.
        if self.common.memory.bytes() > 0 {
            let handles: Vec<Arc<Handle>> = self.handles.read().values().cloned().collect();
            for handle in handles {
                left |= handle.ahead.tidy();
            }
        }
        self.common.memory.trim();
        left |= self.common.memory.bytes() > 0;
        left.then_some(janitor::EVERY).or((watched > 0).then_some(freshness::LOOK))
    }
}

/// Reduces a request to what the file supports. For a striped file the kernel cannot do the I/O
/// itself, and the server cannot find out which pages are cached; so every request comes to this
/// server. Its objects are opened now, so that the open reports their errors.
fn suited(shared: &OpenInode, opening: OpenRequest) -> Result<OpenRequest> {
    let routes = shared.routes();
    let descriptors = routes.any()?;
    if !descriptors.is_striped() {
        return Ok(opening);
    }
    file_of(descriptors, opening.io_mode(), OFlags::empty())?;
    Ok(opening.of_striped())
}

fn born(fd: impl std::os::fd::AsFd) -> Option<BirthTime> {
    use rustix::fs::{AtFlags, StatxFlags};
    let found = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let born = BirthTime { seconds: found.stx_btime.tv_sec, nanoseconds: found.stx_btime.tv_nsec };
    (found.stx_mask & StatxFlags::BTIME.bits() != 0).then_some(born)
}

fn reports_alignment(descriptors: &Descriptors) -> bool {
    Geometry::of(descriptors.base())
        .is_ok_and(|geometry| geometry.directness() == Directness::Reported)
}

/// Hands a file to the kernel as a backing file. Writes that are passed through must not keep
/// set-id bits that a write of the caller would clear.
pub(super) fn hand_over(fd: BorrowedFd<'_>, backing: MakeBacking<'_>) -> io::Result<Backing> {
    set_id::unable_to_keep(|| backing(fd)).map(|number| Backing(Some(Arc::new(number))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_too_long_is_kept_by_its_end() {
        for length in [0, 1, LONGEST_SHOWN] {
            let path = "x".repeat(length);
            assert_eq!(&*shown(Path::new(&path)), Path::new(&path));
        }
        let path = "directory/".repeat(LONGEST_SHOWN) + "file";
        let kept = shown(Path::new(&path)).into_owned().into_os_string().into_string().unwrap();
        assert!(
            kept.len() == LONGEST_SHOWN
                && kept.starts_with(".../")
                && kept.ends_with("/directory/file")
        );
    }
}
