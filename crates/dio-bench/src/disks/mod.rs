//! Sequential reading and writing over 1, 2, 4 and 8 disks, through the page cache, past it, and on
//! the raw devices: the throughput and the processor time.
//!
//! The disks are loop devices. Each is limited to the same rate in each direction, so that eight of
//! them together are slower than the storage below. The cached and direct runs use one file that is
//! striped over a file system on each disk. The raw runs use the devices themselves, each at its
//! own pace. All three send the same requests with the same queue depth.
//!
//! The reference is the published measurement of sequential reading with JFS on AIX, cached, direct
//! and raw.

mod groups;
mod holder;
mod plan;
pub mod plot;
mod processors;
pub mod report;
mod rig;
mod section;
mod throttle;
mod work;

use std::time::Instant;

use crate::BenchError;
use crate::environment::Environment;
use crate::measure::RunMeter;
use crate::progress::{self, time_for};
use crate::study::meters::Meters;
use crate::study::turns;
pub use plan::{AccessPath, Direction, DisksPlan};
use processors::Threads;
pub use report::{DisksCase, DisksReport, DisksRow, DisksRun};
use rig::Rig;
use work::LaneRequests;

/// Measures every way with every number of disks.
///
/// # Errors
/// [`BenchError`]: the setup failed (it needs root), or I/O failed.
pub fn run(plan: &DisksPlan) -> Result<DisksReport, BenchError> {
    plan.check()?;
    // The choice of an engine costs each process some time once, so it is made before the runs.
    dio::Io::shared()?;
    let cases = plan.targets.len() * plan.directions.len() * plan.ways.len();
    let runs = cases * plan.rounds;
    let bytes =
        plan.targets.iter().map(|targets| *targets as u64 * plan.blocks() * plan.stripe).sum();
    let making = time_for(bytes, progress::pace(&plan.directory));
    progress::begin(runs, making + (plan.warm_up + plan.steady) * runs as u32);
    let rig = Rig::prepare(plan)?;
    let environment = Environment::of(&rig.image())?;
    let mut results = Vec::new();
    for &targets in &plan.targets {
        let mut cases: Vec<(DisksCase, Vec<DisksRun>)> = Vec::new();
        for &direction in &plan.directions {
            cases.extend(
                plan.ways.iter().map(|&way| (DisksCase { targets, direction, way }, Vec::new())),
            );
        }
        let striped = plan.ways.iter().any(|way| *way != AccessPath::Raw);
        if striped {
            rig.make(targets)?;
        }
        rig.throttle(true)?;
        for (_, place) in turns(plan.rounds, cases.len()) {
            let (case, runs) = &mut cases[place];
            progress::step(&format!(
                "{targets} disks, {}, {}",
                case.way.name(),
                case.direction.name()
            ));
            runs.push(run_once(plan, &rig, *case)?);
        }
        if striped {
            rig.remove(targets)?;
        }
        results.extend(cases);
    }
    Ok(DisksReport::new(plan, rig.limited_by(), results, environment))
}

/// Makes one run of one way.
fn run_once(plan: &DisksPlan, rig: &Rig<'_>, case: DisksCase) -> Result<DisksRun, BenchError> {
    let DisksCase { targets, direction, way } = case;
    let entered = rig.enter(targets, way, direction)?;
    let mut work = LaneRequests::new(&entered.lanes, plan.depth)?;
    let warm = plan.stripes(plan.warm_up);
    work.run(direction, 0..warm)?;
    work.finish(direction)?;

    let names = rig.names(targets);
    let meters = Meters::new(None, Instant::now());
    let (device, threads, before) = (rig::moved(&names), Threads::read(), meters.read());
    let meter = RunMeter::start();
    work.run(direction, warm..plan.blocks())?;
    work.finish(direction)?;
    let usage = meter.stop();
    let (used, device) = (meters.read().since(&before), rig::moved(&names) - device);
    let kernel = Threads::read().since(&threads);

    drop(work);
    entered.leave()?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(DisksRun {
        bytes: (plan.blocks() - warm) * plan.stripe * targets as u64,
        seconds: usage.wall_seconds,
        own_cpu_seconds: usage.cpu_seconds,
        kernel_cpu_seconds: kernel,
        busy: (usage.cpu_seconds + kernel) / (usage.wall_seconds * processors as f64),
        machine_busy: used.user + used.system,
        device_bytes: device,
    })
}
