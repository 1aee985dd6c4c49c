//! `dio record export` and `dio record import`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dio_advise::exchange::{ExchangeError, Exchanged, Format, export, import};
use dio_advise::trace::TraceWriter;

use super::create::create;
use crate::commands::words;
use crate::quote::quoted;

/// Traces in the formats of other tools.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Exchange {
    Export(ExportArgs),
    Import(ImportArgs),
}

/// The values of `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OtherFormat {
    /// What fio replays (read_iolog)
    Iolog,
    /// A line for each call
    Csv,
    /// What blkparse prints
    Blkparse,
}

impl From<OtherFormat> for Format {
    fn from(format: OtherFormat) -> Format {
        match format {
            OtherFormat::Iolog => Format::Iolog,
            OtherFormat::Csv => Format::Csv,
            OtherFormat::Blkparse => Format::Blkparse,
        }
    }
}

/// Write a trace in another format
///
/// csv has all that is known of each call. iolog (version 3) and blkparse have reads, writes and
/// syncs of all threads in one order; in blkparse, the files lie one after another on one disk. An
/// iolog names the recorded files. fio would write to them, so a trace with writes needs --files,
/// which makes others.
#[derive(Debug, clap::Args)]
pub(super) struct ExportArgs {
    /// The format
    #[arg(long, value_enum)]
    format: OtherFormat,

    /// Make the files of an iolog in DIR, with their recorded sizes, and name these
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    files: Option<PathBuf>,

    /// Write to FILE instead of standard output
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// The trace, of `dio record`
    #[arg(value_name = "TRACE", value_hint = clap::ValueHint::FilePath)]
    trace: PathBuf,
}

/// Make a trace of another format
///
/// Reads iolog of the versions 2 and 3, csv as export writes it, and what blkparse prints. What
/// these formats do not have, such as the times that requests took, is 0.
#[derive(Debug, clap::Args)]
pub(super) struct ImportArgs {
    /// The format
    #[arg(long, value_enum)]
    format: OtherFormat,

    /// Write the trace to TRACE; one that exists is replaced, any other file is left alone
    #[arg(short, long, value_name = "TRACE", value_hint = clap::ValueHint::FilePath)]
    output: PathBuf,

    /// The file in the other format
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    input: PathBuf,
}

/// Exports or imports; returns the exit status.
pub(super) fn run(exchange: &Exchange) -> ExitCode {
    let done = match exchange {
        Exchange::Export(args) => exported(args),
        Exchange::Import(args) => imported(args),
    };
    match done {
        Ok(done) => {
            if done.left_out > 0 {
                complain(&format!("left out: {} requests", done.left_out));
            }
            if done.is_cut {
                complain("the trace was cut, or still grows");
            }
            ExitCode::SUCCESS
        }
        Err(text) => {
            complain(&text);
            ExitCode::FAILURE
        }
    }
}

fn complain(text: &str) {
    eprintln!("dio record: {text}");
}

fn open(path: &Path) -> Result<BufReader<File>, String> {
    let file = File::open(path);
    let failed = |error| format!("cannot read {}: {}", quoted(path), words(&error));
    file.map(BufReader::new).map_err(failed)
}

fn told(error: ExchangeError, input: &Path, output: Option<&Path>) -> String {
    match error {
        ExchangeError::Write(error) => {
            let name = output.map_or_else(|| "standard output".to_owned(), quoted);
            format!("cannot write {name}: {}", words(&error))
        }
        ExchangeError::Read(error) => format!("cannot read {}: {}", quoted(input), words(&error)),
        ExchangeError::Files(error) => error.to_string(),
        other => format!("{}: {other}", quoted(input)),
    }
}

fn exported(args: &ExportArgs) -> Result<Exchanged, String> {
    let trace = open(&args.trace)?;
    let output = args.output.as_deref();
    let mut out: Box<dyn Write> = match output {
        Some(path) => {
            let file = File::create(path);
            let failed = |error| format!("cannot write {}: {}", quoted(path), words(&error));
            Box::new(BufWriter::new(file.map_err(failed)?))
        }
        None => Box::new(BufWriter::new(io::stdout().lock())),
    };
    export(trace, args.format.into(), args.files.as_deref(), &mut out)
        .map_err(|error| told(error, &args.trace, output))
}

fn imported(args: &ImportArgs) -> Result<Exchanged, String> {
    let input = open(&args.input)?;
    let cannot_write =
        |error: io::Error| format!("cannot write {}: {}", quoted(&args.output), words(&error));
    let trace = create(&args.output).map_err(cannot_write)?;
    let mut writer = TraceWriter::new(&trace).map_err(cannot_write)?;
    let done = import(input, args.format.into(), &mut writer)
        .map_err(|error| told(error, &args.input, Some(&args.output)))?;
    trace.sync_all().map_err(cannot_write)?;
    Ok(done)
}
