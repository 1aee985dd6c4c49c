//! `dio bench wal`: durable commits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::size::parse_size;
use dio_bench::database::{LOG_METHODS, LogPlace, LogPlan};
use dio_bench::wal::WalPlan;
use dio_bench::{BenchError, wal};
use dio_wal::{Method, Preallocate};

use super::show;
use super::storage::wrong;

/// Measure durable commits by sync method, direct and cached, by one client and by many, and
/// appending in large steps
///
/// Each run has a log of its own. Clients append a record and wait for its commit, over and over;
/// those that wait at the same time share a flush. Beside them one thread overwrites a block and
/// syncs it, over and over: what that gives, times the records of a block, is what flushes of the
/// disk allow. Then 1 MiB records are appended with a commit every 64 MiB, beside the disk alone,
/// and the log is opened again. `dio wal bench` measures commits alone. The figures are explained
/// in docs/bench-wal.md.
#[derive(Debug, clap::Args)]
pub(super) struct WalArgs {
    /// Directory in which the logs are made
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Bytes of each record that is committed
    #[arg(long, value_name = "SIZE", default_value = "100", value_parser = parse_size)]
    record: u64,

    /// Clients, one row for each, method and way
    #[arg(long, value_name = "N", default_value = "1,64", value_delimiter = ',')]
    clients: Vec<usize>,

    /// Sync methods; the first one is used for large steps
    #[arg(long, value_name = "METHOD", value_delimiter = ',', value_parser = parse_method,
        default_value = "fdatasync,fsync,open_datasync,open_sync,rwf_dsync")]
    methods: Vec<Method>,

    /// Past the page cache, through it, or both
    #[arg(
        long,
        value_name = "WAY",
        value_enum,
        value_delimiter = ',',
        default_value = "direct,cached"
    )]
    ways: Vec<WayArg>,

    /// Measure several clients too that commit one after the other, each with a flush of its own
    #[arg(long)]
    one_by_one: bool,

    /// Measure one client too that has so many commits in flight, as futures; 0 leaves that out
    #[arg(long, value_name = "N", default_value_t = 0)]
    in_flight: usize,

    /// Measure clients too whose log a reader follows meanwhile
    #[arg(long)]
    followed: bool,

    /// Seconds of each run of commits
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,

    /// Bytes that are appended in large steps; 0 leaves that out
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    size: u64,

    /// What is done about the space of new segments
    #[arg(long, value_name = "HOW", value_enum, default_value = "ahead")]
    preallocate: PreallocateArg,

    /// Go on in segments that truncation gave back, as a program does that truncates
    #[arg(long)]
    reused: bool,

    /// Runs of each row, all rows in turns; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,

    /// Block size of the logs [default: that of the file system]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    block: Option<u64>,

    /// PostgreSQL as well, or alone: pgbench by wal_sync_method, with pg_wal cached, direct, and on
    /// a mount (for root)
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "also"
    )]
    postgresql: Option<PostgresqlArg>,

    /// Clients of PostgreSQL, a load of each way for each
    #[arg(long, value_name = "N", default_value = "1,16", value_delimiter = ',')]
    postgresql_clients: Vec<usize>,

    /// Where PostgreSQL's log is
    #[arg(
        long,
        value_name = "PLACE",
        value_enum,
        value_delimiter = ',',
        default_value = "cached,direct,mount"
    )]
    postgresql_log: Vec<LogArg>,

    /// A builtin script of pgbench
    #[arg(long, value_name = "NAME", default_value = "simple-update")]
    postgresql_workload: String,

    /// Bytes of PostgreSQL's data, about
    #[arg(long, value_name = "SIZE", default_value = "150M", value_parser = parse_size)]
    postgresql_size: u64,

    /// One more option of the mount of PostgreSQL's log, such as native
    #[arg(long, value_name = "OPTION")]
    mount_option: Vec<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Whether PostgreSQL is measured beside dio's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PostgresqlArg {
    /// Both
    Also,
    /// PostgreSQL only
    Alone,
}

