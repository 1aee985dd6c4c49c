//! `-n r/N`: all outputs are open at a time, as far as the system allows, and each gathers its
//! lines in memory.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use dio::file::Class;
use dio::{File, Mode, OpenOptions};
use dio_sys::uninterrupted;
use rustix::io::Errno;

use crate::tool::Tool;
use crate::tool::target::OutputFile;

use super::cut::Cut;
use super::failure::{SplitFailure, SplitResult};
use super::filter::Filter;
use super::pieces::{MadeFile, Maker, NewOutput, keep};
use super::sequence::PartReceiver;
use super::target::{InputPart, account};

/// The memory of all outputs together, and the least and most of one, in bytes.
const MEMORY: u64 = 64 << 20;
const LEAST: u64 = 4 << 10;
const MOST: u64 = 1 << 20;

/// Outputs with less memory than this are written uncached, not direct: small direct requests would
/// each wait for the device.
const DIRECT: u64 = 256 << 10;

#[derive(Debug)]
enum Destination {
    Regular {
        /// `None` while other outputs need the descriptors.
        file: Option<Box<File>>,
        /// The path by which the file is opened again.
        path: PathBuf,
        /// The file that replaces an existing one at the end, and the descriptor that `path` refers
        /// to.
        replaces: Option<(Box<OutputFile>, OwnedFd)>,
    },
    /// A device, a pipe or the like.
    Plain(OwnedFd),
    Filter(Box<Filter>),
}

#[derive(Debug)]
struct Out {
    name: OsString,
    place: Destination,
    held: Vec<u8>,
    /// Bytes already in the file.
    written: u64,
    requests: u64,
}

/// Files or commands that are written in turn.
#[derive(Debug)]
pub(super) struct Robin {
    maker: Maker,
    count: u64,
    elide_empty: bool,
    /// Whether pipes and commands, whose readers may be waiting, get each line at once.
    unbuffered: bool,
    /// Bytes that one output gathers.
    room: usize,
    outs: Vec<Out>,
    /// The position from which to search for an output whose file can be closed.
    next_to_close: usize,
    reader_gone: u64,
}

impl Robin {
    pub(super) fn new(maker: Maker, count: u64, elide_empty: bool, unbuffered: bool) -> Robin {
        let room = (MEMORY / count).clamp(LEAST, MOST) & !(LEAST - 1);
        let (room, outs) = (room as usize, Vec::new());
        Robin {
            maker,
            count,
            elide_empty,
            unbuffered,
            room,
            outs,
            next_to_close: 0,
            reader_gone: 0,
        }
    }

    /// Returns how files of this run are opened.
    fn how(&self) -> OpenOptions {
        let streams = self.maker.tool().stream_options();
        let mut options = OpenOptions::new();
        let cheap =
            streams.mode == Mode::Direct && streams.small > 0 && (self.room as u64) < DIRECT;
        // After a pause of the input, a partly written block has to be read again.
        options.read(true).write(true).need(streams.need).mode(if cheap {
            Mode::Uncached
        } else {
            streams.mode
        });
        options
    }

    fn open(&mut self) -> SplitResult<()> {
        let how = self.how();
        let (maker, outs, next_to_close) =
            (&mut self.maker, &mut self.outs, &mut self.next_to_close);
        let tool = maker.tool().clone();
        let new = |name, place| Out { name, place, held: Vec::new(), written: 0, requests: 0 };
        let out = match maker.make(|| close_one(&tool, outs, next_to_close))? {
            NewOutput::Filter(filter) => {
                new(filter.name().to_owned(), Destination::Filter(Box::new(filter)))
            }
            NewOutput::File(MadeFile { name, fd, regular: false, .. }) => {
                new(name, Destination::Plain(fd))
            }
            NewOutput::File(made) => {
                let path = made.own_path();
                let MadeFile { name, fd, replaces, .. } = made;
                let (replaces, given) = match replaces {
                    Some(successor) => (Some((successor, fd)), None),
                    None => (None, Some(fd)),
                };
                let mut out = new(name, Destination::Regular { file: None, path, replaces });
                out.open(&how, given, || close_one(&tool, outs, next_to_close))?;
                out
            }
        };
        self.outs.push(out);
        Ok(())
    }

    /// Writes the gathered bytes of an output.
    fn put_held(&mut self, index: usize) -> SplitResult<()> {
        let how = self.how();
        let tool = self.maker.tool().clone();
        let mut held = std::mem::take(&mut self.outs[index].held);
        if let Destination::Regular { file: None, .. } = self.outs[index].place {
            // The output is removed from the list, so that its own file is not the one to be
            // closed.
            let mut out = self.outs.remove(index);
            let opened =
                out.open(&how, None, || close_one(&tool, &mut self.outs, &mut self.next_to_close));
            self.outs.insert(index, out);
            opened?;
        }
        let out = &mut self.outs[index];
        let was_deaf = out.reader_gone();
        out.write(&held)?;
        self.reader_gone += u64::from(!was_deaf && out.reader_gone());
        held.clear();
        out.held = held;
        Ok(())
    }
}

impl Robin {
    /// Writes and closes all outputs, including those behind one that fails. They replace existing
    /// files only if all are `whole`.
    fn close(&mut self, whole: bool) -> SplitResult<()> {
        let mut result = Ok(());
        for index in 0..self.outs.len() {
            result = result.and(self.put_held(index));
        }
        let tool = self.maker.tool().clone();
        for out in std::mem::take(&mut self.outs) {
            let closed = out.close(&tool, whole && result.is_ok());
            result = result.and(closed);
        }
        result
    }
}

