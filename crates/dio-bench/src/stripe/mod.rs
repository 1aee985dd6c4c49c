//! Measures striped files. A request over several stripes that submits all of them and waits once
//! is compared with a loop that waits for each stripe, and with asynchronous I/O with as many bytes
//! in flight, which shows the speed of the storage.
//!
//! The reference is Lustre's change of the same kind (LU-13798): 64 MiB requests of 1 MiB stripes
//! over 8 targets.

mod copy;
mod disks;
mod model;
mod modelled;
mod network;
mod plan;
pub mod plot;
pub(crate) mod report;
mod section;
mod ways;

use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::BenchError;
use crate::data::Scratch;
use crate::environment::Environment;
use crate::progress;
use crate::stats::Summary;
use crate::study::turns;
pub use disks::{Service, serve as serve_disks};
pub use model::Timing;
use modelled::Modelled;
use network::Network;
pub use network::serve as serve_files;
use plan::Submission;
pub use plan::{Direction, Rig, StripeBenchPlan};
use report::MIB;
pub use report::{DiskToDisk, MeasuredRig, Samples, Skipped, StripeBenchReport, StripeRow};
use ways::{Depth, Memory, StripedSubject};

/// Measures every rig.
///
/// # Errors
/// [`BenchError`]. A rig that is not available here is no error: the report says so.
pub fn run(plan: &StripeBenchPlan) -> Result<StripeBenchReport, BenchError> {
    plan.check()?;
    let environment = {
        let scratch = Scratch::new(&plan.directory)?;
        Environment::of(&scratch.random_file("data", 1 << 20)?)?
    };
    let mut report = StripeBenchReport {
        rows: Vec::new(),
        copy: None,
        grounds: Vec::new(),
        timing: plan.timing,
        skipped: Vec::new(),
        runs: plan.runs,
        moved_bytes: plan.moved,
        environment,
    };
    let rigs: Vec<Rig> =
        plan.rigs.iter().copied().filter(|rig| refusal(plan, *rig).is_none()).collect();
    let (steps, time) = plan.expected(&rigs, progress::pace(&plan.directory));
    progress::begin(steps, time);
    let mut memory = Memory::new(plan.file_bytes())?;
    for rig in &plan.rigs {
        match refusal(plan, *rig) {
            Some(reason) => report.skipped.push(Skipped { rig: *rig, reason }),
            None => measure(plan, *rig, &mut memory, &mut report)?,
        }
    }
    Ok(report)
}

/// The reason why a rig is not available; `None` if it is.
fn refusal(plan: &StripeBenchPlan, rig: Rig) -> Option<String> {
    if let Some((_, reason)) = plan.refused.iter().find(|(refused, _)| *refused == rig) {
        return Some(reason.clone());
    }
    match rig {
        Rig::Real => None,
        _ if !geteuid().is_root() => Some("only root can set it up".to_owned()),
        _ if !Path::new("/dev/fuse").exists() => Some("there is no /dev/fuse".to_owned()),
        Rig::Modelled if !Path::new("/dev/loop-control").exists() => {
            Some("there are no loop devices".to_owned())
        }
        Rig::Modelled => None,
        Rig::Network => network::missing(),
    }
}

/// Sets up a rig, measures on it, and takes it down.
fn measure(
    plan: &StripeBenchPlan,
    rig: Rig,
    memory: &mut Memory,
    report: &mut StripeBenchReport,
) -> Result<(), BenchError> {
    let targets = plan.most_targets();
    match rig {
        Rig::Modelled => {
            let disks = if plan.copy > 0 { targets.max(2) } else { targets };
            let modelled = Modelled::set_up(plan, disks)?;
            let about = report::about_modelled(&plan.timing, plan.image_bytes());
            sweep(plan, rig, &modelled.directories, memory, report)?;
            if plan.copy > 0 {
                let [from, to] = [0, 1].map(|disk| &modelled.directories[disk]);
                report.copy = Some(copy::measure(plan, from, to)?);
            }
            report.grounds.push(MeasuredRig { rig, about });
        }
        Rig::Real => {
            let scratch = Scratch::new(&plan.directory)?;
            let directories: Vec<PathBuf> =
                (0..targets).map(|target| scratch.path(&target.to_string())).collect();
            directories.iter().try_for_each(|directory| modelled::make(directory))?;
            sweep(plan, rig, &directories, memory, report)?;
            report
                .grounds
                .push(MeasuredRig { rig, about: report::about_real(&report.environment) });
        }
        Rig::Network => {
            let network = Network::set_up(plan, targets)?;
            sweep(plan, rig, &network.directories, memory, report)?;
            report.grounds.push(MeasuredRig { rig, about: report::ABOUT_NETWORK.to_owned() });
        }
    }
    Ok(())
}

/// Measures every layout of a rig, with a file for each.
fn sweep(
    plan: &StripeBenchPlan,
    rig: Rig,
    directories: &[PathBuf],
    memory: &mut Memory,
    report: &mut StripeBenchReport,
) -> Result<(), BenchError> {
    for (stripe, count) in plan.layouts(rig) {
        let path = directories[0].join(format!("striped-{stripe}-{count}"));
        let directories = &directories[..count];
        let mut subject =
            StripedSubject::make(path, directories, stripe, plan.file_bytes(), memory)?;
        for direction in &plan.directions {
            // Asynchronous writes leave other data in the file than the comparison after reading
            // expects.
            subject.fill()?;
            for transfer in &plan.transfers {
                let rates = rates(plan, &mut subject, *direction, *transfer)?;
                let depth = subject.depth(*transfer)?;
                report.rows.push(row(rig, (stripe, count), *transfer, (*direction, depth), rates));
            }
        }
        subject.remove()?;
    }
    Ok(())
}

