//! What a trace consists of.

use serde::{Deserialize, Serialize};

/// The calls that are recorded, each by the name of its system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[repr(u8)]
#[expect(missing_docs, reason = "each is the system call of its name")]
pub enum Call {
    Open,
    Read,
    Pread,
    Readv,
    Preadv,
    Write,
    Pwrite,
    Writev,
    Pwritev,
    Sendfile,
    CopyFileRange,
    Splice,
    Fsync,
    Fdatasync,
    SyncFileRange,
    Ftruncate,
    Fallocate,
    Mmap,
    IoUringEnter,
    IoSubmit,
    /// No call: the first touch of pages in mapped memory.
    Fault,
    /// A file is looked at by its descriptor, or by a name: then the file is the directory of the
    /// name, and the offset is [`name_number`](super::name_number) of the name.
    Stat,
    /// A request to io_uring, from its submission to its completion.
    UringRead,
    UringWrite,
    /// The flags may have [`DATA_ONLY`].
    UringFsync,
    /// A request of `io_submit(2)`, from its submission to its completion.
    AioRead,
    AioWrite,
    /// As [`Call::UringFsync`].
    AioFsync,
    /// A directory is listed.
    Getdents,
    /// A name, or what belongs to one, is changed: this call and those after it are recorded with
    /// the directory of the name, or of the first one, unless they have an open file. A call and
    /// its relatives, such as `renameat2(2)`, are one.
    Rename,
    Unlink,
    Rmdir,
    Mkdir,
    Mknod,
    Link,
    Symlink,
    Truncate,
    Chmod,
    Chown,
    Utimensat,
    Setxattr,
    /// No call: pages of mapped memory that were written first, since the file's contents were
    /// read or written back.
    WriteFault,
    /// The flags are those of the call.
    Msync,
}

impl Call {
    /// All calls, by their number in traces.
    pub const ALL: [Call; 43] = [
        Call::Open,
        Call::Read,
        Call::Pread,
        Call::Readv,
        Call::Preadv,
        Call::Write,
        Call::Pwrite,
        Call::Writev,
        Call::Pwritev,
        Call::Sendfile,
        Call::CopyFileRange,
        Call::Splice,
        Call::Fsync,
        Call::Fdatasync,
        Call::SyncFileRange,
        Call::Ftruncate,
        Call::Fallocate,
        Call::Mmap,
        Call::IoUringEnter,
        Call::IoSubmit,
        Call::Fault,
        Call::Stat,
        Call::UringRead,
        Call::UringWrite,
        Call::UringFsync,
        Call::AioRead,
        Call::AioWrite,
        Call::AioFsync,
        Call::Getdents,
        Call::Rename,
        Call::Unlink,
        Call::Rmdir,
        Call::Mkdir,
        Call::Mknod,
        Call::Link,
        Call::Symlink,
        Call::Truncate,
        Call::Chmod,
        Call::Chown,
        Call::Utimensat,
        Call::Setxattr,
        Call::WriteFault,
        Call::Msync,
    ];

