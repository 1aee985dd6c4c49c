//! Creates the outputs: names them, prints the messages of `--verbose`, and opens them.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use dio::names::FileId;
use dio_sys::{fd_path, uninterrupted};
use rustix::fs::Stat;
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use crate::quote::{named, quoted, words};
use crate::tool::target::{OutputFile, TargetOptions};
use crate::tool::{Tool, allow_descriptors};

use super::failure::{SplitFailure, SplitResult};
use super::filter::Filter;
use super::names::OutputNames;

/// Messages of `--verbose` are gathered up to this size, as the C library does, unless standard
/// output is a terminal.
const GATHERED: usize = 4096;

/// Descriptors of an output that replaces a file: the new file twice, its directory, and two to
/// write it by. `OTHERS` are used for other purposes.
const DESCRIPTORS: u64 = 5;
const OTHERS: u64 = 64;

/// A new output.
#[derive(Debug)]
pub(super) enum NewOutput {
    /// An empty file, or an existing file or device of that name.
    File(MadeFile),
    /// A command.
    Filter(Filter),
}

/// An open output file.
#[derive(Debug)]
pub(super) struct MadeFile {
    pub(super) name: OsString,
    pub(super) fd: OwnedFd,
    /// Whether it is a regular file, rather than a device, a pipe or the like.
    pub(super) regular: bool,
    /// The file that replaces an existing one when it is complete.
    pub(super) replaces: Option<Box<OutputFile>>,
}

impl MadeFile {
    /// Returns the path by which the file is opened again.
    pub(super) fn own_path(&self) -> PathBuf {
        if self.replaces.is_some() { fd_path(&self.fd) } else { self.name.clone().into() }
    }
}

/// Lets a complete and closed file replace the one that had its name.
pub(super) fn keep(name: &OsStr, replaces: Option<Box<OutputFile>>) -> SplitResult<()> {
    let kept = replaces.map_or(Ok(()), |mut successor| successor.keep());
    kept.map_err(|error| SplitFailure::written(name, &error))
}

/// Creates outputs in the order of their names.
#[derive(Debug)]
pub(super) struct Maker {
    tool: Tool,
    names: OutputNames,
    filter: Option<OsString>,
    /// Messages that are not yet written; `None` if no messages are wanted.
    messages: Option<Vec<u8>>,
    /// Device and inode of the input, which must not be overwritten.
    input: FileId,
    /// Whether existing files are truncated at once, because there are not enough descriptors to
    /// replace them.
    in_place: bool,
}

impl Maker {
    pub(super) fn new(
        tool: &Tool,
        names: OutputNames,
        filter: Option<OsString>,
        verbose: bool,
        input: &Stat,
    ) -> Maker {
        let messages = verbose.then(Vec::new);
        Maker {
            tool: tool.clone(),
            names,
            filter,
            messages,
            input: FileId::of(input),
            in_place: false,
        }
    }

    /// Prepares for `count` outputs that are open at a time.
    pub(super) fn expect(mut self, count: u64) -> Maker {
        let needed = count.saturating_mul(DESCRIPTORS).saturating_add(OTHERS);
        allow_descriptors(needed);
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        self.in_place = limit.is_some_and(|limit| limit < needed);
        self
    }

    pub(super) fn tool(&self) -> &Tool {
        &self.tool
    }

    /// Creates the next output. If too many files are open, it calls `close_some`, which closes
    /// some and returns whether it could.
    pub(super) fn make(
        &mut self,
        mut close_some: impl FnMut() -> SplitResult<bool>,
    ) -> SplitResult<NewOutput> {
        let Some(name) = self.names.next() else {
            return Err(SplitFailure::Message("output file suffixes exhausted".into()));
        };
        if let Some(command) = &self.filter {
            let command = command.clone();
            self.say(format_args!("executing with FILE={}\n", named(&name)))?;
            return Ok(NewOutput::Filter(Filter::run(&self.tool, &command, name)?));
        }
        self.say(format_args!("creating file {}\n", quoted(&name)))?;
        let options = TargetOptions { in_place: self.in_place, ..TargetOptions::default() };
        let opened = || {
            let successor = OutputFile::open(Path::new(&name), options)?;
            let kept =
                successor.keeps_the_old().then(|| fcntl_dupfd_cloexec(successor.descriptor(), 3));
            Ok((successor, kept.transpose()?))
        };
        let (successor, kept) = loop {
            match uninterrupted(opened) {
                Err(Errno::MFILE) if close_some()? => {}
                other => break other.map_err(|errno| SplitFailure::file(&name, errno))?,
            }
        };
        self.examine(&name, &successor)?;
        let regular = successor.is_regular();
        let (fd, replaces) = match kept {
            Some(fd) => (fd, Some(Box::new(successor))),
            None => (successor.into_descriptor(), None),
        };
        Ok(NewOutput::File(MadeFile { name, fd, regular, replaces }))
    }

    /// Rejects the input as an output, and truncates a file that is written in place.
    fn examine(&self, name: &OsStr, successor: &OutputFile) -> SplitResult<()> {
        if successor.before() == Some(self.input) {
            return Err(SplitFailure::Message(format!(
                "{} would overwrite input; aborting",
                quoted(name)
            )));
        }
        let failed = |errno| {
            SplitFailure::Message(format!("{}: error truncating: {}", named(name), words(errno)))
        };
        successor.begin().map_err(failed)
    }

    fn say(&mut self, text: std::fmt::Arguments<'_>) -> SplitResult<()> {
        let Some(messages) = &mut self.messages else { return Ok(()) };
        messages.write_fmt(text).map_err(SplitFailure::Write)?;
        if messages.len() >= GATHERED || std::io::stdout().is_terminal() {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes the gathered messages.
    pub(super) fn flush(&mut self) -> SplitResult<()> {
        let messages = self.messages.as_mut().map(std::mem::take).unwrap_or_default();
        let mut out = std::io::stdout().lock();
        out.write_all(&messages).and_then(|()| out.flush()).map_err(SplitFailure::Write)
    }
}

impl Drop for Maker {
    /// Writes the messages even if the run fails, before the error is printed.
    fn drop(&mut self) {
        let _ = self.flush();
    }
}