/// MiB per second of each run of each way; the ways take turns.
fn rates(
    plan: &StripeBenchPlan,
    subject: &mut StripedSubject<'_>,
    direction: Direction,
    transfer: u64,
) -> Result<[Vec<f64>; 3], BenchError> {
    let mut rates: [Vec<f64>; 3] = Default::default();
    for (_, place) in turns(plan.runs, Submission::ALL.len()) {
        let (way, bytes) = (Submission::ALL[place].name(), dio_common::units::size(transfer));
        progress::step(&format!("requests of {bytes}, {}, {way}", direction.name()));
        let rate =
            subject.run(Submission::ALL[place], direction, transfer, plan.moved(transfer))?;
        rates[place].push(rate / MIB);
    }
    Ok(rates)
}

fn row(
    rig: Rig,
    (stripe_bytes, stripes): (u64, usize),
    transfer_bytes: u64,
    (direction, depth): (Direction, Depth),
    rates: [Vec<f64>; 3],
) -> StripeRow {
    let by =
        |other: &[f64]| Summary::of(rates[1].iter().zip(other).map(|(all, other)| all / other));
    let (gain, of_async) = (by(&rates[0]), by(&rates[2]));
    let [wait_each_mib_s, submit_all_mib_s, async_mib_s] =
        [0, 1, 2].map(|way| Summary::of(rates[way].iter().copied()).median);
    let [wait_each, submit_all, asynchronous] = rates;
    StripeRow {
        rig,
        stripe_bytes,
        transfer_bytes,
        stripes,
        direction,
        wait_each_mib_s,
        submit_all_mib_s,
        async_mib_s,
        async_depth: depth.had,
        async_depth_wanted: depth.wanted,
        samples_mib_s: Samples { wait_each, submit_all, asynchronous },
        gain,
        of_async,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::section::Benchmark;

    pub(crate) fn plan(directory: &Path) -> StripeBenchPlan {
        StripeBenchPlan {
            rigs: vec![Rig::Real],
            refused: Vec::new(),
            transfers: vec![1 << 20, 4 << 20],
            counts: vec![1, 3],
            stripe: 1 << 20,
            real_stripes: vec![4096, 1 << 16],
            directions: vec![Direction::Write, Direction::Read],
            moved: 4 << 20,
            runs: 2,
            timing: Timing {
                service_seconds: 0.001,
                read_bytes_per_second: 1 << 30,
                write_bytes_per_second: 1 << 30,
            },
            copy: 0,
            directory: directory.to_owned(),
            program: "dio".into(),
        }
    }

    #[test]
    fn the_real_disk_is_measured_in_all_ways_and_nothing_is_left() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let report = run(&plan(directory.path())).unwrap();
        assert_eq!(report.rows.len(), 2 * 2 * 2);
        for row in &report.rows {
            assert_eq!((row.rig, row.stripes), (Rig::Real, 3));
            let rates = [row.wait_each_mib_s, row.submit_all_mib_s, row.async_mib_s];
            assert!(rates.iter().all(|rate| *rate > 0.0 && rate.is_finite()), "{row:?}");
            assert!(row.gain.min > 0.0 && row.gain.min <= row.gain.max, "{row:?}");
            // All bytes of a request are in flight, however small the stripes are, unless the
            // engine has a lower limit.
            assert_eq!(row.async_depth_wanted * row.stripe_bytes, row.transfer_bytes);
            let ring = dio::Io::shared().unwrap().engine_name() == "uring";
            assert!(
                row.async_depth == row.async_depth_wanted || !ring && row.async_depth == 64,
                "{row:?}"
            );
            assert_eq!(
                Summary::of(row.samples_mib_s.submit_all.iter().copied()).median,
                row.submit_all_mib_s
            );
            assert_eq!(row.samples_mib_s.asynchronous.len(), 2);
        }
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none());
    }

    #[test]
    fn more_than_the_engine_takes_is_told_in_its_row() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut memory = Memory::new(4096).unwrap();
        let path = directory.path().join("striped");
        let targets = [directory.path().join("target")];
        std::fs::create_dir(&targets[0]).unwrap();
        let mut report = run(&plan(directory.path())).unwrap();
        let subject = StripedSubject::make(path, &targets, 4096, 4096, &mut memory).unwrap();
        let depth = subject.depth(256 << 20).unwrap();
        assert_eq!(depth.wanted, 65_536);
        assert!(depth.had < depth.wanted, "{depth:?}");
        subject.remove().unwrap();
        report.rows[0].async_depth = depth.had;
        report.rows[0].async_depth_wanted = depth.wanted;
        let text = report.text();
        assert!(text.contains(&format!(" {} of 65536 ", depth.had)), "{text}");
    }

    #[test]
    fn a_rig_that_cannot_be_had_is_told() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let refused = vec![(Rig::Network, "no cable".to_owned())];
        let report =
            run(&StripeBenchPlan { rigs: vec![Rig::Network], refused, ..plan(directory.path()) })
                .unwrap();
        assert!(report.rows.is_empty());
        assert_eq!(report.skipped[0].reason, "no cable");
        assert!(report.text().contains("network: skipped: no cable"), "{}", report.text());
    }

    #[test]
    fn what_measures_nothing_is_refused() {
        let here = Path::new(".");
        let wrong = [
            StripeBenchPlan { counts: vec![0], ..plan(here) },
            StripeBenchPlan { transfers: vec![3 << 20], ..plan(here) },
            StripeBenchPlan { runs: 0, ..plan(here) },
        ];
        for plan in wrong {
            assert!(matches!(run(&plan), Err(BenchError::Asked(_))));
        }
    }
}
