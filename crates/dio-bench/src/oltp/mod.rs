//! The I/O of a database without the database: measures the cost of the file lock, on a raw device,
//! on bare files and below mounts.
//!
//! Clients run transactions of several reads and writes of pages that are spread over a few large
//! files. Each transaction ends with a durable write of the log. Pages have locks of their own, as
//! in a database, so the database does not need the file's lock. Every page that is read is
//! compared with what was written last.

mod load;
mod log;
mod page;
mod plan;
pub mod report;
mod storage;

use std::time::Duration;

use crate::BenchError;
use crate::environment::Environment;
use crate::progress::{self, time_for};
use crate::study::memory::Limit;
use crate::study::observe::Observer;
use crate::study::{Contender, ContenderRun, turns};
use load::{Load, verify};
use page::Versions;
pub use plan::{OltpPlan, OpenMode};
pub use report::OltpReport;
use storage::StudyFiles;

/// Number of pages that are read again and compared after each run.
const CHECKED: usize = 2000;

/// Runs every contender in turns.
///
/// # Errors
/// [`BenchError`]: the setup failed, I/O failed, or a page differs from what was written last.
pub fn run(plan: &OltpPlan) -> Result<OltpReport, BenchError> {
    plan.check()?;
    let bytes = plan.files * plan.size * (1 + u64::from(plan.contenders.contains(&Contender::Raw)));
    let runs = plan.rounds * plan.contenders.len();
    // Mounting, checking pages and unmounting take about a second.
    let each = plan.ramp_up + plan.steady + Duration::from_secs(1);
    let making = time_for(bytes, progress::pace(&plan.directory));
    progress::begin(runs, making + each * runs as u32);
    let ground = StudyFiles::prepare(plan, &plan.contenders)?;
    let environment = Environment::of(ground.seen(Contender::Bare))?;
    let pages = plan.files * (plan.size / plan.page as u64);
    // All contenders but the raw device use the same files; the raw device has pages of its own.
    let versions = [Versions::new(pages), Versions::new(pages)];
    let mut notes = Vec::new();
    let mut results: Vec<Vec<ContenderRun>> = plan.contenders.iter().map(|_| Vec::new()).collect();
    let _limit = plan.memory.map(Limit::enter).transpose()?;
    for (round, place) in turns(plan.rounds, plan.contenders.len()) {
        let contender = plan.contenders[place];
        progress::step(contender.name());
        let versions = &versions[usize::from(contender == Contender::Raw)];
        let study = Study { plan, ground: &ground, contender, versions, round, notes: &mut notes };
        results[place].push(study.run()?);
    }
    Ok(OltpReport::new(plan, results, notes, environment))
}

/// One run in progress.
struct Study<'a> {
    plan: &'a OltpPlan,
    ground: &'a StudyFiles<'a>,
    contender: Contender,
    versions: &'a Versions,
    round: usize,
    notes: &'a mut Vec<String>,
}

impl Study<'_> {
    fn run(self) -> Result<ContenderRun, BenchError> {
        let plan = self.plan;
        let entered = self.ground.enter(self.contender)?;
        let seen = self.ground.seen(self.contender);
        let mut observer = Observer::start(seen, entered.at(), std::process::id(), plan.every)?;
        let seed = (self.round * Contender::ALL.len() + self.contender as usize) as u64;
        let load = Load { plan, storage: &entered.storage, versions: self.versions, seed };
        let outcome = load.run(observer.begin(), || observer.steady());
        let observed = observer.finish(plan.steady);
        let named =
            |error: BenchError| BenchError::Asked(format!("{}: {error}", self.contender.name()));
        let outcome = outcome.map_err(named)?;
        entered.leave().map_err(named)?;
        let storage = self.ground.beside(self.contender)?;
        let pages_checked = verify(&storage, self.versions, CHECKED, seed)
            .map_err(|text| named(BenchError::Asked(text)))?;
        self.ground.forget(self.contender)?;
        if let Some(failure) =
            observed.failure.clone().filter(|failure| !self.notes.contains(failure))
        {
            self.notes.push(failure);
        }
        // The requested duration, without the time that reading the meters took.
        let seconds = plan.steady.as_secs_f64();
        let tps = |slot: usize| outcome.slots[slot] as f64 / plan.every.as_secs_f64();
        Ok(ContenderRun {
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
