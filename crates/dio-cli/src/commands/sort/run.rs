//! Runs a sort or a check. Errors that can be found in advance are reported first.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;

use super::check::first_disorder;
use super::engine::{self, Input, SortFailure};
use super::options::SortOptions;
use super::target::SortOutput;
use super::terms::SortCheck;
use crate::quote::{named, quoted, words};
use crate::tool::messages::say;
use crate::tool::{Tool, die_of_a_closed_pipe, errno_of};

/// Sorts or checks; returns `false` if the checked file is not sorted. Errors are reported and
/// recorded in `tool`.
pub(super) fn run(tool: &Tool, options: &SortOptions) -> bool {
    match options.check {
        Some(how) => check(tool, options, how),
        None => {
            sort(tool, options);
            true
        }
    }
}

fn trouble(tool: &Tool, what: impl Display, name: &OsStr, error: &io::Error) {
    tool.error(format_args!("{what}: {}: {}", named(name), words(errno_of(error))));
}

fn sort(tool: &Tool, options: &SortOptions) {
    let readable = |name: &OsStr| accessat(CWD, name, Access::READ_OK, AtFlags::EACCESS);
    for name in options.inputs.iter().filter(|name| *name != "-") {
        if let Err(error) = readable(name) {
            return trouble(tool, "cannot read", name, &error.into());
        }
    }
    let mut target = match SortOutput::new(options.output.as_deref(), options.in_place) {
        Ok(target) => target,
        Err(error) => {
            return trouble(
                tool,
                "open failed",
                options.output.as_deref().unwrap_or_default(),
                &error.into(),
            );
        }
    };
    let merge = options.engine.merge;
    let inputs = options.inputs.iter();
    let inputs: Vec<Input> = inputs
        .map(|name| Input { name: name.clone(), is_output: merge && target.overwrites(name) })
        .collect();
    let sorted = engine::sort(tool, &inputs, &options.order, &options.engine, &mut |how| {
        target.open(tool, how)
    });
    if let Err(failure) = sorted.and_then(|()| target.keep().map_err(SortFailure::Write)) {
        tell(tool, &target, &failure);
        target.give_up();
    }
}

fn tell(tool: &Tool, target: &SortOutput, failure: &SortFailure) {
    match failure {
        SortFailure::Input { name, error } => trouble(tool, "open failed", name, error),
        SortFailure::Read { name, error } => trouble(tool, "read failed", name, error),
        SortFailure::Create { directory, error } => {
            let place = quoted(directory);
            tool.error(format_args!(
                "cannot create temporary file in {place}: {}",
                words(errno_of(error))
            ));
        }
        SortFailure::Keep { directory, error } => {
            let place = quoted(directory);
            tool.error(format_args!(
                "write failed: temporary file in {place}: {}",
                words(errno_of(error))
            ));
        }
        SortFailure::Fetch { directory, error } => {
            let place = quoted(directory);
            tool.error(format_args!(
                "read failed: temporary file in {place}: {}",
                words(errno_of(error))
            ));
        }
        SortFailure::Start { program, error } => {
            tool.error(format_args!(
                "couldn't execute compress program {}: {}",
                quoted(program),
                words(errno_of(error))
            ));
        }
        SortFailure::Program { program, decompress, how } => {
            let option = if *decompress { " -d" } else { "" };
            tool.error(format_args!("{}{option} terminated abnormally: {how}", quoted(program)));
        }
        SortFailure::Open(error) => trouble(tool, "open failed", target.name(), error),
        SortFailure::Write(error) => {
            die_of_a_closed_pipe(errno_of(error));
            trouble(tool, "write failed", target.name(), error);
            if let Some(cure) = target.cure(errno_of(error)) {
                tool.note(format_args!("{}: {cure}", named(target.name())));
            }
        }
        SortFailure::Memory(error) => {
            tool.error(format_args!("memory exhausted: {}", words(errno_of(error))))
        }
    }
}

fn check(tool: &Tool, options: &SortOptions, how: SortCheck) -> bool {
    let name = &options.inputs[0];
    let mut source = match tool.open(Path::new(name)) {
        Ok(source) => source,
        Err(error) => {
            // GNU sort opens a directory without an error, and fails when it reads.
            let what = if errno_of(&error) == Errno::ISDIR { "read failed" } else { "open failed" };
            trouble(tool, what, name, &error);
            return true;
        }
    };
    let terminator = options.engine.terminator;
    let found = first_disorder(&mut source, &options.order, terminator, options.engine.unique);
    let found = match found.and_then(|found| source.close().map(|()| found)) {
        Ok(found) => found,
        Err(error) => {
            trouble(tool, "read failed", name, &error);
            return true;
        }
    };
    let Some(disorder) = found else { return true };
    if how == SortCheck::Aloud {
        let place = format!("{}: {}:{}: disorder: ", tool.name(), name.display(), disorder.number);
        let text = [place.as_bytes(), &disorder.text, &[terminator]].concat();
        say(&text);
    }
    false
}
