//! Writes one of the outputs to standard output.

use std::io::{self, Write};

use rustix::io::Errno;

use crate::tool::{Sink, Tool, errno_of};

use super::cut::Cut;
use super::failure::{SplitFailure, SplitResult};
use super::sequence::PartReceiver;
use super::target::InputPart;

/// Short parts are gathered up to this size.
const GATHERED: usize = 128 << 10;

/// Passes one output on and discards the others.
#[derive(Debug)]
pub(super) struct OneOutput {
    stdout: Option<Sink>,
    /// The number of the output, from 0.
    piece: u64,
    /// Whether the split is by bytes, not lines; errors then name a file called `-`.
    bytes: bool,
    /// Whether the output ends before any with a higher number begins.
    ordered: bool,
    held: Vec<u8>,
    over: bool,
}

impl OneOutput {
    pub(super) fn new(
        tool: &Tool,
        piece: u64,
        bytes: bool,
        ordered: bool,
    ) -> SplitResult<OneOutput> {
        let stdout = tool.stdout().map_err(SplitFailure::Write)?;
        Ok(OneOutput { stdout: Some(stdout), piece, bytes, ordered, held: Vec::new(), over: false })
    }

    fn told(&self, written: io::Result<()>) -> SplitResult<()> {
        written.map_err(|error| match errno_of(&error) {
            errno if self.bytes && errno != Errno::PIPE => SplitFailure::file("-".as_ref(), errno),
            _ => SplitFailure::Write(error),
        })
    }

    /// Writes the gathered bytes, then calls `write`.
    fn pass(&mut self, write: impl FnOnce(&mut Sink) -> io::Result<()>) -> SplitResult<()> {
        let held = std::mem::take(&mut self.held);
        let Some(stdout) = &mut self.stdout else { return Ok(()) };
        let written = if held.is_empty() { Ok(()) } else { stdout.write_all(&held) };
        let written = written.and_then(|()| write(stdout));
        self.told(written)
    }
}

impl PartReceiver for OneOutput {
    fn put(&mut self, cut: &Cut, part: InputPart<'_>) -> SplitResult<()> {
        if cut.piece != self.piece {
            self.over |= self.ordered && cut.piece > self.piece;
            return Ok(());
        }
        self.over |= self.ordered && cut.ends;
        match part {
            InputPart::Chunk(chunk) => self.pass(|stdout| stdout.write_chunk(chunk)),
            InputPart::Slice(bytes) if self.held.len() + bytes.len() > GATHERED => {
                self.pass(|stdout| stdout.write_all(bytes))
            }
            InputPart::Slice(bytes) => {
                self.held.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn idle(&mut self, all: bool) -> SplitResult<()> {
        self.pass(|stdout| if all { stdout.flush() } else { Ok(()) })
    }

    fn done(&self) -> bool {
        self.over
    }

    fn finish(&mut self) -> SplitResult<()> {
        self.pass(|_| Ok(()))?;
        let closed = self.stdout.take().map_or(Ok(()), Sink::close);
        self.told(closed)
    }
}
