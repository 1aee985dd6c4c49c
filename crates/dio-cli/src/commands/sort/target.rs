//! Where the sorted lines go.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use dio::names::FileId;
use dio::stream::StreamOptions;
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open};
use rustix::io::Errno;

use crate::tool::target::{Guard, OutputFile, Wish};
use crate::tool::{Sink, Tool, errno_of};

/// The output, not yet touched.
#[derive(Debug)]
pub(super) struct Target {
    /// None for standard output.
    file: Option<Named>,
    /// A regular file that is overwritten while inputs are merged.
    overwritten: Option<FileId>,
}

#[derive(Debug)]
struct Named {
    name: OsString,
    successor: OutputFile,
    guard: Guard,
}

impl Target {
    /// Makes sure that the output can be written: it exists from then on, with the bytes it has.
    ///
    /// # Errors
    /// What `open(2)` answers.
    pub(super) fn new(name: Option<&OsStr>, in_place: bool) -> Result<Target, Errno> {
        let Some(name) = name else {
            let stat = fstat(io::stdout()).ok().filter(is_file);
            return Ok(Target { file: None, overwritten: stat.as_ref().map(FileId::of) });
        };
        let successor = OutputFile::open(Path::new(name), Wish { in_place, ..Wish::default() })?;
        let overwritten = successor.before().filter(|_| successor.is_in_place());
        let guard = successor.guard(true);
        Ok(Target { file: Some(Named { name: name.to_owned(), successor, guard }), overwritten })
    }

    /// What messages call it.
    pub(super) fn name(&self) -> &OsStr {
        self.file.as_ref().map_or(OsStr::new("standard output"), |file| &file.name)
    }

    /// Whether writing to it overwrites an input.
    pub(super) fn overwrites(&self, input: &OsStr) -> bool {
        let other = if input == "-" { fstat(io::stdin()) } else { rustix::fs::stat(input) };
        self.overwritten.is_some_and(|own| other.is_ok_and(|other| is_file(&other) && own == FileId::of(&other)))
    }

    /// Opens it for the first byte: what is overwritten is gone.
    ///
    /// # Errors
    /// What `ftruncate(2)` and the stream answer.
    pub(super) fn open(&mut self, tool: &Tool, how: &StreamOptions) -> io::Result<Sink> {
        match &self.file {
            Some(file) => file.successor.sink_with(tool, how),
            None => standard_output(tool),
        }
    }

    /// Everything was written: the file becomes the output.
    ///
    /// # Errors
    /// As [`OutputFile::keep`].
    pub(super) fn keep(&mut self) -> io::Result<()> {
        match &mut self.file {
            Some(Named { successor, guard, .. }) => guard.finally(|| successor.keep()),
            None => Ok(()),
        }
    }

    /// There is no output: takes away what [`Target::new`] has made. What was there before stays.
    pub(super) fn give_up(self) {
        if let Some(Named { successor, guard, .. }) = self.file {
            guard.finally(|| successor.discard());
        }
    }

    /// What can be done about this error of writing.
    pub(super) fn cure(&self, errno: Errno) -> Option<&'static str> {
        self.file.as_ref()?.successor.cure(errno)
    }
}

/// Standard output. Where it is closed, or not open for writing, that only matters to the first
/// byte: the stream stands in for it then, and takes none (EBADF).
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
