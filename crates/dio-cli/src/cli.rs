//! The grammar of the `dio` command. Tools that reimplement an existing tool parse their options by
//! tables of their own (see `grammar`); clap parses dio's other commands. Help, man pages and
//! completions are made from both.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{FromArgMatches, Subcommand};

#[cfg(not(feature = "bench"))]
use crate::commands::measuring;
use crate::commands::{
    advise, cache, cat, cp, dd, gzip, install_mount_helper, links, mount, probe, record, replay,
    run, sort, split, stat, stripe, sum, tar, tee, umount, uniq, wal, zstd,
};
#[cfg(feature = "bench")]
use crate::commands::{bench, report, synctest};
use crate::grammar::{Program, set_link};
use crate::{overview, tool};

/// The tools that reimplement a GNU tool or the like. A link with the name of such a tool runs that
/// tool.
const TOOLS: &[&[Program]] = &[
    &[
        cp::PROGRAM,
        cat::PROGRAM,
        dd::PROGRAM,
        tar::PROGRAM,
        tee::PROGRAM,
        split::PROGRAM,
        sort::PROGRAM,
        uniq::PROGRAM,
    ],
    &sum::PROGRAMS,
    &gzip::PROGRAMS,
    &zstd::PROGRAMS,
];

/// Commands whose messages and exit statuses also follow an existing command, but which are not
/// available through links.
const OTHERS: &[Program] =
    &[mount::PROGRAM, umount::PROGRAM, install_mount_helper::PROGRAM, run::PROGRAM];

fn tools() -> impl Iterator<Item = &'static Program> {
    TOOLS.iter().copied().flatten()
}

fn programs() -> impl Iterator<Item = &'static Program> {
    tools().chain(OTHERS)
}

// The commands of dio's own.
#[derive(Debug, Subcommand)]
enum Command {
    Stat(stat::StatArgs),
    Stripe(stripe::StripeArgs),
    Probe(probe::ProbeArgs),
    Cache(cache::CacheArgs),
    Advise(advise::AdviseArgs),
    Record(record::RecordArgs),
    Replay(replay::ReplayArgs),
    #[cfg(feature = "bench")]
    Bench(bench::BenchArgs),
    #[cfg(feature = "bench")]
    Report(report::ReportArgs),
    #[cfg(feature = "bench")]
    Synctest(Box<synctest::SynctestArgs>),
    Wal(wal::WalArgs),
    #[command(name = "self")]
    Own(links::SelfArgs),
    #[command(hide = true)]
    RunServer(run::ServerArgs),
}

impl Command {
    fn run(self) -> ExitCode {
        match self {
            Command::Stat(args) => stat::run(args),
            Command::Stripe(args) => stripe::run(args),
            Command::Probe(args) => probe::run(args),
            Command::Cache(args) => cache::run(args),
            Command::Advise(args) => advise::run(args),
            Command::Record(args) => record::run(args),
            Command::Replay(args) => replay::run(&args),
            #[cfg(feature = "bench")]
            Command::Bench(args) => bench::run(args),
            #[cfg(feature = "bench")]
            Command::Report(args) => report::run(args),
            #[cfg(feature = "bench")]
            Command::Synctest(args) => synctest::run(*args),
            Command::Wal(args) => wal::run(args),
            Command::Own(args) => {
                links::run(args, &tools().map(|tool| tool.name).collect::<Vec<_>>())
            }
            Command::RunServer(args) => run::serve(args),
        }
    }
}

/// Parses the command line and runs the command; returns the exit status.
///
/// An invalid command line gives status 2. A tool that reimplements another gives the status and
/// the message of the original. If the program is called through a link that has a tool's name, it
/// is that tool.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut args = resolve(args);
    if let Some(program) =
        name_of(&args).and_then(|name| programs().find(|program| program.name == name))
    {
        return ended(program.name, (program.run)(program.name, args.split_off(2)));
    }
    #[cfg(not(feature = "bench"))]
    if measuring::is_meant(&args[1..]) {
        return measuring::run(&args[1..]);
    }
    match command()
        .try_get_matches_from(&args)
        .and_then(|matches| Command::from_arg_matches(&matches))
    {
        Ok(command) => ended(name_of(&args).unwrap_or_default(), command.run()),
        Err(error) => {
            // If the terminal is closed, there is nowhere to report that.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        }
    }
}

/// Prints the pending details of a command that has ended; returns the exit status.
fn ended(command: &str, status: ExitCode) -> ExitCode {
    if status != ExitCode::SUCCESS {
        tool::tell_reasons(command);
    }
    // A server has no user to report this to, and must not fail because of directories that its
    // users made.
    let serves = matches!(command, "mount" | "run-server");
    let failed = !serves && tool::tell_unfollowed(command) && status == ExitCode::SUCCESS;
    if failed { ExitCode::FAILURE } else { status }
}

/// Returns the name of the command.
fn name_of(args: &[OsString]) -> Option<&str> {
    args.get(1)?.to_str()
}

/// Returns the command line in the form `dio COMMAND ...`, with the command as the second word.
fn resolve(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if let Some(args) = mount::helper::translated(&args) {
        return args;
    }
    let called = args.first().and_then(|name| Path::new(name).file_name());
    if let Some(tool) = called.and_then(|called| tools().find(|tool| called == tool.name)) {
        args[0] = "dio".into();
        args.insert(1, tool.name.into());
        set_link(tool.name);
    }
    args
}

/// Returns the definition of the command line, from which help, man pages and completions are made.
#[must_use]
pub fn command() -> clap::Command {
    let command = clap::Command::new("dio")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(programs().map(|program| (program.describe)(program.name)));
    Command::augment_subcommands(command).override_help(overview::text()).about(
        "Direct I/O for Linux: files, copies and measurements that leave the page cache alone",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_measure_come_with_the_feature_bench() {
        let command = command();
        let has = |name: &str| command.find_subcommand(name).is_some();
        for name in ["cp", "cat", "tar", "mount", "wal", "self"] {
            assert!(has(name), "{name}");
        }
        let with = cfg!(feature = "bench");
        assert_eq!(["bench", "report", "synctest"].map(has), [with; 3]);
        let wal = command.find_subcommand("wal").unwrap();
        assert_eq!(wal.find_subcommand("bench").is_some(), with);
    }

    #[test]
    fn only_the_names_of_tools_are_tools() {
        let words =
            |line: &str| -> Vec<OsString> { line.split_whitespace().map(OsString::from).collect() };
        assert_eq!(resolve(words("dio cat x")), words("dio cat x"));
        assert_eq!(resolve(words("/bin/dio-1 cat")), words("/bin/dio-1 cat"));
        assert_eq!(resolve(words("/some/where/tee -a x")), words("dio tee -a x"));
    }

    /// No two options share a name, and the parts of each declaration are consistent.
    #[test]
    fn tables_make_sense() {
        command().debug_assert();
    }
}
