//! `dio replay`: makes the requests of a trace again.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use dio_advise::replay::{ReplayError, ReplayMode, ReplayOptions, Replayed, Speed, replay};
use dio_common::units::{seconds, size};

use super::run::own_program;
use super::words;
use crate::quote::quoted;
use crate::stop::Stop;

/// Make the requests of a trace again, on other files
///
/// The requests are those of the trace, in its order within each thread and with its pauses, in
/// which the command computed: so a faster disk, or a better way, makes a faster replay. They are
/// made to files of the recorded sizes in a new directory, which goes afterwards; the recorded
/// files are not touched. Files that were in the page cache when they were recorded are there
/// again. Requests to pipes, sockets and terminals are left out, and so is what a trace does not
/// have.
#[derive(Debug, clap::Args)]
pub struct ReplayArgs {
    /// How requests reach the files: cached (by the recorded calls), direct, concurrent or uncached
    /// (the modes of the library), streams (read-ahead and write-behind past the page cache), or
    /// mount=OPTIONS (below a `dio run` with these options of `dio mount`)
    #[arg(short = 'o', long = "option", value_name = "MODE", default_value = "cached")]
    way: Route,

    /// Make the files in DIR, whose disk is the one that is measured
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,

    /// Keep the recorded pauses, or leave them out
    #[arg(long, value_enum, default_value_t = Pace::AsRecorded)]
    speed: Pace,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// The trace, of `dio record`
    #[arg(value_name = "TRACE", value_hint = clap::ValueHint::FilePath)]
    trace: PathBuf,
}

/// The values of `--speed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Pace {
    AsRecorded,
    AsFastAsPossible,
}

/// The values of `-o`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Route {
    Mode(ReplayMode),
    /// Below a mount with these options.
    Mount(String),
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Route, String> {
        Ok(Route::Mode(match text {
            "cached" => ReplayMode::Cached,
            "direct" => ReplayMode::Direct,
            "concurrent" => ReplayMode::Concurrent,
            "uncached" => ReplayMode::Uncached,
            "streams" => ReplayMode::Streams,
            "mount" => return Ok(Route::Mount(String::new())),
            other => {
                let options = other.strip_prefix("mount=").ok_or(
                    "it is none of cached, direct, concurrent, uncached, streams, mount=OPTIONS",
                )?;
                return Ok(Route::Mount(options.to_owned()));
            }
        }))
    }
}

/// Replays the trace; returns the exit status.
pub(crate) fn run(args: &ReplayArgs) -> ExitCode {
    let mode = match &args.way {
        Route::Mode(mode) => *mode,
        Route::Mount(options) => return below_mount(args, options),
    };
    let speed = match args.speed {
        Pace::AsRecorded => Speed::AsRecorded,
        Pace::AsFastAsPossible => Speed::AsFastAsPossible,
    };
    let stop = Stop::on_signals();
    let options = ReplayOptions { mode, speed };
    match of_trace(&args.trace, &args.dir, options, &|| stop.asked()) {
        Ok(replayed) => match (show(&replayed, args.json), &replayed.damage) {
            (Ok(()), None) => ExitCode::SUCCESS,
            (Ok(()), Some(damage)) => complain(&format!("{}: {damage}", quoted(&args.trace))),
            (Err(error), _) => complain(&format!("cannot write the result: {}", words(&error))),
        },
        Err(text) => {
            stop.die_if_asked();
            complain(&text)
        }
    }
}

fn complain(text: &str) -> ExitCode {
    eprintln!("dio replay: {text}");
    ExitCode::FAILURE
}

fn of_trace(
    path: &Path,
    dir: &Path,
    options: ReplayOptions,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<Replayed, String> {
    let trace = File::open(path)
        .map_err(|error| format!("cannot read {}: {}", quoted(path), words(&error)))?;
    replay(BufReader::new(trace), dir, options, is_stopped).map_err(|error| match error {
        ReplayError::Trace(error) => format!("{}: {error}", quoted(path)),
        ReplayError::Io { what, error } => format!("{what}: {}", words(&error)),
        ReplayError::Space { dir, needed, free } => format!(
            "the files of the trace need {}, and {} has {} free: choose another disk by --dir",
            size(needed),
            quoted(dir),
            size(free)
        ),
        other => other.to_string(),
    })
}

/// Replays the trace by the recorded calls in a `dio run`, which takes the place of this process.
fn below_mount(args: &ReplayArgs, options: &str) -> ExitCode {
    let mut command = own_program();
    command.arg("run");
    if !options.is_empty() {
        command.args(["-o", options]);
    }
    // The program is the same one there, by whatever name it was started.
    let program = std::env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    command.arg("--dir").arg(&args.dir).arg("--").arg(program).args(["replay", "-o", "cached"]);
    command.arg("--dir").arg(&args.dir);
    if args.speed == Pace::AsFastAsPossible {
        command.args(["--speed", "as-fast-as-possible"]);
    }
    if args.json {
        command.arg("--json");
    }
    let error = command.arg(&args.trace).exec();
    complain(&format!("cannot run dio: {}", words(&error)))
}

fn show(replayed: &Replayed, json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, replayed)?;
        return writeln!(out);
    }
    writeln!(
        out,
        "{} requests of {} threads to {} files, {}, in {}; the command took {}",
        replayed.requests,
        replayed.threads,
        replayed.files,
        size(replayed.bytes),
        seconds(replayed.seconds),
        seconds(replayed.recorded_seconds)
    )?;
    if replayed.differing > 0 {
        writeln!(out, "{} moved another number of bytes than recorded", replayed.differing)?;
    }
    for (reason, count) in &replayed.left_out {
        writeln!(out, "left out: {count} requests, {reason}")?;
    }
    if replayed.is_cut {
        writeln!(out, "the trace was cut, or still grows")?;
    }
    Ok(())
}
