//! The effect of backup programs on another process, which reads a cached hot set meanwhile: bare,
//! by the usual remedies, and below `dio run`; or on a database under load. Both share one memory
//! limit, as in a container.

use std::cell::Cell;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::COSTS;
use super::clients::{self, Database};
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
use dio_common::size::{GIB, exact as size_text};

/// Bytes of the hot set.
const HOT: u64 = GIB;

/// Microseconds between two reads of it: 4,000 a second, as a database with so many requests. A
/// reader without a rest uses each page every quarter of a second, and no backup takes one from it.
const READ_EVERY: u64 = 250;

/// Memory that reader and backup share, page cache included.
const MEMORY: u64 = 2 * GIB;

/// Files that are backed up.
const FILES: u64 = 16;

/// A program, what it needs before, and what it runs, with SRC for the files and $DIR/target for an
/// empty directory.
struct Backup {
    name: &'static str,
    program: &'static str,
    before: &'static str,
    command: &'static str,
    /// Options of `dio run` in its recipe (docs/backups.md).
    options: &'static str,
    /// Whether it does direct I/O by itself, so that it is compared bare only.
    own: bool,
    /// The database that it backs up, if it is that of one.
    of: Option<Database>,
}

/// Options for programs that read in small calls, which the kernel gathers.
const SMALL_CALLS: &str = "profile=backup";

const RESTIC: &str = "export RESTIC_PASSWORD=x RESTIC_REPOSITORY=$DIR/target/restic; ";
const BORG: &str = "export BORG_REPO=$DIR/target/borg BORG_BASE_DIR=$DIR/target \
                    BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes; ";

const fn backup(name: &'static str, before: &'static str, command: &'static str) -> Backup {
    let options = "profile=backup,nogather";
    Backup { name, program: name, before, command, options, own: false, of: None }
}

const BACKUPS: &[Backup] = &[
    backup("restic", "restic init -q", "restic backup -q --no-cache SRC"),
    backup("borg", "borg init -e none", "borg create ::a SRC"),
    backup("rsync", "", "rsync -a SRC $DIR/target/ && sync -f $DIR/target"),
    backup(
        "rclone",
        "",
        "rclone --config /dev/null sync SRC $DIR/target/rclone && sync -f $DIR/target",
    ),
    Backup {
        options: SMALL_CALLS,
        ..backup("tar", "", "tar cf - SRC | zstd -q -1 -o $DIR/target/t.zst && sync -f $DIR/target")
    },
    Backup { options: SMALL_CALLS, ..backup("grep", "", "grep -r -c no-such-text SRC || true") },
    Backup { own: true, program: "dio", ..backup("dio-cp", "", "dio cp -a SRC $DIR/target/") },
    Backup { own: true, program: "dio", ..backup("dio-tar", "", "dio tar -cf $DIR/target/t SRC") },
    Backup {
        of: Some(Database::Postgresql),
        options: SMALL_CALLS,
        ..backup(
            "pg_basebackup",
            "",
            "pg_basebackup -h $DIR/beside-postgresql -U postgres -c fast -D $DIR/target/base",
        )
    },
    Backup {
        of: Some(Database::Mariadb),
        ..backup(
            "mariabackup",
            "",
            "mariabackup --no-defaults --backup --user=root --socket=$DIR/beside-mariadb/socket \
             --datadir=$DIR/beside-mariadb --target-dir=$DIR/target/base",
        )
    },
];

/// Programs that are looked for, with those that other rows need.
const PROGRAMS: &[&str] = &[
    "restic",
    "borg",
    "rsync",
    "rclone",
    "tar",
    "grep",
    "nocache",
    "fio",
    "pg_basebackup",
    "mariabackup",
    "psql",
    "mariadbd",
];

