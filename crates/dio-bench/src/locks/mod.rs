//! Counts blocks on locks, by class, while a command runs: those that the mounts of dio count,
//! those of the library in programs of dio, and those of the kernel.
//!
//! A *block* is a thread or a request that could not take a lock immediately and had to wait.

mod channels;
pub mod class;
pub mod kernel;
pub mod library;
pub mod mounts;
pub(crate) mod processes;
mod symbols;
pub mod trace;

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::commands::Running;
use crate::plot::{self, Dots, Plot, PlotKind};
use crate::quantity::Unit;
use crate::section::{Benchmark, Block, Finding, Rows, Section, Table};
use channels::Channels;
use dio_common::units::seconds;
use kernel::{Function, Kernel, Method};
use library::{Library, ReportFile};
use mounts::{Mount, Mounts};
use trace::{Tracer, Watch};

/// The requested method of measuring blocks on the kernel's locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By tracepoint if that is allowed, otherwise by wait channels.
    Best,
    /// By tracepoint; an error if that is not allowed.
    Tracepoint,
    /// By wait channels.
    WaitChannels,
}

/// The measurements to make.
#[derive(Clone, Debug)]
pub struct LocksPlan {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Mounts to query; if empty, all mounts of dio.
    pub mounts: Vec<PathBuf>,
    /// How blocks on the kernel's locks are measured.
    pub by: By,
    /// Whether all processes are counted, such as the servers of mounts, not only the command and
    /// its descendants.
    pub system: bool,
    /// Whether the command's output goes to standard error, so that standard output has the report
    /// only.
    pub alone: bool,
}

/// The whole result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LocksReport {
    /// The command as a person would type it.
    pub command: String,
    /// Its exit status; `None` if a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Seconds that it ran.
    pub seconds: f64,
    /// Blocks in the mounts of dio, counted by their servers.
    pub mounts: Vec<Mount>,
    /// Blocks on the library's locks in the command's processes, reported by the processes
    /// themselves.
    pub library: Library,
    /// Blocks on the kernel's locks.
    pub kernel: Kernel,
    /// Whether all processes were counted, or the command's only.
    #[serde(default)]
    pub system: bool,
}

/// The method of measuring blocks on the kernel's locks.
enum KernelLockMethod {
    Tracer(Tracer),
    /// The sampler, which starts once the command's process id is known; with the reason why
    /// tracepoints are not used.
    Channels(Option<String>),
}

impl KernelLockMethod {
    fn open(plan: &LocksPlan) -> Result<KernelLockMethod, BenchError> {
        if plan.by == By::WaitChannels {
            return Ok(KernelLockMethod::Channels(None));
        }
        match Tracer::start(if plan.system { Watch::System } else { Watch::Commands }) {
            Ok(tracer) => Ok(KernelLockMethod::Tracer(tracer)),
            Err(error) => {
                let why =
                    format!("no tracepoint lock:contention_begin: {}", dio::file::words_of(&error));
                if plan.by == By::Tracepoint || plan.system {
                    return Err(BenchError::Asked(why));
                }
                Ok(KernelLockMethod::Channels(Some(why)))
            }
        }
    }
}

/// Runs a command and counts blocks on locks while it runs.
///
/// # Errors
/// When the command cannot be started, when a named mount cannot be queried, or when blocks on the
/// kernel's locks cannot be measured by the requested method. A command that fails is not an error.
pub fn run(plan: &LocksPlan) -> Result<LocksReport, BenchError> {
    let words: Vec<String> =
        plan.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((program, arguments)) = plan.command.split_first() else {
        return Err(BenchError::Asked("there is no command to run".to_owned()));
    };
    let shown = words.join(" ");
    let mounts =
        Mounts::before(&plan.mounts).map_err(|error| BenchError::Asked(error.to_string()))?;
    let eye = KernelLockMethod::open(plan)?;
    let thread =
        |error| BenchError::system("start a thread for", std::path::Path::new(&shown))(error);
    let ear = ReportFile::new().map_err(thread)?;
    let mut command = Command::new(program);
    command.args(arguments).envs([ear.variable()]);
    if plan.alone {
        command.stdout(Stdio::from(std::io::stderr()));
    }
    let begin = Instant::now();
    // This thread has opened the events, so the kernel watches the commands that it starts.
    let mut running = Running::start(&mut command, &shown)?;
    let channels = match &eye {
        KernelLockMethod::Tracer(_) => None,
        KernelLockMethod::Channels(_) => Some(Channels::start(running.id()).map_err(thread)?),
    };
    let following = mounts.follow(running.id()).map_err(thread)?;
    let status = running.wait(&shown)?;
    let taken = begin.elapsed().as_secs_f64();
    let mounts = following.finish(taken);
    let kernel = match (eye, channels) {
        (KernelLockMethod::Tracer(tracer), _) => tracer.finish(None, Some(taken)),
        (KernelLockMethod::Channels(why), Some(channels)) => {
            let mut kernel = channels.finish(taken);
            kernel.notes.extend(why);
            kernel
        }
        (KernelLockMethod::Channels(_), None) => unreachable!("they were started above"),
    };
    Ok(LocksReport {
        command: shown,
        status: status.code(),
        signal: status.signal(),
        seconds: taken,
        mounts,
        library: ear.finish(taken),
        kernel,
        system: plan.system,
    })
}

/// Blocks of one class, from any of the sources.
struct ClassBlocks<'a> {
    name: String,
    tone: usize,
    blocks: u64,
    blocks_per_second: f64,
    waited_seconds: Option<f64>,
    functions: &'a [Function],
}

