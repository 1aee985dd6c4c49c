//! `dio sum` and the commands `md5sum`, `sha1sum`, `sha224sum`, `sha256sum`, `sha384sum`,
//! `sha512sum`, `b2sum`, `b3sum`, `cksum` and `sum`: digests of files, computed and checked, with
//! GNU's grammar, output and messages.
//!
//! `args` parses the command line and `options` validates it. To compute, `read` reads each operand
//! once for all its digests, several operands at a time, and `format` writes the lines; `blocks`
//! are the bytes of files or of pieces of them. To check, `list` parses the lines and `check`
//! compares the files. `shared` does both with several processes.

mod args;
mod blocks;
mod check;
mod encode;
mod format;
mod list;
mod options;
mod read;
pub mod shared;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dio::pipeline::Pipeline;

#[cfg(feature = "fuzzing")]
pub(crate) use list::fuzz_list;

use crate::grammar::Program;
use crate::quote::named;
use crate::tool::{IoArgs, Mode, Tool, called_as};
use args::{Command, SumArgs};
use dio_digest::Algorithm;
use options::SumOptions;
use read::{CHANGED, FileSums, Helpers};

pub(crate) const PROGRAMS: [Program; 10] = [
    program("sum"),
    program("md5sum"),
    program("sha1sum"),
    program("sha224sum"),
    program("sha256sum"),
    program("sha384sum"),
    program("sha512sum"),
    program("b2sum"),
    program("b3sum"),
    program("cksum"),
];

const fn program(name: &'static str) -> Program {
    Program { name, describe: |name| args::grammar(name).describe(), run }
}

/// Runs the command of that name. Returns 0 if everything is correct, else 1.
fn run(name: &'static str, line: Vec<OsString>) -> ExitCode {
    let command = match name {
        "sum" if called_as("sum") == "sum" => Command::Sum,
        "sum" => Command::Dio,
        "cksum" => Command::Cksum,
        "md5sum" => Command::Of(Algorithm::Md5),
        "sha1sum" => Command::Of(Algorithm::Sha1),
        "sha224sum" => Command::Of(Algorithm::Sha224),
        "sha256sum" => Command::Of(Algorithm::Sha256),
        "sha384sum" => Command::Of(Algorithm::Sha384),
        "sha512sum" => Command::Of(Algorithm::Sha512),
        "b3sum" => Command::Of(Algorithm::Blake3),
        _ => Command::Of(Algorithm::Blake2b),
    };
    let args = SumArgs { command, ..SumArgs::default() };
    let options = match args::grammar(name).resolve_from(args, line, SumOptions::of) {
        Ok(options) => options,
        Err(status) => return status,
    };
    if options.debug {
        tell_instructions(name);
    }
    // With --check and no mode, `--strict` applies to lists; otherwise it applies to the mode.
    let strict = options.io.strict && (options.check.is_none() || options.io.mode != Mode::Auto);
    let tool = Tool::new(name, &IoArgs { strict, ..options.io.clone() });
    if let Err(status) = tool.begin(options.files.iter().map(|file| file.as_os_str())) {
        return status;
    }
    let cpus = options
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let helpers = Helpers::new(cpus);
    match &options.check {
        Some(check) => {
            let group = check.accept.general;
            let lists = options.files.iter();
            let bad =
                lists.filter(|file| !check::list(&tool, file, check, group, &helpers)).count();
            if bad > 0 {
                tool.fail();
            }
        }
        None => compute(&tool, &options, &helpers),
    }
    tool.finish()
}

/// Says which instructions of the CPU are used.
fn tell_instructions(name: &str) {
    let target = crc_fast::get_calculator_target(crc_fast::CrcAlgorithm::Crc32Cksum);
    eprintln!("{}: using {target} hardware support", called_as(name));
}

/// Prints the digests of the operands in their order, whichever is finished first.
fn compute(tool: &Tool, options: &SumOptions, helpers: &Helpers) {
    let mut files = options.files.iter();
    let read = |file: &Path| match options.parts {
        None => read::file(tool, file, &options.kinds, helpers).map(FileSums::Whole),
        Some(length) => read::pieces(tool, file, &options.kinds, length, helpers),
    };
    let print = |file: &Path, sums: FileSums| {
        let mut lines = Vec::new();
        match &sums {
            FileSums::Whole(sums) => options.lines(&mut lines, file.as_os_str(), None, sums),
            FileSums::Pieces(pieces) => pieces.iter().for_each(|(piece, sums)| {
                options.lines(&mut lines, file.as_os_str(), Some(*piece), sums);
            }),
            FileSums::Changed => tool.error(format_args!("{}: {CHANGED}", named(file))),
        }
        tool.print(&lines)
    };
    let run = Pipeline::new(workers(&options.files, helpers)).run(
        || Ok(files.next()),
        || |file: &PathBuf| Ok((file, read(file))),
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

/// Returns how many files are read at a time; 0 means one after the other, in this thread.
fn workers(files: &[PathBuf], helpers: &Helpers) -> usize {
    // If standard input is named twice, the first operand must get its bytes.
    let stdins = files.iter().filter(|file| file.as_os_str() == "-").count();
    if files.len() < 2 || stdins > 1 { 0 } else { helpers.files().min(files.len()) }
}
