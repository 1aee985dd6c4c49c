//! Reads records as they come, from pipes, terminals and devices, and from files where each record
//! matters.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use dio::FileError;
use dio::file::{Class, Counters};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::account::SideRecords;
use super::flags::{conv, flag};
use super::open::End;
use super::plan::DdPlan;
use super::signals::Signals;
use crate::tool::{Source, Tool, errno_of};

/// Maximum number of bytes to read at a time if several records are read at once.
const READ_BYTES_MAX: u64 = 1 << 20;

/// Maximum size of a record that is read by one call, as GNU does; a larger one comes in parts.
pub(super) const RECORD_BYTES_MAX: u64 = 64 << 20;

/// The result of one read.
#[derive(Debug)]
pub(super) enum ReadResult {
    /// The input has ended.
    End,
    /// The copy has to stop.
    Stopped,
    /// `count` bytes are in the buffer; the record could have had `asked` bytes. `cut` says that
    /// the last record is short and ends here.
    Bytes { count: usize, asked: u64, cut: bool },
    /// A record could not be read, and `lost` bytes of it are missing; 0 if its beginning was
    /// returned before.
    Bad { error: Errno, lost: u64 },
}

/// The underlying input.
#[derive(Debug)]
enum From {
    /// A descriptor that is read with read(2).
    ///
    /// From a pipe, several records are read at a time only if they are completely available, so
    /// that no record is cut short that would not be short if read by itself; `eager` says that the
    /// last read did so. An `endless` device is read until the buffer is full: it always has more
    /// bytes, so a short read was only interrupted.
    Descriptor { fd: OwnedFd, waits: bool, pipe: bool, endless: bool, eager: bool },
    /// A file that is read past the page cache from `position`. `careful` counts the reads that
    /// must be made record by record.
    File { source: Box<Source>, position: u64, careful: u64 },
}

/// An input that is read in records.
#[derive(Debug)]
pub(super) struct Records {
    from: From,
    ibs: u64,
    /// A record may be filled by several reads.
    whole: bool,
    buffer: Vec<u8>,
    counters: Counters,
    /// Size of the last read if it was short, for the warning.
    short: Option<usize>,
    /// Whether a short read causes a warning.
    warns: bool,
    /// The error of the rest of the last record, of which only the beginning could be read.
    behind: Option<Errno>,
    /// Bytes to read after the last whole record; `None` without a limit.
    tail: Option<u64>,
    records: u64,
}

impl Records {
    /// Reads from a descriptor, starting at its file offset.
    pub(super) fn of_descriptor(end: &End, plan: &DdPlan) -> io::Result<Records> {
        let kind = end.kind();
        let (pipe, endless) = (kind == FileType::Fifo, end.is_endless());
        let nonblocking = rustix::fs::fcntl_getfl(&end.fd)?.contains(OFlags::NONBLOCK);
        let waits = !nonblocking && kind != FileType::RegularFile && kind != FileType::Directory;
        let from = From::Descriptor { fd: end.fd.try_clone()?, waits, pipe, endless, eager: false };
        Ok(Records::new(from, plan, pipe || endless, plan.iflag.any(flag::FULLBLOCK)))
    }

    /// Reads on from the source of `input` so that each record that cannot be read is reported
    /// separately. A source that is no file, because it was found empty, is read through its
    /// descriptor.
    pub(super) fn of_source(source: Source, input: &End, plan: &DdPlan) -> io::Result<Records> {
        if source.file().is_none() {
            return Records::of_descriptor(input, plan);
        }
        let position = source.position();
        Ok(Records::new(
            From::File { source: Box::new(source), position, careful: 0 },
            plan,
            true,
            true,
        ))
    }

    fn new(from: From, plan: &DdPlan, several: bool, whole: bool) -> Records {
        let room = match several {
            true => plan.ibs * (READ_BYTES_MAX / plan.ibs).max(1),
            false => plan.ibs,
        };
        Records {
            from,
            ibs: plan.ibs,
            whole,
            buffer: vec![0; room.min(RECORD_BYTES_MAX) as usize],
            counters: Counters::default(),
            short: None,
            behind: None,
            warns: plan.warns_of_partial_reads(),
            tail: plan.count.map(|count| count.bytes),
            records: plan.count.map_or(u64::MAX, |count| count.records),
        }
    }

