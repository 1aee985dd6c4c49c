//! `dio bench pipeline`: a command with large direct I/O at its ends.

use std::path::PathBuf;

use crate::size::parse_size;
use dio_bench::pipeline::PipelinePlan;
use dio_bench::{BenchError, pipeline};

use super::{ColdArg, show};

/// Run a command between two files, with large direct I/O at neither end, at its input, and at both
/// ends
///
/// Compared are `cat SOURCE | CMD > TARGET`, `dio cat SOURCE | CMD > TARGET` and
/// `dio cat SOURCE | CMD | dio tee TARGET > /dev/null`, each from cold until the target is durable.
#[derive(Debug, clap::Args)]
pub(super) struct PipelineArgs {
    /// The command, as the shell reads it; it must read standard input and write standard output
    #[arg(long, value_name = "CMD", default_value = "gzip")]
    cmd: String,

    /// Bytes of the file to read, which is text
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = parse_size)]
    size: u64,

    /// Directory in which source and target are made
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Read this file instead, all of it; the target is made in DIR
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    file: Option<PathBuf>,

    /// Runs of each row, in turns; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,

    /// What is emptied before each run
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = ColdArg::System)]
    cold: ColdArg,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Measures, and returns the text to print.
pub(super) fn run(args: PipelineArgs) -> Result<String, BenchError> {
    let PipelineArgs { cmd, size, dir, file, runs, cold, json } = args;
    // Uses the running program, whatever its name, so that no other version is measured.
    let dio = std::env::current_exe()
        .map_err(|error| BenchError::Asked(format!("cannot find dio itself: {error}")))?;
    let plan =
        PipelinePlan { size, directory: dir, file, command: cmd, dio, runs, cold: cold.into() };
    show(&pipeline::run(&plan)?, json)
}
