//! The server's own opens of an inode: one descriptor for queries, and a [`dio::File`] for each
//! kind of I/O, opened when it is first needed. All of them share the file's locks, which belong
//! to the inode.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dio::file::{FileError, Reason};
use dio::lock::LockPolicy;
use dio::names;
use dio::residency::write_back;
use dio::stripe::{Descriptor, LeaseWait, descriptor_of};
use dio::{Class, Counters, File, Mode, OpenOptions, SyncMethod};
use dio_sys::{RWF_DONTCACHE, reopen, uninterrupted};
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags, Result, pwritev2};

use crate::stats::{Attached, FileCounters, FileStats, Wait};
use crate::users::Share;

/// The mode and the durability of I/O by one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DescriptorKind {
    /// The I/O mode of the file.
    pub(super) mode: Mode,
    /// When written bytes become durable.
    pub(super) sync: SyncMethod,
}

impl DescriptorKind {
    const MODES: [Mode; 3] = [Mode::Direct, Mode::Concurrent, Mode::Cached];
    const SYNCS: [SyncMethod; 3] = [SyncMethod::Explicit, SyncMethod::Dsync, SyncMethod::Sync];

    fn index(self) -> usize {
        let mode = DescriptorKind::MODES
            .iter()
            .position(|mode| *mode == self.mode)
            .expect("uncached is never asked for");
        let sync = DescriptorKind::SYNCS
            .iter()
            .position(|sync| *sync == self.sync)
            .expect("all methods are there");
        mode * DescriptorKind::SYNCS.len() + sync
    }
}

/// Returns when the bytes of a write with these flags become durable.
pub(super) fn sync_method(flags: OFlags) -> SyncMethod {
    if flags.contains(OFlags::SYNC) {
        SyncMethod::Sync
    } else if flags.contains(OFlags::DSYNC) {
        SyncMethod::Dsync
    } else {
        SyncMethod::Explicit
    }
}

/// Returns the file of an inode for a mode and the flags of a request.
///
/// # Errors
/// Those of `open(2)`.
pub(super) fn file_of(descriptors: &Descriptors, mode: Mode, flags: OFlags) -> Result<Arc<File>> {
    descriptors.file(DescriptorKind { mode, sync: sync_method(flags) })
}

/// Properties that all files of an inode share.
#[derive(Clone, Debug)]
pub(super) struct InodeProperties {
    /// For messages.
    pub(super) path: PathBuf,
    pub(super) policy: LockPolicy,
    /// The user who opened the inode first.
    pub(super) user: u32,
    /// Collects the files' counters.
    pub(super) figures: Arc<FileStats>,
}

#[derive(Debug)]
struct DescriptorSlot {
    file: Arc<File>,
    _attached: Attached,
}

/// The objects of a striped file. They were opened before anything was written through it, and
/// serve only for queries, such as for the size and for errors of write-back.
#[derive(Debug)]
struct Objects {
    descriptor: Descriptor,
    files: Vec<OwnedFd>,
}

impl Objects {
    fn of(base: BorrowedFd<'_>) -> Result<Option<Objects>> {
        let found =
            descriptor_of(base, &rustix::fs::fstat(base)?, Path::new(""), LeaseWait::AsOpen);
        let found = found.map_err(|error| error.errno())?;
        let Some(descriptor) = found else { return Ok(None) };
        let Some(parts) = names::objects(base)? else { return Ok(None) };
        let files = parts.into_iter().map(|part| part.file).collect();
        Ok(Some(Objects { descriptor, files }))
    }
}

/// The opens of one inode with one access mode.
#[derive(Debug)]
pub(super) struct Descriptors {
    base: OwnedFd,
    readable: bool,
    writable: bool,
    /// Opened for appending, since the file allows nothing else (`chattr +a`): no write may have an
    /// offset.
    append_only: bool,
    /// Set for a striped file, whose bytes are not in the file of `base`.
    objects: Option<Objects>,
    about: InodeProperties,
    _share: Share,
    slots:
        [Mutex<Option<DescriptorSlot>>; DescriptorKind::MODES.len() * DescriptorKind::SYNCS.len()],
    /// A file was given up after an error, or bytes were written without a file. Bytes in the page
    /// cache may be lost then, and a file that is opened now would not report it.
    given_up: AtomicBool,
}

