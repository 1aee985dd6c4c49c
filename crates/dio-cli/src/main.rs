//! Entry point of the `dio` command.

use clap::Parser;
use dio_cli::commands::{cache, probe};

/// Direct I/O for Linux
#[derive(Parser)]
#[command(name = "dio", version)]
enum Command {
    Probe(probe::ProbeArgs),
    Cache(cache::CacheArgs),
}

fn main() -> std::process::ExitCode {
    match Command::parse() {
        Command::Probe(args) => probe::run(args),
        Command::Cache(args) => cache::run(args),
    }
}
