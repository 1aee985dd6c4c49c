//! Streams for a codec: they check for a request to stop, and the sink records its error.

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use dio::stream::Input;

use crate::codec::CodecTotals;
use crate::stop::Stop;
use crate::tool::held::Broken;
use crate::tool::{Sink, Tool};

/// The time between two checks for a request to stop while waiting for a pipe.
const PAUSE: Duration = Duration::from_millis(100);

/// A source that checks for a request to stop.
pub(crate) struct Watched<'a> {
    tool: &'a Tool,
    input: &'a mut Input,
    /// Checked before each read. Without it a signal ends the process, which is right while there
    /// is nothing to clean up.
    stop: Option<&'static Stop>,
    /// Bytes that were peeked at; `at` of them have been consumed.
    head: Vec<u8>,
    at: usize,
    /// Bytes consumed.
    read: u64,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(
        tool: &'a Tool,
        input: &'a mut Input,
        stop: Option<&'static Stop>,
    ) -> Watched<'a> {
        Watched { tool, input, stop, head: Vec::new(), at: 0, read: 0 }
    }

    /// Returns the next bytes, at least `count` unless the input ends before, without consuming
    /// them. It must be called before anything is read.
    ///
    /// # Errors
    /// Read errors.
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

    /// Waits until input is available or a stop is requested.
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

/// The destination of the bytes: a sink, or none if they are only verified.
pub(crate) struct WatchedSink<'a> {
    pub(crate) sink: Option<&'a mut Sink>,
    /// The write error, if any.
    pub(crate) failed: Option<rustix::io::Errno>,
    /// Set if blocks of zeros are skipped.
    pub(crate) holes: Option<Holes>,
}

/// The state of a file that is written with holes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holes {
    /// Zeros that were skipped and not yet written.
    skipped: u64,
}

/// Zeros are skipped in aligned blocks of this many bytes, the least that file systems allocate.
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

    /// Returns the number of zeros skipped behind the last byte written; the file must be extended
    /// by them.
    pub(crate) fn zeros_at_end(&self) -> u64 {
        self.holes.map_or(0, |holes| holes.skipped)
    }
}

/// Returns whether all bytes are zero.
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

/// Passes on uncompressed data unchanged.
///
/// # Errors
/// The end that failed.
pub(crate) fn pass(
    input: &mut Watched<'_>,
    sink: &mut WatchedSink<'_>,
) -> Result<CodecTotals, Broken> {
    loop {
        let bytes = input.fill_buf().map_err(Broken::Read)?;
        let count = bytes.len();
        if count == 0 {
            return Ok(CodecTotals {
                read: input.read,
                written: input.read,
                ..CodecTotals::default()
            });
        }
        sink.write_all(bytes).map_err(Broken::Write)?;
        input.consume(count);
    }
}
