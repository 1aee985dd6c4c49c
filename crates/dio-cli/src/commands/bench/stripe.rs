//! `dio bench stripe`: requests over several stripes.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::size::parse_size;
use dio_bench::stripe::{Direction, Rig, Service, StripeBenchPlan, Timing, plot};
use dio_bench::{BenchError, stripe};

use super::show;
use super::storage::wrong;

/// The environment variable that marks the process inside its own namespaces.
const ENTERED: &str = "DIO_BENCH_STRIPE_ENTERED";

/// Measure requests over several stripes: waiting for each stripe, for all at once, and
/// asynchronous
///
/// A striped file submits all stripes of a request and waits once. That is compared with a loop
/// that waits for each stripe and with asynchronous I/O of as many bytes in flight, on disks of
/// which only the timing is a model, on this disk, and over a network file system. Modelled disks
/// and the network are set up and taken down by the command, in namespaces of its own, for which it
/// must be root; a rig that cannot be set up is skipped, and the output says so. Copying between
/// two modelled disks is compared with dd. The rigs are explained in docs/bench-stripe.md.
#[derive(Debug, clap::Args)]
pub(super) struct StripeArgs {
    /// What the targets are
    #[arg(
        long,
        value_name = "RIG",
        value_enum,
        value_delimiter = ',',
        default_value = "modelled,real,network"
    )]
    rig: Vec<RigArg>,

    /// Bytes of a request, a power of two
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "1M,16M,64M",
        value_parser = parse_power)]
    transfer: Vec<u64>,

    /// Targets of a file
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,4,8",
        value_parser = clap::value_parser!(u16).range(1..=64))]
    stripes: Vec<u16>,

    /// Bytes of a stripe, on modelled disks and over the network
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_power)]
    stripe_size: u64,

    /// Bytes of a stripe on this disk, where files have the greatest number of --stripes
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "4K,64K,1M",
        value_parser = parse_power)]
    real_stripe_size: Vec<u64>,

    /// Which way bytes go
    #[arg(
        long,
        value_name = "WAY",
        value_enum,
        value_delimiter = ',',
        default_value = "write,read"
    )]
    direction: Vec<DirectionArg>,

    /// Bytes that each run moves at least
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    size: u64,

    /// Runs of each way, in turns; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,

    /// Milliseconds that a modelled disk takes for a request at least
    #[arg(long, value_name = "MS", default_value = "20", value_parser = parse_milliseconds)]
    disk_service: f64,

    /// Bytes a second that a modelled disk reads, and writes at the same time
    #[arg(long, value_name = "SIZE", default_value = "50M", value_parser = parse_positive)]
    disk_bandwidth: u64,

    /// Bytes that are copied from one modelled disk to another; 0 leaves that out
    #[arg(long, value_name = "SIZE", default_value = "96M", value_parser = parse_size)]
    copy: u64,

    /// Directory in which files are made, on this disk
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Write plots (SVG) into DIR
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    plots: Option<PathBuf>,
}

/// Targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RigArg {
    /// Loop devices over images that a program serves by the model of a disk
    Modelled,
    /// Directories of this disk
    Real,
    /// Mounts of SSHFS, served from another network namespace
    Network,
}

/// Directions.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DirectionArg {
    /// To the targets
    Write,
    /// From the targets
    Read,
}

/// Serve images of modelled disks; for `dio bench stripe` itself
#[derive(Debug, clap::Args)]
pub(super) struct DisksArgs {
    /// Where the images appear
    #[arg(long)]
    at: PathBuf,
    /// How many
    #[arg(long)]
    disks: usize,
    /// Bytes of each
    #[arg(long)]
    bytes: u64,
    /// Least time of a request
    #[arg(long)]
    service_seconds: f64,
    /// Bytes a second, reading
    #[arg(long)]
    read: u64,
    /// Bytes a second, writing
    #[arg(long)]
    write: u64,
}

fn parse_power(text: &str) -> Result<u64, String> {
    match parse_size(text).map_err(|error| error.to_string())? {
        bytes @ 4096..=0x4000_0000 if bytes.is_power_of_two() => Ok(bytes),
        _ => Err("a power of two from 4K to 1G is needed".to_owned()),
    }
}

