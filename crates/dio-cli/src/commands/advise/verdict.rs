//! The verdict about a command, a process, or a trace.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufReader, Seek};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dio_advise::machine_id;
use dio_advise::predict::{PredictError, Prediction, Workload};
use dio_advise::record::{RecordError, shell_status};
use dio_advise::speed::Profile;
use dio_advise::trace::TraceWriter;

use super::args::AdviseArgs;
use super::prove::{self, Runs};
use super::said::{ReportFile, complain, write_report};
use super::sample;
use crate::commands::probe::speed;
use crate::commands::record::{FAILED, failed, recorded};
use crate::commands::words;
use crate::quote::quoted;
use crate::stop::Stop;

/// Gives advice; returns the exit status.
pub(super) fn run(args: &AdviseArgs) -> ExitCode {
    // A file that cannot be read or written is told before anything runs.
    let given = match Given::open(args) {
        Ok(given) => given,
        Err(text) => {
            complain(&text);
            return ExitCode::from(if args.trace.is_some() { 1 } else { FAILED });
        }
    };
    match &args.trace {
        Some(path) => of_trace(args, given, path),
        None => of_command(args, given),
    }
}

/// The files that the command line names.
struct Given<'a> {
    /// That of `--device`.
    profile: Option<Profile>,
    output: Option<ReportFile<'a>>,
}

impl Given<'_> {
    fn open(args: &AdviseArgs) -> Result<Given<'_>, String> {
        let profile = args.device.as_deref().map(read_profile).transpose()?;
        Ok(Given { profile, output: ReportFile::open(args.output.as_ref())? })
    }
}

fn of_trace(args: &AdviseArgs, given: Given<'_>, path: &Path) -> ExitCode {
    let trace = match File::open(path) {
        Ok(trace) => trace,
        Err(error) => {
            complain(&format!("cannot read {}: {}", quoted(path), words(&error)));
            return ExitCode::from(1);
        }
    };
    let workload = Workload::read(BufReader::new(trace)).map_err(|error| error.to_string());
    let advised = workload.and_then(|workload| {
        let damage = workload.damage().map(ToString::to_string);
        let mut prediction = advised(given.profile, &workload)?;
        if args.prove {
            prove::replays(&mut prediction, path, &args.scratch, args.rounds)?;
        }
        write_report(&prediction, args.json, given.output, io::stdout())?;
        // The verdict is of what is before the damage.
        damage.map_or(Ok(()), Err)
    });
    match advised {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            complain(&format!("{}: {text}", quoted(path)));
            ExitCode::from(1)
        }
    }
}

fn of_command(args: &AdviseArgs, given: Given<'_>) -> ExitCode {
    let before = match args.prove.then(prove::Before::look).transpose() {
        Ok(before) => before,
        Err(text) => {
            complain(&text);
            return ExitCode::from(FAILED);
        }
    };
    let (trace, status) = match recorded_trace(args) {
        Ok(recorded) => recorded,
        Err(error) => return failed("advise", &error),
    };
    let stop = Stop::on_signals();
    let was_stopped = stop.asked();
    stop.heeded();
    let mut workload = match Workload::read(BufReader::new(trace)) {
        Ok(workload) => workload,
        Err(PredictError::Empty) => return nothing_to_advise(status),
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::from(FAILED);
        }
    };
    if workload.place().is_none() {
        return nothing_to_advise(status);
    }
    sample::take(&mut workload, &args.command);
    let advised = advised(given.profile, &workload).and_then(|mut prediction| {
        match before {
            Some(_) if was_stopped => {
                prediction.missing.push("it was stopped, so nothing is proved".to_owned());
            }
            Some(before) => {
                let runs = Runs { command: &args.command, before, status };
                prove::runs(&mut prediction, &runs, args.rounds, args.repeat)?;
            }
            None => {}
        }
        write_report(&prediction, args.json, given.output, io::stderr())
    });
    match advised {
        Ok(()) => ExitCode::from(status),
        Err(text) => {
            complain(&text);
            ExitCode::from(FAILED)
        }
    }
}

fn nothing_to_advise(status: u8) -> ExitCode {
    complain("it made no requests to files that could go another way");
    ExitCode::from(status)
}

/// Runs and records the command; returns the trace, a file without a name, and the exit status.
fn recorded_trace(args: &AdviseArgs) -> Result<(File, u8), RecordError> {
    let mut trace = tempfile::tempfile().map_err(RecordError::Trace)?;
    let writer = TraceWriter::new(&trace).map_err(RecordError::Trace)?;
    let recorded = recorded(&args.attached, &args.command, writer)?;
    trace.rewind().map_err(RecordError::Trace)?;
    Ok((trace, shell_status(recorded.status)))
}

fn advised(given: Option<Profile>, workload: &Workload) -> Result<Prediction, String> {
    let profile = match given {
        Some(profile) => profile,
        None => own_profile(workload)?,
    };
    Ok(workload.predict(&profile))
}

fn read_profile(path: &Path) -> Result<Profile, String> {
    let text = fs::read(path)
        .map_err(|error| format!("cannot read {}: {}", quoted(path), words(&error)))?;
    Profile::read(&text).map_err(|error| format!("{}: {error}", quoted(path)))
}

/// The profile of the disk on which the most bytes were moved: the one that is kept, or a new one.
fn own_profile(workload: &Workload) -> Result<Profile, String> {
    let (device, dir) =
        workload.place().ok_or("it has no requests to files that could go another way")?;
    if !workload.machine().is_empty() && workload.machine() != machine_id() {
        return Err("it was recorded on another machine: give a profile by --device, of that \
                    machine's disk or of another one"
            .to_owned());
    }
    if let Some(path) = speed::kept_path(device).filter(|path| path.exists()) {
        match read_profile(&path) {
            Ok(profile) => return Ok(profile),
            Err(text) => complain(&format!("{text}; it is measured again")),
        }
    }
    let dir = scratch_on(device, &dir).ok_or_else(|| {
        format!(
            "the disk of {} is not at hand: give a profile of it by --device, or of another one",
            quoted(&dir)
        )
    })?;
    eprintln!(
        "dio advise: measuring what requests cost in {}, {}, once",
        quoted(&dir),
        speed::ABOUT
    );
    let profile = speed::measured(&dir, 1)?;
    if let Err(error) = speed::keep(&profile) {
        complain(&format!("the profile is not kept: {}", words(&error)));
    }
    Ok(profile)
}

/// A directory on the disk of a number where files may be made: the current one, that for temporary
/// files, or the one of the data.
fn scratch_on(device: u64, data: &Path) -> Option<PathBuf> {
    let current = env::current_dir().ok();
    let candidates = [current, Some(env::temp_dir()), Some(data.to_owned())];
    let is_there = |dir: &PathBuf| speed::device_of(dir).is_ok_and(|found| found == device);
    candidates.into_iter().flatten().find(is_there)
}
