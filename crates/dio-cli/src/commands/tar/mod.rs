//! `dio tar`: GNU tar's grammar, archives and words, with the bytes moved by dio.
//!
//! `args` and `ordered` define the flags, `old` brings those without dashes into that form, `environment` has those of
//! `TAR_OPTIONS`, `options` validates them with `names`
//! (operands, lists, directories), `pattern`, `masks`, `transform`, `compression`, `date`, `owner` and `warnings`. `run` is one
//! run: messages, list, status. `archive` opens archives, compressed or not. `format` knows headers and members, without
//! files. `create` writes archives, `append` adds to them, `list`, `extract` and `diff` read them, and `select` picks the
//! members.

mod append;
mod archive;
mod args;
mod compression;
mod create;
mod date;
mod diff;
mod environment;
mod extract;
pub mod format;
mod line;
mod list;
mod masks;
mod names;
mod old;
mod options;
mod ordered;
mod owner;
mod pattern;
mod program;
mod quoting;
mod run;
mod select;
mod split;
mod totals;
mod transform;
mod warnings;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use crate::tool::{self, Tool};

pub use args::TarArgs;

use options::{Operation, Options, Refusal};
use run::{Ended, Run};

const NAME: &str = "tar";

/// Runs `dio tar`.
///
/// Returns 0 if everything was done, 1 if files differ or changed while they were read, else 2.
#[must_use]
pub fn run(args: TarArgs) -> ExitCode {
    let io = args.io.clone();
    let options = match Options::of(args) {
        Ok(options) => options,
        Err(refusal) => return refuse(&refusal),
    };
    let tool = Tool::sparing(NAME, &io);
    let names = [Some(options.archive.as_os_str()), options.index_file.as_deref().map(AsRef::as_ref)];
    if let Err(status) = tool.begin(names.into_iter().flatten()) {
        return status;
    }
    let mut run = match Run::new(tool, options) {
        Ok(run) => run,
        Err(Ended::Fatal(message)) => return refuse(&Refusal::Fatal(message)),
        Err(_) => return ExitCode::from(2),
    };
    let tells_dates = run.options.verbose > 0 || run.options.operation == Operation::List;
    for date in run.options.dates.iter().filter(|_| tells_dates) {
        date.understood(run.options.utc).iter().for_each(|how| run.note(how));
    }
    for list in &run.options.names.with_nuls {
        let what = format!("{}: file name read contains nul character", quoting::escaped(list));
        run.warn(warnings::Warning::FilenameWithNuls, what);
    }
    if run.options.operation != Operation::Create {
        // Creating, it is told when the names before it have been archived.
        run.options.names.wrong.iter().for_each(|(_, message)| run.error(message));
    }
    let ended = match run.options.operation {
        Operation::Create => create::run(&run),
        Operation::List => list::run(&run),
        Operation::Extract => extract::run(&run),
        Operation::Append | Operation::Update | Operation::Catenate => append::run(&mut run),
        Operation::Diff => diff::run(&run),
    };
    run.finish(ended)
}

/// The command line, `dio tar` and all, with letters of old as options that can be declared, behind those of `TAR_OPTIONS`.
///
/// # Errors
/// The status, if an argument is missing or `TAR_OPTIONS` makes no sense; that is told.
pub fn modern(mut args: Vec<OsString>) -> Result<Vec<OsString>, ExitCode> {
    let own = old::modern(args.split_off(2)).map_err(|refusal| refuse(&refusal))?;
    args.extend(environment::options()?);
    args.extend(own);
    Ok(args)
}

/// Tells why nothing is done.
fn refuse(refusal: &Refusal) -> ExitCode {
    let name = tool::called_as(NAME);
    let mut err = std::io::stderr().lock();
    // Nobody can be told that standard error is closed.
    let _ = match refusal {
        Refusal::Usage(message) => writeln!(err, "{name}: {message}\nTry '{name} --help' for more information."),
        Refusal::Plain(message) => writeln!(err, "{name}: {message}"),
        Refusal::Fatal(message) => {
            writeln!(err, "{name}: {message}\n{name}: Error is not recoverable: exiting now")
        }
    };
    ExitCode::from(2)
}
