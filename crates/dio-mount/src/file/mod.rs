//! Open files: each inode with open handles has one shared state. The mode of a handle decides how
//! its reads and writes are done.
//!
//! | module | what it is |
//! |---|---|
//! | `open` | opening and closing |
//! | `interface` | what the mount passes in and gets back |
//! | `modes` | how the kernel treats a handle, by the handle's mode and by the other open handles |
//! | `inode` | an open inode without its pending bytes, as background threads use it |
//! | `shared` | an inode with open handles; its switch between direct and cached I/O |
//! | `descriptors` | the server's own opens of an inode |
//! | `requests`, `appends`, `operations` | reads, writes and syncs; appends; everything else |
//! | `ahead`, `behind` | read-ahead and write-behind; `changes` detects stale bytes, `errors` reports failed writes |
//! | `freshness` | detects changes of the source beside the mount |
//! | `throttle` | the limits on how fast programs read and write |
//! | `turns` | the order of writers to a file that is locked as a whole |
//! | `habits` | hybrid I/O: the choice between page cache and direct I/O for one request |
//! | `memory`, `crew`, `janitor`, `kernel` | memory blocks within the limit, background threads, clean-up of idle state, invalidation of the kernel's cache |

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
mod throttle;
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
use crew::FileCrew;
use freshness::Signature;
use inode::Common;
use janitor::Janitor;
use kernel::Kernel;
use memory::Memory;
use open::{Inner, hand_over};
use throttle::Throttle;

pub use interface::{MakeBacking, Opened, Opener, Wanted, WriteProperties};

/// The open files of a mount.
#[derive(Debug)]
pub struct Files(Arc<Inner>);

impl Files {
    /// Creates the state with no open file. `passthrough` allows files to be handed to the kernel,
    /// which then does their I/O itself.
    pub(crate) fn new(
        live: Live,
        policy: LockPolicy,
        stats: Arc<Stats>,
        passthrough: bool,
        descriptors: Arc<Users>,
    ) -> Files {
        let memory = Memory::new(live.clone());
        let (crew, kernel, janitor) =
            (FileCrew::new(crew::TRANSFERS), Kernel::default(), Janitor::default());
        let (dropper, epoch) = (FileCrew::new(1), AtomicU64::new(0));
        let throttle = Throttle::new(live.clone());
        let common =
            Common { live, memory, descriptors, crew, dropper, throttle, kernel, janitor, epoch };
        let inner = Arc::new(Inner::new(policy, passthrough, Arc::clone(&stats), Arc::new(common)));
        janitor::start_janitor(&inner);
        let ask = |answer: fn(&Inner) -> u64| {
            let inner = Arc::downgrade(&inner);
            move || inner.upgrade().map_or(0, |inner| answer(&inner))
        };
        stats.gauge(Gauge::Handles, ask(|inner| inner.handles.read().len() as u64));
        stats.gauge(Gauge::BlockMemory, ask(|inner| inner.common.memory.bytes()));
        stats.gauge(
            Gauge::WriteBehindPending,
            ask(|inner| inner.all().iter().map(|each| each.pending()).sum()),
        );
        Files(inner)
    }

    /// Sets the function that makes the kernel drop its cache of a range of an inode of the mount,
    /// or its whole cache of the inode if the range is empty (`FUSE_NOTIFY_INVAL_INODE`). The
    /// function runs in a separate thread, never in a thread that is serving a request.
    pub fn on_drop_pages(&self, drop_pages: impl Fn(InodeId, Range<u64>) + Send + Sync + 'static) {
        self.0.common.kernel.on_drop_pages(drop_pages);
    }

