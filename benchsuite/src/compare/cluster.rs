//! Copies shared among processes by `dio-mpi cp`: one rank beside `dio cp`; more ranks, each with a
//! modelled network card of its own, on modelled storage that all share; and going on after a kill.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::COSTS;
use super::cluster_storage::{
    Data, STORAGE_CARDS, forget_cards, mpirun, name_of, need_programs, store,
};
use super::tree::{forget_retired, retire};
use crate::Result;
use crate::data::{remove, source, tree};
use crate::lab::Lab;
use crate::measure::{measure, per_gib};
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{home, must, output, tool};
use dio_bench::suite::{ComparisonGroup, ComparisonReport, Goal, Host, Sample};
use dio_common::size::{GIB, KIB, MIB, exact as size_text};

/// Bytes per second that a modelled network card lets through, of large files.
pub(super) const CARD: u64 = 25 * MIB;

/// Seconds in which the card of that comparison lets the bytes of a thousand small files through.
/// One rank takes half as long again, since whole blocks are read; four ranks then leave the
/// processors of a small machine half idle.
const THOUSAND_SECONDS: f64 = 1.25;

const RANKS: [u32; 4] = [1, 2, 4, 8];

/// Ranks of a job that is killed.
const KILLED: u32 = 4;

/// Seconds that this job takes by its limit.
const WHOLE_SECONDS: u64 = 10;

/// Builds `dio-mpi`, and puts a link to it where the commands find it.
pub(super) fn build() -> Result<()> {
    let manifest = home().join("../cluster/Cargo.toml");
    output(tool("cargo").args(["build", "--release", "--manifest-path"]).arg(&manifest))?;
    let bin = home().join("target/peers/bin");
    fs::create_dir_all(&bin)?;
    let _ = fs::remove_file(bin.join("dio-mpi"));
    let built = fs::canonicalize(home().join("../cluster/target/release/dio-mpi"))?;
    Ok(symlink(built, bin.join("dio-mpi"))?)
}

/// One run of a copy to `$DIR/target`. With a receipt, `copy_seconds` is its time, which leaves out
/// the start of MPI.
pub(super) fn run(lab: &Lab, script: &str, data: Data<'_>) -> Result<Sample> {
    let (receipt, target) = (lab.dir.join("receipt"), lab.dir.join("target"));
    [&receipt, &lab.dir.join("journal")].into_iter().try_for_each(|old| remove(old))?;
    if data.files > 1 {
        retire(&target)?
    } else {
        remove(&target)?
    }
    lab.cool()?;
    let sample = measure(&mut lab.shell(script))?.sample;
    finished(lab, sample, data)
}

/// Checks the target's size, and adds the figures of the receipt.
fn finished(lab: &Lab, mut sample: Sample, data: Data<'_>) -> Result<Sample> {
    let found = size_of(&lab.dir.join("target"))?;
    if found != (data.files, data.bytes) {
        return Err(format!("a wrong copy: {} files, {} bytes", found.0, found.1).into());
    }
    let mut seconds = sample["wall_seconds"];
    if let Ok(text) = fs::read_to_string(lab.dir.join("receipt")) {
        let receipt: serde_json::Value = serde_json::from_str(&text)?;
        seconds = receipt["wall_seconds"].as_f64().ok_or("a receipt without wall_seconds")?;
        sample.insert("copy_seconds", seconds);
        let ranks = receipt["ranks"].as_array().map_or(&[][..], Vec::as_slice);
        let of_ranks = |key: &str| ranks.iter().filter_map(|rank| rank[key].as_f64()).sum::<f64>();
        if !ranks.is_empty() {
            sample.insert("threads", of_ranks("threads"));
        }
    }
    per_gib(&mut sample, data.bytes);
    sample.insert("mib_per_second", data.bytes as f64 / MIB as f64 / seconds);
    if data.files > 1 {
        sample.insert("files_per_second", data.files as f64 / seconds);
    }
    Ok(sample)
}

/// The number of files in a tree or of a file, and their bytes.
pub(super) fn size_of(path: &Path) -> Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Ok((1, metadata.len()));
    }
    fs::read_dir(path)?.try_fold((0, 0), |(files, bytes), entry| {
        let (more, sum) = size_of(&entry?.path())?;
        Ok((files + more, bytes + sum))
    })
}

