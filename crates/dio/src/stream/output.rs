//! A sink of bytes, whatever it is: a file or device, written directly and behind the producer, or a pipe, terminal or
//! socket, written at once.

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

/// A sink of bytes.
#[derive(Debug)]
pub struct Output {
    name: PathBuf,
    /// The descriptor that was given; of a file, its position follows what was written.
    given: OwnedFd,
    /// It is a file that standard error goes to as well, probably by the same position (`> log 2>&1`): that is kept with
    /// every write, so that neither overwrites the other.
    beside_messages: bool,
    way: Way,
}

#[derive(Debug)]
enum Way {
    File(Box<Writer>),
    Append(Box<Appender>),
    Plain { position: u64, counters: Counters, failed: Option<Errno> },
}

impl Output {
    /// Takes over an open descriptor, at its position. `name` is for messages.
    ///
    /// What is appended to a file (`O_APPEND`) never overwrites what others append to it at the same time. Without that
    /// flag, the position that others share with the descriptor stays behind until [`Output::finish`], so they must not
    /// write before; only for messages of this process on standard error it is kept with every write.
    ///
    /// # Errors
    /// What opening a [`File`] answers; EBADF when it is not open for writing; no memory.
    pub fn adopt(fd: OwnedFd, name: impl AsRef<Path>, how: &StreamOptions) -> io::Result<Output> {
        let (name, how) = (name.as_ref().to_owned(), &how.sound());
        let stat = rustix::fs::fstat(&fd)?;
        if !has_blocks(&stat) {
            pipe::enlarge(&fd, pipe::ENLARGED);
            let way = Way::Plain { position: 0, counters: Counters::default(), failed: None };
            return Ok(Output { name, given: fd, beside_messages: false, way });
        }
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        if flags.intersection(OFlags::RWMODE) == OFlags::RDONLY {
            return Err(Errno::BADF.into());
        }
        let way = match flags.contains(OFlags::APPEND) {
            true => Way::Append(Box::new(appender_of(&fd, &stat, &name, flags, how)?)),
            false => {
                // Asked first: where this description is the only one to be had, asking a device for its size moves it.
                let position = rustix::fs::tell(&fd)?;
                let mut writer = Writer::with_write_behind(file_of(&fd, &name, flags, how)?, how.write_behind())?;
                writer.seek(SeekFrom::Start(position))?;
                Way::File(Box::new(writer))
            }
        };
        let beside_messages = gets_messages(&stat);
        Ok(Output { name, given: fd, beside_messages, way })
    }

    /// The name it was opened by.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The file behind it; `None` for what is written at once.
    pub fn file(&self) -> Option<&Arc<File>> {
        match &self.way {
            Way::File(writer) => Some(writer.file()),
            Way::Append(appender) => Some(appender.file()),
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
            Way::Append(appender) => appender.position(),
            Way::Plain { position, .. } => *position,
        }
    }

    /// Writes a chunk; whole blocks of a file without copying them.
    ///
    /// # Errors
    /// What writing answers, now or for bytes before.
    pub fn write_chunk(&mut self, chunk: Chunk) -> io::Result<()> {
        self.follow()?;
        let written = match &mut self.way {
            Way::File(writer) => writer.write_chunk(chunk),
            Way::Append(_) | Way::Plain { .. } => return self.write_all(&chunk),
        };
        self.lead();
        written
    }

    /// Continues behind messages that have been written since.
    fn follow(&mut self) -> io::Result<()> {
        if let (true, Way::File(writer)) = (self.beside_messages, &mut self.way) {
            writer.seek(SeekFrom::Start(rustix::fs::tell(&self.given)?))?;
        }
        Ok(())
    }

    /// Has messages written behind what was accepted.
    fn lead(&self) {
        if let (true, Way::File(writer)) = (self.beside_messages, &self.way) {
            let _ = rustix::fs::seek(&self.given, rustix::fs::SeekFrom::Start(writer.position()));
        }
    }

    /// Continues at another place of a file.
    ///
    /// # Errors
    /// ESPIPE for what is written at once or appended; what writing before it answers.
    pub fn seek(&mut self, offset: u64) -> io::Result<()> {
        match &mut self.way {
            Way::File(writer) => writer.seek(SeekFrom::Start(offset))?,
            Way::Append(_) | Way::Plain { .. } => return Err(Errno::SPIPE.into()),
        };
        self.lead();
        Ok(())
    }

    /// Makes what was written durable; nothing to do where there is no storage.
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

    /// Waits for everything written, and moves the position of the descriptor that was given behind it, for those who
    /// share it.
    ///
    /// # Errors
    /// The first error of writing.
    pub fn finish(&mut self) -> io::Result<()> {
        // Messages after the last bytes stay in front of where others continue.
        let followed = self.follow();
        let finished = match &mut self.way {
            Way::File(writer) => followed.and(writer.finish()),
            Way::Append(appender) => appender.finish(),
            Way::Plain { .. } => return Ok(()),
        };
        let mut end = self.position();
        if finished.is_err() {
            // Not behind bytes that never arrived, where others would leave a hole.
            end = self.file().and_then(|file| file.size().ok()).map_or(end, |size| end.min(size));
        }
        let _ = rustix::fs::seek(&self.given, rustix::fs::SeekFrom::Start(end));
        finished
    }

