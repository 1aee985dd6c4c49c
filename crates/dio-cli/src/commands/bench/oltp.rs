//! `dio bench oltp`: a database's page workload on raw, direct and concurrent storage.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::size::parse_size;
use dio_bench::oltp::{OltpPlan, OpenMode};
use dio_bench::{BenchError, oltp};

use super::show;
use super::storage::{StorageArg, wrong};

/// Run a database's page workload on a raw device, bare files and mounts in direct and concurrent
/// mode
///
/// Clients run transactions: pages of a few large files are read, some of them changed and written,
/// and a log is written durably at commit. Every page carries its number and version; one that is
/// not what was written last ends the run. Contenders take turns. Mounts and a loop device are made
/// and taken down by the command, for which it must be root. The figures are explained in
/// docs/bench-oltp.md.
#[derive(Debug, clap::Args)]
pub(super) struct OltpArgs {
    /// Where the pages are
    #[arg(
        long,
        value_name = "STORAGE",
        value_enum,
        value_delimiter = ',',
        default_value = "raw,bare,direct-file,direct-range,concurrent"
    )]
    storage: Vec<StorageArg>,

    /// Use this block device for raw, whose contents are lost, instead of a loop device over a file
    /// in DIR
    #[arg(long, value_name = "DEVICE")]
    raw: Option<PathBuf>,

    /// Directory in which files are made
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Files of pages
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2,
        value_parser = clap::value_parser!(u64).range(1..=64)
    )]
    files: u64,

    /// Bytes of each file
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    size: u64,

    /// Bytes of a page
    #[arg(long, value_name = "SIZE", default_value = "8K", value_parser = parse_page)]
    page: u64,

    /// Clients, each a thread
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    clients: u16,

    /// Pages that a transaction reads
    #[arg(
        long,
        value_name = "N",
        default_value_t = 8,
        value_parser = clap::value_parser!(u16).range(..=1000)
    )]
    reads: u16,

    /// Those of them that it changes and writes
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4,
        value_parser = clap::value_parser!(u16).range(..=1000)
    )]
    writes: u16,

    /// While clients come, one after the other
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    ramp_up: Duration,

    /// The time that is measured
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    steady: Duration,

    /// While clients go
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    ramp_down: Duration,

    /// Length of a slot of the time series
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    every: Duration,

    /// Runs of each storage, in turns; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,

    /// How files below mounts are opened; raw and bare ones always with O_DIRECT
    #[arg(long, value_name = "HOW", value_enum, default_value_t = OpenArg::Plain)]
    open: OpenArg,

    /// Mount with io_uring, which turns it on for the whole system; not with the file lock, where
    /// it does not pay
    #[arg(long)]
    io_uring: bool,

    /// One more option of all mounts, such as threads=32
    #[arg(long, value_name = "OPTION")]
    mount_option: Vec<String>,

    /// Memory for all of it, page cache included: a control group is made, for which it must be
    /// root
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Write the time series to FILE
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write plots of the time series (SVG) into DIR
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    plots: Option<PathBuf>,
}

/// Ways to open files.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OpenArg {
    /// Without O_DIRECT, as programs that know nothing of it
    Plain,
    /// With O_DIRECT
    Direct,
}

pub(super) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "between 0 and 86400 seconds".to_owned())
}

fn parse_page(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|error| error.to_string())? {
        bytes @ 512..=0x10_0000 if bytes.is_power_of_two() => Ok(bytes),
        _ => Err("a power of two from 512 to 1M is needed".to_owned()),
    }
}

/// Measures, writes the requested files, and returns the text to print.
pub(super) fn run(args: OltpArgs) -> Result<String, BenchError> {
    // The server of a mount runs in another directory, so the path must be absolute.
    let directory = args.dir.canonicalize().map_err(|error| wrong("look at", &args.dir, &error))?;
    let plan = OltpPlan {
        contenders: StorageArg::contenders(&args.storage),
        raw: args.raw,
        directory,
        files: args.files,
        size: args.size,
        page: args.page as usize,
        clients: args.clients.into(),
        reads: args.reads.into(),
        writes: args.writes.into(),
        ramp_up: args.ramp_up,
        steady: args.steady,
        ramp_down: args.ramp_down,
        every: args.every,
        rounds: args.rounds,
        open: match args.open {
            OpenArg::Plain => OpenMode::Plain,
            OpenArg::Direct => OpenMode::Direct,
        },
        io_uring: args.io_uring,
        mount_options: args.mount_option,
        memory: args.memory,
        program: std::env::current_exe()
            .map_err(|error| wrong("find", Path::new("dio"), &error))?,
    };
    let report = oltp::run(&plan)?;
    if let Some(path) = &args.csv {
        std::fs::write(path, report.csv()).map_err(|error| wrong("write", path, &error))?;
    }
    if let Some(directory) = &args.plots {
        report.write_plots(directory)?;
    }
    show(&report, args.json)
}
