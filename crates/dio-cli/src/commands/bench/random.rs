//! `dio bench random`: random reads at several depths.

use std::path::PathBuf;
use std::time::Duration;

use crate::size::parse_size;
use dio::Mode;
use dio::engine::EngineKind;
use dio_bench::random::RandomPlan;
use dio_bench::{BenchError, random};

use super::show;

/// Read random blocks with several reads in flight
///
/// The counterpart in fio: --ioengine=io_uring --direct=1 --rw=randread --bs=BLOCK --iodepth=N.
#[derive(Debug, clap::Args)]
pub(super) struct RandomArgs {
    /// Bytes of the file
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    size: u64,

    /// Bytes of each read
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = parse_size)]
    block: u64,

    /// Reads in flight, one row for each
    #[arg(long, value_name = "N", default_value = "1,32,128", value_delimiter = ',',
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    depth: Vec<u16>,

    /// How long each run takes
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    seconds: f64,

    /// Runs of each row, in turns; medians are reported
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: usize,

    /// How the file is opened
    #[arg(long, value_enum, default_value_t = ModeArg::Concurrent)]
    mode: ModeArg,

    /// The engine, instead of the one that probing finds
    #[arg(long, value_enum)]
    engine: Option<EngineArg>,

    /// Read nothing, to measure the harness itself
    #[arg(long, conflicts_with = "engine")]
    null: bool,

    /// Directory in which the file is made
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "file")]
    dir: PathBuf,

    /// Read at most SIZE bytes of this file instead
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Modes with a queue worth measuring.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ModeArg {
    /// No range locks
    Concurrent,
    /// A lock of the range for each read
    Direct,
}

/// Engines for real files.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum EngineArg {
    /// io_uring
    Uring,
    /// A pool of threads
    Blocking,
}

/// Measures, and returns the text to print.
pub(super) fn run(args: RandomArgs) -> Result<String, BenchError> {
    let time = Duration::try_from_secs_f64(args.seconds)
        .map_err(|error| BenchError::Asked(error.to_string()))?;
    let plan = RandomPlan {
        size: args.size,
        block: usize::try_from(args.block).map_err(|error| BenchError::Asked(error.to_string()))?,
        depths: args.depth.into_iter().map(usize::from).collect(),
        time,
        runs: args.runs,
        mode: match args.mode {
            ModeArg::Concurrent => Mode::Concurrent,
            ModeArg::Direct => Mode::Direct,
        },
        engine: args.engine.map(|engine| match engine {
            EngineArg::Uring => EngineKind::Uring,
            EngineArg::Blocking => EngineKind::Blocking,
        }),
        null: args.null,
        directory: args.dir,
        file: args.file,
    };
    show(&random::run(&plan)?, args.json)
}
