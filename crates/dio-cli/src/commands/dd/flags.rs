//! The symbols of `conv=`, `iflag=`, `oflag=` and `status=`.

use rustix::fs::OFlags;

/// A set of symbols, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Set(u32);

impl Set {
    pub(super) fn insert(&mut self, other: Set) {
        self.0 |= other.0;
    }

    /// Removes all of `other`.
    pub(super) fn remove(&mut self, other: Set) {
        self.0 &= !other.0;
    }

    /// Returns whether the set contains any of `other`.
    pub(super) fn any(self, other: Set) -> bool {
        self.0 & other.0 != 0
    }

    /// Number of symbols of `other` that the set contains.
    pub(super) fn count(self, other: Set) -> u32 {
        (self.0 & other.0).count_ones()
    }

    /// The union of both sets.
    pub(super) const fn and(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }
}

/// The symbols of `conv=`.
pub(super) mod conv {
    use super::Set;

    pub(in super::super) const ASCII: Set = Set(1);
    pub(in super::super) const EBCDIC: Set = Set(1 << 1);
    pub(in super::super) const IBM: Set = Set(1 << 2);
    pub(in super::super) const BLOCK: Set = Set(1 << 3);
    pub(in super::super) const UNBLOCK: Set = Set(1 << 4);
    pub(in super::super) const LCASE: Set = Set(1 << 5);
    pub(in super::super) const UCASE: Set = Set(1 << 6);
    pub(in super::super) const SPARSE: Set = Set(1 << 7);
    pub(in super::super) const SWAB: Set = Set(1 << 8);
    pub(in super::super) const SYNC: Set = Set(1 << 9);
    pub(in super::super) const EXCL: Set = Set(1 << 10);
    pub(in super::super) const NOCREAT: Set = Set(1 << 11);
    pub(in super::super) const NOTRUNC: Set = Set(1 << 12);
    pub(in super::super) const NOERROR: Set = Set(1 << 13);
    pub(in super::super) const FDATASYNC: Set = Set(1 << 14);
    pub(in super::super) const FSYNC: Set = Set(1 << 15);

    /// Symbols that change bytes or their number. Output is then gathered into blocks of `obs`,
    /// even with `bs=`.
    pub(in super::super) const CHANGING: Set =
        ASCII.and(EBCDIC).and(IBM).and(BLOCK).and(UNBLOCK).and(LCASE).and(UCASE).and(SWAB);
}

/// The symbols of `iflag=` and `oflag=`.
pub(super) mod flag {
    use super::Set;

    pub(in super::super) const APPEND: Set = Set(1);
    pub(in super::super) const DIRECT: Set = Set(1 << 1);
    pub(in super::super) const DIRECTORY: Set = Set(1 << 2);
    pub(in super::super) const DSYNC: Set = Set(1 << 3);
    pub(in super::super) const SYNC: Set = Set(1 << 4);
    pub(in super::super) const NONBLOCK: Set = Set(1 << 5);
    pub(in super::super) const NOATIME: Set = Set(1 << 6);
    pub(in super::super) const NOCACHE: Set = Set(1 << 7);
    pub(in super::super) const NOCTTY: Set = Set(1 << 8);
    pub(in super::super) const NOFOLLOW: Set = Set(1 << 9);
    pub(in super::super) const FULLBLOCK: Set = Set(1 << 10);
    pub(in super::super) const COUNT_BYTES: Set = Set(1 << 11);
    pub(in super::super) const SKIP_BYTES: Set = Set(1 << 12);
    pub(in super::super) const SEEK_BYTES: Set = Set(1 << 13);
}

/// Symbols of `conv=`, by name. A code page implies its record conversion, which has no effect
/// without `cbs=`.
pub(super) const CONVERSIONS: &[(&str, Set)] = &[
    ("ascii", conv::ASCII.and(conv::UNBLOCK)),
    ("ebcdic", conv::EBCDIC.and(conv::BLOCK)),
    ("ibm", conv::IBM.and(conv::BLOCK)),
    ("block", conv::BLOCK),
    ("unblock", conv::UNBLOCK),
    ("lcase", conv::LCASE),
    ("ucase", conv::UCASE),
    ("sparse", conv::SPARSE),
    ("swab", conv::SWAB),
    ("sync", conv::SYNC),
    ("excl", conv::EXCL),
    ("nocreat", conv::NOCREAT),
    ("notrunc", conv::NOTRUNC),
    ("noerror", conv::NOERROR),
    ("fdatasync", conv::FDATASYNC),
    ("fsync", conv::FSYNC),
];

/// Symbols of `iflag=` and `oflag=`, by name.
pub(super) const FLAGS: &[(&str, Set)] = &[
    ("append", flag::APPEND),
    ("direct", flag::DIRECT),
    ("directory", flag::DIRECTORY),
    ("dsync", flag::DSYNC),
    ("sync", flag::SYNC),
    ("nonblock", flag::NONBLOCK),
    ("noatime", flag::NOATIME),
    ("nocache", flag::NOCACHE),
    ("noctty", flag::NOCTTY),
    ("nofollow", flag::NOFOLLOW),
    ("fullblock", flag::FULLBLOCK),
    ("count_bytes", flag::COUNT_BYTES),
    ("skip_bytes", flag::SKIP_BYTES),
    ("seek_bytes", flag::SEEK_BYTES),
];

/// How much is reported at the end and during the copy. The last level given counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Level {
    /// Only errors.
    None,
    /// Records, without bytes and time.
    NoXfer,
    /// Records, bytes and time.
    #[default]
    All,
    /// As `All`, and the bytes once a second.
    Progress,
}

/// Symbols of `status=`, by name.
pub(super) const LEVELS: &[(&str, Level)] =
    &[("none", Level::None), ("noxfer", Level::NoXfer), ("progress", Level::Progress)];

/// Flags for `open(2)`. `O_DIRECT` is not among them: dio does direct I/O by itself, whatever the
/// block size.
pub(super) fn open_flags(flags: Set) -> OFlags {
    let known = [
        (flag::APPEND, OFlags::APPEND),
        (flag::DIRECTORY, OFlags::DIRECTORY),
        (flag::DSYNC, OFlags::DSYNC),
        (flag::SYNC, OFlags::SYNC),
        (flag::NONBLOCK, OFlags::NONBLOCK),
        (flag::NOATIME, OFlags::NOATIME),
        (flag::NOCTTY, OFlags::NOCTTY),
        (flag::NOFOLLOW, OFlags::NOFOLLOW),
    ];
    known
        .iter()
        .filter(|(ours, _)| flags.any(*ours))
        .fold(OFlags::CLOEXEC, |all, (_, theirs)| all | *theirs)
}
