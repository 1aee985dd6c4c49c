//! `dio cp`: GNU cp's grammar, tree walk, metadata and words, with the contents moved by dio.
//!
//! `args` → `options` (validated) → `operands` (where each goes) → `copy` (one entry: `examine` the
//! target, then make it) and `tree` (directories, shared out through `queue`). `data` moves bytes;
//! `metadata` sets the rest; `durable` decides how all of it gets onto the medium.

mod args;
mod copy;
mod data;
mod dirs;
mod durable;
mod error;
mod examine;
mod links;
mod metadata;
mod open;
mod operands;
mod options;
mod parents;
mod queue;
mod report;
mod session;
mod tree;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

pub use args::{Attribute, CpArgs, Flag, Update};
#[cfg(feature = "fuzzing")]
pub(crate) use data::fuzz_note;

use crate::receipt::{Destination, Refusal};
use operands::{Place, PlaceError, Walk};
use options::{CpOptions, Operands};
use queue::Work;
use report::Report;
use session::Session;

/// Runs `dio cp`: prints what there is to say, and returns 0 if everything was copied, else 1.
pub fn run(args: CpArgs) -> ExitCode {
    let report = Report::new(false);
    let (options, operands) = match CpOptions::resolve(args) {
        Ok(resolved) => resolved,
        Err(error) => {
            report.usage(&error);
            return ExitCode::FAILURE;
        }
    };
    let place = match operands::place(&operands, options.parents) {
        Ok(place) => place,
        Err(PlaceError::Usage(error)) => {
            report.usage(&error);
            return ExitCode::FAILURE;
        }
        Err(PlaceError::Copy(error)) => {
            report.error(error);
            return ExitCode::FAILURE;
        }
    };
    let receipt = match receipt(&options, &operands, &place) {
        Ok(receipt) => receipt,
        Err((refusal, path)) => {
            let what = refusal.of(path);
            if matches!(refusal, Refusal::Open(_)) {
                report.error(what)
            } else {
                report.wrong_usage(what)
            }
            return ExitCode::FAILURE;
        }
    };
    let sources = &operands.sources;
    // Directories that --parents makes have names to be synced too.
    let per_file_sync = !options.parents && !operands::is_tree(sources, options.recursive, durable::FEW);
    let session = Session::new(options, sources.len() > 1, per_file_sync);
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

/// Opens the receipt before anything is copied. It is neither a source nor what a source is copied to.
fn receipt<'o>(
    options: &'o CpOptions,
    operands: &Operands,
    place: &Place,
) -> Result<Option<Destination>, (Refusal, &'o Path)> {
    let Some(path) = options.receipt.as_deref() else { return Ok(None) };
    let target = |source: &Path| match place {
        Place::At(target) => target.clone(),
        Place::Into(directory) => {
            let name = operands::name_in_directory(source, options.parents);
            directory.join(OsStr::from_bytes(name.as_bytes()))
        }
    };
    let targets: Vec<_> = operands.sources.iter().map(|source| target(source)).collect();
    let names = operands.sources.iter().chain(&targets).map(|name| name.as_os_str());
    Destination::open(path, names).map(Some).map_err(|refusal| (refusal, path))
}
