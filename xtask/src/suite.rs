//! `cargo xtask test`: the whole suite on every file system, and its count.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::Error;
use crate::filesystems::{names, obstacle, skip_log, test_command};
use crate::hang::Watch;
use crate::scratch::Scratch;
use crate::setup::setup;
use crate::tally::{Reader, Tally};
use crate::tool::in_ci;

/// How often is looked whether a test hangs, while nothing is said.
const GLANCE: Duration = Duration::from_secs(10);

/// Runs all tests and prints the count as the last line; true when nothing failed.
pub(crate) fn test(args: &[String]) -> bool {
    let tally = counted(args);
    println!("{tally}");
    tally.failed == 0
}

/// Runs all tests; an error of the harness itself counts as one failure.
pub(crate) fn counted(args: &[String]) -> Tally {
    run(args).unwrap_or_else(|e| {
        println!("xtask: the tests could not be run: {e}");
        Tally { failed: 1, ..Tally::default() }
    })
}

fn run(args: &[String]) -> Result<Tally, Error> {
    let mut skipped = Vec::new();
    let missing = setup();
    if !missing.is_complete() {
        skipped.push(format!("what needs {}", missing.names().join(" ")));
    }
    let parent = std::env::var_os("DIO_TEST_DIR").unwrap_or_else(|| "/var/tmp".into());
    let scratch = Scratch::new(&PathBuf::from(parent).canonicalize()?)?;
    let obstacle = obstacle();
    if let Some(reason) = &obstacle {
        println!("skipped: {} file systems ({reason})", names().count());
        skipped.extend(names().map(|name| format!("file system {name}: {reason}")));
    }
    let mut command = test_command(scratch.path(), obstacle.is_none(), args)?;
    let mut tally = stream(&mut command)?;
    if let Ok(log) = std::fs::read_to_string(skip_log(scratch.path())) {
        skipped.extend(log.lines().map(str::to_owned));
    }
    for what in &skipped {
        println!("skipped: {what}");
    }
    tally.skipped += skipped.len() as u64;
    if in_ci() && !skipped.is_empty() {
        println!("xtask: CI=true, where everything must run");
        tally.failed += 1;
    }
    Ok(tally)
}

/// Runs `cargo test`, shows its output line by line, and counts. What hangs is killed.
fn stream(command: &mut Command) -> Result<Tally, Error> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().expect("the pipe asked for");
    let (mut reader, mut watch) = (Reader::default(), Watch::new(child.id()));
    let (to_us, lines) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || BufReader::new(output).split(b'\n').try_for_each(|line| to_us.send(line)));
        loop {
            match lines.recv_timeout(GLANCE) {
                Ok(line) => {
                    let line = line?;
                    let line = String::from_utf8_lossy(&line);
                    println!("{line}");
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
