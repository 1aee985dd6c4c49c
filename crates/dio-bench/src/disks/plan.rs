//! The measurements that a user asks for.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::BenchError;

/// The path that data take to the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessPath {
    /// A striped file, through the page cache.
    Cached,
    /// A striped file, past the page cache.
    Direct,
    /// The raw devices.
    Raw,
}

impl AccessPath {
    /// All of them, in the order of reports.
    pub const ALL: [AccessPath; 3] = [AccessPath::Cached, AccessPath::Direct, AccessPath::Raw];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            AccessPath::Cached => "cached",
            AccessPath::Direct => "direct",
            AccessPath::Raw => "raw",
        }
    }
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the disks; nothing is cached at the beginning.
    Read,
    /// To the disks, over existing data; all of it is durable at the end.
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
pub struct DisksPlan {
    /// Numbers of disks to measure.
    pub targets: Vec<usize>,
    /// The ways to measure.
    pub ways: Vec<AccessPath>,
    /// The directions to measure.
    pub directions: Vec<Direction>,
    /// Bytes per second of each disk, in each direction.
    pub rate: u64,
    /// Bytes of a stripe, and of each request to one disk.
    pub stripe: u64,
    /// Requests in flight to each disk.
    pub depth: usize,
    /// Length of the beginning of a run that is not measured: a limit that was idle for a while
    /// lets more bytes pass at first.
    pub warm_up: Duration,
    /// Length of the measured part: as many bytes are moved as the limit lets pass in this time.
    pub steady: Duration,
    /// Runs of each way, in turns.
    pub rounds: usize,
    /// The directory in which the images are created.
    pub directory: PathBuf,
}

impl DisksPlan {
    /// Number of stripes that pass through each disk in this time, at least one.
    pub(super) fn stripes(&self, time: Duration) -> u64 {
        (((self.rate as f64 * time.as_secs_f64()) / self.stripe as f64).round() as u64).max(1)
    }

    /// Number of stripes on each disk.
    pub(super) fn blocks(&self) -> u64 {
        self.stripes(self.warm_up) + self.stripes(self.steady)
    }

    /// Bytes used on each disk.
    pub(super) fn bytes_of_each(&self) -> u64 {
        self.blocks() * self.stripe
    }

    /// The number of disks to set up.
    pub(super) fn most(&self) -> usize {
        self.targets.iter().copied().max().unwrap_or(0)
    }

    pub(super) fn check(&self) -> Result<(), BenchError> {
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::disks) fn plan() -> DisksPlan {
        DisksPlan {
            targets: vec![1, 2],
            ways: AccessPath::ALL.to_vec(),
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
            DisksPlan { targets: vec![1, 0], ..plan() },
            DisksPlan { targets: vec![65], ..plan() },
            DisksPlan { ways: vec![], ..plan() },
            DisksPlan { rate: 1000, ..plan() },
            DisksPlan { stripe: 5000, ..plan() },
            DisksPlan { steady: Duration::ZERO, ..plan() },
        ] {
            assert!(matches!(wrong.check(), Err(BenchError::Asked(_))), "{wrong:?}");
        }
    }
}
