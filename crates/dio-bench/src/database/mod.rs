//! What a real database makes of its storage: MariaDB or PostgreSQL as Debian has them, in a private directory, with the load
//! generators that their people use.
//!
//! The data are made once, on the file system itself. Each run starts the server on them as the contender has it: through a
//! mount, through the page cache, on a block device; nothing of the data is cached then. A first load, which is not measured, warms
//! the server up.

mod client;
mod engine;
mod log;
mod mariadb;
mod postgres;
mod report;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::cold::{self, Cold};
use crate::data::Scratch;
use crate::environment::Environment;
use crate::progress::{self, time_for};
use crate::study::device::{Loop, check_device};
use crate::study::memory::Limit;
use crate::study::mount::{Mounted, Mounter};
use crate::study::observe::Observer;
use crate::study::{Contender, Run, said_by, turns};
use client::Client;
use engine::{Engine, Loaded, Place};
#[cfg(test)]
pub(crate) use log::tests as tests_of_log;
pub use log::{LogPlace, LogPlan, LogReport, LogRow, METHODS as LOG_METHODS, run_log};
pub use report::{Report, Section};

/// Length of a slot of the time series: both load generators report once a second.
const EVERY: Duration = Duration::from_secs(1);

/// The databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// MariaDB with InnoDB, loaded by sysbench.
    Mariadb,
    /// PostgreSQL, loaded by pgbench.
    Postgresql,
}

impl Kind {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Mariadb => "MariaDB",
            Kind::Postgresql => "PostgreSQL",
        }
    }

    /// The storages that it can use.
    pub fn contenders(self) -> Vec<Contender> {
        let can = |contender: &Contender| match self {
            Kind::Mariadb => true,
            // It has no direct I/O of its own, and no tables on devices.
            Kind::Postgresql => !matches!(contender, Contender::Raw | Contender::Bare),
        };
        Contender::ALL.into_iter().filter(can).collect()
    }

    /// The script of sysbench, or of pgbench, that runs unless others are asked for.
    pub fn workload(self) -> &'static str {
        match self {
            Kind::Mariadb => "oltp_update_non_index",
            Kind::Postgresql => "tpcb-like",
        }
    }

    fn engine(self) -> Box<dyn Engine> {
        match self {
            Kind::Mariadb => Box::new(mariadb::Mariadb),
            Kind::Postgresql => Box::new(postgres::Postgres),
        }
    }
}

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The database.
    pub kind: Kind,
    /// The ways to store its data.
    pub contenders: Vec<Contender>,
    /// Scripts of the load generator.
    pub workloads: Vec<String>,
    /// A block device whose contents are overwritten, instead of a loop device of ours.
    pub raw: Option<PathBuf>,
    /// The directory in which files are made.
    pub directory: PathBuf,
    /// Bytes of data, about.
    pub size: u64,
    /// Bytes of the database's own cache: one study for each.
    pub pools: Vec<u64>,
    /// Clients.
    pub clients: usize,
    /// A load that is not measured.
    pub ramp_up: Duration,
    /// What is measured.
    pub steady: Duration,
    /// Runs of each contender, in turns.
    pub rounds: usize,
    /// Mounts whose writes need not take turns get their requests by io_uring.
    pub io_uring: bool,
    /// More options of all mounts.
    pub mount_options: Vec<String>,
    /// Bytes of memory that the database, its clients and the mount may use, page cache included.
    pub memory: Option<u64>,
    /// The program that mounts: `dio`.
    pub program: PathBuf,
}

impl Plan {
    fn check(&self) -> Result<(), BenchError> {
        let asked = |text: String| Err(BenchError::Asked(text));
        let possible = self.kind.contenders();
        if let Some(contender) = self.contenders.iter().find(|contender| !possible.contains(contender)) {
            let text =
                format!("{} cannot use '{}': it has no direct I/O of its own", self.kind.name(), contender.name());
            return asked(text);
        }
        let empty = self.contenders.is_empty() || self.workloads.is_empty() || self.pools.is_empty();
        if empty || self.clients == 0 || self.rounds == 0 {
            return asked("storages, workloads, caches, clients and rounds must be positive".to_owned());
        }
        if self.steady < EVERY || self.steady.subsec_nanos() > 0 || self.ramp_up.subsec_nanos() > 0 {
            return asked("the load and its ramp-up last whole seconds, the load at least one".to_owned());
        }
        if let Some(pool) = self.pools.iter().find(|pool| self.memory.is_some_and(|memory| **pool >= memory)) {
            return asked(format!("a cache of {pool} bytes does not fit into the memory that is allowed"));
        }
        Ok(())
    }
}

