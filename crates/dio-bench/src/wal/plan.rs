//! The measurements that a user asks for, and the ways to commit.

use std::path::PathBuf;
use std::time::Duration;

use dio_wal::{Method, Options, Preallocate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::BenchError;
use crate::database::LogPlan;
use crate::progress;

/// Large writes in flight, both of the log in asynchronous mode and of the disk alone.
pub const IN_FLIGHT: usize = 8;

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct WalPlan {
    /// The directory in which logs are created.
    pub directory: PathBuf,
    /// Bytes of a committed record.
    pub record: usize,
    /// Numbers of clients; each gets a row for each method and kind of I/O.
    pub clients: Vec<usize>,
    /// Sync methods.
    pub methods: Vec<Method>,
    /// Whether to use direct I/O: with, without, or both.
    pub direct: Vec<bool>,
    /// For one more client that does not wait for each commit: how many it has in flight, as
    /// futures. 0 leaves it out.
    pub in_flight: usize,
    /// Whether to measure also clients whose log a reader follows.
    pub followed: bool,
    /// Whether to measure also several clients that commit one after the other.
    pub alone: bool,
    /// Duration of each run of commits.
    pub time: Duration,
    /// Bytes that are appended in large steps; 0 skips that.
    pub size: u64,
    /// Runs of each row.
    pub runs: usize,
    /// Block size of the logs; that of the file system when `None`.
    pub block: Option<u32>,
    /// The treatment of the space of new segments.
    pub preallocate: Preallocate,
    /// Whether the log of each run goes on in segments that truncation gave back, as the log of a
    /// program does that truncates.
    pub reused: bool,
    /// Measurements of PostgreSQL by `wal_sync_method`, which follow.
    pub postgresql: Option<LogPlan>,
    /// Whether to skip dio's log and measure PostgreSQL only.
    pub without_log: bool,
}

/// A way to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitCase {
    /// Sync method.
    #[serde(serialize_with = "name_of", deserialize_with = "method_of")]
    pub method: Method,
    /// Whether the log bypasses the page cache.
    pub direct: bool,
    /// Number of threads, each of which repeatedly appends a record and commits it.
    pub clients: usize,
    /// Whether one flush serves all waiting threads. Otherwise each commit has its own flush, one
    /// after the other.
    pub grouped: bool,
    /// Commits that a client has in flight, as futures; 0 if it waits for each.
    #[serde(default)]
    pub in_flight: usize,
    /// Whether a reader follows the log meanwhile.
    #[serde(default)]
    pub followed: bool,
}

pub(super) fn name_of<S: Serializer>(method: &Method, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(method.name())
}

pub(super) fn method_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Method, D::Error> {
    let name = String::deserialize(deserializer)?;
    let found = Method::ALL.into_iter().find(|method| method.name() == name);
    found.ok_or_else(|| serde::de::Error::custom(format!("no sync method is called `{name}`")))
}

impl WalPlan {
    pub(super) fn options(&self, method: Method, direct: bool) -> Options {
        let mut options = Options::new();
        options.method(method).direct(direct).idle_mark(None).write_behind(IN_FLIGHT);
        options.preallocate(self.preallocate);
        if let Some(block) = self.block {
            options.block(block);
        }
        options
    }

    /// All ways: the methods one after the other, with cached and direct in succession.
    pub(super) fn ways(&self) -> Vec<CommitCase> {
        let mut groups = Vec::new();
        for clients in &self.clients {
            groups.push((*clients, true, 0, false));
            groups.extend(self.followed.then_some((*clients, true, 0, true)));
            if *clients > 1 && self.alone {
                groups.push((*clients, false, 0, false));
            }
        }
        groups.extend((self.in_flight > 0).then_some((1, true, self.in_flight, false)));
        let mut ways = Vec::new();
        for (clients, grouped, in_flight, followed) in groups {
            for method in &self.methods {
                for direct in &self.direct {
                    let (method, direct) = (*method, *direct);
                    ways.push(CommitCase { method, direct, clients, grouped, in_flight, followed });
                }
            }
        }
        ways
    }

    /// The number of steps, and about how long they take on a disk that moves `pace` bytes a
    /// second.
    pub(super) fn expected(&self, pace: f64) -> (usize, Duration) {
        let (mut steps, mut time) = (0, Duration::ZERO);
        if !self.without_log {
            // Plain flushes are measured in addition to the ways.
            let each = self.ways().len() + self.methods.len() * self.direct.len();
            steps += each * self.runs;
            time += self.time * (each * self.runs) as u32;
            // The bytes are written three times and read twice.
            let bytes = 5 * self.size * self.runs as u64;
            time += progress::time_for(bytes, pace);
            steps += if self.size > 0 { 3 * self.runs } else { 0 };
        }
        if let Some(postgresql) = &self.postgresql {
            let (more, longer) = postgresql.expected();
            (steps, time) = (steps + more, time + longer);
        }
        (steps, time)
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
        let none = self.clients.is_empty() || self.methods.is_empty() || self.direct.is_empty();
        if none || self.clients.contains(&0) || self.runs == 0 || self.time.is_zero() {
            return Err(BenchError::Asked(
                "clients, methods, runs and time must be positive".to_owned(),
            ));
        }
        if self.record > dio_wal::format::PAYLOAD_BYTES_MAX {
            return Err(BenchError::Asked("a record has at most 64 MiB".to_owned()));
        }
        Ok(())
    }
}
