//! The server of the modelled disks: a FUSE file system whose files are images in memory. Each
//! request is answered when the model of its disk says so.
//!
//! The server runs in a process of its own. A process that waits for a modelled disk may wait in
//! the kernel, where no signal reaches it. If the server were part of that process, the process
//! would keep open the FUSE device whose closing ends the wait. For the same reason the server has
//! a mount namespace of its own: the last process of a namespace unmounts what is mounted there.
//! The server ends when its standard input ends, which also happens when its parent ends. The
//! kernel then fails all open requests, and the waiting processes go on.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use dio_fuse::{
    Changes, Entry, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, SessionConfig, WriteFlags,
};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::model::{Channels, Direction, Timing};
use crate::BenchError;

/// Requests that the kernel may send before answers arrive: more than the loop devices of all disks
/// have.
const MOST_WAITING: u16 = 2048;
/// Threads that receive requests. They only copy, and do not wait.
const THREADS: usize = 3;
/// How long the kernel may cache attributes: practically for ever, since an image's attributes do
/// not change.
const FOR_EVER: Duration = Duration::from_secs(86_400);
/// The inode number of the first image; 1 is the directory.
const FIRST: u64 = 2;

/// The line that the server prints once its images exist.
pub(super) const READY: &str = "ready";

/// The disks to serve.
#[derive(Clone, Debug)]
pub struct Service {
    /// The directory in which the images appear, as `0`, `1` and so on.
    pub at: std::path::PathBuf,
    /// Number of disks.
    pub disks: usize,
    /// Bytes of each disk; memory is allocated for written data only.
    pub bytes: u64,
    /// The performance of each disk.
    pub timing: Timing,
}

/// Serves modelled disks until standard input ends. Requests are answered at once until a first
/// byte arrives on standard input; from then on the model delays them.
///
/// # Errors
/// [`BenchError`]: not enough memory, or no right to mount.
pub fn serve(service: &Service) -> Result<(), BenchError> {
    let failed = |operation| BenchError::system(operation, &service.at);
    let fuse = mount_images(&service.at)?;
    // File systems that others mount on the images must not belong to this process: at its end it
    // would unmount them, and wait for answers that only it can give.
    dio_sys::unshare_mounts(false).map_err(failed("leave the mounts above"))?;
    let mounted = DiskMount(&service.at);
    let timed = Arc::new(AtomicBool::new(false));
    let disks =
        (0..service.disks).map(|_| Disk::start(service, &timed)).collect::<io::Result<Vec<_>>>();
    let disks = disks.map_err(failed("make images for"))?;
    let config = SessionConfig { threads: THREADS, clone_device: true, user_limits: None };
    let session = Session::from_fd(Images { disks, bytes: service.bytes }, fuse.into(), config);
    let _serving = session.and_then(Session::spawn).map_err(failed("serve"))?;
    println!("{READY}");
    io::stdout().flush().map_err(failed("announce"))?;
    // The first byte means that the setup on the disks is complete. The end of the input means that
    // the server has to end.
    let mut input = io::stdin().lock();
    if matches!(input.read(&mut [0]), Ok(1)) {
        timed.store(true, Relaxed);
        let _ = input.read_to_end(&mut Vec::new());
    }
    drop(mounted);
    Ok(())
}

/// Mounts the images' file system, and returns its FUSE device.
fn mount_images(at: &Path) -> Result<File, BenchError> {
    let device = Path::new("/dev/fuse");
    let fuse = OpenOptions::new()
        .read(true)
        .write(true)
        .open(device)
        .map_err(BenchError::system("open", device))?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", fuse.as_raw_fd());
    let options = CString::new(options)
        .map_err(|_| BenchError::Asked("the options hold a zero byte".to_owned()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("dio-bench-disks", at, "fuse.dio-bench", flags, options.as_c_str())
        .map_err(BenchError::system("mount", at))?;
    Ok(fuse)
}

/// A mount that is detached when dropped, however busy it is, in this process's namespace.
struct DiskMount<'a>(&'a Path);

impl Drop for DiskMount<'_> {
    fn drop(&mut self) {
        let _ = unmount(self.0, UnmountFlags::DETACH);
    }
}

