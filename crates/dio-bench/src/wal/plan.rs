//! The measurements that are asked for, and the ways to commit.

use std::path::PathBuf;
use std::time::Duration;

use dio_wal::{Method, Options, Preallocate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::BenchError;
use crate::database::LogPlan;
use crate::progress;

/// Large writes in flight, of the log in the background and of the disk alone beside it.
pub const IN_FLIGHT: usize = 8;

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the logs are made.
    pub directory: PathBuf,
    /// Bytes of the records that are committed.
    pub record: usize,
    /// Clients, one row for each, method and way.
    pub clients: Vec<usize>,
    /// Sync methods.
    pub methods: Vec<Method>,
    /// With direct I/O, without, or both.
    pub direct: Vec<bool>,
    /// Measure several clients too that commit one after the other.
    pub alone: bool,
    /// How long each run of commits takes.
    pub time: Duration,
    /// Bytes that are appended in large steps; 0 leaves that out.
    pub size: u64,
    /// Runs of each row.
    pub runs: usize,
    /// Block size of the logs; that of the file system when `None`.
    pub block: Option<u32>,
    /// What is done about the space of new segments.
    pub preallocate: Preallocate,
    /// PostgreSQL by `wal_sync_method`, after that.
    pub postgresql: Option<LogPlan>,
    /// Leave dio's log out: PostgreSQL alone.
    pub without_log: bool,
}

/// Who commits, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Sync method.
    #[serde(serialize_with = "name_of", deserialize_with = "method_of")]
    pub method: Method,
    /// Past the page cache.
    pub direct: bool,
    /// Threads, each of which appends a record and commits it, over and over.
    pub clients: usize,
    /// Those that wait are served by one flush; otherwise each has a flush of its own, one after
    /// the other.
    pub grouped: bool,
}

pub(super) fn name_of<S: Serializer>(method: &Method, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(method.name())
}

pub(super) fn method_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Method, D::Error> {
    let name = String::deserialize(deserializer)?;
    let found = Method::ALL.into_iter().find(|method| method.name() == name);
    found.ok_or_else(|| serde::de::Error::custom(format!("no sync method is called `{name}`")))
}

impl Plan {
    pub(super) fn options(&self, method: Method, direct: bool) -> Options {
        let mut options = Options::new();
        options.method(method).direct(direct).idle_mark(None).write_behind(IN_FLIGHT);
        options.preallocate(self.preallocate);
        if let Some(block) = self.block {
            options.block(block);
        }
        options
    }

    /// Every way: methods one after the other, each cached and direct side by side.
    pub(super) fn ways(&self) -> Vec<Way> {
        let mut ways = Vec::new();
        for clients in &self.clients {
            for grouped in [true, false] {
                if !grouped && (*clients == 1 || !self.alone) {
                    continue;
                }
                for method in &self.methods {
                    for direct in &self.direct {
                        ways.push(Way { method: *method, direct: *direct, clients: *clients, grouped });
                    }
                }
            }
        }
        ways
    }

    /// How many runs there are, and about how long they take, where the disk moves `pace` bytes a
    /// second.
    pub(super) fn expected(&self, pace: f64) -> (usize, Duration) {
        let (mut steps, mut time) = (0, Duration::ZERO);
        if !self.without_log {
            // Plain flushes stand beside the ways.
            let each = self.ways().len() + self.methods.len() * self.direct.len();
            steps += each * self.runs;
            time += self.time * (each * self.runs) as u32;
            // Written three times and read twice.
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
            return Err(BenchError::Asked("clients, methods, runs and time must be positive".to_owned()));
        }
        if self.record > dio_wal::format::PAYLOAD_BYTES_MAX {
            return Err(BenchError::Asked("a record has at most 64 MiB".to_owned()));
        }
        Ok(())
    }
}
