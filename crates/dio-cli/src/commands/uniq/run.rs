//! Passes the input through the filter to the output.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use dio::names::FileId;
use dio::names::openat;
use dio::stream::{Chunk, Input};
use dio_sys::uninterrupted;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::filter::{Filter, NoMemory};
use super::options::UniqOptions;
use crate::quote::{named, quoted, words};
use crate::tool::held::{Broken, HeldOutput};
use crate::tool::target::{OutputFile, TargetOptions};
use crate::tool::{Sink, Source, Tool, errno_of};

/// Bytes of input that are filtered at a time: few enough that the result stays in the processor's
/// cache.
const PIECE: usize = 64 << 10;

/// The reason why a run ended early.
#[derive(Debug)]
enum UniqFailure {
    /// The input could not be read.
    Read(io::Error),
    /// The output failed.
    Write(io::Error),
    /// A line does not fit into the memory.
    Memory,
}

impl From<Broken> for UniqFailure {
    fn from(broken: Broken) -> UniqFailure {
        match broken {
            Broken::Read(error) => UniqFailure::Read(error),
            Broken::Write(error) => UniqFailure::Write(error),
        }
    }
}

impl From<NoMemory> for UniqFailure {
    fn from(NoMemory: NoMemory) -> UniqFailure {
        UniqFailure::Memory
    }
}

/// Runs with the given options; errors are reported.
pub(super) fn run(tool: &Tool, options: &UniqOptions) {
    let (input, output) = (Path::new(&options.input), Path::new(&options.output));
    // The order is GNU uniq's: the input, which may also be the output, is opened first.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let from = match open(&options.input, flags) {
        Ok(from) => from,
        Err(errno) => return tool.file_error(input, &errno.into()),
    };
    let to = (options.output != "-").then(|| {
        // As with GNU uniq, an output that is also the input is truncated before it is read.
        let own = from.as_ref().map_or_else(|| rustix::fs::fstat(io::stdin()), rustix::fs::fstat);
        let same = own.is_ok_and(|own| {
            rustix::fs::stat(output).is_ok_and(|its| FileId::of(&own) == FileId::of(&its))
        });
        let to = OutputFile::open(
            output,
            TargetOptions { in_place: options.in_place || same, ..TargetOptions::default() },
        )?;
        to.begin().map(|()| to)
    });
    let mut to = match to.transpose() {
        Ok(to) => to,
        Err(errno) => return tool.file_error(output, &errno.into()),
    };
    let guard = to.as_ref().map(|to| to.guard(false));
    let done = source(tool, from, input).map_err(UniqFailure::Read).and_then(|source| {
        let target = UniqOutput::new(tool, to.as_ref(), &source).map_err(UniqFailure::Write)?;
        let filter = Filter::new(options.what, options.part, options.delimiter);
        Uniq { tool, filter, target, text: Vec::with_capacity(2 * PIECE), held: None }.all(source)
    });
    let done = done.and_then(|()| match (&guard, &mut to) {
        (Some(guard), Some(to)) => guard.finally(|| to.keep()).map_err(UniqFailure::Write),
        _ => Ok(()),
    });
    match done {
        Ok(()) => {}
        Err(UniqFailure::Read(error)) => unreadable(tool, input, &error),
        Err(UniqFailure::Write(error)) => {
            tool.write_failed(&error);
            if let Some(cure) = to.and_then(|to| to.cure(errno_of(&error))) {
                tool.note(format_args!("{}: {cure}", named(output)));
            }
        }
        Err(UniqFailure::Memory) => tool.error("memory exhausted"),
    }
}

/// Opens an operand; returns `None` for `-`.
fn open(name: &OsStr, flags: OFlags) -> Result<Option<OwnedFd>, Errno> {
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
    if name == "-" { Ok(None) } else { uninterrupted(|| openat(CWD, name, flags, mode)).map(Some) }
}

fn source(tool: &Tool, from: Option<OwnedFd>, name: &Path) -> io::Result<Source> {
    match from {
        None => tool.stdin(),
        Some(from) => Ok(tool.source(Input::adopt(from, name, tool.stream_options())?)),
    }
}

