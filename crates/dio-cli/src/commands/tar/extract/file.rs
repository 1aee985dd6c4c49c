//! Writes regular files: the crew writes each small one at once; large ones are streams, written
//! while the archive is read.

use std::ffi::CString;
use std::io::{self, Write};
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use dio::file::{Class, Counters, Reason};
use dio::names::{self, FileId, resident_pages};
use dio::{Mode, OpenOptions};
use dio_sys::uninterrupted;
use rustix::fs::{FallocateFlags, Timespec, fallocate, fstat};
use rustix::io::Errno;

use super::super::format::{Archive, Entries, FormatError};
use super::super::run::TarRun;
use super::super::warnings::Warning;
use super::messages::MemberMessages;
use super::meta::{Meta, Object};
use super::names::Clean;
use super::new_file::{CreateConditions, DirectorySet, NewFile, Refusal};
use super::noted::ExtractNotes;
use super::plain::{LargeDestination, Plain, put_all};
use super::root::{Dir, Root};
use super::settings::ExtractSettings;
use super::storage::Storage;
use crate::receipt::{FileLine, Role};
use crate::stop::Stop;
use crate::tool::evict::drop_written;
use crate::tool::{Sink, errno_of};

/// Files with more bytes than this are written as streams.
pub(super) const HELD: u64 = 2 << 20;

/// The data by which a job is removed from the crew's lists: its path, its parent directory, its
/// bytes.
pub(super) type Outline = (Vec<u8>, Vec<u8>, usize);

/// A file, identified by its directory and its name there, and the data for the lists of the crew.
pub(super) type Finished = ((FileId, CString), Outline);

/// Alignment of buffers in memory, sufficient for direct I/O to every device.
const ALIGNMENT: usize = 4096;

/// Bytes of space to allocate in advance when the length of the rest of the archive is unknown.
const AHEAD: u64 = 64 << 20;

/// The state that writing shares among all files.
#[derive(Debug)]
pub(super) struct Context<'r> {
    pub(super) run: &'r TarRun,
    pub(super) how: ExtractSettings,
    pub(super) storage: Arc<Storage>,
    /// The notes of what is extracted, if several processes keep some.
    pub(super) noted: Option<ExtractNotes>,
    /// As in [`CreateConditions`].
    pub(super) gone: DirectorySet,
    /// As in [`CreateConditions`].
    pub(super) steered: DirectorySet,
}

impl Context<'_> {
    /// The conditions for creating a member with this modification time; `long` as in
    /// [`CreateConditions`].
    pub(super) fn wanted(&self, mtime: Timespec, long: bool) -> CreateConditions<'_> {
        let ExtractSettings { old, follows, .. } = self.how;
        CreateConditions { old, mtime, long, gone: &self.gone, steered: &self.steered, follows }
    }

    /// Notes a complete file of the data at `start`, unless something has failed.
    pub(super) fn note(&self, start: u64, (made, has_failed): (Option<OwnedFd>, bool)) {
        if let (Some(noted), Some(file), false) = (&self.noted, made, has_failed)
            && names::fsync(&file).is_ok()
        {
            noted.extracted(start, &file);
        }
    }
}

/// A file to write.
#[derive(Debug)]
pub(super) struct ExtractJob {
    /// The name for messages.
    pub(super) shown: Vec<u8>,
    pub(super) root: Arc<Root>,
    pub(super) path: Clean,
    pub(super) dir: Arc<Dir>,
    pub(super) name: CString,
    pub(super) meta: Meta,
    pub(super) mtime: Timespec,
    pub(super) size: u64,
    /// The extents of the data, unless the data is contiguous from offset 0.
    pub(super) sparse: Option<Vec<(u64, u64)>>,
    /// The data, unless the file is written as a stream.
    pub(super) body: Body,
}

/// A buffer that is aligned for direct I/O.
#[derive(Debug, Default)]
pub(super) struct Body {
    memory: Vec<u8>,
    start: usize,
}

