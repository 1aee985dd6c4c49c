//! `TAR_OPTIONS`: options that come before those of the command line.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use clap::{Args, Command, FromArgMatches};

use super::args::TarArgs;
use super::options::Refusal;
use super::ordered::Flag;
use super::split::split_words;
use super::{NAME, refuse};
use crate::tool;

const VARIABLE: &str = "TAR_OPTIONS";

/// The status of GNU tar where options of the environment cannot be read (`EX_USAGE`).
const WRONG: u8 = 64;

/// The options, as words of a command line.
///
/// # Errors
/// The status, if they make no sense; that is told.
pub(super) fn options() -> Result<Vec<OsString>, ExitCode> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(Vec::new()) };
    let failed = |why| refuse(&Refusal::Fatal(format!("cannot split {VARIABLE}: {why}")));
    let mut words = split_words(text.as_bytes()).map_err(failed)?;
    if words.is_empty() {
        return Ok(words);
    }
    let parse = |words: &[OsString]| {
        let grammar = TarArgs::augment_args(Command::new(NAME).version("").no_binary_name(true));
        grammar.try_get_matches_from(words).and_then(|matches| TarArgs::from_arg_matches(&matches))
    };
    if let Some((last, before)) = words.split_last()
        && last == "--"
        && parse(before).is_ok()
    {
        // It ends these options, not those that follow.
        words.pop();
    }
    match parse(&words) {
        Ok(args) => {
            let is_name = |flag: &Flag| matches!(flag, Flag::Name(_) | Flag::AddFile(_) | Flag::FilesFrom(_));
            match args.ordered.0.iter().any(is_name) {
                true => Err(refuse(&Refusal::usage(format!("non-option arguments in {VARIABLE}")))),
                false => Ok(words),
            }
        }
        // --help and --version.
        Err(error) if !error.use_stderr() => Ok(words),
        Err(error) => {
            let status = tool::refuse(&crate::cli::command(), &words, NAME, &error, WRONG);
            // Nobody can be told that standard error is closed.
            let _ = writeln!(std::io::stderr().lock(), "{}: error parsing {VARIABLE}", tool::called_as(NAME));
            Err(status)
        }
    }
}
