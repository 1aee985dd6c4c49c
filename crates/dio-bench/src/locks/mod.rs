//! Blocks on locks, by class, while a command runs: those that the mounts of dio count, those of the library in programs of
//! dio, and those of the kernel.
//!
//! A *block* is a thread, or a request, that could not have a lock at once and waited.

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

use serde::Serialize;

use crate::BenchError;
use crate::commands::Running;
use crate::table::Table;
use channels::Channels;
use dio_common::units::seconds;
use kernel::{Kernel, Method};
use library::{Ear, Library};
use mounts::{Mount, Mounts};
use trace::{Tracer, Watch};

/// How the kernel's locks are to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// By tracepoint where that is allowed, else by wait channels.
    Best,
    /// By tracepoint, or not at all.
    Tracepoint,
    /// By wait channels.
    WaitChannels,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The command and its arguments.
    pub command: Vec<OsString>,
    /// Mounts to ask; all that there are if there are none.
    pub mounts: Vec<PathBuf>,
    /// How the kernel's locks are seen.
    pub by: By,
    /// Of all processes, not only the command and its descendants: such as the servers of mounts.
    pub system: bool,
    /// What the command prints goes to standard error, so that the report is alone.
    pub alone: bool,
}

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The command as a person would type it.
    pub command: String,
    /// Its exit status; `None` if a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// How long it ran.
    pub seconds: f64,
    /// Locks of the mounts of dio, counted by their servers.
    pub mounts: Vec<Mount>,
    /// Locks of the library in the command's processes, told by themselves.
    pub library: Library,
    /// Locks of the kernel.
    pub kernel: Kernel,
    /// Of all processes, or of the command's only.
    pub system: bool,
}

/// What sees the kernel's locks.
enum Eye {
    Tracer(Tracer),
    /// To be started with the number of the command's process; why it is not the tracepoint.
    Channels(Option<String>),
}

impl Eye {
    fn open(plan: &Plan) -> Result<Eye, BenchError> {
        if plan.by == By::WaitChannels {
            return Ok(Eye::Channels(None));
        }
        match Tracer::start(if plan.system { Watch::System } else { Watch::Commands }) {
            Ok(tracer) => Ok(Eye::Tracer(tracer)),
            Err(error) => {
                let why = format!("no tracepoint lock:contention_begin: {}", dio::file::words_of(&error));
                if plan.by == By::Tracepoint || plan.system {
                    return Err(BenchError::Asked(why));
                }
                Ok(Eye::Channels(Some(why)))
            }
        }
    }
}

