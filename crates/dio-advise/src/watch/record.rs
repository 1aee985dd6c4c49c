//! The records that the programs pass through the ring.

use super::calls::{self, Watched};

/// Where the parts of a record are, in bytes.
pub(super) mod at {
    /// When the call was entered, nanoseconds of the system's monotonic clock; 0 if that was before
    /// it was watched.
    pub(in super::super) const START: i16 = 0;
    /// When it returned.
    pub(in super::super) const END: i16 = 8;
    pub(in super::super) const TID: i16 = 16;
    pub(in super::super) const PID: i16 = 20;
    /// The number of the system call, 32 bits.
    pub(in super::super) const NUMBER: i16 = 24;
    /// Pages of ordinary files that were new to the page cache, 32 bits.
    pub(in super::super) const NEW: i16 = 28;
    /// What it returned.
    pub(in super::super) const RESULT: i16 = 32;
    /// The first four arguments.
    pub(in super::super) const ARGUMENTS: i16 = 40;
    /// How often the thread slept between its last call and this one, 32 bits.
    pub(in super::super) const SLEPT: i16 = 72;
    /// The name of the program, with zero bytes up to 16.
    pub(in super::super) const NAME: i16 = 80;
    /// The file of the call, of [`FILE_BYTES`].
    pub(in super::super) const FILE: i16 = 96;
    /// The second file, of calls that have one.
    pub(in super::super) const SECOND: i16 = 136;
    /// The path, of calls that open a file, with a zero byte at its end.
    pub(in super::super) const PATH: i16 = 136;

    /// Within a file: its inode, size, and position after the call.
    pub(in super::super) const INODE: i16 = 0;
    pub(in super::super) const SIZE: i16 = 8;
    pub(in super::super) const POSITION: i16 = 16;
    /// The file system's number, the flags of `open(2)`, and type and mode, 32 bits each. The mode
    /// of no file is 0.
    pub(in super::super) const DEVICE: i16 = 24;
    pub(in super::super) const FLAGS: i16 = 28;
    pub(in super::super) const MODE: i16 = 32;
    /// Of the first file only: pages of block devices that were new to the page cache, 32 bits.
    pub(in super::super) const NEW_OF_DEVICES: i16 = 36;
    pub(in super::super) const FILE_BYTES: i16 = 40;
}

/// Where the parts of a batch are, in bytes. It is passed on as a whole.
pub(super) mod batch {
    /// The task, by the address of the kernel's structure; 0 if the place is free.
    pub(in super::super) const OWNER: i16 = 0;
    /// How often it had slept.
    pub(in super::super) const SLEEPS: i16 = 8;
    /// The calls in the batch, and how many batches of this place were passed on.
    pub(in super::super) const CALLS: i16 = 16;
    pub(in super::super) const SEQUENCE: i16 = 20;
    /// As [`at::NUMBER`](super::at::NUMBER).
    pub(in super::super) const RECORD_NUMBER: i16 = super::at::NUMBER;
    pub(in super::super) const NEXT_LANE: i16 = 28;
    pub(in super::super) const TID: i16 = 32;
    /// The next call is recorded by itself.
    pub(in super::super) const TOUCHED: i16 = 40;
    pub(in super::super) const NAME: i16 = 48;
    pub(in super::super) const LANES: i16 = 64;
    pub(in super::super) const ENTRIES: i16 = LANES + LANE_COUNT * LANE_BYTES;

    /// What the calls of a lane have in common: the number of the system call, the mode of the
    /// file, its descriptor, the bytes asked for, the addresses of the kernel's structure of the
    /// open file, and what [`super::at`] has of the file.
    pub(in super::super) const NUMBER: i16 = 0;
    pub(in super::super) const MODE: i16 = 4;
    pub(in super::super) const DESCRIPTOR: i16 = 8;
    pub(in super::super) const ASKED: i16 = 16;
    pub(in super::super) const FILE: i16 = 24;
    pub(in super::super) const INODE: i16 = 32;
    pub(in super::super) const DEVICE: i16 = 40;
    pub(in super::super) const FLAGS: i16 = 44;
    pub(in super::super) const SIZE: i16 = 48;
    pub(in super::super) const LANE_BYTES: i16 = 56;
    pub(in super::super) const LANE_COUNT: i16 = 3;

    /// One call: when it returned or 0, the position after it or that which it was given, its
    /// result in 32 bits, and its lane.
    pub(in super::super) const END: i16 = 0;
    pub(in super::super) const AT: i16 = 8;
    pub(in super::super) const RESULT: i16 = 16;
    pub(in super::super) const LANE: i16 = 20;
    pub(in super::super) const ENTRY_BYTES: i16 = 24;
    pub(in super::super) const ENTRY_COUNT: i32 = 32;
    /// Of so many calls one has its time, a power of two.
    pub(in super::super) const TIMED: i32 = 8;

    pub(in super::super) const BYTES: i32 = ENTRIES as i32 + ENTRY_COUNT * ENTRY_BYTES as i32;
    /// So many threads may have batches at a time: a power of two.
    pub(in super::super) const COUNT_MAX: i32 = 1024;
}

/// Bytes of a record of one file, of a second file, of a path, and of the name of a program.
pub(super) const BYTES: i32 = at::SECOND as i32;
pub(super) const SECOND_BYTES: i32 = at::FILE_BYTES as i32;
/// `PATH_MAX`.
pub(super) const PATH_BYTES: i32 = 4096;
/// Of a name that was looked at, only so much is recorded: it is only asked where it is.
pub(super) const LOOK_BYTES: i32 = 256;
pub(super) const NAME_BYTES: i32 = 16;

