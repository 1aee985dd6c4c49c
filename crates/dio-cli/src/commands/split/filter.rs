//! `--filter`: outputs that are commands.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use dio::file::{Class, Counters};
use signal_hook::consts::SIGPIPE;

use crate::quote::{named, words};
use crate::tool::{Tool, errno_of};

use super::failure::{SplitFailure, SplitResult};

/// The requested capacity of the pipe, in bytes: the most that an unprivileged user may have
/// (`pipe(7)`).
const PIPE: usize = 1 << 20;

/// A command that reads one output.
#[derive(Debug)]
pub(super) struct Filter {
    name: OsString,
    command: OsString,
    /// `None` if the shell could not be run; that is reported when the output is complete.
    child: Option<Child>,
    /// Whether the command has stopped reading.
    reader_gone: bool,
    counters: Counters,
}

impl Filter {
    /// Runs `command` in the user's shell, with the name of the output in `$FILE`.
    pub(super) fn run(tool: &Tool, command: &OsStr, name: OsString) -> SplitResult<Filter> {
        let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
        let called = Path::new(&shell).file_name().unwrap_or(&shell);
        let spawned = Command::new(&shell)
            .arg0(called)
            .arg("-c")
            .arg(command)
            .env("FILE", &name)
            .stdin(Stdio::piped())
            .spawn();
        let child = match spawned {
            Ok(child) => Some(child),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory
                ) =>
            {
                return Err(SplitFailure::Message(format!(
                    "fork system call failed: {}",
                    words(errno_of(&error))
                )));
            }
            Err(error) => {
                let (shell, what) = (shell.display(), words(errno_of(&error)));
                tool.note(format_args!(
                    "failed to run command: \"{shell} -c {}\": {what}",
                    command.display()
                ));
                None
            }
        };
        if let Some(pipe) = child.as_ref().and_then(|child| child.stdin.as_ref()) {
            let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE);
        }
        let reader_gone = child.is_none();
        Ok(Filter {
            name,
            command: command.to_owned(),
            child,
            reader_gone,
            counters: Counters::default(),
        })
    }

    /// Returns whether the command has stopped reading.
    pub(super) fn reader_gone(&self) -> bool {
        self.reader_gone
    }

    /// Returns the counters of the bytes written to the command.
    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the name of the output.
    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Writes to the command. It is no error if the command has stopped reading.
    pub(super) fn write(&mut self, bytes: &[u8]) -> SplitResult<()> {
        let Some(pipe) = self
            .child
            .as_mut()
            .and_then(|child| child.stdin.as_mut())
            .filter(|_| !self.reader_gone)
        else {
            return Ok(());
        };
        match pipe.write_all(bytes) {
            Ok(()) => {
                self.counters.written.add(Class::Piped, bytes.len() as u64);
                self.counters.write_requests += 1;
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.reader_gone = true;
                Ok(())
            }
            Err(error) => Err(SplitFailure::written(&self.name, &error)),
        }
    }

    /// Ends the output: waits for the command, and reports an unsuccessful end.
    pub(super) fn close(&mut self) -> SplitResult<()> {
        let status = match self.child.take() {
            // Waiting closes the pipe first.
            Some(mut child) => child.wait().map_err(|error| {
                SplitFailure::Message(format!(
                    "waiting for child process: {}",
                    words(errno_of(&error))
                ))
            })?,
            None => ExitStatus::from_raw(1 << 8),
        };
        let (name, command) = (named(&self.name), self.command.display());
        match (status.signal(), status.code()) {
            (Some(SIGPIPE), _) | (None, Some(0) | None) => Ok(()),
            (Some(signal), _) => {
                let word = signal_name(signal);
                let message = format!("with FILE={name}, signal {word} from command: {command}");
                Err(SplitFailure::Filter { message, status: (signal + 128) as u8 })
            }
            (None, Some(code)) => {
                let message = format!("with FILE={name}, exit {code} from command: {command}");
                Err(SplitFailure::Filter { message, status: code as u8 })
            }
        }
    }
}

/// Returns the name of a signal without `SIG`; real-time signals are counted from the nearer end of
/// their range (`signal(7)`).
fn signal_name(signal: i32) -> String {
    const RTMIN: i32 = 34;
    const RTMAX: i32 = 64;
    match signal {
        RTMIN => "RTMIN".to_owned(),
        RTMAX => "RTMAX".to_owned(),
        16 => "STKFLT".to_owned(),
        29 => "POLL".to_owned(),
        30 => "PWR".to_owned(),
        35..=49 => format!("RTMIN+{}", signal - RTMIN),
        50..RTMAX => format!("RTMAX-{}", RTMAX - signal),
        _ => match signal_hook::low_level::signal_name(signal) {
            Some(name) => name.trim_start_matches("SIG").to_owned(),
            None => signal.to_string(),
        },
    }
}
