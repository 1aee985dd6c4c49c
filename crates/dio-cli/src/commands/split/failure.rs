//! Errors that end a run early.

use std::ffi::OsStr;
use std::io;

use rustix::io::Errno;

use crate::quote::{named, words};
use crate::tool::{Tool, die_of_a_closed_pipe, errno_of};

/// Why the run ends, and with which status.
#[derive(Debug)]
pub(super) enum SplitFailure {
    /// A message to print; status 1.
    Message(String),
    /// A filter failed: the message is printed, and the run ends with this status.
    Filter { message: String, status: u8 },
    /// An error of standard output.
    Write(io::Error),
    /// The reader of a pipe has gone: the process ends as programs do that write into a closed
    /// pipe.
    Pipe(String),
}

/// A result whose error ends the run.
pub(super) type SplitResult<T> = Result<T, SplitFailure>;

impl SplitFailure {
    /// Creates the failure for a system call on a file.
    pub(super) fn file(name: &OsStr, errno: Errno) -> SplitFailure {
        SplitFailure::Message(told(name, errno))
    }

    /// Creates the failure for a stream that reads a file.
    pub(super) fn read(name: &OsStr, error: &io::Error) -> SplitFailure {
        SplitFailure::file(name, errno_of(error))
    }

    /// Creates the failure for a stream that writes a file.
    pub(super) fn written(name: &OsStr, error: &io::Error) -> SplitFailure {
        match errno_of(error) {
            Errno::PIPE => SplitFailure::Pipe(told(name, Errno::PIPE)),
            errno => SplitFailure::file(name, errno),
        }
    }

    /// Prints the failure, and returns the status.
    pub(super) fn tell(&self, tool: &Tool) -> u8 {
        match self {
            SplitFailure::Message(message) => tool.error(message),
            SplitFailure::Write(error) => tool.write_failed(error),
            SplitFailure::Pipe(message) => {
                die_of_a_closed_pipe(Errno::PIPE);
                tool.error(message);
            }
            SplitFailure::Filter { message, status } => {
                tool.error(message);
                return *status;
            }
        }
        1
    }
}

fn told(name: &OsStr, errno: Errno) -> String {
    format!("{}: {}", named(name), words(errno))
}
