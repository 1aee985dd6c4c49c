//! Making outputs: their names, what is said about them, and how each kind is opened.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::os::fd::OwnedFd;

use dio::stripe::calls;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::quote::{named, quoted, words};
use crate::tool::Tool;

use super::failure::{Failure, Run};
use super::filter::Filter;
use super::names::Names;

/// What `--verbose` says is gathered up to this size unless a terminal shows it, as the C library does.
const GATHERED: usize = 4096;

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
    input: (u64, u64),
}

impl Maker {
    pub(super) fn new(tool: &Tool, names: Names, filter: Option<OsString>, verbose: bool, input: &Stat) -> Maker {
        let said = verbose.then(Vec::new);
        Maker { tool: tool.clone(), names, filter, said, input: (input.st_dev, input.st_ino) }
    }

    pub(super) fn tool(&self) -> &Tool {
        &self.tool
    }

    /// Makes the next output. Too many open files are left to `relieve`, which closes some and says whether it could.
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
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let fd = loop {
            match calls::openat(rustix::fs::CWD, &name, flags, Mode::from_raw_mode(0o666)) {
                Err(Errno::INTR) => {}
                Err(Errno::MFILE) if relieve()? => {}
                other => break other.map_err(|errno| Failure::file(&name, errno))?,
            }
        };
        let regular = self.examine(&name, &fd)?;
        Ok(Made::File(MadeFile { name, fd, regular }))
    }

    /// Refuses the input as an output, and empties everything else; says whether it is a regular file.
    fn examine(&self, name: &OsStr, fd: &OwnedFd) -> Run<bool> {
        let stat = rustix::fs::fstat(fd)
            .map_err(|errno| Failure::Message(format!("failed to stat {}: {}", quoted(name), words(errno))))?;
        if (stat.st_dev, stat.st_ino) == self.input {
            return Err(Failure::Message(format!("{} would overwrite input; aborting", quoted(name))));
        }
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        match calls::ftruncate(fd, 0) {
            Err(errno) if regular => {
                Err(Failure::Message(format!("{}: error truncating: {}", named(name), words(errno))))
            }
            _ => Ok(regular),
        }
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
