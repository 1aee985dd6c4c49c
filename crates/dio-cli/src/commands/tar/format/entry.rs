//! The entry of an archive, and limits for its parts.

/// Size of a block in bytes, the unit of all tar formats.
pub const BLOCK: usize = 512;

/// Default number of blocks in a record (`-b`).
pub const BLOCKING: usize = 20;

/// Limit for the bytes of all extension headers of one entry; more is an error. Linux limits the
/// value of an extended attribute to 64 KiB, and names are shorter than that.
pub const MAX_EXTENSIONS: u64 = 64 << 20;

/// Limit for the records of one extended header; later records are ignored. The oldest form of the
/// map of a sparse file needs two records for each extent.
pub const MAX_RECORDS: usize = 1 << 19;

/// Limits for the global records in force at a time: their number and their bytes. All of them are
/// applied to each entry.
pub const MAX_GLOBALS: (usize, usize) = (1 << 10, 1 << 20);

/// Limit for the extents in the map of one sparse file; more is an error.
pub const MAX_EXTENTS: usize = 1 << 22;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file (types `0`, NUL, `7`, `S`, and all unknown types, as POSIX demands).
    #[default]
    Regular,
    /// Another name of an entry before it (`1`); [`ArchiveEntry::link`] is that entry's name.
    HardLink,
    /// A symbolic link (`2`) to [`ArchiveEntry::link`].
    Symlink,
    /// A character device (`3`) numbered [`ArchiveEntry::device`].
    Character,
    /// A block device (`4`) numbered [`ArchiveEntry::device`].
    Block,
    /// A directory (`5`, or `D` with a list of its names as content, which is ignored).
    Directory,
    /// A named pipe (`6`).
    Fifo,
    /// The name of the volume (`V`), which is not a file.
    Label,
    /// The rest of a file that began on another volume (`M`).
    Continuation,
}

/// A format to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// GNU tar since 1.13: long names in entries of their own, large numbers in base 256.
    #[default]
    Gnu,
    /// POSIX.1-2001: ustar, with extended headers for values that do not fit.
    Pax,
    /// POSIX.1-1988.
    Ustar,
    /// Unix Version 7: no names of users and groups, no devices.
    V7,
}

/// A time stamp: seconds since the epoch, rounded down, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: i64,
    /// Nanoseconds to add, less than a thousand million.
    pub nanos: u32,
}

/// An entry of an archive, with everything that its headers contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveEntry {
    /// The name, as in the archive: it may be absolute, contain `..`, or end in a slash. It never
    /// contains a NUL.
    pub path: Vec<u8>,
    /// The target of a link.
    pub link: Vec<u8>,
    /// The kind of the entry.
    pub kind: EntryKind,
    /// The format of its headers; the encoder ignores it.
    pub format: Format,
    /// The type byte of the header that was read; the encoder uses [`ArchiveEntry::kind`] instead.
    pub typeflag: u8,
    /// Permissions with set-id and sticky bits, at most 0o7777.
    pub mode: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Name of the owner; empty if only the ID is known.
    pub uname: Vec<u8>,
    /// Name of the group.
    pub gname: Vec<u8>,
    /// Size of the content in bytes, including holes. 0 for entries without content.
    pub size: u64,
    /// Bytes of content in the archive, without padding: fewer than `size` for a sparse file. The
    /// content of a member of an incremental archive (directories of type `D`) counts here;
    /// `Entries::next_entry` skips it.
    pub stored: u64,
    /// Modification time of the content.
    pub mtime: Time,
    /// Access time.
    pub atime: Option<Time>,
    /// Change time of the inode.
    pub ctime: Option<Time>,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Extended attributes, with their full names (`user.x`, `security.capability`). If GNU tar was
    /// asked for all attributes, ACLs are also stored here in their binary form, in addition to
    /// their text.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The access ACL as text, in the short or long form.
    pub acl_access: Option<Vec<u8>>,
    /// The default ACL of a directory as text.
    pub acl_default: Option<Vec<u8>>,
    /// The SELinux context.
    pub selinux: Option<Vec<u8>>,
    /// The data extents (offset, length) of a sparse file: in order, not overlapping, within
    /// `size`. The sum of their lengths is the data in the archive. An empty extent may mark the
    /// end of the file.
    pub sparse: Option<Vec<(u64, u64)>>,
    /// Offset of the first of its headers, in bytes from the start of the archive.
    pub position: u64,
    /// Offset of its own header, after the headers that extend it.
    pub header: u64,
    /// Block number that GNU tar's `-R` prints for the entry: that of its header, or of the headers
    /// with long names before it.
    pub ordinal: u64,
}

impl ArchiveEntry {
    /// Whether the entry has content that can be read: it is a regular file.
    #[must_use]
    pub fn has_content(&self) -> bool {
        self.kind == EntryKind::Regular
    }
}
