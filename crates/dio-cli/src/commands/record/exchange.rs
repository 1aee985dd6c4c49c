//! `dio record export` and `dio record import`.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dio_advise::exchange::{ExchangeError, Exchanged, Format, NewFiles, export, import};
use dio_advise::trace::TraceWriter;

use super::create::check_replaceable;
use crate::commands::words;
use crate::quote::quoted;
use crate::stop::Stop;
use crate::tool::whole::WholeFile;

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
            match done.damage {
                None => ExitCode::SUCCESS,
                Some(damage) => {
                    complain(&format!("the trace: {damage}"));
                    ExitCode::FAILURE
                }
            }
        }
        Err(text) => {
            // Its files are removed.
            Stop::on_signals().die_if_asked();
            complain(&text);
            ExitCode::FAILURE
        }
    }
}

fn complain(text: &str) {
    eprintln!("dio record: {text}");
}

fn open(path: &Path) -> Result<File, String> {
    File::open(path).map_err(|error| format!("cannot read {}: {}", quoted(path), words(&error)))
}

fn cannot_write(output: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {}", quoted(output), words(error))
}

fn told(error: ExchangeError, input: &Path, output: Option<&Path>) -> String {
    match error {
        ExchangeError::Write(error) => match output {
            Some(output) => cannot_write(output, &error),
            None => format!("cannot write standard output: {}", words(&error)),
        },
        ExchangeError::Read(error) => format!("cannot read {}: {}", quoted(input), words(&error)),
        ExchangeError::Files(error) => error.to_string(),
        other => format!("{}: {other}", quoted(input)),
    }
}

fn exported(args: &ExportArgs) -> Result<Exchanged, String> {
    let trace = open(&args.trace)?;
    let output = args.output.as_deref();
    // Without files, a signal finds nothing to remove.
    let stop = args.files.is_some().then(Stop::on_signals);
    let is_stopped = || stop.is_some_and(Stop::asked);
    let mut files = args.files.as_deref().map(|dir| NewFiles::within(dir, &is_stopped));
    let export_to = |out: &mut dyn Write, files: Option<&mut NewFiles<'_>>| {
        export(BufReader::new(&trace), args.format.into(), files, out)
            .map_err(|error| told(error, &args.trace, output))
    };
    let done = match output {
        Some(path) => written(path, &trace, |out| export_to(out, files.as_mut()))?,
        None => export_to(&mut BufWriter::new(io::stdout().lock()), files.as_mut())?,
    };
    files.into_iter().for_each(NewFiles::keep);
    Ok(done)
}

fn imported(args: &ImportArgs) -> Result<Exchanged, String> {
    let input = open(&args.input)?;
    let failed = |error: io::Error| cannot_write(&args.output, &error);
    check_replaceable(&args.output).map_err(failed)?;
    written(&args.output, &input, |out| {
        let mut writer = TraceWriter::new(out).map_err(failed)?;
        import(BufReader::new(&input), args.format.into(), &mut writer)
            .map_err(|error| told(error, &args.input, Some(&args.output)))
    })
}

/// Writes a file, which takes its name if that succeeds.
fn written(
    path: &Path,
    source: &File,
    write: impl FnOnce(&mut dyn Write) -> Result<Exchanged, String>,
) -> Result<Exchanged, String> {
    let failed = |error: io::Error| cannot_write(path, &error);
    let mut out = WholeFile::open(path).map_err(failed)?;
    if out.replaces(source).map_err(failed)? {
        return Err(failed(io::Error::other("it is the file that is read")));
    }
    match write(&mut out) {
        Ok(done) => out.keep().map(|()| done).map_err(failed),
        Err(text) => {
            out.discard();
            Err(text)
        }
    }
}