/// Runs a command and counts what it was blocked on.
///
/// # Errors
/// The command cannot be started, a mount that was named cannot be asked, or the kernel's locks cannot be seen in the way
/// that was asked for. A command that fails is none.
pub fn run(plan: &Plan) -> Result<Report, BenchError> {
    let words: Vec<String> = plan.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((program, arguments)) = plan.command.split_first() else {
        return Err(BenchError::Asked("there is no command to run".to_owned()));
    };
    let shown = words.join(" ");
    let mounts = Mounts::before(&plan.mounts).map_err(|error| BenchError::Asked(error.to_string()))?;
    let eye = Eye::open(plan)?;
    let thread = |error| BenchError::system("start a thread for", std::path::Path::new(&shown))(error);
    let ear = Ear::new().map_err(thread)?;
    let mut command = Command::new(program);
    command.args(arguments).envs([ear.variable()]);
    if plan.alone {
        command.stdout(Stdio::from(std::io::stderr()));
    }
    let begin = Instant::now();
    // By the thread that opened the events: those that it starts are watched.
    let mut running = Running::start(&mut command, &shown)?;
    let channels = match &eye {
        Eye::Tracer(_) => None,
        Eye::Channels(_) => Some(Channels::start(running.id()).map_err(thread)?),
    };
    let following = mounts.follow(running.id()).map_err(thread)?;
    let status = running.wait(&shown)?;
    let taken = begin.elapsed().as_secs_f64();
    let mounts = following.finish(taken);
    let kernel = match (eye, channels) {
        (Eye::Tracer(tracer), _) => tracer.finish(None, Some(taken)),
        (Eye::Channels(why), Some(channels)) => {
            let mut kernel = channels.finish(taken);
            kernel.notes.extend(why);
            kernel
        }
        (Eye::Channels(_), None) => unreachable!("they were started above"),
    };
    Ok(Report {
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

impl Report {
    /// The report for people.
    pub fn text(&self) -> String {
        let mut text = format!("'{}' ran for {}", self.command, seconds(self.seconds));
        match (self.status, self.signal) {
            (Some(0), _) => {}
            (Some(status), _) => text.push_str(&format!(" and ended with status {status}")),
            (None, signal) => text.push_str(&format!(" and was ended by signal {}", signal.unwrap_or(0))),
        }
        text.push_str("\n\nMounts of dio, counted by their servers:\n");
        if self.mounts.is_empty() {
            text.push_str("  none was there\n");
        }
        self.mounts.iter().for_each(|mount| text.push_str(&mount.text()));
        text.push_str(&format!("\n{}\nKernel, ", self.library.text()));
        let whose = if self.system { "of all processes" } else { "of the command and its descendants" };
        let how = match self.kernel.method {
            Method::Tracepoint => "by the tracepoint lock:contention_begin",
            Method::WaitChannels => "by what threads sleep in (/proc/PID/task/TID/wchan)",
        };
        text.push_str(&format!("{whose}, {how}:\n{}", self.kernel.text()));
        text
    }
}

/// Blocks with their time, a line for each class; the time may be unknown.
fn table<'a>(rows: impl Iterator<Item = (&'a str, u64, f64, Option<f64>)>) -> String {
    let mut table = Table::new(["  blocked on", "blocks/s", "blocks", "mean", "waited"]);
    for (class, blocks, rate, waited) in rows {
        let shown = |time: Option<f64>| time.map_or_else(|| "-".to_owned(), seconds);
        let mean = waited.map(|waited| waited / blocks.max(1) as f64);
        table.row([format!("  {class}"), format!("{rate:.1}"), blocks.to_string(), shown(mean), shown(waited)]);
    }
    table.text()
}

impl Library {
    fn text(&self) -> String {
        let mut text =
            "Library, told by programs of dio when they ended; others that use it are not seen:\n".to_owned();
        match (self.processes, self.rows.is_empty()) {
            (0, _) => text.push_str("  none has told\n"),
            (_, true) => text.push_str("  nobody was blocked\n"),
            _ => {
                let rows = self.rows.iter();
                let rows =
                    rows.map(|row| (row.class.as_str(), row.blocks, row.blocks_per_second, Some(row.waited_seconds)));
                text.push_str(&table(rows));
            }
        }
        text
    }
}

impl Mount {
    fn text(&self) -> String {
        let mode = if self.mode.is_empty() { String::new() } else { format!(", mode {}", self.mode) };
        let mut text = format!("{}{mode}\n", self.mountpoint.display());
        if let Some(error) = &self.error {
            text.push_str(&format!("  {error}\n"));
        }
        if self.rows.is_empty() {
            // Of one that could not be asked that is not known.
            text.push_str(if self.error.is_none() { "  nobody was blocked\n" } else { "" });
            return text;
        }
        let rows = self.rows.iter().map(|row| (row.class, row.blocks, row.blocks_per_second, row.waited_seconds));
        text.push_str(&table(rows));
        text
    }
}

impl Kernel {
    /// The rows for people, and the notes.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.rows.is_empty() {
            text.push_str("  nobody was blocked\n");
        } else {
            let mut table = Table::new(["  blocked on", "blocks/s", "blocks", "mean", "waited", "wanted by"]);
            for row in &self.rows {
                let functions: Vec<String> =
                    row.functions.iter().map(|function| format!("{} {}", function.name, function.blocks)).collect();
                table.row([
                    format!("  {} ({})", row.class.name(), row.side.name()),
                    format!("{:.1}", row.blocks_per_second),
                    row.blocks.to_string(),
                    seconds(row.waited_seconds / row.blocks.max(1) as f64),
                    seconds(row.waited_seconds),
                    functions.join(", "),
                ]);
            }
            text.push_str(&table.text());
        }
        self.notes.iter().for_each(|note| text.push_str(&format!("  {note}\n")));
        text
    }
}
