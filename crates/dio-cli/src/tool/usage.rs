//! A command line that makes no sense, told in GNU's words.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::called_as;

/// Tells what is wrong with the command line `args` of the subcommand `command` of `grammar`, and returns `status`.
pub(crate) fn refuse(
    grammar: &clap::Command,
    args: &[OsString],
    command: &str,
    error: &clap::Error,
    status: u8,
) -> ExitCode {
    let name = called_as(command);
    let what = ambiguous(grammar.find_subcommand(command), error).unwrap_or_else(|| what(args, error));
    let mut err = io::stderr().lock();
    // Nobody can be told that standard error is closed.
    let _ = writeln!(err, "{name}: {what}\nTry '{name} --help' for more information.");
    ExitCode::from(status)
}

/// An option that is the beginning of several, which clap takes for an unknown one.
fn ambiguous(command: Option<&clap::Command>, error: &clap::Error) -> Option<String> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(given))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let given = given.split('=').next()?.strip_prefix("--")?;
    let longs = command?.get_arguments().filter_map(clap::Arg::get_long);
    let possible: Vec<String> =
        longs.filter(|long| long.starts_with(given)).map(|long| format!(" '--{long}'")).collect();
    (possible.len() > 1).then(|| format!("option '--{given}' is ambiguous; possibilities:{}", possible.concat()))
}

/// What is wrong, in one line.
fn what(args: &[OsString], error: &clap::Error) -> String {
    let text = error.to_string();
    // The first paragraph says what is wrong and which values there are; the rest is for `--help`.
    let said = text.split("\n\n").next().unwrap_or_default();
    let said = said.strip_prefix("error: ").unwrap_or(said).trim_end();
    let argument = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.as_str(),
        _ => return said.to_owned(),
    };
    match (error.kind(), error.get(ContextKind::InvalidValue)) {
        (ErrorKind::UnknownArgument, _) if argument.starts_with("--") => {
            format!("unrecognized option '{}'", argument.split('=').next().unwrap_or(argument))
        }
        (ErrorKind::UnknownArgument, _) if argument.starts_with('-') => {
            format!("invalid option -- '{}'", argument.trim_start_matches('-'))
        }
        (ErrorKind::UnknownArgument, _) => format!("extra operand '{argument}'"),
        // clap knows a missing value as an empty one.
        (ErrorKind::InvalidValue, Some(ContextValue::String(value))) if value.is_empty() => {
            missing_value(args, argument)
        }
        (ErrorKind::TooManyValues, _) => {
            format!("option '{}' doesn't allow an argument", argument.split(['=', ' ', '[']).next().unwrap_or(argument))
        }
        _ => said.to_owned(),
    }
}

/// `--bytes <SIZE>` was given without its value, under that name or a short one: then it stood at the end.
fn missing_value(args: &[OsString], argument: &str) -> String {
    let option = argument.split([' ', '=']).next().unwrap_or(argument);
    let last = args.last().and_then(|last| last.to_str()).unwrap_or_default();
    match last.strip_prefix('-').filter(|shorts| !shorts.starts_with('-')).and_then(|shorts| shorts.chars().last()) {
        Some(short) => format!("option requires an argument -- '{short}'"),
        None => format!("option '{option}' requires an argument"),
    }
}
