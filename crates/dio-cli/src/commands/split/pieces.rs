//! Making outputs: their names, what is said about them, and how each kind is opened.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use dio::names::FileId;
use dio_sys::{fd_path, uninterrupted};
use rustix::fs::Stat;
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use crate::quote::{named, quoted, words};
use crate::tool::target::{OutputFile, Wish};
use crate::tool::{Tool, allow_descriptors};

use super::failure::{Failure, Run};
use super::filter::Filter;
use super::names::Names;

/// What `--verbose` says is gathered up to this size unless a terminal shows it, as the C library
/// does.
const GATHERED: usize = 4096;

/// Descriptors of an output that replaces a file: it, another of it, its directory, and two to
/// write it by. And those that are for something else than outputs.
const DESCRIPTORS: u64 = 5;
const OTHERS: u64 = 64;

/// A new output.
#[derive(Debug)]
pub(super) enum Made {
    /// An empty file, or whatever has its name already.
    File(MadeFile),
    /// A command.
    Filter(Filter),
}

/// An open output file.
#[derive(Debug)]
pub(super) struct MadeFile {
    pub(super) name: OsString,
    pub(super) fd: OwnedFd,
    /// A regular file; else a device, a pipe or the like.
    pub(super) regular: bool,
    /// The file whose place it takes when it is complete.
    pub(super) replaces: Option<Box<OutputFile>>,
}

impl MadeFile {
    /// The path by which it is opened again.
    pub(super) fn own_path(&self) -> PathBuf {
        if self.replaces.is_some() { fd_path(&self.fd) } else { self.name.clone().into() }
    }
}

/// A file is complete and closed: it takes the place of the one that had its name.
pub(super) fn keep(name: &OsStr, replaces: Option<Box<OutputFile>>) -> Run<()> {
    let kept = replaces.map_or(Ok(()), |mut successor| successor.keep());
    kept.map_err(|error| Failure::written(name, &error))
}

/// Makes outputs in the order of their names.
#[derive(Debug)]
pub(super) struct Maker {
    tool: Tool,
    names: Names,
    filter: Option<OsString>,
    /// What was said and not yet written; none if nothing is to be said.
    said: Option<Vec<u8>>,
    /// Device and inode of the input, which is not to be overwritten.
    input: FileId,
    /// Files that exist are emptied at once: there are not enough descriptors for their successors.
    in_place: bool,
}

impl Maker {
    pub(super) fn new(tool: &Tool, names: Names, filter: Option<OsString>, verbose: bool, input: &Stat) -> Maker {
        let said = verbose.then(Vec::new);
        Maker { tool: tool.clone(), names, filter, said, input: FileId::of(input), in_place: false }
    }

    /// So many outputs will be open at a time.
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

    /// Makes the next output. Too many open files are left to `relieve`, which closes some and says
    /// whether it could.
    pub(super) fn make(&mut self, mut relieve: impl FnMut() -> Run<bool>) -> Run<Made> {
        let Some(name) = self.names.next() else {
            return Err(Failure::Message("output file suffixes exhausted".into()));
        };
        if let Some(command) = &self.filter {
            let command = command.clone();
            self.say(format_args!("executing with FILE={}\n", named(&name)))?;
            return Ok(Made::Filter(Filter::run(&self.tool, &command, name)?));
        }
        self.say(format_args!("creating file {}\n", quoted(&name)))?;
        let wish = Wish { in_place: self.in_place, ..Wish::default() };
        let opened = || {
            let successor = OutputFile::open(Path::new(&name), wish)?;
            let kept = successor.keeps_the_old().then(|| fcntl_dupfd_cloexec(successor.descriptor(), 3));
            Ok((successor, kept.transpose()?))
        };
        let (successor, kept) = loop {
            match uninterrupted(opened) {
                Err(Errno::MFILE) if relieve()? => {}
                other => break other.map_err(|errno| Failure::file(&name, errno))?,
            }
        };
        self.examine(&name, &successor)?;
        let regular = successor.is_regular();
        let (fd, replaces) = match kept {
            Some(fd) => (fd, Some(Box::new(successor))),
            None => (successor.into_descriptor(), None),
        };
        Ok(Made::File(MadeFile { name, fd, regular, replaces }))
    }

    /// Refuses the input as an output, and empties what is written in place.
    fn examine(&self, name: &OsStr, successor: &OutputFile) -> Run<()> {
        if successor.before() == Some(self.input) {
            return Err(Failure::Message(format!("{} would overwrite input; aborting", quoted(name))));
        }
        let failed = |errno| Failure::Message(format!("{}: error truncating: {}", named(name), words(errno)));
        successor.begin().map_err(failed)
    }

    fn say(&mut self, text: std::fmt::Arguments<'_>) -> Run<()> {
        let Some(said) = &mut self.said else { return Ok(()) };
        said.write_fmt(text).map_err(Failure::Write)?;
        if said.len() >= GATHERED || std::io::stdout().is_terminal() { self.flush() } else { Ok(()) }
    }

    /// Writes what was said.
    pub(super) fn flush(&mut self) -> Run<()> {
        let said = self.said.as_mut().map(std::mem::take).unwrap_or_default();
        let mut out = std::io::stdout().lock();
        out.write_all(&said).and_then(|()| out.flush()).map_err(Failure::Write)
    }
}

impl Drop for Maker {
    /// What was said is seen even if the run fails; and before the reason is told.
    fn drop(&mut self) {
        let _ = self.flush();
    }
}
