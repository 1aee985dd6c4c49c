//! How a file is opened: the mode, the need and the sync method. The three are independent.

/// How bytes travel, and which operations exclude each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Through the page cache, with the kernel's own locking. A write also keeps direct reads and
    /// writes of this process out of its pages, since dirtying a page while a direct write of
    /// another of its blocks is in flight may undo that write (`open(2)`, NOTES). Concurrent
    /// requests and copies ([`Copier`](crate::transfer::Copier)) take no ranges and are not kept
    /// out. Nor are other processes: these must not share pages with writes through the page cache.
    Cached,
    /// Past the page cache. A read shares its byte range and a write has it alone, so overlapping
    /// operations are atomic to each other and disjoint ones run in parallel. An operation that
    /// extends, truncates or is misaligned has the whole file. All this is within one process.
    /// Between processes, a write stores its own bytes and no others, as the kernel's writes do.
    #[default]
    Direct,
    /// As `Direct`, without range locks: the caller orders its own overlapping operations, as
    /// databases do. Operations that extend, truncate or write misaligned still have the whole
    /// file. (AIX `O_CIO`.)
    Concurrent,
    /// Through the page cache, which keeps no page that was not there before. Locked as `Cached`.
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

/// Whether a mode is preferred or required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Need {
    /// Bytes that cannot go direct go uncached and are counted with the reason. They are never
    /// silently cached.
    #[default]
    Preferred,
    /// Bytes that cannot go direct are an error.
    Required,
}

/// When written data is durable. Independent of the mode: a direct write is not durable by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMethod {
    /// When [`File::sync_data`](super::File::sync_data) or
    /// [`File::sync_all`](super::File::sync_all) returns.
    #[default]
    Explicit,
    /// When each write returns, with the metadata needed to read it back (`O_DSYNC`).
    Dsync,
    /// When each write returns, with all metadata (`O_SYNC`).
    Sync,
}

/// How the file was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) mode: Mode,
    pub(super) need: Need,
    /// Requests of fewer bytes pass through the page cache and stay there.
    pub(super) direct_from: u64,
    pub(super) writable: bool,
    /// Opened for appending only: no write names an offset.
    pub(super) only_appends: bool,
    /// Each write is durable when it returns.
    pub(super) durable: bool,
}
