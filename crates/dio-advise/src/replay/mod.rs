//! Replays a trace on files of its own: the recorded requests, in the recorded order within each
//! thread and with its pauses, so that a faster disk makes a faster replay.
//!
//! A trace does not say which thread waits for which. A thread that slept before a request is taken
//! to have waited for the last request that another thread ended meanwhile, and a thread begins
//! after what was done last before its first request. All other pauses are the thread's own.

mod buffer;
mod handle;
mod lanes;
mod model;
pub(crate) mod plan;
pub(crate) mod planned;
mod run;
pub(crate) mod scratch;

use std::io::Read;
use std::path::Path;

use scratch::Scratch;

pub use model::{ReplayError, ReplayMode, ReplayOptions, Replayed, Speed};

/// Replays a trace on files in a new directory within `within`, which goes afterwards. The recorded
/// files are not touched. The plan takes some 120 bytes of memory for each request. `is_stopped` is
/// asked from time to time whether to stop.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(
    trace: impl Read,
    within: &Path,
    options: ReplayOptions,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Replayed, ReplayError> {
    let (plan, end) = plan::plan(trace)?;
    let scratch = Scratch::new(&plan, within, is_stopped)?;
    let done = run::run(&plan, &scratch, options, is_stopped)?;
    let requests = plan.threads.iter().map(|thread| thread.requests.len() as u64);
    Ok(Replayed {
        mode: options.mode,
        speed: options.speed,
        threads: requests.clone().filter(|count| *count > 0).count() as u64,
        files: plan.files.iter().filter(|file| file.is_used).count() as u64,
        requests: requests.sum(),
        bytes: done.bytes,
        differing: done.differing,
        left_out: plan.left_out,
        is_cut: end.is_cut,
        damage: end.damage.map(|damage| damage.to_string()),
        seconds: done.time.as_secs_f64(),
        recorded_seconds: plan.recorded as f64 / 1e9,
    })
}

#[cfg(test)]
mod tests;