    /// The first `count` bytes of the buffer, which the last read filled.
    pub(super) fn bytes(&self, count: usize) -> &[u8] {
        &self.buffer[..count]
    }

    /// Returns whether a record that cannot be read may be skipped: only a file can be read behind
    /// it.
    pub(super) fn can_pass_over(&self) -> bool {
        matches!(self.from, From::File { .. })
    }

    /// Warns, once, that the read before the last one returned fewer bytes than the `asked` ones.
    pub(super) fn warn_of_short(&mut self, tool: &Tool, asked: u64) {
        let Some(short) = self.short.take().filter(|short| self.warns && (*short as u64) < asked)
        else {
            return;
        };
        self.warns = false;
        let bytes = if short == 1 { "byte" } else { "bytes" };
        tool.note(format_args!("warning: partial read ({short} {bytes}); suggest iflag=fullblock"));
    }

    /// Reads the next bytes; `side` counts the records so far. `idle` is called if nothing comes
    /// for a while.
    pub(super) fn next(
        &mut self,
        side: &SideRecords,
        signals: &Signals,
        idle: &mut dyn FnMut(),
    ) -> ReadResult {
        if let Some(error) = self.behind.take() {
            return ReadResult::Bad { error, lost: 0 };
        }
        let Some(asked) = self.asked(side) else { return ReadResult::End };
        let part = match &mut self.from {
            From::File { careful, .. } if *careful > 0 => asked.min(self.ibs - side.rest()),
            _ => asked,
        };
        match self.read(part as usize, signals, idle) {
            Ok(None) => ReadResult::Stopped,
            Ok(Some(0)) => ReadResult::End,
            Ok(Some(count)) => {
                let short = (count as u64) < part;
                // A tail is a short record even if it is complete.
                let tail =
                    self.tail == Some(0) && self.records == side.full + side.partial && !self.whole;
                ReadResult::Bytes {
                    count,
                    asked: part.min(self.ibs),
                    cut: !self.whole && (short || tail),
                }
            }
            Err(error) => self.failed(error, part, side),
        }
    }

    /// Number of bytes to request; `None` if the copy is complete.
    fn asked(&mut self, side: &SideRecords) -> Option<u64> {
        let room = self.buffer.len() as u64;
        let Some(tail) = self.tail else { return Some(self.up_to_a_record(room, side)) };
        let used = side.full + side.partial;
        let left = self.records.saturating_sub(used);
        if self.whole {
            // Here records end only by their size, so bytes can be counted.
            let left = u128::from(left) * u128::from(self.ibs) + u128::from(tail)
                - u128::from(side.rest());
            let left = u64::try_from(left).unwrap_or(u64::MAX);
            return (left > 0).then(|| self.up_to_a_record(room, side).min(left));
        }
        match (left, tail) {
            (0, 0) => None,
            (0, tail) => {
                self.tail = Some(0);
                Some(tail.min(room))
            }
            (left, _) => {
                let most = u128::from(left) * u128::from(self.ibs) - u128::from(side.rest());
                Some(self.up_to_a_record(room, side).min(u64::try_from(most).unwrap_or(u64::MAX)))
            }
        }
    }

    /// Returns `room`, or less if the record in progress ends earlier.
    fn up_to_a_record(&self, room: u64, side: &SideRecords) -> u64 {
        match side.rest() {
            0 => room,
            rest => (self.ibs - rest).min(room),
        }
    }