/// The words in front of a command, by the names of the rows.
const REMEDIES: &[(&str, &str)] = &[
    ("dio run, by its recipe", "dio run -o OPTIONS --dir SRC --dir $DIR/target --"),
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
    /// Programs, of: restic, borg, rsync, rclone, tar, grep, dio-cp, dio-tar, and pg_basebackup or
    /// mariabackup beside their database [default: all]
    names: Vec<String>,

    /// Beside a database that answers point queries, instead of a process that reads a file
    #[arg(long, value_name = "DATABASE")]
    beside: Option<Database>,
}

impl BackupNames {
    /// The name of the record.
    pub(crate) fn record(&self) -> &'static str {
        match self.beside {
            None => "backups",
            Some(Database::Postgresql) => "backups-postgresql",
            Some(Database::Mariadb) => "backups-mariadb",
        }
    }

    /// All programs, beside a database.
    pub(crate) fn beside(database: Database) -> BackupNames {
        BackupNames { names: Vec::new(), beside: Some(database) }
    }

    /// The files that the neighbour has in the page cache.
    fn hot_files(&self, lab: &Lab) -> Result<Vec<PathBuf>> {
        match self.beside {
            None => Ok(vec![source(&lab.dir, HOT)?]),
            Some(Database::Mariadb) => Ok(Vec::new()),
            Some(database) => {
                let base = database.data(&lab.dir).join("base");
                let found = output(tool("find").arg(base).args(["-type", "f", "-size", "+1M"]))?;
                Ok(found.lines().map(PathBuf::from).collect())
            }
        }
    }

    /// The command of the neighbour.
    fn neighbour(&self, lab: &Lab, hot: &[PathBuf]) -> Result<Command> {
        let mut command = tool(env::current_exe()?);
        match self.beside {
            None => command.args(["hot-reader", "--every", &READ_EVERY.to_string()]).args(hot),
            Some(database) => command.args(["database-clients", database.name()]).arg(&lab.dir),
        };
        Ok(command)
    }
}

/// The files of a comparison.
struct Scene<'a> {
    lab: &'a Lab,
    files: &'a Path,
    wanted: &'a BackupNames,
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
        let hot = self.wanted.hot_files(lab)?;
        let mut reader = ReaderProcess::start(group.member(&self.wanted.neighbour(lab, &hot)?))?;
        let before = resident_pages(&hot)?;
        reader.begin()?;
        let mut sample = measure(&mut group.member(&lab.shell(script)))?.sample;
        // Counted while the reader goes on, before it brings back what it has lost.
        if before > 0.0 {
            sample.insert("resident_part", resident_pages(&hot)? / before);
        }
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
        let remedy = remedy.replace("OPTIONS", backup.options);
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
    let is_wanted = |backup: &&Backup| {
        let is_named = wanted.names.is_empty() || wanted.names.iter().any(|n| n == backup.name);
        is_named && (backup.of.is_none() || backup.of == wanted.beside)
    };
    let bytes = lab.options.size.unwrap_or(3 * GIB);
    let files = large_files(&lab.dir, FILES, bytes / FILES)?;
    if let Some(database) = wanted.beside {
        clients::prepare(database, &lab.dir)?;
    }
    let found = lab.available(PROGRAMS);
    let mut report = report::begin(wanted.record(), Host::of(&lab.dir)?, lab.programs(&found))?;
    report.set("backed_up", size_text(bytes));
    match wanted.beside {
        None => {
            let rate = 1_000_000 / READ_EVERY;
            report.set("hot_set", format!("{}, {rate} reads a second", size_text(HOT)));
        }
        Some(database) => report.set("beside", format!("{}, {}", database.name(), clients::load())),
    }
    report.set("memory_of_the_group", size_text(MEMORY));
    report.set("rounds", lab.options.runs);
    let scene = Scene { lab, files: &files, wanted };
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
        if wanted.beside != Some(Database::Mariadb) {
            report.goal(Goal::at_least(&format!("{name}: hot set resident, worst"), 0.99, worst));
        }
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
         everybody's), the rest the reader's. rsync, rclone and tar do not wait for the disk by themselves, \
         so a sync follows, which their time includes. `cpu_seconds` lacks the server of `dio run`, which \
         is no child of the command.",
    );
    Ok(report)
}
