//! A database's I/O without the database: what its files' lock costs, on a raw device, on bare files and below mounts.
//!
//! Clients run transactions of several reads and writes of pages that are spread over a few large files, each ended by a
//! durable write of the log. Pages have locks of their own, as in a database: the file's lock is in nobody's service. Every page
//! that is read is checked against what was written last.

mod load;
mod log;
mod meters;
mod page;
pub mod plot;
pub mod report;
mod storage;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dio_mount::control::{self, Client};
use dio_mount::stats::Snapshot;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::BenchError;
use crate::environment::Environment;
use crate::locks::kernel::Kernel;
use crate::locks::mounts;
use crate::locks::trace::{Tracer, Watch};
use load::{Load, Outcome, verify};
pub use meters::Used;
use meters::{Meters, Reading};
use page::Versions;
pub use report::Report;
pub use storage::Contender;
use storage::Ground;

/// Pages that are read again and compared after each run.
const CHECKED: usize = 2000;

/// How programs open their files below a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Open {
    /// As programs do that know nothing of direct I/O.
    Plain,
    /// With `O_DIRECT`.
    Direct,
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

/// Response times of transactions in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Response {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// What nine of ten do not exceed.
    pub p90: f64,
    /// What 99 of 100 do not exceed.
    pub p99: f64,
    /// What 999 of 1000 do not exceed.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Response {
    fn of(nanos: &Histogram<u64>) -> Response {
        let part = |part| nanos.value_at_quantile(part) as f64 / 1e9;
        let max = if nanos.is_empty() { 0 } else { nanos.max() };
        Response {
            mean: nanos.mean() / 1e9,
            p50: part(0.5),
            p90: part(0.9),
            p99: part(0.99),
            p999: part(0.999),
            max: max as f64 / 1e9,
        }
    }
}

/// What a moment of a run belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Clients come.
    RampUp,
    /// All are there.
    Steady,
    /// They go.
    RampDown,
}

impl Phase {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Phase::RampUp => "ramp-up",
            Phase::Steady => "steady",
            Phase::RampDown => "ramp-down",
        }
    }
}

/// One slot of a time series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// When it ended, in seconds since the first client came.
    pub seconds: f64,
    /// The phase in which it ended.
    pub phase: Phase,
    /// Transactions per second.
    pub tps: f64,
    /// What the machine did.
    #[serde(flatten)]
    pub used: Used,
}

/// One run of one contender. All figures but the points are of its steady state.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Transactions per second.
    pub tps: f64,
    /// Response times.
    pub response: Response,
    /// Writes of the log per second; several commits share one.
    pub log_writes_per_second: f64,
    /// What the machine did.
    pub used: Used,
    /// Blocks counted by the mount; empty without one.
    pub mount_blocks: Vec<mounts::Row>,
    /// Blocks on the kernel's locks, of this process and the mount's server; `None` where they cannot be seen.
    pub kernel_blocks: Option<Kernel>,
    /// Changed pages that were read again afterwards, without the mount, and compared.
    pub pages_checked: u64,
    /// The time series, ramps included.
    pub points: Vec<Point>,
}

