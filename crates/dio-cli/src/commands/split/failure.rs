//! What ends a run early.

use std::ffi::OsStr;
use std::io;

use rustix::io::Errno;

use crate::quote::{named, words};
use crate::tool::{Tool, die_of_a_closed_pipe, errno_of};

/// Why the run ends, and with which status.
#[derive(Debug)]
pub(super) enum Failure {
    /// To be told; status 1.
    Message(String),
    /// A filter failed: to be told, and the run ends with this status.
    Filter { message: String, status: u8 },
    /// Standard output.
    Write(io::Error),
    /// Nobody reads what is written: the process ends as programs do that write into a closed pipe.
    Pipe(String),
}

/// A result that ends the run when it is an error.
pub(super) type Run<T> = Result<T, Failure>;

impl Failure {
    /// What a system call said about a file.
    pub(super) fn file(name: &OsStr, errno: Errno) -> Failure {
        Failure::Message(told(name, errno))
    }

    /// What a stream said about a file that is read.
    pub(super) fn read(name: &OsStr, error: &io::Error) -> Failure {
        Failure::file(name, errno_of(error))
    }

    /// What a stream said about a file that is written.
    pub(super) fn written(name: &OsStr, error: &io::Error) -> Failure {
        match errno_of(error) {
            Errno::PIPE => Failure::Pipe(told(name, Errno::PIPE)),
            errno => Failure::file(name, errno),
        }
    }

    /// Tells it, and returns the status.
    pub(super) fn tell(&self, tool: &Tool) -> u8 {
        match self {
            Failure::Message(message) => tool.error(message),
            Failure::Write(error) => tool.write_failed(error),
            Failure::Pipe(message) => {
                die_of_a_closed_pipe(Errno::PIPE);
                tool.error(message);
            }
            Failure::Filter { message, status } => {
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
