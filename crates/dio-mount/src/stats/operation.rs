//! The names of operations, waits, events and gauges.

/// A request of the kernel; the variants name the system calls that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Lookup of a name in a directory.
    Lookup,
    /// Request for attributes: `stat(2)`.
    Getattr,
    /// Change of attributes: `chmod(2)`, `chown(2)`, `utimensat(2)`, `truncate(2)`.
    Setattr,
    /// `readlink(2)`.
    Readlink,
    /// `mknod(2)`.
    Mknod,
    /// `mkdir(2)`.
    Mkdir,
    /// `unlink(2)`.
    Unlink,
    /// `rmdir(2)`.
    Rmdir,
    /// `symlink(2)`.
    Symlink,
    /// `rename(2)`.
    Rename,
    /// `link(2)`.
    Link,
    /// `open(2)` of an existing file.
    Open,
    /// `open(2)` that creates a file.
    Create,
    /// `read(2)` and its relatives.
    Read,
    /// `write(2)` and its relatives.
    Write,
    /// A `close(2)` of one descriptor.
    Flush,
    /// The last `close(2)` of an open file.
    Release,
    /// `fsync(2)`, `fdatasync(2)`.
    Sync,
    /// `fallocate(2)`.
    Fallocate,
    /// `lseek(2)` for data and holes.
    Seek,
    /// `copy_file_range(2)`.
    CopyRange,
    /// Open, sync or close of a directory.
    Directory,
    /// `getdents64(2)`.
    Readdir,
    /// `statfs(2)`.
    Statfs,
    /// `getxattr(2)`, `listxattr(2)`.
    Getxattr,
    /// `setxattr(2)`, `removexattr(2)`.
    Setxattr,
    /// `access(2)`.
    Access,
    /// An inode that the kernel no longer needs.
    Forget,
    /// Anything else.
    Other,
}

impl Operation {
    /// All operations, in the order of the tables.
    pub const ALL: [Operation; 29] = [
        Operation::Lookup,
        Operation::Getattr,
        Operation::Setattr,
        Operation::Readlink,
        Operation::Mknod,
        Operation::Mkdir,
        Operation::Unlink,
        Operation::Rmdir,
        Operation::Symlink,
        Operation::Rename,
        Operation::Link,
        Operation::Open,
        Operation::Create,
        Operation::Read,
        Operation::Write,
        Operation::Flush,
        Operation::Release,
        Operation::Sync,
        Operation::Fallocate,
        Operation::Seek,
        Operation::CopyRange,
        Operation::Directory,
        Operation::Readdir,
        Operation::Statfs,
        Operation::Getxattr,
        Operation::Setxattr,
        Operation::Access,
        Operation::Forget,
        Operation::Other,
    ];

    /// The operation's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Lookup => "lookup",
            Operation::Getattr => "getattr",
            Operation::Setattr => "setattr",
            Operation::Readlink => "readlink",
            Operation::Mknod => "mknod",
            Operation::Mkdir => "mkdir",
            Operation::Unlink => "unlink",
            Operation::Rmdir => "rmdir",
            Operation::Symlink => "symlink",
            Operation::Rename => "rename",
            Operation::Link => "link",
            Operation::Open => "open",
            Operation::Create => "create",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Release => "release",
            Operation::Sync => "sync",
            Operation::Fallocate => "fallocate",
            Operation::Seek => "seek",
            Operation::CopyRange => "copy_range",
            Operation::Directory => "directory",
            Operation::Readdir => "readdir",
            Operation::Statfs => "statfs",
            Operation::Getxattr => "getxattr",
            Operation::Setxattr => "setxattr",
            Operation::Access => "access",
            Operation::Forget => "forget",
            Operation::Other => "other",
        }
    }
}

/// A request of a program on the contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A sync; it has no bytes.
    Sync,
}

impl RequestKind {
    /// All kinds, in the order of the tables.
    pub const ALL: [RequestKind; 3] = [RequestKind::Read, RequestKind::Write, RequestKind::Sync];

    /// The kind's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            RequestKind::Read => "read",
            RequestKind::Write => "write",
            RequestKind::Sync => "sync",
        }
    }
}

/// The object that a request was blocked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The lock of the whole file: for resizes, for misaligned writes, for all I/O of a file under
    /// the whole-file lock, and for concurrent I/O, which locks no ranges.
    File,
    /// The lock of a range of bytes.
    Range,
    /// The request queue: all threads of the server were busy. The duration is unknown.
    Queue,
    /// The limit of bytes that are acknowledged and not yet written.
    Room,
    /// The limit of the mount on bytes per second, or on the latency of the device.
    Throttle,
    /// The device: a transfer that bypasses the page cache, or a sync, that a program waits for.
    Device,
}