/// Where a study is made.
struct Ground<'a> {
    plan: &'a Plan,
    engine: Box<dyn Engine>,
    /// The data, and where they are mounted.
    data: PathBuf,
    at: PathBuf,
    /// The raw device, and the directory of what is not on it.
    raw: Option<(PathBuf, PathBuf, Option<Loop>)>,
    scratch: Scratch,
}

impl<'a> Ground<'a> {
    fn prepare(plan: &'a Plan) -> Result<Ground<'a>, BenchError> {
        let engine = plan.kind.engine();
        let scratch = Scratch::new(&plan.directory)?;
        let (data, at) = (scratch.path("data"), scratch.path("at"));
        for directory in [&data, &at] {
            std::fs::create_dir(directory).map_err(BenchError::system("create", directory))?;
        }
        engine.own(&scratch.path(""))?;
        engine.own(&data)?;
        let mut ground = Ground { plan, engine, data, at, raw: None, scratch };
        let place = ground.place(Contender::Bare, plan.pools[0]);
        ground.engine.make(&place, plan.size)?;
        if plan.contenders.contains(&Contender::Raw) {
            ground.prepare_raw()?;
        }
        Ok(ground)
    }

    /// Puts the table space on a device; everything else goes to a directory of its own.
    fn prepare_raw(&mut self) -> Result<(), BenchError> {
        let aside = self.scratch.path("beside");
        let space = self.data.join(mariadb::SPACE);
        let bytes = std::fs::metadata(&space).map_err(BenchError::system("look at", &space))?.len();
        let copy = |from: &Path, to: &Path| {
            said_by(Command::new(&self.plan.program).args(["cp", "-a", "-T"]).args([from, to]))
        };
        copy(&self.data, &aside)?;
        let moved = aside.join(mariadb::SPACE);
        let (device, ours) = match &self.plan.raw {
            Some(device) => {
                check_device(device, bytes)?;
                let to = format!("of={}", device.display());
                let from = format!("if={}", moved.display());
                let dd = ["dd", &from, &to, "bs=4M", "conv=fsync,notrunc", "status=none"];
                said_by(Command::new(&self.plan.program).args(dd))?;
                std::fs::remove_file(&moved).map_err(BenchError::system("remove", &moved))?;
                (device.clone(), None)
            }
            None => {
                let image = self.scratch.path("image");
                std::fs::rename(&moved, &image).map_err(BenchError::system("rename", &moved))?;
                let device = Loop::over(&image)?;
                (device.device().to_owned(), Some(device))
            }
        };
        self.raw = Some((device, aside, ours));
        Ok(())
    }

    /// What the server of a contender is started with.
    fn place(&self, contender: Contender, pool: u64) -> Place {
        let (data, raw) = match (&self.raw, contender) {
            (Some((device, aside, _)), Contender::Raw) => (aside.clone(), Some(device.clone())),
            _ if contender.is_mount() => (self.at.clone(), None),
            _ => (self.data.clone(), None),
        };
        let buffered = contender == Contender::Buffered;
        let (run, clients) = (self.scratch.path(""), self.plan.clients);
        Place { data, raw, run, pool, buffered, clients, settings: Vec::new() }
    }

    /// Mounts what is a mount, after nothing of the data is cached any more.
    fn enter(&self, contender: Contender) -> Result<Option<Mounted>, BenchError> {
        forget(&self.data)?;
        if let Some((_, beside, _)) = &self.raw {
            forget(beside)?;
        }
        let plan = self.plan;
        let mut options = plan.mount_options.clone();
        // The server may be of another user.
        if rustix::process::geteuid().is_root() {
            options.push("allow_other".to_owned());
        }
        let mounter = Mounter { program: &plan.program, io_uring: plan.io_uring, options: &options };
        mounter.mount(contender, &self.data, &self.at)
    }
}

/// Drops the pages of all files below a directory.
fn forget(directory: &Path) -> Result<(), BenchError> {
    for entry in std::fs::read_dir(directory).map_err(BenchError::system("read", directory))? {
        let entry = entry.map_err(BenchError::system("read", directory))?;
        let kind = entry.file_type().map_err(BenchError::system("look at", directory))?;
        match () {
            () if kind.is_dir() => forget(&entry.path())?,
            () if kind.is_file() => cold::make_cold(&entry.path(), Cold::File)?,
            () => {}
        }
    }
    Ok(())
}

/// Runs every contender in turns, for each workload and size of the database's cache.
///
/// # Errors
/// [`BenchError`]: programs that are not installed, a server that does not start or stop, a load that fails.
pub fn run(plan: &Plan) -> Result<Report, BenchError> {
    plan.check()?;
    plan.kind.engine().check_programs()?;
    let runs = plan.workloads.len() * plan.pools.len() * plan.rounds * plan.contenders.len();
    // A server starts and stops in about four seconds; loading takes some ten times as long as writing as many bytes.
    let each = plan.ramp_up + plan.steady + Duration::from_secs(4);
    let loads = 1 + u32::from(plan.contenders.contains(&Contender::Raw));
    let making = time_for(plan.size, progress::pace(&plan.directory) / 10.0) * loads;
    progress::begin(runs, making + each * runs as u32);
    let ground = Ground::prepare(plan)?;
    let environment = Environment::of(&ground.data)?;
    let _limit = plan.memory.map(Limit::enter).transpose()?;
    let mut notes = Vec::new();
    let mut sections = Vec::new();
    for workload in &plan.workloads {
        for pool in &plan.pools {
            let mut results: Vec<Vec<Run>> = plan.contenders.iter().map(|_| Vec::new()).collect();
            for (round, place) in turns(plan.rounds, plan.contenders.len()) {
                let study = Study { ground: &ground, contender: plan.contenders[place], workload, pool: *pool };
                progress::step(&format!("{workload}, {}", study.contender.name()));
                let run = study.run(&mut notes)?;
                let (name, tps) = (study.contender.name(), run.tps);
                eprintln!("{workload}, round {} of {}: {name}: {tps:.0} tps", round + 1, plan.rounds);
                results[place].push(run);
            }
            sections.push(Section::new(workload, *pool, &plan.contenders, results));
        }
    }
    Ok(Report::new(plan, ground.engine.version()?, sections, notes, environment))
}

/// One run being made.
struct Study<'a> {
    ground: &'a Ground<'a>,
    contender: Contender,
    workload: &'a str,
    pool: u64,
}