/// One call of a watched process, or what else it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) what: Watched,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) tid: u32,
    pub(crate) pid: u32,
    /// The name of the program, at most 15 bytes.
    pub(crate) name: &'a [u8],
    /// What the call returned; the pages of a fault; the process that a new task belongs to.
    pub(crate) result: i64,
    /// Whether the thread slept between its last call and this one.
    pub(crate) has_slept: bool,
    /// Pages that were new to the page cache during the call: of ordinary files, and of block
    /// devices, which file systems use too.
    pub(crate) new: u32,
    pub(crate) new_of_devices: u32,
    pub(crate) arguments: [u64; 4],
    /// The file that the call is about, or copies from; `None` if the descriptor is of none.
    pub(crate) file: Option<SeenFile>,
    /// The file that the call copies to.
    pub(crate) second: Option<SeenFile>,
    /// The flags with which a call opens a file: the kernel keeps only some of them with the file.
    /// 0 for calls that have them elsewhere.
    pub(crate) asked_flags: u32,
    /// The argument that has the descriptor of the directory which the path begins in.
    pub(crate) base: Option<usize>,
    /// The path by which the file was opened, or that of the directory, as the program gave it.
    pub(crate) path: Option<&'a [u8]>,
    /// Whether `new` and `new_of_devices` are known.
    pub(crate) sees_cache: bool,
    /// The calls that the thread was stopped at since its last record, this one among them; 0 where
    /// calls are watched without stopping.
    pub(crate) calls: u32,
    /// The call came densely: when it began is not known, but inferred.
    pub(crate) is_dense: bool,
}

/// A file as it was when the call returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenFile {
    pub(crate) inode: u64,
    /// The file system's number, in the kernel's own form.
    pub(crate) device: u32,
    pub(crate) size: u64,
    /// The position of the open file, or the offset that the call was given the address of.
    pub(crate) position: u64,
    /// The flags of `open(2)`.
    pub(crate) flags: u32,
    /// Type and permissions.
    pub(crate) mode: u32,
}

pub(super) fn word(bytes: &[u8], at: i16) -> u32 {
    let at = at as usize;
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn long(bytes: &[u8], at: i16) -> u64 {
    let at = at as usize;
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The flags of `open(2)` that a call with these bits has among its arguments.
pub(super) fn asked_flags(bits: i32, arguments: &[u64; 4]) -> u32 {
    match bits & (calls::FLAGS_SECOND | calls::FLAGS_THIRD) {
        calls::FLAGS_SECOND => arguments[1] as u32,
        calls::FLAGS_THIRD => arguments[2] as u32,
        _ => 0,
    }
}

impl Record<'_> {
    /// A record of a thread, by its number and that of its process, of no file and without results.
    pub(crate) fn empty<'a>(what: Watched, (tid, pid): (u32, u32), time: u64) -> Record<'a> {
        Record {
            what,
            start: time,
            end: time,
            tid,
            pid,
            name: &[],
            result: 0,
            has_slept: false,
            new: 0,
            new_of_devices: 0,
            arguments: [0; 4],
            file: None,
            second: None,
            asked_flags: 0,
            base: None,
            path: None,
            sees_cache: true,
            calls: 0,
            is_dense: false,
        }
    }

    /// Parses a record; `None` if it is none of ours.
    pub(super) fn of(bytes: &[u8]) -> Option<Record<'_>> {
        if bytes.len() < BYTES as usize {
            return None;
        }
        let (what, bits) = calls::watched(word(bytes, at::NUMBER))?;
        let text = |start: i16, end: usize| {
            let rest = bytes.get(start as usize..end)?;
            rest.split(|byte| *byte == 0).next()
        };
        let has_second =
            bits & calls::SECOND_FILE != 0 && bytes.len() >= (BYTES + SECOND_BYTES) as usize;
        let has_path = bits & (calls::OPENS | calls::LOOKS | calls::NAMES) != 0;
        let arguments = [0, 8, 16, 24].map(|offset| long(bytes, at::ARGUMENTS + offset));
        Some(Record {
            what,
            start: long(bytes, at::START),
            end: long(bytes, at::END),
            tid: word(bytes, at::TID),
            pid: word(bytes, at::PID),
            result: long(bytes, at::RESULT) as i64,
            has_slept: word(bytes, at::SLEPT) != 0,
            new: word(bytes, at::NEW),
            new_of_devices: word(bytes, at::FILE + at::NEW_OF_DEVICES),
            arguments,
            asked_flags: asked_flags(bits, &arguments),
            file: SeenFile::of(bytes, at::FILE),
            second: has_second.then(|| SeenFile::of(bytes, at::SECOND)).flatten(),
            name: text(at::NAME, at::FILE as usize).unwrap_or_default(),
            base: calls::base_argument(bits),
            path: text(at::PATH, bytes.len()).filter(|path| has_path && !path.is_empty()),
            sees_cache: true,
            calls: 0,
            is_dense: false,
        })
    }
}

impl SeenFile {
    fn of(bytes: &[u8], start: i16) -> Option<SeenFile> {
        let mode = word(bytes, start + at::MODE);
        (mode != 0).then(|| SeenFile {
            inode: long(bytes, start + at::INODE),
            device: word(bytes, start + at::DEVICE),
            size: long(bytes, start + at::SIZE),
            position: long(bytes, start + at::POSITION),
            flags: word(bytes, start + at::FLAGS),
            mode,
        })
    }
}
