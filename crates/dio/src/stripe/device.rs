//! A block device as an object: the whole device, from its first byte.
//!
//! A file knows how long it is, a device does not, and holds bytes of before where nothing was written yet. So the length is kept in a
//! record on the device ([`Record`]), and never comprises a byte that was not written or zeroed:
//!
//! - What is written behind the end counts from when all before it is there too; until then the object is as long as it was.
//! - Growing otherwise writes zeros, by the command that disks have for that, where they have it (`fallocate(2)`).
//! - The record is rewritten in the page cache of the device at each change, so that other processes see it, and survives the
//!   process. It also says what is durable, which is raised by syncs, after the bytes were flushed: that counts after a power
//!   cut, which is known by the kernel's `boot_id`.
//!
//! One process at a time writes: it has the device open with `O_EXCL`, which also keeps out `mount` and `mkfs`. All opens of that process
//! share a [`Writer`], which holds the length in memory. The last one makes it durable when it is closed.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::create::errno;
use super::format::{FormatError, Id, RECORD_AT, RECORD_LEN, Record};
use crate::drive::Finished;
use crate::engine::{Medium, Op, OpKind, OsMedium, Route};
use crate::file::FileError;
use crate::geometry::{align_down, align_up};
use crate::layout::STRIPE_BYTES_MIN;
use dio_sys::uninterrupted;

/// How long whoever wants to write waits for a writer that is just closing.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a record is read that somebody may just be writing.
const ATTEMPTS: u32 = 5;

/// The mark of a read whose end is not known.
const UNKNOWN: u64 = u64::MAX;

/// What is empty, or wiped, when a file is made on a device, and is wiped when it is removed: so many bytes at either end. All file
/// systems, partition tables and volume managers leave their signatures there.
const ENDS: u64 = 1 << 20;

/// What is wrong with a device whose header and length would be in one block.
pub(super) const LARGE_BLOCKS: &str = "has blocks of more than 4096 bytes";

/// The devices that this process has open as objects, by number and file.
static DEVICES: LazyLock<Mutex<Vec<Known>>> = LazyLock::new(Mutex::default);
type Known = (u64, Weak<Device>);

/// Which system is running; nothing where it does not tell.
pub static BOOT: LazyLock<String> = LazyLock::new(|| {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.split_ascii_whitespace().next().unwrap_or_default().to_owned()
});

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all opens of a device in this process have in common.
#[derive(Debug)]
pub(super) struct Device {
    id: Id,
    path: PathBuf,
    start: u64,
    writer: Mutex<Weak<Writer>>,
    /// Its file was removed: it is wiped through this when nobody has it open any more.
    doomed: Mutex<Option<fs::File>>,
}

impl Device {
    /// The one with this number (`st_rdev`), as an object of a file, whose data begin at `start`.
    pub(super) fn of(number: u64, id: Id, path: &Path, start: u64) -> Arc<Device> {
        let mut devices = lock(&DEVICES);
        devices.retain(|(_, device)| device.strong_count() > 0);
        if let Some(device) = known(&devices, number, id) {
            return device;
        }
        let (writer, doomed) = Default::default();
        let device = Arc::new(Device { id, path: path.to_owned(), start, writer, doomed });
        devices.push((number, Arc::downgrade(&device)));
        device
    }

    /// What the record says; what is wrong with it in words.
    pub(super) fn record(&self, fd: impl AsFd) -> Result<Record, (Errno, String)> {
        read_record(fd, self.id, self.start)
    }

    /// The length in bytes from the start of the device.
    fn length(&self, fd: impl AsFd) -> Result<u64, (Errno, String)> {
        let writer = lock(&self.writer).upgrade();
        match writer {
            Some(writer) => Ok(lock(&writer.length).now),
            None => self.record(fd).map(|record| record.length_in(&BOOT)),
        }
    }

    /// The right to write, shared within the process, and whether nobody had it before.
    pub(super) fn write(self: &Arc<Device>, fd: BorrowedFd<'_>) -> Result<(Arc<Writer>, bool), (Errno, String)> {
        let failed = |error: io::Error| (errno(&error), String::new());
        let mut known = lock(&self.writer);
        if let Some(writer) = known.upgrade() {
            return Ok((writer, false));
        }
        let file = open_alone(fd).map_err(failed)?;
        let block: u64 = rustix::fs::ioctl_blksszget(&file).map_err(|errno| failed(errno.into()))?.into();
        if block > STRIPE_BYTES_MIN {
            return Err((Errno::INVAL, LARGE_BLOCKS.to_owned()));
        }
        let record = self.record(&file)?;
        let now = record.length_in(&BOOT);
        let (durable, ahead) = (record.durable.min(now), Vec::new());
        let length = Mutex::new(Length { now, declared: durable, durable, ahead });
        let writer = Arc::new(Writer { device: Arc::clone(self), file, block, length, turn: Mutex::default() });
        *known = Arc::downgrade(&writer);
        Ok((writer, true))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Some(file) = lock(&self.doomed).take() {
            // Nobody is left to be told; what is not wiped is found by `dio stripe orphans`.
            let _ = open_alone(file.as_fd()).and_then(|file| wipe(&file));
        }
    }
}

