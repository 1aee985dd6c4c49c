//! `dio wal`: inspects a durable log, follows it, archives it, salvages damaged ones, and measures
//! a new one.

mod archive;
#[cfg(feature = "bench")]
mod bench;
mod dump;
mod log;
mod overlay;
mod salvage;
mod show;
mod tail;
mod verify;

use std::io;
use std::process::ExitCode;

use clap::Subcommand;

use log::{CommandError, DAMAGED, LogArgs, SOUND, explain, is_damage, open, parse_lsn};

/// Look at a durable log, follow it, archive it, take out what damage has left, and measure a new
/// one
///
/// A log is a directory of segments that a program writes through the library dio-wal. All of these
/// commands may run beside that program; none changes its log. The exit status is that of diff and
/// grep: 0 when the log is sound, 1 when it is damaged or records are missing, 2 when something
/// else kept the command from its work. See docs/wal.md.
#[derive(Debug, clap::Args)]
pub struct WalArgs {
    #[command(subcommand)]
    action: WalAction,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum WalAction {
    Dump(dump::DumpArgs),
    Verify(verify::VerifyArgs),
    Tail(tail::TailArgs),
    Archive(archive::ArchiveArgs),
    Salvage(salvage::SalvageArgs),
    #[cfg(feature = "bench")]
    Bench(bench::BenchArgs),
}

/// Runs a command. The exit status is 0, 1 or 2.
pub fn run(args: WalArgs) -> ExitCode {
    let outcome = match args.action {
        WalAction::Dump(args) => dump::run(&args),
        WalAction::Verify(args) => verify::run(&args),
        WalAction::Tail(args) => tail::run(&args),
        WalAction::Archive(args) => archive::run(&args),
        WalAction::Salvage(args) => salvage::run(&args),
        #[cfg(feature = "bench")]
        WalAction::Bench(args) => bench::run(args),
    };
    match outcome {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            if matches!(&error, CommandError::Standard(error)
                if error.kind() == io::ErrorKind::BrokenPipe)
            {
                crate::tool::die_of_a_closed_pipe(rustix::io::Errno::PIPE);
            }
            eprintln!("dio: {error}");
            ExitCode::from(error.status())
        }
    }
}
