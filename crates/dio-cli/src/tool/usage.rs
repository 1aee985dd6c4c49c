//! A command line that makes no sense, told in GNU's words.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::called_as;

/// Tells what is wrong with the command line of `command`, and returns `status`.
pub(crate) fn refuse(command: &str, error: &clap::Error, status: u8) -> ExitCode {
    let name = called_as(command);
    let mut err = io::stderr().lock();
    // Nobody can be told that standard error is closed.
    let _ = writeln!(err, "{name}: {}\nTry '{name} --help' for more information.", what(error));
    ExitCode::from(status)
}

/// What is wrong, in one line.
fn what(error: &clap::Error) -> String {
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
        (ErrorKind::InvalidValue, Some(ContextValue::String(value))) if value.is_empty() => missing_value(argument),
        (ErrorKind::TooManyValues, _) => {
            format!("option '{}' doesn't allow an argument", argument.split(['=', ' ', '[']).next().unwrap_or(argument))
        }
        _ => said.to_owned(),
    }
}

/// `-b <SIZE>` or `--bytes <SIZE>` was given without its value.
fn missing_value(argument: &str) -> String {
    let option = argument.split([' ', '=']).next().unwrap_or(argument);
    match option.strip_prefix("--") {
        Some(_) => format!("option '{option}' requires an argument"),
        None => format!("option requires an argument -- '{}'", option.trim_start_matches('-')),
    }
}
