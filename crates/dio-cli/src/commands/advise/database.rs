//! `dio advise database`: which settings suit a database's disk, its memory and its load.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use dio_advise::database::{Connection, DatabasePlace, DatabaseSystem, gather};
#[cfg(not(feature = "bench"))]
use dio_advise::database::{DatabaseAdvice, DatabaseFacts, SyncFacts};
use dio_common::time::parse_time;

use super::said::{ReportFile, complain, write_report};
use crate::stop::Stop;

/// Which settings suit a database's disk, its memory and its load
///
/// The settings that its server has are asked of the server's own program, or of the running server
/// through a connection. Looked at are also the files, the disks of the data and of the log, the
/// memory, and, if the server runs here, what it reads and writes for a while. `dio synctest` then
/// finds the method of syncing. The advice is a fragment of the file of settings with the reason
/// for each line, how memory is divided among the server's own cache, its sessions and the page
/// cache by the number of clients, and which files stay cached. Nothing is changed. Looking at the
/// data and watching the server need root.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("place").required(true))]
pub(super) struct DatabaseAdviceArgs {
    /// PostgreSQL, with its data in DATADIR
    #[arg(long, value_name = "DATADIR", group = "place", value_hint = clap::ValueHint::DirPath)]
    postgresql: Option<PathBuf>,

    /// MariaDB, with its data in DATADIR
    #[arg(long, value_name = "DATADIR", group = "place", value_hint = clap::ValueHint::DirPath)]
    mariadb: Option<PathBuf>,

    /// A running server: postgresql://…, a connection string of libpq's with =, or
    /// mariadb://USER@HOST[:PORT] or mariadb://USER@/SOCKET
    #[arg(value_name = "CONNECTION", group = "place", value_parser = Connection::of)]
    connection: Option<Connection>,

    /// Watch the load of a server that runs for TIME: seconds, or a number with s, m or h; 0 leaves
    /// it out
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = parse_time)]
    time: Duration,

    /// Settings for so many clients at once
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = clap::value_parser!(u64).range(1..=100_000)
    )]
    clients: u64,

    /// Do not measure methods of syncing
    #[arg(long)]
    no_synctest: bool,

    /// Load a server of its own, in a new directory, with the settings as they are and as advised,
    /// on a hundredth of the memory and of the data or more, and show what each reaches
    #[arg(long)]
    prove: bool,

    /// With --prove, make the data in DIR instead of the directory above DATADIR
    #[arg(
        long,
        value_name = "DIR",
        requires = "prove",
        value_hint = clap::ValueHint::DirPath
    )]
    scratch: Option<PathBuf>,

    /// With --prove, run so often with each
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        requires = "prove",
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    rounds: u32,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Write the advice to FILE instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
}

/// Runs the subcommand; returns the exit status.
pub(super) fn run(args: &DatabaseAdviceArgs) -> ExitCode {
    match advised(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            complain(&text);
            ExitCode::from(1)
        }
    }
}

fn place(args: &DatabaseAdviceArgs) -> DatabasePlace {
    match (&args.postgresql, &args.mariadb, &args.connection) {
        (Some(path), ..) => DatabasePlace::Directory(DatabaseSystem::Postgresql, path.clone()),
        (_, Some(path), _) => DatabasePlace::Directory(DatabaseSystem::Mariadb, path.clone()),
        (.., Some(connection)) => DatabasePlace::Connection(connection.clone()),
        _ => unreachable!("the command line names one of them"),
    }
}

fn advised(args: &DatabaseAdviceArgs) -> Result<(), String> {
    let output = ReportFile::open(args.output.as_ref())?;
    let stop = Stop::on_signals();
    let mut facts =
        gather(&place(args), args.time, &|| stop.asked()).map_err(|error| error.to_string())?;
    // Ctrl-C ends the watching: the advice is of what was seen.
    stop.heeded();
    if !args.no_synctest {
        match synced(&facts) {
            Ok(sync) => facts.sync = sync,
            Err(text) => facts.missing.push(format!("the method of syncing: {text}")),
        }
    }
    let mut advice = facts.advise(args.clients);
    if args.prove {
        advice = proved(args, &facts, &advice)?;
    }
    write_report(&advice, args.json, output, io::stdout())
}

#[cfg(not(feature = "bench"))]
fn synced(_: &DatabaseFacts) -> Result<Option<SyncFacts>, String> {
    Err("this dio was built without its benchmarks".to_owned())
}

