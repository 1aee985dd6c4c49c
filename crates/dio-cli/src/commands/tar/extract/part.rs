//! The part of one of several processes that extract an archive.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use dio::stream::StreamOptions;
use dio::{File, Mode, OpenOptions};
use parking_lot::Mutex;
use rustix::fs::{OFlags, fstat, openat};
use rustix::io::Errno;

use super::super::format::{Entries, FormatError};
use super::super::list::ended;
use super::super::options::TarOptions;
use super::super::run::{EarlyEnd, TarRun};
use super::file::{Context, MemberError};
use super::new_file::DirectorySet;
use super::noted::{ExtractNotes, NotedFile};
use super::root::Root;
use super::roots::open_roots;
use super::settings::ExtractSettings;
use super::storage::Storage;
use super::stored::{ExtractAnswer, ExtractWork, FilePiece, StoredFile};
use super::stretch::{Stretch, one_block};
use crate::receipt::{FileLine, Role};
use crate::stop::Stop;
use crate::tool::{FileState, Notes, Tool, errno_of};
use dio::names;

/// What a process needs to extract files that process 0 has found.
pub(in super::super) struct ExtractPart {
    run: TarRun,
    how: ExtractSettings,
    storage: Arc<Storage>,
    opened: Mutex<Option<Opened>>,
    notes: Option<Arc<dyn Notes>>,
}

/// The target directories and the archive.
#[derive(Clone)]
struct Opened {
    roots: Arc<Vec<Arc<Root>>>,
    archive: Arc<File>,
    state: FileState,
    noted: Option<ExtractNotes>,
}

/// The reason for which a piece is not written.
pub(super) enum PieceError {
    Archive(FormatError),
    Target(Errno),
}

impl<E: Into<io::Error>> From<E> for PieceError {
    fn from(error: E) -> PieceError {
        PieceError::Target(errno_of(&error.into()))
    }
}

/// Opens the archive for reads at any offset. Also returns its state.
///
/// # Errors
/// Errors of `open(2)` and `stat(2)`; ESTALE if it is replaced meanwhile.
pub(super) fn open_archive(run: &TarRun) -> io::Result<(Arc<File>, FileState)> {
    let how = run.tool.stream_options();
    let mut options = OpenOptions::new();
    options.read(true).mode(how.mode).need(how.need);
    let before = state_of_archive(run)?;
    let archive = Arc::new(options.open(&run.options.archive)?);
    match state_of_archive(run)? == before {
        true => Ok((archive, before)),
        false => Err(Errno::STALE.into()),
    }
}

/// The state of the file that has the name of the archive.
///
/// # Errors
/// Errors of `stat(2)`.
pub(super) fn state_of_archive(run: &TarRun) -> Result<FileState, Errno> {
    names::stat(&*run.options.archive).map(|stat| FileState::of(&stat))
}

/// Counts what was read of an archive that [`open_archive`] has opened.
pub(super) fn count_archive(run: &TarRun, archive: &File) {
    let (counters, ledger) = (archive.counters(), run.tool.ledger());
    ledger.count(&counters);
    ledger.list(|| FileLine::of(Path::new(&run.options.archive), Role::Source, &counters));
}

/// Extracts a file, and returns it as [`ExtractJob::extract`] does. The outer error says that its
/// directory is not found.
pub(super) fn extract(
    file: StoredFile,
    context: &Context<'_>,
    roots: &[Arc<Root>],
    stretch: &mut Stretch,
) -> Result<Result<Option<OwnedFd>, MemberError>, Errno> {
    let (start, stored, remaining) = (file.start, file.stored, file.remaining);
    let job = file.job(roots)?;
    stretch.go_to(start);
    let mut entries = Entries::within(stretch, start, stored);
    Ok(job.extract(context, &mut entries, remaining, Stop::on_signals()))
}