/// Runs every contender in turns.
///
/// # Errors
/// [`BenchError`]: what cannot be set up, I/O that failed, a page that is not what was written last.
pub fn run(plan: &Plan) -> Result<Report, BenchError> {
    plan.check()?;
    let ground = Ground::prepare(plan, &plan.contenders)?;
    let environment = Environment::of(ground.seen(Contender::Bare))?;
    let pages = plan.files * (plan.size / plan.page as u64);
    // Files are the same for all who use them; the raw device has pages of its own.
    let versions = [Versions::new(pages), Versions::new(pages)];
    let mut notes = Vec::new();
    let mut results: Vec<Vec<Run>> = plan.contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..plan.rounds {
        for turn in 0..plan.contenders.len() {
            let place = (turn + round) % plan.contenders.len();
            let contender = plan.contenders[place];
            let versions = &versions[usize::from(contender == Contender::Raw)];
            let study = Study { plan, ground: &ground, contender, versions, round, notes: &mut notes };
            results[place].push(study.run()?);
        }
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

/// What is asked at either end of the steady state.
struct Ends {
    meters: Meters,
    client: Option<Client>,
    tracer: Option<Tracer>,
    readings: Vec<Reading>,
    snapshots: Vec<Snapshot>,
    kernel: Option<Kernel>,
    failure: Option<String>,
}

impl Ends {
    /// The beginning, then the end.
    fn next(&mut self) {
        match self.client.as_mut().map(Client::snapshot) {
            Some(Ok(snapshot)) => self.snapshots.push(snapshot),
            Some(Err(error)) => self.failure = Some(error.to_string()),
            None => {}
        }
        self.readings.push(self.meters.read());
        if self.readings.len() == 1 {
            match Tracer::start(Watch::System) {
                Ok(tracer) => self.tracer = Some(tracer),
                Err(error) => {
                    let why = dio::file::words_of(&error);
                    self.failure = Some(format!("blocks on the kernel's locks are not seen: {why}"));
                }
            }
        } else if let Some(tracer) = self.tracer.take() {
            let server = self.client.as_ref().map(|client| client.server().as_raw_nonzero().get().unsigned_abs());
            let processes: Vec<u32> = std::iter::once(std::process::id()).chain(server).collect();
            self.kernel = Some(tracer.finish(Some(&processes), None));
        }
    }
}

impl Study<'_> {
    fn run(self) -> Result<Run, BenchError> {
        let entered = self.ground.enter(self.contender)?;
        let client = match &entered.at {
            Some(at) => Some(control::connect(at).map_err(|error| BenchError::Asked(error.to_string()))?),
            None => None,
        };
        let seen = self.ground.seen(self.contender);
        let device = dio::probe::probe(seen).ok().and_then(|report| Some(report.device.ok()?.name));
        let begin = Instant::now();
        let meters = Meters::new(device.as_deref(), begin);
        let series = meters.clone().follow(self.plan.every).map_err(BenchError::system("start a thread for", seen))?;
        let mut ends = Ends {
            meters,
            client,
            tracer: None,
            readings: Vec::new(),
            snapshots: Vec::new(),
            kernel: None,
            failure: None,
        };
        let seed = (self.round * Contender::ALL.len() + self.contender as usize) as u64;
        let load = Load { plan: self.plan, storage: &entered.storage, versions: self.versions, seed };
        let outcome = load.run(begin, || ends.next());
        let readings = series.finish();
        let named = |error: BenchError| BenchError::Asked(format!("{}: {error}", self.contender.name()));
        let outcome = outcome.map_err(named)?;
        entered.leave().map_err(named)?;
        let storage = self.ground.beside(self.contender)?;
        let pages_checked =
            verify(&storage, self.versions, CHECKED, seed).map_err(|text| named(BenchError::Asked(text)))?;
        if let Some(failure) = ends.failure.take().filter(|failure| !self.notes.contains(failure)) {
            self.notes.push(failure);
        }
        Ok(told(self.plan, &outcome, &readings, ends, pages_checked))
    }
}

/// A run in figures.
fn told(plan: &Plan, outcome: &Outcome, readings: &[Reading], ends: Ends, pages_checked: u64) -> Run {
    // What was asked for, not what it took to read the meters.
    let seconds = plan.steady.as_secs_f64();
    let change = match &ends.snapshots[..] {
        [first, last] => mounts::rows(&last.since(Some(first)), seconds),
        _ => Vec::new(),
    };
    let used = match &ends.readings[..] {
        [first, last] => last.since(first),
        _ => Used::default(),
    };
    let steady = plan.ramp_up.as_secs_f64()..(plan.ramp_up + plan.steady).as_secs_f64() + 1e-3;
    let every = plan.every.as_secs_f64();
    let point = |(slot, pair): (&load::Slot, &[Reading])| {
        let at = pair[1].at();
        let phase = match at {
            at if at < steady.start => Phase::RampUp,
            at if at < steady.end + every / 2.0 => Phase::Steady,
            _ => Phase::RampDown,
        };
        let count = slot.transactions.load(std::sync::atomic::Ordering::Relaxed);
        Point { seconds: at, phase, tps: count as f64 / every, used: pair[1].since(&pair[0]) }
    };
    Run {
        tps: outcome.transactions as f64 / seconds,
        response: outcome.response,
        log_writes_per_second: outcome.log_writes as f64 / seconds,
        used,
        mount_blocks: change,
        kernel_blocks: ends.kernel,
        pages_checked,
        points: outcome.slots.iter().zip(readings.windows(2)).map(point).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_times_are_in_seconds() {
        let mut nanos = Histogram::<u64>::new(3).unwrap();
        (1..=1000).for_each(|n| nanos.record(n * 1_000_000).unwrap());
        let response = Response::of(&nanos);
        let near =
            |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.002, "{found} for {expected}");
        near(response.mean, 0.5005);
        near(response.p50, 0.5);
        near(response.p99, 0.99);
        near(response.max, 1.0);
        assert_eq!(Response::of(&Histogram::new(3).unwrap()), Response::default());
    }
}
