//! `dio bench`: measurements that anyone can repeat, printed beside published ones.

mod copy;
mod database;
mod disks;
mod increments;
mod locks;
mod oltp;
mod pipeline;
mod progress;
mod random;
mod storage;
mod streams;
mod stripe;
pub(super) mod wal;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use dio_bench::BenchError;
use dio_bench::cold::Cold;
use dio_bench::section::Benchmark;
use dio_bench::{commands, data, undo};

use crate::stop::Stop;

/// Measure reading, copying, committing and waiting for locks, direct and through the page cache
///
/// Each measurement names the machine it was made on. Files of random data are made for it and removed again.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    workload: Workload,
}

/// The workloads.
#[derive(Debug, Subcommand)]
enum Workload {
    Increments(increments::IncrementsArgs),
    Locks(locks::LocksArgs),
    Oltp(oltp::OltpArgs),
    Copy(copy::CopyArgs),
    Database(database::DatabaseArgs),
    Disks(disks::DisksArgs),
    Pipeline(pipeline::PipelineArgs),
    Random(random::RandomArgs),
    Streams(streams::StreamsArgs),
    Stripe(stripe::StripeArgs),
    #[command(hide = true)]
    StripeDisks(stripe::DisksArgs),
    /// Serve files over the network; for `dio bench stripe` itself
    #[command(hide = true)]
    StripeServer,
    Wal(wal::WalArgs),
}

/// What is emptied before a run.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ColdArg {
    /// All caches of the system where that is allowed (for root), else the file's pages
    System,
    /// The pages of the file only
    File,
}

impl From<ColdArg> for Cold {
    fn from(cold: ColdArg) -> Cold {
        match cold {
            ColdArg::System => Cold::System,
            ColdArg::File => Cold::File,
        }
    }
}

/// Runs a workload and prints its report.
pub fn run(args: BenchArgs) -> ExitCode {
    let args = match args.workload {
        // Has no thread but this one yet, and the server must have none that stays behind in the namespaces of others.
        Workload::StripeDisks(args) => return finish(stripe::serve_disks(args).map(well)),
        workload => BenchArgs { workload },
    };
    progress::show();
    let work = move || match args.workload {
        Workload::Increments(args) => increments::run(args).map(well),
        Workload::Locks(args) => locks::run(args),
        Workload::Oltp(args) => oltp::run(args).map(well),
        Workload::Copy(args) => copy::run(args).map(well),
        Workload::Database(args) => database::run(args).map(well),
        Workload::Disks(args) => disks::run(args).map(well),
        Workload::Pipeline(args) => pipeline::run(args).map(well),
        Workload::Random(args) => random::run(args).map(well),
        Workload::Streams(args) => streams::run(args).map(well),
        Workload::Stripe(args) => stripe::run(args).map(well),
        Workload::StripeDisks(_) => unreachable!("it has been served"),
        Workload::StripeServer => stripe::serve_files().map(well),
        Workload::Wal(args) => wal::run(args).map(well),
    };
    finish(with_signals(work))
}

/// Prints what came out.
fn finish(outcome: Result<(String, u8), BenchError>) -> ExitCode {
    match outcome {
        Ok((text, status)) => {
            // A reader that went away is no failure of the measurement.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::from(status)
        }
        Err(error) => {
            eprintln!("dio: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures. A signal that ends the program takes away first what was made and started.
pub(super) fn with_signals<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BenchError> + Send + 'static,
) -> Result<T, BenchError> {
    // Before there is anything to remove. The measuring thread is left alone; a signal is looked for beside it.
    let stop = Stop::on_signals();
    let work = std::thread::Builder::new().name("bench".into()).spawn(work);
    let work = work.map_err(|error| BenchError::Asked(format!("cannot start a thread: {error}")))?;
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

/// A measurement that is not to end otherwise.
fn well(text: String) -> (String, u8) {
    (text, 0)
}

/// A result as JSON on request, else as text.
pub(super) fn show<R: Benchmark>(result: &R, json: bool) -> Result<String, BenchError> {
    if json { result.json() } else { Ok(result.text()) }
}
