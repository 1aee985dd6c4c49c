//! Measures MariaDB or PostgreSQL (Debian's packages) on different kinds of storage, in a private
//! directory and with the load generators that their developers use.
//!
//! The data are created once, on the file system itself. Each run starts the server on the storage
//! of one contender: through a mount, through the page cache, or on a block device. None of the
//! data is cached when a run starts. A first load, which is not measured, warms the server up.

mod client;
mod engine;
mod log;
mod mariadb;
mod plan;
mod postgres;
mod report;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::BenchError;
use crate::cold::make_tree_cold;
use crate::data::Scratch;
use crate::environment::Environment;
use crate::progress::{self, time_for};
use crate::study::device::{Loop, check_device};
use crate::study::memory::Limit;
use crate::study::mount::{Mounter, StudyMount};
use crate::study::observe::Observer;
use crate::study::{Contender, ContenderRun, run_for_stdout, turns};
use client::{LoadGenerator, REPORT_INTERVAL};
use engine::{Engine, Loaded, ServerConfig};
#[cfg(test)]
pub(crate) use log::tests as tests_of_log;
pub use log::{LogPlace, LogPlan, LogReport, LogRow, METHODS as LOG_METHODS, run_log};
pub use plan::{DatabasePlan, DatabaseSystem};
pub use report::{DatabaseReport, Section};

impl DatabaseSystem {
    /// The implementation of [`Engine`] for this database.
    fn engine(self) -> Box<dyn Engine> {
        match self {
            DatabaseSystem::Mariadb => Box::new(mariadb::Mariadb),
            DatabaseSystem::Postgresql => Box::new(postgres::Postgres),
        }
    }
}

/// The directories and devices of a study.
struct StudyFiles<'a> {
    plan: &'a DatabasePlan,
    engine: Box<dyn Engine>,
    /// The data directory; `at` is its mount point.
    data: PathBuf,
    at: PathBuf,
    /// The raw device, the directory of everything that is not on it, and its loop device if it has
    /// one.
    raw: Option<(PathBuf, PathBuf, Option<Loop>)>,
    scratch: Scratch,
}

