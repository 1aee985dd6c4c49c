//! Commands of the system, joined by pipes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::BenchError;

/// One command of a line.
#[derive(Clone, Debug)]
pub struct Part {
    /// The program and its arguments.
    words: Vec<OsString>,
    /// As a person would type it.
    shown: String,
}

impl Part {
    /// A program with its arguments.
    pub fn new<const N: usize>(words: [&OsStr; N]) -> Part {
        let shown = words.map(|word| word.to_string_lossy().into_owned()).join(" ");
        Part { words: words.map(OsStr::to_owned).to_vec(), shown }
    }

    /// A command as the shell reads it.
    pub fn shell(text: &str) -> Part {
        Part { words: ["sh", "-c", text].map(OsString::from).to_vec(), shown: text.to_owned() }
    }

    /// The command as a person would type it.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

/// Runs commands, each of which reads what the one before writes, and waits for all. The first one reads nothing; the last
/// one writes to `output`.
///
/// # Errors
/// The first command that could not be started, or did not end well; the others are ended then.
pub fn run_line(parts: &[Part], output: File) -> Result<(), BenchError> {
    let mut line = Vec::new();
    let mut input = Stdio::null();
    let mut output = Some(output);
    for (position, part) in parts.iter().enumerate() {
        let last = position + 1 == parts.len();
        let to = if last { output.take().map_or_else(Stdio::null, Stdio::from) } else { Stdio::piped() };
        let mut command = Command::new(&part.words[0]);
        command.args(&part.words[1..]).stdin(input).stdout(to);
        let mut member = Running::start(&mut command, &part.shown)?;
        input = member.child.stdout.take().map_or_else(Stdio::null, Stdio::from);
        line.push(member);
    }
    for (part, member) in parts.iter().zip(&mut line) {
        let status = member.wait(&part.shown)?;
        if !status.success() {
            return Err(BenchError::Command { command: part.shown.clone(), status });
        }
    }
    Ok(())
}

/// A command that was started; ended when dropped, or by [`kill_all`].
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
}

impl Running {
    /// Starts a command that a person would type as `shown`.
    pub(crate) fn start(command: &mut Command, shown: &str) -> Result<Running, BenchError> {
        let child = command.spawn().map_err(BenchError::system("start", Path::new(shown)))?;
        if let Ok(process) = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            running().push((child.id(), process));
        }
        Ok(Running { child })
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self, shown: &str) -> Result<ExitStatus, BenchError> {
        self.child.wait().map_err(BenchError::system("wait for", Path::new(shown)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Of one that has been waited for, neither does anything.
        let _ = self.child.kill();
        let _ = self.child.wait();
        running().retain(|(id, _)| *id != self.child.id());
    }
}

/// The commands that run now. A descriptor of a process, unlike its number, never comes to mean another one.
fn running() -> MutexGuard<'static, Vec<(u32, OwnedFd)>> {
    static RUNNING: Mutex<Vec<(u32, OwnedFd)>> = Mutex::new(Vec::new());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends every command that runs: for a process that is about to end by a signal.
pub fn kill_all() {
    for (_, process) in running().drain(..) {
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(parts: &[&str]) -> (Result<(), BenchError>, String) {
        let directory = std::env::temp_dir().join(format!("dio-bench-line-{:?}", std::thread::current().id()));
        let file = File::create(&directory).unwrap();
        let parts: Vec<Part> = parts.iter().map(|text| Part::shell(text)).collect();
        let outcome = run_line(&parts, file);
        let written = std::fs::read_to_string(&directory).unwrap();
        std::fs::remove_file(directory).unwrap();
        (outcome, written)
    }

    #[test]
    fn what_one_writes_the_next_reads() {
        let (outcome, written) = line(&["echo abc", "tr a-c x-z", "cat; cat"]);
        outcome.unwrap();
        assert_eq!(written, "xyz\n");
    }

    #[test]
    fn a_command_that_fails_is_named_and_ends_the_others() {
        let start = std::time::Instant::now();
        let (outcome, _) = line(&["exit 3", "exec sleep 60"]);
        assert_eq!(outcome.unwrap_err().to_string(), "'exit 3' failed: exit status: 3");
        assert!(start.elapsed().as_secs() < 30);
        let parts = [Part::shell("exec sleep 60"), Part::new([OsStr::new("/nonexistent/program")])];
        let error = run_line(&parts, File::open("/dev/null").unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "cannot start '/nonexistent/program': No such file or directory");
        assert!(start.elapsed().as_secs() < 30);
    }
}
