//! Runs a command by each way, and replays a trace by each: what was predicted beside what it
//! takes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use dio_advise::predict::{Advised, Found, FoundFile, Prediction, WayEstimate};
use dio_advise::record::shell_status;
use rustix::fs::Advice;

use crate::commands::run::own_program;
use crate::commands::words;
use crate::stop::Stop;

/// Runs the command by each way of a prediction, which gets the medians. It ended with `status`
/// when it was recorded.
///
/// # Errors
/// A text that says what failed.
pub(super) fn runs(
    prediction: &mut Prediction,
    command: &[OsString],
    status: u8,
    rounds: u32,
) -> Result<(), String> {
    let mut files = prediction.files.clone();
    // Nothing is removed but what the command has just made.
    files.retain(|file| file.found != Found::Absent || is_the_same(file));
    each_way(prediction, rounds, |way| {
        settle(&files);
        files.iter().for_each(as_found);
        // The words of a command that are no text are those that were given.
        let mut words_of_it: Vec<OsString> = way.line.iter().map(OsString::from).collect();
        if way.way == Advised::Cached {
            words_of_it = command.to_vec();
        } else if way.way != Advised::Tool {
            words_of_it.truncate(words_of_it.len() - command.len());
            words_of_it.extend_from_slice(command);
        }
        let began = Instant::now();
        let ended = program(&words_of_it)?.status().map_err(|error| words(&error))?;
        let seconds = began.elapsed().as_secs_f64();
        if shell_status(ended) == status { Ok(seconds) } else { Err(format!("{ended}")) }
    })
}

/// Replays a trace by each way of a prediction, which gets the medians.
///
/// # Errors
/// A text that says what failed.
pub(super) fn replays(
    prediction: &mut Prediction,
    trace: &Path,
    scratch: &Path,
    rounds: u32,
) -> Result<(), String> {
    each_way(prediction, rounds, |way| {
        let mode = match way.way {
            Advised::Cached => "cached".to_owned(),
            Advised::Tool => "streams".to_owned(),
            Advised::Direct => "mount=direct".to_owned(),
            Advised::Concurrent => "mount=concurrent".to_owned(),
            Advised::Auto => "mount=auto".to_owned(),
            _ => return Err("such a way is not replayed".to_owned()),
        };
        let mut replay = own_program();
        replay.args(["replay", "--json", "-o", &mode, "--dir"]).arg(scratch).arg(trace);
        let output = replay.output().map_err(|error| words(&error))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        let replayed: serde_json::Value =
            serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        replayed["seconds"].as_f64().ok_or_else(|| "it has no time".to_owned())
    })
}

/// Runs all ways in turn, `rounds` times.
fn each_way(
    prediction: &mut Prediction,
    rounds: u32,
    run: impl Fn(&WayEstimate) -> Result<f64, String>,
) -> Result<(), String> {
    let stop = Stop::on_signals();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); prediction.ways.len()];
    let mut failed: Vec<Option<String>> = vec![None; prediction.ways.len()];
    for _ in 0..rounds {
        for (number, way) in prediction.ways.iter().enumerate() {
            if stop.asked() {
                return Err("stopped".to_owned());
            }
            if failed[number].is_none() {
                match run(way) {
                    Ok(seconds) => times[number].push(seconds),
                    Err(text) => failed[number] = Some(text),
                }
            }
        }
    }
    for (number, way) in prediction.ways.iter_mut().enumerate() {
        times[number].sort_by(f64::total_cmp);
        let median = times[number].get(times[number].len() / 2).copied();
        way.measured_seconds = median.filter(|_| failed[number].is_none());
        if let Some(text) = &failed[number] {
            prediction.missing.push(format!("a run by this way failed: {}: {text}", way.way));
        }
    }
    Ok(())
}

/// Whether a name leads to the file that was seen under it.
fn is_the_same(file: &FoundFile) -> bool {
    fs::symlink_metadata(&file.path).is_ok_and(|found| found.is_file() && found.ino() == file.inode)
}

/// Lets the disk finish what the run before left to it.
fn settle(files: &[FoundFile]) {
    let dirs: BTreeSet<&Path> = files.iter().filter_map(|file| file.path.parent()).collect();
    for dir in dirs.into_iter().filter_map(|dir| File::open(dir).ok()) {
        let _ = rustix::fs::syncfs(&dir);
    }
}

/// Has a file as it was when the command was recorded: in the page cache, or not, or absent.
fn as_found(FoundFile { path, found, .. }: &FoundFile) {
    let Ok(mut file) = File::open(path) else { return };
    match found {
        Found::Warm => drop(io::copy(&mut file, &mut io::sink())),
        // The command makes it again.
        Found::Absent => drop(dio::names::unlink(path)),
        Found::Cold => {
            let _ = file.sync_data();
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        }
    }
}

/// The command, without input and output.
fn program(line: &[OsString]) -> Result<Command, String> {
    let (program, arguments) = line.split_first().ok_or("there is no command")?;
    let mut command = if program == "dio" { own_program() } else { Command::new(program) };
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}
