//! A whole block device as an object.
//!
//! A file has a size; a device has none, and holds old bytes where nothing was written yet. So the
//! length is kept in a record on the device ([`LengthRecord`]), and never includes a byte that was
//! not written or zeroed:
//!
//! - Bytes written behind the end count when everything before them has arrived; until then the
//!   object keeps its length. Example: the length is 4 MiB and writes of 1 MiB at 4 and 5 MiB are
//!   in flight. If the second finishes first, the length stays 4 MiB; when the first finishes, it
//!   is 6 MiB.
//! - Any other growth writes zeros, by the zeroing command of the disk if it has one
//!   (`fallocate(2)`).
//! - Each change rewrites the record in the page cache of the device: other processes get it, and
//!   it survives this process. Its `durable` length is raised by syncs, after the bytes were
//!   flushed. After a power cut, recognised by the kernel's `boot_id`, the `durable` length counts.
//!
//! One process at a time writes: it opens the device with `O_EXCL`, which also keeps out `mount`
//! and `mkfs`. All opens in that process share a [`DeviceWriter`], which holds the length in
//! memory. The last one makes it durable when it is closed.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::format::{FormatError, Id, LengthRecord, RECORD_AT, RECORD_LEN};
use crate::drive::Finished;
use crate::engine::{Medium, Op, OpKind, OsMedium, Route};
use crate::file::{FileError, errno_of};
use crate::geometry::{align_down, align_up};
use crate::layout::STRIPE_BYTES_MIN;
use crate::patience::take_within;
use dio_sys::{fd_path, uninterrupted};

/// How long an open for writing waits for a writer that is just closing.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a record is read again that may be being written.
const ATTEMPTS: u32 = 5;

/// The tag of a read for which the length of the object is unknown.
const LENGTH_UNKNOWN: u64 = u64::MAX;

/// Bytes at either end of a device that must be empty, or are wiped, when a file is made on it, and
/// that are wiped when the file is removed. All file systems, partition tables and volume managers
/// have their signatures there.
const END_BYTES: u64 = 1 << 20;

/// The fault of a device whose header and length record would share a block.
pub(super) const LARGE_BLOCKS: &str = "has blocks of more than 4096 bytes";

/// The devices that this process has open as objects, by device number and file.
static DEVICES: LazyLock<Mutex<Vec<KnownDevice>>> = LazyLock::new(Mutex::default);
type KnownDevice = (u64, Weak<Device>);

/// The boot ID of the running system; empty if it cannot be read.
pub static BOOT_ID: LazyLock<String> = LazyLock::new(|| {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.split_ascii_whitespace().next().unwrap_or_default().to_owned()
});

/// The state that all opens of a device in this process share.
#[derive(Debug)]
pub(super) struct Device {
    id: Id,
    path: PathBuf,
    start: u64,
    writer: Mutex<Weak<DeviceWriter>>,
    /// Set when the file was removed: the device is wiped through this when its last open is
    /// closed.
    wipe_on_close: Mutex<Option<fs::File>>,
}

impl Device {
    /// The device with this number (`st_rdev`), as an object of a file whose data begin at `start`.
    pub(super) fn of(number: u64, id: Id, path: &Path, start: u64) -> Arc<Device> {
        let mut devices = DEVICES.lock();
        devices.retain(|(_, device)| device.strong_count() > 0);
        if let Some(device) = known(&devices, number, id) {
            return device;
        }
        let (writer, wipe_on_close) = Default::default();
        let device = Arc::new(Device { id, path: path.to_owned(), start, writer, wipe_on_close });
        devices.push((number, Arc::downgrade(&device)));
        device
    }

    /// Reads the record. The error is in words.
    pub(super) fn record(&self, fd: impl AsFd) -> Result<LengthRecord, (Errno, String)> {
        read_record(fd, self.id, self.start)
    }

    /// The length in bytes from the start of the device.
    fn length(&self, fd: impl AsFd) -> Result<u64, (Errno, String)> {
        let writer = self.writer.lock().upgrade();
        match writer {
            Some(writer) => Ok(writer.length.lock().now),
            None => self.record(fd).map(|record| record.length_in(&BOOT_ID)),
        }
    }

