//! What an entry of an archive is, and the limits of its parts.

/// Bytes of a block, the unit of all tar formats.
pub const BLOCK: usize = 512;

/// Blocks of a record where nobody asked for another number (`-b`).
pub const BLOCKING: usize = 20;

/// Bytes that the extension headers of one entry may have together; more is refused. Linux allows a
/// value of an extended attribute 64 KiB, and names are shorter than that.
pub const MAX_EXTENSIONS: u64 = 64 << 20;

/// Records that one extended header may have; what comes after them is left out. The oldest map of
/// a sparse file takes two for each extent.
pub const MAX_RECORDS: usize = 1 << 19;

/// Records, and their bytes, that may be in force for all entries at a time: each entry is looked
/// at with them.
pub const MAX_GLOBALS: (usize, usize) = (1 << 10, 1 << 20);

/// Extents that the map of one sparse file may have; more is refused.
pub const MAX_EXTENTS: usize = 1 << 22;

/// What an entry is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A regular file (types `0`, NUL, `7`, `S`, and all types nobody knows, as POSIX demands).
    #[default]
    Regular,
    /// Another name of an entry before it (`1`); [`Entry::link`] is that entry's name.
    HardLink,
    /// A symbolic link (`2`) to [`Entry::link`].
    Symlink,
    /// A character device (`3`) numbered [`Entry::device`].
    Character,
    /// A block device (`4`) numbered [`Entry::device`].
    Block,
    /// A directory (`5`, and `D` with its list of names as content, which nobody needs).
    Directory,
    /// A named pipe (`6`).
    Fifo,
    /// Not a file: the name of the volume (`V`).
    Label,
    /// The rest of a file that another volume began (`M`).
    Continuation,
}

/// A format to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// That of GNU tar since 1.13: long names in entries of their own, large numbers in base 256.
    #[default]
    Gnu,
    /// POSIX.1-2001: ustar, and extended headers for whatever does not fit.
    Pax,
    /// POSIX.1-1988.
    Ustar,
    /// That of Unix Version 7: no names of owners, no devices.
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

/// An entry of an archive: all that its headers say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its name, as in the archive: maybe absolute, with `..`, with a slash at its end. Never with
    /// a NUL inside.
    pub path: Vec<u8>,
    /// Where a link leads.
    pub link: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// The format that its headers have; the encoder does not look at it.
    pub format: Format,
    /// The type byte of the header it was read from; the encoder goes by [`Entry::kind`].
    pub typeflag: u8,
    /// Permissions with set-id and sticky bits, at most 0o7777.
    pub mode: u32,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Name of the owner; empty where only the number is known.
    pub uname: Vec<u8>,
    /// Name of the group.
    pub gname: Vec<u8>,
    /// Bytes of the content, holes included. 0 for what has none.
    pub size: u64,
    /// Bytes of content in the archive, without padding: less than `size` for a sparse file. What a
    /// member of an incremental archive has here (directories of type `D`) is skipped by
    /// `Entries::next_entry`.
    pub stored: u64,
    /// When the content was last changed.
    pub mtime: Time,
    /// When it was last read.
    pub atime: Option<Time>,
    /// When its inode was last changed.
    pub ctime: Option<Time>,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Extended attributes, with their full names (`user.x`, `security.capability`). GNU tar puts
    /// ACLs in their binary form here too, beside their text, where it was asked for all
    /// attributes.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// The access ACL as text, in the short or long form.
    pub acl_access: Option<Vec<u8>>,
    /// The default ACL of a directory as text.
    pub acl_default: Option<Vec<u8>>,
    /// The SELinux context.
    pub selinux: Option<Vec<u8>>,
    /// The extents (offset, length) that have data, for a sparse file: in order, apart from each
    /// other, within `size`; their lengths together are the data in the archive. An extent without
    /// length may mark the end of the file.
    pub sparse: Option<Vec<(u64, u64)>>,
    /// Where the first of its headers begins, in bytes from the start of the archive.
    pub position: u64,
    /// Where its own header, after those that extend it, begins.
    pub header: u64,
    /// Number of the block that GNU tar's `-R` tells for it: that of its header, or of the headers
    /// with long names before it.
    pub ordinal: u64,
}

impl Entry {
    /// Whether reading it gives content: it is a regular file.
    #[must_use]
    pub fn has_content(&self) -> bool {
        self.kind == Kind::Regular
    }
}
