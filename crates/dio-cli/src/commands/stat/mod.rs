//! `dio stat`: shows the activity of a running mount.

mod report;
mod table;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dio_mount::control::{self, Client, ControlError};
use dio_mount::stats::{Interval, Snapshot, prometheus};

use rustix::process::Pid;

use super::words;

/// Longest interval, in seconds: a year.
const LONGEST: f64 = 365.0 * 86_400.0;

/// Show what a dio mount does: requests, latencies, bytes by class, and what requests are blocked
/// on
///
/// Without --interval or --count, what happened since the mount began is shown once, as rates over
/// that time. With one of them, what happens from now on, in reports of one interval each; on a
/// terminal the last one stays in its place. Rates are per second. The figures are explained in
/// docs/stat.md.
#[derive(Debug, clap::Args)]
pub struct StatArgs {
    /// A dio mount, or a path below it
    #[arg(value_name = "MOUNTPOINT", required_unless_present = "pid")]
    mountpoint: Option<PathBuf>,

    /// A mount that process PID sees, such as the command of a `dio run`; MOUNTPOINT is needed if
    /// there are several
    #[arg(short, long, value_name = "PID", value_parser = parse_pid)]
    pid: Option<Pid>,

    /// Report what happens every so many seconds (1, unless given, with --count)
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_interval)]
    interval: Option<Duration>,

    /// End after so many reports; without it, they go on until the mount ends
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Show the busiest files too
    #[arg(long)]
    files: bool,

    /// Print each report as one JSON object on one line
    #[arg(long)]
    json: bool,

    /// Print the counters in the text format of Prometheus
    #[arg(long, conflicts_with_all = ["json", "files"])]
    prometheus: bool,

    /// Replace this file by each report, atomically, instead of printing it
    #[arg(short, long, value_name = "FILE", requires = "prometheus")]
    output: Option<PathBuf>,
}

/// Parses an interval: a positive number of seconds.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 =
        text.parse().map_err(|_| "a number of seconds is needed, such as 1 or 0.5".to_owned())?;
    if !(0.01..=LONGEST).contains(&seconds) {
        return Err("between 0.01 seconds and a year".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn parse_pid(text: &str) -> Result<Pid, String> {
    text.parse()
        .ok()
        .filter(|pid| *pid > 0)
        .and_then(Pid::from_raw)
        .ok_or_else(|| "a process is a number".to_owned())
}

/// The reason for which the command ends early.
#[derive(Debug, thiserror::Error)]
enum StatError {
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error("cannot write '{path}': {}", words(.source))]
    Output { path: PathBuf, source: io::Error },
    #[error("cannot write to standard output: {}", words(.0))]
    Standard(io::Error),
}

/// Queries the mount and prints reports. The exit status is 1 if the mount cannot be queried, or
/// ends.
pub fn run(args: StatArgs) -> ExitCode {
    let client = match (&args.pid, &args.mountpoint) {
        (Some(pid), path) => control::connect_of(*pid, path.as_deref()),
        (None, path) => control::connect(path.as_deref().unwrap_or(Path::new("."))),
    };
    match client.map_err(StatError::from).and_then(|client| StatRun::new(&args, client).run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if matches!(&error, StatError::Standard(error)
                if error.kind() == io::ErrorKind::BrokenPipe)
            {
                crate::tool::die_of_a_closed_pipe(rustix::io::Errno::PIPE);
            }
            eprintln!("dio: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_show(now: &Snapshot, earlier: Option<&Snapshot>) -> usize {
    let interval = now.since(earlier);
    let text = table::render(&interval, earlier.is_some(), now, true);
    let json = report::to_json(&interval, earlier.is_some(), true).to_string();
    text.len()
        + table::on_screen(&text, (25, 80)).len()
        + json.len()
        + prometheus::render(now).len()
}

/// One run of the command.
struct StatRun<'a> {
    args: &'a StatArgs,
    client: Client,
    /// Whether each report replaces the previous one on the terminal.
    live: bool,
    any: bool,
}

impl<'a> StatRun<'a> {
    fn new(args: &'a StatArgs, client: Client) -> StatRun<'a> {
        let table = !args.json && !args.prometheus;
        StatRun { args, client, live: table && io::stdout().is_terminal(), any: false }
    }

    fn run(mut self) -> Result<(), StatError> {
        let first = self.client.snapshot()?;
        if self.args.interval.is_none() && self.args.count.is_none() {
            self.live = false;
            return self.report(&first, None);
        }
        let every = self.args.interval.unwrap_or(Duration::from_secs(1));
        let (mut last, mut next, mut left) = (first, Instant::now(), self.args.count);
        while left != Some(0) {
            next += every;
            // A report that takes longer than the interval delays all later ones.
            next = next.max(Instant::now());
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
            let now = self.client.snapshot()?;
            self.report(&now, Some(&last))?;
            last = now;
            left = left.map(|left| left - 1);
        }
        Ok(())
    }

    fn report(&mut self, now: &Snapshot, earlier: Option<&Snapshot>) -> Result<(), StatError> {
        if self.args.prometheus {
            return self.export(&prometheus::render(now));
        }
        let interval = now.since(earlier);
        let text = match self.args.json {
            true => format!("{}\n", report::to_json(&interval, earlier.is_some(), self.args.files)),
            false => self.block(&interval, earlier.is_some(), now),
        };
        self.print(&text)
    }

    fn export(&mut self, text: &str) -> Result<(), StatError> {
        match &self.args.output {
            None => self.print(text),
            Some(path) => write(path, text),
        }
    }

    fn block(&self, interval: &Interval, live: bool, now: &Snapshot) -> String {
        let text = table::render(interval, live, now, self.args.files);
        if self.live {
            return table::on_screen(&text, screen());
        }
        if self.any { format!("\n{text}") } else { text }
    }

    fn print(&mut self, text: &str) -> Result<(), StatError> {
        self.any = true;
        let mut output = io::stdout().lock();
        output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(StatError::Standard)
    }
}

fn write(path: &Path, text: &str) -> Result<(), StatError> {
    control::write_file(path, text)
        .map_err(|source| StatError::Output { path: path.to_owned(), source })
}

/// Lines and columns of the terminal, or 24 × 80 if it does not report them.
fn screen() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => (24, 80),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_positive_numbers() {
        assert_eq!(parse_interval("1"), Ok(Duration::from_secs(1)));
        assert_eq!(parse_interval("0.25"), Ok(Duration::from_millis(250)));
        for wrong in ["", "0", "-1", "NaN", "inf", "1s", "1e300", "0.001"] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}
