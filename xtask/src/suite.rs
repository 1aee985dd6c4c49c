//! `cargo xtask test`: runs all tests on every file system, and counts them.

use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use crate::Error;
use crate::filesystems::{names, obstacle, skip_log, test_command};
use crate::hang::Watch;
use crate::python;
use crate::scratch::Scratch;
use crate::setup::setup;
use crate::tally::{Tally, TallyReader};
use crate::tool::in_ci;

/// How often the runner checks for a hanging test while nothing is printed.
const GLANCE: Duration = Duration::from_secs(10);

/// Runs all tests and prints the count as the last line. With arguments for `cargo test`, only its
/// tests are run. Returns whether nothing failed.
pub(crate) fn test(args: &[String]) -> bool {
    let suite = Suite::prepare();
    let mut tally = suite.counted(args, |line| println!("{line}"));
    if args.is_empty() {
        tally += python::counted(&suite, &[], |line| println!("{line}"));
    }
    suite.ended(tally)
}

/// Runs the random tests whose name contains `name`, one at a time, each for `minutes`. Returns
/// whether nothing failed.
pub(crate) fn soak(minutes: u64, name: &str) -> bool {
    let suite = Suite::prepare();
    let args = ["--tests", "--", "--nocapture", "--test-threads=1", name].map(str::to_owned);
    let tally = suite.counted_with("cargo", &args, &[("DIO_SOAK_SECONDS", minutes * 60)], |line| {
        println!("{line}");
    });
    suite.ended(tally)
}

/// The environment of the tests, and what is missing in it.
pub(crate) struct Suite {
    /// The reason why file systems cannot be mounted, if there is one.
    obstacle: Option<String>,
    /// Parts that cannot be tested, with the reason. Skips that tests report are in `told`.
    missing: Vec<String>,
    told: Mutex<Vec<String>>,
}

impl Suite {
    /// Installs what is missing, and determines what is available.
    pub(crate) fn prepare() -> Suite {
        let mut skipped = Vec::new();
        let missing = setup();
        if !missing.is_complete() {
            skipped.push(format!("what needs {}", missing.names().join(" ")));
        }
        let obstacle = obstacle();
        if let Some(reason) = &obstacle {
            println!("skipped: {} file systems ({reason})", names().count());
            skipped.extend(names().map(|name| format!("file system {name}: {reason}")));
        }
        Suite { obstacle, missing: skipped, told: Mutex::default() }
    }

    /// Runs `cargo test` and counts the tests. An error of the harness itself counts as one
    /// failure. Several calls may run at the same time.
    pub(crate) fn counted(&self, args: &[String], show: impl FnMut(&str)) -> Tally {
        self.counted_inside("cargo", args, show)
    }

    /// As [`Suite::counted`], for the tests of `runner`: `cargo`, `python` or `cluster`.
    pub(crate) fn counted_inside(
        &self,
        runner: &str,
        args: &[String],
        show: impl FnMut(&str),
    ) -> Tally {
        self.counted_with(runner, args, &[], show)
    }

    /// As [`Suite::counted_inside`], with environment variables.
    fn counted_with(
        &self,
        runner: &str,
        args: &[String],
        variables: &[(&str, u64)],
        show: impl FnMut(&str),
    ) -> Tally {
        self.run(runner, args, variables, show).unwrap_or_else(|e| {
            println!("xtask: the tests could not be run: {e}");
            Tally { failed: 1, ..Tally::default() }
        })
    }

    fn run(
        &self,
        runner: &str,
        args: &[String],
        variables: &[(&str, u64)],
        show: impl FnMut(&str),
    ) -> Result<Tally, Error> {
        let parent = std::env::var_os("DIO_TEST_DIR").unwrap_or_else(|| "/var/tmp".into());
        let scratch = Scratch::new(&PathBuf::from(parent).canonicalize()?)?;
        let mut command = test_command(runner, scratch.path(), self.obstacle.is_none(), args)?;
        command.envs(variables.iter().map(|(name, value)| (name, value.to_string())));
        let tally = stream(command, show)?;
        if let Ok(log) = std::fs::read_to_string(skip_log(scratch.path())) {
            let mut told = self.told.lock();
            told.extend(log.lines().map(str::to_owned));
        }
        Ok(tally)
    }

    /// Adds what was skipped, and prints the count as the last line. Returns whether nothing
    /// failed.
    pub(crate) fn ended(&self, mut tally: Tally) -> bool {
        tally += self.skipped();
        println!("{tally}");
        tally.failed == 0
    }

    /// Prints and counts what was skipped. In CI a skip is a failure.
    pub(crate) fn skipped(&self) -> Tally {
        let told = self.told.lock();
        let mut tally = Tally::default();
        for what in self.missing.iter().chain(&*told) {
            println!("skipped: {what}");
            tally.skipped += 1;
        }
        if in_ci() && tally.skipped > 0 {
            println!("xtask: CI=true, where everything must run");
            tally.failed += 1;
        }
        tally
    }
}

/// Runs `cargo test`, prints its output line by line, and counts the tests. Kills test programs
/// that hang.
fn stream(mut command: Command, mut show: impl FnMut(&str)) -> Result<Tally, Error> {
    let (output, input) = io::pipe()?;
    let mut child = command.stdout(input.try_clone()?).stderr(input).spawn()?;
    // The command holds the other ends of the pipe, without which the pipe would never end.
    drop(command);
    let (mut reader, mut watch) = (TallyReader::default(), Watch::new(child.id()));
    let (to_us, lines) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            BufReader::new(output).split(b'\n').try_for_each(|line| to_us.send(line))
        });
        loop {
            match lines.recv_timeout(GLANCE) {
                Ok(line) => {
                    let line = line?;
                    let line = String::from_utf8_lossy(&line);
                    show(&line);
                    reader.line(&line);
                    watch.heard();
                }
                Err(RecvTimeoutError::Timeout) => watch.look(),
                Err(RecvTimeoutError::Disconnected) => return Ok::<(), Error>(()),
            }
        }
    })?;
    Ok(reader.finish(child.wait()?.success()))
}
