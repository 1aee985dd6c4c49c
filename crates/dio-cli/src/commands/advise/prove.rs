//! Runs a command by each way, and replays a trace by each: what was predicted beside what it
//! takes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use dio::names::FileId;
use dio_advise::predict::{Advised, ChangedNames, Found, FoundFile, Prediction, WayEstimate};
use dio_advise::record::shell_status;
use dio_common::memory::use_once;
use rustix::fs::{Advice, FileType};

use super::aside::{Aside, WrittenFile};
use crate::commands::run::own_program;
use crate::commands::words;
use crate::quote::quoted;
use crate::stop::Stop;
use crate::tool::open_descriptors;

const PIPE: &str = "standard input is a pipe, which each run of a proof would have to read anew: \
                    give it a file, or </dev/null";

/// Memory that is used once before a command is recorded of which nothing is known yet.
const FIRST_MEMORY: u64 = 2 << 30;

/// Memory that runs need besides pages of the page cache.
const BUFFERS: u64 = 128 << 20;

/// The clock by which file systems note times is late by up to a tick.
const TICK: Duration = Duration::from_millis(20);

/// What is to be known of a command before it is recorded, to run it again in the same way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    input: Input,
    began: SystemTime,
}

impl Before {
    /// Looks at this process, and sees to it that the recorded run has no other memory than the
    /// runs that are measured.
    ///
    /// # Errors
    /// A text that says why runs would not read the same standard input.
    pub(super) fn look() -> Result<Before, String> {
        let input = Input::of_this_process()?;
        use_once(FIRST_MEMORY);
        Ok(Before { input, began: SystemTime::now() })
    }

    /// A file that the command has written to, by the name that it has now.
    fn written(&self, file: &FoundFile) -> Option<WrittenFile> {
        if !file.is_written {
            return None;
        }
        if is_the_same(&file.path, file.inode) {
            return Some(WrittenFile { path: file.path.clone(), was_found: !self.lacked(file) });
        }
        // What was written under another name first, and renamed then, may have replaced a file.
        let entries = fs::read_dir(file.path.parent()?).ok()?;
        let mut paths = entries.flatten().map(|entry| entry.path());
        let path = paths.find(|path| is_the_same(path, file.inode))?;
        Some(WrittenFile { path, was_found: true })
    }

    /// Why the command would not do the same again from the same state, if that is so.
    fn why_not_again(&self, prediction: &Prediction) -> Option<String> {
        let files = &prediction.files;
        if let Some(input) = files.iter().find(|file| is_used_up(file)) {
            let input = quoted(&input.path);
            return Some(format!(
                "the command has removed or cut off {input}, which it read, so that it would not \
                 do the same again"
            ));
        }
        if let Some((call, directory)) = changed_before(prediction) {
            return Some(format!(
                "the command has changed names of files that may have been there before ({call} in \
                 {}), and each run would change more; --repeat allows that",
                quoted(directory)
            ));
        }
        if let Some(file) = files.iter().find(|file| is_beyond_reach(file)) {
            return Some(format!(
                "the command changes {}, which has another name, is elsewhere, or is open already, \
                 so that it cannot be put back; --repeat allows that",
                quoted(&file.path)
            ));
        }
        // Runs may change others of such files, and then the ones that are put back do not fit.
        let is_part = |file: &&FoundFile| {
            file.is_changed && is_the_same(&file.path, file.inode) && !self.lacked(file)
        };
        let (first, second) = {
            let mut parts = files.iter().filter(is_part);
            (parts.next()?, parts.next()?)
        };
        Some(format!(
            "the command changes files that may belong together, as those of a database do: {} and \
             {}; with --repeat each run changes them further",
            quoted(&first.path),
            quoted(&second.path)
        ))
    }

    /// Whether the command has made a file.
    fn lacked(&self, file: &FoundFile) -> bool {
        let is_new = || {
            let born = fs::symlink_metadata(&file.path)?.created()?;
            io::Result::Ok(born + TICK > self.began)
        };
        // Not all file systems know when a file was made.
        file.found == Found::Absent || is_new().unwrap_or(false)
    }
}

/// The standard input of the runs of a command.
#[derive(Clone, Copy, Debug)]
enum Input {
    /// Nothing.
    Nothing,
    /// The file that is this process's standard input, from here on.
    File(u64),
}

