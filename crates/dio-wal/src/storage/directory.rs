//! A directory of the system, whose files are those of `dio`.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dio::block::{Mem, scope};
use dio::drive::{CacheNote, Request, RequestTarget, run_one};
use dio::engine::{Medium, OpFlags, OpKind, OsMedium, Route};
use dio::geometry::{Directness, Geometry};
use dio::{Class, File, Mode, Need, OpenOptions, SyncMethod};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::{Blocks, Method, SegmentFile, Storage, Untorn, Written};

/// A directory with segments in it.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    fd: OwnedFd,
    direct: bool,
    method: Method,
}

impl Directory {
    /// Opens an existing directory. With `direct`, files are read and written past the page cache where the file system
    /// can.
    ///
    /// # Errors
    /// What `open(2)` answers.
    pub fn open(path: impl AsRef<Path>, direct: bool, method: Method) -> io::Result<Directory> {
        let path = path.as_ref().to_owned();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, rustix::fs::Mode::empty())?;
        Ok(Directory { path, fd, direct, method })
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn mode(&self) -> Mode {
        // The log orders its own reads and writes, so the file needs no lock but the kernel's.
        if self.direct { Mode::Concurrent } else { Mode::Cached }
    }

    fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).mode(self.mode()).need(Need::Preferred).permissions(0o600).no_follow(true);
        options
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.unlock();
    }
}

