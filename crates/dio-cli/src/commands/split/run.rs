//! Passes the input through a cutter to the outputs.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dio::stream::{Chunk, Input};
use dio_sys::uninterrupted;
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use crate::quote::{named, quoted, words};
use crate::tool::{Source, Tool, errno_of};

use super::cut::{
    Bytes, Chunks, CutAction, Cutter, LineBytes, LineChunks, LineCut, RoundRobin, Shares,
};
use super::failure::{SplitFailure, SplitResult};
use super::only::OneOutput;
use super::options::{SplitMethod, SplitOptions};
use super::pieces::Maker;
use super::robin::Robin;
use super::sequence::{PartReceiver, Sequence};
use super::target::InputPart;

/// Splits according to the options.
pub(super) fn run(tool: &Tool, options: SplitOptions) -> SplitResult<()> {
    let mut work = SplitInput::open(tool, &options)?;
    let input = rustix::fs::fstat(work.source.descriptor()).map_err(|errno| {
        SplitFailure::Message(format!("failed to stat {}: {}", quoted(&work.name), words(errno)))
    })?;
    let separator = options.separator;
    let mut cutter: Box<dyn Cutter> = match options.way {
        SplitMethod::Bytes(each) => Box::new(Bytes::new(each)),
        SplitMethod::Lines(each) => Box::new(LineCut::new(separator, each)),
        SplitMethod::LineBytes(each) => Box::new(LineBytes::new(separator, each)),
        SplitMethod::RoundRobin { count, .. } => Box::new(RoundRobin::new(separator, count)),
        SplitMethod::Chunks { count, only } => {
            let shares = Shares::new(work.size(tool)?, count);
            let start = only.map_or(0, |only| shares.start(only - 1));
            work.skip(start)?;
            Box::new(Chunks::new(shares, start))
        }
        SplitMethod::LineChunks { count, only } => {
            let shares = Shares::new(work.size(tool)?, count);
            let start = work.line_from(only.map_or(0, |only| shares.start(only - 1)), separator)?;
            Box::new(LineChunks::new(shares, separator, start))
        }
    };
    let mut outlet = outlet(tool, options, &input)?;
    work.pump(cutter.as_mut(), outlet.as_mut())?;
    // An error of closing a source loses no bytes.
    let _ = work.source.close();
    outlet.finish()
}

/// Creates the outlet for the options.
fn outlet(tool: &Tool, options: SplitOptions, input: &Stat) -> SplitResult<Box<dyn PartReceiver>> {
    let way = options.way;
    if let Some(only) = way.only() {
        let (bytes, ordered) = (
            matches!(way, SplitMethod::Chunks { .. }),
            !matches!(way, SplitMethod::RoundRobin { .. }),
        );
        return Ok(Box::new(OneOutput::new(tool, only - 1, bytes, ordered)?));
    }
    let maker = Maker::new(tool, options.names, options.filter, options.verbose, input);
    Ok(match way {
        SplitMethod::RoundRobin { count, .. } => Box::new(Robin::new(
            maker.expect(count),
            count,
            options.elide_empty,
            options.unbuffered,
        )),
        _ => Box::new(Sequence::new(maker, way.count(), options.elide_empty)),
    })
}

/// The input, and the bytes read ahead.
struct SplitInput {
    name: OsString,
    source: Source,
    /// Bytes that were read and not yet cut.
    ahead: Option<Chunk>,
    unbuffered: bool,
}

impl SplitInput {
    fn open(tool: &Tool, options: &SplitOptions) -> SplitResult<SplitInput> {
        let name = options.input.clone();
        let by_size =
            matches!(options.way, SplitMethod::Chunks { .. } | SplitMethod::LineChunks { .. });
        let source = tool.open(Path::new(&name)).map_err(|error| match errno_of(&error) {
            Errno::ISDIR if by_size => no_size(&name, Errno::ISDIR),
            errno if errno == Errno::ISDIR || name == "-" => SplitFailure::file(&name, errno),
            errno => SplitFailure::Message(format!(
                "cannot open {} for reading: {}",
                quoted(&name),
                words(errno)
            )),
        })?;
        Ok(SplitInput { name, source, ahead: None, unbuffered: options.unbuffered })
    }

    /// Returns the size of the input. An input without a size is first read into a temporary file,
    /// which becomes the input.
    fn size(&mut self, tool: &Tool) -> SplitResult<u64> {
        if self.source.len().is_none() {
            let Some(chunk) = self.next()? else { return Ok(0) };
            let kind = rustix::fs::fstat(self.source.descriptor())
                .map(|stat| FileType::from_raw_mode(stat.st_mode));
            if kind == Ok(FileType::CharacterDevice) && !self.source.descriptor().is_terminal() {
                // The device may be endless, like /dev/zero.
                return Err(no_size(&self.name, Errno::OVERFLOW));
            }
            self.source = self.spool(tool, chunk)?;
        }
        Ok(self.source.len().unwrap_or(0).saturating_sub(self.source.position()))
    }