impl Wait {
    /// All values, in the order of the tables.
    pub const ALL: [Wait; 6] =
        [Wait::File, Wait::Range, Wait::Queue, Wait::Room, Wait::Throttle, Wait::Device];

    /// The value's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Wait::File => "file",
            Wait::Range => "range",
            Wait::Queue => "queue",
            Wait::Room => "room",
            Wait::Throttle => "throttle",
            Wait::Device => "device",
        }
    }
}

/// Other events of a file. Each is counted with the bytes that it concerns, or with 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A write, truncation or allocation extended the file, by this number of bytes.
    Extend,
    /// A read-ahead was started.
    ReadAhead,
    /// A program's read was served completely from bytes that were read ahead.
    ReadAheadHit,
    /// Bytes that were read ahead were discarded unread.
    ReadAheadWaste,
    /// A write was acknowledged before it was written.
    WriteBehind,
    /// Acknowledged bytes were written to the source; one such write can contain several writes of
    /// a program.
    WriteBehindWritten,
    /// The hybrid mode bypassed the page cache: the request is large.
    HybridLarge,
    /// The hybrid mode bypassed the page cache: the request continues a stream.
    HybridStream,
    /// The hybrid mode bypassed the page cache: the request is small, and no similar request was
    /// made recently.
    HybridFirst,
    /// The hybrid mode used the page cache: the request is small.
    HybridSmall,
    /// The hybrid mode used the page cache: its pages were in it already.
    HybridResident,
    /// The hybrid mode used the page cache: the range was read before.
    HybridReread,
    /// The request used the page cache because the file is open in cached mode, or mapped.
    HybridShared,
    /// The file changed from direct to cached I/O, for an open or a mapping that needs the page
    /// cache.
    BecameCached,
    /// The file was flushed, its pages were dropped, and its I/O is direct again. The bytes are
    /// those that were dropped.
    BecameDirect,
    /// The kernel was asked to drop its page cache of the mount, when the last mapping or cached
    /// handle that filled it was closed. The kernel does not report the number of bytes.
    DroppedCache,
}

impl Event {
    /// All events, in the order of the tables.
    pub const ALL: [Event; 16] = [
        Event::Extend,
        Event::ReadAhead,
        Event::ReadAheadHit,
        Event::ReadAheadWaste,
        Event::WriteBehind,
        Event::WriteBehindWritten,
        Event::HybridLarge,
        Event::HybridStream,
        Event::HybridFirst,
        Event::HybridSmall,
        Event::HybridResident,
        Event::HybridReread,
        Event::HybridShared,
        Event::BecameCached,
        Event::BecameDirect,
        Event::DroppedCache,
    ];

    /// The event's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Event::Extend => "extend",
            Event::ReadAhead => "read_ahead",
            Event::ReadAheadHit => "read_ahead_hit",
            Event::ReadAheadWaste => "read_ahead_waste",
            Event::WriteBehind => "write_behind",
            Event::WriteBehindWritten => "write_behind_written",
            Event::HybridLarge => "hybrid_large",
            Event::HybridStream => "hybrid_stream",
            Event::HybridFirst => "hybrid_first",
            Event::HybridSmall => "hybrid_small",
            Event::HybridResident => "hybrid_resident",
            Event::HybridReread => "hybrid_reread",
            Event::HybridShared => "hybrid_shared",
            Event::BecameCached => "became_cached",
            Event::BecameDirect => "became_direct",
            Event::DroppedCache => "dropped_cache",
        }
    }
}

/// A value that is determined when a snapshot is taken, not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gauge {
    /// Inodes that the kernel holds: looked up and not yet forgotten.
    Inodes,
    /// Open handles of files and directories.
    Handles,
    /// Bytes of memory for inodes and names.
    InodeMemory,
    /// Bytes of memory for blocks of files: read ahead, write behind, buffers.
    BlockMemory,
    /// Bytes acknowledged and not yet written.
    WriteBehindPending,
    /// Requests that the server has read and not yet answered.
    Requests,
    /// Requests in the kernel's queue, which no thread of the server has read yet.
    Queued,
}

impl Gauge {
    /// All gauges, in the order of the tables.
    pub const ALL: [Gauge; 7] = [
        Gauge::Inodes,
        Gauge::Handles,
        Gauge::InodeMemory,
        Gauge::BlockMemory,
        Gauge::WriteBehindPending,
        Gauge::Requests,
        Gauge::Queued,
    ];

    /// The gauge's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Gauge::Inodes => "inodes",
            Gauge::Handles => "handles",
            Gauge::InodeMemory => "inode_memory_bytes",
            Gauge::BlockMemory => "block_memory_bytes",
            Gauge::WriteBehindPending => "write_behind_pending_bytes",
            Gauge::Requests => "requests_in_hand",
            Gauge::Queued => "requests_queued",
        }
    }
}
