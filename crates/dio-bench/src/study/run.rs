//! The result of one run, and the combined results of a contender's runs.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{Contender, Used};
use crate::locks::class::Class;
use crate::locks::kernel::Kernel;
use crate::locks::mounts;
use crate::stats::Summary;

/// Upper limit of a histogram's first bucket in nanoseconds, and the factor by which the limit
/// grows from bucket to bucket.
const BUCKETS: (u64, f64) = (10_000, 1.1);

/// Longest time in nanoseconds that is recorded; longer times count as this.
const LONGEST: u64 = 600_000_000_000;

/// A histogram of response times in nanoseconds, exact to three digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds are in order")
}

/// Response times of transactions in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default = "Response::unknown")]
pub struct Response {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Response {
    /// The value for results without response times.
    fn unknown() -> Response {
        let [mean, p50, p90, p99, p999, max] = [f64::NAN; 6];
        Response { mean, p50, p90, p99, p999, max }
    }

    /// Computes the percentiles of times in nanoseconds.
    pub(crate) fn of(nanos: &Histogram<u64>) -> Response {
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

/// A bucket of a histogram of response times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// The longest time in it, in seconds. The shortest is the longest of the previous bucket.
    pub seconds: f64,
    /// Number of transactions.
    pub count: u64,
}

impl Bucket {
    /// The buckets of times in nanoseconds, each a tenth wider than the one before, starting with
    /// the first that is not empty.
    pub(crate) fn of(nanos: &Histogram<u64>) -> Vec<Bucket> {
        let steps = nanos.iter_log(BUCKETS.0, BUCKETS.1);
        let bucket = |step: hdrhistogram::iterators::IterationValue<u64>| Bucket {
            seconds: step.value_iterated_to() as f64 / 1e9,
            count: step.count_since_last_iteration(),
        };
        if nanos.is_empty() {
            Vec::new()
        } else {
            steps.map(bucket).skip_while(|bucket| bucket.count == 0).collect()
        }
    }
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Clients start one after the other, or caches fill.
    RampUp,
    /// All clients run.
    #[default]
    Steady,
    /// Clients stop one after the other.
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its end, in seconds since the first client started.
    pub seconds: f64,
    /// The phase in which it ended.
    #[serde(default)]
    pub phase: Phase,
    /// Transactions per second.
    pub tps: f64,
    /// The use of the machine in this slot.
    #[serde(flatten)]
    pub used: Used,
}

/// One run of one contender. All figures but `points` refer to its steady state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ContenderRun {
    /// Transactions per second.
    pub tps: f64,
    /// Response times.
    #[serde(default = "Response::unknown")]
    pub response: Response,
    /// The distribution of the response times.
    #[serde(default)]
    pub histogram: Vec<Bucket>,
    /// Writes of the log per second, if the workload counts them; several commits may share a
    /// write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_writes_per_second: Option<f64>,
    /// The use of the machine.
    #[serde(default)]
    pub used: Used,
    /// Blocks counted by the mount; empty if there is none.
    #[serde(default)]
    pub mount_blocks: Vec<mounts::MountWaitRow>,
    /// Blocks of the working program and the mount's server on the kernel's locks; `None` if they
    /// cannot be measured.
    pub kernel_blocks: Option<Kernel>,
    /// Number of changed pages that were read again after the run, without the mount, and compared;
    /// `None` if the workload does not do that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_checked: Option<u64>,
    /// The time series, ramps included.
    #[serde(default)]
    pub points: Vec<Point>,
}

impl ContenderRun {
    /// Blocks per second that the mount counted for a class.
    pub(super) fn mount_rate(&self, class: &str) -> f64 {
        let rows = self.mount_blocks.iter().filter(|row| row.class == class);
        rows.fold(0.0, |sum, row| sum + row.blocks_per_second)
    }
}

/// One contender, with medians of its runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ContenderRow {
    /// The contender.
    pub contender: Contender,
    /// Transactions per second.
    #[serde(default)]
    pub tps: Summary,
    /// Mean response time of each run, in seconds.
    #[serde(default)]
    pub response_seconds: Summary,
    /// 99th percentile of each run, in seconds.
    #[serde(default)]
    pub p99_seconds: Summary,
    /// Transactions per second divided by those of the raw device in the same round; the median of
    /// these quotients. Without a raw device, bare files are the divisor, or else buffered files.
    pub to_first: Option<f64>,
    /// Blocks per second on the mount's file locks, without those on ranges.
    pub file_blocks_per_second: Option<f64>,
    /// Blocks per second on ranges of files in the mount.
    pub range_blocks_per_second: Option<f64>,
    /// Blocks per second on the kernel's inode locks.
    pub inode_blocks_per_second: Option<f64>,
    /// The single runs, in their order.
    pub runs: Vec<ContenderRun>,
}

