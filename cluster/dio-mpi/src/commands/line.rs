//! What rank 0 checks in the command line of `dio-mpi cp`, `sync` and `cmp` before the job begins.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use dio_cli::commands::cp::shared::{Command, THREADS_MAX, Tool};

use crate::journal::{self, Journal};

pub(super) fn number_of_threads(word: &OsStr) -> Option<usize> {
    word.to_str()?.parse().ok().filter(|threads| (1..=THREADS_MAX).contains(threads))
}

/// Refuses a number of threads that cannot be.
pub(super) fn check_threads(tool: Tool, word: Option<&OsStr>) -> Result<(), ExitCode> {
    match word {
        Some(word) if number_of_threads(word).is_none() => {
            say(tool, &format_args!("--threads is a number from 1 to {THREADS_MAX}"));
            Err(ExitCode::from(2))
        }
        _ => Ok(()),
    }
}

/// Checks the command line in rank 0, and opens its part of the journal at `path`.
pub(super) fn prepare(
    tool: Tool,
    words: Vec<OsString>,
    path: Option<&Path>,
) -> Result<(Command, Option<Journal>), ExitCode> {
    let identity = journal::identity_of(tool.name(), &words);
    let mut command = Command::parse(tool, words)?;
    let Some(path) = path else { return Ok((command, None)) };
    let refused = [
        (!command.is_synced(), "--journal needs what --no-sync leaves out"),
        (
            command.leaves_existing(),
            "--journal with -n or -u would leave files that were cut short as they are",
        ),
    ];
    if let Some((_, told)) = refused.iter().find(|(is_given, _)| *is_given) {
        say(tool, told);
        return Err(ExitCode::from(2));
    }
    let is_into = command.is_into();
    let (opened, was_into) = journal::open_first(tool.name(), path, &identity, is_into)?;
    if !was_into {
        command.go_on_at();
    }
    Ok((command, Some(opened)))
}

/// Prints a message of rank 0 beside those of the copy.
pub(super) fn say(tool: Tool, told: &dyn std::fmt::Display) {
    journal::say(tool.name(), told);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_a_number_in_limits() {
        let number = |word: &str| number_of_threads(OsStr::new(word));
        assert_eq!(
            ["1", "64", "0", "65", "-1", "x"].map(number),
            [Some(1), Some(64), None, None, None, None]
        );
    }
}
