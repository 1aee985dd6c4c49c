//! `dio cat`: copies files to standard output, past the page cache.
//!
//! There are three methods. Without formatting, chunks of the input are moved to the output
//! (`plain`). From pipe to pipe the kernel moves the bytes (`splice`). With formatting, the text
//! passes through a `format::Formatter`.

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
use crate::tool::held::{Broken, HeldOutput};
use crate::tool::{Sink, Source, Tool, plain};
use format::Formatter;

/// Bytes of text that are formatted at a time: few enough that the result stays in the processor's
/// cache.
const PIECE: usize = 64 << 10;

pub(crate) const PROGRAM: Program =
    Program { name: "cat", describe: |_| args::grammar().describe(), run };

/// Runs `dio cat`; returns 0 if every file was copied, else 1.
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
        output: CatOutput {
            tool: tool.clone(),
            stat: rustix::fs::fstat(io::stdout()).ok(),
            sink: None,
        },
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

/// Standard output. It is opened for its first byte, because without output it may be closed or not
/// writable.
struct CatOutput {
    tool: Tool,
    stat: Option<Stat>,
    sink: Option<Sink>,
}

impl CatOutput {
    fn sink(&mut self) -> io::Result<&mut Sink> {
        match &mut self.sink {
            Some(sink) => Ok(sink),
            none => Ok(none.insert(self.tool.stdout()?)),
        }
    }

    /// Returns whether `input` is the same regular file and has bytes left to read. Reading it
    /// would never end, because each write makes it longer.
    fn is(&mut self, input: &Source) -> io::Result<bool> {
        let Some(own) = &self.stat else { return Ok(false) };
        let id = |stat: &Stat| FileId::of(stat);
        let regular = FileType::from_raw_mode(own.st_mode) == FileType::RegularFile;
        if !regular || rustix::fs::fstat(input.descriptor()).is_ok_and(|its| id(own) != id(&its)) {
            return Ok(false);
        }
        if let Some(sink) = &mut self.sink {
            // The flush makes its size include the bytes held back.
            sink.flush()?;
        }
        let size = dio::names::fstat(input.descriptor())?.st_size as u64;
        Ok(rustix::fs::tell(input.descriptor())? < size)
    }
}

struct Cat {
    tool: Tool,
    output: CatOutput,
    /// `None` if the text is not changed.
    formatter: Option<Formatter>,
    /// Tracks the bytes held back from an output file, from the first input that may pause on.
    held: Option<HeldOutput>,
    /// Buffer for formatted text.
    text: Vec<u8>,
}

impl Cat {
    /// Copies all files. A returned error is one of standard output.
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

    /// Copies one file. After an error of reading, the caller goes on with the next file.
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
            // Bytes of an earlier file may still be held back.
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

    /// Notes that an output file was given `bytes` bytes, which may be held back.
    fn note_held(&mut self, bytes: usize, may_pause: bool) {
        if self.output.sink.as_ref().is_none_or(|sink| sink.file().is_none()) {
            return;
        }
        if self.held.is_none() && may_pause {
            self.held = Some(HeldOutput::new(self.tool.stream_options().block, false));
        }
        if let Some(held) = &mut self.held {
            held.passed(bytes);
        }
    }

    /// Returns the next chunk. While it waits for input, held-back bytes are written to the output
    /// file.
    fn next(&mut self, input: &mut Source) -> Result<Option<Chunk>, Broken> {
        if let (Some(held), Some(sink)) = (&mut self.held, &mut self.output.sink) {
            held.wait_for(input, sink)?;
        }
        input.next_chunk().map_err(Broken::Read)
    }
}
