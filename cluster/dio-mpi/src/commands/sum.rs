//! `dio-mpi sum`: digests computed and checked by all ranks.

use std::ffi::OsString;
use std::process::ExitCode;

use dio_cli::commands::sum::shared::{Command, Worker};

use crate::crew;
use crate::transport::Ranks;

/// Runs the command in this rank. Only rank 0 returns another status than success.
pub(super) fn run(ranks: &mut Ranks, words: Vec<OsString>) -> ExitCode {
    let here = ranks.ranks_here();
    if ranks.rank() == 0 {
        let command = Command::parse(words.clone());
        crew::begin(ranks, command.is_ok());
        let command = match command {
            Ok(command) => command,
            Err(status) => return status,
        };
        return match Worker::parse(words, here) {
            Ok(worker) => crew::lead(
                ranks,
                worker.threads(),
                |job| worker.work(job),
                |crew| command.lead(crew),
            ),
            Err(status) => status,
        };
    }
    if !crew::has_begun(ranks) {
        return ExitCode::SUCCESS;
    }
    match Worker::parse(words, here) {
        Ok(worker) => crew::follow(ranks, worker.threads(), |job| worker.work(job)),
        // Rank 0 has taken these words, so all ranks were not called with the same ones.
        Err(_) => ranks.abort(2),
    }
}