impl Input {
    /// That of this process.
    ///
    /// # Errors
    /// A text that says why runs would not read the same.
    fn of_this_process() -> Result<Input, String> {
        let input = io::stdin();
        let kind = rustix::fs::fstat(&input).map(|found| FileType::from_raw_mode(found.st_mode));
        match kind {
            Ok(FileType::RegularFile) => rustix::fs::tell(&input)
                .map(Input::File)
                .map_err(|error| format!("standard input: {}", words(&error))),
            Ok(FileType::Fifo | FileType::Socket) => Err(PIPE.to_owned()),
            _ => Ok(Input::Nothing),
        }
    }

    fn open(self) -> io::Result<Stdio> {
        let Input::File(place) = self else { return Ok(Stdio::null()) };
        let mut file = File::open(dio_sys::fd_path(io::stdin()))?;
        file.seek(SeekFrom::Start(place))?;
        Ok(file.into())
    }
}

/// A command that was recorded, and runs again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs<'a> {
    pub(super) command: &'a [OsString],
    pub(super) before: Before,
    /// Its status when it was recorded.
    pub(super) status: u8,
}

/// Runs the command by each way of a prediction, which gets the medians and judges by them. With
/// `repeat` each run goes on from what the one before has left.
///
/// # Errors
/// A text that says what failed.
pub(super) fn runs(
    prediction: &mut Prediction,
    &Runs { command, before, status }: &Runs<'_>,
    rounds: u32,
    repeat: bool,
) -> Result<(), String> {
    // From here on a signal does not end this process, which puts files back.
    Stop::on_signals();
    prediction.files.retain(|file| !is_own_output(&file.path));
    let files = prediction.files.clone();
    if !repeat && let Some(why) = before.why_not_again(prediction) {
        prediction.missing.push(format!("nothing is proved: {why}"));
        return Ok(());
    }
    let written: Vec<WrittenFile> = match repeat {
        true => Vec::new(),
        false => files.iter().filter_map(|file| before.written(file)).collect(),
    };
    let mut aside = Aside::of(&written)?;
    let made: Vec<&Path> =
        written.iter().filter(|file| !file.was_found).map(|file| file.path.as_path()).collect();
    let most = prediction.ways.iter().map(|way| way.cache_bytes).max().unwrap_or(0);
    let proved = each_way(prediction, rounds, |way| {
        settle(&files);
        use_once(most.saturating_add(BUFFERS));
        for path in &made {
            // A run before this one has made it.
            let _ = dio::names::unlink(path);
        }
        // Each run finds what the first one has left.
        aside.renew()?;
        files.iter().for_each(as_found);
        let mut run = command_by(way, command)?;
        run.stdin(
            before.input.open().map_err(|error| format!("standard input: {}", words(&error)))?,
        );
        run.stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        let ended = run.status().map_err(|error| words(&error))?;
        let seconds = began.elapsed().as_secs_f64();
        if shell_status(ended) == status { Ok(seconds) } else { Err(format!("{ended}")) }
    });
    if aside.restore() { proved } else { Err("not all files are as they were".to_owned()) }
}

/// The command by a way. Its words that are no text are those that were given.
fn command_by(way: &WayEstimate, command: &[OsString]) -> Result<Command, String> {
    let mut line: Vec<OsString> = way.line.iter().map(OsString::from).collect();
    // Words for dio itself: the first one, or those before the command.
    let own_words = match way.way {
        Advised::Tool => 1,
        _ => line.len() - command.len(),
    };
    if way.way != Advised::Tool {
        line.splice(own_words.., command.iter().cloned());
    }
    let own = own_program();
    // A mount may be made within another one.
    let names = line[..own_words].iter_mut().filter(|word| *word == "dio");
    names.for_each(|name| *name = own.get_program().to_owned());
    let (program, arguments) = line.split_first().ok_or("there is no command")?;
    let mut run = Command::new(program);
    if own_words > 0 {
        run.arg0("dio");
    }
    run.args(arguments);
    Ok(run)
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

/// Runs all ways in turn, `rounds` times. After a signal, the prediction has what was measured.
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
                prediction.missing.push("the proof was stopped before its end".to_owned());
                return Ok(());
            }
            if failed[number].is_none() {
                match run(way) {
                    Ok(seconds) => times[number].push(seconds),
                    Err(text) => failed[number] = Some(text),
                }
            }
        }
    }
    for (way, failed) in prediction.ways.iter().zip(&failed) {
        if let Some(text) = failed {
            prediction.missing.push(format!("a run by this way failed: {}: {text}", way.way));
        }
    }
    let median = |(times, failed): (&mut Vec<f64>, &Option<String>)| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().filter(|_| failed.is_none())
    };
    let medians: Vec<_> = times.iter_mut().zip(&failed).map(median).collect();
    prediction.prove(&medians);
    Ok(())
}

