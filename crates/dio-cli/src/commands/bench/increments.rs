//! `dio bench increments`: cold sequential reading in small and large steps.

use std::path::PathBuf;

use crate::size::parse_size;
use dio_bench::increments::IncrementsPlan;
use dio_bench::{BenchError, increments};

use super::{ColdArg, show};

/// Read a cold file from front to back in small and large steps, cached and direct
///
/// Each step is one call: read(2) through the page cache, the library's stream with read-ahead for
/// direct I/O. The file is made cold before every run, and a run whose file is not is refused.
#[derive(Debug, clap::Args)]
pub(super) struct IncrementsArgs {
    /// Bytes to read; steps below 4K read at most 2^20 steps of them
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    size: u64,

    /// Directory in which the file is made
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "file")]
    dir: PathBuf,

    /// Read at most SIZE bytes of this file instead
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Runs of each row, cached and direct in turns; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,

    /// Bytes of each step, one row for each
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1,4K,10M",
        value_delimiter = ',',
        value_parser = parse_size
    )]
    steps: Vec<u64>,

    /// What is emptied before each run
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = ColdArg::File)]
    cold: ColdArg,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Measures, and returns the text to print.
pub(super) fn run(args: IncrementsArgs) -> Result<String, BenchError> {
    let IncrementsArgs { size, dir, file, runs, steps, cold, json } = args;
    let report = increments::run(&IncrementsPlan {
        size,
        directory: dir,
        file,
        steps,
        runs,
        cold: cold.into(),
    })?;
    show(&report, json)
}
