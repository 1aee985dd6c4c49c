//! Flags of the protocol, with the kernel's names.

use bitflags::bitflags;

bitflags! {
    /// Features of the kernel and the server beyond the oldest protocol (`fuse_init_in.flags` and
    /// `flags2`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct InitFlags: u64 {
        /// Several reads of one open file may be in flight at a time.
        const FUSE_ASYNC_READ = 1 << 0;
        /// The server handles POSIX locks.
        const FUSE_POSIX_LOCKS = 1 << 1;
        /// Not used by the kernel.
        const FUSE_FILE_OPS = 1 << 2;
        /// `open` gets `O_TRUNC` and truncates.
        const FUSE_ATOMIC_O_TRUNC = 1 << 3;
        /// The server looks up `.` and `..` (for NFS).
        const FUSE_EXPORT_SUPPORT = 1 << 4;
        /// Writes may be larger than a page. Always requested.
        const FUSE_BIG_WRITES = 1 << 5;
        /// The server applies the umask.
        const FUSE_DONT_MASK = 1 << 6;
        /// The device takes spliced pages.
        const FUSE_SPLICE_WRITE = 1 << 7;
        /// The device takes spliced pages without copying.
        const FUSE_SPLICE_MOVE = 1 << 8;
        /// The device can be spliced from.
        const FUSE_SPLICE_READ = 1 << 9;
        /// The server handles `flock(2)`.
        const FUSE_FLOCK_LOCKS = 1 << 10;
        /// The kernel sends ioctls of directories.
        const FUSE_HAS_IOCTL_DIR = 1 << 11;
        /// The kernel drops cached pages when the size or the modification time changes.
        const FUSE_AUTO_INVAL_DATA = 1 << 12;
        /// Directories are read with the attributes of their entries.
        const FUSE_DO_READDIRPLUS = 1 << 13;
        /// The kernel chooses between reading names alone and names with attributes.
        const FUSE_READDIRPLUS_AUTO = 1 << 14;
        /// Direct I/O of a program may be in flight as several requests at a time.
        const FUSE_ASYNC_DIO = 1 << 15;
        /// Writes go to the page cache first.
        const FUSE_WRITEBACK_CACHE = 1 << 16;
        /// `open` may be refused with ENOSYS. The kernel then does without it.
        const FUSE_NO_OPEN_SUPPORT = 1 << 17;
        /// Lookups in and reads of one directory may be in flight at a time.
        const FUSE_PARALLEL_DIROPS = 1 << 18;
        /// The server clears set-user-ID and set-group-ID bits.
        const FUSE_HANDLE_KILLPRIV = 1 << 19;
        /// The kernel enforces POSIX ACLs.
        const FUSE_POSIX_ACL = 1 << 20;
        /// Reading the device after an abort fails with ECONNABORTED.
        const FUSE_ABORT_ERROR = 1 << 21;
        /// The kernel uses `max_pages` of the reply. Always requested.
        const FUSE_MAX_PAGES = 1 << 22;
        /// Targets of symbolic links are cached.
        const FUSE_CACHE_SYMLINKS = 1 << 23;
        /// `opendir` may be refused with ENOSYS. The kernel then does without it.
        const FUSE_NO_OPENDIR_SUPPORT = 1 << 24;
        /// The kernel drops cached pages only when it is notified.
        const FUSE_EXPLICIT_INVAL_DATA = 1 << 25;
        /// The kernel uses `map_alignment` of the reply (virtiofs).
        const FUSE_MAP_ALIGNMENT = 1 << 26;
        /// Directories can be mounts of their own (virtiofs).
        const FUSE_SUBMOUNTS = 1 << 27;
        /// The server clears set-user-ID and set-group-ID bits when a request says so.
        const FUSE_HANDLE_KILLPRIV_V2 = 1 << 28;
        /// `setxattr` has further flags, see [`SetxattrFlags`]. Always requested.
        const FUSE_SETXATTR_EXT = 1 << 29;
        /// The kernel has more than 32 of these flags. Always requested.
        const FUSE_INIT_EXT = 1 << 30;
        /// Reserved.
        const FUSE_INIT_RESERVED = 1 << 31;
        /// Requests that create an inode contain its security context.
        const FUSE_SECURITY_CTX = 1 << 32;
        /// DAX is chosen per inode (virtiofs).
        const FUSE_HAS_INODE_DAX = 1 << 33;
        /// Requests that create an inode contain the group of the directory, if it is a
        /// supplementary group of the caller.
        const FUSE_CREATE_SUPP_GROUP = 1 << 34;
        /// A notification can expire a name instead of removing it from the cache.
        const FUSE_HAS_EXPIRE_ONLY = 1 << 35;
        /// Files that are open for direct I/O may be mapped shared.
        const FUSE_DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// The kernel reads and writes files of the server itself.
        const FUSE_PASSTHROUGH = 1 << 37;
        /// The file system cannot be exported (by NFS).
        const FUSE_NO_EXPORT_SUPPORT = 1 << 38;
        /// The kernel sends requests again when it is notified.
        const FUSE_HAS_RESEND = 1 << 39;
        /// The mount may be idmapped.
        const FUSE_ALLOW_IDMAP = 1 << 40;
        /// Requests come through io_uring.
        const FUSE_OVER_IO_URING = 1 << 41;
        /// The kernel aborts the connection when a request takes too long.
        const FUSE_REQUEST_TIMEOUT = 1 << 42;
    }

    /// How a file is opened (`fuse_open_out.open_flags`).
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
    pub struct FopenFlags: u32 {
        /// Reads and writes bypass the page cache of the mount.
        const FOPEN_DIRECT_IO = 1 << 0;
        /// Cached pages stay valid.
        const FOPEN_KEEP_CACHE = 1 << 1;
        /// The file is not seekable.
        const FOPEN_NONSEEKABLE = 1 << 2;
        /// The names of the directory may be cached.
        const FOPEN_CACHE_DIR = 1 << 3;
        /// The file has no position.
        const FOPEN_STREAM = 1 << 4;
        /// The kernel sends no `flush` on close.
        const FOPEN_NOFLUSH = 1 << 5;
        /// Direct writes that do not extend the file may be in flight at a time.
        const FOPEN_PARALLEL_DIRECT_WRITES = 1 << 6;
        /// The kernel uses the backing file. Replies with a backing file set this.
        const FOPEN_PASSTHROUGH = 1 << 7;
    }

    /// Flags of a write (`fuse_write_in.write_flags`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct WriteFlags: u32 {
        /// The write comes from the page cache, and the kernel guesses the file handle.
        const FUSE_WRITE_CACHE = 1 << 0;
        /// The lock owner is valid.
        const FUSE_WRITE_LOCKOWNER = 1 << 1;
        /// The file system clears the set-user-ID and set-group-ID bits.
        const FUSE_WRITE_KILL_SUIDGID = 1 << 2;
    }

    /// Flags for setting an extended attribute (`fuse_setxattr_in.setxattr_flags`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct SetxattrFlags: u32 {
        /// The file system clears the set-group-ID bit when it sets the ACL, because the caller may
        /// not keep the bit.
        const FUSE_SETXATTR_ACL_KILL_SGID = 1 << 0;
    }

    /// Permissions that `access(2)` checks. The empty set checks only whether the file exists.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct AccessFlags: u32 {
        /// Execute, or search.
        const X_OK = 1;
        /// Write.
        const W_OK = 2;
        /// Read.
        const R_OK = 4;
    }

    /// Flags of `renameat2(2)`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct RenameFlags: u32 {
        /// Nothing is replaced.
        const RENAME_NOREPLACE = 1 << 0;
        /// The two names are exchanged.
        const RENAME_EXCHANGE = 1 << 1;
        /// A whiteout is left behind.
        const RENAME_WHITEOUT = 1 << 2;
    }

    /// Flags of `copy_file_range(2)`; there are none yet.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct CopyFileRangeFlags: u64 {
        const _ = !0;
    }

    /// Fields that `statx(2)` requests or returns (`STATX_*`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct StatxMask: u32 {
        /// All fields of `stat(2)`.
        const BASIC_STATS = 0x7ff;
        /// Time of creation.
        const BTIME = 0x800;
        /// All other bits.
        const _ = !0;
    }

    /// Flags of a file that `statx(2)` returns (`STATX_ATTR_*`).
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
    pub struct StatxAttributes: u64 {
        /// Cannot be changed.
        const IMMUTABLE = 0x10;
        /// Can only grow.
        const APPEND = 0x20;
        /// All other bits.
        const _ = !0;
    }
}
