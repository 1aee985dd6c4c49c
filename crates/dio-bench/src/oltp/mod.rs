//! A database's I/O without the database: what its files' lock costs, on a raw device, on bare files and below mounts.
//!
//! Clients run transactions of several reads and writes of pages that are spread over a few large files, each ended by a
//! durable write of the log. Pages have locks of their own, as in a database: the file's lock is in nobody's service. Every page
//! that is read is checked against what was written last.

mod load;
mod log;
mod page;
pub mod report;
mod storage;

use std::path::PathBuf;
use std::time::Duration;

use crate::BenchError;
use crate::environment::Environment;
use crate::progress::{self, time_for};
use crate::study::memory::Limit;
use crate::study::observe::Observer;
use crate::study::{Contender, Run, turns};
use load::{Load, verify};
use page::Versions;
pub use report::Report;
use storage::Ground;

/// Pages that are read again and compared after each run.
const CHECKED: usize = 2000;

/// How programs open their files below a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// As programs do that know nothing of direct I/O.
    Plain,
    /// With `O_DIRECT`.
    Direct,
}

impl Open {
    /// The name in results.
    fn name(self) -> &'static str {
        match self {
            Open::Plain => "plain",
            Open::Direct => "direct",
        }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The ways to store the pages.
    pub contenders: Vec<Contender>,
    /// A block device whose contents are overwritten, instead of a loop device of ours.
    pub raw: Option<PathBuf>,
    /// Where files are made.
    pub directory: PathBuf,
    /// Files of pages.
    pub files: u64,
    /// Bytes of each.
    pub size: u64,
    /// Bytes of a page.
    pub page: usize,
    /// Clients, a thread each.
    pub clients: usize,
    /// Pages that a transaction reads.
    pub reads: usize,
    /// Those of them that it changes and writes.
    pub writes: usize,
    /// While the clients come, one after the other.
    pub ramp_up: Duration,
    /// What is measured.
    pub steady: Duration,
    /// While they go.
    pub ramp_down: Duration,
    /// Length of a slot of the time series.
    pub every: Duration,
    /// Runs of each contender, in turns.
    pub rounds: usize,
    /// How files below mounts are opened.
    pub open: Open,
    /// Mounts whose writes need not take turns get their requests by io_uring.
    pub io_uring: bool,
    /// More options of all mounts.
    pub mount_options: Vec<String>,
    /// Bytes of memory that the study and its mounts may use, page cache included.
    pub memory: Option<u64>,
    /// The program that mounts: `dio`.
    pub program: PathBuf,
}

impl Plan {
    /// From the first client to the last.
    fn total(&self) -> Duration {
        self.ramp_up + self.steady + self.ramp_down
    }

    fn check(&self) -> Result<(), BenchError> {
        let fits = self.page >= page::LEAST
            && self.page.is_power_of_two()
            && self.page as u64 <= self.size
            && self.size.is_multiple_of(log::BLOCK.max(self.page) as u64);
        let positive = self.files > 0 && self.clients > 0 && self.reads.max(self.writes) > 0 && self.rounds > 0;
        if !fits {
            let text = "a page must be a power of two of at least 512 bytes, a file a multiple of it and of 4 KiB";
            return Err(BenchError::Asked(text.to_owned()));
        }
        if !positive || self.steady.is_zero() || self.every.is_zero() || self.contenders.is_empty() {
            let text =
                "contenders, files, clients, pages of a transaction, rounds and the steady state must be positive";
            return Err(BenchError::Asked(text.to_owned()));
        }
        Ok(())
    }
}

/// Runs every contender in turns.
///
/// # Errors
/// [`BenchError`]: what cannot be set up, I/O that failed, a page that is not what was written last.
pub fn run(plan: &Plan) -> Result<Report, BenchError> {
    plan.check()?;
    let bytes = plan.files * plan.size * (1 + u64::from(plan.contenders.contains(&Contender::Raw)));
    let runs = plan.rounds * plan.contenders.len();
    // Mounting, looking at pages and taking down takes about a second.
    let each = plan.ramp_up + plan.steady + Duration::from_secs(1);
    let making = time_for(bytes, progress::pace(&plan.directory));
    progress::begin(runs, making + each * runs as u32);
    let ground = Ground::prepare(plan, &plan.contenders)?;
    let environment = Environment::of(ground.seen(Contender::Bare))?;
    let pages = plan.files * (plan.size / plan.page as u64);
    // Files are the same for all who use them; the raw device has pages of its own.
    let versions = [Versions::new(pages), Versions::new(pages)];
    let mut notes = Vec::new();
    let mut results: Vec<Vec<Run>> = plan.contenders.iter().map(|_| Vec::new()).collect();
    let _limit = plan.memory.map(Limit::enter).transpose()?;
    for (round, place) in turns(plan.rounds, plan.contenders.len()) {
        let contender = plan.contenders[place];
        progress::step(contender.name());
        let versions = &versions[usize::from(contender == Contender::Raw)];
        let study = Study { plan, ground: &ground, contender, versions, round, notes: &mut notes };
        results[place].push(study.run()?);
    }
    Ok(Report::new(plan, results, notes, environment))
}

/// One run being made.
struct Study<'a> {
    plan: &'a Plan,
    ground: &'a Ground<'a>,
    contender: Contender,
    versions: &'a Versions,
    round: usize,
    notes: &'a mut Vec<String>,
}

impl Study<'_> {
    fn run(self) -> Result<Run, BenchError> {
        let plan = self.plan;
        let entered = self.ground.enter(self.contender)?;
        let seen = self.ground.seen(self.contender);
        let mut observer = Observer::start(seen, entered.at(), std::process::id(), plan.every)?;
        let seed = (self.round * Contender::ALL.len() + self.contender as usize) as u64;
        let load = Load { plan, storage: &entered.storage, versions: self.versions, seed };
        let outcome = load.run(observer.begin(), || observer.steady());
        let observed = observer.finish(plan.steady);
        let named = |error: BenchError| BenchError::Asked(format!("{}: {error}", self.contender.name()));
        let outcome = outcome.map_err(named)?;
        entered.leave().map_err(named)?;
        let storage = self.ground.beside(self.contender)?;
        let pages_checked =
            verify(&storage, self.versions, CHECKED, seed).map_err(|text| named(BenchError::Asked(text)))?;
        self.ground.forget(self.contender)?;
        if let Some(failure) = observed.failure.clone().filter(|failure| !self.notes.contains(failure)) {
            self.notes.push(failure);
        }
        // What was asked for, not what it took to read the meters.
        let seconds = plan.steady.as_secs_f64();
        let tps = |slot: usize| outcome.slots[slot] as f64 / plan.every.as_secs_f64();
        Ok(Run {
            tps: outcome.transactions as f64 / seconds,
            response: outcome.response,
            log_writes_per_second: Some(outcome.log_writes as f64 / seconds),
            points: observed.points(outcome.slots.len(), plan.ramp_up, plan.steady, tps),
            histogram: outcome.histogram,
            used: observed.used,
            mount_blocks: observed.mount_blocks,
            kernel_blocks: observed.kernel_blocks,
            pages_checked: Some(pages_checked),
        })
    }
}