    /// The name of the system call.
    pub fn name(self) -> &'static str {
        match self {
            Call::Open => "open",
            Call::Read => "read",
            Call::Pread => "pread",
            Call::Readv => "readv",
            Call::Preadv => "preadv",
            Call::Write => "write",
            Call::Pwrite => "pwrite",
            Call::Writev => "writev",
            Call::Pwritev => "pwritev",
            Call::Sendfile => "sendfile",
            Call::CopyFileRange => "copy_file_range",
            Call::Splice => "splice",
            Call::Fsync => "fsync",
            Call::Fdatasync => "fdatasync",
            Call::SyncFileRange => "sync_file_range",
            Call::Ftruncate => "ftruncate",
            Call::Fallocate => "fallocate",
            Call::Mmap => "mmap",
            Call::IoUringEnter => "io_uring_enter",
            Call::IoSubmit => "io_submit",
            Call::Fault => "page fault",
            Call::Stat => "stat",
            Call::UringRead => "io_uring read",
            Call::UringWrite => "io_uring write",
            Call::UringFsync => "io_uring fsync",
            Call::AioRead => "aio read",
            Call::AioWrite => "aio write",
            Call::AioFsync => "aio fsync",
            Call::Getdents => "getdents",
            Call::Rename => "rename",
            Call::Unlink => "unlink",
            Call::Rmdir => "rmdir",
            Call::Mkdir => "mkdir",
            Call::Mknod => "mknod",
            Call::Link => "link",
            Call::Symlink => "symlink",
            Call::Truncate => "truncate",
            Call::Chmod => "chmod",
            Call::Chown => "chown",
            Call::Utimensat => "utimensat",
            Call::Setxattr => "setxattr",
            Call::WriteFault => "write fault",
            Call::Msync => "msync",
        }
    }

    /// Whether the call moves bytes from [`Request::file`].
    pub fn reads(self) -> bool {
        matches!(self, Call::Read | Call::Pread | Call::Readv | Call::Preadv | Call::Fault)
            || matches!(self, Call::UringRead | Call::AioRead)
            || self.copies()
    }

    /// Whether the call moves bytes to [`Request::file`].
    pub fn writes(self) -> bool {
        matches!(self, Call::Write | Call::Pwrite | Call::Writev | Call::Pwritev)
            || matches!(self, Call::UringWrite | Call::AioWrite | Call::WriteFault)
    }

    /// Whether the call makes [`Request::file`] durable.
    pub fn syncs(self) -> bool {
        matches!(self, Call::Fsync | Call::Fdatasync | Call::UringFsync | Call::AioFsync)
    }

    /// Whether it is a request that a system call only begins: a thread may have many of these at
    /// once.
    pub fn is_asynchronous(self) -> bool {
        matches!(self, Call::UringRead | Call::UringWrite | Call::UringFsync)
            || matches!(self, Call::AioRead | Call::AioWrite | Call::AioFsync)
    }

    /// Whether the call lists, looks for or changes names or what belongs to them.
    pub fn is_of_names(self) -> bool {
        let changes = Call::Getdents as u8..=Call::Setxattr as u8;
        self == Call::Stat || changes.contains(&(self as u8))
    }

    /// Whether the call makes, changes or removes names in [`Request::file`], a directory, or cuts
    /// off a file that it names.
    pub fn changes_names(self) -> bool {
        matches!(
            self,
            Call::Rename | Call::Link | Call::Unlink | Call::Mkdir | Call::Rmdir | Call::Truncate
        )
    }

    /// Whether it is no call, but the touch of mapped memory.
    pub fn is_fault(self) -> bool {
        matches!(self, Call::Fault | Call::WriteFault)
    }

    /// Whether the call moves bytes from [`Request::file`] to [`Request::to`] in the kernel.
    pub fn copies(self) -> bool {
        matches!(self, Call::Sendfile | Call::CopyFileRange | Call::Splice)
    }
}

/// The flag of [`Call::UringFsync`] and [`Call::AioFsync`] for those that do as `fdatasync(2)`
/// (`IORING_FSYNC_DATASYNC`).
pub const DATA_ONLY: u32 = 1;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[repr(u8)]
pub enum FileKind {
    /// An ordinary file.
    Regular,
    /// A block device.
    BlockDevice,
    /// A pipe, named or not.
    Pipe,
    /// Anything else: a terminal, a socket, a directory.
    Other,
}

impl FileKind {
    /// All kinds, by their number in traces.
    pub const ALL: [FileKind; 4] =
        [FileKind::Regular, FileKind::BlockDevice, FileKind::Pipe, FileKind::Other];
}

/// A file, as it was when its first request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// The kernel's number of the file system.
    pub device: u64,
    /// The inode.
    pub inode: u64,
    /// Its kind.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// A name by which it was opened, or the kernel's name of an open file; empty if neither could
    /// be learned.
    pub path: Vec<u8>,
}

/// One call of one thread to one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The call.
    pub call: Call,
    /// The thread's number in the trace.
    pub thread: u32,
    /// The file's number in the trace.
    pub file: u32,
    /// Where in the file the call began; 0 where a file has no positions. Of [`Call::Stat`] by a
    /// name, a number of the name.
    pub offset: u64,
    /// The bytes asked for. For calls with several buffers it is not known, and equals what was
    /// done.
    pub asked: u64,
    /// Of a call that opens a file, the flags of `open(2)` that the file has then, and those by
    /// which it is made or truncated, as far as these are known; of
    /// `fallocate(2)`, the mode; of `sync_file_range(2)`, the flags.
    pub flags: u32,
    /// What the call returned: bytes, or a negated error number. Of a fault, the bytes of the pages
    /// that it mapped.
    pub done: i64,
    /// The bytes of pages that were new to the page cache during the call, those of read-ahead
    /// among them. A fault that maps nothing only tells of these.
    pub cached: u64,
    /// Whether the file was open for direct I/O (`O_DIRECT`).
    pub direct: bool,
    /// Whether the file was open with `O_SYNC` or `O_DSYNC`.
    pub synced: bool,
    /// Whether the thread slept between its last request and this one, as threads do that wait for
    /// others, for a time, or for bytes that are not recorded.
    pub waited: bool,
    /// When the call was entered, in nanoseconds since the trace began.
    pub start: u64,
    /// How long it took, in nanoseconds.
    pub duration: u64,
    /// The number of the file that bytes were copied to, for calls that copy.
    pub to: Option<u32>,
    /// The offset in that file at which they were written; `None` if it has no positions.
    /// Traces up to version 2 do not have it.
    pub to_offset: Option<u64>,
}

