//! The archive being written: a file, a pipe, or a compressor in front of either.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dio::names::FileId;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use super::super::archive::workers;
use super::super::format::{BLOCK, end_of_archive};
use super::super::options::Compression;
use super::super::program::Compressing;
use super::super::run::{EarlyEnd, TarRun};
use super::jobs::SourceFile;
use super::noted::NotedArchive;
use super::pieces::{ArchiveCrew, SharedArchive};
use crate::codec::pipe::Compressor;
use crate::codec::{CodecTotals, EncodeError, gzip, zstd};
use crate::tool::target::{OutputFile, TargetOptions};
use crate::tool::{Notes, Sink, device, die_of_a_closed_pipe, errno_of, synced};

/// An archive being written.
#[derive(Debug)]
pub(in super::super) struct ArchiveOutput<'c> {
    way: Option<Backend<'c>>,
    /// The name shown in messages.
    name: Vec<u8>,
    /// Device and inode of the archive and of the file that it replaces, if they are regular files.
    identities: Identities,
    /// The output file of `-f`; `None` for standard output and when adding to an archive.
    successor: Option<OutputFile>,
    /// Position in the archive in bytes, before compression.
    position: u64,
    /// The position at which writing began.
    start: u64,
    /// The first block, if the caller writes it last.
    held: Option<Vec<u8>>,
}

#[derive(Debug)]
enum Backend<'c> {
    Plain(Box<Sink>),
    /// A device or a socket; each `write(2)` to it makes one record, so all writes have this size.
    Records {
        sink: Box<Sink>,
        size: usize,
        gathered: Vec<u8>,
    },
    Program(Box<Compressing>),
    Compressor(Box<Compressor<Sink>>),
    /// Written by several processes.
    Shared(Box<SharedArchive<'c>>),
}

/// Device and inode of files that must not be archived.
pub(super) type Identities = Vec<FileId>;

const ZEROS: [u8; 16 << 10] = [0; 16 << 10];

