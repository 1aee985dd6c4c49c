//! The result.

use serde::{Deserialize, Serialize};

use super::plan::{AccessPath, Direction, DisksPlan};
use crate::environment::Environment;
use crate::stats::Summary;

/// Published figures of sequential reading over 8 disks (JFS on AIX): throughput in KB/s, and
/// processor utilisation in percent.
pub const REFERENCE: [(AccessPath, f64, f64); 3] = [
    (AccessPath::Cached, 17_892.0, 98.3),
    (AccessPath::Direct, 30_062.0, 54.4),
    (AccessPath::Raw, 32_165.0, 24.5),
];

/// Number of disks in the reference.
pub(crate) const REFERENCE_TARGETS: usize = 8;

/// A run that is faster than the combined limits by more than `ESCAPED` got past them.
/// `CREDIT_SECONDS` allows for the bytes that a limit lets pass at once after it was idle: those of
/// some slices of a tenth of a second (`block/blk-throttle.c`).
const ESCAPED: f64 = 1.05;
const CREDIT_SECONDS: f64 = 0.3;

/// One run.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct DisksRun {
    /// Bytes that were measured.
    pub bytes: u64,
    /// Elapsed seconds. For writing, they end when all data are durable.
    pub seconds: f64,
    /// CPU seconds of the benchmark process, including kernel code that runs in its threads.
    pub own_cpu_seconds: f64,
    /// CPU seconds of the kernel's own threads: loop devices, writeback, completions.
    pub kernel_cpu_seconds: f64,
    /// The sum of both, as a share of all processors' time.
    pub busy: f64,
    /// Share of all processors' time that any program used, the benchmark included.
    pub machine_busy: f64,
    /// Bytes that the devices moved during the run, metadata included.
    pub device_bytes: u64,
}

impl DisksRun {
    /// Throughput.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }
}

/// One way with one number of disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct DisksCase {
    /// Number of disks.
    pub targets: usize,
    /// Direction.
    pub direction: Direction,
    /// The path that the data took.
    pub way: AccessPath,
}

/// The runs of one way with one number of disks.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DisksRow {
    /// The case that was run.
    #[serde(flatten)]
    pub case: DisksCase,
    /// Throughput.
    pub bytes_per_second: Summary,
    /// Throughput divided by that of the same way with one disk; `None` if one disk was not
    /// measured.
    pub to_one: Option<f64>,
    /// Throughput divided by that of the raw devices in the same round; the median of all rounds.
    pub to_raw: Option<f64>,
    /// Share of all processors' time that the benchmark and the kernel's threads used; the median.
    pub busy: f64,
    /// CPU seconds of the benchmark and the kernel's threads for each GiB; the median.
    pub cpu_seconds_per_gib: f64,
    /// CPU seconds of the benchmark alone for each GiB; the median.
    pub own_cpu_seconds_per_gib: f64,
    /// Single runs.
    pub runs: Vec<DisksRun>,
}

/// The settings of the measurement.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Settings {
    /// Bytes per second of each disk, in each direction.
    pub rate_bytes_per_second: u64,
    /// The controller of control groups that limits them: `blkio` of version 1, `io` of version 2.
    #[serde(default = "blkio")]
    pub limited_by: String,
    /// Bytes of a stripe.
    pub stripe_bytes: u64,
    /// Requests in flight to each disk.
    pub depth: usize,
    /// Seconds of the warm-up and of the measured part, at the limit.
    pub seconds: [f64; 2],
    /// Runs of each row.
    pub rounds: usize,
}

/// The whole result.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DisksReport {
    /// One row for each way, number of disks and direction.
    pub rows: Vec<DisksRow>,
    /// The settings.
    pub settings: Settings,
    /// Warnings that a reader needs to judge the result.
    pub notes: Vec<String>,
    /// The machine and storage that it was measured on.
    pub environment: Environment,
}

fn median(runs: &[DisksRun], of: impl Fn(&DisksRun) -> f64) -> f64 {
    Summary::of(runs.iter().map(of)).median
}

impl DisksRow {
    fn all(results: Vec<(DisksCase, Vec<DisksRun>)>) -> Vec<DisksRow> {
        let find = |wanted: DisksCase| {
            results.iter().find(|(case, _)| *case == wanted).map(|(_, runs)| runs)
        };
        let row = |(case, runs): &(DisksCase, Vec<DisksRun>)| {
            let throughput = Summary::of(runs.iter().map(DisksRun::bytes_per_second));
            let one = find(DisksCase { targets: 1, ..*case })
                .map(|one| median(one, DisksRun::bytes_per_second));
            let raw = find(DisksCase { way: AccessPath::Raw, ..*case }).map(|raw| {
                let pairs = runs.iter().zip(raw);
                Summary::of(pairs.map(|(run, raw)| run.bytes_per_second() / raw.bytes_per_second()))
                    .median
            });
            let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
            DisksRow {
                case: *case,
                bytes_per_second: throughput,
                to_one: one.map(|one| throughput.median / one),
                to_raw: raw,
                busy: median(runs, |run| run.busy),
                cpu_seconds_per_gib: median(runs, |run| {
                    (run.own_cpu_seconds + run.kernel_cpu_seconds) / gib(run.bytes)
                }),
                own_cpu_seconds_per_gib: median(runs, |run| run.own_cpu_seconds / gib(run.bytes)),
                runs: runs.clone(),
            }
        };
        results.iter().map(row).collect()
    }
}

