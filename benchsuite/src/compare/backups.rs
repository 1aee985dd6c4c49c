//! The effect of backup programs on another process, which reads a cached hot set meanwhile: bare,
//! by the usual remedies, and below `dio run`. Both share one memory limit, as in a container.

use std::cell::Cell;
use std::env;
use std::path::Path;

use super::COSTS;
use super::reader::ReaderProcess;
use crate::Result;
use crate::data::{large_files, remove, source};
use crate::lab::Lab;
use crate::measure::{measure, resident_pages};
use crate::memory::MemoryGroup;
use crate::report;
use crate::rounds::{Rival, interleave};
use crate::tool::{must, output, tool};
use dio_bench::suite::{ComparisonGroup, ComparisonReport, Goal, Host, Sample};
use dio_common::size::{GIB, MIB, exact as size_text};

/// Bytes of the hot set.
const HOT: u64 = 512 * MIB;

/// Memory that reader and backup share, page cache included.
const MEMORY: u64 = GIB;

/// Files that are backed up.
const FILES: u64 = 16;

/// A program, what it needs before, and what it runs, with SRC for the files and $DIR/target for an
/// empty directory.
struct Backup {
    name: &'static str,
    program: &'static str,
    before: &'static str,
    command: &'static str,
    /// Whether it does direct I/O by itself, so that it is compared bare only.
    own: bool,
}

const RESTIC: &str = "export RESTIC_PASSWORD=x RESTIC_REPOSITORY=$DIR/target/restic; ";
const BORG: &str = "export BORG_REPO=$DIR/target/borg BORG_BASE_DIR=$DIR/target \
                    BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes; ";

const fn backup(name: &'static str, before: &'static str, command: &'static str) -> Backup {
    Backup { name, program: name, before, command, own: false }
}

const BACKUPS: &[Backup] = &[
    backup("restic", "restic init -q", "restic backup -q --no-cache SRC"),
    backup("borg", "borg init -e none", "borg create ::a SRC"),
    backup("rsync", "", "rsync -a SRC $DIR/target/"),
    backup("tar", "", "tar cf - SRC | zstd -q -1 -o $DIR/target/t.zst"),
    backup("grep", "", "grep -r -c no-such-text SRC || true"),
    Backup { own: true, program: "dio", ..backup("dio-cp", "", "dio cp -a SRC $DIR/target/") },
    Backup { own: true, program: "dio", ..backup("dio-tar", "", "dio tar -cf $DIR/target/t SRC") },
];

/// The words in front of a command, by the names of the rows.
const REMEDIES: &[(&str, &str)] = &[
    ("dio run -o profile=backup", "dio run -o profile=backup --dir SRC --dir $DIR/target --"),
    ("dio run -o auto", "dio run -o auto --dir SRC --dir $DIR/target --"),
    ("bare", ""),
    ("nocache", "nocache"),
    ("ionice -c3", "ionice -c3"),
];

/// The row of the yardstick: as many bytes per second, read by fio past the page cache.
const YARDSTICK: &str = "fio, at the bare program's rate";

const COMPARED: &[&str] = &[
    "wall_seconds",
    "cpu_seconds",
    "machine_cpu_seconds",
    "reads_per_second",
    "p50_nanoseconds",
    "p99_nanoseconds",
    "p999_nanoseconds",
];

/// The rows that are wanted.
#[derive(Clone, Default, clap::Args)]
pub(crate) struct BackupNames {
    /// Programs, of: restic, borg, rsync, tar, grep, dio-cp, dio-tar [default: all]
    names: Vec<String>,
}

/// The files of a comparison.
struct Scene<'a> {
    lab: &'a Lab,
    files: &'a Path,
    hot: &'a Path,
}

impl Scene<'_> {
    fn filled(&self, text: &str) -> String {
        let name = self.files.file_name().unwrap_or_default().to_string_lossy();
        text.replace("SRC", &format!("$DIR/{name}"))
    }

    /// Makes one run: empties the caches, starts the reader in a new group, and runs `script`
    /// there.
    fn run(&self, before: &str, script: &str) -> Result<Sample> {
        let lab = self.lab;
        let target = lab.dir.join("target");
        remove(&target)?;
        std::fs::create_dir(&target)?;
        if !before.is_empty() {
            output(&mut lab.shell(before))?;
        }
        lab.cool()?;
        let group = MemoryGroup::new(MEMORY)?;
        let program = env::current_exe()?;
        let mut reader =
            ReaderProcess::start(group.member(tool(program).arg("hot-reader").arg(self.hot)))?;
        reader.begin()?;
        let mut sample = measure(&mut group.member(&lab.shell(script)))?.sample;
        // Counted while the reader goes on, before it brings back what it has lost.
        let page = rustix::param::page_size() as f64;
        sample.insert("resident_part", resident_pages([self.hot])? * page / HOT as f64);
        reader.end(&mut sample)?;
        Ok(sample)
    }
}

