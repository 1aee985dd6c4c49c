//! The common parts of studies that compare kinds of storage: the contenders, the meters that run
//! beside the load, and the report.

mod contender;
pub(crate) mod device;
pub(crate) mod memory;
pub(crate) mod meters;
pub(crate) mod mount;
pub(crate) mod observe;
pub(crate) mod plots;
mod result;
pub mod run;
pub(crate) mod section;
pub(crate) mod series;

pub use contender::Contender;
pub use meters::Used;
pub use result::Reference;
pub(crate) use result::Study;
pub use run::{Bucket, ContenderRow, ContenderRun, Phase, Point, Response};
pub(crate) use section::ReportTexts;

use std::process::{Command, Stdio};

use serde_json::{Map, Value};

use crate::BenchError;
use crate::commands::{Running, said};

/// A map of settings by name.
pub(crate) fn named<const N: usize>(settings: [(&str, Value); N]) -> Map<String, Value> {
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Runs a command, which ends with this process, and returns what it printed.
///
/// # Errors
/// When the program does not exist; when it fails, with its standard error.
pub(crate) fn run_for_stdout(command: &mut Command) -> Result<String, BenchError> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    said(&shown, Running::start(command, &shown)?.output())
}

/// The order of the runs: contenders one after the other, where each round begins one further down
/// the list. Yields pairs of the round and the contender's index.
pub(crate) fn turns(rounds: usize, contenders: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rounds).flat_map(move |round| {
        (0..contenders).map(move |turn| (round, (turn + round) % contenders))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_begins_with_another() {
        let order: Vec<_> = turns(3, 2).collect();
        assert_eq!(order, [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1)]);
    }

    #[test]
    fn what_a_command_said_when_it_failed_is_told() {
        assert_eq!(run_for_stdout(Command::new("echo").arg("x")).unwrap(), "x\n");
        let error =
            run_for_stdout(Command::new("sh").args(["-c", "echo why >&2; exit 1"])).unwrap_err();
        assert_eq!(error.to_string(), "'sh' failed: why");
        let error = run_for_stdout(&mut Command::new("/nonexistent/program")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot start '/nonexistent/program': No such file or directory"
        );
    }
}
