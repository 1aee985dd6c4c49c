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

use std::process::ExitCode;

pub use args::{Attribute, CpArgs, Flag, Update};

use operands::{PlaceError, Walk};
use options::CpOptions;
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
    session.print_receipt(durable);
    let well = session.report.finish();
    crate::stop::Stop::on_signals().die_if_asked();
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