impl Request {
    /// A request through the page cache that began at `start`, moved all its bytes and took no
    /// time.
    pub fn at(
        start: u64,
        call: Call,
        thread: u32,
        (file, offset): (u32, u64),
        bytes: u64,
    ) -> Request {
        let moves = call.reads() || call.writes();
        Request {
            call,
            thread,
            file,
            offset,
            asked: bytes,
            flags: 0,
            done: if moves { i64::try_from(bytes).unwrap_or(i64::MAX) } else { 0 },
            cached: 0,
            direct: false,
            synced: false,
            waited: false,
            start,
            duration: 0,
            to: None,
            to_offset: None,
        }
    }
}

/// What a trace says of itself at its beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Heading {
    /// The command and its arguments as text.
    pub command: Vec<String>,
    /// The version of the kernel.
    pub kernel: String,
    /// When the trace began, in seconds since 1970.
    pub began: u64,
    /// What watching adds to each call.
    #[serde(default)]
    pub cost: WatchCost,
    /// The machine, as [`machine_id`](crate::machine_id) has it; empty if that is not known.
    #[serde(default)]
    pub machine: String,
    /// The memory that the command may use, in bytes: that of the machine, or the limit of its
    /// control group; 0 if that is not known.
    #[serde(default)]
    pub memory: u64,
    /// What is recorded ran already: `command` describes it, and is no command line.
    #[serde(default)]
    pub attached: bool,
    /// Requests to io_uring are recorded, and not only the calls that submit them.
    #[serde(default)]
    pub sees_io_uring: bool,
    /// The same of `io_submit(2)`.
    #[serde(default)]
    pub sees_aio: bool,
    /// The first touches of mapped memory are recorded.
    #[serde(default = "yes")]
    pub sees_faults: bool,
}

/// The value of what traces have always had.
fn yes() -> bool {
    true
}

/// The time that watching adds to a call, in nanoseconds, as it was measured when the trace began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchCost {
    /// Between its recorded start and end.
    pub within: u64,
    /// Before the start and after the end.
    pub around: u64,
    /// To a call that is watched and not recorded.
    #[serde(default)]
    pub other: u64,
}

impl Heading {
    /// Makes a heading, of no known machine.
    pub fn new(command: Vec<String>, kernel: String, began: u64, cost: WatchCost) -> Heading {
        let machine = String::new();
        Heading {
            command,
            kernel,
            began,
            cost,
            machine,
            memory: 0,
            attached: false,
            sees_io_uring: false,
            sees_aio: false,
            sees_faults: true,
        }
    }

    /// The calls that begin requests which are not in the trace.
    pub fn hidden(&self) -> Vec<Call> {
        let io_uring = (!self.sees_io_uring).then_some(Call::IoUringEnter);
        let aio = (!self.sees_aio).then_some(Call::IoSubmit);
        io_uring.into_iter().chain(aio).collect()
    }
}

/// One event of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The first event.
    Heading(Heading),
    /// A thread that the next request names. Threads are numbered from 0 as they appear.
    Thread {
        /// The kernel's number of the thread.
        tid: u32,
        /// That of its process.
        pid: u32,
        /// The name of the program, at most 15 bytes.
        name: Vec<u8>,
    },
    /// A file that the next request names. Files are numbered from 0 as they appear.
    File(FileInfo),
    /// A request.
    Request(Request),
    /// So many requests were made that found no room, since the last such event.
    Lost(u64),
    /// A thread made so many calls since its last request that were watched and are not recorded.
    /// Each took longer by [`WatchCost::other`].
    Unrecorded {
        /// The thread's number in the trace.
        thread: u32,
        /// The calls.
        calls: u64,
    },
    /// Which pages of a file are in the page cache is not known: [`Request::cached`] is less than
    /// it was for requests to it.
    CacheUnseen {
        /// The file's number in the trace.
        file: u32,
    },
    /// From here on, watching adds this to each call, and no longer what the heading or the last
    /// such event says.
    Cost(WatchCost),
    /// The command has ended, with the status as a shell shows it. A trace without this event was
    /// cut, or still grows.
    Ended {
        /// The status.
        status: u8,
        /// Nanoseconds since the trace began.
        after: u64,
    },
}
