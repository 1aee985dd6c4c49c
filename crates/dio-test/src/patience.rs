//! Waiting for a condition.

use std::io;
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

/// Tries again while something is busy (`EAGAIN`), for some seconds. A child that another thread
/// has just forked holds all descriptors until it starts its program, so that a file may still be
/// open that was closed.
///
/// # Errors
/// What the last attempt returned.
pub fn while_busy<T, E: Into<io::Error>>(
    mut attempt: impl FnMut() -> Result<T, E>,
) -> io::Result<T> {
    let start = Instant::now();
    loop {
        match attempt().map_err(Into::into) {
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && start.elapsed() < PATIENCE / 6 =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}
