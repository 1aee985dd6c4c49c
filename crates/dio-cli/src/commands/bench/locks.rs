//! `dio bench locks`: the locks that a command is blocked on.

use std::ffi::OsString;
use std::path::PathBuf;

use dio_bench::locks::{By, LocksPlan};
use dio_bench::{BenchError, locks};

use super::show;

/// Run a command and count what its threads are blocked on, by class of lock
///
/// There are three sources. Mounts of dio count blocks on their files' locks and request queues (as
/// `dio stat` shows them). Programs of dio report theirs when they end. The kernel reports blocks
/// on its own locks, above all on that of the inode, which writers of a file take. Root, or a user
/// with CAP_PERFMON and tracefs, sees every block in the kernel with its stack; other users get
/// samples of where the command's threads sleep. The output of the command goes to standard error.
#[derive(Debug, clap::Args)]
pub(super) struct LocksArgs {
    /// Ask this mount, or these, instead of all mounts of dio that there are
    #[arg(long = "mount", value_name = "PATH")]
    mounts: Vec<PathBuf>,

    /// How the kernel's locks are seen
    #[arg(long, value_name = "HOW", value_enum, default_value_t = KernelArg::Auto)]
    kernel: KernelArg,

    /// Count the kernel's locks of all processes, the servers of mounts among them
    #[arg(long)]
    system: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Write the report to FILE; what the command prints then goes to standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true,
          value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Ways to see the kernel's locks.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum KernelArg {
    /// By tracepoint where that is allowed, else by wait channels
    Auto,
    /// By tracepoint, or fail
    Tracepoint,
    /// By what threads sleep in
    WaitChannels,
}

/// Measures; returns the text to print, and the command's exit status.
pub(super) fn run(args: LocksArgs) -> Result<(String, u8), BenchError> {
    let plan = LocksPlan {
        command: args.command,
        mounts: args.mounts,
        by: match args.kernel {
            KernelArg::Auto => By::Best,
            KernelArg::Tracepoint => By::Tracepoint,
            KernelArg::WaitChannels => By::WaitChannels,
        },
        system: args.system,
        alone: args.output.is_none(),
    };
    let report = locks::run(&plan)?;
    // A signal that ended the command becomes a status as in shells.
    let status = report.status.or(report.signal.map(|signal| 128 + signal));
    let status = status.and_then(|status| u8::try_from(status).ok()).unwrap_or(1);
    let text = show(&report, args.json)?;
    let Some(path) = args.output else { return Ok((text, status)) };
    std::fs::write(&path, text).map_err(|error| {
        BenchError::Asked(format!(
            "cannot write '{}': {}",
            path.display(),
            crate::commands::words(&error)
        ))
    })?;
    Ok((String::new(), status))
}
