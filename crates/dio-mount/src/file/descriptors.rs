//! The server's own opens of an inode: one descriptor to ask it things, and a [`dio::File`] for
//! each way of doing I/O, made when it is first needed. All of them share the file's locks, which
//! belong to the inode.

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

use crate::stats::{Attached, FileStats, Source, Wait};
use crate::users::Share;

/// A way of doing I/O on an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    /// How bytes travel.
    pub(super) mode: Mode,
    /// When they are durable.
    pub(super) sync: SyncMethod,
}

impl Manner {
    const MODES: [Mode; 3] = [Mode::Direct, Mode::Concurrent, Mode::Cached];
    const SYNCS: [SyncMethod; 3] = [SyncMethod::Explicit, SyncMethod::Dsync, SyncMethod::Sync];

    fn index(self) -> usize {
        let mode = Manner::MODES.iter().position(|mode| *mode == self.mode).expect("uncached is never asked for");
        let sync = Manner::SYNCS.iter().position(|sync| *sync == self.sync).expect("all methods are there");
        mode * Manner::SYNCS.len() + sync
    }
}

/// When what a write with these flags does is durable.
pub(super) fn sync_method(flags: OFlags) -> SyncMethod {
    if flags.contains(OFlags::SYNC) {
        SyncMethod::Sync
    } else if flags.contains(OFlags::DSYNC) {
        SyncMethod::Dsync
    } else {
        SyncMethod::Explicit
    }
}

/// The file of an inode for a mode and the flags of a request.
///
/// # Errors
/// Those of `open(2)`.
pub(super) fn file_of(descriptors: &Descriptors, mode: Mode, flags: OFlags) -> Result<Arc<File>> {
    descriptors.file(Manner { mode, sync: sync_method(flags) })
}

/// What the files of an inode have in common.
#[derive(Clone, Debug)]
pub(super) struct About {
    /// For messages.
    pub(super) path: PathBuf,
    pub(super) policy: LockPolicy,
    /// Who opened it first.
    pub(super) user: u32,
    /// Where the files' counters are told.
    pub(super) figures: Arc<FileStats>,
}

#[derive(Debug)]
struct Slot {
    file: Arc<File>,
    _attached: Attached,
}

/// The objects of a striped file, open since before anything was written through it. They are for
/// questions.
#[derive(Debug)]
struct Objects {
    descriptor: Descriptor,
    files: Vec<OwnedFd>,
}

impl Objects {
    fn of(base: BorrowedFd<'_>) -> Result<Option<Objects>> {
        let found = descriptor_of(base, &rustix::fs::fstat(base)?, Path::new(""), LeaseWait::AsOpen);
        let found = found.map_err(|error| error.errno())?;
        let Some(descriptor) = found else { return Ok(None) };
        let Some(parts) = names::objects(base)? else { return Ok(None) };
        let files = parts.into_iter().map(|part| part.file).collect();
        Ok(Some(Objects { descriptor, files }))
    }
}

/// Opens of one inode with one access.
#[derive(Debug)]
pub(super) struct Descriptors {
    base: OwnedFd,
    readable: bool,
    writable: bool,
    /// Opened for appending, since nothing else is allowed (`chattr +a`): no write may name an
    /// offset.
    append_only: bool,
    /// Of a striped file: its bytes are not behind the descriptor.
    objects: Option<Objects>,
    about: About,
    _share: Share,
    slots: [Mutex<Option<Slot>>; Manner::MODES.len() * Manner::SYNCS.len()],
    /// A file was given up after an error, or there was none: what was written into the page cache
    /// may be lost, and no file that is opened now would tell.
    given_up: AtomicBool,
}

impl Descriptors {
    /// Takes over a descriptor. `share` is asked for the part of its user in those of this process:
    /// one to ask, and two for I/O, past the page cache and through it, of the file and of each
    /// object.
    ///
    /// # Errors
    /// That of `fcntl(2)`; of a striped file, those of opening its objects; `ENFILE` where its user
    /// holds too many of the server's descriptors.
    pub(super) fn new(
        base: OwnedFd,
        about: About,
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

    /// Where the file ends: what is written, whatever has become of its names.
    ///
    /// # Errors
    /// That of `fstat(2)`.
    pub(super) fn size(&self) -> Result<u64> {
        let Some(Objects { descriptor, files }) = &self.objects else {
            return rustix::fs::fstat(&self.base).map(|stat| stat.st_size as u64);
        };
        let ends = files.iter().enumerate().map(|(index, file)| names::end_of_object(descriptor, index, file));
        Ok(descriptor.layout.size(ends.collect::<Result<Vec<_>>>()?))
    }

    /// The descriptor that goes through the page cache, to ask the system about the inode.
    pub(super) fn base(&self) -> BorrowedFd<'_> {
        self.base.as_fd()
    }

