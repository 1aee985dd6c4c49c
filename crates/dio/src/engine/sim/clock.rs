//! Virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The time of a simulation, shared by its disks and its engine. Only they move it, and never back.
#[derive(Clone, Debug, Default)]
pub struct SimClock {
    nanoseconds: Arc<AtomicU64>,
}

impl SimClock {
    /// A clock at zero.
    pub fn new() -> SimClock {
        SimClock::default()
    }

    /// Time since the simulation began.
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::SeqCst))
    }

    /// Moves to `time`, unless it has passed.
    pub fn advance_to(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).expect("a simulation is shorter than 584 years");
        self.nanoseconds.fetch_max(time, Ordering::SeqCst);
    }
}
