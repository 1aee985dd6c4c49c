//! Counts latencies in a fixed amount of memory.

use serde::{Deserialize, Serialize};

use crate::study::Bucket;

/// Buckets to each power of two: a value is recorded with an error of at most 1/64, 1.6 %.
const STEPS: u64 = 64;

/// Counts of values, in buckets whose width grows with the value.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: vec![0; (bucket(u64::MAX) + 1) as usize], count: 0, most: 0 }
    }
}

/// The bucket of a value. Values below `STEPS` have a bucket each; above, each power of two has
/// `STEPS` buckets.
fn bucket(value: u64) -> u64 {
    let power = value.max(1).ilog2().saturating_sub(STEPS.ilog2());
    u64::from(power) * STEPS + (value >> power)
}

/// The greatest value of a bucket.
fn upper(bucket: u64) -> u64 {
    if bucket < 2 * STEPS {
        return bucket;
    }
    let power = bucket / STEPS - 1;
    // The arithmetic is wide enough for the last bucket to end at `u64::MAX`.
    let end = u128::from(bucket - power * STEPS + 1) << power;
    u64::try_from(end - 1).unwrap_or(u64::MAX)
}

impl Histogram {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.buckets[bucket(value) as usize] += 1;
        self.count += 1;
        self.most = self.most.max(value);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (sum, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += more;
        }
        self.count += other.count;
        self.most = self.most.max(other.most);
    }

    /// Number of counted values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The greatest value.
    pub fn max(&self) -> u64 {
        self.most
    }

    /// The value that a share `part` (0 to 1) of all values do not exceed, rounded up to the end of
    /// its bucket; 0 if there are no values.
    pub fn quantile(&self, part: f64) -> u64 {
        let rank = ((self.count as f64 * part).ceil() as u64).clamp(1, self.count.max(1));
        let mut passed = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            passed += count;
            if passed >= rank {
                return upper(index as u64).min(self.most);
            }
        }
        0
    }

    /// The distribution of values in nanoseconds for a report, in buckets about a tenth of a power
    /// of two wide, from the first to the last that is not empty.
    pub fn spread(&self) -> Vec<Bucket> {
        let wide = STEPS as usize / 8;
        let sums: Vec<u64> = self.buckets.chunks(wide).map(|some| some.iter().sum()).collect();
        let Some(first) = sums.iter().position(|sum| *sum > 0) else { return Vec::new() };
        let last = sums.iter().rposition(|sum| *sum > 0).unwrap_or(first);
        let bucket = |place: usize| Bucket {
            seconds: upper((place * wide + wide - 1) as u64) as f64 / 1e9,
            count: sums[place],
        };
        (first..=last).map(bucket).collect()
    }

    /// The usual percentiles, from values in nanoseconds.
    pub fn latency(&self) -> Latency {
        let seconds = |part| self.quantile(part) as f64 / 1e9;
        Latency {
            p50: seconds(0.5),
            p99: seconds(0.99),
            p999: seconds(0.999),
            max: self.most as f64 / 1e9,
        }
    }
}

/// Latencies in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The greatest latency.
    #[serde(default)]
    pub max: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_leave_no_gap() {
        for value in (0..5000).chain([1 << 40, (1 << 40) + 12345, u64::MAX - 1, u64::MAX]) {
            let end = upper(bucket(value));
            assert!(
                end >= value && end - value <= value / STEPS,
                "{value} in a bucket that ends at {end}"
            );
            assert!(end == u64::MAX || bucket(end + 1) == bucket(value) + 1, "gap behind {end}");
        }
    }

    #[test]
    fn the_spread_has_every_value_in_a_bucket_that_holds_it() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.spread(), []);
        let values = [700u64, 1023, 1024, 1025, 5_000_000, 5_000_000];
        values.iter().for_each(|value| histogram.add(*value));
        let spread = histogram.spread();
        assert_eq!(spread.iter().map(|bucket| bucket.count).sum::<u64>(), 6);
        assert!(
            spread[0].count == 1 && spread.last().unwrap().count == 2 && spread.len() < 120,
            "{spread:?}"
        );
        for value in values {
            let at = spread
                .iter()
                .position(|bucket| bucket.seconds * 1e9 + 1e-3 >= value as f64)
                .unwrap();
            assert!(
                spread[at].count > 0 && spread[at].seconds * 1e9 < value as f64 * 1.13,
                "{value}: {spread:?}"
            );
        }
    }

    #[test]
    fn a_rare_stall_shows_only_above_its_share() {
        let mut histogram = Histogram::default();
        (0..999).for_each(|_| histogram.add(1_000));
        histogram.add(5_000_000);
        assert!(histogram.quantile(0.999) < 1_100);
        assert_eq!((histogram.max(), histogram.quantile(1.0)), (5_000_000, 5_000_000));
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), 0);
        (1..=1000).for_each(|value| histogram.add(value * 1000));
        for (part, exact) in [(0.5, 500_000), (0.99, 990_000), (0.999, 999_000), (1.0, 1_000_000)] {
            let found = histogram.quantile(part);
            assert!(
                found >= exact && found <= exact + exact / STEPS,
                "{part}: {found} for {exact}"
            );
        }
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!((twice.count(), twice.quantile(0.5)), (2000, histogram.quantile(0.5)));
    }
}