/// A system call that has changed names of files which the command did not make itself, and the
/// directory, if there may be such names.
fn changed_before(prediction: &Prediction) -> Option<(&'static str, &Path)> {
    let count = |directory: &Path, call: &str| {
        let all = prediction.changed_names.iter();
        let of = all.filter(|names| names.directory == directory && names.call == call);
        of.map(|names| names.count).sum::<u64>()
    };
    let is_its_own = |names: &ChangedNames| match names.call {
        "mkdir" => true,
        "rmdir" => names.count <= count(&names.directory, "mkdir"),
        // Temporary files, which were empty when it first used them.
        "unlink" => {
            let temporary = prediction.files.iter().filter(|file| {
                file.path.parent() == Some(&names.directory)
                    && file.is_written
                    && file.size == 0
                    && !is_the_same(&file.path, file.inode)
            });
            names.count <= temporary.count() as u64
        }
        _ => false,
    };
    let foreign = prediction.changed_names.iter().find(|names| !is_its_own(names))?;
    Some((foreign.call, &foreign.directory))
}

/// Whether a file with bytes that was there before, and was opened for writing, cannot be set
/// aside: it is not found by its name, has another name, or each run gets it from this process.
fn is_beyond_reach(file: &FoundFile) -> bool {
    if !file.is_changed {
        return false;
    }
    let Ok(found) = fs::symlink_metadata(&file.path) else { return true };
    found.ino() != file.inode || found.nlink() > 1 || is_passed_on(&found)
}

/// Whether a process that this one starts gets the file open, other than as its standard input and
/// output.
fn is_passed_on(file: &fs::Metadata) -> bool {
    let own = FileId::of_metadata(file);
    let mut others = open_descriptors().filter(|(number, _)| *number > 2);
    others.any(|(_, path)| fs::metadata(path).is_ok_and(|open| FileId::of_metadata(&open) == own))
}

/// Whether this process writes the file as its standard output or standard error, which the runs
/// do not get.
fn is_own_output(path: &Path) -> bool {
    let Ok(file) = fs::metadata(path).map(|file| FileId::of_metadata(&file)) else { return false };
    FileId::of_open(io::stdout()) == Ok(file) || FileId::of_open(io::stderr()) == Ok(file)
}

/// Whether a name leads to the file of this inode.
fn is_the_same(path: &Path, inode: u64) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.ino() == inode)
}

/// Whether a file that was there before, and was read, is gone now, or shorter than what was read
/// of it.
fn is_used_up(file: &FoundFile) -> bool {
    let is_left = match fs::metadata(&file.path) {
        Ok(found) => found.ino() != file.inode || found.len() >= file.read_to,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    file.found != Found::Absent && file.read_to > 0 && !is_left
}

/// Lets the disk finish what the run before left to it.
fn settle(files: &[FoundFile]) {
    let dirs: BTreeSet<&Path> = files.iter().filter_map(|file| file.path.parent()).collect();
    for dir in dirs.into_iter().filter_map(|dir| File::open(dir).ok()) {
        let _ = rustix::fs::syncfs(&dir);
    }
}

/// Has a file as it was when the command was recorded: in the page cache, or not.
fn as_found(FoundFile { path, found, .. }: &FoundFile) {
    let Ok(mut file) = File::open(path) else { return };
    match found {
        Found::Warm => drop(io::copy(&mut file, &mut io::sink())),
        Found::Cold => {
            let _ = file.sync_data();
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
        }
        Found::Absent => {}
    }
}