impl Study<'_> {
    fn run(&self, notes: &mut Vec<String>) -> Result<Run, BenchError> {
        let named = |error: BenchError| BenchError::Asked(format!("{}: {error}", self.contender.name()));
        self.measured(notes).map_err(named)
    }

    fn measured(&self, notes: &mut Vec<String>) -> Result<Run, BenchError> {
        let (ground, plan) = (self.ground, self.ground.plan);
        let mount = ground.enter(self.contender)?;
        let place = ground.place(self.contender, self.pool);
        let server = server::Server::start(&*ground.engine, &place)?;
        let seen = place.raw.as_deref().filter(|_| plan.raw.is_some()).unwrap_or(&ground.data);
        let mut observer = Observer::start(seen, mount.as_ref().map(Mounted::at), server.id(), EVERY)?;
        let client =
            Client { engine: &*ground.engine, place: &place, workload: self.workload, begin: observer.begin() };
        let warm = if plan.ramp_up.is_zero() { Loaded::default() } else { client.load(plan.ramp_up)? };
        let before = observer.begin().elapsed();
        observer.steady();
        let loaded = client.load(plan.steady)?;
        observer.steady();
        let steady = observer.begin().elapsed() - before;
        let slots = observer.begin().elapsed().as_secs() as usize;
        let observed = observer.finish(steady);
        server.stop()?;
        mount.map_or(Ok(()), Mounted::leave)?;
        if let Some(failure) = observed.failure.clone().filter(|failure| !notes.contains(failure)) {
            notes.push(failure);
        }
        let told: Vec<(f64, f64)> = warm.series.into_iter().chain(loaded.series).collect();
        Ok(Run {
            tps: loaded.tps,
            response: loaded.response,
            histogram: loaded.histogram,
            log_writes_per_second: None,
            points: observed.points(slots, before, steady, |slot| client::tps_of_slot(&told, slot)),
            used: observed.used,
            mount_blocks: observed.mount_blocks,
            kernel_blocks: observed.kernel_blocks,
            pages_checked: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            kind: Kind::Postgresql,
            contenders: Kind::Postgresql.contenders(),
            workloads: vec!["tpcb-like".to_owned()],
            raw: None,
            directory: PathBuf::from("."),
            size: 64 << 20,
            pools: vec![16 << 20],
            clients: 2,
            ramp_up: Duration::ZERO,
            steady: EVERY,
            rounds: 1,
            io_uring: false,
            mount_options: Vec::new(),
            memory: None,
            program: PathBuf::from("dio"),
        }
    }

    #[test]
    fn what_makes_no_study_is_refused() {
        let said = |change: fn(&mut Plan)| {
            let mut plan = plan();
            change(&mut plan);
            plan.check().map_err(|error| error.to_string())
        };
        assert_eq!(said(|_| ()), Ok(()));
        assert!(said(|plan| plan.contenders.push(Contender::Raw)).unwrap_err().contains("cannot use 'raw'"));
        assert!(said(|plan| plan.steady = Duration::from_millis(1500)).unwrap_err().contains("whole seconds"));
        assert!(said(|plan| plan.rounds = 0).unwrap_err().contains("positive"));
        assert!(said(|plan| plan.memory = Some(16 << 20)).unwrap_err().contains("does not fit"));
        assert_eq!(Kind::Mariadb.contenders(), Contender::ALL);
    }
}
