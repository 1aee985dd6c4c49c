//! Limits the number of lines that remote clients can make a witness print.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Length of a counting period.
const PERIOD: Duration = Duration::from_secs(10);

/// Counts lines of one kind.
#[derive(Debug)]
pub(super) struct LineCounter {
    per_period_max: u64,
    /// The beginning of the period, and the number of lines in it.
    count: Mutex<(Instant, u64)>,
}

impl LineCounter {
    pub(super) fn new(per_period_max: u64) -> LineCounter {
        LineCounter { per_period_max, count: Mutex::new((Instant::now(), 0)) }
    }

    /// Counts a line. Returns whether it may be printed.
    pub(super) fn admit(&self) -> bool {
        let (_, lines) = &mut *self.count.lock();
        *lines += 1;
        *lines <= self.per_period_max
    }

    /// Starts the next period if this one is over or if `now` is true. Returns the number of lines
    /// that were left out, if any.
    pub(super) fn left_out(&self, now: bool) -> Option<u64> {
        let (begun, lines) = &mut *self.count.lock();
        if !now && begun.elapsed() < PERIOD {
            return None;
        }
        let left_out = lines.saturating_sub(self.per_period_max);
        (*begun, *lines) = (Instant::now(), 0);
        (left_out > 0).then_some(left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let lines = LineCounter::new(3);
        assert_eq!((0..10).filter(|_| lines.admit()).count(), 3);
        assert_eq!(
            (lines.left_out(false), lines.left_out(true), lines.left_out(true)),
            (None, Some(7), None)
        );
        assert!(lines.admit());
    }
}
