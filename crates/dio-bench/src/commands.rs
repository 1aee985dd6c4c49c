//! Commands of the system, joined by pipes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::BenchError;

/// One command of a pipeline.
#[derive(Clone, Debug)]
pub struct PipelineCommand {
    /// The program and its arguments.
    words: Vec<OsString>,
    /// The command line as a person would type it.
    shown: String,
}

impl PipelineCommand {
    /// A program with its arguments.
    pub fn new<const N: usize>(words: [&OsStr; N]) -> PipelineCommand {
        let shown = words.map(|word| word.to_string_lossy().into_owned()).join(" ");
        PipelineCommand { words: words.map(OsStr::to_owned).to_vec(), shown }
    }

    /// A command line that is run by the shell.
    pub fn shell(text: &str) -> PipelineCommand {
        PipelineCommand {
            words: ["sh", "-c", text].map(OsString::from).to_vec(),
            shown: text.to_owned(),
        }
    }

    /// The command as a person would type it.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

/// Runs commands as a pipeline, each one reading the output of the one before, and waits for all of
/// them. The first command reads nothing; the last one writes to `output`.
///
/// # Errors
/// The first command that could not be started or that failed. The other commands are ended in that
/// case.
pub fn run_line(parts: &[PipelineCommand], output: File) -> Result<(), BenchError> {
    let mut line = Vec::new();
    let mut input = Stdio::null();
    let mut output = Some(output);
    for (position, part) in parts.iter().enumerate() {
        let last = position + 1 == parts.len();
        let to =
            if last { output.take().map_or_else(Stdio::null, Stdio::from) } else { Stdio::piped() };
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

/// Returns the standard output of a command that succeeded; `shown` is the command's name.
pub(crate) fn said(shown: &str, output: std::io::Result<Output>) -> Result<String, BenchError> {
    let output = output.map_err(BenchError::system("start", Path::new(shown)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(BenchError::Asked(format!("'{shown}' failed: {said}")))
}

/// How long a command that is ended by a signal other than SIGKILL may take before it is killed by
/// SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// A running command. It is ended when this is dropped, or by [`kill_all`].
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// The signal that ends the command when this is dropped.
    last: Signal,
}

impl Running {
    /// Starts a command that a person would type as `shown`.
    pub(crate) fn start(command: &mut Command, shown: &str) -> Result<Running, BenchError> {
        Running::ended_by(Signal::KILL, command, shown)
    }

    /// As [`Running::start`], for a command that would leave something behind if it were killed:
    /// the signal `last` makes it end immediately, but in order.
    pub(crate) fn ended_by(
        last: Signal,
        command: &mut Command,
        shown: &str,
    ) -> Result<Running, BenchError> {
        // The lock is taken before the command starts, so that `kill_all` misses no running
        // command.
        let mut running = running();
        let child = command.spawn().map_err(BenchError::system("start", Path::new(shown)))?;
        if let Ok(process) = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            running.push(KnownCommand { id: child.id(), process, last });
        }
        Ok(Running { child, last })
    }

    /// Waits until the command ends, and returns its output.
    pub(crate) fn output(mut self) -> std::io::Result<Output> {
        let mut complaints = self.child.stderr.take();
        thread::scope(|scope| {
            let complaints = scope.spawn(move || all_of(complaints.as_mut()));
            let stdout = all_of(self.child.stdout.take().as_mut())?;
            let stderr =
                complaints.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok(Output { status: self.child.wait()?, stdout, stderr })
        })
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the command ends.
    pub(crate) fn wait(&mut self, shown: &str) -> Result<ExitStatus, BenchError> {
        self.child.wait().map_err(BenchError::system("wait for", Path::new(shown)))
    }

    /// The exit status, if the command has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let id = self.child.id();
        // If the command has been waited for already, nothing below has an effect.
        if self.last != Signal::KILL && self.ended().is_none() {
            let known = running()
                .iter()
                .find(|known| known.id == id)
                .and_then(|known| known.process.try_clone().ok());
            known.into_iter().for_each(|process| end(&process, self.last));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        running().retain(|known| known.id != id);
    }
}

fn all_of(pipe: Option<&mut impl Read>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.map_or(Ok(0), |pipe| pipe.read_to_end(&mut bytes)).map(|_| bytes)
}

/// A running command, as `kill_all` needs it.
struct KnownCommand {
    id: u32,
    /// A pidfd: unlike the process id, it never comes to refer to another process.
    process: OwnedFd,
    last: Signal,
}

/// The commands that are running now.
fn running() -> MutexGuard<'static, Vec<KnownCommand>> {
    static RUNNING: Mutex<Vec<KnownCommand>> = Mutex::new(Vec::new());
    RUNNING.lock()
}

/// Ends a process by a signal, and by SIGKILL if it takes too long.
fn end(process: &OwnedFd, by: Signal) {
    let _ = pidfd_send_signal(process, by);
    let grace = Timespec { tv_sec: GRACE.as_secs() as _, tv_nsec: 0 };
    // The descriptor becomes readable when the process has ended (pidfd_open(2)).
    if by != Signal::KILL
        && !matches!(poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&grace)), Ok(1))
    {
        let _ = pidfd_send_signal(process, Signal::KILL);
    }
}

/// Ends every running command. A process that is about to end by a signal calls this; the lock
/// stays taken, so that no other command can be started afterwards.
pub fn kill_all() {
    let mut running = running();
    running.drain(..).for_each(|known| end(&known.process, known.last));
    std::mem::forget(running);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(parts: &[&str]) -> (Result<(), BenchError>, String) {
        let directory =
            std::env::temp_dir().join(format!("dio-bench-line-{:?}", std::thread::current().id()));
        let file = File::create(&directory).unwrap();
        let parts: Vec<PipelineCommand> =
            parts.iter().map(|text| PipelineCommand::shell(text)).collect();
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
    fn one_that_would_leave_something_is_ended_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let (ready, tidy) = (directory.path().join("ready"), directory.path().join("tidy"));
        let mut server = Command::new("sh");
        server.args([
            "-c",
            "trap 'touch \"$1\"; exit' QUIT; touch \"$0\"; while :; do sleep 0.01; done",
        ]);
        let server =
            Running::ended_by(Signal::QUIT, server.args([&ready, &tidy]), "server").unwrap();
        while !ready.exists() {
            thread::sleep(Duration::from_millis(5));
        }
        drop(server);
        assert!(tidy.exists());
    }

    #[test]
    fn a_command_that_fails_is_named_and_ends_the_others() {
        let start = std::time::Instant::now();
        let (outcome, _) = line(&["exit 3", "exec sleep 60"]);
        assert_eq!(outcome.unwrap_err().to_string(), "'exit 3' failed: exit status: 3");
        assert!(start.elapsed().as_secs() < 30);
        let parts = [
            PipelineCommand::shell("exec sleep 60"),
            PipelineCommand::new([OsStr::new("/nonexistent/program")]),
        ];
        let error = run_line(&parts, File::open("/dev/null").unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot start '/nonexistent/program': No such file or directory"
        );
        assert!(start.elapsed().as_secs() < 30);
    }
}
