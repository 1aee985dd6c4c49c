//! `dio bench database`: MariaDB or PostgreSQL on raw, bare, cached, direct and concurrent storage.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dio_bench::database::{self, DatabasePlan, DatabaseSystem};
use dio_bench::{BenchError, study};

use super::show;
use super::storage::{StorageArg, wrong};
use crate::size::parse_size;

/// Run MariaDB or PostgreSQL on a raw device, bare files and mounts in direct and concurrent mode
///
/// The server is started by hand in a private directory with a private socket, and loaded by
/// sysbench or pgbench. Its data are made once; storages take turns. For mounts, loop devices and
/// the limit to memory it must be root. The figures are explained in docs/bench-database.md.
#[derive(Debug, clap::Args)]
pub(super) struct DatabaseArgs {
    /// The database
    #[arg(value_enum)]
    database: DatabaseArg,

    /// Where the data are; all that the database can use if none is named
    #[arg(long, value_name = "STORAGE", value_enum, value_delimiter = ',')]
    storage: Vec<StorageArg>,

    /// Scripts of sysbench, or builtin ones of pgbench [default: oltp_update_non_index or
    /// tpcb-like]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    workload: Vec<String>,

    /// Use this block device for raw, whose contents are lost, instead of a loop device over a file
    /// in DIR
    #[arg(long, value_name = "DEVICE")]
    raw: Option<PathBuf>,

    /// Directory in which files are made
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Bytes of data, about
    #[arg(long, value_name = "SIZE", default_value = "500M", value_parser = parse_size)]
    size: u64,

    /// The database's own cache (innodb_buffer_pool_size, shared_buffers): each workload is run
    /// with each
    #[arg(
        long,
        value_name = "SIZE",
        value_delimiter = ',',
        default_value = "128M",
        value_parser = parse_size
    )]
    pool: Vec<u64>,

    /// Memory for server, clients and mount, page cache included
    #[arg(long, value_name = "SIZE", default_value = "500M", value_parser = parse_size)]
    memory: u64,

    /// Do not limit memory, for which one must be root
    #[arg(long, conflicts_with = "memory")]
    unlimited: bool,

    /// Clients
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=1024)
    )]
    clients: u16,

    /// Load that is not measured, before the one that is
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    ramp_up: u32,

    /// The time that is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 6)]
    steady: u32,

    /// Runs of each storage, in turns; medians are reported
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,

    /// Mount with io_uring, which turns it on for the whole system; not with the file lock, where
    /// it does not pay
    #[arg(long)]
    io_uring: bool,

    /// One more option of all mounts, such as threads=32
    #[arg(long, value_name = "OPTION")]
    mount_option: Vec<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Write the time series to FILE
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Databases.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum DatabaseArg {
    /// MariaDB with InnoDB, loaded by sysbench
    Mariadb,
    /// PostgreSQL, loaded by pgbench
    Postgresql,
}

/// Measures, writes the requested files, and returns the text to print.
pub(super) fn run(args: DatabaseArgs) -> Result<String, BenchError> {
    let kind = match args.database {
        DatabaseArg::Mariadb => DatabaseSystem::Mariadb,
        DatabaseArg::Postgresql => DatabaseSystem::Postgresql,
    };
    let contenders: Vec<study::Contender> = match &args.storage[..] {
        [] => kind.contenders(),
        named => StorageArg::contenders(named),
    };
    let workloads = match args.workload {
        none if none.is_empty() => vec![kind.workload().to_owned()],
        named => named,
    };
    // The servers run in directories of their own, so the path must be absolute.
    let directory = args.dir.canonicalize().map_err(|error| wrong("look at", &args.dir, &error))?;
    let plan = DatabasePlan {
        kind,
        contenders,
        workloads,
        raw: args.raw,
        directory,
        size: args.size,
        pools: args.pool,
        clients: args.clients.into(),
        ramp_up: Duration::from_secs(args.ramp_up.into()),
        steady: Duration::from_secs(args.steady.into()),
        rounds: args.rounds,
        io_uring: args.io_uring,
        mount_options: args.mount_option,
        memory: (!args.unlimited).then_some(args.memory),
        program: std::env::current_exe()
            .map_err(|error| wrong("find", Path::new("dio"), &error))?,
    };
    let report = database::run(&plan)?;
    if let Some(path) = &args.csv {
        std::fs::write(path, report.csv()).map_err(|error| wrong("write", path, &error))?;
    }
    show(&report, args.json)
}
