//! A command line that makes no sense, told in GNU's words.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::args::OWN;
use super::called_as;
use crate::grammar::family;

/// Tells what is wrong with the command line `args` of the subcommand `command` of `grammar`, and returns `status`.
pub(crate) fn refuse(
    grammar: &clap::Command,
    args: &[OsString],
    command: &str,
    error: &clap::Error,
    status: u8,
) -> ExitCode {
    let name = called_as(command);
    let what = ambiguous(grammar.find_subcommand(command), args, error).unwrap_or_else(|| what(args, error));
    let mut err = io::stderr().lock();
    // Nobody can be told that standard error is closed.
    // gzip quotes as the GNU project did once.
    let quote = if family(command) == "gzip" { '`' } else { '\'' };
    let _ = writeln!(err, "{name}: {what}\nTry {quote}{name} --help' for more information.");
    ExitCode::from(status)
}

/// An option that is the beginning of several, which clap takes for an unknown one.
fn ambiguous(command: Option<&clap::Command>, args: &[OsString], error: &clap::Error) -> Option<String> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(given))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    let given = given.strip_prefix("--")?;
    let fits = |arg: &&clap::Arg| arg.get_long().is_some_and(|long| long.starts_with(given));
    let mut possible: Vec<&clap::Arg> = command?.get_arguments().filter(fits).collect();
    if possible.len() < 2 {
        return None;
    }
    // dio's own options are told where the model's alone would not be several.
    let models = |arg: &&clap::Arg| arg.get_help_heading() != Some(OWN);
    if possible.iter().copied().filter(models).count() > 1 {
        possible.retain(models);
    }
    let shown = as_given(args, &format!("--{given}"));
    let longs: String = possible.iter().filter_map(|arg| arg.get_long()).map(|long| format!(" '--{long}'")).collect();
    Some(format!("option '{shown}' is ambiguous; possibilities:{longs}"))
}

/// The option with the value that was attached to it, as GNU's tools show what they do not know.
fn as_given(args: &[OsString], option: &str) -> String {
    let with_value = |arg: &&str| arg.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
    args.iter().filter_map(|arg| arg.to_str()).find(with_value).unwrap_or(option).to_owned()
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
            format!("unrecognized option '{}'", as_given(args, argument))
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