/// An answer that is sent at a later time.
#[derive(Debug)]
enum DiskAnswer {
    Bytes(ReplyData, Vec<u8>, usize),
    Written(ReplyWrite, u32),
    Flushed(ReplyEmpty),
}

/// Answers, ordered by their time, and by arrival if the times are equal.
type DueAnswers = BTreeMap<(Instant, u64), DiskAnswer>;

#[derive(Debug)]
struct DiskRequests {
    channels: Channels,
    due: DueAnswers,
    arrived: u64,
    /// Buffers of answered reads, for reuse.
    spare: Vec<Vec<u8>>,
}

/// A disk: its contents, and a thread that answers its requests.
#[derive(Debug)]
struct Disk {
    image: File,
    /// Set once the disk's timing applies; until then requests are answered at once.
    timed: Arc<AtomicBool>,
    queue: Mutex<DiskRequests>,
    earlier: Condvar,
}

impl Disk {
    fn start(service: &Service, timed: &Arc<AtomicBool>) -> io::Result<Arc<Disk>> {
        let image = File::from(memfd_create("dio-bench-disk", MemfdFlags::CLOEXEC)?);
        image.set_len(service.bytes)?;
        let channels = Channels::new(service.timing, Instant::now());
        let queue =
            DiskRequests { channels, due: DueAnswers::new(), arrived: 0, spare: Vec::new() };
        let disk = Arc::new(Disk {
            image,
            timed: Arc::clone(timed),
            queue: Mutex::new(queue),
            earlier: Condvar::new(),
        });
        let answering = Arc::clone(&disk);
        thread::Builder::new().name("disk".to_owned()).spawn(move || answering.answer())?;
        Ok(disk)
    }