#[cfg(not(feature = "bench"))]
fn proved(
    args: &DatabaseAdviceArgs,
    _: &DatabaseFacts,
    _: &DatabaseAdvice,
) -> Result<DatabaseAdvice, String> {
    let _ = (&args.scratch, args.rounds);
    Err("nothing can be proved: this dio was built without its benchmarks".to_owned())
}

#[cfg(feature = "bench")]
use measured::{proved, synced};

#[cfg(feature = "bench")]
mod measured {
    //! What the benchmarks tell.

    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use dio_advise::database::{
        DatabaseAdvice, DatabaseFacts, DatabaseProof, DatabaseSystem, SyncFacts,
    };
    use dio_advise::predict::Advised;
    use dio_bench::database::{self, DatabasePlan};
    use dio_bench::study::Contender;
    use dio_bench::synctest::{self, Section, SynctestPlan, selection};

    use super::DatabaseAdviceArgs;
    use crate::stop::Stop;

    /// How long each method of syncing is measured.
    const EACH_METHOD: Duration = Duration::from_millis(500);

    /// The memory of a proof, and the least data and own cache in it.
    const MEMORY: u64 = 500 << 20;
    const DATA_MIN: u64 = 64 << 20;
    const OWN_CACHE_MIN: u64 = 16 << 20;

    /// Measures methods of syncing on the disk of the log.
    pub(super) fn synced(facts: &DatabaseFacts) -> Result<Option<SyncFacts>, String> {
        let stop = Stop::on_signals();
        let plan = SynctestPlan {
            path: facts.log_directory.clone(),
            force: false,
            time: EACH_METHOD,
            file_size: synctest::FILE_SIZE,
            cases: [Section::Compare, Section::Two].into_iter().flat_map(selection).collect(),
            honesty: false,
        };
        let report = synctest::run(&plan, &|_| {}, &|| stop.asked());
        let report = report.map_err(|error| error.to_string())?;
        let name = facts.system.name();
        let found = report.advice.into_iter().find(|advice| advice.program.starts_with(name));
        Ok(found.map(|advice| SyncFacts { settings: advice.settings, why: advice.why }))
    }

    /// Loads a server of its own with the settings as they are and as advised.
    pub(super) fn proved(
        args: &DatabaseAdviceArgs,
        facts: &DatabaseFacts,
        advice: &DatabaseAdvice,
    ) -> Result<DatabaseAdvice, String> {
        let (kind, contenders) = match facts.system {
            DatabaseSystem::Postgresql => (
                database::DatabaseSystem::Postgresql,
                vec![Contender::Buffered, Contender::Concurrent],
            ),
            _ => (database::DatabaseSystem::Mariadb, vec![Contender::Buffered, Contender::Bare]),
        };
        let above = || facts.directory.parent().unwrap_or(Path::new("/")).to_owned();
        let scratch = args.scratch.clone().unwrap_or_else(above);
        let scratch = fs::canonicalize(&scratch)
            .map_err(|error| format!("{}: {error}", crate::quote::quoted(&scratch)))?;
        let DatabaseProof { data, own_caches } =
            facts.proof(advice, args.clients, MEMORY, (DATA_MIN, OWN_CACHE_MIN));
        let plan = DatabasePlan {
            kind,
            contenders: contenders.clone(),
            workloads: vec![kind.workload().to_owned()],
            raw: None,
            directory: scratch,
            size: data,
            pools: own_caches,
            clients: args.clients.min(64) as usize,
            ramp_up: Duration::from_secs(3),
            steady: Duration::from_secs(6),
            rounds: args.rounds as usize,
            io_uring: false,
            mount_options: Vec::new(),
            memory: rustix::process::geteuid().is_root().then_some(MEMORY),
            program: std::env::current_exe().map_err(|error| error.to_string())?,
        };
        let report = database::run(&plan).map_err(|error| error.to_string())?;
        let mut reached = Vec::new();
        for section in &report.sections {
            for (contender, row) in contenders.iter().zip(&section.rows) {
                let way = match contender {
                    Contender::Buffered => Advised::Cached,
                    Contender::Concurrent => Advised::Concurrent,
                    _ => Advised::Direct,
                };
                reached.push((way, section.pool_bytes, row.tps.median));
            }
        }
        Ok(facts.prove(args.clients, &reached, plan.clients))
    }
}
