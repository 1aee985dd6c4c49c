//! Comparisons of dio with other programs: interleaved rounds, medians, recorded. See README.md.

mod compare;
mod corpus;
mod data;
mod lab;
mod measure;
mod memory;
mod options;
mod overlap;
mod pace;
mod readme;
mod report;
mod rounds;
mod stores;
mod tool;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use compare::clients::Database;
use compare::{
    advise, backups, clients, cluster, cluster_peers, copy, evictions, gzip, hotset, increments,
    looped, mount, names, neighbours, python, random as random_reads, reader, sort, sqlite_vfs,
    streams, tar, threshold, tools, tree, uniq, wal,
};
use lab::Lab;
use options::{Cli, SuiteCommand, SuiteOptions};

/// Errors are messages for the user who started the comparison.
type Error = Box<dyn std::error::Error>;
type Result<T> = std::result::Result<T, Error>;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli.what, &cli.options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("benchsuite: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(what: &SuiteCommand, options: &SuiteOptions) -> Result<()> {
    match what {
        SuiteCommand::HotReader { file, every } => {
            return reader::serve(file, every.map(Duration::from_micros));
        }
        SuiteCommand::DatabaseClients { database, dir } => return clients::serve(*database, dir),
        SuiteCommand::Honest { dir } => {
            return neighbours::honest::serve(dir, options.seconds.unwrap_or(2));
        }
        SuiteCommand::Hostile { dir, attack, number } => {
            return neighbours::attack::serve(*attack, dir, *number);
        }
        SuiteCommand::Hold { dir, attack, processes } => {
            return neighbours::attack::hold(*attack, dir, *processes);
        }
        SuiteCommand::Readme => return readme::update(),
        SuiteCommand::Commits { store, place, clients, bytes } => {
            return stores::run(store, place, *clients, *bytes, options.seconds.unwrap_or(2));
        }
        _ => {}
    }
    let lab = Lab::prepare(options)?;
    if let SuiteCommand::All = what {
        return all(&lab);
    }
    one(what, &lab)
}

/// The name under which a comparison is recorded.
fn name_of(what: &SuiteCommand, options: &SuiteOptions) -> &'static str {
    match what {
        SuiteCommand::Copy if options.used_memory => "copy-used-memory",
        SuiteCommand::Copy => "copy",
        SuiteCommand::Tree => "tree",
        SuiteCommand::Threshold => "threshold",
        SuiteCommand::Loop | SuiteCommand::LoopInside => "loop",
        SuiteCommand::Random => "random",
        SuiteCommand::Hotset => "hotset",
        SuiteCommand::Backups(wanted) => wanted.record(),
        SuiteCommand::Evictions => "evictions",
        SuiteCommand::Increments => "increments",
        SuiteCommand::Streams => "streams",
        SuiteCommand::Tools => "tools",
        SuiteCommand::Sums => "sums",
        SuiteCommand::Tar => "tar",
        SuiteCommand::Uniq => "uniq",
        SuiteCommand::Gzip => "gzip",
        SuiteCommand::Mount => "mount",
        SuiteCommand::MountNames => "mount-names",
        SuiteCommand::MountShared => "mount-shared",
        SuiteCommand::Neighbours(_) => "neighbours",
        SuiteCommand::Sort => "sort",
        SuiteCommand::SqliteVfs => "sqlite-vfs",
        SuiteCommand::Wal => "wal",
        SuiteCommand::Advise => "advise",
        SuiteCommand::Python => "python",
        SuiteCommand::Cluster => "cluster",
        SuiteCommand::ClusterPeers => "cluster-peers",
        SuiteCommand::Commits { .. }
        | SuiteCommand::HotReader { .. }
        | SuiteCommand::DatabaseClients { .. }
        | SuiteCommand::Honest { .. }
        | SuiteCommand::Hostile { .. }
        | SuiteCommand::Hold { .. } => "",
        SuiteCommand::All | SuiteCommand::Readme => "",
    }
}

