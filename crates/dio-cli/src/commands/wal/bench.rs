//! `dio wal bench`: measures the performance that a log would have in a directory.

use std::io::Write;
use std::path::PathBuf;

use dio_bench::wal::{Commits, WalPlan, WalReport};
use dio_wal::Method;

use super::super::bench::wal::{PreallocateArg, parse_method, time};
use super::super::bench::{progress, show, with_signals};
use super::{CommandError, SOUND};
use crate::size::parse_size;

/// Measure what a log would give in a directory: commits per second and response times
///
/// For whoever is about to build a log into a program. A new log is made in a directory of its own
/// inside of DIR, used, and removed; a log that is there is left alone. Clients append a record and
/// wait for its commit, over and over; those that wait at the same time share a flush.
/// `dio bench wal` measures the same, and large records, recovery and PostgreSQL; docs/bench-wal.md
/// explains the figures.
#[derive(Debug, clap::Args)]
pub(super) struct BenchArgs {
    /// Directory on the file system in question
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Threads that commit, a row for each number
    #[arg(long, value_name = "N", default_value = "1,4,16,64", value_delimiter = ',')]
    clients: Vec<usize>,

    /// Bytes of each record
    #[arg(long, value_name = "SIZE", default_value = "100", value_parser = parse_size)]
    record: u64,

    /// Sync methods: fdatasync, fsync, open_datasync, open_sync, rwf_dsync
    #[arg(
        long,
        value_name = "METHOD",
        default_value = "fdatasync",
        value_delimiter = ',',
        value_parser = parse_method
    )]
    method: Vec<Method>,

    /// Past the page cache: yes, no, or both
    #[arg(long, value_name = "WHICH", value_enum, default_value = "yes")]
    direct: Direct,

    /// Seconds of each run
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,

    /// What is done about the space of new segments
    #[arg(long, value_name = "HOW", value_enum, default_value = "ahead")]
    preallocate: PreallocateArg,

    /// Go on in segments that truncation gave back, as a program does that truncates
    #[arg(long)]
    reused: bool,

    /// Runs of each row, all rows in turns; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,

    /// Print one JSON object, as `dio bench wal` does
    #[arg(long)]
    json: bool,
}

/// Past the page cache or through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Direct {
    /// Past it
    Yes,
    /// Through it
    No,
    /// Each row both ways
    Both,
}

impl Direct {
    fn ways(self) -> Vec<bool> {
        match self {
            Direct::Yes => vec![true],
            Direct::No => vec![false],
            Direct::Both => vec![true, false],
        }
    }
}

/// Measures and prints the results.
pub(super) fn run(args: BenchArgs) -> Result<u8, CommandError> {
    let other = |error: dio_bench::BenchError| CommandError::Other(error.to_string());
    let too_large = |_| CommandError::Other("the record is too large".to_owned());
    let plan = WalPlan {
        directory: args.directory,
        record: usize::try_from(args.record).map_err(too_large)?,
        clients: args.clients,
        methods: args.method,
        direct: args.direct.ways(),
        in_flight: 0,
        followed: false,
        alone: false,
        time: time(args.seconds).map_err(other)?,
        size: 0,
        runs: args.runs,
        block: None,
        preallocate: args.preallocate.into(),
        reused: args.reused,
        postgresql: None,
        without_log: false,
    };
    progress::show();
    let report = with_signals(move || dio_bench::wal::run(&plan)).map_err(other)?;
    let mut text = show(&report, args.json).map_err(other)?;
    if !args.json {
        text.push_str(&best(&report));
    }
    std::io::stdout().write_all(text.as_bytes()).map_err(CommandError::Standard)?;
    Ok(SOUND)
}

/// Names the fastest of the measured settings, with the most clients, as options of the library.
fn best(report: &WalReport) -> String {
    let Some(most) = report.commits.iter().map(|row| row.way.clients).max() else {
        return String::new();
    };
    let rows: Vec<&Commits> = report.commits.iter().filter(|row| row.way.clients == most).collect();
    let rate = |row: &&Commits| row.commits_per_second;
    match rows.iter().copied().max_by(|one, other| rate(one).total_cmp(&rate(other))) {
        Some(best) if rows.len() > 1 => format!(
            "\nwith {most} clients the best of these: Method::{:?}, direct({})\n",
            best.way.method, best.way.direct
        ),
        _ => String::new(),
    }
}