    /// Returns the writer, which the process shares, and whether it is new.
    pub(super) fn write(
        self: &Arc<Device>,
        fd: BorrowedFd<'_>,
    ) -> Result<(Arc<DeviceWriter>, bool), (Errno, String)> {
        let failed = |error: io::Error| (errno_of(&error), String::new());
        let mut known = self.writer.lock();
        if let Some(writer) = known.upgrade() {
            return Ok((writer, false));
        }
        let file = reopen_exclusive(fd).map_err(failed)?;
        let block: u64 =
            rustix::fs::ioctl_blksszget(&file).map_err(|errno| failed(errno.into()))?.into();
        if block > STRIPE_BYTES_MIN {
            return Err((Errno::INVAL, LARGE_BLOCKS.to_owned()));
        }
        let record = self.record(&file)?;
        let now = record.length_in(&BOOT_ID);
        let (durable, ahead) = (record.durable.min(now), Vec::new());
        let length = Mutex::new(DeviceLength { now, declared: durable, durable, ahead });
        let writer = Arc::new(DeviceWriter {
            device: Arc::clone(self),
            file,
            block,
            length,
            turn: Mutex::default(),
        });
        *known = Arc::downgrade(&writer);
        Ok((writer, true))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Some(file) = self.wipe_on_close.lock().take() {
            // The error is dropped, because nobody is left to get it. `dio stripe orphans` finds a
            // device that was not wiped.
            let _ = reopen_exclusive(file.as_fd()).and_then(|file| wipe(&file));
        }
    }
}

fn known(devices: &[KnownDevice], number: u64, id: Id) -> Option<Arc<Device>> {
    let same = devices.iter().filter(|(known, _)| *known == number);
    same.filter_map(|(_, device)| device.upgrade()).find(|device| device.id == id)
}

/// The length in bytes of an object on a device. The error is in words.
pub fn device_length(fd: impl AsFd, id: Id, start: u64) -> Result<u64, (Errno, String)> {
    let number = rustix::fs::fstat(&fd).map_err(|errno| (errno, String::new()))?.st_rdev;
    let device = known(&DEVICES.lock(), number, id);
    match device {
        Some(device) => device.length(fd),
        None => read_record(fd, id, start).map(|record| record.length_in(&BOOT_ID)),
    }
}

pub(super) fn read_record(
    fd: impl AsFd,
    id: Id,
    start: u64,
) -> Result<LengthRecord, (Errno, String)> {
    let mut bytes = [0; RECORD_LEN as usize];
    let mut attempt = || {
        let count = rustix::io::pread(&fd, &mut bytes[..], RECORD_AT)
            .map_err(|errno| (errno, String::new()))?;
        LengthRecord::decode(&bytes[..count]).map_err(|error| {
            let errno = if matches!(error, FormatError::Version(_)) {
                Errno::PROTONOSUPPORT
            } else {
                Errno::BADMSG
            };
            (errno, format!("has a length record that cannot be used: {error}"))
        })
    };
    let mut record = attempt();
    for _ in 1..ATTEMPTS {
        // A read during a write may get a mix of both records.
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
    sound
        .then_some(record)
        .ok_or((Errno::BADMSG, "has a length record that makes no sense".to_owned()))
}

/// Opens a device again exclusively, for writing. Waits a moment while another process has it.
fn reopen_exclusive(fd: BorrowedFd<'_>) -> io::Result<fs::File> {
    let name = fd_path(fd);
    Ok(take_within(PATIENCE, || open_exclusive(&name).map_err(|error| errno_of(&error)))?)
}

/// Opens a device exclusively: fails if it is mounted, in use, or opened so by another process.
pub fn open_exclusive(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(path)
}

/// The length of an object on a device.
///
/// Invariant: `durable` ≤ `declared` ≤ `now`. The ranges in `ahead` begin behind `now`, are in
/// order, and do not touch.
#[derive(Debug, Default, PartialEq, Eq)]
struct DeviceLength {
    /// All bytes before this offset have arrived.
    now: u64,
    /// The `durable` length in the record.
    declared: u64,
    /// The part of `declared` that was flushed with its record.
    durable: u64,
    /// Ranges that have arrived behind missing bytes.
    ahead: Vec<Range<u64>>,
}

impl DeviceLength {
    /// Records that a range has arrived. True if the object is longer now.
    fn arrived(&mut self, range: Range<u64>) -> bool {
        if range.end <= self.now || range.is_empty() {
            return false;
        }
        let first = self.ahead.partition_point(|known| known.end < range.start);
        let last = self.ahead.partition_point(|known| known.start <= range.end);
        let joined = self.ahead[first..last]
            .iter()
            .fold(range, |a, b| a.start.min(b.start)..a.end.max(b.end));
        self.ahead.splice(first..last, [joined]);
        if self.ahead[0].start > self.now {
            return false;
        }
        self.now = self.ahead.remove(0).end;
        true
    }

    /// Records that the size was set.
    fn set(&mut self, size: u64) {
        self.now = size;
        self.declared = self.declared.min(size);
        self.durable = self.durable.min(size);
        self.ahead.clear();
    }
}

/// The exclusive right of this process to write to a device, and the length of the object.
#[derive(Debug)]
pub(super) struct DeviceWriter {
    /// Opened with `O_EXCL`, without `O_DIRECT`. Dropped before `device`, which may be wiped when
    /// it is dropped.
    file: fs::File,
    device: Arc<Device>,
    /// The logical block size of the device, in bytes.
    block: u64,
    length: Mutex<DeviceLength>,
    /// Held by the thread that resizes the object or makes its length durable.
    turn: Mutex<()>,
}

impl DeviceWriter {
    /// Writes the record, so that all processes get it.
    fn publish(&self, length: &DeviceLength) -> io::Result<()> {
        let (id, boot) = (self.device.id, BOOT_ID.clone());
        let record = LengthRecord { id, durable: length.declared, length: length.now, boot };
        let bytes = record.encode().map_err(io::Error::other)?;
        self.file.write_all_at(&bytes, RECORD_AT)
    }

    fn arrived(&self, range: Range<u64>) -> io::Result<()> {
        let mut length = self.length.lock();
        if length.arrived(range) { self.publish(&length) } else { Ok(()) }
    }

    /// Makes the length up to `reached` durable. The bytes before it are durable already.
    fn settle(&self, reached: u64) -> io::Result<()> {
        let _turn = self.turn.lock();
        let mut length = self.length.lock();
        let reached = reached.min(length.now);
        if reached <= length.durable {
            return Ok(());
        }
        length.declared = length.declared.max(reached);
        self.publish(&length)?;
        drop(length);
        self.file.sync_data()?;
        self.length.lock().durable = reached;
        Ok(())
    }

    /// Makes all bytes that have arrived durable, and then the length.
    fn settle_all(&self) -> io::Result<()> {
        let length = self.length.lock();
        let (now, durable) = (length.now, length.durable);
        drop(length);
        if now <= durable {
            return Ok(());
        }
        self.file.sync_data()?;
        self.settle(now)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let _turn = self.turn.lock();
        let now = self.length.lock().now;
        if size > now {
            self.check_capacity(size)?;
            self.length.lock().ahead.clear();
            // The rest of the last block is zeroed too; it belongs to nothing.
            self.zero(now..align_up(size, self.block), false)?;
        }
        let mut length = self.length.lock();
        length.set(size);
        self.publish(&length)
    }

    fn check_capacity(&self, size: u64) -> Result<(), Errno> {
        let capacity =
            dio_sys::block_device_size(self.file.as_fd()).map_err(|error| errno_of(&error))?;
        if size > capacity { Err(Errno::NOSPC) } else { Ok(()) }
    }

    /// Zeroes a range. With `free`, its blocks are given back to the device if it supports that.
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
        let end = range.end.min(self.length.lock().now);
        if range.start < end { self.zero(range.start..end, true) } else { Ok(()) }
    }
}

