//! The formats, and what came of an export or import.

use std::io;

use crate::replay::ReplayError;
use crate::trace::TraceError;

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The log that fio replays (`read_iolog`): version 3 is written, 2 and 3 are read.
    Iolog,
    /// Comma-separated values, a line for each call, with a line of headings.
    Csv,
    /// The output of `blkparse`: requests to a disk on which the files lie one after another.
    Blkparse,
}

impl Format {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Iolog => "iolog",
            Format::Csv => "csv",
            Format::Blkparse => "blkparse",
        }
    }
}

/// The result of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exchanged {
    /// Requests that were written.
    pub requests: u64,
    /// Requests, or lines, that the other format cannot hold.
    pub left_out: u64,
    /// The trace was cut, or still grows.
    pub is_cut: bool,
    /// The trace is damaged, and was exported up to there.
    pub damage: Option<String>,
}

/// Why a trace was not exported or imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The trace cannot be read.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// The files cannot be made.
    #[error("{0}")]
    Files(#[from] ReplayError),
    /// A line of the other format cannot be understood.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// The fault.
        what: String,
    },
    /// A name cannot be written in the other format.
    #[error("the format has no names with spaces, and {0} has some: make files by --files")]
    Name(String),
    /// Whoever replays the log would overwrite recorded files.
    #[error("fio would write to the recorded files, such as {0}: make others by --files")]
    Writes(String),
    /// The other format cannot be read.
    #[error("{0}")]
    Read(#[source] io::Error),
    /// The result cannot be written.
    #[error("{0}")]
    Write(#[source] io::Error),
}