impl ContenderRow {
    /// The rows of contenders and their runs, compared with the raw device, or else with bare
    /// files, or else with buffered files.
    pub(crate) fn all(
        contenders: &[Contender],
        results: Vec<Vec<ContenderRun>>,
    ) -> Vec<ContenderRow> {
        let place = |contender| contenders.iter().position(|other| *other == contender);
        let first = place(Contender::Raw)
            .or_else(|| place(Contender::Bare))
            .or_else(|| place(Contender::Buffered));
        let first: Vec<f64> =
            first.map_or_else(Vec::new, |place| results[place].iter().map(|run| run.tps).collect());
        contenders
            .iter()
            .zip(results)
            .map(|(contender, runs)| ContenderRow::new(*contender, runs, &first))
            .collect()
    }

    fn new(contender: Contender, runs: Vec<ContenderRun>, first: &[f64]) -> ContenderRow {
        let ratios =
            runs.iter().zip(first).map(|(run, first)| (*first > 0.0).then(|| run.tps / first));
        let blocks = |class| {
            contender
                .is_mount()
                .then(|| Summary::of(runs.iter().map(|run| run.mount_rate(class))).median)
        };
        ContenderRow {
            contender,
            tps: Summary::of(runs.iter().map(|run| run.tps)),
            response_seconds: Summary::of(runs.iter().map(|run| run.response.mean)),
            p99_seconds: Summary::of(runs.iter().map(|run| run.response.p99)),
            to_first: median(ratios),
            file_blocks_per_second: blocks("file"),
            range_blocks_per_second: blocks("range"),
            inode_blocks_per_second: median(
                runs.iter()
                    .map(|run| run.kernel_blocks.as_ref().map(|kernel| kernel.rate(Class::Inode))),
            ),
            runs,
        }
    }
}

/// The median of a value that some runs lack.
fn median(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let values: Vec<f64> = values.flatten().collect();
    if values.is_empty() { None } else { Some(Summary::of(values).median) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A run of three seconds, all in the steady state.
    pub(crate) fn run(tps: f64) -> ContenderRun {
        let used = Used { user: 0.25, idle: 0.75, utilisation: Some(0.5), ..Used::default() };
        let point = |n: u32| Point {
            seconds: f64::from(n),
            phase: Phase::Steady,
            tps: tps + f64::from(n),
            used,
        };
        let response = Response { mean: 0.002, p99: 0.004, ..Response::default() };
        ContenderRun {
            tps,
            response,
            histogram: vec![
                Bucket { seconds: 0.002, count: 10 },
                Bucket { seconds: 0.004, count: 3 },
            ],
            log_writes_per_second: Some(tps / 2.0),
            used,
            mount_blocks: Vec::new(),
            kernel_blocks: None,
            pages_checked: Some(10),
            points: (1..=5).map(point).collect(),
        }
    }

    /// Rows of two contenders with three rounds each.
    pub(crate) fn rows() -> Vec<ContenderRow> {
        let results =
            [[1000.0, 2000.0, 500.0], [900.0, 1900.0, 500.0]].map(|tps| tps.map(run).to_vec());
        ContenderRow::all(&[Contender::Raw, Contender::Concurrent], results.to_vec())
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let rows = rows();
        assert_eq!((rows[1].tps.median, rows[1].to_first), (900.0, Some(0.95)));
        assert_eq!(
            (rows[0].file_blocks_per_second, rows[1].file_blocks_per_second),
            (None, Some(0.0))
        );
    }

    #[test]
    fn response_times_are_in_seconds() {
        let mut nanos = Histogram::<u64>::new(3).unwrap();
        (1..=1000).for_each(|n| nanos.record(n * 1_000_000).unwrap());
        let response = Response::of(&nanos);
        let near = |found: f64, expected: f64| {
            assert!((found / expected - 1.0).abs() < 0.002, "{found} for {expected}")
        };
        near(response.mean, 0.5005);
        near(response.p50, 0.5);
        near(response.p99, 0.99);
        near(response.max, 1.0);
        assert_eq!(Response::of(&Histogram::new(3).unwrap()), Response::default());
    }

    #[test]
    fn buckets_hold_all_transactions_and_grow() {
        let mut nanos = Histogram::<u64>::new(3).unwrap();
        (1..=1000).for_each(|n| nanos.record(n * 100_000).unwrap());
        let buckets = Bucket::of(&nanos);
        assert_eq!(buckets.iter().map(|bucket| bucket.count).sum::<u64>(), 1000);
        assert!(
            buckets.len() < 100 && buckets.windows(2).all(|pair| pair[0].seconds < pair[1].seconds)
        );
        assert!((0.1..0.112).contains(&buckets.last().unwrap().seconds), "{buckets:?}");
        assert_eq!(Bucket::of(&Histogram::new(3).unwrap()), Vec::new());
    }
}
