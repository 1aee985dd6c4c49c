//! One output while it is written.

use std::ffi::{OsStr, OsString};
use std::io::{IoSlice, Write};
use std::os::fd::AsFd;
use std::path::Path;

use dio::file::{Class, Counters, Reason};
use dio::names::resident_pages;
use dio::stream::Chunk;
use dio::{Mode, OpenOptions};
use rustix::io::{Errno, pwritev2};

use crate::receipt::{FileLine, Role, dominant_class};
use crate::tool::evict::drop_written;
use crate::tool::target::OutputFile;
use crate::tool::{DontCache, Sink, Tool};

use super::failure::{SplitFailure, SplitResult};
use super::filter::Filter;
use super::pieces::{MadeFile, NewOutput, keep};

/// Bytes of the input for an output.
#[derive(Debug)]
pub(super) enum InputPart<'a> {
    /// A whole chunk with its memory.
    Chunk(Chunk),
    /// A part of a chunk, or bytes that were set aside.
    Slice(&'a [u8]),
}

impl AsRef<[u8]> for InputPart<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            InputPart::Chunk(chunk) => chunk,
            InputPart::Slice(bytes) => bytes,
        }
    }
}

/// The destination of an output's bytes.
#[derive(Debug)]
pub(super) enum PieceOutput {
    /// A file that is not known to be large: its bytes are held until they are complete or too
    /// many. It needs no stream with buffers of its own. If it is small, it needs no direct request
    /// either: that would cost a round trip to the device for each file, where the kernel writes
    /// many together.
    Small(SmallFile),
    /// A stream, past the page cache.
    Sink(Box<Sink>, OsString, Option<Box<OutputFile>>),
    /// A command.
    Filter(Filter),
}

/// A file all of whose bytes fit in memory so far.
#[derive(Debug)]
pub(super) struct SmallFile {
    file: MadeFile,
    held: Vec<u8>,
    /// Bytes already in the file.
    written: u64,
    requests: u64,
}

/// The most bytes that are held for a file; with more it becomes a stream.
const HELD: usize = 1 << 20;

/// Returns the size in bytes up to which a complete file is written uncached in one request.
fn at_once(tool: &Tool) -> usize {
    let options = tool.stream_options();
    match options.mode {
        Mode::Direct | Mode::Concurrent => options.small as usize,
        _ => 64 << 10,
    }
}

impl PieceOutput {
    /// Creates the target of a new output, which is written in order.
    pub(super) fn new(tool: &Tool, made: NewOutput) -> SplitResult<PieceOutput> {
        match made {
            NewOutput::Filter(filter) => Ok(PieceOutput::Filter(filter)),
            NewOutput::File(file) if file.regular => Ok(PieceOutput::Small(SmallFile {
                file,
                held: Vec::new(),
                written: 0,
                requests: 0,
            })),
            NewOutput::File(file) => sink(tool, file),
        }
    }

    /// Returns whether closing waits for the storage.
    pub(super) fn waits(&self) -> bool {
        match self {
            PieceOutput::Small(small) => !small.held.is_empty(),
            PieceOutput::Sink(stream, ..) => stream.file().is_some(),
            PieceOutput::Filter(_) => false,
        }
    }

    /// Returns whether a command has stopped reading: bytes written to it are lost.
    pub(super) fn reader_gone(&self) -> bool {
        matches!(self, PieceOutput::Filter(filter) if filter.reader_gone())
    }

    /// Writes the next bytes; `ends` says that they are the last.
    pub(super) fn write(
        &mut self,
        tool: &Tool,
        part: InputPart<'_>,
        ends: bool,
    ) -> SplitResult<()> {
        if let PieceOutput::Small(small) = self {
            if small.written as usize + small.held.len() + part.as_ref().len() <= HELD {
                return small.write(tool, part.as_ref(), ends);
            }
            self.enlarge(tool)?;
        }
        match self {
            PieceOutput::Filter(filter) => filter.write(part.as_ref()),
            PieceOutput::Sink(stream, name, _) => {
                let written = match part {
                    InputPart::Chunk(chunk) => stream.write_chunk(chunk),
                    InputPart::Slice(bytes) => stream.write_all(bytes),
                };
                written.map_err(|error| SplitFailure::written(name, &error))
            }
            PieceOutput::Small(_) => unreachable!("it was made large above"),
        }
    }

    /// Turns a small file into a stream, with the bytes that were held.
    fn enlarge(&mut self, tool: &Tool) -> SplitResult<()> {
        let PieceOutput::Small(small) = self else { return Ok(()) };
        let (held, written) = (std::mem::take(&mut small.held), small.written);
        let name = small.file.name.clone();
        let fd = small.file.fd.try_clone().map_err(|error| SplitFailure::written(&name, &error))?;
        let replaces = small.file.replaces.take();
        let mut large = sink(tool, MadeFile { name: name.clone(), fd, regular: true, replaces })?;
        if let PieceOutput::Sink(stream, ..) = &mut large {
            let begun = stream.seek(written).and_then(|()| stream.write_all(&held));
            begun.map_err(|error| SplitFailure::written(&name, &error))?;
        }
        *self = large;
        Ok(())
    }

