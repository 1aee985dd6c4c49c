//! `TAR_OPTIONS`: options that are read before those of the command line.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use super::args::TarArgs;
use super::ordered::Flag;
use super::split::split_words;
use super::terms::{NAME, fatal};
use crate::grammar::{Grammar, Line, Refusal, Stop, called_as};

const VARIABLE: &str = "TAR_OPTIONS";

/// Reads the options of the environment variable.
///
/// # Errors
/// The exit status, if the options are invalid, which is reported here, or ask for help.
pub(super) fn read(grammar: &Grammar<TarArgs>, args: &mut TarArgs) -> Result<(), ExitCode> {
    let Some(text) = std::env::var_os(VARIABLE) else { return Ok(()) };
    let words = split_words(text.as_bytes());
    let words =
        words.map_err(|why| grammar.refuse(&fatal(format!("cannot split {VARIABLE}: {why}"))))?;
    if let Err(stop) = grammar.fold(args, &mut Line::new(words)) {
        let is_unreadable = matches!(stop, Stop::Unreadable(_));
        let status = grammar.stopped(stop);
        if is_unreadable {
            // If standard error is closed, no message can be printed.
            let _ =
                writeln!(std::io::stderr().lock(), "{}: error parsing {VARIABLE}", called_as(NAME));
        }
        return Err(status);
    }
    let is_name =
        |flag: &Flag| matches!(flag, Flag::Name(_) | Flag::AddFile(_) | Flag::FilesFrom(_));
    match args.ordered.iter().any(is_name) {
        true => Err(grammar.refuse(&Refusal::usage(format!("non-option arguments in {VARIABLE}")))),
        false => Ok(()),
    }
}
