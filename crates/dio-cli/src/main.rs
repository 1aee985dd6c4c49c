//! Entry point of the `dio` command.

use clap::Parser;

fn main() -> std::process::ExitCode {
    dio_cli::cli::Cli::parse().run()
}
