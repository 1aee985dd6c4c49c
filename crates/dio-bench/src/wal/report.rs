//! The result: rows of commits, plain flushes beside them, and large steps.

use dio_wal::Method;
use serde::{Deserialize, Serialize};

use super::plan::{Way, method_of, name_of};
use crate::database::LogReport;
use crate::environment::Environment;
use crate::histogram::Latency;
use crate::stats::{Summary, number};

/// Commits in one way: medians of the runs, response times of all of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Commits {
    /// The way.
    #[serde(flatten)]
    pub way: Way,
    /// Commits per second.
    #[serde(default, deserialize_with = "number")]
    pub commits_per_second: f64,
    /// From the start of an append to the end of its commit, in seconds.
    pub response: Latency,
    /// CPU seconds of the process for each commit, kernel time included.
    #[serde(deserialize_with = "number")]
    pub cpu_seconds_per_commit: f64,
    /// Bytes of log for each commit.
    #[serde(deserialize_with = "number")]
    pub log_bytes_per_commit: f64,
    /// Pages of the log in the page cache afterwards, at most.
    pub resident_pages: u64,
    /// Commits per second of the single runs.
    pub samples: Vec<f64>,
    /// What flushes allow; `None` where a plain flush by the same method could not be measured.
    pub limit: Option<Limit>,
}

/// A plain flush: one thread overwrites one block at one place, again and again, durable by one
/// method.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flush {
    /// Sync method.
    #[serde(serialize_with = "name_of", deserialize_with = "method_of")]
    pub method: Method,
    /// Past the page cache.
    pub direct: bool,
    /// Flushes per second: the median of the runs.
    #[serde(default, deserialize_with = "number")]
    pub flushes_per_second: f64,
    /// Flushes per second of the single runs.
    pub samples: Vec<f64>,
}

/// What flushes allow, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Records that a block of the log holds; one where a record is longer.
    #[serde(default)]
    pub records_per_block: f64,
    /// Records that a flush is taken to carry: one, one of each client, or those of a block,
    /// whichever is least.
    pub records_per_flush: f64,
    /// Flushes per second of [`Flush`], by the same method: the median.
    pub flushes_per_second: f64,
    /// Records per flush × flushes per second.
    #[serde(default, deserialize_with = "number")]
    pub commits_per_second: f64,
    /// Commits per second ÷ that, in the same run: the median. It may exceed 1 where a flush
    /// carries several blocks.
    #[serde(deserialize_with = "number")]
    pub reached: f64,
    /// Part of the time of all processors that the commits took.
    #[serde(default, deserialize_with = "number")]
    pub processors: f64,
    /// What holds them back.
    pub binds: Binds,
}

/// What holds commits back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binds {
    /// One record a flush: one client, or several that flush one after the other.
    Flush,
    /// A flush takes the records of all clients, and they do not fill a block.
    Clients,
    /// A flush of one block takes as many records as the block holds.
    Block,
    /// The processors have no time left.
    Processors,
    /// None of them.
    Nothing,
}

impl Binds {
    /// In a word or two.
    pub fn words(self) -> &'static str {
        match self {
            Binds::Flush => "flushes",
            Binds::Clients => "clients × flushes",
            Binds::Block => "blocks × flushes",
            Binds::Processors => "processors",
            Binds::Nothing => "none of these",
        }
    }
}

/// Appending in large steps, and reading it again: bytes per second.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stream {
    /// Sync method of the log; earlier results do not say.
    pub method: Option<String>,
    /// Whether the log is written and read past the page cache; the disk always is.
    pub direct: Option<bool>,
    /// Bytes appended.
    pub bytes: u64,
    /// Bytes of each record.
    pub record_bytes: u64,
    /// Bytes between commits.
    pub commit_bytes: u64,
    /// The appender waits for each commit.
    pub waiting: Summary,
    /// It waits for the one before, while it appends.
    pub asynchronous: Summary,
    /// The disk: the same bytes in requests of the same size, [`IN_FLIGHT`](super::plan::IN_FLIGHT)
    /// at a time, into a file whose space was allocated, synced once.
    pub disk: Summary,
    /// The better of the two, by the disk, in the same round: medians.
    pub of_disk: Summary,
    /// Opening the log that was not closed, none of it in the page cache.
    pub recovery: Summary,
    /// Reading the same files from the disk in large steps.
    pub disk_read: Summary,
    /// Pages of the log in the page cache afterwards, at most.
    pub resident_pages: u64,
}

/// The whole result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Bytes of the records that were committed.
    pub record_bytes: u64,
    /// One row for each way.
    pub commits: Vec<Commits>,
    /// A plain flush of one block by each method, measured in turns with the commits.
    #[serde(default)]
    pub flushes: Vec<Flush>,
    /// Large steps, if they were asked for.
    pub stream: Option<Stream>,
    /// PostgreSQL by `wal_sync_method`, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postgresql: Option<LogReport>,
    /// Block size of the logs in bytes.
    pub block_bytes: u64,
    /// What is done about the space of new segments: `ahead` or `zeros`.
    #[serde(default)]
    pub preallocate: String,
    /// Runs of each row.
    pub runs: usize,
    /// Seconds of each run of commits.
    pub seconds: f64,
    /// Where it was measured.
    pub environment: Environment,
}
