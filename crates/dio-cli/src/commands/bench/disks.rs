//! `dio bench disks`: cached, direct and raw over several disks.

use std::path::PathBuf;
use std::time::Duration;

use crate::size::parse_size;
use dio_bench::disks::{AccessPath, Direction, DisksPlan, plot};
use dio_bench::{BenchError, disks};

use super::show;
use super::storage::wrong;

/// Read and write sequentially over 1, 2, 4 and 8 disks, cached, direct and raw
///
/// The disks are loop devices over images in DIR, each limited to the same rate by a control group,
/// so that all of them together are slower than the disk below. Cached and direct use one file that
/// is striped over a file system on each; raw uses the devices themselves. Throughput and the time
/// of all processors are shown. It must be run as root, with 'mkfs.ext4' and 'losetup'. The figures
/// are explained in docs/bench-disks.md.
#[derive(Debug, clap::Args)]
pub(super) struct DisksArgs {
    /// Numbers of disks
    #[arg(long, value_name = "N", default_value = "1,2,4,8", value_delimiter = ',')]
    targets: Vec<usize>,

    /// How bytes travel
    #[arg(
        long,
        value_name = "WAY",
        value_enum,
        value_delimiter = ',',
        default_value = "cached,direct,raw"
    )]
    ways: Vec<WayArg>,

    /// Which way
    #[arg(
        long,
        value_name = "DIRECTION",
        value_enum,
        value_delimiter = ',',
        default_value = "read,write"
    )]
    directions: Vec<DirectionArg>,

    /// Bytes per second of each disk, in each direction
    #[arg(long, value_name = "SIZE", default_value = "100M", value_parser = parse_size)]
    rate: u64,

    /// Bytes of a stripe, and of each request to a disk
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_size)]
    stripe: u64,

    /// Requests to each disk in flight
    #[arg(
        long,
        value_name = "N",
        default_value_t = 4,
        value_parser = clap::value_parser!(u16).range(1..=64)
    )]
    depth: u16,

    /// What is not measured at the beginning of each run
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "0.5",
        value_parser = super::oltp::parse_seconds
    )]
    warm_up: Duration,

    /// What is measured: the bytes that pass in this time at the rate
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "2",
        value_parser = super::oltp::parse_seconds
    )]
    steady: Duration,

    /// Runs of each row, in turns; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,

    /// Directory in which the images are made
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Write plots as SVG into DIR
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    plots: Option<PathBuf>,
}

/// How bytes travel.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum WayArg {
    /// A striped file through the page cache
    Cached,
    /// A striped file past it
    Direct,
    /// The devices
    Raw,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DirectionArg {
    /// Cold reading
    Read,
    /// Writing over what is there, durable at the end
    Write,
}

/// Returns each item once, in the given order.
fn once<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    all.for_each(|one| {
        if !kept.contains(&one) {
            kept.push(one);
        }
    });
    kept
}

/// Measures, writes the requested plots, and returns the text to print.
pub(super) fn run(args: DisksArgs) -> Result<String, BenchError> {
    let way = |way: WayArg| match way {
        WayArg::Cached => AccessPath::Cached,
        WayArg::Direct => AccessPath::Direct,
        WayArg::Raw => AccessPath::Raw,
    };
    let direction = |direction: DirectionArg| match direction {
        DirectionArg::Read => Direction::Read,
        DirectionArg::Write => Direction::Write,
    };
    let plan = DisksPlan {
        targets: once(args.targets.into_iter()),
        ways: once(args.ways.into_iter().map(way)),
        directions: once(args.directions.into_iter().map(direction)),
        rate: args.rate,
        stripe: args.stripe,
        depth: args.depth.into(),
        warm_up: args.warm_up,
        steady: args.steady,
        rounds: args.rounds,
        // Mounts and loop devices are identified by their full paths.
        directory: args.dir.canonicalize().map_err(|error| wrong("look at", &args.dir, &error))?,
    };
    let report = disks::run(&plan)?;
    if let Some(directory) = &args.plots {
        plot::write(&report, directory)?;
    }
    show(&report, args.json)
}