fn known(devices: &[Known], number: u64, id: Id) -> Option<Arc<Device>> {
    let same = devices.iter().filter(|(known, _)| *known == number);
    same.filter_map(|(_, device)| device.upgrade()).find(|device| device.id == id)
}

/// How long an object is that is a device; what is wrong with it in words.
pub fn length_of(fd: impl AsFd, id: Id, start: u64) -> Result<u64, (Errno, String)> {
    let number = rustix::fs::fstat(&fd).map_err(|errno| (errno, String::new()))?.st_rdev;
    let device = known(&lock(&DEVICES), number, id);
    match device {
        Some(device) => device.length(fd),
        None => read_record(fd, id, start).map(|record| record.length_in(&BOOT)),
    }
}

pub(super) fn read_record(fd: impl AsFd, id: Id, start: u64) -> Result<Record, (Errno, String)> {
    let mut bytes = [0; RECORD_LEN as usize];
    let mut attempt = || {
        let count = rustix::io::pread(&fd, &mut bytes[..], RECORD_AT).map_err(|errno| (errno, String::new()))?;
        Record::decode(&bytes[..count]).map_err(|error| {
            let errno = if matches!(error, FormatError::Version(_)) { Errno::PROTONOSUPPORT } else { Errno::BADMSG };
            (errno, format!("has a length record that cannot be used: {error}"))
        })
    };
    let mut record = attempt();
    for _ in 1..ATTEMPTS {
        // Reading beside a writer may find a part of each.
        if !matches!(record, Err((Errno::BADMSG | Errno::INTR, _))) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
        record = attempt();
    }
    let record = record?;
    if record.id != id {
        return Err((Errno::STALE, format!("has the length of another file, {}", record.id)));
    }
    let sound = start <= record.durable && record.durable <= record.length;
    sound.then_some(record).ok_or((Errno::BADMSG, "has a length record that makes no sense".to_owned()))
}

/// Opens a device once more, for writing, as long as nobody else has it to himself.
fn open_alone(fd: BorrowedFd<'_>) -> io::Result<fs::File> {
    let (name, start) = (format!("/proc/self/fd/{}", fd.as_raw_fd()), Instant::now());
    loop {
        match open_exclusively(Path::new(&name)) {
            Err(error) if errno(&error) == Errno::BUSY && start.elapsed() < PATIENCE => {
                std::thread::sleep(PATIENCE / 100);
            }
            other => return other,
        }
    }
}

/// Opens a device that nobody has mounted, uses, or has opened so.
pub fn open_exclusively(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(path)
}

/// How long an object is.
///
/// Invariant: `durable` ≤ `declared` ≤ `now`; what is `ahead` begins behind `now`, in order, and does not touch.
#[derive(Debug, Default, PartialEq, Eq)]
struct Length {
    /// All bytes before are there.
    now: u64,
    /// What the record says of what is durable.
    declared: u64,
    /// As far as that was flushed.
    durable: u64,
    /// What has arrived behind bytes that have not.
    ahead: Vec<Range<u64>>,
}

impl Length {
    /// A range has arrived. True if the object is longer now.
    fn arrived(&mut self, range: Range<u64>) -> bool {
        if range.end <= self.now || range.is_empty() {
            return false;
        }
        let first = self.ahead.partition_point(|known| known.end < range.start);
        let last = self.ahead.partition_point(|known| known.start <= range.end);
        let joined = self.ahead[first..last].iter().fold(range, |a, b| a.start.min(b.start)..a.end.max(b.end));
        self.ahead.splice(first..last, [joined]);
        if self.ahead[0].start > self.now {
            return false;
        }
        self.now = self.ahead.remove(0).end;
        true
    }

    /// It has been made longer or shorter.
    fn set(&mut self, size: u64) {
        self.now = size;
        self.declared = self.declared.min(size);
        self.durable = self.durable.min(size);
        self.ahead.clear();
    }
}

/// The right of this process to write to a device, and how long the object is.
#[derive(Debug)]
pub(super) struct Writer {
    /// Open with `O_EXCL`, and not direct. Before the device, which may be wiped when it goes.
    file: fs::File,
    device: Arc<Device>,
    /// The logical block of the device.
    block: u64,
    length: Mutex<Length>,
    /// Of those who change the length by anything but bytes that arrive, or make it durable.
    turn: Mutex<()>,
}

