//! `dio record`: records the I/O of a command.

mod create;
mod exchange;
mod subject;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use dio_advise::record::{RecordError, shell_status};
use dio_advise::trace::TraceWriter;

use super::words;
use crate::quote::quoted;
use create::RecordedTrace;

pub(super) use subject::{AttachArgs, recorded};

/// Run a command and record its requests to files
///
/// The trace has each call of the command and its descendants that reads, writes, syncs, truncates
/// or opens a file, or that lists, looks at or changes names: when, how long, by which thread, at
/// which place, how many bytes and with which result. It is readable while it grows, and nearly up
/// to the end if dio is killed. Of mapped memory it has the first touches and the first writes, and
/// it has the requests of io_uring and asynchronous I/O. That needs root, or CAP_BPF and
/// CAP_PERFMON; without these, commands are watched by ptrace(2), which takes longer and does not
/// see what moves otherwise than by system calls. The exit status is that of the command.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct RecordArgs {
    #[command(subcommand)]
    exchange: Option<exchange::Exchange>,

    /// Write the trace to TRACE; one that exists is replaced, any other file is left alone
    #[arg(short, long, value_name = "TRACE", required = true, value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,

    #[command(flatten)]
    attached: AttachArgs,

    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        required_unless_present = "running",
        conflicts_with = "running",
        trailing_var_arg = true,
        value_hint = clap::ValueHint::CommandWithArguments
    )]
    command: Vec<OsString>,
}

/// Runs the command; returns its exit status, or 125 if it was not recorded wholly.
pub(crate) fn run(args: RecordArgs) -> ExitCode {
    if let Some(exchange) = args.exchange {
        return exchange::run(&exchange);
    }
    let output = args.output.expect("the grammar asks for it");
    let mut trace = match RecordedTrace::open(&output) {
        Ok(trace) => trace,
        Err(error) => {
            eprintln!("dio record: cannot write {}: {}", quoted(&output), words(&error));
            return ExitCode::from(FAILED);
        }
    };
    let done = TraceWriter::new(&mut trace)
        .map_err(RecordError::Trace)
        .and_then(|writer| recorded(&args.attached, &args.command, writer));
    let synced = trace.sync().map_err(RecordError::Trace);
    drop(trace);
    match done.and_then(|recorded| synced.map(|()| recorded)) {
        Ok(recorded) => {
            if recorded.lost > 0 {
                eprintln!(
                    "dio record: {} calls are missing: they came faster than they were recorded",
                    recorded.lost
                );
            }
            ExitCode::from(shell_status(recorded.status))
        }
        Err(error) => failed("record", &error),
    }
}

/// The exit status if dio itself fails, as of `env` and `timeout`.
pub(super) const FAILED: u8 = 125;

/// Reports an error; returns the exit status, which is that of shells for a command that cannot be
/// run.
pub(super) fn failed(command: &str, error: &RecordError) -> ExitCode {
    let complain = |text: &str| eprintln!("dio {command}: {text}");
    match error {
        RecordError::Start { program, error } => {
            complain(&format!("cannot run '{program}': {}", words(error)));
            ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
        }
        RecordError::Process { pid, error } => {
            complain(&format!("cannot watch process {pid}: {}", words(error)));
            ExitCode::from(FAILED)
        }
        RecordError::Directory { path, error } => {
            complain(&format!("cannot watch who uses {}: {}", quoted(path), words(error)));
            ExitCode::from(FAILED)
        }
        RecordError::Trace(error) => {
            complain(&format!("cannot write the trace: {}", words(error)));
            ExitCode::from(FAILED)
        }
        other => {
            complain(&other.to_string());
            if let RecordError::Watch(watch) = other
                && let Some(cure) = watch.cure()
            {
                complain(cure);
            }
            ExitCode::from(FAILED)
        }
    }
}
