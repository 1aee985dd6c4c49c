//! The system calls that are watched, and what the programs must know of each.

use crate::trace::Call;

/// Numbers of system calls are below this.
pub(super) const NUMBERS: u32 = 512;

/// The argument that has the descriptor of a file, from 1, or [`RESULT`]; 0 if there is none.
pub(super) const FIRST_FILE: i32 = 0xf;
/// That of a second file, in the next four bits.
pub(super) const SECOND_FILE: i32 = 0xf0;
/// The call opens a file, or changes to a directory; its path is recorded if it succeeds.
pub(super) const OPENS: i32 = 0x100;
/// The path is the first argument, not the second.
pub(super) const PATH_FIRST: i32 = 0x200;
/// The call is watched.
const WATCHED: i32 = 0x400;
/// The flags of `open(2)` are the second argument, or the third.
pub(super) const FLAGS_SECOND: i32 = 0x800;
pub(super) const FLAGS_THIRD: i32 = 0x1000;

/// The call looks at a file. It is recorded if it did, or if there is no file of the name. The
/// beginning of the name is recorded, too.
pub(super) const LOOKS: i32 = 0x2000;
/// The second argument says what the call does; only copies of descriptors are recorded.
pub(super) const COMMANDS: i32 = 0x4000;
/// `F_DUPFD` and `F_DUPFD_CLOEXEC` (`include/uapi/linux/fcntl.h`).
pub(super) const DUPLICATES: [i32; 2] = [0, 1030];

/// In place of the number of an argument: the descriptor that the call returns.
pub(super) const RESULT: i32 = 6;

/// The numbers of records that come from faults, and from new tasks.
pub(super) const FAULT: u32 = NUMBERS - 1;
pub(super) const FORK: u32 = NUMBERS - 2;
/// Those of records that come from requests of io_uring and of asynchronous I/O.
pub(super) const URING: u32 = NUMBERS - 3;
pub(super) const AIO_DONE: u32 = NUMBERS - 4;
pub(super) const AIO_BEGUN: u32 = NUMBERS - 5;
/// That of a batch of calls.
pub(super) const BATCH: u32 = NUMBERS - 6;
/// Pages of mapped memory were written first.
pub(super) const WRITE_FAULT: u32 = NUMBERS - 7;

/// The lowest number of such records.
const NOT_CALLS: u32 = WRITE_FAULT;

/// The call submits requests of asynchronous I/O.
pub(super) const SUBMITS: i32 = 0x8000;
/// The call fetches what came of such requests. Only they are recorded, not the call.
pub(super) const FETCHES: i32 = 0x1_0000;

/// The call is about a name, whose beginning is recorded. The path is the second argument, or the
/// one of [`PATH_FIRST`] or [`PATH_THIRD`].
pub(super) const NAMES: i32 = 0x4_0000;
pub(super) const PATH_THIRD: i32 = 0x8_0000;
/// No argument before the path has the directory that it begins in.
const NO_BASE: i32 = 0x10_0000;

/// The second and the fourth argument, or the third one, may have addresses of offsets: of the
/// first and the second file, or of the first one.
pub(super) const OFFSETS: i32 = 0x20_0000;
pub(super) const OFFSET_THIRD: i32 = 0x40_0000;

/// Calls that differ in their results and their positions only may be recorded in batches.
pub(super) const IN_BATCHES: i32 = 0x2_0000;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Watched {
    /// A call that a trace has.
    Call(Call),
    /// The working directory of a process changes, to a path or to an open directory.
    Chdir,
    Fchdir,
    /// A process gets another descriptor of a file.
    Duplicate,
    /// A process makes another one, or a thread.
    Fork,
    /// A request to io_uring has completed.
    Uring,
    /// A request is submitted by `io_submit(2)`; the result is its address.
    AioBegun,
    /// The result of such a request was fetched; the first argument is its address.
    AioDone,
}

const OPEN: i32 = RESULT | OPENS;

