//! What is open: one shared state for each inode with open handles, reads and writes by its mode.
//!
//! | module | what it is |
//! |---|---|
//! | `open` | opening and closing |
//! | `interface` | what the mount passes in and gets back |
//! | `modes` | what the kernel is told of a handle, by mode and by what else is open |
//! | `inode` | an open inode as the background sees it |
//! | `shared` | an inode with open handles; its change between direct and cached |
//! | `descriptors` | the server's own opens of an inode |
//! | `requests`, `appends`, `operations` | reads, writes and syncs; appends; everything else |
//! | `ahead`, `behind` | read-ahead and write-behind, with `changes` to know what is stale and `errors` to tell |
//! | `freshness` | whether the source is changed beside the mount |
//! | `turns` | writers of a file that is locked as a whole |
//! | `habits` | hybrid I/O: the choice for one request |
//! | `memory`, `crew`, `janitor`, `kernel` | blocks within the limit, threads of the background, what lies idle, what the kernel is to drop |

mod ahead;
mod appends;
mod behind;
mod changes;
mod commits;
mod crew;
mod descriptors;
mod errors;
mod freshness;
mod habits;
mod inode;
mod interface;
mod janitor;
mod kernel;
mod memory;
mod modes;
mod open;
mod operations;
mod requests;
mod shared;
#[cfg(test)]
mod tests;
mod turns;

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dio::lock::LockPolicy;
use rustix::fs::{OFlags, Stat};
use rustix::io::Result;

use crate::names::{InodeId, Objects};
use crate::options::{Live, Mode};
use crate::stats::{Gauge, Stats};
use crate::users::Users;
use crew::Crew;
use freshness::Signature;
use inode::Common;
use janitor::Janitor;
use kernel::Kernel;
use memory::Memory;
use open::{Inner, hand_over};

pub use interface::{How, MakeBacking, Opened, Opener, Wanted};

/// The open files of a mount.
#[derive(Debug)]
pub struct Files(Arc<Inner>);

impl Files {
    /// No file is open. `passthrough` says that the kernel may be given files to use by itself.
    pub(crate) fn new(
        live: Live,
        policy: LockPolicy,
        stats: Arc<Stats>,
        passthrough: bool,
        descriptors: Arc<Users>,
    ) -> Files {
        let memory = Memory::new(live.clone());
        let (crew, kernel, janitor) = (Crew::new(crew::TRANSFERS), Kernel::default(), Janitor::default());
        let (dropper, epoch) = (Crew::new(1), AtomicU64::new(0));
        let common = Common { live, memory, descriptors, crew, dropper, kernel, janitor, epoch };
        let inner = Arc::new(Inner::new(policy, passthrough, Arc::clone(&stats), Arc::new(common)));
        janitor::employ(&inner);
        let ask = |answer: fn(&Inner) -> u64| {
            let inner = Arc::downgrade(&inner);
            move || inner.upgrade().map_or(0, |inner| answer(&inner))
        };
        stats.gauge(Gauge::Handles, ask(|inner| inner.handles.read().len() as u64));
        stats.gauge(Gauge::BlockMemory, ask(|inner| inner.common.memory.bytes()));
        stats.gauge(Gauge::WriteBehindPending, ask(|inner| inner.all().iter().map(|each| each.pending()).sum()));
        Files(inner)
    }

    /// How to have the kernel drop its cache of a range of an inode of the mount, all of it where
    /// the range is empty (`FUSE_NOTIFY_INVAL_INODE`). It is called in a thread of its own, never
    /// while a request is being served by it.
    pub fn on_drop_pages(&self, drop_pages: impl Fn(InodeId, Range<u64>) + Send + Sync + 'static) {
        self.0.common.kernel.on_drop_pages(drop_pages);
    }

    /// The access with which a file is best created that a program creates with `flags`: see
    /// [`Files::adopt`].
    pub fn creating(flags: OFlags) -> OFlags {
        (flags - OFlags::RWMODE) | descriptors::access(flags)
    }

