//! `dio cp`: GNU cp's grammar, tree walk, metadata and messages, with the contents moved by dio.
//!
//! `args` parses the command line and `options` validates it; `operands` decides where each operand
//! goes. `copy` copies one entry: it lets `examine` check the target, then makes it. `tree` copies
//! directories, whose entries are distributed through `queue`. `data` moves bytes, `metadata` sets
//! attributes, and `durable` decides how everything reaches the medium.

mod args;
mod copy;
mod data;
mod dirs;
mod durable;
mod entry;
mod error;
mod examine;
mod links;
mod made;
mod metadata;
mod open;
mod operands;
mod options;
mod parents;
mod queue;
mod report;
mod session;
mod tree;
mod values;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

#[cfg(feature = "fuzzing")]
pub(crate) use data::fuzz_note;

use crate::grammar::{Program, Refusal};
use crate::tool::Destination;
use operands::{TargetPath, Walk};
use options::{CpOptions, Operands};
use queue::RunJobs;
use session::CopyRun;

pub(crate) const PROGRAM: Program =
    Program { name: "cp", describe: |_| args::grammar().describe(), run };

/// Runs `dio cp`: prints messages, and returns 0 if everything was copied, else 1.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let decided = args::grammar().resolve(line, |args| {
        let (options, operands) = CpOptions::resolve(args)?;
        let place = operands::place(&operands, options.parents)?;
        let receipt = receipt(&options, &operands, &place)?;
        Ok((options, operands, place, receipt))
    });
    let (options, operands, place, receipt) = match decided {
        Ok(decided) => decided,
        Err(status) => return status,
    };
    let sources = &operands.sources;
    // The names of directories that --parents makes have to be synced too.
    let per_file_sync = !options.parents
        && !operands::is_tree(sources, options.recursive, durable::PER_FILE_SYNC_OPERANDS_MAX);
    let session = CopyRun::new(options, sources.len() > 1, per_file_sync);
    if let Err(error) = session.data.check_engine() {
        session.report.error(error);
        return ExitCode::FAILURE;
    }
    let mut lane = session.lane();
    let mut walk = Walk::new(&session, place, sources.len() > 1);
    for source in sources {
        walk.operand(&mut lane, source);
    }
    if !session.queue().close(&session, &mut lane) {
        session.report.error("a worker stopped: not everything was copied");
    }
    let synced = session.durable.finish();
    session.data.finish();
    let durable = synced.is_ok() && session.options.sync && !session.report.failed();
    if let Err(error) = synced {
        session.report.error(error);
    }
    session.progress.finish();
    if session.data.stopped() {
        session.report.error(error::CopyError::Interrupted);
    }
    session.print_receipt(receipt, durable);
    let well = session.report.finish();
    crate::stop::Stop::on_signals().die_if_asked();
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Opens the receipt before anything is copied. It must be neither a source nor the target of one.
fn receipt(
    options: &CpOptions,
    operands: &Operands,
    place: &TargetPath,
) -> Result<Option<Destination>, Refusal> {
    let Some(path) = options.receipt.as_deref() else { return Ok(None) };
    let target = |source: &Path| match place {
        TargetPath::At(target) => target.clone(),
        TargetPath::Into(directory) => {
            let name = operands::name_in_directory(source, options.parents);
            directory.join(OsStr::from_bytes(name.as_bytes()))
        }
    };
    let targets: Vec<_> = operands.sources.iter().map(|source| target(source)).collect();
    let names = operands.sources.iter().chain(&targets).map(|name| name.as_os_str());
    Destination::open(path, names).map(Some).map_err(|refusal| refusal.of(path))
}
