//! `dio cp`: GNU cp's grammar, tree walk, metadata and messages, with the contents moved by dio.
//!
//! `args` parses the command line and `options` validates it; `operands` decides where each operand
//! goes. `copy` copies one entry: it lets `examine` check the target, then makes it. `tree` copies
//! directories, whose entries are distributed through `queue`. `data` moves bytes, `metadata` sets
//! attributes, and `durable` decides how everything reaches the medium. `shared` is for a copy that
//! several processes do together. `mirror` and `removal` make a target like its source, and
//! `comparison` compares.

mod args;
mod checks;
mod comparison;
mod copy;
mod data;
mod dirs;
mod durable;
mod entry;
mod error;
mod examine;
mod facts;
mod links;
mod made;
mod metadata;
mod mirror;
mod mounts;
mod notes;
mod open;
mod operands;
mod options;
mod pairs;
mod parents;
mod queue;
mod ranges;
mod removal;
mod report;
mod role;
mod session;
pub mod shared;
mod tree;
mod values;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[cfg(feature = "fuzzing")]
pub(crate) use data::fuzz_note;

use crate::grammar::{Grammar, Program, Refusal};
use crate::tool::Destination;
use args::CpArgs;
use operands::{TargetPath, Walk};
use options::{CpOptions, Operands};
use queue::RunJobs;
use session::CopyRun;

pub(crate) const PROGRAM: Program =
    Program { name: "cp", describe: |_| args::grammar().describe(), run };

/// A command line that was checked, and what it leads to.
struct Parsed {
    options: CpOptions,
    sources: Vec<PathBuf>,
    place: TargetPath,
    receipt: Option<Destination>,
}

impl Parsed {
    /// Parses a command line, and opens the receipt.
    ///
    /// # Errors
    /// The exit status, if nothing is to be copied; the message was printed.
    fn parse(
        (grammar, args): (&Grammar<CpArgs>, CpArgs),
        line: Vec<OsString>,
    ) -> Result<Parsed, ExitCode> {
        grammar.resolve_from(args, line, |args| {
            let (options, operands) = CpOptions::resolve(args)?;
            let place = operands::place(&operands, options.parents)?;
            let receipt = receipt(&options, &operands, &place)?;
            Ok(Parsed { options, sources: operands.sources, place, receipt })
        })
    }

    /// Whether each file is synced by itself, because there are few.
    fn per_file_sync(&self) -> bool {
        // The names of directories that --parents makes have to be synced too.
        let (most, recursive) = (durable::PER_FILE_SYNC_OPERANDS_MAX, self.options.recursive);
        !self.options.parents && !operands::is_tree(&self.sources, recursive, most)
    }
}

/// Runs `dio cp`: prints messages, and returns 0 if everything was copied, else 1.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let parsed = match Parsed::parse((&args::grammar(), CpArgs::default()), line) {
        Ok(parsed) => parsed,
        Err(status) => return status,
    };
    let per_file_sync = parsed.per_file_sync();
    let Parsed { options, sources, place, receipt } = parsed;
    let session = CopyRun::new(options, sources.len() > 1, per_file_sync, (session::workers(), 0));
    if let Err(error) = session.data.check_engine() {
        session.report.error(error);
        return ExitCode::FAILURE;
    }
    let mut lane = session.lane();
    let mut walk = Walk::new(&session, place, sources.len() > 1);
    for source in &sources {
        walk.operand(&mut lane, source);
    }
    let durable = session.settle(&mut lane);
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
