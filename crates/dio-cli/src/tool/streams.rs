//! Sources and sinks that record their counters for the receipt.

use std::io::{self, BufRead, Read, Write};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use dio::file::{Class, Counters, Reason};
use dio::names::resident_pages;
use dio::stream::{Chunk, Input, Output, StreamOptions};
use dio_sys::start::was_closed;
use rustix::io::Errno;

use super::run::Tool;
use crate::receipt::{FileLine, Role};

/// The entry of one stream in the receipt, begun before the first byte moves.
#[derive(Debug)]
struct Account {
    tool: Tool,
    role: Role,
    /// Kept to count the cached pages at the end; only if a receipt is wanted.
    descriptor: Option<OwnedFd>,
    pages_before: Option<u64>,
    buffers: u64,
    /// Bytes that moved through the descriptor but not through the stream.
    also: Counters,
}

impl Account {
    fn open(tool: Tool, role: Role, fd: impl AsFd, buffers: u64) -> Account {
        let wanted = tool.ledger().wanted();
        let descriptor = wanted.then(|| fd.as_fd().try_clone_to_owned().ok()).flatten();
        let pages_before = descriptor.as_ref().and_then(|fd| resident_pages(fd).ok());
        tool.ledger().count_buffers(buffers);
        Account { tool, role, descriptor, pages_before, buffers, also: Counters::default() }
    }

    fn close(&self, name: &Path, mut counters: Counters) {
        counters.add(&self.also);
        let counters = &counters;
        let ledger = self.tool.ledger();
        ledger.count(counters);
        ledger.release_buffers(self.buffers);
        let pages_after = self.descriptor.as_ref().and_then(|fd| resident_pages(fd).ok());
        let pages_before = self.pages_before;
        ledger.list(|| FileLine {
            pages_before,
            pages_after,
            ..FileLine::of(name, self.role, counters)
        });
    }
}

impl Tool {
    /// Opens a source; `-` is standard input.
    ///
    /// # Errors
    /// Errors of [`Input::open`].
    pub fn open(&self, path: &Path) -> io::Result<Source> {
        if path == Path::new("-") {
            self.stdin()
        } else {
            Ok(self.source(Input::open(path, self.stream_options())?))
        }
    }

    /// Returns standard input as a source.
    ///
    /// # Errors
    /// `EBADF` if the process was started without it; errors of [`Input::adopt`].
    pub fn stdin(&self) -> io::Result<Source> {
        if was_closed(0) {
            return Err(Errno::BADF.into());
        }
        let fd = io::stdin().as_fd().try_clone_to_owned()?;
        Ok(self.source(Input::adopt(fd, "-", self.stream_options())?))
    }

    /// Returns standard output as a sink.
    ///
    /// # Errors
    /// `EBADF` if the process was started without it; errors of [`Output::adopt`].
    pub fn stdout(&self) -> io::Result<Sink> {
        if was_closed(1) {
            return Err(Errno::BADF.into());
        }
        let fd = io::stdout().as_fd().try_clone_to_owned()?;
        self.output(fd, Path::new("-"))
    }

    /// Returns an open descriptor as a sink; `path` is for messages and the receipt.
    ///
    /// # Errors
    /// Errors of [`Output::adopt`].
    pub fn output(&self, fd: OwnedFd, path: &Path) -> io::Result<Sink> {
        self.output_with(fd, path, self.stream_options())
    }

    /// Does the same with separate options, for one of many sinks.
    ///
    /// # Errors
    /// Errors of [`Output::adopt`].
    pub fn output_with(
        &self,
        fd: OwnedFd,
        path: &Path,
        options: &StreamOptions,
    ) -> io::Result<Sink> {
        Ok(Sink::new(self.clone(), Output::adopt(fd, path, options)?))
    }

    /// Makes a source of an input that was opened elsewhere.
    pub fn source(&self, input: Input) -> Source {
        Source::new(self.clone(), input)
    }
}

/// A source of the command line.
#[derive(Debug)]
pub struct Source {
    input: Option<Input>,
    account: Account,
}

impl Source {
    fn new(tool: Tool, input: Input) -> Source {
        let account =
            Account::open(tool, Role::Source, input.descriptor(), input.buffer_bytes() as u64);
        Source { input: Some(input), account }
    }

    /// Returns the next chunk as [`Input::next_chunk`] does, and counts it for the progress line.
    ///
    /// # Errors
    /// Read errors.
    pub fn next_chunk(&mut self) -> io::Result<Option<Chunk>> {
        let chunk = self.deref_mut().next_chunk()?;
        self.account.tool.progressed(chunk.as_ref().map_or(0, |chunk| chunk.len() as u64));
        Ok(chunk)
    }

    /// Adds the counters of bytes that moved through the descriptor but not through the stream.
    pub fn also_moved(&mut self, counters: &Counters) {
        self.account.also.add(counters);
    }

    /// Ends reading and closes the account. Dropping does the same, but discards an error.
    ///
    /// # Errors
    /// Errors of [`Input::close`].
    pub fn close(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(input) = self.input.take() else { return Ok(()) };
        let (name, mut counters) = (input.name().to_owned(), input.counters());
        let small = input.file().is_some_and(|file| {
            file.mode() == dio::Mode::Uncached
                && self.account.tool.stream_options().mode == dio::Mode::Direct
        });
        let closed = input.close().map(|all| counters = all);
        if small {
            // The tool, not the file system, chose the page cache for a small file.
            counters.reasons[Reason::Small as usize] += counters.read.get(Class::Uncached);
        }
        self.account.close(&name, counters);
        closed
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Deref for Source {
    type Target = Input;
    fn deref(&self) -> &Input {
        self.input.as_ref().expect("a source has its input until it is closed")
    }
}

impl DerefMut for Source {
    fn deref_mut(&mut self) -> &mut Input {
        self.input.as_mut().expect("a source has its input until it is closed")
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.deref_mut().read(buffer)
    }
}

impl BufRead for Source {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.deref_mut().fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.deref_mut().consume(count);
    }
}

/// A sink of the command line.
#[derive(Debug)]
pub struct Sink {
    output: Option<Output>,
    account: Account,
}

impl Sink {
    fn new(tool: Tool, output: Output) -> Sink {
        let account =
            Account::open(tool, Role::Target, output.descriptor(), output.buffer_bytes() as u64);
        Sink { output: Some(output), account }
    }

    /// Adds the counters of bytes that moved through the descriptor but not through the stream.
    pub fn also_moved(&mut self, counters: &Counters) {
        self.account.also.add(counters);
    }

    /// Waits for everything written and closes the account. Dropping does the same, but discards an
    /// error.
    ///
    /// # Errors
    /// Errors of [`Output::finish`].
    pub fn close(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(mut output) = self.output.take() else { return Ok(()) };
        let finished = output.finish();
        let (name, counters) = (output.name().to_owned(), output.counters());
        drop(output);
        self.account.close(&name, counters);
        finished
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Deref for Sink {
    type Target = Output;
    fn deref(&self) -> &Output {
        self.output.as_ref().expect("a sink has its output until it is closed")
    }
}

impl DerefMut for Sink {
    fn deref_mut(&mut self) -> &mut Output {
        self.output.as_mut().expect("a sink has its output until it is closed")
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.deref_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.deref_mut().flush()
    }
}
