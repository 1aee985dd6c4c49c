//! Reports the progress of a measurement to a listener, such as `dio bench`, which shows it on
//! standard error. Without a listener nothing happens.
//!
//! A workload calls `begin` once, when it knows its measurements, and `step` before each
//! measurement. The remaining time is first estimated from the plan, and from the finished
//! measurements as soon as there are some.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::BenchError;
use crate::data::Scratch;

/// The progress of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Number of finished measurements.
    pub done: usize,
    /// Number of all measurements.
    pub all: usize,
    /// Estimate of the remaining time.
    pub left: Duration,
    /// Name of the next measurement; `None` at the beginning.
    pub next: Option<&'a str>,
}

type Listener = Box<dyn Fn(Progress<'_>) + Send + Sync>;

static LISTENER: OnceLock<Listener> = OnceLock::new();
static STATE: Mutex<Option<StepCount>> = Mutex::new(None);

#[derive(Clone, Copy, Debug)]
struct StepCount {
    all: usize,
    /// Number of steps that have begun.
    begun: usize,
    estimate: Duration,
    /// Time at which the first step began.
    first: Option<Instant>,
}

impl StepCount {
    /// The remaining time, estimated from the duration of the finished steps.
    fn left(&self, now: Instant) -> Duration {
        let over = self.begun.saturating_sub(1);
        let rest = self.all.saturating_sub(over);
        match self.first {
            Some(first) if over > 0 => (now - first).mul_f64(rest as f64 / over as f64),
            _ => self.estimate,
        }
    }
}

fn state() -> MutexGuard<'static, Option<StepCount>> {
    STATE.lock()
}

/// Registers a listener. Only the first one counts.
pub fn listen(listener: impl Fn(Progress<'_>) + Send + Sync + 'static) {
    let _ = LISTENER.set(Box::new(listener));
}

/// Reports the beginning of a measurement that has `all` steps and takes about `estimate`.
pub(crate) fn begin(all: usize, estimate: Duration) {
    let Some(listener) = LISTENER.get() else { return };
    *state() = Some(StepCount { all, begun: 0, estimate, first: None });
    listener(Progress { done: 0, all, left: estimate, next: None });
}

/// Reports the beginning of the next step.
pub(crate) fn step(what: &str) {
    let Some(listener) = LISTENER.get() else { return };
    let told = state().as_mut().map(|state| {
        let now = Instant::now();
        state.begun += 1;
        state.first.get_or_insert(now);
        // More steps than planned must not give a share above the whole.
        state.all = state.all.max(state.begun);
        (state.begun - 1, state.all, state.left(now))
    });
    if let Some((done, all, left)) = told {
        listener(Progress { done, all, left, next: Some(what) });
    }
}

/// The bytes per second that the disk below a directory can write, roughly, for estimates. Without
/// a listener, or if the measurement fails, it is a usual rate: a failed estimate is no reason for
/// a benchmark to fail.
pub(crate) fn pace(directory: &Path) -> f64 {
    const SAMPLE: u64 = 32 << 20;
    const USUAL: f64 = 1e9;
    let measured = || -> Result<f64, BenchError> {
        let scratch = Scratch::new(directory)?;
        let begun = Instant::now();
        scratch.random_file("pace", SAMPLE)?;
        Ok(SAMPLE as f64 / begun.elapsed().as_secs_f64().max(1e-3))
    };
    if LISTENER.get().is_none() { USUAL } else { measured().unwrap_or(USUAL) }
}

/// The time that `bytes` bytes take at `per_second` bytes per second.
pub(crate) fn time_for(bytes: u64, per_second: f64) -> Duration {
    Duration::from_secs_f64((bytes as f64 / per_second.max(1.0)).min(1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_is_over() {
        let now = Instant::now();
        let mut state =
            StepCount { all: 10, begun: 1, estimate: Duration::from_secs(50), first: Some(now) };
        assert_eq!(state.left(now), Duration::from_secs(50), "the first step is not over");
        state.begun = 3;
        assert_eq!(
            state.left(now + Duration::from_secs(4)),
            Duration::from_secs(16),
            "two took 4 s, eight are left"
        );
        state.begun = 11;
        assert_eq!(state.left(now + Duration::from_secs(20)), Duration::ZERO);
    }
}