impl Body {
    /// Creates a buffer of `length` zeros.
    pub(super) fn new(length: usize) -> Body {
        if length == 0 {
            return Body::default();
        }
        let mut memory = Vec::<u8>::with_capacity(length + ALIGNMENT);
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        memory.resize(start + length, 0);
        Body { memory, start }
    }

    /// Keeps only the first `length` bytes.
    fn truncate(&mut self, length: usize) {
        self.memory.truncate(self.start + length);
    }
}

impl Deref for Body {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..]
    }
}

impl DerefMut for Body {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..]
    }
}

/// The reason for which writing a stream ended early.
#[derive(Debug)]
pub(super) enum MemberError {
    /// Reading the archive failed.
    Archive(FormatError),
    /// A signal requests the end.
    Stopped,
}

impl ExtractJob {
    /// The path of the directory that contains the file.
    pub(super) fn parent(&self) -> &[u8] {
        self.path.split().map_or(&[], |(parent, _)| parent)
    }

    /// Bytes of memory that the job uses. Names, maps and attributes count too: they may be larger
    /// than the data.
    pub(super) fn bytes(&self) -> usize {
        let map = self.sparse.as_ref().map_or(0, |map| map.len() * size_of::<(u64, u64)>());
        let attributes: usize =
            self.meta.xattrs.iter().map(|(name, value)| name.count_bytes() + value.len()).sum();
        self.body.len() + map + attributes + self.shown.len() + 3 * self.path.0.len()
    }

    /// The data by which the crew removes the job from its lists.
    pub(super) fn outline(&self) -> Outline {
        (self.path.0.clone(), self.parent().to_vec(), self.bytes())
    }

