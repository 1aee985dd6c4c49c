//! The grammar of the `dio` command: help, man pages and completions are made from these definitions.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::commands::{bench, cache, cp, probe};

/// Direct I/O for Linux: files, copies and measurements that leave the page cache alone
#[derive(Debug, Parser)]
#[command(name = "dio", version, propagate_version = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
enum Command {
    /// Copy files and trees past the page cache
    Cp(cp::CpArgs),
    Probe(probe::ProbeArgs),
    Cache(cache::CacheArgs),
    Bench(bench::BenchArgs),
}

/// Reads the command line and runs what it says; returns the exit status.
///
/// A command line that makes no sense is status 2, but 1 for `dio cp`, as with GNU cp, and told in its words.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let error = match Cli::try_parse_from(&args) {
        Ok(cli) => return cli.run(),
        Err(error) => error,
    };
    if error.use_stderr() && args.get(1).is_some_and(|command| command == "cp") {
        return cp::refuse(&error);
    }
    // Nobody can be told that the terminal is closed.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

impl Cli {
    /// Runs the command and returns its exit status.
    #[must_use]
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::Cp(args) => cp::run(args),
            Command::Probe(args) => probe::run(args),
            Command::Cache(args) => cache::run(args),
            Command::Bench(args) => bench::run(args),
        }
    }
}

/// The command line's definition, from which help, man pages and completions are made.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}
