//! A sink of bytes of any kind: a file or device, written directly and behind the producer, or a
//! pipe, terminal or socket, written at once.

use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use super::append::Appender;
use super::chunk::Chunk;
use super::options::{StreamOptions, duplicate, has_blocks, reopen};
use super::{Writer, pipe};
use crate::file::{Class, Counters, File, Mode, Need, SyncMethod};
use crate::geometry::{Directness, FileSystem, Geometry};
use crate::stripe::{LeaseWait, descriptor_of};

/// A sink of bytes of any kind: a file, a device, a pipe, a terminal or a socket.
#[derive(Debug)]
pub struct Output {
    name: PathBuf,
    /// The given descriptor. For a file, its position follows what was written.
    given: OwnedFd,
    /// Standard error goes to the same file, probably by the same position (`> log 2>&1`). The
    /// position is then updated with every write, so that neither overwrites the other.
    shares_stderr: bool,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    File(Box<Writer>),
    Append(Box<Appender>),
    Plain { position: u64, counters: Counters, failed: Option<Errno> },
}

impl Output {
    /// Takes over an open descriptor, at its position. `name` is for messages.
    ///
    /// Bytes appended to a file (`O_APPEND`) never overwrite what others append to it at the same
    /// time. Without that flag, the shared position of the descriptor is updated only by
    /// [`Output::finish`], so others must not write before. Only for messages of this process on
    /// standard error is it updated with every write.
    ///
    /// # Errors
    /// What opening a [`File`] answers; EBADF when it is not open for writing; no memory.
    pub fn adopt(
        fd: OwnedFd,
        name: impl AsRef<Path>,
        options: &StreamOptions,
    ) -> io::Result<Output> {
        let (name, options) = (name.as_ref().to_owned(), &options.clamped());
        let stat = rustix::fs::fstat(&fd)?;
        if !has_blocks(&stat) {
            pipe::enlarge(&fd, pipe::CAPACITY_WANTED_BYTES);
            let sink = Sink::Plain { position: 0, counters: Counters::default(), failed: None };
            return Ok(Output { name, given: fd, shares_stderr: false, sink });
        }
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        if flags.intersection(OFlags::RWMODE) == OFlags::RDONLY {
            return Err(Errno::BADF.into());
        }
        let sink = match flags.contains(OFlags::APPEND) {
            true => Sink::Append(Box::new(appender_of(&fd, &stat, &name, flags, options)?)),
            false => {
                // Asked first: if no other open file description can be had, asking a device for
                // its size moves this position.
                let position = rustix::fs::tell(&fd)?;
                let mut writer = Writer::with_write_behind(
                    file_of(&fd, &name, flags, options)?,
                    options.write_behind(),
                )?;
                writer.seek(SeekFrom::Start(position))?;
                Sink::File(Box::new(writer))
            }
        };
        let shares_stderr = is_stderr_file(&stat);
        Ok(Output { name, given: fd, shares_stderr, sink })
    }

    /// The name given for messages.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The file behind it; `None` for a sink that is not a file.
    pub fn file(&self) -> Option<&Arc<File>> {
        match &self.sink {
            Sink::File(writer) => Some(writer.file()),
            Sink::Append(appender) => Some(appender.file()),
            Sink::Plain { .. } => None,
        }
    }

    /// The descriptor, for questions about what is behind it.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.given.as_fd()
    }

    /// Offset of the next byte in the file. For other sinks, the number of bytes written.
    pub fn position(&self) -> u64 {
        match &self.sink {
            Sink::File(writer) => writer.position(),
            Sink::Append(appender) => appender.position(),
            Sink::Plain { position, .. } => *position,
        }
    }

    /// Writes a chunk. Whole blocks of a file are not copied.
    ///
    /// # Errors
    /// What writing answers, now or for earlier bytes.
    pub fn write_chunk(&mut self, chunk: Chunk) -> io::Result<()> {
        self.take_position()?;
        let written = match &mut self.sink {
            Sink::File(writer) => writer.write_chunk(chunk),
            Sink::Append(_) | Sink::Plain { .. } => return self.write_all(&chunk),
        };
        self.give_position();
        written
    }

    /// Continues behind messages that have been written since.
    fn take_position(&mut self) -> io::Result<()> {
        if let (true, Sink::File(writer)) = (self.shares_stderr, &mut self.sink) {
            writer.seek(SeekFrom::Start(rustix::fs::tell(&self.given)?))?;
        }
        Ok(())
    }

    /// Lets messages continue behind the accepted bytes.
    fn give_position(&self) {
        if let (true, Sink::File(writer)) = (self.shares_stderr, &self.sink) {
            let _ = rustix::fs::seek(&self.given, rustix::fs::SeekFrom::Start(writer.position()));
        }
    }

    /// Continues at another offset of a file.
    ///
    /// # Errors
    /// ESPIPE for a sink that is not a file or is appended to; what earlier writes answer.
    pub fn seek(&mut self, offset: u64) -> io::Result<()> {
        match &mut self.sink {
            Sink::File(writer) => writer.seek(SeekFrom::Start(offset))?,
            Sink::Append(_) | Sink::Plain { .. } => return Err(Errno::SPIPE.into()),
        };
        self.give_position();
        Ok(())
    }

    /// Makes the written bytes durable. Does nothing for a sink without storage.
    ///
    /// # Errors
    /// The first error of writing or syncing.
    pub fn sync(&mut self, data_only: bool) -> io::Result<()> {
        self.flush()?;
        match self.file() {
            Some(file) if data_only => Ok(file.sync_data()?),
            Some(file) => Ok(file.sync_all()?),
            None => Ok(()),
        }
    }

    /// Waits for everything written, and moves the position of the given descriptor behind it, for
    /// those who share the descriptor.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(&mut self) -> io::Result<()> {
        // Messages behind the last bytes stay before the position at which others continue.
        let followed = self.take_position();
        let finished = match &mut self.sink {
            Sink::File(writer) => followed.and(writer.finish()),
            Sink::Append(appender) => appender.finish(),
            Sink::Plain { .. } => return Ok(()),
        };
        let mut end = self.position();
        if finished.is_err() {
            // The position must not lie behind bytes that never arrived, where others would leave a
            // hole.
            end = self.file().and_then(|file| file.size().ok()).map_or(end, |size| end.min(size));
        }
        let _ = rustix::fs::seek(&self.given, rustix::fs::SeekFrom::Start(end));
        finished
    }

    /// The bytes written, by class.
    pub fn counters(&self) -> Counters {
        match &self.sink {
            Sink::File(writer) => writer.file().counters(),
            Sink::Append(appender) => appender.counters(),
            Sink::Plain { counters, .. } => *counters,
        }
    }

    /// Bytes of memory for buffers.
    pub fn buffer_bytes(&self) -> usize {
        match &self.sink {
            Sink::File(writer) => writer.buffer_bytes(),
            Sink::Append(appender) => appender.buffer_bytes(),
            Sink::Plain { .. } => 0,
        }
    }
}

