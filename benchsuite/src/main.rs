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

use clap::Parser;

use compare::{
    copy, gzip, hotset, increments, looped, mount, names, neighbours, random as random_reads, reader, sort, streams,
    tar, threshold, tools, tree, uniq, wal,
};
use lab::Lab;
use options::{Cli, Options, What};

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

fn run(what: &What, options: &Options) -> Result<()> {
    match what {
        What::HotReader { file } => return reader::serve(file),
        What::Honest { dir } => return neighbours::honest::serve(dir, options.seconds.unwrap_or(2)),
        What::Hostile { dir, attack, number } => return neighbours::attack::serve(*attack, dir, *number),
        What::Hold { dir, attack, processes } => return neighbours::attack::hold(*attack, dir, *processes),
        What::Readme => return readme::update(),
        What::Commits { store, place, clients, bytes } => {
            return stores::run(store, place, *clients, *bytes, options.seconds.unwrap_or(2));
        }
        _ => {}
    }
    let lab = Lab::prepare(options)?;
    if let What::All = what {
        return all(&lab);
    }
    one(what, &lab)
}

/// The name under which a comparison is recorded.
fn name_of(what: &What, options: &Options) -> &'static str {
    match what {
        What::Copy if options.used_memory => "copy-used-memory",
        What::Copy => "copy",
        What::Tree => "tree",
        What::Threshold => "threshold",
        What::Loop | What::LoopInside => "loop",
        What::Random => "random",
        What::Hotset => "hotset",
        What::Increments => "increments",
        What::Streams => "streams",
        What::Tools => "tools",
        What::Sums => "sums",
        What::Tar => "tar",
        What::Uniq => "uniq",
        What::Gzip => "gzip",
        What::Mount => "mount",
        What::MountNames => "mount-names",
        What::Neighbours(_) => "neighbours",
        What::Sort => "sort",
        What::Wal => "wal",
        What::Commits { .. }
        | What::HotReader { .. }
        | What::Honest { .. }
        | What::Hostile { .. }
        | What::Hold { .. } => "",
        What::All | What::Readme => "",
    }
}

fn one(what: &What, lab: &Lab) -> Result<()> {
    let mut lab = lab.at(&lab.dir);
    let options = &mut lab.options;
    options.runs = pace::begin(name_of(what, options), options.rounds, options.record)?;
    let lab = &lab;
    let report = match what {
        What::Copy => copy::compare(lab)?,
        What::Tree => tree::compare(lab)?,
        What::Threshold => threshold::compare(lab)?,
        What::Loop => return looped::enter(lab),
        What::LoopInside => looped::compare(lab)?,
        What::Random => random_reads::compare(lab)?,
        What::Hotset => hotset::compare(lab)?,
        What::Increments => increments::compare(lab)?,
        What::Streams => streams::compare(lab)?,
        What::Tools => tools::compare(lab)?,
        What::Sums => tools::sums(lab)?,
        What::Tar => tar::compare(lab)?,
        What::Uniq => uniq::compare(lab)?,
        What::Gzip => gzip::compare(lab)?,
        What::Mount => mount::compare(lab)?,
        What::MountNames => names::compare(lab)?,
        What::Neighbours(users) => neighbours::compare(lab, users)?,
        What::Sort => sort::compare(lab)?,
        What::Wal => wal::compare(lab)?,
        What::Commits { .. }
        | What::HotReader { .. }
        | What::Honest { .. }
        | What::Hostile { .. }
        | What::Hold { .. } => {
            return Ok(());
        }
        What::All | What::Readme => return Ok(()),
    };
    report::publish(&report, lab.options.record)
}

/// Runs every comparison. If one fails, the later ones still run, and the exit status reports the
/// failure.
fn all(lab: &Lab) -> Result<()> {
    let mut failed = Vec::new();
    let whats = [
        What::Copy,
        What::Tree,
        What::Loop,
        What::Random,
        What::Hotset,
        What::Increments,
        What::Streams,
        What::Threshold,
        What::Tools,
        What::Sums,
        What::Tar,
        What::Uniq,
        What::Gzip,
        What::Sort,
        What::Mount,
        What::MountNames,
        What::Neighbours(neighbours::Users::default()),
        What::Wal,
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