/// Number of the system call on x86-64, the call, and its bits. 32-bit programs use other numbers,
/// and are not watched. In the order of the numbers.
const CALLS: [(u32, Watched, i32); 80] = [
    (0, Watched::Call(Call::Read), 1 | IN_BATCHES),
    (1, Watched::Call(Call::Write), 1 | IN_BATCHES),
    (2, Watched::Call(Call::Open), OPEN | PATH_FIRST | FLAGS_SECOND),
    (4, Watched::Call(Call::Stat), LOOKS | PATH_FIRST),
    (5, Watched::Call(Call::Stat), 1),
    (6, Watched::Call(Call::Stat), LOOKS | PATH_FIRST),
    (9, Watched::Call(Call::Mmap), 5),
    (17, Watched::Call(Call::Pread), 1 | IN_BATCHES),
    (18, Watched::Call(Call::Pwrite), 1 | IN_BATCHES),
    (19, Watched::Call(Call::Readv), 1),
    (20, Watched::Call(Call::Writev), 1),
    (21, Watched::Call(Call::Stat), LOOKS | PATH_FIRST),
    (26, Watched::Call(Call::Msync), 0),
    (32, Watched::Duplicate, 1),
    (33, Watched::Duplicate, 1),
    (40, Watched::Call(Call::Sendfile), 2 | 1 << 4 | OFFSET_THIRD),
    (72, Watched::Duplicate, 1 | COMMANDS),
    (74, Watched::Call(Call::Fsync), 1),
    (75, Watched::Call(Call::Fdatasync), 1),
    (76, Watched::Call(Call::Truncate), NAMES | PATH_FIRST),
    (77, Watched::Call(Call::Ftruncate), 1),
    (78, Watched::Call(Call::Getdents), 1),
    (80, Watched::Chdir, OPENS | PATH_FIRST),
    (81, Watched::Fchdir, 1),
    (82, Watched::Call(Call::Rename), NAMES | PATH_FIRST),
    (83, Watched::Call(Call::Mkdir), NAMES | PATH_FIRST),
    (84, Watched::Call(Call::Rmdir), NAMES | PATH_FIRST),
    (85, Watched::Call(Call::Open), OPEN | PATH_FIRST),
    (86, Watched::Call(Call::Link), NAMES | PATH_FIRST),
    (87, Watched::Call(Call::Unlink), NAMES | PATH_FIRST),
    (88, Watched::Call(Call::Symlink), NAMES | NO_BASE),
    (90, Watched::Call(Call::Chmod), NAMES | PATH_FIRST),
    (91, Watched::Call(Call::Chmod), 1),
    (92, Watched::Call(Call::Chown), NAMES | PATH_FIRST),
    (93, Watched::Call(Call::Chown), 1),
    (94, Watched::Call(Call::Chown), NAMES | PATH_FIRST),
    (132, Watched::Call(Call::Utimensat), NAMES | PATH_FIRST),
    (133, Watched::Call(Call::Mknod), NAMES | PATH_FIRST),
    (188, Watched::Call(Call::Setxattr), NAMES | PATH_FIRST),
    (189, Watched::Call(Call::Setxattr), NAMES | PATH_FIRST),
    (190, Watched::Call(Call::Setxattr), 1),
    (208, Watched::AioDone, FETCHES),
    (209, Watched::Call(Call::IoSubmit), SUBMITS),
    (217, Watched::Call(Call::Getdents), 1),
    (235, Watched::Call(Call::Utimensat), NAMES | PATH_FIRST),
    (257, Watched::Call(Call::Open), OPEN | FLAGS_THIRD),
    (258, Watched::Call(Call::Mkdir), NAMES),
    (259, Watched::Call(Call::Mknod), NAMES),
    (260, Watched::Call(Call::Chown), NAMES),
    (261, Watched::Call(Call::Utimensat), 1 | NAMES),
    (262, Watched::Call(Call::Stat), 1 | LOOKS),
    (263, Watched::Call(Call::Unlink), NAMES),
    (264, Watched::Call(Call::Rename), NAMES),
    (265, Watched::Call(Call::Link), NAMES),
    (266, Watched::Call(Call::Symlink), NAMES | PATH_THIRD),
    (268, Watched::Call(Call::Chmod), NAMES),
    (269, Watched::Call(Call::Stat), 1 | LOOKS),
    (275, Watched::Call(Call::Splice), 1 | 3 << 4 | OFFSETS),
    (277, Watched::Call(Call::SyncFileRange), 1),
    (280, Watched::Call(Call::Utimensat), 1 | NAMES),
    (285, Watched::Call(Call::Fallocate), 1),
    (292, Watched::Duplicate, 1),
    (295, Watched::Call(Call::Preadv), 1),
    (296, Watched::Call(Call::Pwritev), 1),
    (316, Watched::Call(Call::Rename), NAMES),
    (326, Watched::Call(Call::CopyFileRange), 1 | 3 << 4 | OFFSETS),
    (327, Watched::Call(Call::Preadv), 1),
    (328, Watched::Call(Call::Pwritev), 1),
    (332, Watched::Call(Call::Stat), 1 | LOOKS),
    (333, Watched::AioDone, FETCHES),
    (426, Watched::Call(Call::IoUringEnter), 0),
    (437, Watched::Call(Call::Open), OPEN),
    (439, Watched::Call(Call::Stat), 1 | LOOKS),
    (452, Watched::Call(Call::Chmod), NAMES),
    // No system calls have these numbers.
    (WRITE_FAULT, Watched::Call(Call::WriteFault), 0),
    (AIO_BEGUN, Watched::AioBegun, 0),
    (AIO_DONE, Watched::AioDone, 0),
    (URING, Watched::Uring, 0),
    (FORK, Watched::Fork, 0),
    (FAULT, Watched::Call(Call::Fault), 0),
];