/// Where PostgreSQL's log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum LogArg {
    /// On the file system, through the page cache
    Cached,
    /// On the file system, past the page cache where PostgreSQL can
    Direct,
    /// Below a mount in concurrent mode
    Mount,
}

impl From<LogArg> for LogPlace {
    fn from(place: LogArg) -> LogPlace {
        match place {
            LogArg::Cached => LogPlace::Cached,
            LogArg::Direct => LogPlace::Direct,
            LogArg::Mount => LogPlace::Mount,
        }
    }
}

/// Past the page cache or through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum WayArg {
    /// Past the page cache
    Direct,
    /// Through it
    Cached,
}

pub(in crate::commands) fn parse_method(text: &str) -> Result<Method, String> {
    let names = || Method::ALL.map(Method::name).join(", ");
    Method::ALL
        .into_iter()
        .find(|method| method.name() == text)
        .ok_or_else(|| format!("one of {}", names()))
}

/// Bytes of PostgreSQL's own cache: enough for all of the default size of the data.
const POOL: u64 = 256 << 20;

impl WalArgs {
    /// Returns the plan for PostgreSQL, if it is measured.
    fn postgresql(&self) -> Result<Option<LogPlan>, BenchError> {
        if self.postgresql.is_none() {
            return Ok(None);
        }
        // The servers run in directories of their own, so the path must be absolute.
        let directory =
            self.dir.canonicalize().map_err(|error| wrong("look at", &self.dir, &error))?;
        Ok(Some(LogPlan {
            directory,
            methods: LOG_METHODS
                .into_iter()
                .filter(|name| self.methods.iter().any(|had| had.name() == *name))
                .collect(),
            places: self.postgresql_log.iter().map(|place| (*place).into()).collect(),
            clients: self.postgresql_clients.clone(),
            workload: self.postgresql_workload.clone(),
            size: self.postgresql_size,
            pool: POOL,
            time: Duration::from_secs(whole(self.seconds)),
            rounds: self.runs,
            mount_options: self.mount_option.clone(),
            program: std::env::current_exe()
                .map_err(|error| wrong("find", Path::new("dio"), &error))?,
        }))
    }
}

/// Returns the seconds for pgbench, which only accepts whole ones.
fn whole(seconds: f64) -> u64 {
    seconds.ceil().max(1.0) as u64
}

/// What is done about the space of new segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::commands) enum PreallocateArg {
    /// It is set aside, and zeros are written ahead of small groups
    Ahead,
    /// All of a segment is written with zeros when it is made
    Zeros,
}

impl From<PreallocateArg> for Preallocate {
    fn from(how: PreallocateArg) -> Preallocate {
        match how {
            PreallocateArg::Ahead => Preallocate::Ahead,
            PreallocateArg::Zeros => Preallocate::Zeros,
        }
    }
}

/// Returns the duration of a run.
pub(in crate::commands) fn time(seconds: f64) -> Result<Duration, BenchError> {
    let time = Duration::try_from_secs_f64(seconds);
    time.map_err(|_| BenchError::Asked("--seconds needs a positive number".to_owned()))
}

/// Measures, and returns the text to print.
pub(super) fn run(args: WalArgs) -> Result<String, BenchError> {
    let time = time(args.seconds)?;
    let too_large = |_| BenchError::Asked("the size is too large".to_owned());
    let plan = WalPlan {
        postgresql: args.postgresql()?,
        without_log: args.postgresql == Some(PostgresqlArg::Alone),
        directory: args.dir,
        record: usize::try_from(args.record).map_err(too_large)?,
        clients: args.clients,
        methods: args.methods,
        direct: args.ways.into_iter().map(|way| way == WayArg::Direct).collect(),
        in_flight: args.in_flight,
        followed: args.followed,
        alone: args.one_by_one,
        time,
        size: args.size,
        runs: args.runs,
        block: args.block.map(u32::try_from).transpose().map_err(too_large)?,
        preallocate: args.preallocate.into(),
        reused: args.reused,
    };
    let report = wal::run(&plan)?;
    show(&report, args.json)
}