    /// Handles a pause of the input: writes held bytes, so that other programs can read them.
    pub(super) fn flush(&mut self, tool: &Tool, all: bool) -> SplitResult<()> {
        match self {
            PieceOutput::Small(small) => small.put(tool, &[]),
            PieceOutput::Sink(stream, name, _) if all => {
                stream.flush().map_err(|error| SplitFailure::written(name, &error))
            }
            _ => Ok(()),
        }
    }

    /// Closes a complete output.
    pub(super) fn close(self, tool: &Tool) -> SplitResult<()> {
        match self {
            PieceOutput::Small(small) => small.close(tool),
            PieceOutput::Sink(stream, name, replaces) => {
                stream.close().map_err(|error| SplitFailure::written(&name, &error))?;
                keep(&name, replaces)
            }
            PieceOutput::Filter(mut filter) => {
                tool.ledger().count(&filter.counters());
                filter.close()
            }
        }
    }
}

fn sink(tool: &Tool, file: MadeFile) -> SplitResult<PieceOutput> {
    let MadeFile { name, fd, replaces, .. } = file;
    let stream =
        tool.output(fd, Path::new(&name)).map_err(|error| SplitFailure::written(&name, &error))?;
    Ok(PieceOutput::Sink(Box::new(stream), name, replaces))
}

impl SmallFile {
    /// Writes a small file whose last bytes these are; holds the bytes otherwise.
    fn write(&mut self, tool: &Tool, bytes: &[u8], ends: bool) -> SplitResult<()> {
        if ends && self.held.len() + bytes.len() <= at_once(tool) {
            return self.put(tool, bytes);
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the held bytes, then `bytes`.
    fn put(&mut self, tool: &Tool, bytes: &[u8]) -> SplitResult<()> {
        let held = std::mem::take(&mut self.held);
        let forgets = tool.stream_options().mode != Mode::Cached;
        let forgetting = DontCache::new(forgets);
        let (mut done, all) = (0, held.len() + bytes.len());
        while done < all {
            let slices = [
                IoSlice::new(&held[done.min(held.len())..]),
                IoSlice::new(&bytes[done.saturating_sub(held.len())..]),
            ];
            match forgetting.request(|flags| pwritev2(&self.file.fd, &slices, self.written, flags))
            {
                Ok(0) => return Err(SplitFailure::file(&self.file.name, Errno::NOSPC)),
                Ok(count) => {
                    done += count;
                    self.written += count as u64;
                    self.requests += 1;
                }
                Err(errno) => return Err(SplitFailure::file(&self.file.name, errno)),
            }
            // The file system or kernel does not support the flag.
            if forgets && forgetting.is_refused() {
                drop_written(&self.file.fd);
            }
        }
        Ok(())
    }

    fn close(mut self, tool: &Tool) -> SplitResult<()> {
        if self.written == 0 && self.held.len() > at_once(tool) {
            return self.write_whole(tool);
        }
        self.put(tool, &[])?;
        let mut counters = Counters { write_requests: self.requests, ..Counters::default() };
        let cached = tool.stream_options().mode == Mode::Cached;
        counters.written.add(if cached { Class::Cached } else { Class::Uncached }, self.written);
        if !cached {
            counters.reasons[Reason::Small as usize] = self.written;
        }
        account(tool, &self.file.name, self.file.fd.as_fd(), &counters);
        keep(&self.file.name, self.file.replaces)
    }

    /// Writes a file all of whose bytes are held.
    fn write_whole(self, tool: &Tool) -> SplitResult<()> {
        let MadeFile { name, fd, replaces, .. } = self.file;
        let options = tool.stream_options();
        tool.ledger().count_buffers(self.held.len() as u64);
        let file =
            OpenOptions::new().write(true).mode(options.mode).need(options.need).adopt(fd, &name);
        let written = file.and_then(|file| {
            file.write_at(&self.held, 0)?;
            file.settle()?;
            Ok(file)
        });
        tool.ledger().release_buffers(self.held.len() as u64);
        let file = written.map_err(|error| SplitFailure::file(&name, error.errno()))?;
        match file.descriptor() {
            Some(fd) => account(tool, &name, fd, &file.counters()),
            None => tool.ledger().count(&file.counters()),
        }
        drop(file);
        keep(&name, replaces)
    }
}

/// Records a file that is not a stream in the account of the run.
pub(super) fn account(tool: &Tool, name: &OsStr, fd: impl AsFd, counters: &Counters) {
    tool.ledger().count(counters);
    tool.ledger().list(|| {
        let (mode, reason) = match counters.written.total() {
            0 => ("none", None),
            _ => dominant_class(&counters.written, counters),
        };
        let pages = resident_pages(fd).ok();
        FileLine {
            path: name.into(),
            role: Role::Target,
            mode,
            reason,
            pages_before: Some(0),
            pages_after: pages,
        }
    });
}