/// The bits of each watched system call, by its number.
pub(super) fn kinds() -> impl Iterator<Item = (u32, u32)> {
    CALLS
        .iter()
        .filter(|(number, ..)| *number < NOT_CALLS)
        .map(|(number, _, bits)| (*number, (bits | WATCHED) as u32))
}

/// Whether there are system calls of a kind that may be recorded in batches.
pub(super) fn in_batches(what: Watched) -> bool {
    matches!(what, Watched::Call(Call::Read | Call::Write | Call::Pread | Call::Pwrite))
}

/// What the number of a record stands for, and its bits.
pub(super) fn watched(number: u32) -> Option<(Watched, i32)> {
    let at = CALLS.binary_search_by_key(&number, |(known, ..)| *known).ok()?;
    Some((CALLS[at].1, CALLS[at].2))
}

/// A system call that leads to a record by itself, and its bits.
pub(super) fn watched_call(number: u32) -> Option<(Watched, i32)> {
    watched(number).filter(|(_, bits)| number < NOT_CALLS && bits & FETCHES == 0)
}

/// The number of the argument that has the path of a call with these bits, from 0.
pub(super) fn path_argument(bits: i32) -> usize {
    match bits & (PATH_FIRST | PATH_THIRD) {
        0 => 1,
        PATH_FIRST => 0,
        _ => 2,
    }
}

/// Those of the arguments, from 0, which have the addresses of the offsets at which a call begins
/// in its first and in its second file. The kernel adds to these offsets what the call moved, and
/// leaves the position of the file as it is; without an address, it is the other way round.
pub(super) fn offset_arguments(bits: i32) -> [Option<usize>; 2] {
    match bits & (OFFSETS | OFFSET_THIRD) {
        OFFSETS => [Some(1), Some(3)],
        OFFSET_THIRD => [Some(2), None],
        _ => [None, None],
    }
}

/// That of the argument which has the directory that the path begins in.
pub(super) fn base_argument(bits: i32) -> Option<usize> {
    let has_path = bits & (OPENS | LOOKS | NAMES) != 0 && bits & NO_BASE == 0;
    path_argument(bits).checked_sub(1).filter(|_| has_path)
}