impl<'a> StudyFiles<'a> {
    fn prepare(plan: &'a DatabasePlan) -> Result<StudyFiles<'a>, BenchError> {
        let engine = plan.kind.engine();
        let scratch = Scratch::new(&plan.directory)?;
        let (data, at) = (scratch.path("data"), scratch.path("at"));
        for directory in [&data, &at] {
            std::fs::create_dir(directory).map_err(BenchError::system("create", directory))?;
        }
        engine.own(&scratch.path(""))?;
        engine.own(&data)?;
        let mut ground = StudyFiles { plan, engine, data, at, raw: None, scratch };
        let place = ground.place(Contender::Bare, plan.pools[0]);
        ground.engine.make(&place, plan.size)?;
        if plan.contenders.contains(&Contender::Raw) {
            ground.prepare_raw()?;
        }
        Ok(ground)
    }

    /// Moves the table space to a device; everything else is copied to a directory of its own.
    fn prepare_raw(&mut self) -> Result<(), BenchError> {
        let aside = self.scratch.path("beside");
        let space = self.data.join(mariadb::SPACE);
        let bytes = std::fs::metadata(&space).map_err(BenchError::system("look at", &space))?.len();
        let copy = |from: &Path, to: &Path| {
            run_for_stdout(
                Command::new(&self.plan.program).args(["cp", "-a", "-T"]).args([from, to]),
            )
        };
        copy(&self.data, &aside)?;
        let moved = aside.join(mariadb::SPACE);
        let (device, ours) = match &self.plan.raw {
            Some(device) => {
                check_device(device, bytes)?;
                let to = format!("of={}", device.display());
                let from = format!("if={}", moved.display());
                let dd = ["dd", &from, &to, "bs=4M", "conv=fsync,notrunc", "status=none"];
                run_for_stdout(Command::new(&self.plan.program).args(dd))?;
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

    /// The settings and directories that a contender's server is started with.
    fn place(&self, contender: Contender, pool: u64) -> ServerConfig {
        let (data, raw) = match (&self.raw, contender) {
            (Some((device, aside, _)), Contender::Raw) => (aside.clone(), Some(device.clone())),
            _ if contender.is_mount() => (self.at.clone(), None),
            _ => (self.data.clone(), None),
        };
        let buffered = contender == Contender::Buffered;
        let (run, clients) = (self.scratch.path(""), self.plan.clients);
        ServerConfig { data, raw, run, pool, buffered, clients, settings: Vec::new() }
    }

    /// Makes the data cold, then mounts them if the contender is a mount.
    fn enter(&self, contender: Contender) -> Result<Option<StudyMount>, BenchError> {
        make_tree_cold(&self.data)?;
        if let Some((_, beside, _)) = &self.raw {
            make_tree_cold(beside)?;
        }
        let plan = self.plan;
        let mut options = plan.mount_options.clone();
        // As root, the server may run as another user.
        if rustix::process::geteuid().is_root() {
            options.push("allow_other".to_owned());
        }
        let mounter =
            Mounter { program: &plan.program, io_uring: plan.io_uring, options: &options };
        mounter.mount(contender, &self.data, &self.at)
    }
}

/// Runs all contenders in turns, for each workload and each size of the database's cache.
///
/// # Errors
/// [`BenchError`]: a program is not installed, a server does not start or stop, or a load fails.
pub fn run(plan: &DatabasePlan) -> Result<DatabaseReport, BenchError> {
    plan.check()?;
    plan.kind.engine().check_programs()?;
    let runs = plan.workloads.len() * plan.pools.len() * plan.rounds * plan.contenders.len();
    // A server starts and stops in about four seconds. Loading data takes some ten times as long as
    // writing the same number of bytes.
    let each = plan.ramp_up + plan.steady + Duration::from_secs(4);
    let loads = 1 + u32::from(plan.contenders.contains(&Contender::Raw));
    let making = time_for(plan.size, progress::pace(&plan.directory) / 10.0) * loads;
    progress::begin(runs, making + each * runs as u32);
    let ground = StudyFiles::prepare(plan)?;
    let environment = Environment::of(&ground.data)?;
    let _limit = plan.memory.map(Limit::enter).transpose()?;
    let mut notes = Vec::new();
    let mut sections = Vec::new();
    for workload in &plan.workloads {
        for pool in &plan.pools {
            let mut results: Vec<Vec<ContenderRun>> =
                plan.contenders.iter().map(|_| Vec::new()).collect();
            for (round, place) in turns(plan.rounds, plan.contenders.len()) {
                let study = Study {
                    ground: &ground,
                    contender: plan.contenders[place],
                    workload,
                    pool: *pool,
                };
                progress::step(&format!("{workload}, {}", study.contender.name()));
                let run = study.run(&mut notes)?;
                let (name, tps) = (study.contender.name(), run.tps);
                eprintln!(
                    "{workload}, round {} of {}: {name}: {tps:.0} tps",
                    round + 1,
                    plan.rounds
                );
                results[place].push(run);
            }
            sections.push(Section::new(workload, *pool, &plan.contenders, results));
        }
    }
    Ok(DatabaseReport::new(plan, ground.engine.version()?, sections, notes, environment))
}

/// One run in progress.
struct Study<'a> {
    ground: &'a StudyFiles<'a>,
    contender: Contender,
    workload: &'a str,
    pool: u64,
}

impl Study<'_> {
    fn run(&self, notes: &mut Vec<String>) -> Result<ContenderRun, BenchError> {
        let named =
            |error: BenchError| BenchError::Asked(format!("{}: {error}", self.contender.name()));
        self.measured(notes).map_err(named)
    }

    fn measured(&self, notes: &mut Vec<String>) -> Result<ContenderRun, BenchError> {
        let (ground, plan) = (self.ground, self.ground.plan);
        let mount = ground.enter(self.contender)?;
        let place = ground.place(self.contender, self.pool);
        let server = server::Server::start(&*ground.engine, &place)?;
        let seen = place.raw.as_deref().filter(|_| plan.raw.is_some()).unwrap_or(&ground.data);
        let mut observer = Observer::start(
            seen,
            mount.as_ref().map(StudyMount::at),
            server.id(),
            REPORT_INTERVAL,
        )?;
        let client = LoadGenerator {
            engine: &*ground.engine,
            place: &place,
            workload: self.workload,
            begin: observer.begin(),
        };
        let warm =
            if plan.ramp_up.is_zero() { Loaded::default() } else { client.load(plan.ramp_up)? };
        let before = observer.begin().elapsed();
        observer.steady();
        let loaded = client.load(plan.steady)?;
        observer.steady();
        let steady = observer.begin().elapsed() - before;
        let slots = observer.begin().elapsed().as_secs() as usize;
        let observed = observer.finish(steady);
        server.stop()?;
        mount.map_or(Ok(()), StudyMount::leave)?;
        if let Some(failure) = observed.failure.clone().filter(|failure| !notes.contains(failure)) {
            notes.push(failure);
        }
        let told: Vec<(f64, f64)> = warm.series.into_iter().chain(loaded.series).collect();
        Ok(ContenderRun {
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
