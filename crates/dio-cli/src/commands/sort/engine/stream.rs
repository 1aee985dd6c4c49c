//! Sources of sorted lines, read in chunks: inputs, temporary files, and programs that decompress
//! temporary files.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use dio::stream::{Chunk, Input};

use super::failure::{SortFailure, SortResult};
use crate::tool::{Source, Tool};

/// A source of bytes.
#[derive(Debug)]
pub(super) enum Stream {
    /// An input.
    Source { source: Box<Source>, name: OsString },
    /// A temporary file.
    Run { input: Input, directory: PathBuf, tool: Tool },
    /// A program that decompresses a temporary file.
    Program { input: Input, child: Decompressor },
}

impl Stream {
    /// Returns the next bytes, or `None` at the end.
    ///
    /// # Errors
    /// Reading failed, or the program did not succeed.
    pub(super) fn next_chunk(&mut self) -> SortResult<Option<Chunk>> {
        match self {
            Stream::Source { source, name } => {
                source.next_chunk().map_err(|error| SortFailure::Read { name: name.clone(), error })
            }
            Stream::Run { input, directory, .. } => input
                .next_chunk()
                .map_err(|error| SortFailure::Fetch { directory: directory.clone(), error }),
            Stream::Program { input, child } => {
                let chunk = input.next_chunk().map_err(|error| child.failed(error.to_string()))?;
                match chunk {
                    Some(chunk) => Ok(Some(chunk)),
                    None => child.wait().map(|()| None),
                }
            }
        }
    }

    /// Returns whether a chunk can be read now, without waiting for the writer of a pipe.
    pub(super) fn is_ready(&self) -> bool {
        let input: &Input = match self {
            Stream::Source { source, .. } => source,
            Stream::Run { input, .. } | Stream::Program { input, .. } => input,
        };
        // An error counts as ready: the next read reports it.
        input.ready_within(Duration::ZERO).unwrap_or(true)
    }

    /// Closes the stream.
    pub(super) fn close(self) {
        match self {
            // An error of closing a source means no loss of bytes.
            Stream::Source { source, .. } => drop(source.close()),
            Stream::Run { input, tool, .. } => {
                if let Ok(counters) = input.close() {
                    tool.ledger().count(&counters);
                }
            }
            Stream::Program { .. } => {}
        }
    }
}

/// A process that compresses or decompresses. It is killed when its owner is dropped before it
/// ended.
#[derive(Debug)]
pub(super) struct Decompressor {
    program: OsString,
    decompress: bool,
    child: Child,
    over: bool,
}

impl Decompressor {
    pub(super) fn new(program: OsString, decompress: bool, child: Child) -> Decompressor {
        Decompressor { program, decompress, child, over: false }
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for the process to end.
    ///
    /// # Errors
    /// It did not exit with success.
    pub(super) fn wait(&mut self) -> SortResult<()> {
        if self.over {
            return Ok(());
        }
        self.over = true;
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.failed(status.to_string())),
            Err(error) => Err(self.failed(error.to_string())),
        }
    }

    fn failed(&self, how: String) -> SortFailure {
        SortFailure::Program { program: self.program.clone(), decompress: self.decompress, how }
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        if !self.over {
            // Its output is not needed any more.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
