//! Commands for the development of the project:
//! `cargo xtask setup | test | python | soak | fuzz | deny | ci | style | docs | package`.

mod ci;
mod cluster;
mod deny;
mod filesystems;
mod fuzz;
mod hang;
mod package;
mod python;
mod readme;
mod scratch;
mod setup;
mod style;
mod suite;
mod tally;
mod tool;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// The error of a chore: a message for the user.
type Error = Box<dyn std::error::Error>;

/// Set-up, tests and generated documents of dio
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Install what tests and comparisons need, where it is missing
    Setup,
    /// Run all tests on every file system
    Test {
        /// Run the tests of the workspace `cluster` instead, which needs MPI
        #[arg(long)]
        cluster: bool,
        /// Passed on to `cargo test`, for example `-- -p dio` or `-- -- name_of_a_test`
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Run the tests of the Python module only
    Python {
        /// Passed on to pytest, for example `-- -k name_of_a_test`
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Run the random tests for a long time: command lines beside their models, damage, several
    /// programs on one file
    Soak {
        /// How long each of them goes on
        #[arg(long, default_value_t = 60)]
        minutes: u64,
        /// Part of the names of those wanted; without it all
        #[arg(default_value = "soak")]
        name: String,
    },
    /// Fuzz everything that reads bytes from elsewhere, guided by coverage, from the corpora in
    /// `fuzz/corpus`
    Fuzz {
        /// How long all targets take together, without building, such as 60s, 40m or 8h
        #[arg(
            long = "for",
            value_name = "TIME",
            default_value = "60s",
            value_parser = fuzz::parse_time
        )]
        time: Duration,
        /// Take inputs that reach something new into the corpora, with as few bytes as do
        #[arg(long)]
        keep: bool,
        /// Those wanted; without any, all
        targets: Vec<String>,
    },
    /// Format, lints, documentation and a minute of fuzzing, then all tests
    Ci,
    /// Check licences, sources and duplicates of all dependencies
    Deny,
    /// Check the rules of style
    Style,
    /// Write man pages and completions from the definitions of the flags
    Docs {
        /// Fail when the tracked ones differ, and write nothing
        #[arg(long)]
        check: bool,
    },
    /// Make the packages of Debian, the tarball and the crates, into `target/packages`
    Package(package::PackageArgs),
    /// Mount the file systems below DIR and run the tests; called by `test` in its own namespace
    #[command(hide = true)]
    TestInside {
        runner: String,
        dir: PathBuf,
        #[arg(last = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().chore) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a chore. Returns whether it found nothing wrong.
fn run(chore: Chore) -> Result<bool, Error> {
    match chore {
        Chore::Setup => Ok(setup::setup().is_complete()),
        Chore::Test { cluster: true, args } => Ok(cluster::cluster(&args)),
        Chore::Test { cluster: false, args } => Ok(suite::test(&args)),
        Chore::Python { args } => Ok(python::python(&args)),
        Chore::Soak { minutes, name } => Ok(suite::soak(minutes, &name)),
        Chore::Fuzz { time, keep, targets } => Ok(fuzz::fuzz(time, keep, &targets)),
        Chore::Deny => deny::deny(),
        Chore::Ci => Ok(ci::ci()),
        Chore::Style => style::report(),
        Chore::Docs { check } => docs(check),
        Chore::Package(args) => packages(&args),
        Chore::TestInside { runner, dir, args } => filesystems::test_inside(&runner, &dir, &args),
    }
}

/// Makes packages; the last line counts their checks, if there were any.
fn packages(args: &package::PackageArgs) -> Result<bool, Error> {
    let (well, tally) = package::package(args)?;
    if tally != tally::Tally::default() {
        println!("{tally}");
    }
    Ok(well)
}

/// Runs the package that makes the documents. It is a package of its own, because it links dio.
fn docs(check: bool) -> Result<bool, Error> {
    let mut command = tool::cargo();
    command
        .args(["run", "--quiet", "--package", "xtask-docs", "--"])
        .args(check.then_some("--check"));
    Ok(command.status()?.success())
}
