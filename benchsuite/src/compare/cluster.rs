//! Copies shared among processes by `dio-mpi cp`: one rank beside `dio cp`; more ranks, each with a
//! network of its own, which is modelled by a limit on what it reads (`dio run -o rate=`); going on
//! after a kill; and other ways to share a copy.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::COSTS;
use crate::Result;
use crate::data::{equal_files, remove, source};
use crate::lab::Lab;
use crate::measure::{measure, per_gib};
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{home, must, output, tool};
use dio_bench::suite::{ComparisonGroup, ComparisonReport, Goal, Host, Sample};
use dio_common::size::{GIB, MIB, exact as size_text};

/// What a modelled network card lets through, in MB/s.
const CARD: u64 = 25;
const RANKS: [u32; 4] = [1, 2, 4, 8];

/// Bytes of a small file.
const SMALL: u64 = 256 << 10;

/// Ranks, and processes, that share the copy of the last comparison.
const SHARING: u32 = 4;

/// The words that start so many ranks.
fn mpirun(ranks: u32) -> String {
    format!("mpirun --oversubscribe --allow-run-as-root -n {ranks}")
}

/// The words in front of a program that has a modelled network card.
fn card() -> String {
    format!("dio run -o rate={CARD}M --dir $DIR/cluster --")
}

/// Builds `dio-mpi`, and puts a link to it where the commands find it.
fn build() -> Result<()> {
    let manifest = home().join("../cluster/Cargo.toml");
    output(tool("cargo").args(["build", "--release", "--manifest-path"]).arg(&manifest))?;
    let bin = home().join("target/peers/bin");
    fs::create_dir_all(&bin)?;
    let _ = fs::remove_file(bin.join("dio-mpi"));
    let built = fs::canonicalize(home().join("../cluster/target/release/dio-mpi"))?;
    Ok(symlink(built, bin.join("dio-mpi"))?)
}

/// One run of a copy to `$DIR/target`. With a receipt, its time counts, which leaves out the start
/// of MPI.
fn run(lab: &Lab, script: &str, bytes: u64) -> Result<Sample> {
    let receipt = lab.dir.join("receipt");
    for old in [&receipt, &lab.dir.join("target"), &lab.dir.join("journal")] {
        remove(old)?;
    }
    lab.cool()?;
    let mut sample = measure(&mut lab.shell(script))?.sample;
    if let Ok(text) = fs::read_to_string(&receipt) {
        let receipt: serde_json::Value = serde_json::from_str(&text)?;
        let seconds = receipt["wall_seconds"].as_f64().ok_or("a receipt without wall_seconds")?;
        sample.insert("wall_seconds", seconds);
    }
    per_gib(&mut sample, bytes);
    Ok(sample)
}

/// A file, by one rank and by `dio cp`.
fn one_rank(lab: &Lab, file: &Path, runs: usize) -> Result<ComparisonGroup> {
    let bytes = file.metadata()?.len();
    let words = format!("cp -a --receipt $DIR/receipt $DIR/{} $DIR/target", name_of(file));
    let commands = [
        ("dio-mpi, 1 rank", format!("{} dio-mpi {words}", mpirun(1))),
        ("dio cp", format!("dio {words}")),
    ];
    let rivals = commands
        .iter()
        .map(|(name, command)| Rival::new(name, command, move |_| run(lab, command, bytes)));
    interleave("one file, one rank", rivals.collect(), runs, COSTS)
}

/// The same bytes by more and more ranks.
fn scaling(
    lab: &Lab,
    title: &str,
    from: &Path,
    bytes: u64,
    runs: usize,
) -> Result<ComparisonGroup> {
    let commands: Vec<(String, String)> = RANKS
        .iter()
        .map(|ranks| {
            let copy = format!("cp -a --receipt $DIR/receipt $DIR/cluster/{}", name_of(from));
            let words = format!("{} {} dio-mpi {copy} $DIR/target", mpirun(*ranks), card());
            (ranks_text(*ranks), words)
        })
        .collect();
    let rivals = commands
        .iter()
        .map(|(name, command)| Rival::new(name, command, move |_| run(lab, command, bytes)));
    interleave(title, rivals.collect(), runs, COSTS)
}

fn ranks_text(ranks: u32) -> String {
    format!("{ranks} ranks")
}

/// A copy that is killed after half of its time, and the rest of it.
fn restart(lab: &Lab, file: &Path, runs: usize) -> Result<ComparisonGroup> {
    let bytes = file.metadata()?.len();
    let limit = bytes / 10 / MIB;
    let command = format!(
        "{} dio-mpi cp -a --journal $DIR/journal --limit {limit}M --receipt $DIR/receipt \
         $DIR/{} $DIR/target",
        mpirun(SHARING),
        name_of(file)
    );
    let whole = Rival::new("whole", &command, |_| run(lab, &command, bytes));
    let rest = Rival::new("rest after SIGKILL at 50 %", &command, |_| {
        ["target", "journal"].iter().try_for_each(|name| remove(&lab.dir.join(name)))?;
        lab.cool()?;
        kill_when_half(lab.shell(&command), &lab.dir.join("journal"))?;
        let mut sample = measure(&mut lab.shell(&command))?.sample;
        let receipt: serde_json::Value =
            serde_json::from_reader(File::open(lab.dir.join("receipt"))?)?;
        let figure = |name: &str| receipt[name].as_f64().ok_or("an incomplete receipt");
        sample.insert("wall_seconds", figure("wall_seconds")?);
        per_gib(&mut sample, bytes);
        Ok(sample)
    });
    interleave("going on after a kill", vec![rest, whole], runs, COSTS)
}

