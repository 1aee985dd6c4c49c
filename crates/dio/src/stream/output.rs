//! A sink of bytes, whatever it is: a file or device, written directly and behind the producer, or a pipe, terminal or
//! socket, written at once.

use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::chunk::Chunk;
use super::options::{StreamOptions, duplicate, has_blocks, reopen};
use super::{Writer, plain};
use crate::file::{Class, Counters, File, Mode, Need, OpenOptions, SyncMethod};

/// A sink of bytes.
#[derive(Debug)]
pub struct Output {
    name: PathBuf,
    /// The descriptor that was given; of a file, its position follows what was written.
    given: OwnedFd,
    way: Way,
}

#[derive(Debug)]
enum Way {
    File(Box<Writer>),
    Plain { position: u64, counters: Counters, failed: Option<Errno> },
}

impl Output {
    /// Takes over an open descriptor, at its position. `name` is for messages.
    ///
    /// A file opened for appending is written through the page cache, which forgets it: only the kernel knows where its
    /// end is at the moment of each write.
    ///
    /// # Errors
    /// What opening a [`File`] answers; EOPNOTSUPP for appending where direct I/O is required; no memory.
    pub fn adopt(fd: OwnedFd, name: impl AsRef<Path>, how: &StreamOptions) -> io::Result<Output> {
        let name = name.as_ref().to_owned();
        let stat = rustix::fs::fstat(&fd)?;
        if !has_blocks(&stat) {
            plain::enlarge(fd.as_fd());
            let way = Way::Plain { position: 0, counters: Counters::default(), failed: None };
            return Ok(Output { name, given: fd, way });
        }
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        if flags.intersection(OFlags::RWMODE) == OFlags::RDONLY {
            return Err(Errno::BADF.into());
        }
        let file = file_of(&fd, &name, flags, how)?;
        let position = if flags.contains(OFlags::APPEND) { file.size()? } else { rustix::fs::tell(&fd)? };
        let mut writer = Writer::with_write_behind(file, how.write_behind())?;
        writer.seek(SeekFrom::Start(position))?;
        Ok(Output { name, given: fd, way: Way::File(Box::new(writer)) })
    }

    /// The name it was opened by.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The file behind it; `None` for what is written at once.
    pub fn file(&self) -> Option<&Arc<File>> {
        match &self.way {
            Way::File(writer) => Some(writer.file()),
            Way::Plain { .. } => None,
        }
    }

    /// The descriptor, to ask about what is behind it.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.given.as_fd()
    }

    /// Where in the file the next byte goes; of what is written at once, the bytes written.
    pub fn position(&self) -> u64 {
        match &self.way {
            Way::File(writer) => writer.position(),
            Way::Plain { position, .. } => *position,
        }
    }

    /// Writes a chunk; whole blocks of a file without copying them.
    ///
    /// # Errors
    /// What writing answers, now or for bytes before.
    pub fn write_chunk(&mut self, chunk: Chunk) -> io::Result<()> {
        match &mut self.way {
            Way::File(writer) => writer.write_chunk(chunk),
            Way::Plain { .. } => self.write_all(&chunk),
        }
    }

    /// Continues at another place of a file.
    ///
    /// # Errors
    /// ESPIPE for what is written at once; what writing before it answers.
    pub fn seek(&mut self, offset: u64) -> io::Result<()> {
        match &mut self.way {
            Way::File(writer) => writer.seek(SeekFrom::Start(offset)).map(drop),
            Way::Plain { .. } => Err(Errno::SPIPE.into()),
        }
    }

    /// Reserves space for the next `bytes` of a file.
    ///
    /// # Errors
    /// ENOSPC.
    pub fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        match &mut self.way {
            Way::File(writer) => writer.reserve(bytes),
            Way::Plain { .. } => Ok(()),
        }
    }

    /// Makes what was written durable; nothing to do where there is no storage.
    ///
    /// # Errors
    /// The first error of writing or syncing.
    pub fn sync(&mut self, data_only: bool) -> io::Result<()> {
        self.flush()?;
        match &self.way {
            Way::File(writer) if data_only => Ok(writer.file().sync_data()?),
            Way::File(writer) => Ok(writer.file().sync_all()?),
            Way::Plain { .. } => Ok(()),
        }
    }

    /// Waits for everything written, and moves the position of the descriptor that was given behind it, for those who
    /// share it.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(&mut self) -> io::Result<()> {
        let Way::File(writer) = &mut self.way else { return Ok(()) };
        let finished = writer.finish();
        let _ = rustix::fs::seek(&self.given, rustix::fs::SeekFrom::Start(writer.position()));
        finished
    }

    /// What was written, and how.
    pub fn counters(&self) -> Counters {
        match &self.way {
            Way::File(writer) => writer.file().counters(),
            Way::Plain { counters, .. } => *counters,
        }
    }

    /// Bytes of buffers.
    pub fn buffer_bytes(&self) -> usize {
        match &self.way {
            Way::File(writer) => writer.buffer_bytes(),
            Way::Plain { .. } => 0,
        }
    }
}

/// The file behind a descriptor, opened as it must be to be written under `how`.
fn file_of(fd: &OwnedFd, name: &Path, flags: OFlags, how: &StreamOptions) -> io::Result<File> {
    let append = flags.contains(OFlags::APPEND);
    let sync = match () {
        () if flags.contains(OFlags::SYNC) => SyncMethod::Sync,
        () if flags.contains(OFlags::DSYNC) => SyncMethod::Dsync,
        () => SyncMethod::Explicit,
    };
    let keep = flags & (OFlags::APPEND | OFlags::SYNC | OFlags::DSYNC);
    // Blocks that are written in part have to be read.
    let both = if append { None } else { reopen(fd.as_fd(), OFlags::RDWR | keep) };
    let patchable = both.is_some() || flags.intersection(OFlags::RWMODE) == OFlags::RDWR;
    let own = match both.or_else(|| reopen(fd.as_fd(), OFlags::WRONLY | keep)) {
        Some(own) => own,
        None => duplicate(fd)?,
    };
    let mut options = OpenOptions::new();
    options.read(patchable).write(true).need(how.need).sync_method(sync);
    match how.mode {
        Mode::Direct | Mode::Concurrent if append || !patchable => {
            if how.need == Need::Required {
                return Err(Errno::OPNOTSUPP.into());
            }
            options.mode(Mode::Uncached);
        }
        mode => {
            options.mode(mode);
        }
    }
    Ok(options.adopt(own, name)?)
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.way {
            Way::File(writer) => writer.write(bytes),
            Way::Plain { position, counters, failed } => {
                if let Some(errno) = failed {
                    return Err((*errno).into());
                }
                let count = plain::write(self.given.as_fd(), bytes).inspect_err(|errno| *failed = Some(*errno))?;
                *position += count as u64;
                counters.write_requests += 1;
                counters.written.add(Class::Piped, count as u64);
                Ok(count)
            }
        }
    }

    /// Waits until everything written so far is in the file.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::File(writer) => writer.flush(),
            Way::Plain { .. } => Ok(()),
        }
    }
}
