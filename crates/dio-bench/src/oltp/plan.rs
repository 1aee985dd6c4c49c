//! The measurements that a user asks for.

use std::path::PathBuf;
use std::time::Duration;

use super::page;
use crate::BenchError;
use crate::study::Contender;

/// Bytes of the smallest write: every device writes so many atomically, and direct I/O accepts it.
pub(super) const BLOCK: usize = 4096;

/// How programs open their files below a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Without `O_DIRECT`, as programs without direct I/O do.
    Plain,
    /// With `O_DIRECT`.
    Direct,
}

impl OpenMode {
    /// The name in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            OpenMode::Plain => "plain",
            OpenMode::Direct => "direct",
        }
    }
}

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct OltpPlan {
    /// The kinds of storage to compare.
    pub contenders: Vec<Contender>,
    /// A block device whose contents are overwritten; `None` uses a new loop device.
    pub raw: Option<PathBuf>,
    /// The directory in which files are made.
    pub directory: PathBuf,
    /// Number of files with pages.
    pub files: u64,
    /// Bytes of each file.
    pub size: u64,
    /// Bytes of a page.
    pub page: usize,
    /// Number of clients, each with a thread.
    pub clients: usize,
    /// Pages that a transaction reads.
    pub reads: usize,
    /// Pages that it changes and writes, out of those that it reads.
    pub writes: usize,
    /// Duration over which the clients start, one after the other.
    pub ramp_up: Duration,
    /// Duration of the steady state, which is measured.
    pub steady: Duration,
    /// Duration over which the clients stop, one after the other.
    pub ramp_down: Duration,
    /// Length of a slot of the time series.
    pub every: Duration,
    /// Runs of each contender, in turns.
    pub rounds: usize,
    /// How files below mounts are opened.
    pub open: OpenMode,
    /// Whether mounts whose writes need not take turns receive their requests by io_uring.
    pub io_uring: bool,
    /// More options of all mounts.
    pub mount_options: Vec<String>,
    /// Bytes of memory that the study and its mounts may use, page cache included.
    pub memory: Option<u64>,
    /// The program that mounts: `dio`.
    pub program: PathBuf,
}

impl OltpPlan {
    /// The duration of a run, from the start of the first client to the end of the last.
    pub(super) fn total(&self) -> Duration {
        self.ramp_up + self.steady + self.ramp_down
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        let fits = self.page >= page::LEAST
            && self.page.is_power_of_two()
            && self.page as u64 <= self.size
            && self.size.is_multiple_of(BLOCK.max(self.page) as u64);
        let positive = self.files > 0
            && self.clients > 0
            && self.reads.max(self.writes) > 0
            && self.rounds > 0;
        if !fits {
            let text = "a page must be a power of two of at least 512 bytes, a file a multiple of \
                        it and of 4 KiB";
            return Err(BenchError::Asked(text.to_owned()));
        }
        if !positive || self.steady.is_zero() || self.every.is_zero() || self.contenders.is_empty()
        {
            let text = "contenders, files, clients, pages of a transaction, rounds and the steady \
                        state must be positive";
            return Err(BenchError::Asked(text.to_owned()));
        }
        Ok(())
    }
}
