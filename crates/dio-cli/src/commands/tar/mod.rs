//! `dio tar`: GNU tar's options, archives and messages; dio moves the bytes.
//!
//! `args` and `ordered` contain the table of options; `date`, `owner`, `split` and `warnings` parse
//! their values, and `terms` defines the types they are parsed into. `environment` reads the
//! options of `TAR_OPTIONS`. `options` decides what the options mean in combination, with `names`
//! (operands, lists, directories), `pattern`, `masks`, `transform` and `compression`. `run` holds
//! the state of one run: messages, list, exit status. `archive` opens archives, compressed or not.
//! `format` reads and writes headers and members, without access to files. `create` writes
//! archives, `append` adds to them, `list`, `extract` and `diff` read them, and `select` picks the
//! members. `shared` is the part of one of several processes that write or extract an archive
//! together.

mod append;
mod archive;
mod args;
mod compression;
mod create;
mod date;
mod diff;
mod early_end;
mod environment;
mod extract;
pub mod format;
mod line;
mod list;
mod masks;
mod names;
mod options;
mod ordered;
mod owner;
mod parsed;
mod pattern;
mod program;
mod quoting;
mod run;
mod select;
pub mod shared;
mod split;
mod terms;
mod totals;
mod transform;
mod warnings;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::grammar::{Line, Program};
use crate::tool::Tool;
use args::TarArgs;
use options::{Operation, TarOptions};
use run::{EarlyEnd, TarRun};
use terms::NAME;

pub(crate) const PROGRAM: Program =
    Program { name: NAME, describe: |_| args::grammar().describe(), run: main };

/// Runs `dio tar`.
///
/// Returns 0 if everything was done, 1 if files differ or changed while they were read, else 2.
fn main(_: &str, line: Vec<OsString>) -> ExitCode {
    let options = match read(line) {
        Ok(options) => options,
        Err(status) => return status,
    };
    let mut run = match started(options) {
        Ok(run) => run,
        Err(status) => return status,
    };
    let ended = match run.options.operation {
        Operation::Create => create::run(&run),
        Operation::List => list::run(&run),
        Operation::Extract => extract::run(&run),
        Operation::Append | Operation::Update | Operation::Catenate => append::run(&mut run),
        Operation::Diff => diff::run(&run),
    };
    run.finish(ended)
}

/// Starts a run, and reports what the command line has been taken for.
fn started(options: TarOptions) -> Result<TarRun, ExitCode> {
    let tool = Tool::new(NAME, &options.io);
    let names =
        [Some(options.archive.as_os_str()), options.index_file.as_deref().map(AsRef::as_ref)];
    tool.begin(names.into_iter().flatten())?;
    let run = match TarRun::new(tool, options) {
        Ok(run) => run,
        Err(EarlyEnd::Fatal(message)) => return Err(terms::fatal(message).tell(NAME, 2)),
        Err(_) => return Err(ExitCode::from(2)),
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
        // When creating, each error is reported after the names before it have been archived.
        run.options.names.wrong.iter().for_each(|(_, message)| run.error(message));
    }
    Ok(run)
}

/// Reads `TAR_OPTIONS` and then the command line.
fn read(line: Vec<OsString>) -> Result<TarOptions, ExitCode> {
    let (mut args, mut line, grammar) = (TarArgs::default(), Line::new(line), args::grammar());
    environment::read(&grammar, &mut args)?;
    let read = grammar
        .fold_letters(&mut args, &mut line)
        .and_then(|()| grammar.fold(&mut args, &mut line));
    read.map_err(|stop| grammar.stopped(stop))?;
    TarOptions::of(args).map_err(|refusal| grammar.refuse(&refusal))
}
