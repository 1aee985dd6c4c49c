//! A directory of the system, whose files are those of `dio`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dio::block::{Mem, scope};
use dio::drive::run_here;
use dio::engine::{Flags, Kind, Medium, Op, OsMedium, Route};
use dio::{File, Mode, Need, OpenOptions, SyncMethod};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::{Blocks, Method, SegmentFile, Storage, Written};

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
        Ok(Arc::new(Segment { file, sync: Sync::All, dsync: None }))
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
        let dsync = if write && self.method == Method::RwfDsync { Some(Dsync::open(&path, &file)?) } else { None };
        Ok(Arc::new(Segment { file, sync, dsync }))
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
    dsync: Option<Dsync>,
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
        if let Some(dsync) = self.dsync.as_ref().filter(|_| commit) {
            dsync.write(blocks, offset)?;
            return Ok(Written::Durable);
        }
        self.file.write_at(blocks, offset)?;
        Ok(if self.sync == Sync::Done { Written::Durable } else { Written::Volatile })
    }

    fn sync(&self) -> io::Result<()> {
        match self.sync {
            Sync::All => self.file.sync_all()?,
            Sync::Data => self.file.sync_data()?,
            Sync::Done => {}
        }
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(self.file.sync_all()?)
    }
}

/// Writes that are durable when they return, one by one (`RWF_DSYNC`), which a file of `dio` has no call for: operations of
/// the engine's seam, run in the calling thread.
#[derive(Debug)]
struct Dsync {
    medium: Arc<OsMedium>,
    route: Route,
    align: usize,
}

impl Dsync {
    fn open(path: &Path, file: &File) -> io::Result<Dsync> {
        let direct = file.mode().wants_direct() && file.write_class().0 == dio::Class::Direct;
        let access = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let flags = if direct { access | OFlags::DIRECT } else { access };
        let fd = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
        let (medium, route) = if direct {
            (OsMedium::direct(fd, OFlags::RDWR), Route::Direct)
        } else {
            (OsMedium::buffered(fd), Route::Buffered)
        };
        let align = if direct { file.geometry().offset_align() as usize } else { 1 };
        Ok(Dsync { medium: Arc::new(medium), route, align })
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
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
