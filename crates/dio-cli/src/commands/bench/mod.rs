//! `dio bench`: measurements that anyone can repeat, printed beside published ones.

mod copy;
mod increments;
mod locks;
mod oltp;
mod pipeline;
mod random;
mod streams;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use dio_bench::BenchError;
use dio_bench::cold::Cold;
use dio_bench::{commands, data, undo};
use serde::Serialize;

use crate::stop::Stop;

/// Measure reading, copying and waiting for locks, direct and through the page cache
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
    Pipeline(pipeline::PipelineArgs),
    Random(random::RandomArgs),
    Streams(streams::StreamsArgs),
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
    // Before there is anything to remove. The measuring thread is left alone; a signal is looked for beside it.
    let stop = Stop::on_signals();
    let work = move || match args.workload {
        Workload::Increments(args) => increments::run(args).map(well),
        Workload::Locks(args) => locks::run(args),
        Workload::Oltp(args) => oltp::run(args).map(well),
        Workload::Copy(args) => copy::run(args).map(well),
        Workload::Pipeline(args) => pipeline::run(args).map(well),
        Workload::Random(args) => random::run(args).map(well),
        Workload::Streams(args) => streams::run(args).map(well),
    };
    let work = match std::thread::Builder::new().name("bench".into()).spawn(work) {
        Ok(work) => work,
        Err(error) => {
            eprintln!("dio: cannot start a thread: {error}");
            return ExitCode::FAILURE;
        }
    };
    while !work.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        if stop.asked() {
            commands::kill_all();
            undo::undo_all();
            data::remove_all();
            stop.die_if_asked();
        }
    }
    let text = work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    match text {
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

/// A measurement that is not to end otherwise.
fn well(text: String) -> (String, u8) {
    (text, 0)
}

/// A report as JSON on request, else as a table.
fn show<R: Serialize>(report: &R, json: bool, table: impl FnOnce(&R) -> String) -> Result<String, BenchError> {
    if !json {
        return Ok(table(report));
    }
    let text = serde_json::to_string_pretty(report);
    text.map(|text| text + "\n").map_err(|error| BenchError::Asked(format!("cannot write the report: {error}")))
}
