//! `dio sum` and the commands `md5sum`, `sha1sum`, `sha224sum`, `sha256sum`, `sha384sum`, `sha512sum`, `b2sum`, `b3sum`,
//! `cksum` and `sum`: digests of files, computed and checked, with GNU's grammar, output and messages.
//!
//! `args` → `options` (validated) → `read` (the digests of one file, in one read) for every operand, several at a time,
//! → `format`; or, to check, `list` (what the lines say) → `check`. `digest` computes.

mod args;
mod check;
mod digest;
mod encode;
mod format;
mod list;
mod options;
mod read;

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dio::pipeline::Pipeline;

pub use args::{B2Args, B3Args, Checks, HashArgs, Mark, SumArgs};
#[cfg(feature = "fuzzing")]
pub(crate) use list::fuzz_list;

use crate::tool::{IoArgs, Mode, Tool, called_as};
use digest::Algorithm;
use options::{Family, Options, UsageError};
use read::Helpers;

/// A command of the `md5sum` family whose digest has one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// `md5sum`
    Md5,
    /// `sha1sum`
    Sha1,
    /// `sha224sum`
    Sha224,
    /// `sha256sum`
    Sha256,
    /// `sha384sum`
    Sha384,
    /// `sha512sum`
    Sha512,
}

impl Hash {
    fn command(self) -> (&'static str, Algorithm) {
        match self {
            Self::Md5 => ("md5sum", Algorithm::Md5),
            Self::Sha1 => ("sha1sum", Algorithm::Sha1),
            Self::Sha224 => ("sha224sum", Algorithm::Sha224),
            Self::Sha256 => ("sha256sum", Algorithm::Sha256),
            Self::Sha384 => ("sha384sum", Algorithm::Sha384),
            Self::Sha512 => ("sha512sum", Algorithm::Sha512),
        }
    }
}

/// Runs `dio sum`, or `sum` where that is the name of the link that was called. Returns 0 if all is well, else 1.
pub fn run(args: SumArgs) -> ExitCode {
    let family = if called_as("sum") == "sum" { Family::Sum } else { Family::Dio };
    sum("sum", args, family)
}

/// Runs `cksum`.
pub fn run_cksum(args: SumArgs) -> ExitCode {
    sum("cksum", args, Family::Cksum)
}

fn sum(command: &'static str, args: SumArgs, family: Family) -> ExitCode {
    let (io, debug) = (args.io.clone(), args.debug);
    let options = Options::sum(args, family);
    if debug && options.is_ok() {
        let name = called_as(command);
        eprintln!(
            "{name}: using {} hardware support",
            crc_fast::get_calculator_target(crc_fast::CrcAlgorithm::Crc32Cksum)
        );
    }
    start(command, &io, options, true)
}

/// Runs a command of the `md5sum` family.
pub fn run_hash(hash: Hash, args: HashArgs) -> ExitCode {
    let ((command, algorithm), io) = (hash.command(), args.io.clone());
    start(command, &io, Options::hash(algorithm, args), false)
}

/// Runs `b2sum`.
pub fn run_b2(args: B2Args) -> ExitCode {
    let io = args.hash.io.clone();
    start("b2sum", &io, Options::b2(args), false)
}

/// Runs `b3sum`.
pub fn run_b3(args: B3Args) -> ExitCode {
    let io = args.hash.io.clone();
    start("b3sum", &io, Options::b3(args), false)
}

fn start(command: &'static str, io: &IoArgs, options: Result<Options, UsageError>, group: bool) -> ExitCode {
    let options = match options {
        Ok(options) => options,
        Err(error) => return refuse(Tool::new(command, &IoArgs::default()), &error),
    };
    // `--strict` is about lists when one is checked, and about the mode when a mode was asked for.
    let strict = io.strict && (options.check.is_none() || io.mode != Mode::Auto);
    let tool = Tool::new(command, &IoArgs { strict, ..io.clone() });
    if let Err(status) = tool.begin(options.files.iter().map(|file| file.as_os_str())) {
        return status;
    }
    let cpus = options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let helpers = Helpers::new(cpus);
    match &options.check {
        Some(check) => {
            let lists = options.files.iter();
            let bad = lists.filter(|file| !check::list(&tool, file, check, group, &helpers)).count();
            if bad > 0 {
                tool.fail();
            }
        }
        None => compute(&tool, &options, &helpers),
    }
    tool.finish()
}

/// Tells a command line that makes no sense.
fn refuse(tool: Tool, error: &UsageError) -> ExitCode {
    if let Some(first) = error.first() {
        tool.note(first);
    }
    tool.error(error);
    if error.wants_help() {
        // Nobody can be told that standard error is closed.
        let _ = writeln!(io::stderr(), "Try '{} --help' for more information.", tool.name());
    }
    tool.finish()
}

/// Prints the digests of the operands, in their order, whichever is done first.
fn compute(tool: &Tool, options: &Options, helpers: &Helpers) {
    let mut files = options.files.iter();
    let print = |file: &Path, sums: Vec<digest::Sum>| {
        let mut lines = Vec::new();
        for (kind, sum) in options.kinds.iter().zip(&sums) {
            options.format.write(&mut lines, *kind, sum, file.as_os_str().as_bytes())?;
        }
        tool.print(&lines)
    };
    let run = Pipeline::new(workers(&options.files, helpers)).run(
        || Ok(files.next()),
        || |file: &PathBuf| Ok((file, read::file(tool, file, &options.kinds, helpers))),
        |(file, sums)| match sums {
            Ok(sums) => print(file, sums),
            Err(error) => {
                tool.file_error(file, &error);
                Ok(())
            }
        },
    );
    if let Err(error) = run {
        tool.write_failed(&error);
    }
}

/// How many files are worked on at a time; 0 is one after the other, in this thread.
fn workers(files: &[PathBuf], helpers: &Helpers) -> usize {
    // Standard input gives its bytes to the one who is first.
    let stdins = files.iter().filter(|file| file.as_os_str() == "-").count();
    if files.len() < 2 || stdins > 1 { 0 } else { helpers.files().min(files.len()) }
}
