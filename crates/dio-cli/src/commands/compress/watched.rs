//! Streams that a codec works on: they notice a request to stop, and the sink remembers
//! what was wrong with it.

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use dio::stream::Input;

use crate::codec::Moved;
use crate::stop::Stop;
use crate::tool::held::Broken;
use crate::tool::{Sink, Tool};

/// How long a pipe is waited for between two looks at the request.
const PAUSE: Duration = Duration::from_millis(100);

/// A source.
pub(crate) struct Watched<'a> {
    tool: &'a Tool,
    input: &'a mut Input,
    /// Looked at before each read. Without it a signal ends the process, which is right while there
    /// is nothing to tidy up.
    stop: Option<&'static Stop>,
    /// Bytes that were looked at, and how many of them were consumed since.
    head: Vec<u8>,
    at: usize,
    /// Bytes consumed.
    read: u64,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(tool: &'a Tool, input: &'a mut Input, stop: Option<&'static Stop>) -> Watched<'a> {
        Watched { tool, input, stop, head: Vec::new(), at: 0, read: 0 }
    }

    /// The next bytes, at least `count` unless the input ends before, without consuming them. To be
    /// asked before anything is read.
    ///
    /// # Errors
    /// What reading answers.
    pub(crate) fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.head.is_empty() && self.fill_buf()?.len() >= count {
            return self.fill_buf();
        }
        while self.head.len() < count {
            self.wait()?;
            let bytes = self.input.fill_buf()?;
            let taken = bytes.len().min(count - self.head.len());
            if taken == 0 {
                break;
            }
            self.head.extend_from_slice(&bytes[..taken]);
            self.input.consume(taken);
        }
        Ok(&self.head)
    }

    /// Waits until something can be read, or a stop is asked for.
    fn wait(&mut self) -> io::Result<()> {
        let Some(stop) = self.stop else { return Ok(()) };
        loop {
            if stop.asked() {
                return Err(io::Error::other("stopped by a signal"));
            }
            if self.input.ready_within(PAUSE)? {
                return Ok(());
            }
        }
    }
}

impl BufRead for Watched<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at < self.head.len() {
            return Ok(&self.head[self.at..]);
        }
        self.wait()?;
        self.input.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        if self.at < self.head.len() {
            self.at += count;
        } else {
            self.input.consume(count);
        }
        self.read += count as u64;
        self.tool.progressed(count as u64);
    }
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?;
        let count = bytes.len().min(buffer.len());
        buffer[..count].copy_from_slice(&bytes[..count]);
        self.consume(count);
        Ok(count)
    }
}

/// What the bytes go to: a sink, or nothing where they are only looked at.
pub(crate) struct WatchedSink<'a> {
    pub(crate) sink: Option<&'a mut Sink>,
    /// The error of writing.
    pub(crate) failed: Option<rustix::io::Errno>,
    /// Blocks of zeros are left out.
    pub(crate) holes: Option<Holes>,
}

/// A file that is made with holes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holes {
    /// Zeros that were not written yet.
    skipped: u64,
}

/// Zeros are left out by so many, aligned: what file systems allocate at least.
const HOLE: usize = 32 << 10;

impl<'a> WatchedSink<'a> {
    pub(crate) fn new(sink: Option<&'a mut Sink>, sparse: bool) -> WatchedSink<'a> {
        WatchedSink { sink, failed: None, holes: sparse.then(Holes::default) }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        let Some(holes) = &mut self.holes else { return sink.write_all(bytes) };
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = sink.position() + holes.skipped;
            let part = rest.len().min(HOLE - (at % HOLE as u64) as usize);
            let (now, later) = rest.split_at(part);
            if part == HOLE && is_zero(now) {
                holes.skipped += part as u64;
            } else {
                if holes.skipped > 0 {
                    sink.seek(at)?;
                    holes.skipped = 0;
                }
                sink.write_all(now)?;
            }
            rest = later;
        }
        Ok(())
    }

    /// Bytes of zeros behind the last byte written; the file has to be made longer by them.
    pub(crate) fn zeros_at_end(&self) -> u64 {
        self.holes.map_or(0, |holes| holes.skipped)
    }
}

/// Whether all bytes are zero.
fn is_zero(bytes: &[u8]) -> bool {
    let mut words = bytes.chunks_exact(64);
    words.all(|word| word.iter().fold(0, |all, byte| all | byte) == 0)
}

impl Write for WatchedSink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes).inspect_err(|error| self.failed = Some(crate::tool::errno_of(error)))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Passes on what is not compressed, as it is.
///
/// # Errors
/// Which end failed.
pub(crate) fn pass(input: &mut Watched<'_>, sink: &mut WatchedSink<'_>) -> Result<Moved, Broken> {
    loop {
        let bytes = input.fill_buf().map_err(Broken::Read)?;
        let count = bytes.len();
        if count == 0 {
            return Ok(Moved { read: input.read, written: input.read, ..Moved::default() });
        }
        sink.write_all(bytes).map_err(Broken::Write)?;
        input.consume(count);
    }
}
