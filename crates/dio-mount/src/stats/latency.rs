//! Latencies of operations: histograms that many threads record into, and their sum at one moment.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use super::Operation;
use super::named::Named;

/// Shorter latencies than this, in nanoseconds, are not distinguished.
const FINEST: u64 = 256;

/// Longer latencies than this, in nanoseconds, are recorded as this: a little over a minute. The
/// sum of times is exact all the same.
pub const LONGEST: u64 = (1 << 36) - 1;

/// Decimal digits of precision, so that a percentile is at most 1 % too high.
const DIGITS: u8 = 2;

/// Most shards. One shard of an operation in use takes about 22 KiB.
const MOST_SHARDS: usize = 16;

/// Makes an empty histogram; all have the same shape.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(FINEST, LONGEST, DIGITS)
        .expect("the bounds are constants, and sound")
}

/// The latencies of an operation, and its number of failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Latency {
    /// Operations that were answered, including failures.
    pub count: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Sum of the latencies, in nanoseconds.
    pub nanos: u64,
    /// The histogram: the longest latency of a bucket, in nanoseconds, and the number of operations
    /// in it. In ascending order, without empty buckets.
    pub buckets: Vec<(u64, u64)>,
}

impl Latency {
    /// Mean latency in nanoseconds; 0 without operations.
    pub fn mean(&self) -> u64 {
        self.nanos.checked_div(self.count).unwrap_or(0)
    }

    /// The latency in nanoseconds within which this fraction (0 to 1) of the operations were
    /// answered. It is at most 1 % or 256 ns too high, never too low; 0 without operations.
    pub fn quantile(&self, part: f64) -> u64 {
        let recorded: u64 = self.buckets.iter().map(|bucket| bucket.1).sum();
        let rank =
            ((recorded as f64 * part.clamp(0.0, 1.0)).ceil() as u64).clamp(1, recorded.max(1));
        let mut seen = 0;
        for (longest, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return *longest;
            }
        }
        self.buckets.last().map_or(0, |bucket| bucket.0)
    }

    /// The longest latency, as precise as [`quantile`](Self::quantile).
    pub fn longest(&self) -> u64 {
        self.buckets.last().map_or(0, |bucket| bucket.0)
    }

    /// Number of operations that took at most `limit` nanoseconds, without those in the bucket that
    /// contains the limit.
    pub fn within(&self, limit: u64) -> u64 {
        self.buckets.iter().take_while(|bucket| bucket.0 <= limit).map(|bucket| bucket.1).sum()
    }

    /// Subtracts an earlier reading of the same counters; no result is negative.
    pub fn minus(&mut self, earlier: &Latency) {
        self.count = self.count.saturating_sub(earlier.count);
        self.errors = self.errors.saturating_sub(earlier.errors);
        self.nanos = self.nanos.saturating_sub(earlier.nanos);
        let before: BTreeMap<u64, u64> = earlier.buckets.iter().copied().collect();
        for (longest, count) in &mut self.buckets {
            *count = count.saturating_sub(before.get(longest).copied().unwrap_or(0));
        }
        self.buckets.retain(|bucket| bucket.1 > 0);
    }
}

/// The latencies of one operation in one shard.
#[derive(Debug, Default)]
struct LatencySlot {
    /// Made when it is first used: most operations are never used.
    histogram: Option<Box<Histogram<u64>>>,
    errors: u64,
    nanos: u64,
}

/// The latencies that the threads of one shard record. The alignment keeps shards in separate cache
/// lines.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Vec<Mutex<LatencySlot>>);

impl Shard {
    fn slot(&self, operation: Operation) -> MutexGuard<'_, LatencySlot> {
        // A lock after a panic is safe: no update can panic halfway.
        self.0[operation.index()].lock()
    }
}

/// Latencies by operation. Each thread records in one shard, so threads rarely wait for each other.
#[derive(Debug)]
pub(super) struct Recorder {
    shards: Vec<Shard>,
}

impl Recorder {
    pub(super) fn new() -> Recorder {
        let cores = thread::available_parallelism().map_or(1, |count| count.get());
        Recorder::with_shards(cores.next_power_of_two().min(MOST_SHARDS))
    }