/// The same copy by one rank and by `dio cp`.
fn one_rank(lab: &Lab, title: &str, data: Data<'_>) -> Result<ComparisonGroup> {
    let words = format!("cp -a --receipt $DIR/receipt $DIR/{} $DIR/target", data.name);
    let commands = [
        ("dio-mpi, 1 rank", format!("{} dio-mpi {words}", mpirun(1))),
        ("dio cp", format!("dio {words}")),
    ];
    compared(lab, title, &commands, data)
}

/// Runs commands that make the same copy.
pub(super) fn compared<N: AsRef<str>>(
    lab: &Lab,
    title: &str,
    commands: &[(N, String)],
    data: Data<'_>,
) -> Result<ComparisonGroup> {
    let rivals = commands.iter().map(|(name, command)| {
        Rival::new(name.as_ref(), command, move |_| run(lab, command, data))
    });
    let costs: Vec<_> = COSTS.iter().copied().chain(["copy_seconds"]).collect();
    let group = interleave(title, rivals.collect(), lab.options.runs as usize, &costs);
    forget_retired(&lab.dir.join("target"))?;
    group
}

/// The same copy by more and more ranks, each with a card that lets so many bytes per second
/// through, on storage that lets through as much as [`STORAGE_CARDS`] of them.
fn scaling(lab: &Lab, title: &str, data: Data<'_>, card: u64) -> Result<ComparisonGroup> {
    let stored = store(lab, data)?;
    let commands = RANKS.map(|ranks| (ranks_text(ranks), stored.copy(ranks, card)));
    let group = compared(lab, title, &commands, data);
    forget_cards(*RANKS.iter().max().unwrap_or(&0));
    group
}

fn ranks_text(ranks: u32) -> String {
    if ranks == 1 { "1 rank".to_owned() } else { format!("{ranks} ranks") }
}

/// What the ranks of a group have to reach: up to the storage's limit nearly as much as they are
/// times one rank, and then as much as with fewer.
fn scaling_goals(report: &mut ComparisonReport, group: &ComparisonGroup, title: &str) {
    let times = |slow: u32, fast: u32| {
        let (slow, fast) = (ranks_text(slow), ranks_text(fast));
        group.quotient((&slow, "copy_seconds"), (&fast, "copy_seconds")).map(|gain| gain.median)
    };
    for ranks in RANKS.into_iter().skip(1) {
        let goal = if u64::from(ranks) <= STORAGE_CARDS {
            let linear = times(1, ranks).map(|gain| gain / f64::from(ranks));
            Goal::at_least(&format!("{title}, {ranks} ranks ÷ linear"), 0.9, linear)
        } else {
            let fewer = ranks / 2;
            let part = times(ranks, fewer);
            Goal::at_most(&format!("{title}, time of {ranks} ranks ÷ {fewer}"), 1.05, part)
        };
        report.goal(goal);
    }
}

/// A copy that is killed after half of its time, and the rest of it.
fn restart(lab: &Lab, data: Data<'_>) -> Result<ComparisonGroup> {
    let limit = data.bytes / WHOLE_SECONDS / MIB;
    let command = format!(
        "{} dio-mpi cp -a --journal $DIR/journal --limit {limit}M --receipt $DIR/receipt \
         $DIR/{} $DIR/target",
        mpirun(KILLED),
        data.name
    );
    let whole = Rival::new("whole", &command, |_| run(lab, &command, data));
    let rest = Rival::new("rest after SIGKILL at 50 %", &command, |_| {
        ["target", "journal", "receipt"].iter().try_for_each(|name| remove(&lab.dir.join(name)))?;
        lab.cool()?;
        let before = kill_when_half(lab.shell(&command), &lab.dir.join("journal"))?;
        let sample = measure(&mut lab.shell(&command))?.sample;
        let mut sample = finished(lab, sample, data)?;
        let receipt: serde_json::Value =
            serde_json::from_reader(File::open(lab.dir.join("receipt"))?)?;
        let after = receipt["bytes_written"].as_f64().ok_or("an incomplete receipt")?;
        sample.insert("written_again_bytes", (before + after - data.bytes as f64).max(0.0));
        Ok(sample)
    });
    let costs = [COSTS, &["copy_seconds"]].concat();
    interleave("going on after a kill", vec![rest, whole], lab.options.runs as usize, &costs)
}