    /// What was written, and how.
    pub fn counters(&self) -> Counters {
        match &self.way {
            Way::File(writer) => writer.file().counters(),
            Way::Append(appender) => appender.counters(),
            Way::Plain { counters, .. } => *counters,
        }
    }

    /// Bytes of buffers.
    pub fn buffer_bytes(&self) -> usize {
        match &self.way {
            Way::File(writer) => writer.buffer_bytes(),
            Way::Append(appender) => appender.buffer_bytes(),
            Way::Plain { .. } => 0,
        }
    }
}

/// Whether standard error goes to a file too.
fn gets_messages(stat: &Stat) -> bool {
    let same = |other: Stat| (other.st_dev, other.st_ino) == (stat.st_dev, stat.st_ino);
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && rustix::fs::fstat(io::stderr()).is_ok_and(same)
}

/// The file behind a descriptor, opened as it must be to be written under `how`.
fn file_of(fd: &OwnedFd, name: &Path, flags: OFlags, how: &StreamOptions) -> io::Result<File> {
    // A descriptor that can be read, too, can drop its pages on every kernel.
    let both = reopen(fd.as_fd(), OFlags::RDWR | flags & SYNC);
    let readable = both.is_some() || flags.intersection(OFlags::RWMODE) == OFlags::RDWR;
    let own = both.or_else(|| reopen(fd.as_fd(), OFlags::WRONLY | flags & SYNC));
    let mode = if readable { how.mode } else { unless_required(how)? };
    let mut options = how.open_options()?;
    options.read(readable).write(true).mode(mode).need(how.need).sync_method(sync_method(flags));
    Ok(options.adopt(own.map_or_else(|| duplicate(fd), Ok)?, name)?)
}

/// The same for appending.
fn appender_of(fd: &OwnedFd, stat: &Stat, name: &Path, flags: OFlags, how: &StreamOptions) -> io::Result<Appender> {
    let keep = OFlags::WRONLY | OFlags::APPEND | flags & SYNC;
    let geometry = Geometry::of(fd.as_fd()).map_err(io::Error::other)?;
    let apart = geometry.file_system().is_some_and(FileSystem::keeps_direct_appends_apart);
    let safe = apart && geometry.directness() == Directness::Reported;
    let wanted = how.mode.wants_direct() && safe;
    // The bytes of a striped file are appended by offset, under a lock.
    let striped = crate::stripe::descriptor_of(fd, stat, name)?.is_some();
    let direct = if wanted && !striped { reopen(fd.as_fd(), keep | OFlags::DIRECT) } else { None };
    let mode = match how.mode {
        Mode::Cached => Mode::Cached,
        mode if striped => mode,
        mode if mode.wants_direct() && direct.is_none() => unless_required(how)?,
        _ => Mode::Uncached,
    };
    let own = reopen(fd.as_fd(), keep).map_or_else(|| duplicate(fd), Ok)?;
    let file = how.open_options()?.write(true).mode(mode).sync_method(sync_method(flags)).adopt(own, name)?;
    Appender::new(file, direct, geometry.offset_align(), how.block)
}

/// The mode for what cannot be direct, if that is allowed.
fn unless_required(how: &StreamOptions) -> io::Result<Mode> {
    match how.mode {
        Mode::Cached => Ok(Mode::Cached),
        mode if mode.wants_direct() && how.need == Need::Required => Err(Errno::OPNOTSUPP.into()),
        _ => Ok(Mode::Uncached),
    }
}

/// Flags by which every write is synced.
const SYNC: OFlags = OFlags::SYNC.union(OFlags::DSYNC);

fn sync_method(flags: OFlags) -> SyncMethod {
    match () {
        () if flags.contains(OFlags::SYNC) => SyncMethod::Sync,
        () if flags.contains(OFlags::DSYNC) => SyncMethod::Dsync,
        () => SyncMethod::Explicit,
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.follow()?;
        let written = match &mut self.way {
            Way::File(writer) => writer.write(bytes),
            Way::Append(appender) => appender.write(bytes),
            Way::Plain { position, counters, failed } => {
                if let Some(errno) = failed {
                    return Err((*errno).into());
                }
                let count =
                    pipe::write(&self.given, bytes).inspect_err(|error| *failed = Errno::from_io_error(error))?;
                *position += count as u64;
                counters.write_requests += 1;
                counters.written.add(Class::Piped, count as u64);
                Ok(count)
            }
        };
        self.lead();
        written
    }

    /// Waits until everything written so far is in the file.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.way {
            Way::File(writer) => writer.flush(),
            Way::Append(appender) => Write::flush(appender),
            Way::Plain { .. } => Ok(()),
        }
    }
}