    /// Opens an inode for a program.
    ///
    /// # Errors
    /// Those of `open(2)`, and with `O_TRUNC` of `ftruncate(2)`.
    pub fn open(
        &self,
        wanted: &Wanted<'_>,
        opener: Opener<'_>,
        flags: OFlags,
        mode: Mode,
        backing: MakeBacking<'_>,
    ) -> Result<Opened> {
        let fd = descriptors::open_for(opener, flags)?;
        let wish = self.0.wish(mode, flags);
        let opened = self.0.enter(wanted, fd, wish, &|fd| hand_over(fd, backing))?;
        if flags.contains(OFlags::TRUNC)
            && let Err(errno) = self.set_size(wanted.ino, Some(opened.handle), 0, opener)
        {
            self.release(opened.handle);
            return Err(errno);
        }
        Ok(opened)
    }

    /// As [`Files::open`], of a file that was just created for the program with [`Files::creating`]
    /// access.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub fn adopt(
        &self,
        wanted: &Wanted<'_>,
        created: OwnedFd,
        flags: OFlags,
        mode: Mode,
        backing: MakeBacking<'_>,
    ) -> Result<Opened> {
        let wish = self.0.wish(mode, flags);
        self.0.enter(wanted, created, wish, &|fd| hand_over(fd, backing))
    }

    /// Reads up to `size` bytes and gives them, or the error, to `give`; fewer bytes only at the
    /// end of the file. `cache` says that the kernel wants them for its cache of the mount (a
    /// `FUSE_READ` without lock owner).
    pub fn read(&self, handle: u64, offset: u64, size: u32, cache: bool, give: impl FnOnce(Result<&[u8]>)) {
        match self.0.handle(handle) {
            Ok(handle) => handle.read(offset, size, cache, give),
            Err(errno) => give(Err(errno)),
        }
    }

    /// Writes all of `bytes` and gives their number, or the error, to `give`: in this thread, or,
    /// where the writers of a file take turns, in that of another of them. The error is one of
    /// `pwrite(2)`, or that of an earlier write that had been acknowledged, once for each handle.
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
        let gone = self.0.handles.write().remove(&handle);
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

    /// Attributes of an inode of the source are about to be answered: what was read before them and
    /// has changed since is not given out any more.
    pub fn saw(&self, ino: InodeId, stat: &Stat) {
        if let Some(shared) = self.0.find(ino) {
            shared.saw(Signature::of(stat));
        }
    }

    /// Where the file ends at least, if more has been acknowledged than is written.
    pub fn size_of(&self, ino: InodeId) -> Option<u64> {
        let shared = self.0.find(ino)?;
        shared.ordered.expected_end().max(shared.appended.end())
    }

    /// Keeps the objects of a striped file that has lost its last name until nobody has it open any
    /// more, and removes them then. Returns them if nobody has.
    pub fn keep_until_closed(&self, ino: InodeId, objects: Objects) -> Option<Objects> {
        self.0.keep_until_closed(ino, objects)
    }

    /// Whether anybody has the inode open for writing.
    pub fn is_written(&self, ino: InodeId) -> bool {
        self.0.find(ino).is_some_and(|shared| shared.routes().writing().is_ok())
    }

    /// Counts how often something was written that had been acknowledged before: while it stays the
    /// same, what was pending still is, and attributes asked for in between lack no more than that.
    pub fn epoch(&self) -> u64 {
        self.0.common.epoch.load(Ordering::Acquire)
    }

    /// Whether anything is acknowledged and not yet written.
    pub fn is_pending(&self, ino: InodeId) -> bool {
        self.0.find(ino).is_some_and(|shared| shared.pending() > 0)
    }

    /// Waits until everything acknowledged of an inode is written. Necessary before its attributes
    /// are changed, which a later write would change again.
    pub fn settle(&self, ino: InodeId) {
        if let Some(shared) = self.0.find(ino) {
            shared.settle();
        }
    }

    /// The same of what is written soon in any case, so that the time of the last change is that of
    /// the last write.
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
        // Nobody can close any more what is open still.
        self.0.all().iter().filter_map(|shared| shared.nameless.get()).for_each(Objects::remove);
        self.0.common.janitor.wake();
    }
}
