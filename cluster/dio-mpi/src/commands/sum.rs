//! `dio-mpi sum`: digests computed and checked by all ranks.

use std::ffi::OsString;
use std::process::ExitCode;

use dio_cli::commands::sum::shared::{Command, Worker};

use crate::crew;
use crate::transport::Ranks;

/// Runs the command in this rank. Only rank 0 returns another status than success.
pub(super) fn run(ranks: &mut Ranks, words: Vec<OsString>) -> ExitCode {
    let here = ranks.ranks_here();
    crew::run(
        ranks,
        words,
        Command::parse,
        |words| Worker::parse(words, here).map(|worker| (worker.threads(), worker)),
        |worker, job| worker.work(job),
        |command, crew| command.lead(crew),
    )
}
