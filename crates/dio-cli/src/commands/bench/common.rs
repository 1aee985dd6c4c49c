//! Code that the workloads share.

use std::time::Duration;

use dio_bench::BenchError;
use dio_bench::cold::EmptiedCaches;
use dio_bench::section::Benchmark;
use dio_bench::{commands, data, undo};

use crate::stop::Stop;

/// What is emptied before a run.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum ColdArg {
    /// All caches of the system where that is allowed (for root), else the file's pages
    System,
    /// The pages of the file only
    File,
}

impl From<ColdArg> for EmptiedCaches {
    fn from(cold: ColdArg) -> EmptiedCaches {
        match cold {
            ColdArg::System => EmptiedCaches::System,
            ColdArg::File => EmptiedCaches::File,
        }
    }
}

/// Measures. A signal that ends the program first removes and stops everything that the measurement
/// created.
pub(in crate::commands) fn with_signals<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BenchError> + Send + 'static,
) -> Result<T, BenchError> {
    // The handlers are installed before there is anything to remove. The measuring thread is not
    // interrupted; this thread polls for signals.
    let stop = Stop::on_signals();
    let work = std::thread::Builder::new().name("bench".into()).spawn(work);
    let work =
        work.map_err(|error| BenchError::Asked(format!("cannot start a thread: {error}")))?;
    while !work.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        if stop.asked() {
            commands::kill_all();
            undo::undo_all();
            data::remove_all();
            stop.die_if_asked();
        }
    }
    let outcome = work.join();
    undo::undo_rest();
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Returns a result as JSON on request, otherwise as text.
pub(in crate::commands) fn show<R: Benchmark>(
    result: &R,
    json: bool,
) -> Result<String, BenchError> {
    if json { result.json() } else { Ok(result.text()) }
}