    fn queue(&self) -> MutexGuard<'_, DiskRequests> {
        self.queue.lock()
    }

    /// Queues an answer to be sent at `due`.
    fn put(&self, queue: &mut DiskRequests, due: Instant, answer: DiskAnswer) {
        let due =
            if self.timed.load(Relaxed) { due } else { queue.channels.forget(Instant::now()) };
        queue.arrived += 1;
        queue.due.insert((due, queue.arrived), answer);
        self.earlier.notify_one();
    }

    /// Sends the answers that are due, and sleeps until the next one is.
    fn answer(&self) {
        let mut queue = self.queue();
        loop {
            let now = Instant::now();
            let next = queue.due.first_key_value().map(|((due, _), _)| *due);
            match next {
                Some(due) if due <= now => {
                    let answer = queue.due.pop_first().expect("it is there").1;
                    let spare = MutexGuard::unlocked(&mut queue, || give(answer));
                    queue.spare.extend(spare);
                }
                Some(due) => {
                    self.earlier.wait_until(&mut queue, due);
                }
                None => self.earlier.wait(&mut queue),
            }
        }
    }

    fn read(&self, arrival: Instant, offset: u64, size: usize, reply: ReplyData) {
        let (due, mut memory) = {
            let mut queue = self.queue();
            (
                queue.channels.transfer(arrival, Direction::Read, size as u64),
                queue.spare.pop().unwrap_or_default(),
            )
        };
        if memory.len() < size {
            memory.resize(size, 0);
        }
        match self.image.read_exact_at(&mut memory[..size], offset) {
            Ok(()) => self.put(&mut self.queue(), due, DiskAnswer::Bytes(reply, memory, size)),
            Err(error) => reply.error(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }

    fn write(&self, arrival: Instant, offset: u64, data: &[u8], reply: ReplyWrite) {
        let due = self.queue().channels.transfer(arrival, Direction::Write, data.len() as u64);
        match self.image.write_all_at(data, offset) {
            Ok(()) => {
                self.put(&mut self.queue(), due, DiskAnswer::Written(reply, data.len() as u32))
            }
            Err(error) => reply.error(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }
}

/// Sends an answer, and returns the buffer that it used.
fn give(answer: DiskAnswer) -> Option<Vec<u8>> {
    match answer {
        DiskAnswer::Bytes(reply, memory, size) => {
            reply.data(&memory[..size]);
            Some(memory)
        }
        DiskAnswer::Written(reply, size) => {
            reply.written(size);
            None
        }
        DiskAnswer::Flushed(reply) => {
            reply.ok();
            None
        }
    }
}

/// The file system.
#[derive(Debug)]
struct Images {
    disks: Vec<Arc<Disk>>,
    bytes: u64,
}

impl Images {
    fn disk(&self, inode: INodeNo) -> Option<&Arc<Disk>> {
        self.disks.get(usize::try_from(inode.0.checked_sub(FIRST)?).ok()?)
    }

    fn attr(&self, inode: INodeNo) -> FileAttr {
        let directory = inode == INodeNo::ROOT;
        FileAttr {
            ino: inode,
            size: if directory { 0 } else { self.bytes },
            blocks: self.bytes / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if directory { FileType::Directory } else { FileType::RegularFile },
            perm: if directory { 0o700 } else { 0o600 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Images {
    fn init(&mut self, _request: &Request<'_>, config: &mut KernelConfig) -> io::Result<()> {
        // Without this the kernel waits for each request of a direct transfer before it sends the
        // next.
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO)
            .map_err(|_| io::ErrorKind::Unsupported)?;
        // The kernel lowers the value to the greatest possible one, which is good enough.
        let _ = config.set_max_background(MOST_WAITING);
        let _ = config.set_congestion_threshold(MOST_WAITING);
        Ok(())
    }

    fn lookup(&self, _request: &Request<'_>, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = name.to_str().and_then(|name| name.parse::<u64>().ok());
        let inode = number.map(|number| INodeNo(number.saturating_add(FIRST)));
        match inode.filter(|inode| self.disk(*inode).is_some()) {
            Some(inode) => reply.entry(&Entry {
                inode,
                generation: Generation(0),
                entry_ttl: FOR_EVER,
                attr: self.attr(inode),
                attr_ttl: FOR_EVER,
            }),
            None => reply.error(Errno::NOENT),
        }
    }

    fn getattr(
        &self,
        _request: &Request<'_>,
        inode: INodeNo,
        _fh: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        reply.attr(&FOR_EVER, &self.attr(inode));
    }

    fn setattr(
        &self,
        _request: &Request<'_>,
        inode: INodeNo,
        _changes: &Changes,
        reply: ReplyAttr,
    ) {
        // Only times change, and no program reads them.
        reply.attr(&FOR_EVER, &self.attr(inode));
    }

    fn open(
        &self,
        _request: &Request<'_>,
        _inode: INodeNo,
        _flags: OpenFlags,
        _kill: bool,
        reply: ReplyOpen,
    ) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _request: &Request<'_>,
        inode: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let arrival = Instant::now();
        let size = u64::from(size).min(self.bytes.saturating_sub(offset));
        match self.disk(inode) {
            Some(disk) => disk.read(arrival, offset, size as usize, reply),
            None => reply.error(Errno::ISDIR),
        }
    }

    fn write(
        &self,
        _request: &Request<'_>,
        inode: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let arrival = Instant::now();
        match self.disk(inode) {
            Some(_) if offset.saturating_add(data.len() as u64) > self.bytes => {
                reply.error(Errno::NOSPC)
            }
            Some(disk) => disk.write(arrival, offset, data, reply),
            None => reply.error(Errno::ISDIR),
        }
    }

    fn flush(
        &self,
        _request: &Request<'_>,
        _inode: INodeNo,
        _fh: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request<'_>,
        inode: INodeNo,
        _fh: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        let Some(disk) = self.disk(inode) else { return reply.ok() };
        let mut queue = disk.queue();
        let due = queue.channels.flush(Instant::now());
        disk.put(&mut queue, due, DiskAnswer::Flushed(reply));
    }

    fn fallocate(
        &self,
        _request: &Request<'_>,
        inode: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some(disk) = self.disk(inode) else { return reply.error(Errno::ISDIR) };
        // A loop device turns a discard into a hole, which frees the memory. The file must not
        // grow.
        let mode =
            FallocateFlags::from_bits_retain(mode.cast_unsigned()) | FallocateFlags::KEEP_SIZE;
        match fallocate(&disk.image, mode, offset, length) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }
}
