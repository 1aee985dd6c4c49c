//! The grammar of the `dio` command: the tools that have a GNU model, which read their options by tables of their own (see
//! `grammar`), and dio's other commands, which clap reads. Help, man pages and completions are made of both.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{FromArgMatches, Subcommand};

#[cfg(feature = "bench")]
use crate::commands::{bench, report, synctest};
use crate::commands::{
    cache, cat, cp, dd, gzip, install_mount_helper, mount, probe, run, sort, split, stat, stripe, sum, tar, tee,
    umount, uniq, wal, zstd,
};
use crate::grammar::Program;
use crate::tool;

/// The tools that have a GNU model, each with a grammar of its own.
const TOOLS: &[&[Program]] = &[
    &[cp::PROGRAM, cat::PROGRAM, dd::PROGRAM, tee::PROGRAM, split::PROGRAM, sort::PROGRAM, uniq::PROGRAM],
    &sum::PROGRAMS,
    &gzip::PROGRAMS,
    &zstd::PROGRAMS,
];

fn programs() -> impl Iterator<Item = &'static Program> {
    TOOLS.iter().copied().flatten()
}

/// The other commands.
#[derive(Debug, Subcommand)]
enum Command {
    Tar(Box<tar::TarArgs>),
    Stat(stat::StatArgs),
    Stripe(stripe::StripeArgs),
    Probe(probe::ProbeArgs),
    Cache(cache::CacheArgs),
    #[cfg(feature = "bench")]
    Bench(bench::BenchArgs),
    #[cfg(feature = "bench")]
    Report(report::ReportArgs),
    #[cfg(feature = "bench")]
    Synctest(Box<synctest::SynctestArgs>),
    Mount(mount::MountArgs),
    Umount(umount::UmountArgs),
    InstallMountHelper(install_mount_helper::InstallArgs),
    Run(run::RunArgs),
    Wal(wal::WalArgs),
    #[command(hide = true)]
    RunServer(run::ServerArgs),
}

/// Reads the command line and runs what it says; returns the exit status.
///
/// A command line that makes no sense is status 2, but for the tools that have a model: there it is the model's, and told in
/// its words. Called by a link that has a tool's name, the program is that tool.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = tool::resolve(args);
    if let Some(program) = command_of(&args).and_then(|name| programs().find(|program| program.name == name)) {
        let status = (program.run)(program.name, args.split_off(2));
        return ended(program.name, status);
    }
    let args = match modern(args) {
        Ok(args) => args,
        Err(status) => return status,
    };
    let error = match command().try_get_matches_from(&args).and_then(|matches| Command::from_arg_matches(&matches)) {
        Ok(command) => return ended(command_of(&args).unwrap_or_default(), command.run()),
        Err(error) => error,
    };
    let model = args.get(1).and_then(|command| tool::model(command));
    if let (true, Some((command, status))) = (error.use_stderr(), model) {
        return tool::refuse(&self::command(), &args, command, &error, status);
    }
    // Nobody can be told that the terminal is closed.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Tells what a command that has ended left to be told; returns the exit status.
fn ended(command: &str, status: ExitCode) -> ExitCode {
    if status != ExitCode::SUCCESS {
        tool::tell_reasons(command);
    }
    // A server has nobody to tell, and does not fail by what its users put there.
    let serves = matches!(command, "mount" | "run-server");
    let failed = !serves && tool::tell_unfollowed(command) && status == ExitCode::SUCCESS;
    if failed { ExitCode::FAILURE } else { status }
}

/// The name of the command.
fn command_of(args: &[OsString]) -> Option<&str> {
    args.get(1)?.to_str()
}

/// The command line as clap can read it: some of the old forms look like numbers or like names.
fn modern(args: Vec<OsString>) -> Result<Vec<OsString>, ExitCode> {
    match command_of(&args) {
        Some("tar") => tar::modern(args),
        _ => Ok(args),
    }
}

impl Command {
    /// Runs the command and returns its exit status.
    fn run(self) -> ExitCode {
        match self {
            Command::Tar(args) => tar::run(*args),
            Command::Stat(args) => stat::run(args),
            Command::Stripe(args) => stripe::run(args),
            Command::Probe(args) => probe::run(args),
            Command::Cache(args) => cache::run(args),
            #[cfg(feature = "bench")]
            Command::Bench(args) => bench::run(args),
            #[cfg(feature = "bench")]
            Command::Report(args) => report::run(args),
            #[cfg(feature = "bench")]
            Command::Synctest(args) => synctest::run(*args),
            Command::Mount(args) => mount::run(args),
            Command::Umount(args) => umount::run(args),
            Command::InstallMountHelper(args) => install_mount_helper::run(args),
            Command::Run(args) => run::run(args),
            Command::Wal(args) => wal::run(args),
            Command::RunServer(args) => run::serve(args),
        }
    }
}

/// The command line's definition, from which help, man pages and completions are made.
#[must_use]
pub fn command() -> clap::Command {
    let command = clap::Command::new("dio")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(programs().map(|program| (program.describe)(program.name)));
    Command::augment_subcommands(command)
        .about("Direct I/O for Linux: files, copies and measurements that leave the page cache alone")
}

#[cfg(test)]
mod tests {
    #[test]
    fn commands_that_measure_come_with_the_feature_bench() {
        let command = super::command();
        let has = |name: &str| command.find_subcommand(name).is_some();
        for name in ["cp", "cat", "tar", "mount", "wal"] {
            assert!(has(name), "{name}");
        }
        let with = cfg!(feature = "bench");
        assert_eq!(["bench", "report", "synctest"].map(has), [with; 3]);
        let wal = command.find_subcommand("wal").unwrap();
        assert_eq!(wal.find_subcommand("bench").is_some(), with);
    }
}