fn parse_positive(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string()).and_then(|bytes| match bytes {
        0 => Err("more than nothing is needed".to_owned()),
        bytes => Ok(bytes),
    })
}

fn parse_milliseconds(text: &str) -> Result<f64, String> {
    let time = text.parse().ok().filter(|time| (0.0..=10_000.0).contains(time));
    time.ok_or_else(|| "between 0 and 10000 milliseconds".to_owned())
}

/// Measures, writes the requested plots, and returns the text to print.
pub(super) fn run(args: StripeArgs) -> Result<String, BenchError> {
    let mut rigs: Vec<Rig> = Vec::new();
    for rig in args.rig {
        let rig = match rig {
            RigArg::Modelled => Rig::Modelled,
            RigArg::Real => Rig::Real,
            RigArg::Network => Rig::Network,
        };
        if !rigs.contains(&rig) {
            rigs.push(rig);
        }
    }
    let program =
        std::env::current_exe().map_err(|error| wrong("find", Path::new("dio"), &error))?;
    let refused = enter(&program, &rigs);
    // The servers run in other directories, so the path must be absolute.
    let directory = args.dir.canonicalize().map_err(|error| wrong("look at", &args.dir, &error))?;
    let plan = StripeBenchPlan {
        rigs,
        refused,
        transfers: args.transfer,
        counts: args.stripes.into_iter().map(usize::from).collect(),
        stripe: args.stripe_size,
        real_stripes: args.real_stripe_size,
        directions: args.direction.into_iter().map(DirectionArg::direction).collect(),
        moved: args.size,
        runs: args.runs,
        timing: Timing {
            service_seconds: args.disk_service / 1e3,
            read_bytes_per_second: args.disk_bandwidth,
            write_bytes_per_second: args.disk_bandwidth,
        },
        copy: args.copy,
        directory,
        program,
    };
    let report = stripe::run(&plan)?;
    for skipped in &report.skipped {
        eprintln!("dio: {} targets are skipped: {}", skipped.rig.name(), skipped.reason);
    }
    if let Some(directory) = &args.plots {
        plot::write(&report, directory)?;
    }
    show(&report, args.json)
}

impl DirectionArg {
    fn direction(self) -> Direction {
        match self {
            DirectionArg::Write => Direction::Write,
            DirectionArg::Read => Direction::Read,
        }
    }
}

/// Executes the program again in namespaces of its own, if a rig needs them: however this process
/// ends, even if it is killed, its mounts and connections are removed. Returns once it is inside
/// them or needs none. If they cannot be created, it returns the reason for each rig.
fn enter(program: &Path, rigs: &[Rig]) -> Vec<(Rig, String)> {
    let mut words = vec!["--mount", "--propagation", "private"];
    if rigs.contains(&Rig::Network) {
        words.push("--net");
    }
    let needs = |rig: &Rig| *rig != Rig::Real;
    let entered = std::env::var_os(ENTERED).is_some();
    if entered || !rigs.iter().any(needs) || !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(&words).arg("--");
        command
    };
    let reason = match unshare().arg("true").stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {
            let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
            unshare().arg(program).args(arguments).env(ENTERED, "1").exec().to_string()
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("cannot start unshare: {}", crate::commands::words(&error)),
    };
    rigs.iter().copied().filter(needs).map(|rig| (rig, reason.clone())).collect()
}

/// Serves modelled disks until standard input ends.
pub(super) fn serve_disks(args: DisksArgs) -> Result<String, BenchError> {
    let timing = Timing {
        service_seconds: args.service_seconds,
        read_bytes_per_second: args.read,
        write_bytes_per_second: args.write,
    };
    stripe::serve_disks(&Service { at: args.at, disks: args.disks, bytes: args.bytes, timing })?;
    Ok(String::new())
}

/// Serves files over the network until standard input ends.
pub(super) fn serve_files() -> Result<String, BenchError> {
    stripe::serve_files()?;
    Ok(String::new())
}
