//! The durable log: commits by method, with and without direct I/O, by one client and by many, beside what flushes of the disk
//! allow; appending in large steps; opening again.
//!
//! The reference is the published measurement of PostgreSQL with `wal_sync_method = open_sync`, with and without O_DIRECT.

mod limit;
mod load;
mod section;
mod stream;

use std::path::{Path, PathBuf};
use std::time::Duration;

use dio_wal::{Method, Options, Preallocate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::BenchError;
use crate::data::Scratch;
use crate::database::{self, LogPlan, LogReport};
use crate::environment::Environment;
use crate::histogram::Latency;
use crate::progress;
use crate::stats::{Summary, number};
pub use limit::{Binds, Flush, Limit};

/// The reference: transactions per second with `open_sync`, cached and direct, of two runs (PostgreSQL's hackers list, 2003 to
/// 2005: direct I/O for the write-ahead log).
const REFERENCE: [(f64, f64); 2] = [(109.9, 147.2), (102.7, 150.8)];

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

/// Bytes of a record of [`Stream`].
pub const LARGE: usize = 1 << 20;
/// It is committed every so many bytes.
pub const COMMIT: u64 = 64 << 20;

/// Large writes in flight, of the log in the background and of the disk alone beside it.
pub const IN_FLIGHT: usize = 8;

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
    /// Those that wait are served by one flush; otherwise each has a flush of its own, one after the other.
    pub grouped: bool,
}

fn name_of<S: Serializer>(method: &Method, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(method.name())
}

fn method_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Method, D::Error> {
    let name = String::deserialize(deserializer)?;
    let found = Method::ALL.into_iter().find(|method| method.name() == name);
    found.ok_or_else(|| serde::de::Error::custom(format!("no sync method is called `{name}`")))
}

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
    /// The disk: the same bytes in requests of the same size, [`IN_FLIGHT`] at a time, into a file whose space was allocated, synced
    /// once.
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

impl Plan {
    fn options(&self, method: Method, direct: bool) -> Options {
        let mut options = Options::new();
        options.method(method).direct(direct).idle_mark(None).write_behind(IN_FLIGHT);
        options.preallocate(self.preallocate);
        if let Some(block) = self.block {
            options.block(block);
        }
        options
    }

    /// Every way: methods one after the other, each cached and direct side by side.
    fn ways(&self) -> Vec<Way> {
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

    /// How many runs there are, and about how long they take, where the disk moves `pace` bytes a second.
    fn expected(&self, pace: f64) -> (usize, Duration) {
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

    fn check(&self) -> Result<(), BenchError> {
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

/// Measures every way, all of them in turns, and then large steps.
///
/// # Errors
/// [`BenchError`].
pub fn run(plan: &Plan) -> Result<Report, BenchError> {
    plan.check()?;
    let (steps, time) = plan.expected(progress::pace(&plan.directory));
    progress::begin(steps, time);
    let load::Measured { mut commits, flushes, block_bytes } =
        if plan.without_log { load::Measured::default() } else { load::measure(plan)? };
    let stream = if plan.size > 0 && !plan.without_log { Some(stream::measure(plan)?) } else { None };
    let postgresql = plan.postgresql.as_ref().map(database::run_log).transpose()?;
    let scratch = Scratch::new(&plan.directory)?;
    let environment = Environment::of(&scratch.random_file("data", 1 << 20)?)?;
    for row in &mut commits {
        row.limit = limit::limit(row, &flushes, (plan.record, block_bytes), environment.cpus);
    }
    Ok(Report {
        record_bytes: plan.record as u64,
        commits,
        flushes,
        stream,
        postgresql,
        block_bytes,
        preallocate: match plan.preallocate {
            Preallocate::Ahead => "ahead".to_owned(),
            Preallocate::Zeros => "zeros".to_owned(),
        },
        runs: plan.runs,
        seconds: plan.time.as_secs_f64(),
        environment,
    })
}

/// Pages of a directory's files that are in the page cache.
fn resident_pages(directory: &Path) -> Result<u64, BenchError> {
    let failed = || BenchError::system("look into the page cache for", directory);
    let mut pages = 0;
    for entry in std::fs::read_dir(directory).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        let file = std::fs::File::open(&path).map_err(BenchError::system("open", &path))?;
        let found = dio::residency::resident_pages(&file);
        pages += found.map_err(|error| BenchError::Asked(error.to_string()))?;
    }
    Ok(pages)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::section::Benchmark;

    pub(crate) fn plan(directory: &Path) -> Plan {
        Plan {
            directory: directory.to_owned(),
            record: 100,
            clients: vec![1, 4],
            methods: vec![Method::Fdatasync, Method::OpenDatasync],
            direct: vec![true, false],
            alone: true,
            time: Duration::from_millis(20),
            size: 4 << 20,
            runs: 1,
            block: None,
            preallocate: Preallocate::Ahead,
            postgresql: None,
            without_log: false,
        }
    }

    #[test]
    fn every_way_is_measured() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let report = run(&plan(directory.path())).unwrap();
        assert_eq!(report.commits.len(), 12);
        assert!(report.commits.iter().all(|row| row.commits_per_second > 0.0 && row.response.p50 > 0.0));
        let stream = report.stream.as_ref().unwrap();
        assert!(stream.waiting.median > 0.0 && stream.recovery.median > 0.0 && stream.disk_read.median > 0.0);
        let text = report.text();
        assert!(text.contains("open_datasync") && text.contains("of the disk"), "{text}");
        assert!(text.contains("by fdatasync, direct; 4 MiB in records of 1 MiB"), "{text}");
        assert_eq!(report.flushes.len(), 4);
        let limits: Vec<Limit> = report.commits.iter().filter_map(|row| row.limit).collect();
        assert_eq!(limits.len(), 12, "{:?}", report.flushes);
        for (row, limit) in report.commits.iter().zip(limits) {
            let together = if row.way.grouped { row.way.clients } else { 1 };
            assert_eq!(limit.records_per_flush, together as f64, "{row:?}");
            assert!(limit.reached > 0.0 && limit.processors > 0.0, "{row:?}");
        }
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "nothing is left");
    }

    #[test]
    fn segments_may_be_filled_when_they_are_made() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let plan = Plan { preallocate: Preallocate::Zeros, clients: vec![1], size: 0, ..plan(directory.path()) };
        let report = run(&plan).unwrap();
        assert!(report.commits.iter().all(|row| row.commits_per_second > 0.0));
        assert!(report.text().contains("segments of written zeros"), "{}", report.text());
    }

    #[test]
    fn what_measures_nothing_is_refused() {
        let here = Path::new(".");
        for wrong in [Plan { clients: vec![0], ..plan(here) }, Plan { runs: 0, ..plan(here) }] {
            assert!(matches!(run(&wrong), Err(BenchError::Asked(_))));
        }
    }
}
