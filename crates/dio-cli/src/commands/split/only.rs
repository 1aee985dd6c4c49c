//! Writes one of the outputs to standard output.

use std::io::{self, Write};

use rustix::io::Errno;

use crate::tool::{Sink, Tool, errno_of};

use super::cut::Cut;
use super::failure::{Failure, Run};
use super::sequence::Outlet;
use super::target::Part;

/// Short parts are gathered up to this size.
const GATHERED: usize = 128 << 10;

/// Passes one output on and discards the others.
#[derive(Debug)]
pub(super) struct Only {
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

impl Only {
    pub(super) fn new(tool: &Tool, piece: u64, bytes: bool, ordered: bool) -> Run<Only> {
        let stdout = tool.stdout().map_err(Failure::Write)?;
        Ok(Only { stdout: Some(stdout), piece, bytes, ordered, held: Vec::new(), over: false })
    }

    fn told(&self, written: io::Result<()>) -> Run<()> {
        written.map_err(|error| match errno_of(&error) {
            errno if self.bytes && errno != Errno::PIPE => Failure::file("-".as_ref(), errno),
            _ => Failure::Write(error),
        })
    }

    /// Writes the gathered bytes, then calls `write`.
    fn pass(&mut self, write: impl FnOnce(&mut Sink) -> io::Result<()>) -> Run<()> {
        let held = std::mem::take(&mut self.held);
        let Some(stdout) = &mut self.stdout else { return Ok(()) };
        let written = if held.is_empty() { Ok(()) } else { stdout.write_all(&held) };
        let written = written.and_then(|()| write(stdout));
        self.told(written)
    }
}

impl Outlet for Only {
    fn put(&mut self, cut: &Cut, part: Part<'_>) -> Run<()> {
        if cut.piece != self.piece {
            self.over |= self.ordered && cut.piece > self.piece;
            return Ok(());
        }
        self.over |= self.ordered && cut.ends;
        match part {
            Part::Chunk(chunk) => self.pass(|stdout| stdout.write_chunk(chunk)),
            Part::Slice(bytes) if self.held.len() + bytes.len() > GATHERED => {
                self.pass(|stdout| stdout.write_all(bytes))
            }
            Part::Slice(bytes) => {
                self.held.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn idle(&mut self, all: bool) -> Run<()> {
        self.pass(|stdout| if all { stdout.flush() } else { Ok(()) })
    }

    fn done(&self) -> bool {
        self.over
    }

    fn finish(&mut self) -> Run<()> {
        self.pass(|_| Ok(()))?;
        let closed = self.stdout.take().map_or(Ok(()), Sink::close);
        self.told(closed)
    }
}
