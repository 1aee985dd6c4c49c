//! `dio-mpi tar`: archives that all ranks write or extract.

use std::ffi::OsString;
use std::process::ExitCode;

use dio_cli::commands::tar::shared::{Command, Worker};

use crate::crew;
use crate::transport::Ranks;

/// Maximum number of pieces or batches of files that a rank writes at a time.
const PIECES_MAX: usize = 8;

/// Runs the command in this rank. Only rank 0 returns another status than success.
pub(super) fn run(ranks: &mut Ranks, words: Vec<OsString>) -> ExitCode {
    // Two for each processor, since a job reads and writes in turn.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (2 * processors / ranks.ranks_here().max(1)).clamp(1, PIECES_MAX);
    crew::run(
        ranks,
        words,
        Command::parse,
        |words| Worker::parse(words).map(|worker| (threads, worker)),
        |worker, job| worker.work(job),
        |command, crew| command.lead(crew),
    )
}
