//! Sequential reading and writing over 1, 2, 4, 6, 8 disks, through the page cache, past it, and on the raw devices: throughput, and
//! what it costs the processors.
//!
//! The disks are loop devices, each limited to the same rate in each direction, so that eight of them together are slower than what
//! is below. Cached and direct use one file that is striped over a file system on each; raw uses the devices themselves, each at
//! its own pace. All three send the same requests, as many of them at a time.
//!
//! The reference is the published measurement of sequential reading with JFS on AIX, cached, direct and raw.

mod groups;
mod holder;
pub mod plot;
mod processors;
pub mod report;
mod rig;
mod section;
mod throttle;
mod work;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::environment::Environment;
use crate::measure::Meter;
use crate::progress::{self, time_for};
use crate::study::meters::Meters;
use crate::study::turns;
use processors::Threads;
pub use report::{Report, Row};
use rig::Rig;
use work::Work;

/// How bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// A striped file, through the page cache.
    Cached,
    /// A striped file, past the page cache.
    Direct,
    /// The devices.
    Raw,
}

impl Way {
    /// All of them, in the order of reports.
    pub const ALL: [Way; 3] = [Way::Cached, Way::Direct, Way::Raw];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Way::Cached => "cached",
            Way::Direct => "direct",
            Way::Raw => "raw",
        }
    }
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the disks, nothing cached before.
    Read,
    /// To the disks, over what is there, durable at the end.
    Write,
}

impl Direction {
    /// Both.
    pub const ALL: [Direction; 2] = [Direction::Read, Direction::Write];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Read => "read",
            Direction::Write => "write",
        }
    }
}

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Numbers of disks.
    pub targets: Vec<usize>,
    /// Ways.
    pub ways: Vec<Way>,
    /// Directions.
    pub directions: Vec<Direction>,
    /// Bytes per second of each disk, in each direction.
    pub rate: u64,
    /// Bytes of a stripe, and of each request to one disk.
    pub stripe: u64,
    /// Requests to each disk that are in flight.
    pub depth: usize,
    /// What is not measured at the beginning of a run: a limit that was not used for a while lets more pass.
    pub warm_up: Duration,
    /// What is measured: as many bytes as the limit lets pass in this time.
    pub steady: Duration,
    /// Runs of each way, in turns.
    pub rounds: usize,
    /// Where the images are made.
    pub directory: PathBuf,
}

impl Plan {
    /// Stripes of each disk that pass in this time, at least one.
    fn stripes(&self, time: Duration) -> u64 {
        (((self.rate as f64 * time.as_secs_f64()) / self.stripe as f64).round() as u64).max(1)
    }

    /// Stripes of each disk.
    fn blocks(&self) -> u64 {
        self.stripes(self.warm_up) + self.stripes(self.steady)
    }

    /// Bytes of each disk.
    fn bytes_of_each(&self) -> u64 {
        self.blocks() * self.stripe
    }

    /// Disks that there have to be.
    fn most(&self) -> usize {
        self.targets.iter().copied().max().unwrap_or(0)
    }

    fn check(&self) -> Result<(), BenchError> {
        let refuse = |text: &str| Err(BenchError::Asked(text.to_owned()));
        let nothing = self.targets.is_empty() || self.ways.is_empty() || self.directions.is_empty();
        if nothing || self.targets.contains(&0) || self.most() > 64 {
            return refuse("targets, ways and directions are needed, and at most 64 targets");
        }
        if self.rate < 1 << 20 || self.depth == 0 || self.rounds == 0 || self.steady.is_zero() {
            return refuse("depth, seconds and rounds must be positive, and the rate 1M or more");
        }
        if self.stripe == 0 || !self.stripe.is_multiple_of(4096) || self.stripe > 64 << 20 {
            return refuse("a stripe must be a multiple of 4K, up to 64M");
        }
        Ok(())
    }
}

/// One run.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Run {
    /// Bytes that were measured.
    pub bytes: u64,
    /// Elapsed seconds; of writing, until all of it is durable.
    pub seconds: f64,
    /// CPU seconds of the benchmark, what the kernel does in its threads included.
    pub own_cpu_seconds: f64,
    /// CPU seconds of the kernel's own threads: loop devices, writing back, completions.
    pub kernel_cpu_seconds: f64,
    /// Both, as a part of all processors' time.
    pub busy: f64,
    /// Part of all processors' time that anybody worked in, other programs included.
    pub machine_busy: f64,
    /// Bytes that the devices moved meanwhile, those of metadata included.
    pub device_bytes: u64,
}

impl Run {
    /// Throughput.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }
}