    /// Reads once; returns `None` if the copy has to stop.
    fn read(
        &mut self,
        count: usize,
        signals: &Signals,
        idle: &mut dyn FnMut(),
    ) -> Result<Option<usize>, Errno> {
        match &mut self.from {
            From::Descriptor { fd, waits, pipe, endless, eager } => {
                if *waits && !signals.wait_for(fd.as_fd(), idle)? || signals.stop() {
                    return Ok(None);
                }
                let mut count = count;
                if *pipe && !self.whole {
                    count = whole_records(fd, count, self.ibs as usize, eager);
                }
                let Some(count) = read_once(fd, &mut self.buffer[..count], *endless, signals)?
                else {
                    return Ok(None);
                };
                self.counters.read_requests += 1;
                self.counters.read.add(Class::Piped, count as u64);
                Ok(Some(count))
            }
            From::File { source, position, careful } => {
                if signals.stop() {
                    return Ok(None);
                }
                let buffer = &mut self.buffer[..count];
                let file = source.file().expect("records of a file come from one");
                let count =
                    file.read_at(buffer, *position).map_err(|error: FileError| error.errno())?;
                *position += count as u64;
                *careful = careful.saturating_sub(1);
                Ok(Some(count))
            }
        }
    }

    /// Handles a read error. If several records were requested, they are then read one by one.
    fn failed(&mut self, error: Errno, asked: u64, side: &SideRecords) -> ReadResult {
        let record = self.ibs - side.rest();
        match &mut self.from {
            From::File { careful, .. } if asked > record && *careful == 0 => {
                *careful = self.buffer.len() as u64 / self.ibs + 1;
                ReadResult::Bytes { count: 0, asked, cut: false }
            }
            From::File { source, position, careful } => {
                *careful = careful.saturating_sub(1);
                let file = source.file().expect("records of a file come from one");
                let count = readable(file, &mut self.buffer[..asked as usize], *position);
                *position += asked;
                if count == 0 {
                    return ReadResult::Bad { error, lost: asked };
                }
                self.behind = Some(error);
                ReadResult::Bytes { count, asked, cut: true }
            }
            From::Descriptor { .. } => ReadResult::Bad { error, lost: 0 },
        }
    }

    /// Notes that the last record was short, for the warning at the next read.
    pub(super) fn note_short(&mut self, count: usize) {
        let rest = count % usize::try_from(self.ibs).unwrap_or(usize::MAX);
        if rest > 0 {
            self.short = Some(rest);
        }
    }

    /// Reads and discards the bytes to skip of an input that cannot seek. Each read counts as one
    /// record, as with GNU dd. Returns the number of bytes skipped, or `None` if the copy has to
    /// stop.
    ///
    /// # Errors
    /// Reading failed.
    pub(super) fn skip(
        &mut self,
        plan: &DdPlan,
        signals: &Signals,
        tool: &Tool,
    ) -> Result<Option<u64>, Errno> {
        let (mut records, mut bytes, mut passed, mut side) =
            (plan.skip.records, plan.skip.bytes, 0, SideRecords::default());
        while records > 0 || bytes > 0 {
            let room = self.buffer.len() as u64;
            let asked = match records {
                0 => bytes.min(room),
                records => {
                    let most = u128::from(records) * u128::from(self.ibs) - u128::from(side.rest());
                    self.up_to_a_record(room, &side).min(u64::try_from(most).unwrap_or(u64::MAX))
                }
            };
            let Some(count) = self.read(asked as usize, signals, &mut || ())? else {
                return Ok(None);
            };
            if count == 0 {
                break;
            }
            self.warn_of_short(tool, asked.min(self.ibs));
            passed += count as u64;
            if records == 0 {
                bytes = if self.whole { bytes - count as u64 } else { 0 };
                self.note_short(count);
                continue;
            }
            let before = side.full + side.partial;
            side.stream(self.ibs, count as u64);
            if !self.whole && (count as u64) < asked {
                self.note_short(count);
                side.cut();
            }
            records -= side.full + side.partial - before;
        }
        Ok(Some(passed))
    }

