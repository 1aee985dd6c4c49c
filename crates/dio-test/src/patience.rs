//! Waiting for a condition.

use std::time::{Duration, Instant};

/// Longest wait for a condition. It is long enough for a machine that is a hundred times slower for
/// a while, so a condition that does not hold by then never will.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds, at most [`PATIENCE`], and returns how long it took.
///
/// # Panics
/// If the condition does not hold by then.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}
