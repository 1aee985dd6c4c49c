//! What the arguments and results of each call mean.

use rustix::fs::{FileType, OFlags};

use crate::trace::{Call, DATA_ONLY, FileKind};
use crate::watch::{Record, SeenFile};

impl SeenFile {
    pub(super) fn kind(&self) -> FileKind {
        match FileType::from_raw_mode(self.mode) {
            FileType::RegularFile => FileKind::Regular,
            FileType::BlockDevice => FileKind::BlockDevice,
            FileType::Fifo => FileKind::Pipe,
            _ => FileKind::Other,
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        FileType::from_raw_mode(self.mode) == FileType::Directory
    }

    fn has_positions(&self) -> bool {
        matches!(self.kind(), FileKind::Regular | FileKind::BlockDevice)
    }
}

/// The call that stands for a request of io_uring, by its operation (`IORING_OP_READV` and so on).
pub(super) fn uring_call(record: &Record<'_>) -> Option<Call> {
    match operation(record) {
        1 | 4 | 22 => Some(Call::UringRead),
        2 | 5 | 23 => Some(Call::UringWrite),
        3 => Some(Call::UringFsync),
        _ => None,
    }
}

/// The same for a request of `io_submit(2)` (`IOCB_CMD_PREAD` and so on).
pub(super) fn aio_call(record: &Record<'_>) -> Option<Call> {
    match operation(record) {
        0 | 7 => Some(Call::AioRead),
        1 | 8 => Some(Call::AioWrite),
        2 | 3 => Some(Call::AioFsync),
        _ => None,
    }
}

/// The operation of a request that a call began.
fn operation(record: &Record<'_>) -> u32 {
    record.arguments[1] as u32
}

/// The buffers of such a request are a list, of which only its length is known.
fn has_list(call: Call, record: &Record<'_>) -> bool {
    match call {
        Call::UringRead | Call::UringWrite => matches!(operation(record), 1 | 2),
        Call::AioRead | Call::AioWrite => matches!(operation(record), 7 | 8),
        _ => false,
    }
}

/// The descriptor of the file that a call is about, or copies from.
pub(super) fn descriptor(call: Call, record: &Record<'_>) -> Option<u64> {
    match call {
        Call::Sendfile => Some(record.arguments[1]),
        Call::Open => Some(record.result as u64),
        Call::Mmap | Call::Fault | Call::WriteFault | Call::Msync => None,
        // That of a file which is registered with a ring is not known.
        _ if call.is_asynchronous() && (record.arguments[0] as i32) < 0 => None,
        _ => Some(record.arguments[0]),
    }
}

/// The descriptor of the file that a call copies to.
pub(super) fn second_descriptor(call: Call, record: &Record<'_>) -> Option<u64> {
    match call {
        Call::Sendfile => Some(record.arguments[0]),
        Call::CopyFileRange | Call::Splice => Some(record.arguments[2]),
        _ => None,
    }
}

/// Bytes of a page: programs are for x86-64 only.
const PAGE: u64 = 4096;

/// What the call returned, in bytes where it moves some.
pub(super) fn done(call: Call, record: &Record<'_>) -> i64 {
    match call {
        Call::Fault => record.result.saturating_mul(PAGE as i64),
        // The last page may reach beyond the end of the file.
        Call::WriteFault => {
            let size = record.file.map_or(0, |file| file.size);
            let bytes = (record.result.max(0) as u64).saturating_mul(PAGE);
            bytes.min(size.saturating_sub(offset(call, record))) as i64
        }
        // Only its address is known yet.
        Call::AioRead | Call::AioWrite | Call::AioFsync => 0,
        _ => record.result,
    }
}

/// The bytes of pages that the call brought into the page cache.
pub(super) fn cached(record: &Record<'_>) -> u64 {
    let pages = match &record.file {
        Some(file) if file.kind() == FileKind::BlockDevice => record.new_of_devices,
        _ => record.new,
    };
    u64::from(pages) * PAGE
}

/// Where in the file the call began.
pub(super) fn offset(call: Call, record: &Record<'_>) -> u64 {
    let moved = record.result.max(0) as u64;
    let position = match &record.file {
        Some(file) if file.has_positions() => file.position,
        _ => return 0,
    };
    match call {
        Call::Pread | Call::Preadv | Call::Pwrite | Call::Pwritev => record.arguments[3],
        Call::UringRead | Call::UringWrite | Call::AioRead | Call::AioWrite => {
            match record.arguments[3] {
                // From the position of the file on.
                u64::MAX => position.saturating_sub(moved),
                given => given,
            }
        }
        Call::SyncFileRange | Call::Ftruncate => record.arguments[1],
        Call::Fallocate => record.arguments[2],
        Call::Fault | Call::WriteFault => record.arguments[0].saturating_mul(PAGE),
        call if call.reads() || call.writes() => position.saturating_sub(moved),
        _ => 0,
    }
}

/// The offset at which a call began in the file that it copies to; `None` for a file without
/// positions.
pub(super) fn offset_in_second(record: &Record<'_>) -> Option<u64> {
    let second = record.second.as_ref().filter(|second| second.has_positions())?;
    Some(second.position.saturating_sub(record.result.max(0) as u64))
}

/// The bytes asked for.
pub(super) fn asked(call: Call, record: &Record<'_>) -> u64 {
    match call {
        Call::Read | Call::Pread | Call::Write | Call::Pwrite | Call::SyncFileRange => {
            record.arguments[2]
        }
        _ if has_list(call, record) => done(call, record).max(0) as u64,
        call if call.is_asynchronous() && !call.syncs() => record.arguments[2],
        Call::Sendfile | Call::Fallocate => record.arguments[3],
        Call::Fault | Call::WriteFault => done(call, record) as u64,
        Call::Msync => record.arguments[1],
        call if call.reads() || call.writes() => record.result.max(0) as u64,
        _ => 0,
    }
}

/// The flags of the call itself.
pub(super) fn flags(call: Call, record: &Record<'_>) -> u32 {
    match call {
        Call::Open => {
            let creation = (OFlags::CREATE | OFlags::EXCL | OFlags::TRUNC).bits();
            open_flags(record).bits() | record.asked_flags & creation
        }
        Call::UringFsync => (record.arguments[1] >> 32) as u32 & DATA_ONLY,
        Call::AioFsync if operation(record) == 3 => DATA_ONLY,
        Call::Fallocate => record.arguments[1] as u32,
        Call::SyncFileRange => record.arguments[3] as u32,
        Call::Msync => record.arguments[2] as u32,
        _ => 0,
    }
}

/// The descriptor of which a call made another one, and that one.
pub(super) fn duplicated(record: &Record<'_>) -> Option<(u32, u32)> {
    let new = u32::try_from(record.result).ok()?;
    Some((record.arguments[0] as u32, new))
}

/// The flags that the file was opened with.
pub(super) fn open_flags(record: &Record<'_>) -> OFlags {
    record.file.map_or(OFlags::empty(), |file| OFlags::from_bits_retain(file.flags))
}

/// The descriptor of the directory that a path of a call begins in; `None` for the working
/// directory.
pub(super) fn base_descriptor(record: &Record<'_>) -> Option<u32> {
    // A descriptor has 32 bits, of which the upper half of the register says nothing; `AT_FDCWD` is
    // negative.
    let fd = record.arguments[record.base?] as i32;
    u32::try_from(fd).ok()
}