    /// Ends reading; returns the counters of a descriptor. A file keeps its own counters; its file
    /// offset is set where reading ended.
    pub(super) fn end(self) -> Result<Option<Counters>, Errno> {
        match self.from {
            From::Descriptor { .. } => Ok(Some(self.counters)),
            From::File { source, position, .. } => {
                let given = rustix::io::fcntl_dupfd_cloexec(source.descriptor(), 3)?;
                source.close().map_err(|error| errno_of(&error))?;
                rustix::fs::seek(&given, rustix::fs::SeekFrom::Start(position))?;
                Ok(None)
            }
        }
    }
}

/// Calls read(2) once, or, for an `endless` device, until the buffer is full. Returns `None` if the
/// copy has to stop.
fn read_once(
    fd: &OwnedFd,
    buffer: &mut [u8],
    endless: bool,
    signals: &Signals,
) -> Result<Option<usize>, Errno> {
    let mut filled = 0;
    loop {
        match rustix::io::read(fd, &mut buffer[filled..]) {
            Err(Errno::INTR) if !signals.stop() => {}
            Err(Errno::INTR) if filled == 0 => return Ok(None),
            // An error after some bytes is returned again by the next read.
            Err(errno) if filled == 0 => return Err(errno),
            Err(_) | Ok(0) => return Ok(Some(filled)),
            Ok(count) => {
                filled += count;
                if !endless || filled == buffer.len() || signals.stop() {
                    return Ok(Some(filled));
                }
            }
        }
    }
}

/// Reads page by page, as the page cache would, up to the first page that cannot be read. Returns
/// the number of bytes before it.
fn readable(file: &dio::File, buffer: &mut [u8], position: u64) -> usize {
    let mut count = 0;
    for page in buffer.chunks_mut(4096) {
        match file.read_at(page, position + count as u64) {
            Ok(there) if there > 0 => count += there,
            _ => break,
        }
    }
    count
}

/// How long a writer that has just got room in the pipe may take to fill it, before a record counts
/// as short.
const PATIENCE: std::time::Duration = std::time::Duration::from_micros(300);

/// Returns how many of `count` bytes to read from a pipe: the whole records that it has now, or
/// else one record, which may be short.
///
/// A reader that takes one record at a time leaves a busy writer time to keep up. After a read of
/// many records, the writer gets that time here.
fn whole_records(pipe: &OwnedFd, count: usize, record: usize, eager: &mut bool) -> usize {
    let there = || {
        rustix::io::ioctl_fionread(pipe)
            .map_or(0, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    };
    if count <= record {
        return count;
    }
    let mut available = there();
    if std::mem::take(eager) && (1..record).contains(&available) {
        std::thread::sleep(PATIENCE);
        available = there();
    }
    let whole = available - available % record;
    *eager = whole > record;
    whole.clamp(record, count)
}

/// Returns whether the kernel generates the file on reading. The size of such a file has no
/// meaning.
fn is_made_up(end: &End) -> bool {
    const MAGICS: &[i64] = &[
        0x9fa0,      /* proc */
        0x6265_6572, /* sysfs */
        0x6462_6720, /* debugfs */
        0x7472_6163, /* tracefs */
    ];
    rustix::fs::fstatfs(&end.fd).is_ok_and(|fs| MAGICS.contains(&fs.f_type))
}

/// Returns whether the input can be read in large blocks at any offset.
pub(super) fn has_blocks(end: &End) -> bool {
    let readable =
        rustix::fs::fcntl_getfl(&end.fd).is_ok_and(|flags| !flags.contains(OFlags::WRONLY));
    match end.kind() {
        FileType::RegularFile => {
            readable && (end.striped || end.stat.st_size > 0 && !is_made_up(end))
        }
        FileType::BlockDevice => readable && end.fd.as_raw_fd() >= 0,
        _ => false,
    }
}

/// Returns whether reading ahead makes no difference if input and output are the same file: no byte
/// is written before it was read.
pub(super) fn may_read_ahead(plan: &DdPlan, from: u64, to: u64) -> bool {
    to <= from && !plan.conv.any(conv::BLOCK.and(conv::UNBLOCK)) && !plan.oflag.any(flag::APPEND)
}
