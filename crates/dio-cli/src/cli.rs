//! The grammar of the `dio` command.

use clap::{CommandFactory, Parser};

/// Direct I/O for Linux: files, copies and measurements that leave the page cache alone
#[derive(Debug, Parser)]
#[command(name = "dio", version)]
pub struct Cli {}

/// The command line's definition, from which help, man pages and completions are made.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}