    fn with_shards(count: usize) -> Recorder {
        let shard = || Shard(Operation::LIST.iter().map(|_| Mutex::default()).collect());
        Recorder { shards: (0..count).map(|_| shard()).collect() }
    }

    pub(super) fn record(&self, operation: Operation, took: Duration, failed: bool) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mut slot = self.shards[this_thread() % self.shards.len()].slot(operation);
        slot.histogram.get_or_insert_with(|| Box::new(histogram())).saturating_record(nanos);
        slot.errors += u64::from(failed);
        slot.nanos = slot.nanos.saturating_add(nanos);
    }

    /// Returns the latencies of an operation; `None` if none were recorded.
    pub(super) fn reading(&self, operation: Operation) -> Option<Latency> {
        let mut sum: Option<Histogram<u64>> = None;
        let mut latency = Latency::default();
        for shard in &self.shards {
            let slot = shard.slot(operation);
            if let Some(histogram) = &slot.histogram {
                let sum = sum.get_or_insert_with(self::histogram);
                sum.add(histogram.as_ref()).expect("all histograms have one shape");
                latency.errors += slot.errors;
                latency.nanos = latency.nanos.saturating_add(slot.nanos);
            }
        }
        let sum = sum?;
        latency.count = sum.len();
        latency.buckets = sum
            .iter_recorded()
            .map(|step| (sum.highest_equivalent(step.value_iterated_to()), step.count_at_value()))
            .collect();
        Some(latency)
    }
}

/// Returns this thread's number, which no other thread has.
fn this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: Cell<usize> = const { Cell::new(usize::MAX) });
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        mine.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn recorded(times: &[u64]) -> Latency {
        let recorder = Recorder::with_shards(4);
        thread::scope(|scope| {
            for part in times.chunks(times.len().div_ceil(3).max(1)) {
                let recorder = &recorder;
                scope.spawn(move || {
                    for time in part {
                        recorder.record(
                            Operation::Read,
                            Duration::from_nanos(*time),
                            *time % 2 == 1,
                        );
                    }
                });
            }
        });
        assert!(recorder.reading(Operation::Write).is_none());
        recorder.reading(Operation::Read).unwrap_or_default()
    }

    #[test]
    fn one_operation_in_use_takes_as_much_memory_as_is_said() {
        assert!(histogram().distinct_values() * 8 < 23 << 10, "{}", histogram().distinct_values());
    }

    #[test]
    fn what_takes_longer_than_the_longest_is_counted_there() {
        let latency = recorded(&[u64::MAX / 4, 1000]);
        assert_eq!(
            (latency.count, latency.longest()),
            (2, histogram().highest_equivalent(LONGEST))
        );
    }

    #[test]
    fn nothing_has_no_percentiles() {
        let nothing = Latency::default();
        assert_eq!((nothing.mean(), nothing.quantile(0.5), nothing.longest()), (0, 0, 0));
    }

    proptest! {
        /// Quantiles equal those of the sorted list, rounded up to the end of a bucket.
        #[test]
        fn quantiles_are_within_their_bucket(
            mut times in prop::collection::vec(0..LONGEST, 1..300),
            part in 0.0..=1.0f64,
        ) {
            let latency = recorded(&times);
            times.sort_unstable();
            let rank = ((times.len() as f64 * part).ceil() as usize).clamp(1, times.len());
            let exact = times[rank - 1];
            prop_assert_eq!(latency.quantile(part), histogram().highest_equivalent(exact));
            prop_assert!(latency.quantile(part) - exact <= (exact / 100).max(FINEST));
            prop_assert_eq!(latency.count, times.len() as u64);
            prop_assert_eq!(latency.nanos, times.iter().sum::<u64>());
            prop_assert_eq!(
                latency.errors, times.iter().filter(|time| **time % 2 == 1).count() as u64
            );
        }

        /// The difference of two readings is a reading of the time between them.
        #[test]
        fn the_difference_is_what_came_between(
            first in prop::collection::vec(0..LONGEST, 0..100),
            second in prop::collection::vec(0..LONGEST, 0..100),
        ) {
            let both: Vec<u64> = first.iter().chain(&second).copied().collect();
            let mut difference = recorded(&both);
            difference.minus(&recorded(&first));
            prop_assert_eq!(difference, recorded(&second));
        }
    }
}