impl Descriptors {
    /// Takes over a descriptor. `share` is called with the number of descriptors that count as the
    /// user's. For the file and for each object these are one for queries, and two for I/O, past
    /// the page cache and through it.
    ///
    /// # Errors
    /// That of `fcntl(2)`; for a striped file, those of opening its objects; `ENFILE` if the user
    /// holds too many of the server's descriptors.
    pub(super) fn new(
        base: OwnedFd,
        about: InodeProperties,
        share: impl FnOnce(u64) -> Result<Share>,
    ) -> Result<Arc<Descriptors>> {
        let flags = rustix::fs::fcntl_getfl(&base)?;
        let (access, append_only) = (flags & OFlags::RWMODE, flags.contains(OFlags::APPEND));
        let (readable, writable) = (access != OFlags::WRONLY, access != OFlags::RDONLY);
        let objects = Objects::of(base.as_fd())?;
        let files = 1 + objects.as_ref().map_or(0, |objects| objects.files.len() as u64);
        let share = share(3 * files)?;
        let (slots, given_up) = (Default::default(), false.into());
        Ok(Arc::new(Descriptors {
            base,
            readable,
            writable,
            append_only,
            objects,
            about,
            _share: share,
            slots,
            given_up,
        }))
    }

    pub(super) fn is_readable(&self) -> bool {
        self.readable
    }

    pub(super) fn is_writable(&self) -> bool {
        self.writable
    }

    pub(super) fn is_append_only(&self) -> bool {
        self.append_only
    }

    pub(super) fn is_striped(&self) -> bool {
        self.objects.is_some()
    }

    /// Returns the size of the file without pending bytes, even if the file has no name any more.
    ///
    /// # Errors
    /// That of `fstat(2)`.
    pub(super) fn size(&self) -> Result<u64> {
        let Some(Objects { descriptor, files }) = &self.objects else {
            return rustix::fs::fstat(&self.base).map(|stat| stat.st_size as u64);
        };
        let ends = files
            .iter()
            .enumerate()
            .map(|(index, file)| names::end_of_object(descriptor, index, file));
        Ok(descriptor.layout.size(ends.collect::<Result<Vec<_>>>()?))
    }

