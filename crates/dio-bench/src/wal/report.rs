//! The result: rows of commits, plain flushes for comparison, and large steps.

use dio_wal::Method;
use serde::{Deserialize, Serialize};

use super::plan::{CommitCase, method_of, name_of};
use crate::database::LogReport;
use crate::environment::Environment;
use crate::histogram::Latency;
use crate::stats::{Summary, number};

/// Commits in one way: medians of the runs, and response times of all runs together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Commits {
    /// The way.
    #[serde(flatten)]
    pub way: CommitCase,
    /// Commits per second.
    #[serde(default, deserialize_with = "number")]
    pub commits_per_second: f64,
    /// Response times in seconds, from the start of an append to the end of its commit.
    pub response: Latency,
    /// CPU seconds of the process for each commit, kernel time included.
    #[serde(deserialize_with = "number")]
    pub cpu_seconds_per_commit: f64,
    /// Bytes of log for each commit.
    #[serde(deserialize_with = "number")]
    pub log_bytes_per_commit: f64,
    /// The most pages of the log in the page cache after a run.
    pub resident_pages: u64,
    /// Commits per second of the single runs.
    pub samples: Vec<f64>,
    /// The limit from flushes; `None` if a plain flush by the same method could not be measured.
    pub limit: Option<Limit>,
}

/// A plain flush: one thread repeatedly overwrites one block and makes it durable by one method.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flush {
    /// Sync method.
    #[serde(serialize_with = "name_of", deserialize_with = "method_of")]
    pub method: Method,
    /// Whether it bypasses the page cache.
    pub direct: bool,
    /// Flushes per second: the median of the runs.
    #[serde(default, deserialize_with = "number")]
    pub flushes_per_second: f64,
    /// Flushes per second of the single runs.
    pub samples: Vec<f64>,
}

/// The limit that flushes set, and how close the commits came to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Records that fit in a block of the log; one if a record is longer than a block.
    #[serde(default)]
    pub records_per_block: f64,
    /// Records that a flush is assumed to carry: the least of one per waiting client and those that
    /// fit in a block; one if clients do not share flushes.
    pub records_per_flush: f64,
    /// Flushes per second of [`Flush`], by the same method: the median.
    pub flushes_per_second: f64,
    /// Records per flush × flushes per second.
    #[serde(default, deserialize_with = "number")]
    pub commits_per_second: f64,
    /// Commits per second divided by that limit, in the same run; the median. It may exceed 1,
    /// since a flush can carry several blocks.
    #[serde(deserialize_with = "number")]
    pub reached: f64,
    /// Share of all processors' time that the commits took.
    #[serde(default, deserialize_with = "number")]
    pub processors: f64,
    /// The bottleneck of the commits.
    pub binds: Bottleneck,
}

/// The bottleneck of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// Each flush carries one record: there is one client, or several flush one after the other.
    Flush,
    /// A flush carries the records of all clients, which do not fill a block.
    Clients,
    /// A flush of one block carries as many records as fit in the block.
    Block,
    /// The processors are busy.
    Processors,
    /// None of these.
    Nothing,
}

impl Bottleneck {
    /// A short name.
    pub fn words(self) -> &'static str {
        match self {
            Bottleneck::Flush => "flushes",
            Bottleneck::Clients => "clients × flushes",
            Bottleneck::Block => "blocks × flushes",
            Bottleneck::Processors => "processors",
            Bottleneck::Nothing => "none of these",
        }
    }
}

/// Results of appending in large steps and of reading the log again, in bytes per second.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stream {
    /// Sync method of the log; earlier results lack it.
    pub method: Option<String>,
    /// Whether the log is written and read with direct I/O; the disk alone always is.
    pub direct: Option<bool>,
    /// Bytes appended.
    pub bytes: u64,
    /// Bytes of each record.
    pub record_bytes: u64,
    /// Bytes between two commits.
    pub commit_bytes: u64,
    /// Throughput if the appender waits for each commit.
    pub waiting: Summary,
    /// Throughput if the appender waits for the previous commit only, while it appends.
    pub asynchronous: Summary,
    /// Throughput of the disk alone: the same bytes in requests of the same size,
    /// [`IN_FLIGHT`](super::plan::IN_FLIGHT) at a time, into a file whose space was allocated, with
    /// one sync at the end.
    pub disk: Summary,
    /// The better of the two log rates divided by that of the disk alone, in the same round; the
    /// median.
    pub of_disk: Summary,
    /// Throughput of opening a log that was not closed, with none of it in the page cache.
    pub recovery: Summary,
    /// Throughput of reading the same files from the disk in large steps.
    pub disk_read: Summary,
    /// The most pages of the log in the page cache after a run.
    pub resident_pages: u64,
}

/// The whole result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WalReport {
    /// Bytes of the records that were committed.
    pub record_bytes: u64,
    /// One row for each way.
    pub commits: Vec<Commits>,
    /// Plain flushes of one block by each method, measured in turns with the commits.
    #[serde(default)]
    pub flushes: Vec<Flush>,
    /// Results of large steps, if requested.
    pub stream: Option<Stream>,
    /// Results of PostgreSQL by `wal_sync_method`, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postgresql: Option<LogReport>,
    /// Block size of the logs in bytes.
    pub block_bytes: u64,
    /// The treatment of the space of new segments: `ahead` or `zeros`.
    #[serde(default)]
    pub preallocate: String,
    /// Whether the logs went on in segments that truncation gave back.
    #[serde(default)]
    pub reused: bool,
    /// Runs of each row.
    pub runs: usize,
    /// Seconds of each run of commits.
    pub seconds: f64,
    /// The machine and storage that it was measured on.
    pub environment: Environment,
}