/// One way with one number of disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Case {
    /// Disks.
    pub targets: usize,
    /// Direction.
    pub direction: Direction,
    /// How bytes travel.
    pub way: Way,
}

/// Measures every way with every number of disks.
///
/// # Errors
/// [`BenchError`]: what cannot be set up, which takes root, or I/O that failed.
pub fn run(plan: &Plan) -> Result<Report, BenchError> {
    plan.check()?;
    // What a process pays once, whatever it does: the choice of an engine.
    dio::Io::shared()?;
    let cases = plan.targets.len() * plan.directions.len() * plan.ways.len();
    let runs = cases * plan.rounds;
    let bytes = plan.targets.iter().map(|targets| *targets as u64 * plan.blocks() * plan.stripe).sum();
    let making = time_for(bytes, progress::pace(&plan.directory));
    progress::begin(runs, making + (plan.warm_up + plan.steady) * runs as u32);
    let rig = Rig::prepare(plan)?;
    let environment = Environment::of(&rig.image())?;
    let mut results = Vec::new();
    for &targets in &plan.targets {
        let mut cases: Vec<(Case, Vec<Run>)> = Vec::new();
        for &direction in &plan.directions {
            cases.extend(plan.ways.iter().map(|&way| (Case { targets, direction, way }, Vec::new())));
        }
        let striped = plan.ways.iter().any(|way| *way != Way::Raw);
        if striped {
            rig.make(targets)?;
        }
        rig.throttle(true)?;
        for (_, place) in turns(plan.rounds, cases.len()) {
            let (case, runs) = &mut cases[place];
            progress::step(&format!("{targets} disks, {}, {}", case.way.name(), case.direction.name()));
            runs.push(run_once(plan, &rig, *case)?);
        }
        if striped {
            rig.remove(targets)?;
        }
        results.extend(cases);
    }
    Ok(Report::new(plan, rig.limited_by(), results, environment))
}

/// One run of one way.
fn run_once(plan: &Plan, rig: &Rig<'_>, case: Case) -> Result<Run, BenchError> {
    let Case { targets, direction, way } = case;
    let entered = rig.enter(targets, way, direction)?;
    let mut work = Work::new(&entered.lanes, plan.depth)?;
    let warm = plan.stripes(plan.warm_up);
    work.run(direction, 0..warm)?;
    work.finish(direction)?;

    let names = rig.names(targets);
    let meters = Meters::new(None, Instant::now());
    let (device, threads, before) = (rig::moved(&names), Threads::read(), meters.read());
    let meter = Meter::start();
    work.run(direction, warm..plan.blocks())?;
    work.finish(direction)?;
    let usage = meter.stop();
    let (used, device) = (meters.read().since(&before), rig::moved(&names) - device);
    let kernel = Threads::read().since(&threads);

    drop(work);
    entered.leave()?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Run {
        bytes: (plan.blocks() - warm) * plan.stripe * targets as u64,
        seconds: usage.wall_seconds,
        own_cpu_seconds: usage.cpu_seconds,
        kernel_cpu_seconds: kernel,
        busy: (usage.cpu_seconds + kernel) / (usage.wall_seconds * processors as f64),
        machine_busy: used.user + used.system,
        device_bytes: device,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn plan() -> Plan {
        Plan {
            targets: vec![1, 2],
            ways: Way::ALL.to_vec(),
            directions: Direction::ALL.to_vec(),
            rate: 100 << 20,
            stripe: 1 << 20,
            depth: 4,
            warm_up: Duration::from_millis(500),
            steady: Duration::from_secs(3),
            rounds: 1,
            directory: PathBuf::from("."),
        }
    }

    #[test]
    fn a_run_has_the_bytes_that_the_limit_lets_pass_in_its_time() {
        let plan = plan();
        assert_eq!((plan.stripes(plan.warm_up), plan.blocks(), plan.most()), (50, 350, 2));
        assert_eq!(plan.bytes_of_each(), 350 << 20);
        assert_eq!(plan.stripes(Duration::ZERO), 1);
    }

    #[test]
    fn what_measures_nothing_is_refused() {
        assert!(plan().check().is_ok());
        for wrong in [
            Plan { targets: vec![1, 0], ..plan() },
            Plan { targets: vec![65], ..plan() },
            Plan { ways: vec![], ..plan() },
            Plan { rate: 1000, ..plan() },
            Plan { stripe: 5000, ..plan() },
            Plan { steady: Duration::ZERO, ..plan() },
        ] {
            assert!(matches!(wrong.check(), Err(BenchError::Asked(_))), "{wrong:?}");
        }
    }
}