/// Starts a copy of ten seconds, and kills all of its ranks five seconds after they have begun to
/// write the journal.
fn kill_when_half(mut command: Command, journal: &Path) -> Result<()> {
    let mut job = command.spawn()?;
    let begun = Instant::now();
    while !journal.join("marks.0").exists() {
        if begun.elapsed() > Duration::from_secs(60) {
            return Err("no journal was begun".into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_secs(5));
    let ranks = output(tool("pgrep").args(["-P", &job.id().to_string(), "dio-mpi"]))?;
    output(tool("kill").arg("-KILL").args(ranks.split_whitespace()))?;
    job.wait()?;
    Ok(())
}

/// A file that is most of the bytes, and small ones, by four processes with a network card each.
fn sharing(lab: &Lab, from: &Path, bytes: u64, runs: usize) -> Result<ComparisonGroup> {
    let (name, card) = (name_of(from), card());
    let each = |copy: &str| {
        format!(
            "mkdir $DIR/target && cd $DIR/cluster/{name} && find . -type f -print0 | \
             xargs -0 -P {SHARING} -n 16 {card} sh -c 'cd $DIR/cluster/{name} && {copy}' copy"
        )
    };
    let commands = [
        (
            "dio-mpi, 4 ranks",
            format!("{} {card} dio-mpi cp -a $DIR/cluster/{name} $DIR/target", mpirun(SHARING)),
        ),
        ("xargs -P 4 rsync", each("rsync -aR \"$@\" $DIR/target/")),
        ("xargs -P 4 dio cp", each("dio cp -a --parents -t $DIR/target \"$@\"")),
    ];
    let rivals = commands
        .iter()
        .map(|(name, command)| Rival::new(name, command, move |_| run(lab, command, bytes)));
    interleave(
        "one file of seven eighths of the bytes, and small ones",
        rivals.collect(),
        runs,
        COSTS,
    )
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The comparison `cluster`.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["mpirun", "rsync", "pgrep"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    build()?;
    let bytes = lab.options.size.unwrap_or(4 * GIB);
    let shared = bytes / 8;
    let dir = lab.dir.join("cluster");
    fs::create_dir_all(&dir)?;
    let runs = lab.options.runs as usize;
    let file = source(&lab.dir, bytes)?;
    let small = equal_files(&dir, SMALL, shared / 2 / SMALL)?;
    let mixed = dir.join("mixed");
    if !mixed.join("large").exists() {
        remove(&mixed)?;
        let few = equal_files(&dir, SMALL, shared / 8 / SMALL)?;
        output(tool("cp").arg("-a").arg(few).arg(&mixed))?;
        fs::rename(source(&dir, shared / 8 * 7)?, mixed.join("large"))?;
    }
    let large = source(&dir, shared)?;
    let mut report = report::begin("cluster", Host::of(&lab.dir)?, lab.programs(&["mpirun"]))?;
    report.set("file", size_text(bytes));
    report.set("bytes_with_a_modelled_card", size_text(shared));
    report.set("modelled_card", format!("{CARD} MB/s"));
    report.set("rounds", lab.options.runs);
    let one = one_rank(lab, &file, runs)?;
    let speed = one.ratio("dio cp", "wall_seconds").map(f64::recip);
    report.goal(Goal::at_least("one rank: speed ÷ dio cp", 0.97, speed));
    report.groups.push(one);
    for (title, from) in [("one file", &large), ("files of 256 KiB", &small)] {
        let of = if from == &large { shared } else { shared / 2 };
        let group = scaling(lab, title, from, of, runs)?;
        for ranks in RANKS.into_iter().skip(1) {
            let times = (ranks_text(1), ranks_text(ranks));
            let gain = group.quotient((&times.0, "wall_seconds"), (&times.1, "wall_seconds"));
            let linear = gain.map(|gain| gain.median / f64::from(ranks));
            report.goal(Goal::at_least(&format!("{title}, {ranks} ranks ÷ linear"), 0.9, linear));
        }
        report.groups.push(group);
    }
    let group = restart(lab, &file, runs)?;
    let rest = group.ratio("whole", "wall_seconds");
    report.goal(Goal::at_most("rest after a kill at 50 % ÷ whole", 0.55, rest));
    report.groups.push(group);
    let group = sharing(lab, &mixed, shared, runs)?;
    for peer in ["xargs -P 4 rsync", "xargs -P 4 dio cp"] {
        let ratio = group.ratio(peer, "wall_seconds");
        report.goal(Goal::at_most(&format!("shared copy: wall ÷ {peer}"), 1.0, ratio));
    }
    report.groups.push(group);
    report.note(
        "All ranks are on one machine. A modelled network card is a mount of its own for each rank, \
         which limits what the rank reads; they write to the same file system. Times of dio-mpi and \
         dio cp are those of their receipts, without the start of MPI, but in the last group.",
    );
    Ok(report)
}
