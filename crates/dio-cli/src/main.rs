//! Entry point of the `dio` command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use dio_cli::commands::cp;

/// Direct I/O for Linux
#[derive(Parser)]
#[command(name = "dio", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Copy files and trees
    Cp(cp::CpArgs),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Cp(args) => cp::run(args),
    }
}
