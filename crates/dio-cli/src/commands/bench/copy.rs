//! `dio bench copy`: small blocks one at a time against large ones in flight.

use std::path::PathBuf;

use crate::size::parse_size;
use dio_bench::copy::CopyPlan;
use dio_bench::{BenchError, copy};

use super::{ColdArg, show};

/// Copy a cold file in blocks of 4 KiB, one at a time, and in large blocks, several in flight
///
/// Both copies are direct and end when the target is durable. Small blocks copy less, so throughput
/// is compared.
#[derive(Debug, clap::Args)]
pub(super) struct CopyArgs {
    /// Bytes to copy in large blocks
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = parse_size)]
    size: u64,

    /// Bytes to copy in blocks of 4 KiB
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    small_size: u64,

    /// Bytes of a large block
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_block)]
    block: u64,

    /// Large blocks in flight
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    depth: u16,

    /// Directory in which source and target are made
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Copy at most SIZE bytes of this file instead; the target is made in DIR
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Runs of each row, in turns; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,

    /// What is emptied before each run
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = ColdArg::File)]
    cold: ColdArg,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Parses a size that the kernel accepts for a request (`MAX_RW_COUNT`: just below 2 GiB).
fn parse_block(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|error| error.to_string())? {
        bytes @ 4096..=0x4000_0000 if bytes % 4096 == 0 => Ok(bytes),
        _ => Err("expected a multiple of 4K, from 4K to 1G".to_owned()),
    }
}

/// Measures, and returns the text to print.
pub(super) fn run(args: CopyArgs) -> Result<String, BenchError> {
    let CopyArgs { size, small_size, block, depth, dir, file, runs, cold, json } = args;
    let (block, depth) = (block as usize, usize::from(depth));
    let plan =
        CopyPlan { size, small_size, block, depth, directory: dir, file, runs, cold: cold.into() };
    show(&copy::run(&plan)?, json)
}
