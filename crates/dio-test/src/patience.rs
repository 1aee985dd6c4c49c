//! Waiting for what comes sooner or later.

use std::time::{Duration, Instant};

/// Long enough for a machine that does everything a hundred times slower for a while: what is
/// waited for never comes otherwise.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so, at most [`PATIENCE`], and returns how long it took.
///
/// # Panics
/// If it is not so by then.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}