impl Drop for Robin {
    /// Writes the gathered bytes even if the run fails; the first error was already reported.
    fn drop(&mut self) {
        if !self.outs.is_empty() {
            let _ = self.close(false);
        }
    }
}

/// Closes the file of the next output in turn that has one open.
fn close_one(tool: &Tool, outs: &mut [Out], next_to_close: &mut usize) -> SplitResult<bool> {
    for _ in 0..outs.len() {
        *next_to_close = (*next_to_close + 1) % outs.len();
        if let Some(out) = outs.get_mut(*next_to_close)
            && out.release(tool)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Out {
    fn reader_gone(&self) -> bool {
        matches!(&self.place, Destination::Filter(filter) if filter.reader_gone())
    }

    /// Opens the existing file for further writing. `given` is a descriptor that was opened for
    /// writing only.
    fn open(
        &mut self,
        how: &OpenOptions,
        given: Option<OwnedFd>,
        mut close_some: impl FnMut() -> SplitResult<bool>,
    ) -> SplitResult<()> {
        let Destination::Regular { file, path, .. } = &mut self.place else { return Ok(()) };
        let opened = loop {
            match how.open(&*path) {
                Err(error) if error.errno() == Errno::MFILE && close_some()? => {}
                // A file without read permission can be written through the page cache.
                Err(error) if error.errno() == Errno::ACCESS => {
                    let mut how = how.clone();
                    how.read(false).mode(Mode::Uncached);
                    break match given {
                        Some(fd) => how.adopt(fd, &self.name),
                        None => how.open(&*path),
                    };
                }
                other => break other,
            }
        };
        let opened = opened.map_err(|error| SplitFailure::file(&self.name, error.errno()))?;
        *file = Some(Box::new(opened));
        Ok(())
    }

    /// Closes the file if it is open, and returns whether it was.
    fn release(&mut self, tool: &Tool) -> SplitResult<bool> {
        let Destination::Regular { file, .. } = &mut self.place else { return Ok(false) };
        let Some(file) = file.take() else { return Ok(false) };
        file.settle().map_err(|error| SplitFailure::file(&self.name, error.errno()))?;
        tool.ledger().count(&file.counters());
        Ok(true)
    }

    fn write(&mut self, mut bytes: &[u8]) -> SplitResult<()> {
        match &mut self.place {
            Destination::Filter(filter) => return filter.write(bytes),
            Destination::Regular { file, .. } => {
                let file = file.as_ref().expect("it is opened before it is written");
                let written =
                    if bytes.is_empty() { Ok(()) } else { file.write_at(bytes, self.written) };
                written.map_err(|error| SplitFailure::file(&self.name, error.errno()))?;
                self.written += bytes.len() as u64;
            }
            Destination::Plain(fd) => {
                while !bytes.is_empty() {
                    match uninterrupted(|| rustix::io::write(&*fd, bytes)) {
                        Err(Errno::PIPE) => {
                            return Err(SplitFailure::written(&self.name, &Errno::PIPE.into()));
                        }
                        Err(errno) => return Err(SplitFailure::file(&self.name, errno)),
                        Ok(count) => {
                            bytes = &bytes[count..];
                            self.written += count as u64;
                            self.requests += 1;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn close(mut self, tool: &Tool, whole: bool) -> SplitResult<()> {
        match &mut self.place {
            Destination::Filter(filter) => {
                tool.ledger().count(&filter.counters());
                filter.close()
            }
            Destination::Plain(fd) => {
                let mut counters =
                    dio::Counters { write_requests: self.requests, ..dio::Counters::default() };
                counters.written.add(Class::Piped, self.written);
                account(tool, &self.name, &*fd, &counters);
                Ok(())
            }
            Destination::Regular { file, replaces, .. } => {
                let Some(file) = file.take() else { return Ok(()) };
                file.settle().map_err(|error| SplitFailure::file(&self.name, error.errno()))?;
                match file.descriptor() {
                    Some(fd) => account(tool, &self.name, fd, &file.counters()),
                    None => tool.ledger().count(&file.counters()),
                }
                drop(file);
                keep(&self.name, replaces.take().map(|(successor, _)| successor).filter(|_| whole))
            }
        }
    }
}

impl PartReceiver for Robin {
    fn put(&mut self, cut: &Cut, part: InputPart<'_>) -> SplitResult<()> {
        // Lines come in turn, so a new output is always the next one.
        let index = cut.piece as usize;
        if index == self.outs.len() {
            self.open()?;
        }
        let mut bytes = part.as_ref();
        loop {
            let out = &mut self.outs[index];
            if out.held.len() + bytes.len() < self.room {
                out.held.extend_from_slice(bytes);
                let at_once = self.unbuffered && !matches!(out.place, Destination::Regular { .. });
                return if at_once { self.put_held(index) } else { Ok(()) };
            }
            let (now, later) = bytes.split_at(self.room - out.held.len());
            out.held.extend_from_slice(now);
            bytes = later;
            self.put_held(index)?;
        }
    }

    fn idle(&mut self, all: bool) -> SplitResult<()> {
        // Readers of commands and pipes may be waiting. Files wait until their memory is full,
        // unless `all` is set.
        for index in 0..self.outs.len() {
            let waits = matches!(self.outs[index].place, Destination::Regular { .. }) && !all;
            if !self.outs[index].held.is_empty() && !waits {
                self.put_held(index)?;
            }
        }
        Ok(())
    }

    fn done(&self) -> bool {
        self.reader_gone == self.count
    }

    fn finish(&mut self) -> SplitResult<()> {
        if !self.elide_empty {
            while (self.outs.len() as u64) < self.count {
                self.open()?;
            }
        }
        self.close(true)?;
        self.maker.flush()
    }
}