impl Writer {
    /// Writes the record, for all processes to see.
    fn publish(&self, length: &Length) -> io::Result<()> {
        let (id, boot) = (self.device.id, BOOT.clone());
        let record = Record { id, durable: length.declared, length: length.now, boot };
        let bytes = record.encode().map_err(io::Error::other)?;
        self.file.write_all_at(&bytes, RECORD_AT)
    }

    fn arrived(&self, range: Range<u64>) -> io::Result<()> {
        let mut length = lock(&self.length);
        if length.arrived(range) { self.publish(&length) } else { Ok(()) }
    }

    /// Makes the length durable, up to `reached`: the bytes before are.
    fn settle(&self, reached: u64) -> io::Result<()> {
        let _turn = lock(&self.turn);
        let mut length = lock(&self.length);
        let reached = reached.min(length.now);
        if reached <= length.durable {
            return Ok(());
        }
        length.declared = length.declared.max(reached);
        self.publish(&length)?;
        drop(length);
        self.file.sync_data()?;
        lock(&self.length).durable = reached;
        Ok(())
    }

    /// Makes what has arrived durable, by whomever it was written, and then the length.
    fn settle_all(&self) -> io::Result<()> {
        let length = lock(&self.length);
        let (now, durable) = (length.now, length.durable);
        drop(length);
        if now <= durable {
            return Ok(());
        }
        self.file.sync_data()?;
        self.settle(now)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let _turn = lock(&self.turn);
        let now = lock(&self.length).now;
        if size > now {
            self.check_capacity(size)?;
            lock(&self.length).ahead.clear();
            // The rest of the last block is nobody's.
            self.zero(now..align_up(size, self.block), false)?;
        }
        let mut length = lock(&self.length);
        length.set(size);
        self.publish(&length)
    }

    fn check_capacity(&self, size: u64) -> Result<(), Errno> {
        let capacity = dio_sys::block_device_size(self.file.as_fd()).map_err(|error| errno(&error))?;
        if size > capacity { Err(Errno::NOSPC) } else { Ok(()) }
    }