/// One program by each remedy, and the yardstick. The first row is dio's.
fn group(scene: &Scene<'_>, backup: &Backup, bytes: u64, runs: usize) -> Result<ComparisonGroup> {
    let environment = match backup.name {
        "restic" => RESTIC,
        "borg" => BORG,
        _ => "",
    };
    let before = match backup.before {
        "" => String::new(),
        before => format!("{environment}{before}"),
    };
    let command = scene.filled(backup.command);
    let rate = &Cell::new(GIB);
    let mut entries = Vec::new();
    let remedies = REMEDIES.iter().filter(|(name, _)| !backup.own || *name == "bare");
    for (name, remedy) in remedies {
        // The program is a child of a shell in each row, since some are pipes.
        let shown = scene.filled(&format!("{remedy} sh -c '{command}'"));
        let script = format!("{environment}{}", shown.trim());
        let before = before.clone();
        entries.push(Rival::new(name, shown.trim(), move |_| {
            let sample = scene.run(&before, &script)?;
            if *name == "bare" {
                rate.set((bytes as f64 / sample["wall_seconds"]) as u64);
            }
            Ok(sample)
        }));
    }
    let fio = scene.filled(
        "fio --name=n --directory=SRC --filename=f0 --rw=read --bs=1M --direct=1 \
         --ioengine=psync --rate=RATE --time_based --runtime=SECONDS",
    );
    let seconds = scene.lab.options.seconds.unwrap_or(5).to_string();
    entries.push(Rival::new(YARDSTICK, &fio.clone(), move |_| {
        let script = fio.replace("RATE", &rate.get().to_string()).replace("SECONDS", &seconds);
        let mut sample = scene.run("", &script)?;
        // Its time and processor time are not those of a backup.
        sample.retain(|key, _| !COSTS.contains(key));
        Ok(sample)
    }));
    interleave(backup.name, entries, runs, COMPARED)
}

/// The comparison `backups`.
pub(crate) fn compare(lab: &Lab, wanted: &BackupNames) -> Result<ComparisonReport> {
    ["fincore", "fio"].map(must).into_iter().collect::<Result<Vec<_>>>()?;
    let known = |name: &String| BACKUPS.iter().any(|backup| backup.name == name);
    if let Some(unknown) = wanted.names.iter().find(|name| !known(name)) {
        return Err(format!("backups knows no {unknown}").into());
    }
    let is_wanted =
        |backup: &&Backup| wanted.names.is_empty() || wanted.names.iter().any(|n| n == backup.name);
    let bytes = lab.options.size.unwrap_or(2 * GIB);
    let files = large_files(&lab.dir, FILES, bytes / FILES)?;
    let hot = source(&lab.dir, HOT)?;
    let programs = ["restic", "borg", "rsync", "tar", "grep", "nocache", "fio"];
    let found = lab.available(&programs);
    let mut report = report::begin("backups", Host::of(&lab.dir)?, lab.programs(&found))?;
    report.set("backed_up", size_text(bytes));
    report.set("hot_set", size_text(HOT));
    report.set("memory_of_the_group", size_text(MEMORY));
    report.set("rounds", lab.options.runs);
    let scene = Scene { lab, files: &files, hot: &hot };
    for backup in BACKUPS.iter().filter(is_wanted) {
        if !found.contains(&backup.program) && !backup.own {
            continue;
        }
        let group = group(&scene, backup, bytes, lab.options.runs as usize)?;
        let name = backup.name;
        let ours = if backup.own { "bare" } else { REMEDIES[0].0 };
        let p99 = (ours, "p99_nanoseconds");
        let beside = group.quotient(p99, (YARDSTICK, "p99_nanoseconds"));
        let worst = group.spread(ours, "resident_part").map(|part| part.min);
        report.goal(Goal::at_most(
            &format!("{name}: neighbour's p99 ÷ beside fio at the same rate"),
            1.1,
            beside.map(|quotient| quotient.median),
        ));
        report.goal(Goal::at_least(&format!("{name}: hot set resident, worst"), 0.99, worst));
        if !backup.own {
            let wall = group.quotient(("bare", "wall_seconds"), (ours, "wall_seconds"));
            let speed = wall.map(|quotient| quotient.median);
            report.goal(Goal::at_least(&format!("{name}: speed ÷ bare"), 0.97, speed));
        }
        report.groups.push(group);
    }
    remove(&lab.dir.join("target"))?;
    report.note(
        "Reader and backup share the limit; wall and CPU are the backup's (the machine's CPU is \
         everybody's), the rest the reader's. `cpu_seconds` lacks the server of `dio run`, which \
         is no child of the command.",
    );
    Ok(report)
}
