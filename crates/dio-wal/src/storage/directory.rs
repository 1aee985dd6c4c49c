//! A storage in a directory of the system, whose files are opened through `dio`.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dio::block::{Mem, scope};
use dio::drive::{CacheNote, Request, RequestTarget, run_one};
use dio::engine::{Medium, OpFlags, OpKind, OsMedium, Route};
use dio::geometry::{Directness, Geometry};
use dio::stripe::LeaseWait;
use dio::{Class, File, Mode, Need, OpenOptions, SyncMethod};
use rustix::fs::{
    AtFlags, FileType, FlockOperation, OFlags, fcntl_getfl, fcntl_setfl, fstat, openat, statat,
};
use rustix::io::{Errno, ReadWriteFlags};

use super::interface::{AtomicWrites, BlockSizes, Durability, Method, SegmentFile, Storage};

/// A directory of segments.
///
/// ```
/// use std::sync::Arc;
/// use dio_wal::storage::{Directory, Method};
/// use dio_wal::{Log, Options};
/// # let directory = tempfile::tempdir()?;
/// let storage = Directory::open(directory.path(), true, Method::Fdatasync)?;
/// let log = Log::open_on(Arc::new(storage), Options::new().segment(1 << 20))?;
/// log.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    fd: OwnedFd,
    direct: bool,
    method: Method,
}

impl Directory {
    /// Opens an existing directory. With `direct`, files are read and written past the page cache
    /// where the file system supports that.
    ///
    /// # Errors
    /// Those of `open(2)`.
    pub fn open(path: impl AsRef<Path>, direct: bool, method: Method) -> io::Result<Directory> {
        let path = path.as_ref().to_owned();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, rustix::fs::Mode::empty())?;
        Ok(Directory { path, fd, direct, method })
    }

    /// The path that the directory was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of a file. Returns an error if the name exists and is neither a regular file nor a
    /// symbolic link: opening a FIFO would wait forever, and opening a device can have side
    /// effects.
    fn file_path(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        let found = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
            .map(|stat| FileType::from_raw_mode(stat.st_mode));
        match found {
            // The open that follows reports a symbolic link or a missing file.
            Ok(FileType::RegularFile | FileType::Symlink) | Err(_) => Ok(path),
            Ok(_) => Err(no_regular_file(name)),
        }
    }

    /// Opens a file for reading. Any process that may write to the directory can have replaced the
    /// file since [`Directory::file_path`] checked it. So the type of the open file is checked
    /// again, and the open does not wait if the file is a FIFO.
    fn open_to_read(&self, name: &str) -> io::Result<File> {
        let path = self.file_path(name)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = LeaseWait::Briefly
            .open(|more| openat(&self.fd, name, flags | more, rustix::fs::Mode::empty()))?;
        if FileType::from_raw_mode(fstat(&fd)?.st_mode) != FileType::RegularFile {
            return Err(no_regular_file(name));
        }
        // With `O_NONBLOCK`, io_uring would not wait for the disk on some file systems.
        fcntl_setfl(&fd, fcntl_getfl(&fd)? - OFlags::NONBLOCK)?;
        Ok(self.options().adopt(fd, path)?)
    }

    fn mode(&self) -> Mode {
        // The log orders its own reads and writes, so the kernel's locks suffice.
        if self.direct { Mode::Concurrent } else { Mode::Cached }
    }

    fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .mode(self.mode())
            .need(Need::Preferred)
            .permissions(0o600)
            .no_follow(true);
        options
    }
}

