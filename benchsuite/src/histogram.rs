//! A histogram of latencies with logarithmic buckets.

/// Each power of two is cut into this many buckets: a reported value is at most 1/64 too high.
const PARTS_LOG2: u32 = 6;
const PARTS: u64 = 1 << PARTS_LOG2;
/// Buckets for every 64-bit value.
const BUCKETS: usize = ((64 - PARTS_LOG2 as usize) + 1) << PARTS_LOG2;

/// Counts of values, in nanoseconds here. Fixed size, no allocation while recording.
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, max: 0 }
    }

    pub(crate) fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.total += 1;
        self.max = self.max.max(value);
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// The smallest value that at least `part` (0…1) of all values do not exceed, rounded up to its bucket's
    /// end and never above the maximum; 0 when nothing was recorded.
    pub(crate) fn quantile(&self, part: f64) -> u64 {
        let wanted = ((self.total as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return last_of(index).min(self.max);
            }
        }
        self.max
    }
}

/// Values below `2 * PARTS` have a bucket each; above, the leading `PARTS_LOG2 + 1` bits choose it.
fn bucket(value: u64) -> usize {
    if value < PARTS {
        return value as usize;
    }
    let shift = value.ilog2() - PARTS_LOG2;
    (u64::from(shift) * PARTS + (value >> shift)) as usize
}

/// The largest value that falls into bucket `index`.
fn last_of(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 * PARTS {
        return index;
    }
    let shift = index / PARTS - 1;
    let leading = index % PARTS + PARTS;
    (((u128::from(leading) + 1) << shift) - 1) as u64
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Histogram, bucket, last_of};

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        for index in 0..BUCKETS - 1 {
            let last = last_of(index);
            assert_eq!(bucket(last), index, "last value of bucket {index}");
            assert_eq!(bucket(last + 1), index + 1, "value after bucket {index}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(last_of(BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn quantiles_are_at_most_one_bucket_too_high() {
        let mut histogram = Histogram::new();
        (1..=100_000).for_each(|v| histogram.add(v));
        for (part, exact) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.999, 99_900.0)] {
            let found = histogram.quantile(part) as f64;
            assert!(found >= exact && found <= exact * (1.0 + 1.0 / 64.0), "{part}: {found}");
        }
        assert_eq!((histogram.max(), histogram.total()), (100_000, 100_000));
        assert_eq!(histogram.quantile(1.0), 100_000);
    }

    #[test]
    fn a_rare_stall_shows_only_above_its_share() {
        let mut histogram = Histogram::new();
        (0..999).for_each(|_| histogram.add(1_000));
        histogram.add(5_000_000);
        assert!(histogram.quantile(0.999) < 1_100);
        assert_eq!(histogram.max(), 5_000_000);
        assert_eq!(Histogram::new().quantile(0.5), 0);
    }
}