impl ExtractPart {
    /// Opens nothing yet: process 0 reports what cannot be opened.
    pub(in super::super) fn new(options: TarOptions, notes: Option<Arc<dyn Notes>>) -> ExtractPart {
        let how = ExtractSettings::of(&options);
        crate::tool::allow_descriptors(2048);
        let run = TarRun::holding(options);
        if notes.is_some() {
            run.tool.ledger().count_noted(0, 0);
        }
        ExtractPart { run, how, storage: Arc::new(Storage::new()), opened: Mutex::default(), notes }
    }

    /// Returns the tool with all that was counted. Nothing is extracted any more.
    pub(in super::super) fn counted(&self) -> &Tool {
        if let Some(opened) = self.opened.lock().take() {
            count_archive(&self.run, &opened.archive);
        }
        &self.run.tool
    }

    /// Does a job.
    pub(in super::super) fn work(&self, work: ExtractWork) -> ExtractAnswer {
        let mut answer = match work {
            ExtractWork::Files(archive, files) => self.extract(&archive, files),
            ExtractWork::Piece(piece) => self.piece(&piece),
            ExtractWork::Sync => {
                super::finish::finish_storage(&self.run, &self.storage);
                ExtractAnswer::default()
            }
        };
        answer.told.extend(self.run.take_held());
        answer
    }

    /// Makes durable what this process has extracted.
    ///
    /// # Errors
    /// Errors of syncing.
    pub(in super::super) fn sync(&self) -> io::Result<()> {
        self.storage.finish().map_err(io::Error::from)
    }

    fn opened(&self) -> io::Result<Opened> {
        let mut opened = self.opened.lock();
        if let Some(opened) = &*opened {
            return Ok(opened.clone());
        }
        let roots = open_roots(&self.run.options).map_err(|_| io::Error::from(Errno::NOENT))?;
        let (archive, state) = open_archive(&self.run)?;
        let noted = self.notes.as_ref().map(|notes| ExtractNotes::new(notes, state));
        Ok(opened.insert(Opened { roots: Arc::new(roots), archive, state, noted }).clone())
    }

    /// Opens the archive in which the leader has found something. What it was before or became
    /// later is not noted.
    ///
    /// # Errors
    /// Errors of opening; ESTALE if it is another file.
    fn opened_as(&self, archive: &FileState) -> io::Result<Opened> {
        let mut opened = self.opened()?;
        if !opened.state.is_of_same_file(archive) {
            return Err(Errno::STALE.into());
        }
        if opened.state != *archive {
            opened.noted = None;
        }
        Ok(opened)
    }

    fn extract(&self, archive: &FileState, files: Vec<StoredFile>) -> ExtractAnswer {
        let how = self.run.tool.stream_options();
        let reached = self.opened_as(archive).and_then(|opened| {
            let stretch = Stretch::new(Arc::clone(&opened.archive), how)?;
            Ok((opened, stretch))
        });
        let Ok((opened, mut stretch)) = reached else {
            return ExtractAnswer { returned: (0..files.len()).collect(), ..Default::default() };
        };
        stretch.read_up_to(files.last().map_or(0, |last| last.start + last.stored));
        let mut answer = ExtractAnswer::default();
        for (index, file) in files.into_iter().enumerate() {
            let context = self.context(opened.noted.clone());
            let start = file.start;
            let done = extract(file, &context, &opened.roots, &mut stretch);
            let told = self.run.take_held();
            if done.is_err() || context.gone.has_refused() {
                answer.returned.push(index);
                continue;
            }
            if let (Some(noted), Ok(Ok(Some(made))), false) =
                (&context.noted, &done, told.is_failed())
            {
                noted.extracted(start, made);
            }
            answer.told.extend(told);
            match done {
                Ok(Err(MemberError::Archive(error))) => {
                    answer.ended = self.message(error);
                    break;
                }
                Ok(Err(MemberError::Stopped)) => break,
                Ok(Ok(_)) | Err(_) => {}
            }
        }
        answer
    }