fn no_regular_file(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("'{name}' is no regular file"))
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
        // Closing the descriptor is not enough. A process that another thread has just forked
        // shares the descriptor, and with it the lock (flock(2)), until it executes its program.
        let _ = rustix::fs::flock(&self.fd, FlockOperation::Unlock);
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names =
            std::fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        // A name that is not UTF-8 is not the name of a segment.
        names.filter_map(Result::transpose).collect()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn SegmentFile>> {
        let path = self.file_path(name)?;
        // A file that has the name already may belong to another user, and may be open elsewhere:
        // it is not written into.
        match self.delete(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&self.fd, name, flags, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
        let file = self.options().write(true).adopt(fd, path)?;
        // One sync at the end makes a new segment durable, whatever the method.
        Ok(Arc::new(DirectoryFile { file, sync: SyncCall::Fsync, commit: None, plain: None }))
    }

    fn open(&self, name: &str, write: bool) -> io::Result<Arc<dyn SegmentFile>> {
        let (sync_method, sync) = match self.method {
            Method::Fsync => (SyncMethod::Explicit, SyncCall::Fsync),
            Method::Fdatasync | Method::RwfDsync => (SyncMethod::Explicit, SyncCall::Fdatasync),
            Method::OpenSync => (SyncMethod::Sync, SyncCall::Unneeded),
            Method::OpenDatasync => (SyncMethod::Dsync, SyncCall::Unneeded),
        };
        if !write {
            let file = self.open_to_read(name)?;
            return Ok(Arc::new(DirectoryFile { file, sync, commit: None, plain: None }));
        }
        // Opening a FIFO for reading and writing does not wait (fifo(7)), and a FIFO has no blocks.
        let path = self.file_path(name)?;
        let file = self.options().write(true).sync_method(sync_method).open(&path)?;
        let commit = CommitFile::open(&path, &file, self.method)?;
        // Zeros need one sync in the end, not a durable write each.
        let plain = match sync == SyncCall::Unneeded {
            true => Some(self.options().write(true).open(&path)?),
            false => None,
        };
        Ok(Arc::new(DirectoryFile { file, sync, commit, plain }))
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

    fn fill_random(&self, out: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < out.len() {
            filled +=
                rustix::rand::getrandom(&mut out[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(())
    }

    fn block_sizes(&self, name: &str) -> io::Result<BlockSizes> {
        let file = self.open_to_read(name)?;
        let geometry = file.geometry();
        let min = match file.mode().wants_direct() {
            true => geometry.offset_align().max(geometry.read_offset_align()),
            false => 1,
        };
        // The file system runs writes of its own blocks in parallel, and a disk with sectors of 4
        // KiB does not have to read such a block before it writes it.
        Ok(BlockSizes { min, preferred: min.max(geometry.block()) })
    }
}

/// The system call by which [`SegmentFile::sync`] makes writes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncCall {
    Fsync,
    Fdatasync,
    /// No call: writes are durable when they return.
    Unneeded,
}

/// An open segment.
#[derive(Debug)]
struct DirectoryFile {
    file: File,
    sync: SyncCall,
    /// The descriptor for commits, if the segment has one.
    commit: Option<CommitFile>,
    /// A descriptor whose writes need a sync, if those of `file` are durable when they return.
    plain: Option<File>,
}

impl DirectoryFile {
    /// Durability of a write that was not requested to be durable by itself.
    fn durability(&self) -> Durability {
        if self.sync == SyncCall::Unneeded { Durability::Durable } else { Durability::Volatile }
    }
}

impl SegmentFile for DirectoryFile {
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

    fn write_at(&self, blocks: &[u8], offset: u64, commit: bool) -> io::Result<Durability> {
        let Some(file) = &self.commit else {
            self.file.write_at(blocks, offset)?;
            return Ok(self.durability());
        };
        let dsync = file.dsync && commit;
        file.write(blocks, offset, dsync)?;
        Ok(if dsync { Durability::Durable } else { self.durability() })
    }

    fn write_zeros(&self, zeros: &[u8], offset: u64, length: u64) -> io::Result<()> {
        let file = self.plain.as_ref().unwrap_or(&self.file);
        for at in (0..length).step_by(zeros.len()) {
            let count = (length - at).min(zeros.len() as u64) as usize;
            file.write_at(&zeros[..count], offset + at)?;
        }
        Ok(file.sync_data()?)
    }

    fn atomic_writes(&self, block_bytes: u64) -> AtomicWrites {
        let direct = self.commit.as_ref().is_some_and(|file| file.route == Route::Direct);
        if direct {
            claimed_atomic_writes(self.file.geometry(), block_bytes)
        } else {
            AtomicWrites::Unsupported
        }
    }

    fn write_atomic(&self, block: &[u8], offset: u64, commit: bool) -> io::Result<Durability> {
        let file = self.commit.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        let dsync = file.dsync && commit;
        file.write_atomic(block, offset, dsync)?;
        Ok(if dsync { Durability::Durable } else { self.durability() })
    }

    fn sync(&self) -> io::Result<()> {
        match (self.sync, &self.commit) {
            (SyncCall::Unneeded, _) => {}
            (_, Some(file)) => file.sync(self.sync)?,
            (SyncCall::Fsync, None) => self.file.sync_all()?,
            (SyncCall::Fdatasync, None) => self.file.sync_data()?,
        }
        Ok(())
    }

    fn sync_and_drop_cache(&self) -> io::Result<()> {
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

/// Returns what the kernel claims about writes of one block with `RWF_ATOMIC`.
fn claimed_atomic_writes(geometry: &Geometry, block_bytes: u64) -> AtomicWrites {
    let units =
        geometry.atomic().filter(|units| (units.unit_min..=units.unit_max).contains(&block_bytes));
    let Some(units) = units else { return AtomicWrites::Unsupported };
    // xfs reports in `unit_max_fast` how much the disk itself writes atomically. It reports 0 in
    // two cases: the disk writes nothing atomically; or xfs offers one block at most, and then it
    // is the disk that does it (kernel, `xfs_get_atomic_write_max_opt`). Other file systems offer
    // only what the disk does, and report 0.
    let xfs = geometry.file_system().is_some_and(|file_system| file_system.name() == Some("xfs"));
    let by_disk = match units.unit_max_fast {
        0 => !xfs || units.unit_max <= geometry.block(),
        fast => block_bytes <= fast,
    };
    if by_disk { AtomicWrites::Hardware } else { AtomicWrites::Software }
}

/// A descriptor for the writes and syncs of commits, each of which is a single system call.
///
/// A [`File`] queries its size before a write. Since timestamps became fine-grained (Linux 6.13), a
/// query of a file's timestamps, which `fstat(2)` includes, makes the next write record a new
/// timestamp, and the sync behind it write the inode: half of the cost of a commit, or more. A
/// [`File`] also has no call for a single write that is durable when it returns (`RWF_DSYNC`) or
/// that is atomic (`RWF_ATOMIC`).
///
/// The kernel reports lost writes once to each open file (`errseq_t`). Commits sync one after the
/// other, and the syncs beside them, which are of zeros, use the other descriptors of
/// [`DirectoryFile`]. So no other sync receives the report that belongs to a commit.
#[derive(Debug)]
struct CommitFile {
    medium: Arc<OsMedium>,
    route: Route,
    /// Alignment of direct requests in bytes.
    align: usize,
    /// Whether the last write of a commit is to be durable by itself.
    dsync: bool,
}

impl CommitFile {
    /// Opens a descriptor for commits to `file`. Returns `None` if writes that should be direct
    /// pass through the page cache, or may do so, which only `file` detects. Also returns `None` if
    /// the bytes of `file` are in other files.
    fn open(path: &Path, file: &File, method: Method) -> io::Result<Option<CommitFile>> {
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
        Ok(Some(CommitFile {
            medium: Arc::new(medium),
            route,
            align,
            dsync: method == Method::RwfDsync,
        }))
    }

    fn write_atomic(&self, block: &[u8], offset: u64, dsync: bool) -> io::Result<()> {
        let fd = self.medium.descriptor(self.route)?;
        let mut flags = dio_sys::RWF_ATOMIC;
        flags.set(ReadWriteFlags::DSYNC, dsync);
        loop {
            match rustix::io::pwritev2(fd, &[IoSlice::new(block)], offset, flags) {
                Ok(count) if count == block.len() => return Ok(()),
                // An atomic write is complete or fails (`pwritev2(2)`).
                Ok(_) => return Err(Errno::IO.into()),
                Err(Errno::INTR | Errno::AGAIN) => std::thread::yield_now(),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn write(&self, blocks: &[u8], offset: u64, dsync: bool) -> io::Result<()> {
        let flags = OpFlags { dsync, ..OpFlags::default() };
        scope(|loans| {
            run_one(self.request(OpKind::Write, offset, Some(Mem::one(loans.lend(blocks))), flags))
                .outcome
        })?;
        Ok(())
    }

    fn sync(&self, call: SyncCall) -> io::Result<()> {
        let kind = if call == SyncCall::Fsync { OpKind::SyncAll } else { OpKind::SyncData };
        run_one(self.request(kind, 0, None, OpFlags::default())).outcome?;
        Ok(())
    }

    fn request(&self, kind: OpKind, offset: u64, mem: Option<Mem>, flags: OpFlags) -> Request {
        let (target, route, align) =
            (RequestTarget::Medium(self.medium.clone()), self.route, self.align);
        Request {
            kind,
            route,
            flags,
            target,
            offset,
            mem,
            align,
            tag: 0,
            cache: CacheNote::default(),
        }
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    use super::*;

    #[test]
    fn a_pipe_in_the_place_of_a_segment_is_refused_and_not_waited_for() {
        let scratch = tempfile::tempdir().unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, scratch.path().join("pipe"), 0o600.into()).unwrap();
        let storage = Directory::open(scratch.path(), true, Method::Fdatasync).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let opened = [false, true].map(|write| storage.open("pipe", write).err());
            let [read, written] = opened;
            let _ = tell.send([
                read,
                written,
                storage.block_sizes("pipe").err(),
                storage.create("pipe").err(),
            ]);
        });
        let errors = told.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
        for error in errors {
            assert_eq!(error.unwrap().to_string(), "'pipe' is no regular file");
        }
    }

    /// Another thread exchanges a segment for a FIFO and back, so that some check of the type finds
    /// the segment and the open behind it finds the FIFO.
    #[test]
    fn a_segment_that_is_exchanged_for_a_pipe_is_never_waited_for() {
        let scratch = tempfile::tempdir().unwrap();
        let (segment, pipe) = (scratch.path().join("segment"), scratch.path().join("pipe"));
        std::fs::write(&segment, vec![0; 4096]).unwrap();
        rustix::fs::mkfifoat(CWD, &pipe, 0o600.into()).unwrap();
        let is_over = AtomicBool::new(false);
        let (tell, told) = mpsc::channel();
        let storage = Directory::open(scratch.path(), true, Method::Fdatasync).unwrap();
        let reader = std::thread::spawn(move || {
            let end = Instant::now() + Duration::from_secs(2);
            while Instant::now() < end {
                let errors =
                    [storage.open("segment", false).err(), storage.block_sizes("segment").err()];
                for error in errors.into_iter().flatten() {
                    assert_eq!(error.to_string(), "'segment' is no regular file");
                }
                let _ = tell.send(());
            }
        });
        let end = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    renameat_with(CWD, &segment, CWD, &pipe, RenameFlags::EXCHANGE).unwrap();
                }
            });
            // A reader that waits for the FIFO sends nothing more.
            let end = std::iter::from_fn(|| Some(told.recv_timeout(Duration::from_secs(20))))
                .find_map(Result::err);
            is_over.store(true, Ordering::Relaxed);
            end
        });
        assert_eq!(
            end,
            Some(mpsc::RecvTimeoutError::Disconnected),
            "the reader waits for the FIFO"
        );
        reader.join().unwrap();
    }
}
