//! The names of what is counted.

/// A request of the kernel, by the system calls that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A name looked up in a directory.
    Lookup,
    /// Attributes: `stat(2)`.
    Getattr,
    /// Attributes changed: `chmod(2)`, `chown(2)`, `utimensat(2)`, `truncate(2)`.
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
    /// `open(2)` of what exists.
    Open,
    /// `open(2)` of what is made by it.
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
    /// A directory opened, synced or closed.
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
    /// All of them, in the order of the tables.
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

    /// The word for it in reports.
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
pub enum Kind {
    /// Bytes read.
    Read,
    /// Bytes written.
    Write,
    /// A sync; it has no bytes.
    Sync,
}

impl Kind {
    /// All of them, in the order of the tables.
    pub const ALL: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Sync];

    /// The word for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Sync => "sync",
        }
    }
}

/// What a request was blocked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The lock of the whole file: to resize, to write misaligned, for everything of a file that is
    /// locked as a whole, and for concurrent I/O, which takes no ranges.
    File,
    /// The lock of a range of bytes.
    Range,
    /// The request queue: a thread of the server, while all were busy. How long is not known.
    Queue,
    /// Room among the bytes that are acknowledged and not yet written.
    Room,
    /// The device: a transfer past the page cache, or a sync, that a program waits for.
    Device,
}

impl Wait {
    /// All of them, in the order of the tables.
    pub const ALL: [Wait; 5] = [Wait::File, Wait::Range, Wait::Queue, Wait::Room, Wait::Device];

    /// The word for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Wait::File => "file",
            Wait::Range => "range",
            Wait::Queue => "queue",
            Wait::Room => "room",
            Wait::Device => "device",
        }
    }
}

/// What else happens to a file: counted with the bytes that it concerns (0 where it concerns none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A write, truncation or allocation made the file longer; the bytes that it grew by.
    Extend,
    /// Read ahead of the program, when the read was started.
    ReadAhead,
    /// A program's read that was served, in full, from what was read ahead.
    ReadAheadHit,
    /// Read ahead and thrown away unread.
    ReadAheadWaste,
    /// A write that was acknowledged before it was written.
    WriteBehind,
    /// A write to the source of what was acknowledged before; several writes of a program make one
    /// of these.
    WriteBehindWritten,
    /// Served by the hybrid mode past the page cache: the request is large.
    HybridLarge,
    /// Served by the hybrid mode past the page cache: the request continues a stream.
    HybridStream,
    /// Served by the hybrid mode past the page cache: it is small, and nothing like it has been
    /// seen lately.
    HybridFirst,
    /// Served by the hybrid mode through the page cache: the request is small.
    HybridSmall,
    /// Served by the hybrid mode through the page cache: its pages are there already.
    HybridResident,
    /// Served by the hybrid mode through the page cache: the range was read before.
    HybridReread,
    /// Served through the page cache as the file is open cached, or mapped.
    HybridShared,
    /// The file went from direct to cached I/O, for an open or a mapping that needs pages.
    BecameCached,
    /// The file was flushed, its pages were dropped and its I/O is direct again; the bytes that
    /// were dropped.
    BecameDirect,
    /// The kernel was asked to drop its cache of the mount, with the last mapping or cached handle
    /// that has filled it; how much that is the kernel does not tell.
    DroppedCache,
}

impl Event {
    /// All of them, in the order of the tables.
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

    /// The word for it in reports.
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

/// What is asked for when a snapshot is taken, not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gauge {
    /// Inodes that the kernel may name: looked up and not yet forgotten.
    Inodes,
    /// Open handles of files and directories.
    Handles,
    /// Bytes of memory for inodes and names.
    InodeMemory,
    /// Bytes of memory for blocks of files: read ahead, write behind, buffers.
    BlockMemory,
    /// Bytes acknowledged and not yet written.
    WriteBehindPending,
    /// Requests that the server has taken and not yet answered.
    Requests,
    /// Requests that lie in the kernel's queue, since no thread of the server has taken them yet.
    Queued,
}

impl Gauge {
    /// All of them, in the order of the tables.
    pub const ALL: [Gauge; 7] = [
        Gauge::Inodes,
        Gauge::Handles,
        Gauge::InodeMemory,
        Gauge::BlockMemory,
        Gauge::WriteBehindPending,
        Gauge::Requests,
        Gauge::Queued,
    ];

    /// The word for it in reports.
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