impl Drop for DeviceWriter {
    fn drop(&mut self) {
        // The error is dropped, as when any file is closed without a sync.
        let _ = self.settle_all();
    }
}

/// Zeroes whole blocks of a device. The kernel writes the zeros if the device has no command for it
/// (`blkdev_issue_zeroout`).
fn zero_blocks(file: &fs::File, range: Range<u64>, free: bool) -> io::Result<()> {
    let (start, len) = (range.start, range.end - range.start);
    let call =
        |what| uninterrupted(|| fallocate(file, what | FallocateFlags::KEEP_SIZE, start, len));
    if free && call(FallocateFlags::PUNCH_HOLE).is_ok() {
        return Ok(());
    }
    Ok(call(FallocateFlags::ZERO_RANGE)?)
}

/// The ranges at either end of a device that must be empty or are wiped: whole blocks.
fn ends(file: &fs::File) -> io::Result<[Range<u64>; 2]> {
    let size = dio_sys::block_device_size(file.as_fd())?;
    let first = align_down(size, STRIPE_BYTES_MIN).min(END_BYTES);
    Ok([0..first, align_down(size.saturating_sub(END_BYTES), STRIPE_BYTES_MIN).max(first)..size])
}

/// Whether a device counts as empty: both of its ends are zeros.
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

/// Wipes the signatures on a device (object, file system or other), durably; the header of an
/// object first.
pub fn wipe(file: &fs::File) -> io::Result<()> {
    let [first, last] = ends(file)?;
    zero_blocks(file, 0..STRIPE_BYTES_MIN.min(first.end), false)?;
    file.sync_data()?;
    for end in [first, last].into_iter().filter(|end| !end.is_empty()) {
        zero_blocks(file, end, false)?;
    }
    file.sync_data()
}

