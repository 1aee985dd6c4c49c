//! A directory of the system, whose files are those of `dio`.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dio::block::{Mem, scope};
use dio::drive::run_here;
use dio::engine::{Flags, Kind, Medium, Op, OsMedium, Route};
use dio::geometry::Geometry;
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

impl Storage for Directory {
    fn lock(&self) -> io::Result<bool> {
        match rustix::fs::flock(&self.fd, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = std::fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        // A name that is not UTF-8 is none of ours.
        names.filter_map(Result::transpose).collect()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn SegmentFile>> {
        let file = self.options().write(true).create(true).truncate(true).open(self.path.join(name))?;
        // What fills a new segment is made durable by one sync at the end, whatever the method.
        Ok(Arc::new(Segment { file, sync: Sync::All, own: None }))
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
        let wanted = self.method == Method::RwfDsync || file.geometry().atomic().is_some();
        let own = if write && wanted { Some(Own::open(&path, &file, self.method)?) } else { None };
        Ok(Arc::new(Segment { file, sync, own }))
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

    fn allocate(&self, size: u64) -> io::Result<()> {
        match self.file.allocate(0..size, true) {
            Err(error) if error.errno() == Errno::OPNOTSUPP => Ok(self.file.set_size(size)?),
            other => Ok(other?),
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
        if let Some(own) = self.own.as_ref().filter(|own| own.dsync && commit) {
            own.write_dsync(blocks, offset)?;
            return Ok(Written::Durable);
        }
        self.file.write_at(blocks, offset)?;
        Ok(self.written())
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
        match self.sync {
            Sync::All => self.file.sync_all()?,
            Sync::Data => self.file.sync_data()?,
            Sync::Done => {}
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

/// A descriptor of its own for writes that a file of `dio` has no call for: durable when they return, one by one
/// (`RWF_DSYNC`), or never torn (`RWF_ATOMIC`).
#[derive(Debug)]
struct Own {
    medium: Arc<OsMedium>,
    route: Route,
    align: usize,
    /// The last write of a commit is to be durable by itself.
    dsync: bool,
}

impl Own {
    fn open(path: &Path, file: &File, method: Method) -> io::Result<Own> {
        let direct = file.mode().wants_direct() && file.write_class().0 == Class::Direct;
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
        Ok(Own { medium: Arc::new(medium), route, align, dsync: method == Method::RwfDsync })
    }

    fn write_atomic(&self, block: &[u8], offset: u64, dsync: bool) -> io::Result<()> {
        let fd = self.medium.descriptor(self.route)?;
        let mut flags = dio::sys::RWF_ATOMIC;
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

    fn write_dsync(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        let medium: Arc<dyn Medium> = self.medium.clone();
        let flags = Flags { dsync: true, dontcache: false };
        scope(|loans| {
            let mem = Mem::one(loans.lend(blocks));
            let op = Op {
                kind: Kind::Write,
                route: self.route,
                flags,
                medium,
                offset,
                done: 0,
                mem: Some(mem),
                align: self.align,
                stalled: 0,
                pages: None,
                tag: 0,
            };
            run_here(op).outcome
        })?;
        Ok(())
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