    /// Reads everything into a temporary file.
    fn spool(&mut self, tool: &Tool, first: Chunk) -> SplitResult<Source> {
        let (fd, path) = temporary_file()?;
        let failed = |error: &io::Error| SplitFailure::file(path.as_os_str(), errno_of(error));
        let twin = fd.try_clone().map_err(|error| failed(&error))?;
        let mut sink = tool.output(twin, &path).map_err(|error| failed(&error))?;
        let mut next = Some(first);
        while let Some(chunk) = next {
            sink.write_chunk(chunk).map_err(|error| failed(&error))?;
            next = self.next()?;
        }
        sink.close().map_err(|error| failed(&error))?;
        rustix::fs::seek(&fd, SeekFrom::Start(0)).map_err(|errno| failed(&errno.into()))?;
        let input =
            Input::adopt(fd, &path, tool.stream_options()).map_err(|error| failed(&error))?;
        Ok(tool.source(input))
    }

    fn next(&mut self) -> SplitResult<Option<Chunk>> {
        match self.ahead.take() {
            Some(chunk) => Ok(Some(chunk)),
            None => {
                self.source.next_chunk().map_err(|error| SplitFailure::read(&self.name, &error))
            }
        }
    }

    fn skip(&mut self, bytes: u64) -> SplitResult<()> {
        self.source.skip(bytes).map(drop).map_err(|error| SplitFailure::read(&self.name, &error))
    }

    /// Skips everything before the first line that begins at `offset` or behind it, and returns the
    /// position of that line.
    fn line_from(&mut self, offset: u64, separator: u8) -> SplitResult<u64> {
        if offset == 0 {
            return Ok(0);
        }
        // A line begins at `offset` if the byte before ends one.
        let mut position = offset - 1;
        self.skip(position)?;
        while let Some(mut chunk) = self.next()? {
            if let Some(at) = memchr::memchr(separator, &chunk) {
                position += at as u64 + 1;
                chunk.advance(at + 1);
                self.ahead = Some(chunk).filter(|chunk| !chunk.is_empty());
                break;
            }
            position += chunk.len() as u64;
        }
        Ok(position)
    }

    /// Cuts the whole input.
    fn pump(&mut self, cutter: &mut dyn Cutter, outlet: &mut dyn PartReceiver) -> SplitResult<()> {
        let mut kept = Vec::new();
        while !outlet.done()
            && let Some(chunk) = self.next()?
        {
            deal(cutter, outlet, chunk, &mut kept)?;
            let more = self
                .source
                .ready_within(Duration::ZERO)
                .map_err(|error| SplitFailure::read(&self.name, &error))?;
            if !more {
                outlet.idle(self.unbuffered)?;
            }
        }
        match cutter.end() {
            Some(cut) => outlet.put(&cut, InputPart::Slice(&kept)),
            None => Ok(()),
        }
    }
}

/// Cuts one chunk. `kept` holds bytes set aside from earlier chunks.
fn deal(
    cutter: &mut dyn Cutter,
    outlet: &mut dyn PartReceiver,
    mut chunk: Chunk,
    kept: &mut Vec<u8>,
) -> SplitResult<()> {
    let mut at = 0;
    while at < chunk.len() && !outlet.done() {
        let cut = cutter.cut(&chunk[at..]);
        let to = at + cut.len;
        match cut.action {
            CutAction::Put if to == chunk.len() => {
                chunk.advance(at);
                return outlet.put(&cut, InputPart::Chunk(chunk));
            }
            CutAction::Put => outlet.put(&cut, InputPart::Slice(&chunk[at..to]))?,
            CutAction::Keep => kept.extend_from_slice(&chunk[at..to]),
            CutAction::PutKept => {
                outlet.put(&cut, InputPart::Slice(kept))?;
                kept.clear();
            }
            CutAction::Drop => {}
        }
        at = to;
    }
    Ok(())
}

fn no_size(name: &OsStr, errno: Errno) -> SplitFailure {
    SplitFailure::Message(format!("{}: cannot determine file size: {}", named(name), words(errno)))
}

/// Creates a file without a name in `$TMPDIR` or `/tmp`; the path is the name that it had at first.
fn temporary_file() -> SplitResult<(OwnedFd, PathBuf)> {
    let directory = std::env::var_os("TMPDIR")
        .filter(|value| !value.is_empty())
        .unwrap_or_else(|| "/tmp".into());
    let process = std::process::id();
    for attempt in 0..100 {
        let path = Path::new(&directory).join(format!("split-{process}-{attempt}"));
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match uninterrupted(|| rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600))) {
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(SplitFailure::file(path.as_os_str(), errno)),
            Ok(fd) => {
                rustix::fs::unlink(&path)
                    .map_err(|errno| SplitFailure::file(path.as_os_str(), errno))?;
                return Ok((fd, path));
            }
        }
    }
    Err(SplitFailure::file(&directory, Errno::EXIST))
}
