//! `dio bench`: measurements that anyone can repeat, printed beside published ones.
//!
//! Options and messages are here and not in `dio-bench`, because they use this crate's grammar,
//! signal handling and file replacement, which a crate below cannot use.

mod common;
mod copy;
mod database;
mod disks;
mod increments;
mod locks;
mod oltp;
mod pipeline;
pub(super) mod progress;
mod random;
mod storage;
mod streams;
mod stripe;
pub(super) mod wal;

use std::io::Write;
use std::process::ExitCode;

use clap::Subcommand;
use dio_bench::BenchError;

use common::ColdArg;
pub(super) use common::{show, with_signals};

/// Measure reading, copying, committing and waiting for locks, direct and through the page cache
///
/// Each measurement names the machine it was made on. Files of random data are made for it and
/// removed again.
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

/// Runs a workload and prints its report.
pub fn run(args: BenchArgs) -> ExitCode {
    let args = match args.workload {
        // At this point the process has only one thread. The server must not have others, because
        // they would stay in the namespaces that it leaves.
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

/// Prints the result.
fn finish(outcome: Result<(String, u8), BenchError>) -> ExitCode {
    match outcome {
        Ok((text, status)) => {
            // A closed pipe is no failure of the measurement.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::from(status)
        }
        Err(error) => {
            eprintln!("dio: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the text of a measurement that succeeded, with status 0.
fn well(text: String) -> (String, u8) {
    (text, 0)
}