/// Removes the object of a file from an open device: at once, or, if this process has it open as an
/// object, when that is closed.
pub(super) fn free(file: &fs::File, id: Id) -> io::Result<()> {
    let number = rustix::fs::fstat(file)?.st_rdev;
    let device = known(&DEVICES.lock(), number, id);
    match device {
        Some(device) => {
            *device.wipe_on_close.lock() = Some(file.try_clone()?);
            Ok(())
        }
        None => reopen_exclusive(file.as_fd()).and_then(|file| wipe(&file)),
    }
}

/// An open object on a device.
#[derive(Debug)]
pub(super) struct DeviceObject {
    os: Arc<OsMedium>,
    device: Arc<Device>,
    writer: Option<Arc<DeviceWriter>>,
    /// Whether each write is durable when it returns.
    durable: bool,
    /// Whether this open is the first writer of the device.
    pub(super) is_first_writer: bool,
}

impl DeviceObject {
    pub(super) fn new(
        os: Arc<OsMedium>,
        device: Arc<Device>,
        writer: Option<(Arc<DeviceWriter>, bool)>,
        durable: bool,
    ) -> DeviceObject {
        let (writer, is_first_writer) =
            writer.map_or((None, false), |(writer, is_new)| (Some(writer), is_new));
        DeviceObject { os, device, writer, durable, is_first_writer }
    }

    fn length(&self) -> io::Result<u64> {
        let fd = self.os.descriptor(Route::Buffered)?;
        self.device.length(fd).map_err(|(errno, what)| {
            io::Error::other(
                FileError::new("ask the length of", &self.device.path, errno).with_detail(what),
            )
        })
    }

    /// Whether no other open of this process may write.
    pub(super) fn is_last_writer(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| Arc::strong_count(writer) == 1)
    }

    fn writer(&self) -> io::Result<&DeviceWriter> {
        self.writer.as_deref().ok_or_else(|| Errno::BADF.into())
    }

    /// Checks that the device has room for an object of this size; ENOSPC if not.
    pub(super) fn check_capacity(&self, size: u64) -> Result<(), Errno> {
        self.writer.as_ref().map_or(Ok(()), |writer| writer.check_capacity(size))
    }

    /// The tag of a part of a request until it has finished. For reads, the length of the object
    /// before it; for syncs, the length that they make durable.
    pub(super) fn tag(&self, kind: OpKind) -> u64 {
        match (kind, &self.writer) {
            (OpKind::Write, _) | (OpKind::SyncData | OpKind::SyncAll, None) => 0,
            _ => self.length().unwrap_or(LENGTH_UNKNOWN),
        }
    }

    /// Evaluates a finished part, whose tag is from [`DeviceObject::tag`].
    pub(super) fn part_done(&self, mut over: Finished) -> Finished {
        over.outcome = self.judge(&over);
        if over.outcome.is_err() && over.done == over.request.len() {
            // All bytes were transferred, but none counts: the error is at the first byte.
            over.done = 0;
        }
        over
    }

    fn judge(&self, over: &Finished) -> Result<usize, Errno> {
        let (request, outcome) = (&over.request, over.outcome);
        match (request.kind, &self.writer) {
            (OpKind::Read, _) if request.tag == LENGTH_UNKNOWN => outcome.and(Err(Errno::BADMSG)),
            // Bytes behind the end are old.
            (OpKind::Read, _) => {
                outcome.map(|count| count.min(request.tag.saturating_sub(request.offset) as usize))
            }
            (OpKind::Write, Some(writer)) => {
                let reached =
                    outcome.map_or(over.position(), |count| request.offset + count as u64);
                let durable = self.durable || request.flags.dsync;
                let noted = writer.arrived(request.offset..reached);
                let noted = noted.and_then(|()| if durable { writer.settle_all() } else { Ok(()) });
                outcome.and_then(|count| noted.map(|()| count).map_err(|error| errno_of(&error)))
            }
            (OpKind::SyncData | OpKind::SyncAll, Some(writer)) => {
                let count = outcome?;
                writer.settle(request.tag).map(|()| count).map_err(|error| errno_of(&error))
            }
            (_, None) => outcome,
        }
    }
}

impl Medium for DeviceObject {
    fn transfer(&self, op: &mut Op) -> Result<usize, Errno> {
        let mark = self.tag(op.kind);
        let count = self.os.transfer(op)?;
        if let (OpKind::SyncData | OpKind::SyncAll, Some(writer)) = (op.kind, &self.writer) {
            writer.settle(mark).map_err(|error| errno_of(&error))?;
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
        if extend && writer.length.lock().now < range.end {
            writer.set_size(range.end)
        } else {
            Ok(())
        }
    }

    fn punch(&self, range: Range<u64>) -> io::Result<()> {
        self.writer()?.punch(range)
    }
}

#[cfg(test)]
mod tests;
