//! The output of a sort.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use dio::names::FileId;
use dio::stream::StreamOptions;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open};
use rustix::io::Errno;

use crate::tool::target::{Guard, OutputFile, TargetOptions};
use crate::tool::{Sink, Tool, errno_of};

/// The output, which is not written to until [`SortOutput::open`].
#[derive(Debug)]
pub(super) struct SortOutput {
    /// `None` for standard output.
    file: Option<OutputName>,
    /// Identity of a regular file that is overwritten while inputs are merged.
    overwritten: Option<FileId>,
}

#[derive(Debug)]
struct OutputName {
    name: OsString,
    successor: OutputFile,
    guard: Guard,
}

impl SortOutput {
    /// Makes sure that the output can be written. It exists from then on; its bytes are unchanged.
    ///
    /// # Errors
    /// `open(2)` failed.
    pub(super) fn new(name: Option<&OsStr>, in_place: bool) -> Result<SortOutput, Errno> {
        let Some(name) = name else {
            let stat = fstat(io::stdout()).ok().filter(is_file);
            return Ok(SortOutput { file: None, overwritten: stat.as_ref().map(FileId::of) });
        };
        let successor = OutputFile::open(
            Path::new(name),
            TargetOptions { in_place, ..TargetOptions::default() },
        )?;
        let overwritten = successor.before().filter(|_| successor.is_in_place());
        let guard = successor.guard(true);
        Ok(SortOutput {
            file: Some(OutputName { name: name.to_owned(), successor, guard }),
            overwritten,
        })
    }

    /// The name for messages.
    pub(super) fn name(&self) -> &OsStr {
        self.file.as_ref().map_or(OsStr::new("standard output"), |file| &file.name)
    }

    /// Returns whether writing the output overwrites this input.
    pub(super) fn overwrites(&self, input: &OsStr) -> bool {
        let other = if input == "-" { fstat(io::stdin()) } else { rustix::fs::stat(input) };
        self.overwritten.is_some_and(|own| {
            other.is_ok_and(|other| is_file(&other) && own == FileId::of(&other))
        })
    }

    /// Opens the output for its first byte. A file that is overwritten loses its content here.
    ///
    /// # Errors
    /// `ftruncate(2)` or the stream failed.
    pub(super) fn open(&mut self, tool: &Tool, how: &StreamOptions) -> io::Result<Sink> {
        match &self.file {
            Some(file) => file.successor.sink_with(tool, how),
            None => standard_output(tool),
        }
    }

    /// Makes the written file the output, after everything was written.
    ///
    /// # Errors
    /// As [`OutputFile::keep`].
    pub(super) fn keep(&mut self) -> io::Result<()> {
        match &mut self.file {
            Some(OutputName { successor, guard, .. }) => guard.finally(|| successor.keep()),
            None => Ok(()),
        }
    }

    /// Removes what [`SortOutput::new`] has made, when there is no output. An earlier file stays as
    /// it was.
    pub(super) fn give_up(self) {
        if let Some(OutputName { successor, guard, .. }) = self.file {
            guard.finally(|| successor.discard());
        }
    }

    /// Advice on how to avoid this write error, if there is any.
    pub(super) fn cure(&self, errno: Errno) -> Option<&'static str> {
        self.file.as_ref()?.successor.cure(errno)
    }
}

/// Opens standard output. If it is closed or not open for writing, the first write must fail with
/// EBADF, and nothing before it. A read-only descriptor stands in for it then.
fn standard_output(tool: &Tool) -> io::Result<Sink> {
    match tool.stdout() {
        Err(error) if errno_of(&error) == Errno::BADF => {
            let nowhere = open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            tool.output(nowhere, Path::new("-"))
        }
        other => other,
    }
}

fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}