fn one(what: &SuiteCommand, lab: &Lab) -> Result<()> {
    let mut lab = lab.at(&lab.dir);
    let options = &mut lab.options;
    options.runs = pace::begin(name_of(what, options), options.rounds, options.record)?;
    let lab = &lab;
    let report = match what {
        SuiteCommand::Copy => copy::compare(lab)?,
        SuiteCommand::Tree => tree::compare(lab)?,
        SuiteCommand::Threshold => threshold::compare(lab)?,
        SuiteCommand::Loop => return looped::enter(lab),
        SuiteCommand::LoopInside => looped::compare(lab)?,
        SuiteCommand::Random => random_reads::compare(lab)?,
        SuiteCommand::Hotset => hotset::compare(lab)?,
        SuiteCommand::Backups(names) => backups::compare(lab, names)?,
        SuiteCommand::Evictions => evictions::compare(lab)?,
        SuiteCommand::Increments => increments::compare(lab)?,
        SuiteCommand::Streams => streams::compare(lab)?,
        SuiteCommand::Tools => tools::compare(lab)?,
        SuiteCommand::Sums => tools::sums(lab)?,
        SuiteCommand::Tar => tar::compare(lab)?,
        SuiteCommand::Uniq => uniq::compare(lab)?,
        SuiteCommand::Gzip => gzip::compare(lab)?,
        SuiteCommand::Mount => mount::compare(lab)?,
        SuiteCommand::MountShared => mount::compare_shared(lab)?,
        SuiteCommand::MountNames => names::compare(lab)?,
        SuiteCommand::Neighbours(users) => neighbours::compare(lab, users)?,
        SuiteCommand::Sort => sort::compare(lab)?,
        SuiteCommand::SqliteVfs => sqlite_vfs::compare(lab)?,
        SuiteCommand::Wal => wal::compare(lab)?,
        SuiteCommand::Advise => advise::compare(lab)?,
        SuiteCommand::Python => python::compare(lab)?,
        SuiteCommand::Cluster => cluster::compare(lab)?,
        SuiteCommand::ClusterPeers => cluster_peers::compare(lab)?,
        SuiteCommand::Commits { .. }
        | SuiteCommand::HotReader { .. }
        | SuiteCommand::DatabaseClients { .. }
        | SuiteCommand::Honest { .. }
        | SuiteCommand::Hostile { .. }
        | SuiteCommand::Hold { .. } => {
            return Ok(());
        }
        SuiteCommand::All | SuiteCommand::Readme => return Ok(()),
    };
    report::publish(&report, lab.options.record)
}

/// Runs every comparison. If one fails, the later ones still run, and the exit status reports the
/// failure.
fn all(lab: &Lab) -> Result<()> {
    let mut failed = Vec::new();
    let whats = [
        SuiteCommand::Copy,
        SuiteCommand::Tree,
        SuiteCommand::Loop,
        SuiteCommand::Random,
        SuiteCommand::Hotset,
        SuiteCommand::Backups(backups::BackupNames::default()),
        SuiteCommand::Backups(backups::BackupNames::beside(Database::Postgresql)),
        SuiteCommand::Backups(backups::BackupNames::beside(Database::Mariadb)),
        SuiteCommand::Evictions,
        SuiteCommand::Increments,
        SuiteCommand::Streams,
        SuiteCommand::Threshold,
        SuiteCommand::Tools,
        SuiteCommand::Sums,
        SuiteCommand::Tar,
        SuiteCommand::Uniq,
        SuiteCommand::Gzip,
        SuiteCommand::Sort,
        SuiteCommand::SqliteVfs,
        SuiteCommand::Mount,
        SuiteCommand::MountNames,
        SuiteCommand::Neighbours(neighbours::users::Users::default()),
        SuiteCommand::Wal,
        SuiteCommand::Advise,
        SuiteCommand::Python,
        SuiteCommand::Cluster,
        SuiteCommand::ClusterPeers,
    ];
    for what in whats {
        if let Err(e) = one(&what, lab) {
            let name = name_of(&what, &lab.options);
            eprintln!("benchsuite: {name}: {e}");
            failed.push(name);
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}