    pub(super) fn words<'a>(&'a self, context: &'a Context<'_>) -> MemberMessages<'a> {
        MemberMessages { run: context.run, name: &self.shown }
    }

    pub(super) fn place(
        &self,
        context: &Context<'_>,
        words: &MemberMessages<'_>,
        long: bool,
    ) -> Option<NewFile> {
        let way = (&*self.root, &self.path.0[..]);
        NewFile::make(&self.dir, &self.name, context.wanted(self.mtime, long), way)
            .map_err(|refusal| tell(refusal, words, "open"))
            .ok()
    }

    /// Extracts the file; its data is the rest of the entry. Returns it if it is complete, and will
    /// be durable after a sync of the storage.
    pub(super) fn extract<A: Archive>(
        mut self,
        context: &Context<'_>,
        entries: &mut Entries<A>,
        remaining: Option<u64>,
        stop: &Stop,
    ) -> Result<Option<OwnedFd>, MemberError> {
        if entries.stored_left() > HELD {
            return self.stream(context, entries, remaining, stop);
        }
        match self.fill(entries) {
            Ok(()) => Ok(self.write(context)),
            Err((filled, error)) => {
                self.write_beginning(context, filled);
                Err(MemberError::Archive(error))
            }
        }
    }

    /// Reads the data of a small file. An error comes with the number of bytes that were read.
    pub(super) fn fill<A: Archive>(
        &mut self,
        entries: &mut Entries<A>,
    ) -> Result<(), (usize, FormatError)> {
        self.body = Body::new(usize::try_from(entries.stored_left()).unwrap_or(usize::MAX));
        let mut filled = 0;
        while filled < self.body.len() {
            filled +=
                entries.read_stored(&mut self.body[filled..]).map_err(|error| (filled, error))?;
        }
        Ok(())
    }

    /// Writes a file whose data is in memory. Errors are reported. Returns what
    /// [`ExtractJob::finish`] does.
    pub(super) fn write(self, context: &Context<'_>) -> Option<OwnedFd> {
        let words = self.words(context);
        let place = self.place(context, &words, false)?;
        match self.put(context, &place) {
            Ok(counters) => self.finish(context, &words, place, Some(&counters)),
            Err(errno) => {
                words.cannot("write", errno);
                None
            }
        }
    }

    /// Writes a file of which the archive contains only the first `count` bytes: this may be the
    /// only copy left. Its mode and time are not set, which shows that it is incomplete.
    pub(super) fn write_beginning(mut self, context: &Context<'_>, count: usize) {
        self.body.truncate(count);
        if let Some(extents) = &mut self.sparse {
            let mut left = count as u64;
            for (_, length) in extents {
                *length = left.min(*length);
                left -= *length;
            }
        }
        let words = self.words(context);
        let Some(place) = self.place(context, &words, false) else { return };
        match self.put(context, &place) {
            Ok(_) => drop(place.keep()),
            Err(errno) => words.cannot("write", errno),
        }
    }

    /// Sets the attributes of a complete file, and gives it its name. Errors are reported. Returns
    /// it, unless it is striped or it may not become durable.
    pub(super) fn finish(
        &self,
        context: &Context<'_>,
        words: &MemberMessages<'_>,
        place: NewFile,
        counters: Option<&Counters>,
    ) -> Option<OwnedFd> {
        let striped = place.striped;
        let before = if striped { fstat(&place.fd).ok() } else { None };
        self.meta.apply(Object::Open(place.fd.as_fd()), false, words);
        if let Some(before) = before {
            // The new attributes must also be set on the objects of the striped file. They are on
            // file systems that nothing else syncs.
            let settled = names::pass_on_attributes(&place.fd, &before)
                .and_then(|()| names::fsync(&place.fd));
            if let Err(errno) = settled {
                words.cannot("write", errno);
            }
        }
        let fd = match place.keep() {
            Ok(fd) => fd,
            Err(errno) => {
                words.cannot("open", errno);
                return None;
            }
        };
        let (device, follows) = (self.dir.id.device(), context.how.follows);
        let is_covered = !follows && context.storage.has_syncfs(device, fd.as_fd());
        let is_synced = is_covered || self.sync_now(context, fd.as_fd(), words);
        if !follows {
            context.storage.note(device, fd.as_fd(), &self.root, &self.path);
        }
        if let Some(counters) = counters {
            self.forget(context, fd.as_fd(), counters);
            self.account(context, fd.as_fd(), counters);
        }
        (is_synced && !striped).then_some(fd)
    }

    /// Makes the file durable now, or at least has a server take it: its path may lead through a
    /// link, so that it could not be looked up again at the end, or no sync at the end covers it.
    /// Returns whether it is durable.
    fn sync_now(
        &self,
        context: &Context<'_>,
        fd: BorrowedFd<'_>,
        words: &MemberMessages<'_>,
    ) -> bool {
        let is_cached = context.run.tool.stream_options().mode == Mode::Cached;
        let is_synced = !is_cached || context.noted.is_some();
        let done = if is_synced { names::fsync(fd) } else { dio_sys::flush(fd) };
        if let Err(errno) = done {
            words.cannot("write", errno);
        }
        is_synced && done.is_ok()
    }

    /// Drops the cached pages of a small file: after the next sync if the file can be reopened by
    /// its path, otherwise at once.
    fn forget(&self, context: &Context<'_>, fd: BorrowedFd<'_>, counters: &Counters) {
        let plain = counters.written.get(Class::Uncached);
        if plain == 0 || counters.reasons[Reason::Small as usize] == 0 {
            return;
        }
        if !context.how.follows && (context.how.superuser || self.meta.mode & 0o400 != 0) {
            context.storage.wait_for_sync(fd, &self.root, &self.path, plain);
        } else {
            // The file could not be reopened by its path later.
            drop_written(fd);
        }
    }

    fn put(&self, context: &Context<'_>, place: &NewFile) -> Result<Counters, Errno> {
        let options = context.run.tool.stream_options();
        let plain = !place.striped
            && (options.mode == Mode::Cached || self.body.len() as u64 <= options.small);
        let whole = [(0, self.body.len() as u64)];
        let extents = self.sparse.as_deref().unwrap_or(&whole);
        if self.sparse.is_some() {
            names::ftruncate(&place.fd, self.size)?;
        }
        if !plain && !self.body.is_empty() {
            match self.put_directly(context, place, extents) {
                // There are too few descriptors for a second one.
                Err(Errno::MFILE) if !place.striped => {}
                other => return other,
            }
        }
        let (mut from, mut counters) = (0, Counters::default());
        for &(offset, length) in extents {
            let bytes = &self.body[from..from + length as usize];
            put_all(&place.fd, bytes, offset, &mut counters.write_requests)?;
            from += bytes.len();
        }
        let cached = options.mode == Mode::Cached;
        counters.written.add(if cached { Class::Cached } else { Class::Uncached }, from as u64);
        if !cached {
            counters.reasons[Reason::Small as usize] = from as u64;
        }
        Ok(counters)
    }

    fn put_directly(
        &self,
        context: &Context<'_>,
        place: &NewFile,
        extents: &[(u64, u64)],
    ) -> Result<Counters, Errno> {
        let options = context.run.tool.stream_options();
        context.run.tool.ledger().count_buffers(self.body.len() as u64);
        let own = rustix::io::fcntl_dupfd_cloexec(&place.fd, 3)?;
        let shown = Path::new(std::ffi::OsStr::from_bytes(&self.shown));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .mode(options.mode)
            .need(options.need)
            .adopt(own, shown);
        let written = file.and_then(|file| {
            let mut from = 0;
            for &(offset, length) in extents {
                file.write_at(&self.body[from..from + length as usize], offset)?;
                from += length as usize;
            }
            file.settle()?;
            Ok(file.counters())
        });
        context.run.tool.ledger().release_buffers(self.body.len() as u64);
        written.map_err(|error| error.errno())
    }

    /// Adds the file to the statistics of the run.
    fn account(&self, context: &Context<'_>, fd: BorrowedFd<'_>, counters: &Counters) {
        context.run.tool.ledger().count(counters);
        context.run.tool.ledger().list(|| FileLine {
            pages_before: Some(0),
            pages_after: resident_pages(fd).ok(),
            ..FileLine::of(
                Path::new(std::ffi::OsStr::from_bytes(&self.shown)),
                Role::Target,
                counters,
            )
        });
    }

    /// Writes a file as a stream; its data is the rest of the entry. Errors of the file are
    /// reported; the rest of the entry may then be skipped. Returns what [`ExtractJob::finish`]
    /// does.
    pub(super) fn stream<A: Archive>(
        &self,
        context: &Context<'_>,
        entries: &mut Entries<A>,
        remaining: Option<u64>,
        stop: &Stop,
    ) -> Result<Option<OwnedFd>, MemberError> {
        let words = self.words(context);
        let Some(place) = self.place(context, &words, true) else { return Ok(None) };
        let (moved, end) = match self.open_sink(context, &place, entries.stored_left(), remaining) {
            Ok(mut sink) => {
                let moved = self.pour(context, entries, &mut sink, stop);
                let end = sink.position();
                let closed = sink.close();
                (moved.and_then(|()| closed.map_err(ContentsError::Target)), end)
            }
            Err(error) if errno_of(&error) == Errno::MFILE && !place.striped => {
                let mut plain = Plain { fd: &place.fd, at: 0 };
                (self.pour(context, entries, &mut plain, stop), plain.at)
            }
            Err(error) => (Err(ContentsError::Target(error)), 0),
        };
        let cut = |length| names::ftruncate(&place.fd, length).map_err(io::Error::from);
        match moved {
            Ok(()) => Ok(self.finish(context, &words, place, None)),
            Err(ContentsError::Target(error)) => {
                words.cannot("write", errno_of(&error));
                Ok(None)
            }
            Err(ContentsError::Archive(error)) => {
                // This may be the only copy left. Its mode and time are not set, which shows that
                // it is incomplete.
                if cut(end).is_ok() {
                    let _ = place.keep();
                }
                Err(MemberError::Archive(error))
            }
            Err(ContentsError::Stopped) => Err(MemberError::Stopped),
        }
    }

    /// Opens the stream.
    fn open_sink(
        &self,
        context: &Context<'_>,
        place: &NewFile,
        stored: u64,
        remaining: Option<u64>,
    ) -> io::Result<Sink> {
        self.make_room(place, stored, remaining)?;
        let own: OwnedFd = rustix::io::fcntl_dupfd_cloexec(&place.fd, 3)?;
        context.run.tool.output(own, Path::new(std::ffi::OsStr::from_bytes(&self.shown)))
    }

    /// Allocates space in advance, so that writes lie within the file and may be reordered; but not
    /// more than the bytes that remain in the archive, whatever size the entry claims.
    pub(super) fn make_room(
        &self,
        place: &NewFile,
        stored: u64,
        remaining: Option<u64>,
    ) -> Result<(), Errno> {
        if self.sparse.is_some() {
            names::ftruncate(&place.fd, self.size)?;
        } else if !place.striped {
            let length = stored.min(remaining.unwrap_or(AHEAD));
            let allocated =
                uninterrupted(|| fallocate(&place.fd, FallocateFlags::empty(), 0, length));
            // Other errors are ignored: the file system may not support allocation.
            if let Err(errno @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = allocated {
                return Err(errno);
            }
        }
        Ok(())
    }

    fn pour<A: Archive>(
        &self,
        context: &Context<'_>,
        entries: &mut Entries<A>,
        to: &mut impl LargeDestination,
        stop: &Stop,
    ) -> Result<(), ContentsError> {
        let whole = [(0, entries.stored_left())];
        for &(offset, length) in self.sparse.as_deref().unwrap_or(&whole) {
            if self.sparse.is_some() {
                to.go_on_at(offset).map_err(ContentsError::Target)?;
            }
            pour(context, entries, to, length, stop)?;
        }
        Ok(())
    }
}

