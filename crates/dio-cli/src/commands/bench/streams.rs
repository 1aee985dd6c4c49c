//! `dio bench streams`: the library's streams against the page cache.

use std::path::PathBuf;

use crate::size::parse_size;
use dio_bench::streams::{StreamWorkload, StreamsPlan};
use dio_bench::{BenchError, streams};

use super::{ColdArg, show};

/// Read and write through the library's streams, and through the page cache
///
/// Small steps of one stream, cold, against the page cache with and without a buffer in the
/// program; many streams in one file against the disk's own limit (one stream, 8 requests of 1 MiB
/// in flight); random reads against reads without read-ahead. The ways of a workload take turns,
/// each starting cold; writing ends durable.
#[derive(Debug, clap::Args)]
pub(super) struct StreamsArgs {
    /// What to measure
    #[arg(
        long,
        value_name = "PART",
        value_enum,
        default_value = "read,write,many,random",
        value_delimiter = ','
    )]
    parts: Vec<PartArg>,

    /// Bytes of each workload, and of the file read at random
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    size: u64,

    /// Bytes of a workload in which each step below 4K is a system call
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    small_size: u64,

    /// Bytes of each step of read and write
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "1,4K",
        value_delimiter = ',',
        value_parser = parse_size
    )]
    steps: Vec<u64>,

    /// Streams of many
    #[arg(
        long,
        value_name = "N",
        default_value_t = 64,
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    streams: u16,

    /// Bytes read from one of many streams before the next one's turn
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = parse_memory)]
    piece: u64,

    /// Memory of each of many streams
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_memory)]
    stream_memory: u64,

    /// Reads of random, by each way
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    reads: u64,

    /// Directory in which files are made
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Read at most SIZE bytes of this file instead; what is written is made in DIR
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Runs of each way, in turns; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,

    /// Number of the first run: decides which way begins, and what is read at random
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32))]
    round: u32,

    /// What is emptied before each run
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = ColdArg::File)]
    cold: ColdArg,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Groups of workloads.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum PartArg {
    /// Reading a cold file in steps
    Read,
    /// Writing a new file in steps
    Write,
    /// Many sequential streams in one file
    Many,
    /// Random reads of 4 KiB
    Random,
}

/// Parses a size of memory that is allocated at once.
fn parse_memory(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|error| error.to_string())? {
        bytes @ 4096..=0x4000_0000 => Ok(bytes),
        _ => Err("expected a size from 4K to 1G".to_owned()),
    }
}

/// Measures, and returns the text to print.
pub(super) fn run(args: StreamsArgs) -> Result<String, BenchError> {
    let part = |part: PartArg| match part {
        PartArg::Read => StreamWorkload::Read,
        PartArg::Write => StreamWorkload::Write,
        PartArg::Many => StreamWorkload::Many,
        PartArg::Random => StreamWorkload::Random,
    };
    let plan = StreamsPlan {
        parts: args.parts.into_iter().map(part).collect(),
        size: args.size,
        small_size: args.small_size,
        steps: args.steps,
        streams: usize::from(args.streams),
        piece: args.piece,
        stream_memory: args.stream_memory as usize,
        reads: args.reads,
        directory: args.dir,
        file: args.file,
        runs: args.runs,
        round: args.round as usize,
        cold: args.cold.into(),
    };
    show(&streams::run(&plan)?, args.json)
}