    /// Returns the descriptor that uses the page cache, for queries about the inode.
    pub(super) fn base(&self) -> BorrowedFd<'_> {
        self.base.as_fd()
    }

    fn slot(&self, kind: DescriptorKind) -> MutexGuard<'_, Option<DescriptorSlot>> {
        self.slots[kind.index()].lock()
    }

    /// Returns the file for a kind of I/O. If the inode may only be written, not read, all I/O
    /// goes through the page cache.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub(super) fn file(&self, kind: DescriptorKind) -> Result<Arc<File>> {
        let mode = if self.readable { kind.mode } else { Mode::Cached };
        let kind = DescriptorKind { mode, ..kind };
        let mut slot = self.slot(kind);
        if let Some(slot) = &*slot {
            return Ok(Arc::clone(&slot.file));
        }
        let file = self.open(kind)?;
        let source: Arc<dyn FileCounters> = Arc::<File>::clone(&file);
        // Concurrent I/O locks no ranges, so a lock that it waits for is that of the whole file.
        let ranges = kind.mode == Mode::Direct && self.about.policy == LockPolicy::Range;
        let attached =
            self.about.figures.attach(source, if ranges { Wait::Range } else { Wait::File });
        *slot = Some(DescriptorSlot { file: Arc::clone(&file), _attached: attached });
        Ok(file)
    }

    fn open(&self, kind: DescriptorKind) -> Result<Arc<File>> {
        let file = OpenOptions::new()
            .read(self.readable)
            .write(self.writable)
            .mode(kind.mode)
            .sync_method(kind.sync)
            .lock_policy(self.about.policy)
            .append_only(self.append_only)
            .adopt(self.another()?, &self.about.path);
        file.map(Arc::new).map_err(|error| error.errno())
    }

    /// Opens the same inode once more: settings of one open (no read-ahead, for instance) must not
    /// apply to the other.
    fn another(&self) -> Result<OwnedFd> {
        let access = match (self.readable, self.writable) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        let append = if self.append_only { OFlags::APPEND } else { OFlags::empty() };
        match reopen(&self.base, access | append) {
            // Permissions have changed since, or there is no /proc. The open descriptor is still
            // valid, so it is duplicated.
            Err(Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::ROFS | Errno::TXTBSY) => {
                rustix::io::fcntl_dupfd_cloexec(&self.base, 0)
            }
            other => other,
        }
    }

    /// Writes all bytes of a file that is empty and for which no [`File`] is open. They go through
    /// the page cache, which drops them once they are written (`RWF_DONTCACHE`, `pwritev2(2)`).
    /// With `append`, they go after bytes that other programs may put there meanwhile. Returns
    /// `None` if this is impossible; nothing is written then.
    pub(super) fn write_new(&self, bytes: &[IoSlice<'_>], append: bool) -> Option<Result<()>> {
        // While all slots are locked, no other request reads or writes, since each goes through one
        // of them.
        let slots: Vec<_> = self.slots.iter().map(|slot| slot.lock()).collect();
        let is_new = rustix::fs::fstat(&self.base).is_ok_and(|stat| stat.st_size == 0);
        if !self.readable || !is_new || slots.iter().any(|slot| slot.is_some()) {
            return None;
        }
        // A sync must query this descriptor too: one that the sync opens itself would not report an
        // error that others received before.
        self.given_up.store(true, Ordering::Release);
        let append = if append { ReadWriteFlags::APPEND } else { ReadWriteFlags::empty() };
        let written = write_all(self.base.as_fd(), bytes, 0, RWF_DONTCACHE | append);
        if let Err(Errno::OPNOTSUPP | Errno::INVAL) = written {
            return None;
        }
        let len = bytes.iter().map(|bytes| bytes.len() as u64).sum();
        let mut counters = Counters { write_requests: 1, ..Counters::default() };
        counters.written.add(Class::Uncached, len);
        counters.reasons[Reason::Small as usize] = len;
        self.about.figures.add(&counters);
        Some(written)
    }

    /// Writes through the page cache with the descriptor that is open already.
    ///
    /// # Errors
    /// Those of `pwrite(2)`.
    pub(super) fn write_plainly(&self, bytes: &[IoSlice<'_>], offset: u64) -> Result<()> {
        write_all(self.base.as_fd(), bytes, offset, ReadWriteFlags::empty())
    }

    /// Appends through the page cache with the descriptor that is open already.
    ///
    /// # Errors
    /// Those of `pwritev2(2)`.
    pub(super) fn append_plainly(&self, bytes: &[IoSlice<'_>]) -> Result<()> {
        write_all(self.base.as_fd(), bytes, 0, ReadWriteFlags::APPEND)
    }

    /// Returns the error to report after a failed write or sync. A [`dio::File`] that has failed
    /// fails for good. But a program gets the error once and may go on, so the next operation gets
    /// a new file.
    pub(super) fn failed(&self, file: &Arc<File>, error: &FileError) -> Errno {
        for slot in &self.slots {
            let mut slot = slot.lock();
            if slot.as_ref().is_some_and(|slot| Arc::ptr_eq(&slot.file, file)) {
                *slot = None;
            }
        }
        self.given_up.store(true, Ordering::Release);
        error.errno()
    }

    /// Writes back the bytes in the page cache that were written through a file given up since the
    /// last call, or without a file. The program has received the error of the write that failed,
    /// but no error of earlier writes that had succeeded.
    ///
    /// # Errors
    /// That of writing them back, now or earlier.
    pub(super) fn lost(&self) -> Result<()> {
        if !self.given_up.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        // These descriptors were open before the error, so the kernel reports it to them even if
        // others have received it. Each of them is queried, so that no error is reported again.
        let mut outcome = Ok(());
        for fd in std::iter::once(&self.base)
            .chain(self.objects.iter().flat_map(|objects| &objects.files))
        {
            let written = write_back(fd, 0..i64::MAX as u64);
            outcome = outcome.and(
                written.map_err(|error| Errno::from_io_error(&error.into()).unwrap_or(Errno::IO)),
            );
        }
        outcome
    }

    /// Writes back the bytes of all files that are in the page cache but do not belong there.
    ///
    /// # Errors
    /// That of writing them back.
    pub(super) fn settle(&self) -> Result<()> {
        let mut outcome = Ok(());
        for slot in &self.slots {
            let file = slot.lock().as_ref().map(|slot| Arc::clone(&slot.file));
            if let Some(file) = file {
                outcome = outcome.and(file.settle().map_err(|error| self.failed(&file, &error)));
            }
        }
        let lost = self.lost();
        outcome.and(lost)
    }
}

fn write_all(
    fd: BorrowedFd<'_>,
    bytes: &[IoSlice<'_>],
    mut offset: u64,
    flags: ReadWriteFlags,
) -> Result<()> {
    let mut rest = bytes.to_vec();
    let mut rest = rest.as_mut_slice();
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match uninterrupted(|| pwritev2(fd, rest, offset, flags)) {
            Ok(0) => return Err(Errno::IO),
            Ok(count) => {
                IoSlice::advance_slices(&mut rest, count);
                offset += count as u64;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Returns the access mode with which the server opens a file that a program opens with `flags`.
/// Blocks that a write covers in part are read first, so a file is opened for reading if it is
/// opened for writing.
pub(super) fn access(flags: OFlags) -> OFlags {
    if flags & OFlags::RWMODE == OFlags::RDONLY { OFlags::RDONLY } else { OFlags::RDWR }
}

/// Opens an inode for a program. A file for writing is also opened for reading if that is allowed.
/// It is opened for appending only if the file allows nothing else (`chattr +a`).
pub(super) fn open_for(
    opener: &dyn Fn(OFlags) -> Result<OwnedFd>,
    flags: OFlags,
) -> Result<OwnedFd> {
    let wanted = flags & OFlags::RWMODE;
    let open = |access: OFlags| match opener(access) {
        Err(Errno::PERM) if flags.contains(OFlags::APPEND) => opener(access | OFlags::APPEND),
        other => other,
    };
    match open(access(flags)) {
        Err(Errno::ACCESS) if wanted == OFlags::WRONLY => open(OFlags::WRONLY),
        other => other,
    }
}
