//! Options of a log.

use std::time::Duration;

use crate::storage::Method;

/// How the log prevents a torn write from destroying what an earlier commit made durable in the
/// same block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TornWrites {
    /// [`TornWrites::Atomic`] if the disk itself writes blocks atomically, else
    /// [`TornWrites::NewBlock`].
    #[default]
    Auto,
    /// Every flush begins a new block.
    NewBlock,
    /// A flush continues in the block where the last one ended, by atomic writes (`RWF_ATOMIC`).
    /// This saves space where single small records are committed. Where there are no atomic writes,
    /// the log does as with [`TornWrites::NewBlock`].
    Atomic,
}

/// How the space of a new segment is prepared before it holds records.
///
/// Segments that truncation gave back are not affected. The records that they held were written to
/// all of their space, so they are reused as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preallocate {
    /// The space is allocated, which takes no time. Small groups are preceded by zeros
    /// ([`Options::zeros_ahead`]); large groups are the first and only write to their space.
    #[default]
    Ahead,
    /// All of the space is filled with zeros when the segment is made. Then no commit makes the
    /// file system record that space is written. In return, everything is written twice, unless
    /// segments are reused.
    Zeros,
}

/// Options of a log.
///
/// ```
/// use std::time::Duration;
/// use dio_wal::{Log, Method, Options};
/// # let directory = tempfile::tempdir()?;
/// let mut options = Options::new();
/// options.method(Method::RwfDsync).segment(16 << 20).idle_mark(Some(Duration::from_secs(5)));
/// let log = Log::open(directory.path(), &options)?;
/// assert_eq!(log.layout().segment_bytes(), 16 << 20);
/// log.close()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) direct: bool,
    pub(crate) method: Method,
    pub(crate) block_bytes: Option<u32>,
    pub(crate) segment_bytes: u64,
    pub(crate) buffer_bytes: usize,
    pub(crate) write_behind_buffers: usize,
    pub(crate) commit_delay: Duration,
    pub(crate) zeros_ahead: bool,
    pub(crate) preallocate: Preallocate,
    pub(crate) prepare_in_background: bool,
    pub(crate) spares_max: usize,
    pub(crate) torn_writes: TornWrites,
    pub(crate) idle_mark: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// The defaults: direct I/O, `fdatasync`, segments of 64 MiB, buffers of 1 MiB of which eight
    /// are written in the background at a time, zeros ahead of small groups, no delay, at most four
    /// spare segments, and a mark after a second without commits.
    pub fn new() -> Options {
        Options {
            direct: true,
            method: Method::default(),
            block_bytes: None,
            segment_bytes: 64 << 20,
            buffer_bytes: 1 << 20,
            write_behind_buffers: 8,
            commit_delay: Duration::ZERO,
            zeros_ahead: true,
            preallocate: Preallocate::Ahead,
            prepare_in_background: true,
            spares_max: 4,
            torn_writes: TornWrites::Auto,
            idle_mark: Some(Duration::from_secs(1)),
        }
    }

    /// Whether segments are written and read past the page cache, where the file system supports
    /// that.
    pub fn direct(&mut self, yes: bool) -> &mut Self {
        self.direct = yes;
        self
    }

    /// How writes become durable.
    pub fn method(&mut self, method: Method) -> &mut Self {
        self.method = method;
        self
    }

    /// Block size of a new log in bytes: a power of two from 512 to 65,536. The default is that of
    /// the file system. An existing log keeps its own.
    ///
    /// A block smaller than the disk's physical block (`queue/physical_block_size`) is not safe
    /// where a power cut tears writes: the disk reads the whole physical block, changes a part of
    /// it and writes it again, together with what earlier commits made durable beside that part.
    /// The exception is a disk that writes the whole physical block atomically
    /// (`queue/atomic_write_unit_max_bytes`). `dio synctest` looks at both before it advises 512.
    pub fn block(&mut self, bytes: u32) -> &mut Self {
        self.block_bytes = Some(bytes);
        self
    }

    /// Segment size of a new log in bytes, a multiple of the block size. An existing log keeps its
    /// own.
    pub fn segment(&mut self, bytes: u64) -> &mut Self {
        self.segment_bytes = bytes;
        self
    }

    /// Bytes of a buffer, in which records gather until it is written. No write is larger.
    pub fn buffer(&mut self, bytes: usize) -> &mut Self {
        self.buffer_bytes = bytes;
        self
    }

    /// How many full buffers are written in the background at a time, by as many threads. With 0,
    /// full buffers are written when memory or a commit requires it. The log has four buffers more
    /// than this.
    pub fn write_behind(&mut self, buffers: usize) -> &mut Self {
        self.write_behind_buffers = buffers;
        self
    }

    /// How long the leader of a flush waits for more records before it begins. This is seldom
    /// useful: records gather anyway while the flush before is running.
    pub fn commit_delay(&mut self, delay: Duration) -> &mut Self {
        self.commit_delay = delay;
        self
    }

    /// Whether space that is allocated only is filled with zeros before groups smaller than a
    /// buffer reach it. A commit then writes to blocks that are written already, and the file
    /// system has nothing to record for it. Larger groups are not preceded by zeros.
    pub fn zeros_ahead(&mut self, yes: bool) -> &mut Self {
        self.zeros_ahead = yes;
        self
    }

    /// How the space of new segments is prepared.
    pub fn preallocate(&mut self, how: Preallocate) -> &mut Self {
        self.preallocate = how;
        self
    }

    /// Whether the next segment is made, and zeros are written, by threads in the background.
    pub fn prepare_in_background(&mut self, yes: bool) -> &mut Self {
        self.prepare_in_background = yes;
        self
    }

    /// How many truncated segments are kept to be reused. Reusing a segment saves allocating and
    /// filling a new one.
    pub fn spares(&mut self, segments_max: usize) -> &mut Self {
        self.spares_max = segments_max;
        self
    }

    /// How long after the last commit the log writes a mark that says that everything before it is
    /// durable, as [`crate::Log::close`] does. With such a mark, damage to the last group can be
    /// told from the end of the log, even if the process is killed. It costs a block and a flush.
    /// `None`: the log writes no such marks.
    pub fn idle_mark(&mut self, after: Option<Duration>) -> &mut Self {
        self.idle_mark = after;
        self
    }

    /// How the log protects itself against torn writes.
    pub fn torn_writes(&mut self, how: TornWrites) -> &mut Self {
        self.torn_writes = how;
        self
    }
}
