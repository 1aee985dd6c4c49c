//! Whom to record: a command, or processes that run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use dio_advise::record::{RecordError, Recorded, Subject, WatchBy, attach, record, sees_cache};
use dio_advise::trace::EventSink;
use dio_advise::watch::WatchError;
use dio_common::time::parse_time;

use crate::quote::quoted;
use crate::stop::Stop;

/// The values of `--watch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Watch {
    /// By programs in the kernel, which needs root or CAP_BPF and CAP_PERFMON
    Bpf,
    /// By stopping the command at each system call, which takes longer and sees less
    Ptrace,
}

impl From<Watch> for WatchBy {
    fn from(watch: Watch) -> WatchBy {
        match watch {
            Watch::Bpf => WatchBy::Bpf,
            Watch::Ptrace => WatchBy::Ptrace,
        }
    }
}

/// How a command is watched, or processes that run already.
#[derive(Debug, clap::Args)]
pub(in crate::commands) struct AttachArgs {
    /// Watch the command in this way; without it, in the first that works. What runs already is
    /// watched by bpf only
    #[arg(long, value_name = "WAY", value_enum)]
    watch: Option<Watch>,

    /// Watch the process PID, which runs already, with all threads, and the processes that it makes
    /// from now on; may be given several times. Ctrl-C ends the watching, not the process
    #[arg(long, value_name = "PID", group = "running")]
    pub(in crate::commands) pid: Vec<u32>,

    /// Watch whoever uses files below DIR, and only their requests to these
    #[arg(
        long = "dir",
        value_name = "DIR",
        group = "running",
        conflicts_with = "pid",
        value_hint = clap::ValueHint::DirPath
    )]
    pub(in crate::commands) users_of: Option<PathBuf>,

    /// Watch for this time: seconds, or a number with us, ms, s, m or h
    #[arg(long = "for", value_name = "TIME", requires = "running", value_parser = parse_time)]
    time: Option<Duration>,
}

/// Runs and records a command, or records processes.
///
/// A signal that would end dio ends the command instead, and dio with it: Ctrl-C reaches both, and
/// the others are passed on. Processes that ran already are left alone by signals.
pub(in crate::commands) fn recorded(
    attached: &AttachArgs,
    words: &[OsString],
    sink: impl EventSink + Send,
) -> Result<Recorded, RecordError> {
    let stop = Stop::on_signals();
    if attached.watch == Some(Watch::Ptrace) && words.is_empty() {
        return Err(RecordError::Watch(WatchError::Running));
    }
    let Some((program, arguments)) = words.split_first() else {
        let subject = match &attached.users_of {
            Some(directory) => Subject::Directory(directory),
            None => Subject::Processes(&attached.pid),
        };
        return attach(subject, attached.time, sink, &|| stop.asked());
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let begun = |by| {
        if by == WatchBy::Ptrace {
            eprintln!("{}", by_ptrace());
        }
    };
    let by = attached.watch.map(WatchBy::from);
    let recorded = record(command, by, sink, &|| stop.passed_on(), &begun)?;
    if let Some(program) = &recorded.without_rights {
        eprintln!(
            "dio: {} ran without the rights of its owner, because it was traced",
            quoted(program)
        );
    }
    Ok(recorded)
}

/// What is said where a command is watched by ptrace.
fn by_ptrace() -> String {
    let unseen = if sees_cache() { "" } else { ", what is in the page cache" };
    format!(
        "dio: watched by ptrace, each call takes longer; not seen: mapped memory, io_uring, \
         asynchronous I/O{unseen}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let seconds = |text| parse_time(text).ok().map(|time| time.as_secs_f64());
        assert_eq!(seconds("60s"), Some(60.0));
        assert_eq!(seconds("0.5"), Some(0.5));
        assert_eq!(seconds("2m"), Some(120.0));
        assert_eq!(seconds("1h"), Some(3600.0));
        assert_eq!([seconds("s"), seconds(""), seconds("-1s"), seconds("1d")], [None; 4]);
    }
}