/// The reason for which copying data ended early.
#[derive(Debug)]
pub(super) enum ContentsError {
    /// Reading the archive failed.
    Archive(FormatError),
    /// Writing to the target failed.
    Target(io::Error),
    /// A signal requests the end.
    Stopped,
}

/// Bytes between two checks for signals and updates of the progress line.
const STEP: usize = 1 << 20;

/// Copies `length` bytes of the entry's data.
pub(super) fn pour<A: Archive>(
    context: &Context<'_>,
    entries: &mut Entries<A>,
    to: &mut dyn Write,
    length: u64,
    stop: &Stop,
) -> Result<(), ContentsError> {
    let mut left = length;
    while left > 0 {
        if stop.asked() {
            return Err(ContentsError::Stopped);
        }
        // If the archive comes through a pipe, its writer may have been ended by the same signal.
        let cut = |error| {
            if stop.asked() { ContentsError::Stopped } else { ContentsError::Archive(error) }
        };
        let bytes = entries.fill_stored().map_err(cut)?;
        let count =
            usize::try_from(left).map_or(bytes.len(), |left| bytes.len().min(left)).min(STEP);
        if count == 0 {
            // The archive reader guarantees as many bytes as the map of the file has.
            break;
        }
        to.write_all(&bytes[..count]).map_err(ContentsError::Target)?;
        entries.consume_stored(count);
        context.run.tool.progressed(count as u64);
        left -= count as u64;
    }
    Ok(())
}

/// Copies all of an entry's data; the holes of a sparse file become zeros.
pub(super) fn pour_whole<A: Archive>(
    context: &Context<'_>,
    entries: &mut Entries<A>,
    to: &mut dyn Write,
    sparse: bool,
    stop: &Stop,
) -> Result<(), ContentsError> {
    if !sparse {
        let length = entries.stored_left();
        return pour(context, entries, to, length, stop);
    }
    let mut buffer = vec![0; STEP];
    loop {
        if stop.asked() {
            return Err(ContentsError::Stopped);
        }
        match entries.read_content(&mut buffer).map_err(ContentsError::Archive)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count]).map_err(ContentsError::Target)?,
        }
    }
}

/// Reports why a member cannot be created.
pub(super) fn tell(refusal: Refusal, words: &MemberMessages<'_>, doing: &str) {
    match refusal {
        Refusal::Skipped => words.skipped(),
        Refusal::Newer => {
            let name = crate::quote::marked(words.name);
            words
                .run
                .warn(Warning::IgnoreNewer, format_args!("Current {name} is newer or same age"));
        }
        Refusal::Unlink(errno) => words.cannot("unlink", errno),
        Refusal::Open(errno) => words.cannot(doing, errno),
    }
}