/// Whether standard error goes to this file too.
fn is_stderr_file(stat: &Stat) -> bool {
    let same = |other: Stat| (other.st_dev, other.st_ino) == (stat.st_dev, stat.st_ino);
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && rustix::fs::fstat(io::stderr()).is_ok_and(same)
}

/// Opens the file behind a descriptor for writing under `options`.
fn file_of(fd: &OwnedFd, name: &Path, flags: OFlags, options: &StreamOptions) -> io::Result<File> {
    // A descriptor that can also be read can drop its pages on every kernel.
    let both = reopen(fd.as_fd(), OFlags::RDWR | flags & SYNC_FLAGS);
    let readable = both.is_some() || flags.intersection(OFlags::RWMODE) == OFlags::RDWR;
    let own = both.or_else(|| reopen(fd.as_fd(), OFlags::WRONLY | flags & SYNC_FLAGS));
    let mode = if readable { options.mode } else { unless_required(options)? };
    let mut open_options = options.open_options()?;
    open_options
        .read(readable)
        .write(true)
        .mode(mode)
        .need(options.need)
        .sync_method(sync_method(flags));
    Ok(open_options.adopt(own.map_or_else(|| duplicate(fd), Ok)?, name)?)
}

/// As [`file_of`], for appending.
fn appender_of(
    fd: &OwnedFd,
    stat: &Stat,
    name: &Path,
    flags: OFlags,
    options: &StreamOptions,
) -> io::Result<Appender> {
    let keep = OFlags::WRONLY | OFlags::APPEND | flags & SYNC_FLAGS;
    let geometry = Geometry::of(fd.as_fd()).map_err(io::Error::other)?;
    let apart = geometry.file_system().is_some_and(FileSystem::keeps_direct_appends_apart);
    let safe = apart && geometry.directness() == Directness::Reported;
    let wanted = options.mode.wants_direct() && safe;
    // The bytes of a striped file are appended by offset, under a lock.
    let striped = descriptor_of(fd, stat, name, LeaseWait::AsOpen)?.is_some();
    let direct = if wanted && !striped { reopen(fd.as_fd(), keep | OFlags::DIRECT) } else { None };
    let mode = match options.mode {
        Mode::Cached => Mode::Cached,
        mode if striped => mode,
        mode if mode.wants_direct() && direct.is_none() => unless_required(options)?,
        _ => Mode::Uncached,
    };
    let own = reopen(fd.as_fd(), keep).map_or_else(|| duplicate(fd), Ok)?;
    let file = options
        .open_options()?
        .write(true)
        .mode(mode)
        .sync_method(sync_method(flags))
        .adopt(own, name)?;
    Appender::new(file, direct, geometry.offset_align(), options.block)
}

/// The mode for a file that cannot be direct, if that is allowed.
fn unless_required(options: &StreamOptions) -> io::Result<Mode> {
    match options.mode {
        Mode::Cached => Ok(Mode::Cached),
        mode if mode.wants_direct() && options.need == Need::Required => {
            Err(Errno::OPNOTSUPP.into())
        }
        _ => Ok(Mode::Uncached),
    }
}

/// The flags that sync every write.
const SYNC_FLAGS: OFlags = OFlags::SYNC.union(OFlags::DSYNC);

fn sync_method(flags: OFlags) -> SyncMethod {
    match () {
        () if flags.contains(OFlags::SYNC) => SyncMethod::Sync,
        () if flags.contains(OFlags::DSYNC) => SyncMethod::Dsync,
        () => SyncMethod::Explicit,
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take_position()?;
        let written = match &mut self.sink {
            Sink::File(writer) => writer.write(bytes),
            Sink::Append(appender) => appender.write(bytes),
            Sink::Plain { position, counters, failed } => {
                if let Some(errno) = failed {
                    return Err((*errno).into());
                }
                let count = pipe::write(&self.given, bytes)
                    .inspect_err(|error| *failed = Errno::from_io_error(error))?;
                *position += count as u64;
                counters.write_requests += 1;
                counters.written.add(Class::Piped, count as u64);
                Ok(count)
            }
        };
        self.give_position();
        written
    }

    /// Waits until everything written so far is in the file.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::File(writer) => writer.flush(),
            Sink::Append(appender) => Write::flush(appender),
            Sink::Plain { .. } => Ok(()),
        }
    }
}