impl ClassBlocks<'_> {
    /// The functions that wanted the locks, each with its number of blocks.
    fn wanted_by(&self) -> Option<String> {
        let words =
            self.functions.iter().map(|function| format!("{} {}", function.name, function.blocks));
        (!self.functions.is_empty()).then(|| words.collect::<Vec<_>>().join(", "))
    }
}

impl LocksReport {
    fn blocked(&self) -> Vec<ClassBlocks<'_>> {
        let mut all = Vec::new();
        for mount in &self.mounts {
            let place = if self.mounts.len() > 1 {
                format!("mount {}", mount.mountpoint.display())
            } else {
                "mount".into()
            };
            all.extend(mount.rows.iter().map(|row| ClassBlocks {
                name: format!("{place}: {}", row.class),
                tone: 4,
                blocks: row.blocks,
                blocks_per_second: row.blocks_per_second,
                waited_seconds: row.waited_seconds,
                functions: &[],
            }));
        }
        all.extend(self.library.rows.iter().map(|row| ClassBlocks {
            name: format!("library: {}", row.class),
            tone: 1,
            blocks: row.blocks,
            blocks_per_second: row.blocks_per_second,
            waited_seconds: Some(row.waited_seconds),
            functions: &[],
        }));
        all.extend(self.kernel.rows.iter().map(|row| ClassBlocks {
            name: format!("kernel: {} ({})", row.class.name(), row.side.name()),
            tone: 2,
            blocks: row.blocks,
            blocks_per_second: row.blocks_per_second,
            waited_seconds: Some(row.waited_seconds),
            functions: &row.functions,
        }));
        all
    }

    fn lead(&self) -> String {
        let ended = match (self.status, self.signal) {
            (Some(0), _) => String::new(),
            (Some(status), _) => format!(" and ended with status {status}"),
            (None, Some(signal)) => format!(" and was ended by signal {signal}"),
            (None, None) => " and was ended by a signal".to_owned(),
        };
        format!(
            "`{}` ran for {}{ended}. A block is a thread, or a request, that could not have a lock \
             at once and waited.",
            self.command,
            seconds(self.seconds)
        )
    }

    fn notes(&self) -> Vec<String> {
        let method = match self.kernel.method {
            Method::Tracepoint => "by the tracepoint lock:contention_begin",
            Method::WaitChannels => {
                "by what threads sleep in (/proc/PID/task/TID/wchan), which is a lower bound"
            }
        };
        let whose = if self.system { "all processes" } else { "the command and its descendants" };
        let mut notes = vec![format!("Kernel, of {whose}, {method}.")];
        notes.extend(self.kernel.notes.iter().cloned());
        for mount in &self.mounts {
            let at = mount.mountpoint.display();
            notes.push(match &mount.error {
                Some(error) => format!("{at}: {error}"),
                None => format!("{at} is a mount in mode {}.", mount.mode),
            });
        }
        if self.mounts.is_empty() {
            notes.push("There was no mount of dio.".to_owned());
        }
        notes.push(format!(
            "Library, told by {} programs of dio when they ended; others that use it are not seen.",
            self.library.processes
        ));
        notes
    }
}

impl Benchmark for LocksReport {
    const NAME: &'static str = "locks";
    const FIELDS: &'static [&'static str] = &["mounts", "library", "kernel"];

    fn section(&self) -> Section {
        let all = self.blocked();
        let mut most: Vec<&ClassBlocks<'_>> = all.iter().collect();
        most.sort_by_key(|row| std::cmp::Reverse(row.blocks));
        let scale = Unit::PerSecond.scale(most.iter().map(|row| row.blocks_per_second));
        let finding = |row: &&ClassBlocks<'_>| {
            let waited = row
                .waited_seconds
                .map_or_else(String::new, |time| format!("{} waited in all", seconds(time)));
            Finding::new(row.name.clone(), scale.show(row.blocks_per_second), waited)
        };
        let mut findings: Vec<Finding> = most.iter().take(3).map(finding).collect();
        let mut blocks = Vec::new();
        if all.is_empty() {
            findings.push(Finding::new("blocks on locks", "none", "nobody was seen to be blocked"));
        } else {
            blocks = vec![Block::Plots(vec![plot(&all)]), Block::Table(table(&all))];
        }
        Section {
            id: LocksReport::NAME.to_owned(),
            title: "What a command was blocked on".to_owned(),
            lead: self.lead(),
            findings,
            blocks,
            notes: self.notes(),
            ..Section::default()
        }
    }
}

fn plot(all: &[ClassBlocks<'_>]) -> Plot {
    let rows = all
        .iter()
        .map(|row| plot::Dot::new(row.name.clone(), row.tone, vec![row.blocks_per_second]))
        .collect();
    let about = "How often somebody had to wait for a lock of each class.";
    let kind =
        PlotKind::Dots(Dots { unit: Unit::PerSecond, label: String::new(), guide: None, rows });
    Plot {
        name: "blocks".to_owned(),
        title: "Blocks per second".to_owned(),
        about: about.to_owned(),
        kind,
    }
}

fn table(all: &[ClassBlocks<'_>]) -> Table {
    let mean =
        |row: &ClassBlocks<'_>| row.waited_seconds.map(|time| time / row.blocks.max(1) as f64);
    Rows::new(("blocks", "blocked on"), "Blocks by class", all, |row| row.name.clone())
        .column("blocks", Unit::PerSecond, |row| row.blocks_per_second)
        .column("in all", Unit::Count, |row| row.blocks)
        .column("mean wait", Unit::Seconds, mean)
        .column("waited in all", Unit::Seconds, |row| row.waited_seconds)
        .words("wanted by", ClassBlocks::wanted_by)
        .table()
}
