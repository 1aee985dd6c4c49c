//! How a file is opened: the mode, how firmly it is asked for, and the sync method. The three are independent.

/// How bytes travel, and what excludes what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Through the page cache; the kernel's own locking. A write also keeps direct reads and writes of this process out of
    /// its pages, since a page that is dirtied while a direct write of another of its blocks is under way may undo that
    /// write (`open(2)`, NOTES). Concurrent ones and copies ([`Copier`](crate::transfer::Copier)) take no ranges and are
    /// not kept out, nor are other processes: those must not share pages with writes through the cache.
    Cached,
    /// Past the page cache. A read shares its byte range, a write has it alone, so overlapping operations are atomic to
    /// each other and disjoint ones run in parallel; what extends, truncates or is misaligned has the whole file. All
    /// this is within one process: between processes a write puts down its own bytes and no others, as the kernel's do.
    #[default]
    Direct,
    /// As `Direct`, without range locks: the caller orders its own overlapping operations, as databases do. Still
    /// excluded by what extends, truncates or writes misaligned. (AIX `O_CIO`.)
    Concurrent,
    /// Through the page cache, leaving nothing there that was not there before; locked as `Cached`.
    Uncached,
}

impl Mode {
    /// Whether the mode asks for direct I/O.
    pub fn wants_direct(self) -> bool {
        matches!(self, Mode::Direct | Mode::Concurrent)
    }

    /// The name in messages and receipts.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Cached => "cached",
            Mode::Direct => "direct",
            Mode::Concurrent => "concurrent",
            Mode::Uncached => "uncached",
        }
    }
}

/// How firmly a mode is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Need {
    /// What cannot go direct goes uncached, and is counted with the reason. Never silently cached.
    #[default]
    Preferred,
    /// What cannot go direct is an error.
    Required,
}

/// When written data is durable. Independent of the mode: a direct write is not durable by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMethod {
    /// When [`File::sync_data`](super::File::sync_data) or [`File::sync_all`](super::File::sync_all) returns.
    #[default]
    Explicit,
    /// When each write returns, with the metadata needed to read it back (`O_DSYNC`).
    Dsync,
    /// When each write returns, with all metadata (`O_SYNC`).
    Sync,
}