impl Storage for Directory {
    fn lock(&self) -> io::Result<bool> {
        match rustix::fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn unlock(&self) {
        // Not only by closing: a process that another thread has just forked holds the descriptor, and with it the lock, until
        // it executes its program (flock(2)).
        let _ = rustix::fs::flock(&self.fd, FlockOperation::Unlock);
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        // A name that is not UTF-8 is none of ours.
        names.filter_map(Result::transpose).collect()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn SegmentFile>> {
        let file = self.options().write(true).create(true).truncate(true).open(self.path.join(name))?;
        // What fills a new segment is made durable by one sync at the end, whatever the method.
        Ok(Arc::new(Segment { file, sync: Sync::All, own: None, plain: None }))
    }

    fn open(&self, name: &str, write: bool) -> io::Result<Arc<dyn SegmentFile>> {
        let path = self.path.join(name);
        let (sync_method, sync) = match self.method {
            Method::Fsync => (SyncMethod::Explicit, Sync::All),
            Method::Fdatasync | Method::RwfDsync => (SyncMethod::Explicit, Sync::Data),
            Method::OpenSync => (SyncMethod::Sync, Sync::Done),
            Method::OpenDatasync => (SyncMethod::Dsync, Sync::Done),
        };
        let file = self.options().write(write).sync_method(sync_method).open(&path)?;
        let own = if write { Own::open(&path, &file, self.method)? } else { None };
        // Zeros need not be durable one by one.
        let plain = match write && sync == Sync::Done {
            true => Some(self.options().write(true).open(&path)?),
            false => None,
        };
        Ok(Arc::new(Segment { file, sync, own, plain }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, rustix::fs::AtFlags::empty())?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.fd)?)
    }

    fn random(&self, out: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < out.len() {
            filled += rustix::rand::getrandom(&mut out[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(())
    }

    fn blocks(&self, name: &str) -> io::Result<Blocks> {
        let file = self.options().open(self.path.join(name))?;
        let geometry = file.geometry();
        let least = match file.mode().wants_direct() {
            true => geometry.offset_align().max(geometry.read_offset_align()),
            false => 1,
        };
        // Blocks of the file system: writes of these run side by side, and no disk of 4 KiB sectors rewrites one.
        Ok(Blocks { least, best: least.max(geometry.block()) })
    }
}

/// What a sync has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sync {
    All,
    Data,
    /// Nothing: writes were durable when they returned.
    Done,
}

/// An open segment.
#[derive(Debug)]
struct Segment {
    file: File,
    sync: Sync,
    own: Option<Own>,
    /// Where writes are durable when they return, a descriptor whose writes are not.
    plain: Option<File>,
}

impl Segment {
    fn written(&self) -> Written {
        if self.sync == Sync::Done { Written::Durable } else { Written::Volatile }
    }
}

impl SegmentFile for Segment {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.size()?)
    }

    fn allocate(&self, size: u64) -> io::Result<bool> {
        match self.file.allocate(0..size, true) {
            Err(error) if error.errno() == Errno::OPNOTSUPP => {
                self.file.set_size(size)?;
                Ok(false)
            }
            other => {
                other?;
                Ok(true)
            }
        }
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < out.len() {
            match self.file.read_at(&mut out[filled..], offset + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        Ok(filled)
    }

    fn write_at(&self, blocks: &[u8], offset: u64, commit: bool) -> io::Result<Written> {
        let Some(own) = &self.own else {
            self.file.write_at(blocks, offset)?;
            return Ok(self.written());
        };
        let dsync = own.dsync && commit;
        own.write(blocks, offset, dsync)?;
        Ok(if dsync { Written::Durable } else { self.written() })
    }

    fn write_ahead(&self, zeros: &[u8], offset: u64, length: u64) -> io::Result<()> {
        let file = self.plain.as_ref().unwrap_or(&self.file);
        for at in (0..length).step_by(zeros.len()) {
            let count = (length - at).min(zeros.len() as u64) as usize;
            file.write_at(&zeros[..count], offset + at)?;
        }
        Ok(file.sync_data()?)
    }

    fn untorn(&self, block: u64) -> Untorn {
        let direct = self.own.as_ref().is_some_and(|own| own.route == Route::Direct);
        if direct { claim(self.file.geometry(), block) } else { Untorn::No }
    }

    fn write_untorn(&self, block: &[u8], offset: u64, commit: bool) -> io::Result<Written> {
        let own = self.own.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let dsync = own.dsync && commit;
        own.write_atomic(block, offset, dsync)?;
        Ok(if dsync { Written::Durable } else { self.written() })
    }

    fn sync(&self) -> io::Result<()> {
        match (self.sync, &self.own) {
            (Sync::Done, _) => {}
            (_, Some(own)) => own.sync(self.sync)?,
            (Sync::All, None) => self.file.sync_all()?,
            (Sync::Data, None) => self.file.sync_data()?,
        }
        Ok(())
    }

    fn settle(&self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.file.read_class().0 != Class::Direct
            && let Some(fd) = self.file.descriptor()
        {
            dio::residency::evict(fd, 0..self.file.size()?)?;
        }
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(self.file.sync_all()?)
    }
}

/// What the kernel claims of writes of one block with `RWF_ATOMIC`.
fn claim(geometry: &Geometry, block: u64) -> Untorn {
    let Some(atomic) = geometry.atomic().filter(|units| (units.unit_min..=units.unit_max).contains(&block)) else {
        return Untorn::No;
    };
    // xfs says how much the disk does, and 0 also where the disk does nothing, but then not when it is one block at most
    // (kernel, `xfs_get_atomic_write_max_opt`). Others have only what the disk does.
    let xfs = geometry.file_system().is_some_and(|file_system| file_system.name() == Some("xfs"));
    let by_disk = match atomic.unit_max_fast {
        0 => !xfs || atomic.unit_max <= geometry.block(),
        fast => block <= fast,
    };
    if by_disk { Untorn::Hardware } else { Untorn::Software }
}

/// A descriptor of its own for the writes and syncs of commits, with nothing around the one call of the system that each is.
///
/// A file of `dio` asks for the size before a write. Since timestamps became fine-grained (Linux 6.13), whoever asks for those
/// of a file, as `fstat(2)` does, makes the next write record a new one, and the sync behind it write the inode: half of what
/// the commit costs, or more. It has no call either for a write that is durable when it returns, one by one (`RWF_DSYNC`), or
/// that is never torn (`RWF_ATOMIC`).
///
/// The kernel tells every open file once of writes that were lost (`errseq_t`), and commits sync one after the other, so no
/// other sync is told in their place: those beside them are of zeros, by the descriptors of [`Segment`].
#[derive(Debug)]
struct Own {
    medium: Arc<OsMedium>,
    route: Route,
    align: usize,
    /// The last write of a commit is to be durable by itself.
    dsync: bool,
}

impl Own {
    /// `None` where writes pass through the page cache although they should not, or may, which the file looks after; and where
    /// its bytes are elsewhere.
    fn open(path: &Path, file: &File, method: Method) -> io::Result<Option<Own>> {
        let direct = match file.write_class().0 {
            _ if file.layout().is_some() => return Ok(None),
            Class::Direct if file.geometry().directness() == Directness::Reported => true,
            Class::Cached => false,
            _ => return Ok(None),
        };
        let mut flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        flags.set(OFlags::DIRECT, direct);
        flags.set(OFlags::SYNC, method == Method::OpenSync);
        flags.set(OFlags::DSYNC, matches!(method, Method::OpenSync | Method::OpenDatasync));
        let fd = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
        let (medium, route) = if direct {
            (OsMedium::direct(fd, OFlags::RDWR), Route::Direct)
        } else {
            (OsMedium::buffered(fd), Route::Buffered)
        };
        let align = if direct { file.geometry().offset_align() as usize } else { 1 };
        Ok(Some(Own { medium: Arc::new(medium), route, align, dsync: method == Method::RwfDsync }))
    }

    fn write_atomic(&self, block: &[u8], offset: u64, dsync: bool) -> io::Result<()> {
        let fd = self.medium.descriptor(self.route)?;
        let mut flags = dio_sys::RWF_ATOMIC;
        flags.set(ReadWriteFlags::DSYNC, dsync);
        loop {
            match rustix::io::pwritev2(fd, &[IoSlice::new(block)], offset, flags) {
                Ok(count) if count == block.len() => return Ok(()),
                // An atomic write is whole or an error (`pwritev2(2)`).
                Ok(_) => return Err(Errno::IO.into()),
                Err(Errno::INTR | Errno::AGAIN) => std::thread::yield_now(),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn write(&self, blocks: &[u8], offset: u64, dsync: bool) -> io::Result<()> {
        let flags = OpFlags { dsync, ..OpFlags::default() };
        scope(|loans| run_one(self.request(OpKind::Write, offset, Some(Mem::one(loans.lend(blocks))), flags)).outcome)?;
        Ok(())
    }

    fn sync(&self, sync: Sync) -> io::Result<()> {
        let kind = if sync == Sync::All { OpKind::SyncAll } else { OpKind::SyncData };
        run_one(self.request(kind, 0, None, OpFlags::default())).outcome?;
        Ok(())
    }

    fn request(&self, kind: OpKind, offset: u64, mem: Option<Mem>, flags: OpFlags) -> Request {
        let (target, route, align) = (RequestTarget::Medium(self.medium.clone()), self.route, self.align);
        Request { kind, route, flags, target, offset, mem, align, tag: 0, cache: CacheNote::default() }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