    /// Returns the flags with which the server should create a file that a program creates with
    /// `flags`. The created file is then passed to [`Files::adopt`].
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
        let opening = self.0.open_request(mode, flags);
        let opened = self.0.enter(wanted, fd, opening, &|fd| hand_over(fd, backing))?;
        if flags.contains(OFlags::TRUNC)
            && let Err(errno) = self.set_size(wanted.ino, Some(opened.handle), 0, opener)
        {
            self.release(opened.handle);
            return Err(errno);
        }
        Ok(opened)
    }

    /// Like [`Files::open`], for a file that was just created for the program with the access of
    /// [`Files::creating`].
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
        let opening = self.0.open_request(mode, flags);
        self.0.enter(wanted, created, opening, &|fd| hand_over(fd, backing))
    }

    /// Reads up to `size` bytes and passes them, or the error, to `give`. It passes fewer bytes
    /// only at the end of the file. `cache` is set if the kernel requests the bytes for its cache
    /// of the mount (a `FUSE_READ` without lock owner).
    pub fn read(
        &self,
        handle: u64,
        offset: u64,
        size: u32,
        cache: bool,
        give: impl FnOnce(Result<&[u8]>),
    ) {
        match self.0.handle(handle) {
            Ok(handle) => handle.read(offset, size, cache, give),
            Err(errno) => give(Err(errno)),
        }
    }

    /// Writes all of `bytes` and passes their number, or the error, to `give`. The write runs in
    /// this thread or, if the writers of the file take turns, possibly in the thread of another
    /// writer. The error is one of `pwrite(2)`, or that of an earlier write that had been
    /// acknowledged; the latter is reported once to each handle.
    pub fn write(
        &self,
        handle: u64,
        offset: u64,
        bytes: &[u8],
        how: WriteProperties,
        give: impl FnOnce(Result<u32>) + Send + 'static,
    ) {
        match self.0.handle(handle) {
            Ok(handle) => handle.write_in_turn(offset, bytes, how, give),
            Err(errno) => give(Err(errno)),
        }
    }

    /// Handles the close of one descriptor of the handle: waits until all acknowledged bytes are
    /// written.
    ///
    /// # Errors
    /// That of an acknowledged write or of a sync, if no sync of this handle has returned it yet.
    pub fn flush(&self, handle: u64) -> Result<()> {
        self.0.handle(handle)?.flush()
    }

    /// Releases the handle, after its last descriptor was closed and its last mapping was removed.
    pub fn release(&self, handle: u64) {
        let gone = self.0.handles.write().remove(&handle);
        if let Some(handle) = gone {
            self.0.leave(&handle);
        }
    }

    /// Makes all acknowledged writes durable, and all attributes too unless `data_only`.
    ///
    /// # Errors
    /// As [`Files::flush`], and those of `fsync(2)`.
    pub fn sync(&self, handle: u64, data_only: bool) -> Result<()> {
        self.0.handle(handle)?.sync(data_only)
    }

    /// Runs `fallocate(2)` with its `mode`.
    ///
    /// # Errors
    /// Those of `fallocate(2)` and of [`Files::write`].
    pub fn allocate(&self, handle: u64, mode: i32, offset: u64, length: u64) -> Result<()> {
        self.0.handle(handle)?.allocate(mode, offset, length)
    }

    /// Runs `lseek(2)` with `SEEK_DATA` (3) or `SEEK_HOLE` (4).
    ///
    /// # Errors
    /// Those of `lseek(2)`; ENXIO if `offset` is after the end of the file.
    pub fn seek(&self, handle: u64, offset: u64, whence: i32) -> Result<u64> {
        self.0.handle(handle)?.seek(offset, whence)
    }

    /// Runs `copy_file_range(2)`; returns the number of bytes copied.
    ///
    /// # Errors
    /// Those of `copy_file_range(2)` and of [`Files::write`].
    pub fn copy_range(
        &self,
        from: u64,
        from_offset: u64,
        to: u64,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let (from, to) = (self.0.handle(from)?, self.0.handle(to)?);
        from.copy_to(from_offset, &to, to_offset, length)
    }

    /// Sets the size of an inode, open or not.
    ///
    /// # Errors
    /// Those of `open(2)` and `ftruncate(2)`.
    pub fn set_size(
        &self,
        ino: InodeId,
        handle: Option<u64>,
        size: u64,
        opener: Opener<'_>,
    ) -> Result<()> {
        let handle = handle.and_then(|handle| self.0.handle(handle).ok());
        match handle.map(|handle| Arc::clone(&handle.shared)).or_else(|| self.0.find(ino)) {
            Some(shared) => shared.set_size(size, opener),
            None => operations::set_size_closed(size, opener),
        }
    }

    /// Compares attributes of the source that are about to be sent to the kernel with the previous
    /// ones. If they show a change, bytes that were read before it are no longer returned.
    pub fn compare_attributes(&self, ino: InodeId, stat: &Stat) {
        if let Some(shared) = self.0.find(ino) {
            shared.compare_attributes(Signature::of(stat));
        }
    }

    /// Returns the end of the inode's pending sequential writes and appends, which is a lower bound
    /// of the file's size. Returns `None` if there are none.
    pub fn size_of(&self, ino: InodeId) -> Option<u64> {
        let shared = self.0.find(ino)?;
        shared.ordered.expected_end().max(shared.appended.end())
    }

    /// Keeps the objects of a striped file that has lost its last name until its last handle is
    /// closed, then removes them. Returns them if the inode has no open handle.
    pub fn keep_until_closed(&self, ino: InodeId, objects: Objects) -> Option<Objects> {
        self.0.keep_until_closed(ino, objects)
    }

    /// Whether a handle of the inode may write.
    pub fn is_written(&self, ino: InodeId) -> bool {
        self.0.find(ino).is_some_and(|shared| shared.book().writers > 0)
    }

    /// Returns how many times acknowledged bytes have been written to the source. While the number
    /// stays the same, all bytes that were pending still are, so attributes that are read in
    /// between lack only these bytes.
    pub fn epoch(&self) -> u64 {
        self.0.common.epoch.load(Ordering::Acquire)
    }

    /// Whether any bytes of the inode are acknowledged and not yet written.
    pub fn is_pending(&self, ino: InodeId) -> bool {
        self.0.find(ino).is_some_and(|shared| shared.pending() > 0)
    }

    /// Waits until all acknowledged bytes of an inode are written. This is necessary before its
    /// attributes are changed: a later write would change them again.
    pub fn settle(&self, ino: InodeId) {
        if let Some(shared) = self.0.find(ino) {
            shared.settle();
        }
    }

    /// Like [`Files::settle`], but only for scattered writes, which are written soon in any case.
    /// Afterwards the time of the last change is that of the last write.
    pub fn settle_scattered(&self, ino: InodeId) {
        if let Some(shared) = self.0.find(ino) {
            shared.scattered.settle();
        }
    }

    /// Like [`Files::settle`], for all inodes.
    pub fn settle_all(&self) {
        self.0.all().iter().for_each(|shared| shared.settle());
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.settle_all();
        // Handles that are still open will never be closed now, so their objects are removed here.
        self.0.all().iter().filter_map(|shared| shared.nameless.get()).for_each(Objects::remove);
        self.0.common.janitor.wake();
    }
}