    fn slot(&self, manner: Manner) -> MutexGuard<'_, Option<Slot>> {
        self.slots[manner.index()].lock()
    }

    /// The file for a way of doing I/O. Where the inode may only be written, not read, everything
    /// goes through the page cache.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub(super) fn file(&self, manner: Manner) -> Result<Arc<File>> {
        let mode = if self.readable { manner.mode } else { Mode::Cached };
        let manner = Manner { mode, ..manner };
        let mut slot = self.slot(manner);
        if let Some(slot) = &*slot {
            return Ok(Arc::clone(&slot.file));
        }
        let file = self.open(manner)?;
        let source: Arc<dyn Source> = Arc::<File>::clone(&file);
        // Concurrent I/O takes no ranges: whatever it waits for has the whole file.
        let ranges = manner.mode == Mode::Direct && self.about.policy == LockPolicy::Range;
        let attached = self.about.figures.attach(source, if ranges { Wait::Range } else { Wait::File });
        *slot = Some(Slot { file: Arc::clone(&file), _attached: attached });
        Ok(file)
    }

    fn open(&self, manner: Manner) -> Result<Arc<File>> {
        let file = OpenOptions::new()
            .read(self.readable)
            .write(self.writable)
            .mode(manner.mode)
            .sync_method(manner.sync)
            .lock_policy(self.about.policy)
            .append_only(self.append_only)
            .adopt(self.another()?, &self.about.path);
        file.map(Arc::new).map_err(|error| error.errno())
    }

    /// Another open of the same inode: what is set for one (no read-ahead, for instance) must not
    /// hold for the other.
    fn another(&self) -> Result<OwnedFd> {
        let access = match (self.readable, self.writable) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        let append = if self.append_only { OFlags::APPEND } else { OFlags::empty() };
        match reopen(&self.base, access | append) {
            // Permissions have changed since, or there is no /proc: an open file stays open all the
            // same.
            Err(Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::ROFS | Errno::TXTBSY) => {
                rustix::io::fcntl_dupfd_cloexec(&self.base, 0)
            }
            other => other,
        }
    }

    /// Writes all of a file that is empty, and that no [`File`] is open for, through the page
    /// cache, which drops it once it is written (`RWF_DONTCACHE`, `pwritev2(2)`). With `append`,
    /// behind what others may put there meanwhile. `None` where that cannot be, and nothing is
    /// written.
    pub(super) fn write_new(&self, bytes: &[IoSlice<'_>], append: bool) -> Option<Result<()>> {
        // While they are held, nobody else reads or writes: each does so through one of them.
        let slots: Vec<_> = self.slots.iter().map(|slot| slot.lock()).collect();
        let is_new = rustix::fs::fstat(&self.base).is_ok_and(|stat| stat.st_size == 0);
        if !self.readable || !is_new || slots.iter().any(|slot| slot.is_some()) {
            return None;
        }
        // A sync asks this descriptor too: one that it opens itself would not hear of an error that
        // others were told before.
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

    /// Writes through the page cache without an open of its own.
    ///
    /// # Errors
    /// Those of `pwrite(2)`.
    pub(super) fn write_plainly(&self, bytes: &[IoSlice<'_>], offset: u64) -> Result<()> {
        write_all(self.base.as_fd(), bytes, offset, ReadWriteFlags::empty())
    }

    /// Appends through the page cache without an open of its own.
    ///
    /// # Errors
    /// Those of `pwritev2(2)`.
    pub(super) fn append_plainly(&self, bytes: &[IoSlice<'_>]) -> Result<()> {
        write_all(self.base.as_fd(), bytes, 0, ReadWriteFlags::APPEND)
    }

    /// What to answer after a failed write or sync. A [`dio::File`] fails for good then; a program
    /// is told once and may go on, so the next operation gets a new one.
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

    /// Writes back what is in the page cache of a file that was given up since this was last asked,
    /// or that had not been opened. The program was told of the write that failed, not of one
    /// before that had been answered well.
    ///
    /// # Errors
    /// That of writing it, then or since.
    pub(super) fn lost(&self) -> Result<()> {
        if !self.given_up.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        // These descriptors have been open since before, so the kernel tells them of what others
        // were told. Each of them is asked, so that nothing is told again.
        let mut outcome = Ok(());
        for fd in std::iter::once(&self.base).chain(self.objects.iter().flat_map(|objects| &objects.files)) {
            let written = write_back(fd, 0..i64::MAX as u64);
            outcome = outcome.and(written.map_err(|error| Errno::from_io_error(&error.into()).unwrap_or(Errno::IO)));
        }
        outcome
    }

    /// Writes back what all files have in the page cache that does not belong there.
    ///
    /// # Errors
    /// That of writing it.
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

fn write_all(fd: BorrowedFd<'_>, bytes: &[IoSlice<'_>], mut offset: u64, flags: ReadWriteFlags) -> Result<()> {
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

/// The access with which the server opens what a program opens with `flags`: blocks that a write
/// covers in part are read first, so a writer reads.
pub(super) fn access(flags: OFlags) -> OFlags {
    if flags & OFlags::RWMODE == OFlags::RDONLY { OFlags::RDONLY } else { OFlags::RDWR }
}

/// Opens an inode for a program: with more than it asks for where that is allowed; for appending
/// only where nothing else is (`chattr +a`).
pub(super) fn open_for(opener: &dyn Fn(OFlags) -> Result<OwnedFd>, flags: OFlags) -> Result<OwnedFd> {
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
