//! `dio advise sizes`: which calls a command makes to each file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use dio_advise::record::shell_status;
use dio_advise::sizes::{SizesCounter, sizes};
use dio_advise::trace::{TraceEnd, TraceError};

use super::said::{ReportFile, complain, write_report};
use crate::commands::record::{AttachArgs, FAILED, failed, recorded};
use crate::commands::words;
use crate::quote::quoted;

/// Which calls a command makes to each file: how many, of which sizes, in which order
///
/// The report goes to standard error when the command has ended, so that the command runs as it
/// would without dio. For each file it has the calls by program and name: how many, the bytes that
/// they moved, the time that threads spent in them, the part that began where the call before
/// ended, and the sizes that were asked for. With root, or CAP_BPF and CAP_PERFMON, the command is
/// watched from within the kernel, otherwise by ptrace(2), which takes longer and sees less. The
/// exit status is that of the command.
#[derive(Debug, clap::Args)]
pub(super) struct SizesArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Write the report to FILE instead of standard error
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Look at a trace of `dio record`; the report goes to standard output
    #[arg(
        long,
        value_name = "TRACE",
        conflicts_with = "running",
        value_hint = clap::ValueHint::FilePath
    )]
    trace: Option<PathBuf>,

    #[command(flatten)]
    attached: AttachArgs,

    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        required_unless_present_any = ["trace", "running"],
        conflicts_with_all = ["trace", "running"],
        trailing_var_arg = true,
        value_hint = clap::ValueHint::CommandWithArguments
    )]
    command: Vec<OsString>,
}

/// Runs the subcommand; returns the exit status.
pub(super) fn run(args: &SizesArgs) -> ExitCode {
    let output = match ReportFile::open(args.output.as_ref()) {
        Ok(output) => output,
        Err(text) => {
            complain(&text);
            return ExitCode::from(FAILED);
        }
    };
    match &args.trace {
        Some(path) => of_trace(args, output, path),
        None => of_command(args, output),
    }
}

fn of_trace(args: &SizesArgs, output: Option<ReportFile<'_>>, path: &PathBuf) -> ExitCode {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => {
            complain(&format!("cannot read {}: {}", quoted(path), words(&error)));
            return ExitCode::from(1);
        }
    };
    let (report, end) = sizes(BufReader::new(file));
    let status = match end {
        Ok(TraceEnd::Whole) => ExitCode::SUCCESS,
        Ok(TraceEnd::Cut) => {
            complain(&format!("{} was cut, or still grows", quoted(path)));
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&format!("{}: {error}", quoted(path)));
            // The report is of what is before the damage; of another file there is none.
            if !matches!(error, TraceError::Damaged { .. }) {
                return ExitCode::FAILURE;
            }
            ExitCode::FAILURE
        }
    };
    written(write_report(&report, args.json, output, io::stdout()), status)
}

fn of_command(args: &SizesArgs, output: Option<ReportFile<'_>>) -> ExitCode {
    let mut counter = SizesCounter::default();
    let recorded = match recorded(&args.attached, &args.command, &mut counter) {
        Ok(recorded) => recorded,
        Err(error) => return failed("advise", &error),
    };
    let status = ExitCode::from(shell_status(recorded.status));
    written(write_report(&counter.report(), args.json, output, io::stderr()), status)
}

fn written(report: Result<(), String>, status: ExitCode) -> ExitCode {
    match report {
        Ok(()) => status,
        Err(text) => {
            complain(&text);
            ExitCode::from(FAILED)
        }
    }
}
