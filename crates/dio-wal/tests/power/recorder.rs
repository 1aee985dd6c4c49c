//! A disk whose writes and flushes are all recorded: a file on a FUSE file system of this test,
//! below a loop device.

use std::collections::VecDeque;
use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use dio_fuse::*;
use dio_test::Rng;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::FallocateFlags;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

const LONG: Duration = Duration::from_secs(3600);
const DISK: INodeNo = INodeNo(2);
/// Unit that a disk writes wholly or not at all, in bytes.
const SECTOR: usize = 512;

/// A change of the disk.
#[derive(Clone)]
pub(crate) enum Event {
    Write { offset: u64, bytes: Arc<[u8]> },
    Zeros { offset: u64, length: u64 },
    Flush,
}

#[derive(Clone)]
struct Recorder {
    /// The current contents of the disk.
    image: Arc<File>,
    size: u64,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Recorder {
    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock()
    }

    fn attr(&self, inode: INodeNo) -> FileAttr {
        let kind = if inode == DISK { FileType::RegularFile } else { FileType::Directory };
        let perm = if inode == DISK { 0o600 } else { 0o755 };
        FileAttr {
            ino: inode,
            size: self.size,
            blocks: self.size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl Filesystem for Recorder {
    fn init(&mut self, _: &Request<'_>, config: &mut KernelConfig) -> io::Result<()> {
        config.set_max_write(1 << 20).map_err(|_| io::ErrorKind::Unsupported)?;
        Ok(())
    }

    fn lookup(&self, _: &Request<'_>, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name != "disk" {
            return reply.error(Errno::NOENT);
        }
        let attr = self.attr(DISK);
        reply.entry(&Entry {
            inode: DISK,
            generation: Generation(1),
            entry_ttl: LONG,
            attr,
            attr_ttl: LONG,
        });
    }

    fn getattr(&self, _: &Request<'_>, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&LONG, &self.attr(inode));
    }

    fn open(&self, _: &Request<'_>, _: INodeNo, _: OpenFlags, _: bool, reply: ReplyOpen) {
        reply.opened(
            FileHandle(1),
            FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
        );
    }

    fn read(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; size as usize];
        match self.image.read_at(&mut bytes, offset) {
            Ok(count) => reply.data(&bytes[..count]),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn write(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The lock covers the write and its record, so that the events have the order in which the
        // disk changed.
        let mut events = self.events();
        match self.image.write_all_at(data, offset) {
            Ok(()) => events.push(Event::Write { offset, bytes: data.into() }),
            Err(error) => return reply.error(errno(&error)),
        }
        drop(events);
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request<'_>, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.events().push(Event::Flush);
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request<'_>,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        let mut events = self.events();
        match zero(&self.image, offset, length) {
            Ok(()) => events.push(Event::Zeros { offset, length }),
            Err(error) => return reply.error(errno(&error)),
        }
        drop(events);
        reply.ok();
    }
}

fn zero(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(file, flags, offset, length)?)
}

/// A disk that is being recorded. It is taken down when this is dropped.
pub(crate) struct Recorded {
    recorder: Recorder,
    serving: Option<BackgroundSession>,
    directory: tempfile::TempDir,
}

impl Recorded {
    /// Makes a disk from the contents of `image`. Every change of it is recorded from now on.
    pub(crate) fn new(image: &Path) -> io::Result<Recorded> {
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
        let directory = dio_test::file_systems()[0].dir();
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = CString::new(options)?;
        mount(
            "dio-wal-test",
            directory.path(),
            "fuse.dio",
            MountFlags::NOSUID,
            options.as_c_str(),
        )?;
        let image = OpenOptions::new().read(true).write(true).open(image)?;
        let size = image.metadata()?.len();
        let recorder = Recorder { image: Arc::new(image), size, events: Arc::default() };
        let session = Session::from_fd(
            recorder.clone(),
            device.into(),
            SessionConfig { threads: 2, clone_device: true, user_limits: None },
        )?;
        Ok(Recorded { recorder, serving: Some(session.spawn()?), directory })
    }

    /// The disk, as a file.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    /// Number of events so far.
    pub(crate) fn happened(&self) -> usize {
        self.recorder.events().len()
    }

    /// All events so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.recorder.events().clone()
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = unmount(self.directory.path(), UnmountFlags::DETACH);
        let served = self.serving.take().map(BackgroundSession::join);
        if !std::thread::panicking() {
            served.expect("it is taken once").unwrap();
        }
    }
}

/// Changes an image to what a power cut leaves after some events: everything before the last flush,
/// and random sectors of what came after it.
pub(crate) fn cut(image: &Path, events: &[Event], random: &mut Rng) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(image)?;
    let flushed = events.iter().rposition(|event| matches!(event, Event::Flush)).unwrap_or(0);
    let (durable, volatile) = events.split_at(flushed);
    durable.iter().try_for_each(|event| apply(&file, event, |_| true))?;
    let way = random.range(0..4);
    let last = random.range_usize(0..volatile.len() + 1);
    for (number, event) in volatile.iter().enumerate() {
        match way {
            0 => {}
            1 => apply(&file, event, |_| number < last)?,
            2 => apply(&file, event, |_| number != last)?,
            _ => apply(&file, event, |_| random.bool(0.5))?,
        }
    }
    Ok(())
}

fn apply(file: &File, event: &Event, mut keep: impl FnMut(usize) -> bool) -> io::Result<()> {
    match event {
        Event::Flush => Ok(()),
        Event::Zeros { offset, length } => {
            if keep(0) {
                zero(file, *offset, *length)?;
            }
            Ok(())
        }
        Event::Write { offset, bytes } => {
            // Adjacent kept sectors are written together.
            let mut kept = VecDeque::new();
            for (number, sector) in
                bytes.chunks(SECTOR).enumerate().filter(|(number, _)| keep(*number))
            {
                let from = number * SECTOR;
                match kept.back_mut() {
                    Some((_, end)) if *end == from => *end += sector.len(),
                    _ => kept.push_back((from, from + sector.len())),
                }
            }
            kept.into_iter().try_for_each(|(from, to)| {
                file.write_all_at(&bytes[from..to], offset + from as u64)
            })
        }
    }
}