impl<'c> ArchiveOutput<'c> {
    /// Creates the archive of the command line. An existing file of that name stays until the
    /// archive is complete.
    ///
    /// # Errors
    /// The archive cannot be opened; its compression program cannot be started.
    pub(super) fn create(run: &TarRun) -> Result<ArchiveOutput<'c>, EarlyEnd> {
        let path = PathBuf::from(&run.options.archive);
        let name = path.as_os_str().as_bytes().to_vec();
        let failed = |error: io::Error| EarlyEnd::on(&name, "open", errno_of(&error));
        let (sink, successor) = if name == b"-" {
            if rustix::termios::isatty(io::stdout()) {
                let what = "Refusing to write archive contents to terminal (missing -f option?)";
                return Err(EarlyEnd::Fatal(what.into()));
            }
            (run.tool.stdout().map_err(failed)?, None)
        } else {
            let options =
                TargetOptions { in_place: run.options.in_place, ..TargetOptions::default() };
            let successor =
                OutputFile::open(&path, options).map_err(|errno| failed(errno.into()))?;
            (successor.sink(&run.tool).map_err(failed)?, Some(successor))
        };
        let mut target = ArchiveOutput::over(run, sink, name, 0)?;
        target.identities.extend(successor.as_ref().and_then(OutputFile::before));
        target.successor = successor;
        Ok(target)
    }

    /// Creates the archive of the command line for several processes to write. With notes, goes on
    /// with what an earlier attempt has left.
    ///
    /// # Errors
    /// The archive cannot be opened, or not by other processes; it cannot be noted.
    pub(super) fn shared(
        run: &'c TarRun,
        crew: ArchiveCrew<'c>,
        notes: Option<&Arc<dyn Notes>>,
    ) -> Result<ArchiveOutput<'c>, EarlyEnd> {
        let path = Path::new(&run.options.archive);
        let name = path.as_os_str().as_bytes().to_vec();
        let failed = |errno| EarlyEnd::on(&name, "open", errno);
        let (in_place, hidden) = (run.options.in_place, notes.is_some());
        let options = TargetOptions { in_place, hidden, ..TargetOptions::default() };
        let mut successor = OutputFile::open(path, options).map_err(failed)?;
        let noted = match notes.map(|notes| NotedArchive::begin(notes, &mut successor)) {
            Some(Ok(noted)) => noted,
            Some(Err(ended)) => {
                successor.discard();
                return Err(ended);
            }
            None => None,
        };
        let reached = successor.path_for_others().map_err(failed)?;
        let stat = fstat(successor.descriptor()).map_err(failed)?;
        successor.begin().map_err(failed)?;
        let is_synced = successor.keeps_the_old();
        let shared = SharedArchive::new(run, crew, reached.into(), is_synced, noted);
        let identities = [FileId::of(&stat)].into_iter().chain(successor.before()).collect();
        Ok(ArchiveOutput {
            way: Some(Backend::Shared(Box::new(shared))),
            name,
            identities,
            successor: Some(successor),
            position: 0,
            start: 0,
            held: None,
        })
    }

    /// The archive, if several processes write it.
    pub(super) fn as_shared(&mut self) -> Option<&mut SharedArchive<'c>> {
        match &mut self.way {
            Some(Backend::Shared(shared)) => Some(shared),
            _ => None,
        }
    }

    /// Adds a range of a file to an archive that several processes write.
    ///
    /// # Errors
    /// As [`ArchiveOutput::write`].
    pub(super) fn file(
        &mut self,
        range_of: (&Arc<Vec<u8>>, usize),
        source: &SourceFile,
        range: (u64, u64),
    ) -> Result<(), EarlyEnd> {
        self.position += range.1;
        self.as_shared().map_or(Ok(()), |shared| shared.file(range_of, source, range))
    }

    /// Continues an archive at the position of `sink`, which is `position` bytes from the start of
    /// the archive.
    ///
    /// # Errors
    /// The compression program cannot be started.
    pub(in super::super) fn over(
        run: &TarRun,
        sink: Sink,
        name: Vec<u8>,
        position: u64,
    ) -> Result<ArchiveOutput<'c>, EarlyEnd> {
        let identities = identity_of(&sink).into_iter().collect();
        let way = match &run.options.compression {
            None if fstat(sink.descriptor()).is_ok_and(|stat| device::has_records(&stat)) => {
                let size = usize::try_from(run.options.record).unwrap_or(usize::MAX);
                Backend::Records { sink: Box::new(sink), size, gathered: Vec::new() }
            }
            None => Backend::Plain(Box::new(sink)),
            Some(Compression::Gzip) => {
                let how = gzip::Encode { workers: workers(), ..gzip::Encode::default() };
                compressor(&name, sink, move |read, write| gzip::encode(read, write, &how))?
            }
            Some(Compression::Zstd) => {
                let how = zstd::Encode { workers: workers() as u32, ..zstd::Encode::default() };
                compressor(&name, sink, move |read, write| zstd::encode(read, write, &how))?
            }
            Some(Compression::Program(words)) => {
                Backend::Program(Box::new(Compressing::start(run, words, sink)?))
            }
        };
        let (way, successor) = (Some(way), None);
        Ok(ArchiveOutput {
            way,
            name,
            identities,
            successor,
            position,
            start: position,
            held: None,
        })
    }

    /// Keeps the first block in memory instead of writing it, so that the blocks behind it do not
    /// become part of the archive yet.
    pub(in super::super) fn hold_first_block(&mut self) {
        self.held = Some(Vec::with_capacity(BLOCK));
    }

    /// Returns the block that was kept back, if it is complete.
    pub(in super::super) fn take_held(&mut self) -> Option<Vec<u8>> {
        self.held.take().filter(|block| block.len() == BLOCK)
    }

    /// Files that must not be archived.
    pub(super) fn identities(&self) -> Identities {
        self.identities.clone()
    }

    /// Bytes written so far, before compression.
    pub(in super::super) fn written(&self) -> u64 {
        self.position - self.start
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// Writing failed. A closed pipe ends the process unless SIGPIPE is ignored.
    pub(in super::super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), EarlyEnd> {
        if let Some(held) = self.held.as_mut().filter(|held| held.len() < BLOCK) {
            let part = bytes.len().min(BLOCK - held.len());
            held.extend_from_slice(&bytes[..part]);
            bytes = &bytes[part..];
            self.position += part as u64;
        }
        let written = match &mut self.way {
            Some(Backend::Plain(sink)) => sink.write_all(bytes),
            Some(Backend::Records { sink, size, gathered }) => {
                write_records(sink, *size, gathered, bytes)
            }
            Some(Backend::Program(program)) => program.write_all(bytes),
            Some(Backend::Compressor(compressor)) => compressor.write_all(bytes),
            Some(Backend::Shared(shared)) => {
                self.position += bytes.len() as u64;
                return shared.write(bytes);
            }
            None => Ok(()),
        };
        self.position += bytes.len() as u64;
        written.map_err(|error| self.failed(&error))
    }

    /// Writes `count` zeros.
    ///
    /// # Errors
    /// As [`ArchiveOutput::write`].
    pub(in super::super) fn zeros(&mut self, mut count: u64) -> Result<(), EarlyEnd> {
        while count > 0 {
            let part = count.min(ZEROS.len() as u64);
            self.write(&ZEROS[..part as usize])?;
            count -= part;
        }
        Ok(())
    }

    /// Writes the end marker and fills the last record.
    ///
    /// # Errors
    /// As [`ArchiveOutput::write`].
    pub(in super::super) fn end(&mut self, record: u64) -> Result<(), EarlyEnd> {
        self.zeros(end_of_archive(self.position, (record / 512) as usize))
    }

    /// Waits until everything is written, and with `durable` until it is on the storage.
    ///
    /// # Errors
    /// Writing failed.
    pub(in super::super) fn close(&mut self, durable: bool) -> Result<(), EarlyEnd> {
        let sink = match self.way.take() {
            Some(Backend::Plain(sink)) => Ok(*sink),
            // The end marker fills the last record, so no partial record is written here.
            Some(Backend::Records { mut sink, gathered, .. }) => {
                sink.write_all(&gathered).map(|()| *sink)
            }
            Some(Backend::Program(program)) => program.finish()?,
            Some(Backend::Compressor(compressor)) => compressor.finish().map(|(sink, _)| sink),
            Some(Backend::Shared(mut shared)) => {
                shared.finish()?;
                let (length, hidden) = (self.position, shared.hidden());
                let kept = self.successor.as_mut().map_or(Ok(()), |successor| {
                    if let Some(hidden) = hidden {
                        // An earlier attempt may have written more.
                        successor.cut_off(length)?;
                        successor.was_renamed(hidden);
                    }
                    successor.keep()
                });
                return kept.map_err(|error| self.failed(&error));
            }
            None => return Ok(()),
        };
        let closed = sink.and_then(|mut sink| {
            if durable {
                sink.sync(false)?;
                sync_directory(&self.name)?;
            }
            sink.close()
        });
        let closed = closed.and_then(|()| self.successor.as_mut().map_or(Ok(()), OutputFile::keep));
        closed.map_err(|error| self.failed(&error))
    }

    fn failed(&mut self, error: &io::Error) -> EarlyEnd {
        let errno = errno_of(error);
        if let Some(Backend::Program(program)) =
            self.way.take_if(|way| matches!(way, Backend::Program(_)))
        {
            // The closed pipe is the one to the program. Its exit status or the drain thread has
            // the cause.
            return match program.finish() {
                Err(ended) => ended,
                Ok(Err(why)) => self.failed(&why),
                Ok(Ok(_)) => EarlyEnd::on(&self.name, "write", errno),
            };
        }
        die_of_a_closed_pipe(errno);
        match (
            EarlyEnd::on(&self.name, "write", errno),
            self.successor.as_ref().and_then(|old| old.cure(errno)),
        ) {
            (EarlyEnd::Fatal(message), Some(cure)) => {
                EarlyEnd::Fatal(format!("{message} ({cure})"))
            }
            (ended, _) => ended,
        }
    }

    /// After a signal, removes the incomplete archive. A file that existed before stays.
    pub(super) fn abandon(mut self) {
        drop(self.way.take());
        if let Some(successor) = self.successor.take() {
            successor.discard();
        }
    }
}

