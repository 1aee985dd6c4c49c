//! `dio advise`: whether the I/O of a command should go another way.

mod args;
mod aside;
mod database;
mod prove;
mod said;
mod sample;
mod sizes;
mod verdict;

use std::process::ExitCode;

use args::Advice;

pub use args::AdviseArgs;

/// Runs the command; returns the exit status.
pub(crate) fn run(args: AdviseArgs) -> ExitCode {
    match &args.what {
        Some(Advice::Sizes(args)) => sizes::run(args),
        Some(Advice::Database(args)) => database::run(args),
        None => verdict::run(&args),
    }
}