    /// Has a range read as zeros; `free` gives its blocks back to the device, if it can do that.
    fn zero(&self, range: Range<u64>, free: bool) -> io::Result<()> {
        let head = align_up(range.start, self.block).min(range.end);
        let tail = align_down(range.end, self.block).max(head);
        for edge in [range.start..head, tail..range.end] {
            let zeros = [0; STRIPE_BYTES_MIN as usize];
            self.file.write_all_at(&zeros[..(edge.end - edge.start) as usize], edge.start)?;
        }
        if head < tail { zero_blocks(&self.file, head..tail, free) } else { Ok(()) }
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        let end = range.end.min(lock(&self.length).now);
        if range.start < end { self.zero(range.start..end, true) } else { Ok(()) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Nobody is left to be told of an error, as with every file: sync first.
        let _ = self.settle_all();
    }
}

/// Has whole blocks of a device read as zeros. The kernel writes them where the device cannot do it by itself
/// (`blkdev_issue_zeroout`).
fn zero_blocks(file: &fs::File, range: Range<u64>, free: bool) -> io::Result<()> {
    let (start, len) = (range.start, range.end - range.start);
    let call = |what| uninterrupted(|| fallocate(file, what | FallocateFlags::KEEP_SIZE, start, len));
    if free && call(FallocateFlags::PUNCH_HOLE).is_ok() {
        return Ok(());
    }
    Ok(call(FallocateFlags::ZERO_RANGE)?)
}

/// What is known of a device to be empty, or wiped: whole blocks at either end.
fn ends(file: &fs::File) -> io::Result<[Range<u64>; 2]> {
    let size = dio_sys::block_device_size(file.as_fd())?;
    let first = align_down(size, STRIPE_BYTES_MIN).min(ENDS);
    Ok([0..first, align_down(size.saturating_sub(ENDS), STRIPE_BYTES_MIN).max(first)..size])
}

/// Whether nothing is known to be on a device: both its ends are zeros.
pub(super) fn is_empty(file: &fs::File) -> io::Result<bool> {
    for end in ends(file)? {
        let mut bytes = vec![0; (end.end - end.start) as usize];
        file.read_exact_at(&mut bytes, end.start)?;
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Takes from a device what it holds as an object, a file system or else, durably: the header of an object first.
pub fn wipe(file: &fs::File) -> io::Result<()> {
    let [first, last] = ends(file)?;
    zero_blocks(file, 0..STRIPE_BYTES_MIN.min(first.end), false)?;
    file.sync_data()?;
    for end in [first, last].into_iter().filter(|end| !end.is_empty()) {
        zero_blocks(file, end, false)?;
    }
    file.sync_data()
}

/// Takes the object of a file from an open device: now, or, where this process has it open as an object, when that is over.
pub(super) fn free(file: &fs::File, id: Id) -> io::Result<()> {
    let number = rustix::fs::fstat(file)?.st_rdev;
    let device = known(&lock(&DEVICES), number, id);
    match device {
        Some(device) => {
            *lock(&device.doomed) = Some(file.try_clone()?);
            Ok(())
        }
        None => open_alone(file.as_fd()).and_then(|file| wipe(&file)),
    }
}

/// An open device that is an object.
#[derive(Debug)]
pub(super) struct DeviceObject {
    os: Arc<OsMedium>,
    device: Arc<Device>,
    writer: Option<Arc<Writer>>,
    /// Each write is durable when it is over.
    durable: bool,
    /// Nobody could write before this was opened.
    pub(super) first: bool,
}

impl DeviceObject {
    pub(super) fn new(
        os: Arc<OsMedium>,
        device: Arc<Device>,
        writer: Option<(Arc<Writer>, bool)>,
        durable: bool,
    ) -> DeviceObject {
        let (writer, first) = writer.map_or((None, false), |(writer, first)| (Some(writer), first));
        DeviceObject { os, device, writer, durable, first }
    }

    fn length(&self) -> io::Result<u64> {
        let fd = self.os.descriptor(Route::Buffered)?;
        self.device.length(fd).map_err(|(errno, what)| {
            io::Error::other(FileError::new("ask the length of", &self.device.path, errno).with_detail(what))
        })
    }

    /// Whether no other open of this process may write.
    pub(super) fn is_last_writer(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| Arc::strong_count(writer) == 1)
    }

    fn writer(&self) -> io::Result<&Writer> {
        self.writer.as_deref().ok_or_else(|| Errno::BADF.into())
    }

    /// Whether it has room for an object of this size; ENOSPC if not.
    pub(super) fn check_capacity(&self, size: u64) -> Result<(), Errno> {
        self.writer.as_ref().map_or(Ok(()), |writer| writer.check_capacity(size))
    }

    /// What has to be remembered of a part of an operation until it is over: for reads, where the object ended before; for
    /// syncs, what they make durable.
    pub(super) fn mark(&self, kind: OpKind) -> u64 {
        match (kind, &self.writer) {
            (OpKind::Write, _) | (OpKind::SyncData | OpKind::SyncAll, None) => 0,
            _ => self.length().unwrap_or(UNKNOWN),
        }
    }

    /// A part is over whose tag is its mark.
    pub(super) fn part_done(&self, mut over: Finished) -> Finished {
        over.outcome = self.judge(&over);
        if over.outcome.is_err() && over.done == over.request.len() {
            // All was transferred, and is of no use: the error is at the first byte.
            over.done = 0;
        }
        over
    }

    fn judge(&self, over: &Finished) -> Result<usize, Errno> {
        let (request, outcome) = (&over.request, over.outcome);
        match (request.kind, &self.writer) {
            (OpKind::Read, _) if request.tag == UNKNOWN => outcome.and(Err(Errno::BADMSG)),
            // What lies behind the end is of before.
            (OpKind::Read, _) => outcome.map(|count| count.min(request.tag.saturating_sub(request.offset) as usize)),
            (OpKind::Write, Some(writer)) => {
                let reached = outcome.map_or(over.position(), |count| request.offset + count as u64);
                let durable = self.durable || request.flags.dsync;
                let noted = writer.arrived(request.offset..reached);
                let noted = noted.and_then(|()| if durable { writer.settle_all() } else { Ok(()) });
                outcome.and_then(|count| noted.map(|()| count).map_err(|error| errno(&error)))
            }
            (OpKind::SyncData | OpKind::SyncAll, Some(writer)) => {
                let count = outcome?;
                writer.settle(request.tag).map(|()| count).map_err(|error| errno(&error))
            }
            (_, None) => outcome,
        }
    }
}

impl Medium for DeviceObject {
    fn transfer(&self, op: &mut Op) -> Result<usize, Errno> {
        let mark = self.mark(op.kind);
        let count = self.os.transfer(op)?;
        if let (OpKind::SyncData | OpKind::SyncAll, Some(writer)) = (op.kind, &self.writer) {
            writer.settle(mark).map_err(|error| errno(&error))?;
        }
        Ok(count)
    }

    fn descriptor(&self, route: Route) -> io::Result<BorrowedFd<'_>> {
        self.os.descriptor(route)
    }

    fn size(&self) -> io::Result<u64> {
        self.length()
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.writer()?.set_size(size)
    }

    fn allocate(&self, range: Range<u64>, extend: bool) -> io::Result<()> {
        let writer = self.writer()?;
        writer.check_capacity(range.end)?;
        if extend && lock(&writer.length).now < range.end { writer.set_size(range.end) } else { Ok(()) }
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.writer()?.punch(range)
    }
}

#[cfg(test)]
mod tests;