/// Reports a read error. GNU uniq does not print the reason; here it is printed except for a
/// directory and a closed descriptor.
fn unreadable(tool: &Tool, name: &Path, error: &io::Error) {
    let name = quoted(name);
    match errno_of(error) {
        Errno::ISDIR | Errno::BADF => tool.error(format_args!("error reading {name}")),
        errno if error.get_ref().is_none() => {
            tool.error(format_args!("error reading {name}: {}", words(errno)))
        }
        _ => tool.error(format_args!("error reading {name}: {error}")),
    }
}

/// The output. Standard output is opened for its first byte, because without output it may be
/// closed or not writable.
struct UniqOutput<'a> {
    tool: &'a Tool,
    sink: Option<Sink>,
    /// The output is the file that is read.
    is_input: bool,
}

impl<'a> UniqOutput<'a> {
    fn new(tool: &'a Tool, to: Option<&OutputFile>, input: &Source) -> io::Result<UniqOutput<'a>> {
        let own = to.map_or_else(
            || rustix::fs::fstat(io::stdout()),
            |to| rustix::fs::fstat(to.descriptor()),
        );
        let regular =
            own.is_ok_and(|own| FileType::from_raw_mode(own.st_mode) == FileType::RegularFile);
        let is_input = regular
            && own.is_ok_and(|own| {
                rustix::fs::fstat(input.descriptor())
                    .is_ok_and(|its| FileId::of(&own) == FileId::of(&its))
            });
        let sink = to.map(|to| tool.output(to.descriptor().try_clone()?, to.path())).transpose()?;
        Ok(UniqOutput { tool, sink, is_input })
    }

    fn write(&mut self, text: &[u8]) -> Result<(), UniqFailure> {
        if text.is_empty() {
            return Ok(());
        }
        let sink = match &mut self.sink {
            Some(sink) => sink,
            none => none.insert(self.tool.stdout().map_err(UniqFailure::Write)?),
        };
        sink.write_all(text).map_err(UniqFailure::Write)
    }
}

struct Uniq<'a> {
    tool: &'a Tool,
    filter: Filter,
    target: UniqOutput<'a>,
    /// Buffer for the output of a piece.
    text: Vec<u8>,
    /// Tracks the bytes held back from an output file, if the input may pause.
    held: Option<HeldOutput>,
}

impl Uniq<'_> {
    fn all(&mut self, mut input: Source) -> Result<(), UniqFailure> {
        let may_pause = input.file().is_none();
        while let Some(chunk) = self.next(&mut input)? {
            for piece in chunk.chunks(PIECE) {
                self.text.clear();
                self.filter.push(piece, &mut self.text)?;
                self.target.write(&self.text)?;
            }
            if may_pause {
                self.note_held(chunk.len());
            }
        }
        input.close().map_err(UniqFailure::Read)?;
        self.text.clear();
        self.filter.finish(&mut self.text)?;
        self.target.write(&self.text)?;
        self.target.sink.take().map_or(Ok(()), Sink::close).map_err(UniqFailure::Write)
    }

    /// Notes that the output of `bytes` bytes went to a file, which may hold it back.
    fn note_held(&mut self, bytes: usize) {
        if self.target.sink.as_ref().is_some_and(|sink| sink.file().is_some()) {
            self.held
                .get_or_insert_with(|| HeldOutput::new(self.tool.stream_options().block, false))
                .passed(bytes);
        }
    }

    /// Returns the next chunk. While it waits for input, held-back bytes are written to the output
    /// file.
    fn next(&mut self, input: &mut Source) -> Result<Option<Chunk>, UniqFailure> {
        let Some(sink) = &mut self.target.sink else {
            return input.next_chunk().map_err(UniqFailure::Read);
        };
        if self.target.is_input {
            // Only this thread completes the pending writes, so a read of the same bytes would not
            // wait for them.
            sink.flush().map_err(UniqFailure::Write)?;
        }
        if let Some(held) = &mut self.held {
            held.wait_for(input, sink)?;
        }
        input.next_chunk().map_err(UniqFailure::Read)
    }
}
