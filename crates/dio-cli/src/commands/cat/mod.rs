//! `dio cat`: files to standard output, past the page cache.
//!
//! Three ways: without formatting, chunks of the input are moved into the output (`plain`); from
//! pipe to pipe the kernel moves them (`splice`); with formatting they pass through a
//! `format::Formatter`.

mod args;
mod format;
mod number;
mod splice;
mod visible;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;

use dio::names::FileId;
use dio::stream::Chunk;
use dio_sys::start::was_closed;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::grammar::Program;
use crate::quote::{named, words};
use crate::tool::held::{Broken, Held};
use crate::tool::{Sink, Source, Tool, plain};
use format::Formatter;

/// How much text is formatted at a time, in bytes: what it becomes stays in the processor's cache.
const PIECE: usize = 64 << 10;

pub(crate) const PROGRAM: Program = Program { name: "cat", describe: |_| args::grammar().describe(), run };

/// Runs `dio cat`; returns 0 if every file was written out, else 1.
fn run(_: &str, line: Vec<OsString>) -> ExitCode {
    let args = match args::grammar().resolve(line, Ok) {
        Ok(args) => args,
        Err(status) => return status,
    };
    let tool = Tool::new("cat", &args.io);
    if let Err(status) = tool.begin(args.files.iter().map(OsString::as_os_str)) {
        return status;
    }
    if was_closed(1) {
        tool.error(format_args!("standard output: {}", words(Errno::BADF)));
        return tool.finish();
    }
    let mut cat = Cat {
        formatter: (!args.format.is_plain()).then(|| Formatter::new(args.format)),
        output: Target { tool: tool.clone(), stat: rustix::fs::fstat(io::stdout()).ok(), sink: None },
        held: None,
        text: Vec::new(),
        tool: tool.clone(),
    };
    let files = if args.files.is_empty() { vec!["-".into()] } else { args.files };
    if let Err(error) = cat.all(&files) {
        tool.write_failed(&error);
    }
    tool.finish()
}

/// Standard output, opened for its first byte: without any, it may be closed or not be writable.
struct Target {
    tool: Tool,
    stat: Option<Stat>,
    sink: Option<Sink>,
}

impl Target {
    fn sink(&mut self) -> io::Result<&mut Sink> {
        match &mut self.sink {
            Some(sink) => Ok(sink),
            none => Ok(none.insert(self.tool.stdout()?)),
        }
    }

    /// Whether `input` is the same regular file, with something left to read: it would be read for
    /// ever, for what is read grows by what is written.
    fn is(&mut self, input: &Source) -> io::Result<bool> {
        let Some(own) = &self.stat else { return Ok(false) };
        let id = |stat: &Stat| FileId::of(stat);
        let regular = FileType::from_raw_mode(own.st_mode) == FileType::RegularFile;
        if !regular || rustix::fs::fstat(input.descriptor()).is_ok_and(|its| id(own) != id(&its)) {
            return Ok(false);
        }
        if let Some(sink) = &mut self.sink {
            // Its size is what it would be if nothing were held back.
            sink.flush()?;
        }
        let size = dio::names::fstat(input.descriptor())?.st_size as u64;
        Ok(rustix::fs::tell(input.descriptor())? < size)
    }
}

struct Cat {
    tool: Tool,
    output: Target,
    /// `None` if the text stays as it is.
    formatter: Option<Formatter>,
    /// What files have not got yet, from the first input on that may pause.
    held: Option<Held>,
    /// Formatted text.
    text: Vec<u8>,
}

impl Cat {
    /// Writes out all files. An error is one of standard output.
    fn all(&mut self, files: &[OsString]) -> io::Result<()> {
        for path in files.iter().map(Path::new) {
            match self.file(path) {
                Ok(()) => {}
                Err(Broken::Read(error)) => self.tool.file_error(path, &error),
                Err(Broken::Write(error)) => return Err(error),
            }
        }
        if let Some(formatter) = &mut self.formatter {
            self.text.clear();
            formatter.finish(&mut self.text);
            if !self.text.is_empty() {
                self.output.sink()?.write_all(&self.text)?;
            }
        }
        self.output.sink.take().map_or(Ok(()), Sink::close)
    }

    /// Writes out one file. After one that cannot be read the next one follows.
    fn file(&mut self, path: &Path) -> Result<(), Broken> {
        let mut input = self.tool.open(path).map_err(Broken::Read)?;
        if self.output.is(&input).map_err(Broken::Write)? {
            self.tool.error(format_args!("{}: input file is output file", named(path)));
            return Ok(());
        }
        if self.formatter.is_none() && splice::possible(input.descriptor(), io::stdout().as_fd()) {
            let sink = self.output.sink().map_err(Broken::Write)?;
            splice::all(&self.tool, &mut input, sink).map_err(Broken::Write)?;
        }
        let may_pause = input.file().is_none();
        if may_pause {
            // A file before this one may have left something.
            self.note_held(0, true);
        }
        while let Some(chunk) = self.next(&mut input)? {
            let sink = self.output.sink().map_err(Broken::Write)?;
            let length = chunk.len();
            let written = match &mut self.formatter {
                None => plain::write(sink, chunk, self.tool.stream_options().block),
                Some(formatter) => chunk.chunks(PIECE).try_for_each(|piece| {
                    self.text.clear();
                    formatter.push(piece, &mut self.text);
                    sink.write_all(&self.text)
                }),
            };
            written.map_err(Broken::Write)?;
            self.note_held(length, may_pause);
        }
        input.close().map_err(Broken::Read)
    }

    /// A file was given `bytes`; it may not have them yet.
    fn note_held(&mut self, bytes: usize, may_pause: bool) {
        if self.output.sink.as_ref().is_none_or(|sink| sink.file().is_none()) {
            return;
        }
        if self.held.is_none() && may_pause {
            self.held = Some(Held::new(self.tool.stream_options().block, false));
        }
        if let Some(held) = &mut self.held {
            held.passed(bytes);
        }
    }

    /// The next bytes. While they are waited for, a file gets what was held back.
    fn next(&mut self, input: &mut Source) -> Result<Option<Chunk>, Broken> {
        if let (Some(held), Some(sink)) = (&mut self.held, &mut self.output.sink) {
            held.wait_for(input, sink)?;
        }
        input.next_chunk().map_err(Broken::Read)
    }
}