/// The controller of earlier results, which do not name it.
fn blkio() -> String {
    "blkio".to_owned()
}

impl DisksReport {
    pub(super) fn new(
        plan: &DisksPlan,
        limited_by: &'static str,
        results: Vec<(DisksCase, Vec<DisksRun>)>,
        environment: Environment,
    ) -> DisksReport {
        let rows = DisksRow::all(results);
        let settings = Settings {
            rate_bytes_per_second: plan.rate,
            limited_by: limited_by.to_owned(),
            stripe_bytes: plan.stripe,
            depth: plan.depth,
            seconds: [plan.warm_up, plan.steady].map(|time| time.as_secs_f64()),
            rounds: plan.rounds,
        };
        let notes = rows.iter().filter_map(|row| escaped(row, plan)).collect();
        DisksReport { rows, settings, notes, environment }
    }
}

/// A warning if the limits did not hold.
fn escaped(row: &DisksRow, plan: &DisksPlan) -> Option<String> {
    let DisksCase { targets, direction, way } = row.case;
    let part = row.bytes_per_second.median / (plan.rate * targets as u64) as f64;
    let most = ESCAPED + CREDIT_SECONDS / plan.steady.as_secs_f64();
    (part > most).then(|| {
        let way = format!("{}, {} disks, {}", direction.name(), targets, way.name());
        format!("{way}: {part:.2} times the limits together: not what disks of this rate would do")
    })
}

/// The published figures of a case: KB/s and percent.
pub(crate) fn reference(case: &DisksCase) -> Option<(f64, f64)> {
    let same = case.targets == REFERENCE_TARGETS && case.direction == Direction::Read;
    REFERENCE
        .iter()
        .find(|(way, ..)| same && *way == case.way)
        .map(|(_, rate, busy)| (*rate, *busy))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::plan::tests::plan;
    use super::*;
    use crate::section::Benchmark;

    fn run(rate: f64, busy: f64) -> DisksRun {
        let bytes = 1 << 30;
        let seconds = bytes as f64 / rate;
        let (own_cpu_seconds, kernel_cpu_seconds) = (0.25, 0.75);
        DisksRun {
            bytes,
            seconds,
            own_cpu_seconds,
            kernel_cpu_seconds,
            busy,
            machine_busy: busy,
            device_bytes: bytes,
        }
    }

    /// A report in which one disk gives up to 100 MB/s and eight disks up to 800 MB/s, by way.
    pub(crate) fn report() -> DisksReport {
        let mut results = Vec::new();
        for (targets, rates) in [(1, [90e6, 99e6, 100e6]), (8, [400e6, 784e6, 800e6])] {
            for direction in Direction::ALL {
                for (way, rate) in AccessPath::ALL.into_iter().zip(rates) {
                    let runs = [0.9, 1.0, 1.1].map(|part| run(rate * part, 0.5)).to_vec();
                    results.push((DisksCase { targets, direction, way }, runs));
                }
            }
        }
        let environment = Environment::of(std::path::Path::new("/proc/self/exe")).unwrap();
        DisksReport::new(&plan(), "blkio", results, environment)
    }

    #[test]
    fn ratios_are_to_one_disk_and_to_raw_devices() {
        let report = report();
        let case = DisksCase { targets: 8, direction: Direction::Read, way: AccessPath::Direct };
        let row = report.rows.iter().find(|row| row.case == case).unwrap();
        let near = |found: Option<f64>, wanted: f64| {
            assert!((found.unwrap() / wanted - 1.0).abs() < 1e-9, "{found:?}")
        };
        near(row.to_one, 784.0 / 99.0);
        near(row.to_raw, 0.98);
        near(Some(row.cpu_seconds_per_gib), 1.0);
        assert_eq!((row.own_cpu_seconds_per_gib, row.runs.len()), (0.25, 3));
    }

    #[test]
    fn the_table_has_both_directions_and_published_figures_for_eight_disks() {
        let text = report().text();
        assert!(
            text.contains("\nread ") && text.contains("\nwrite ") && text.contains("30062 KB/s"),
            "{text}"
        );
        assert_eq!(text.matches("KB/s").count(), 3, "{text}");
        assert!(
            text.contains("0.980") && text.contains("7.92×") && text.contains("0.935"),
            "{text}"
        );
        assert!(!text.contains("times the limits"), "{text}");
    }

    #[test]
    fn what_got_past_the_limits_is_told() {
        let mut results = vec![(
            DisksCase { targets: 1, direction: Direction::Write, way: AccessPath::Cached },
            vec![run(500e6, 1.0)],
        )];
        results
            .push((DisksCase { way: AccessPath::Direct, ..results[0].0 }, vec![run(100e6, 0.1)]));
        let report = DisksReport::new(&plan(), "blkio", results, report().environment);
        assert_eq!(report.notes.len(), 1);
        assert!(
            report.text().contains("write, 1 disks, cached: 4.77 times the limits"),
            "{}",
            report.text()
        );
        assert_eq!(report.rows[0].to_raw, None);
    }
}