/// Starts an encoder in its own threads.
fn compressor<'c, F>(name: &[u8], sink: Sink, encode: F) -> Result<Backend<'c>, EarlyEnd>
where
    F: FnOnce(&mut (dyn Read + Send), &mut (dyn Write + Send)) -> Result<CodecTotals, EncodeError>
        + Send
        + 'static,
{
    let started = Compressor::new(sink, encode);
    Ok(Backend::Compressor(Box::new(
        started.map_err(|error| EarlyEnd::on(name, "start a thread", errno_of(&error)))?,
    )))
}

/// Writes whole records one by one, and keeps the rest in `gathered`.
fn write_records(
    sink: &mut Sink,
    size: usize,
    gathered: &mut Vec<u8>,
    mut bytes: &[u8],
) -> io::Result<()> {
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at(bytes.len().min(size - gathered.len()));
        gathered.extend_from_slice(head);
        bytes = rest;
        if gathered.len() == size {
            sink.write_all(gathered)?;
            gathered.clear();
        }
    }
    Ok(())
}

fn identity_of(sink: &Sink) -> Option<FileId> {
    let stat = fstat(sink.descriptor()).ok()?;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    regular.then_some(FileId::of(&stat))
}

/// Makes the name of a new file durable.
fn sync_directory(name: &[u8]) -> io::Result<()> {
    if name == b"-" {
        return Ok(());
    }
    let path = Path::new(std::ffi::OsStr::from_bytes(name));
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd: OwnedFd = open(dir, flags, Mode::empty())?;
    Ok(synced::fsync(fd)?)
}