    /// What one file needs. A process that does not lead removes no directories, since the leader
    /// sets the attributes of those that are left.
    fn context(&self, noted: Option<ExtractNotes>) -> Context<'_> {
        Context {
            run: &self.run,
            how: self.how.clone(),
            storage: Arc::clone(&self.storage),
            noted,
            gone: DirectorySet::closed(),
            steered: DirectorySet::default(),
        }
    }

    fn message(&self, error: FormatError) -> Option<String> {
        match ended(&self.run, error) {
            EarlyEnd::Fatal(message) => Some(message),
            EarlyEnd::Told | EarlyEnd::Signal => None,
        }
    }

    fn piece(&self, piece: &FilePiece) -> ExtractAnswer {
        let Ok((opened, fd)) = self.open_piece(piece) else {
            // Process 0 has the file open already.
            return ExtractAnswer { returned: vec![0], ..Default::default() };
        };
        match write_piece(&self.run, (&opened.archive, fd), piece, opened.noted.as_ref()) {
            Ok(()) => ExtractAnswer::default(),
            Err(PieceError::Target(errno)) => {
                ExtractAnswer { failed: Some(errno.raw_os_error()), ..Default::default() }
            }
            Err(PieceError::Archive(error)) => {
                ExtractAnswer { ended: self.message(error), ..Default::default() }
            }
        }
    }

    /// Opens the archive and the file of a piece.
    ///
    /// # Errors
    /// Errors of opening; ESTALE if other files are found.
    fn open_piece(&self, piece: &FilePiece) -> io::Result<(Opened, OwnedFd)> {
        let opened = self.opened_as(&piece.archive)?;
        let root = opened.roots.get(piece.parent.root).ok_or(Errno::STALE)?;
        let dir = root.find_dir(&piece.directory)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(&*dir, &*piece.hidden, flags, rustix::fs::Mode::empty())?;
        if dir.id.inode() != piece.parent.inode || fstat(&fd)?.st_ino != piece.inode {
            return Err(Errno::STALE.into());
        }
        Ok((opened, fd))
    }
}

/// Writes a piece of a file from an archive, and notes it.
///
/// # Errors
/// EINTR if a signal asks for the end; errors of reading and writing.
pub(super) fn write_piece(
    run: &TarRun,
    (archive, fd): (&Arc<File>, OwnedFd),
    piece: &FilePiece,
    noted: Option<&ExtractNotes>,
) -> Result<(), PieceError> {
    let (how, ledger) = (run.tool.stream_options(), run.tool.ledger());
    let noted_as = noted.and_then(|_| NotedFile::of_open(&fd));
    let shown = Path::new(std::ffi::OsStr::from_bytes(&piece.shown));
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(how.mode).need(how.need);
    let file = options.adopt(fd, shown)?;
    let mut stretch = Stretch::new(Arc::clone(archive), how)?;
    stretch.go_to(piece.start);
    stretch.read_up_to(piece.start + piece.bytes());
    fill(&file, Entries::within(stretch, piece.start, piece.bytes()), &piece.extents, how)?;
    file.settle()?;
    let is_lazy = how.mode == Mode::Cached && noted.is_none();
    let synced = if is_lazy { Ok(()) } else { file.sync_data() };
    let counters = file.counters();
    ledger.count(&counters);
    ledger.list(|| FileLine {
        pages_before: Some(0),
        ..FileLine::of(shown, Role::Target, &counters)
    });
    synced?;
    if let (Some(noted), Some(made)) = (noted, noted_as) {
        noted.written(made, piece.start);
    }
    Ok(())
}

/// Writes the data of these extents to a file.
fn fill(
    file: &File,
    mut entries: Entries<Stretch>,
    extents: &[(u64, u64)],
    how: &StreamOptions,
) -> Result<(), PieceError> {
    let mut block = one_block(how)?;
    for &(offset, length) in extents {
        let mut at = 0;
        while at < length {
            if Stop::on_signals().asked() {
                return Err(PieceError::Target(Errno::INTR));
            }
            let memory = block.bytes_mut();
            let count = usize::try_from(length - at).map_or(memory.len(), |n| n.min(memory.len()));
            let mut filled = 0;
            while filled < count {
                filled +=
                    entries.read_stored(&mut memory[filled..count]).map_err(PieceError::Archive)?;
            }
            file.write_at(&memory[..count], offset + at)?;
            at += count as u64;
        }
    }
    Ok(())
}
