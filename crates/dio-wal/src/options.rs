//! How a log is opened.

use std::time::Duration;

use crate::storage::Method;

/// What keeps a commit from harming, by a write that the power tears, what an earlier one made durable in the same block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TornWrites {
    /// [`TornWrites::Untorn`] where the disk itself does it, else [`TornWrites::NewBlock`].
    #[default]
    Auto,
    /// Every flush begins a new block.
    NewBlock,
    /// A block is gone on with where it stopped, by writes that are never torn (`RWF_ATOMIC`), where these are to be had; else
    /// as [`TornWrites::NewBlock`]. It saves space where single small records are committed.
    Untorn,
}

/// What is done about the space of a new segment before records come. Segments that truncation gave back were written all over
/// by the records they had, and are used as they are either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preallocate {
    /// It is set aside, which takes no time; zeros are written ahead of small groups ([`Options::zeros`]), and large ones are
    /// written once.
    #[default]
    Ahead,
    /// All of it is written with zeros when the segment is made, so that no commit ever makes the file system record that space
    /// is written. Everything is written twice for that, as long as no segments are given back.
    Zeros,
}

/// Options of a log. Sizes are bytes.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) direct: bool,
    pub(crate) method: Method,
    pub(crate) block: Option<u32>,
    pub(crate) segment: u64,
    pub(crate) chunk: usize,
    pub(crate) write_behind: usize,
    pub(crate) delay: Duration,
    pub(crate) zeros: bool,
    pub(crate) preallocate: Preallocate,
    pub(crate) ahead: bool,
    pub(crate) spares: usize,
    pub(crate) torn: TornWrites,
    pub(crate) idle_mark: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// Direct, `fdatasync`, segments of 64 MiB, eight large writes in flight, zeros ahead of small groups, no delay, a mark
    /// after a second without commits.
    pub fn new() -> Options {
        Options {
            direct: true,
            method: Method::default(),
            block: None,
            segment: 64 << 20,
            chunk: 1 << 20,
            write_behind: 8,
            delay: Duration::ZERO,
            zeros: true,
            preallocate: Preallocate::Ahead,
            ahead: true,
            spares: 4,
            torn: TornWrites::Auto,
            idle_mark: Some(Duration::from_secs(1)),
        }
    }

    /// Whether segments are written and read past the page cache, where the file system can.
    pub fn direct(&mut self, yes: bool) -> &mut Self {
        self.direct = yes;
        self
    }

    /// How writes become durable.
    pub fn method(&mut self, method: Method) -> &mut Self {
        self.method = method;
        self
    }

    /// Block size of a new log, a power of two of 512 to 65536; that of the file system when not said. A log that exists
    /// keeps its own.
    ///
    /// Nothing less than the disk's physical block (`queue/physical_block_size`) is safe where a power cut tears writes: the disk
    /// reads the whole block, changes a part of it and writes it again, and with it what earlier commits made durable beside it.
    /// Unless it writes that much whole or not at all (`queue/atomic_write_unit_max_bytes`). `dio synctest` looks at both before
    /// it advises 512.
    pub fn block(&mut self, bytes: u32) -> &mut Self {
        self.block = Some(bytes);
        self
    }

    /// Segment size of a new log, a multiple of the block. A log that exists keeps its own.
    pub fn segment(&mut self, bytes: u64) -> &mut Self {
        self.segment = bytes;
        self
    }

    /// Largest write. Records gather in buffers of this size.
    pub fn chunk(&mut self, bytes: usize) -> &mut Self {
        self.chunk = bytes;
        self
    }

    /// Full buffers that are written in the background at a time, by as many threads; 0 writes them when memory or a
    /// commit asks for it. The log has four buffers more than this.
    pub fn write_behind(&mut self, buffers: usize) -> &mut Self {
        self.write_behind = buffers;
        self
    }

    /// How long a commit that leads waits for others to join it. Seldom of use: others join while a flush is under way.
    pub fn delay(&mut self, delay: Duration) -> &mut Self {
        self.delay = delay;
        self
    }

    /// Whether zeros are written ahead of groups smaller than a buffer where space was only allocated, so that a commit
    /// writes into blocks that exist and the file system has nothing to record for it. Larger groups are written once.
    pub fn zeros(&mut self, yes: bool) -> &mut Self {
        self.zeros = yes;
        self
    }

    /// What is done about the space of new segments.
    pub fn preallocate(&mut self, how: Preallocate) -> &mut Self {
        self.preallocate = how;
        self
    }

    /// Whether the next segment is made, and zeros are written, in the background.
    pub fn ahead(&mut self, yes: bool) -> &mut Self {
        self.ahead = yes;
        self
    }

    /// How many truncated segments are kept to become new ones, which saves filling those.
    pub fn spares(&mut self, count: usize) -> &mut Self {
        self.spares = count;
        self
    }

    /// After so long without a commit the log is ended by a mark which says that everything before it is durable, as
    /// [`crate::Log::close`] writes one: damage to the last group is then told from the end of the log, also after the process
    /// was killed. It costs a block and a flush. `None`: no such marks.
    pub fn idle_mark(&mut self, after: Option<Duration>) -> &mut Self {
        self.idle_mark = after;
        self
    }

    /// What torn writes are met with.
    pub fn torn_writes(&mut self, torn: TornWrites) -> &mut Self {
        self.torn = torn;
        self
    }
}