/// Starts a copy, and kills all of its ranks after half of its time, counted from when they have
/// begun to write the journal. Returns the bytes that they have written.
fn kill_when_half(mut command: Command, journal: &Path) -> Result<f64> {
    let mut job = command.stderr(std::process::Stdio::null()).spawn()?;
    let begun = Instant::now();
    while !journal.join("marks.0").exists() {
        if begun.elapsed() > Duration::from_secs(60) {
            return Err("no journal was begun".into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(WHOLE_SECONDS * 500));
    let ranks = output(tool("pgrep").args(["-P", &job.id().to_string(), "dio-mpi"]))?;
    let ranks: Vec<&str> = ranks.split_whitespace().collect();
    output(tool("kill").arg("-STOP").args(&ranks))?;
    let mut written = 0.0;
    for rank in &ranks {
        let text = fs::read_to_string(format!("/proc/{rank}/io"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        written += line.and_then(|bytes| bytes.parse::<f64>().ok()).ok_or("no write_bytes")?;
    }
    output(tool("kill").arg("-KILL").args(&ranks))?;
    job.wait()?;
    Ok(written)
}

/// The comparison `cluster`.
pub(crate) fn compare(lab: &Lab) -> Result<ComparisonReport> {
    ["mpirun", "pgrep"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    need_programs()?;
    build()?;
    let bytes = lab.options.size.unwrap_or(4 * GIB);
    let shared = (bytes / 8 / MIB).max(1) * MIB;
    let dir = lab.dir.join("cluster");
    // An image is made of all that is in a directory.
    let small = format!("small-{}", lab.options.files);
    let large = format!("large-{}", size_text(shared));
    [&small, &large].iter().try_for_each(|part| fs::create_dir_all(dir.join(part)))?;
    let file = name_of(&source(&lab.dir, bytes)?);
    let file = Data { name: &file, bytes, files: 1 };
    let files = tree(&dir.join(&small), lab.options.files)?;
    let small = format!("cluster/{small}/{}", name_of(&files.root));
    let small = Data { name: &small, bytes: files.bytes, files: files.count };
    let name = format!("cluster/{large}/{}", name_of(&source(&dir.join(&large), shared)?));
    let large = Data { name: &name, bytes: shared, files: 1 };
    let seconds = small.files as f64 / 1000.0 * THOUSAND_SECONDS;
    let small_card = (small.bytes as f64 / seconds) as u64 / KIB * KIB;
    let mut report = report::begin("cluster", Host::of(&lab.dir)?, lab.programs(&["mpirun"]))?;
    report.set("file", size_text(bytes));
    report.set("file_with_a_modelled_card", size_text(shared));
    report.set("small_files", format!("{}, {:.0} MiB", small.files, small.bytes as f64 / MIB_F64));
    report.set("modelled_card_of_the_file", format!("{} MiB/s", CARD / MIB));
    report.set("modelled_card_of_small_files", format!("{} KiB/s", small_card / KIB));
    report.set("modelled_storage", format!("{STORAGE_CARDS} cards"));
    report.set("rounds", lab.options.runs);
    for (title, data) in [("one file", file), ("small files", small)] {
        let group = one_rank(lab, &format!("{title}, one rank"), data)?;
        let speed = group.quotient(("dio cp", "copy_seconds"), ("dio-mpi, 1 rank", "copy_seconds"));
        let speed = speed.map(|speed| speed.median);
        report.goal(Goal::at_least(&format!("{title}, one rank: speed ÷ dio cp"), 0.97, speed));
        report.groups.push(group);
    }
    for (title, data, card) in [("one file", large, CARD), ("small files", small, small_card)] {
        let group = scaling(lab, &format!("{title}, modelled storage"), data, card)?;
        scaling_goals(&mut report, &group, title);
        report.groups.push(group);
    }
    let group = restart(lab, file)?;
    let times = [("rest after SIGKILL at 50 %", "copy_seconds"), ("whole", "copy_seconds")];
    let rest = group.quotient(times[0], times[1]).map(|part| part.median);
    report.goal(Goal::at_most("rest after a kill at 50 % ÷ whole", 0.55, rest));
    report.groups.push(group);
    remove(&lab.dir.join("target"))?;
    remove(&lab.dir.join("journal"))?;
    report.note(
        "All ranks are on one machine. The modelled storage is the image of a file system on a \
         mount that limits what is read; a modelled network card is a limit of the kernel on what a \
         rank reads from there. They write to the same file system. Copy times are those of the \
         receipts, without the start of MPI. What is written again after a kill is what both attempts wrote, as the kernel and the \
         receipt count it, less the file: pieces that were not durable.",
    );
    Ok(report)
}

const MIB_F64: f64 = MIB as f64;
