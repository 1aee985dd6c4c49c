//! Writes pieces of an archive, in any of the processes that share it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use dio::block::{Block, Pool};
use dio::names::{self, resident_pages};
use dio::stream::StreamOptions;
use dio::{File, Mode, OpenOptions};
use parking_lot::Mutex;
use rustix::fs::fstat;
use rustix::io::Errno;

use super::super::terms::NAME;
use super::jobs::{PieceAnswer, PieceJob, Segment, SourceFile, Trouble};
use crate::receipt::{FileLine, Role};
use crate::stop::Stop;
use crate::tool::{IoArgs, Notes, Tool, When, errno_of};

/// What a process needs to write pieces.
pub(in super::super) struct PieceWriter {
    how: StreamOptions,
    /// Counts what is read and written.
    tool: Tool,
    /// The archive's name for the receipt.
    shown: OsString,
    /// The archive, once it is open.
    archive: Mutex<Option<Arc<File>>>,
    notes: Option<Arc<dyn Notes>>,
}

impl PieceWriter {
    pub(in super::super) fn new(
        io: IoArgs,
        shown: OsString,
        notes: Option<Arc<dyn Notes>>,
    ) -> PieceWriter {
        let how = io.stream_options();
        let tool = Tool::new(NAME, &IoArgs { progress: When::Never, ..io });
        if notes.is_some() {
            tool.ledger().count_noted(0, 0);
        }
        PieceWriter { how, tool, shown, archive: Mutex::default(), notes }
    }

    /// Waits until all that was written is on the medium.
    ///
    /// # Errors
    /// Errors of writing and syncing.
    pub(in super::super) fn sync(&self) -> io::Result<()> {
        let archive = self.archive.lock().clone();
        Ok(archive.map_or(Ok(()), |archive| archive.sync_data())?)
    }

    /// Returns the tool with all that was counted. No piece is written any more.
    pub(in super::super) fn counted(&self) -> &Tool {
        if let Some(file) = self.archive.lock().take() {
            let (counters, ledger) = (file.counters(), self.tool.ledger());
            ledger.count(&counters);
            ledger.list(|| FileLine {
                pages_after: self.pages(&file),
                ..FileLine::of(Path::new(&self.shown), Role::Target, &counters)
            });
        }
        &self.tool
    }

    /// Writes a piece.
    pub(in super::super) fn write(&self, job: PieceJob) -> PieceAnswer {
        let (mut troubles, mut may_be_noted) = (Vec::new(), true);
        self.tool.ledger().count_buffers(self.how.block as u64);
        let written = self.write_segments(&job, &mut troubles, &mut may_be_noted);
        self.tool.ledger().release_buffers(self.how.block as u64);
        match written {
            Ok(()) => {
                if let (Some(notes), Some(note)) = (&self.notes, &job.note)
                    && troubles.is_empty()
                    && may_be_noted
                {
                    notes.note(note.mark, &note.value);
                }
                PieceAnswer { failed: None, troubles }
            }
            Err(error) => PieceAnswer::failing(errno_of(&error)),
        }
    }

    fn write_segments(
        &self,
        job: &PieceJob,
        troubles: &mut Vec<Trouble>,
        may_be_noted: &mut bool,
    ) -> io::Result<()> {
        let archive = self.archive(&job.archive)?;
        if job.only_headers {
            write_headers(&archive, job)?;
            return if job.is_synced { Ok(archive.sync_data()?) } else { Ok(()) };
        }
        let pool = Pool::new(self.how.block, 1)?;
        let block = pool.take_many(1).pop().expect("one block was asked for");
        let mut writer = Writer { archive: &archive, block, filled: 0, at: job.start };
        let mut index = 0;
        for segment in &job.segments {
            match segment {
                Segment::Bytes(bytes) => writer.write(bytes)?,
                Segment::File { source, offset, length } => {
                    let mut trouble = Trouble { index, ..Trouble::default() };
                    self.copy(source, (*offset, *length), &mut writer, &mut trouble)?;
                    *may_be_noted &= !trouble.is_uncertain;
                    if trouble.missing > 0 || trouble.is_changed {
                        troubles.push(trouble);
                    }
                    index += 1;
                }
            }
        }
        writer.flush()?;
        if job.is_synced { Ok(archive.sync_data()?) } else { Ok(()) }
    }

    fn archive(&self, path: &OsStr) -> io::Result<Arc<File>> {
        let mut open = self.archive.lock();
        // There is one archive, although its hidden name may change.
        if let Some(file) = &*open {
            return Ok(Arc::clone(file));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(self.how.mode).need(self.how.need);
        let file = Arc::new(options.open(path)?);
        *open = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Copies a range of a file; what is missing becomes zeros. The error is that of writing.
    fn copy(
        &self,
        source: &SourceFile,
        (offset, length): (u64, u64),
        writer: &mut Writer<'_>,
        trouble: &mut Trouble,
    ) -> io::Result<()> {
        let mut done = 0;
        let mut failed = None;
        match self.open(source) {
            Ok(file) => {
                let before = self.pages(&file);
                while done < length {
                    if Stop::on_signals().asked() {
                        return Err(Errno::INTR.into());
                    }
                    let room = writer.room(length - done);
                    match file.read_at(room, offset + done) {
                        Ok(0) => break,
                        Ok(count) => {
                            done += count as u64;
                            writer.advance(count)?;
                        }
                        Err(error) => {
                            failed = Some(error.errno());
                            break;
                        }
                    }
                }
                let now = file.descriptor().and_then(|fd| names::fstat(fd).ok());
                trouble.is_uncertain = file.layout().is_some() || now.is_none();
                trouble.is_changed = now.is_some_and(|now| source.is_changed(&now));
                let counters = file.counters();
                self.tool.ledger().count(&counters);
                self.tool.ledger().list(|| FileLine {
                    pages_before: before,
                    pages_after: self.pages(&file),
                    ..FileLine::of(
                        Path::new(OsStr::from_bytes(&source.shown)),
                        Role::Source,
                        &counters,
                    )
                });
            }
            Err(error) => failed = Some(errno_of(&error)),
        }
        trouble.offset = offset + done;
        trouble.missing = length - done;
        trouble.errno = failed.map(Errno::raw_os_error);
        writer.zeros(length - done)
    }

    /// Resident pages of a file that a receipt is to list.
    fn pages(&self, file: &File) -> Option<u64> {
        let fd = file.descriptor().filter(|_| self.tool.ledger().wanted())?;
        resident_pages(fd).ok()
    }

    fn open(&self, source: &SourceFile) -> io::Result<File> {
        let is_small = source.state.size <= self.how.small && self.how.mode == Mode::Direct;
        let mode = if is_small { Mode::Uncached } else { self.how.mode };
        let mut options = OpenOptions::new();
        options.read(true).no_follow(true).mode(mode).need(self.how.need);
        let file = options.open(&source.path)?;
        match file.descriptor().map(fstat) {
            Some(Ok(stat)) if stat.st_ino != source.state.inode => Err(Errno::NOENT.into()),
            _ => Ok(file),
        }
    }
}

/// Writes only the bytes of a piece that are of no file.
fn write_headers(archive: &File, job: &PieceJob) -> io::Result<()> {
    let mut at = job.start;
    for segment in &job.segments {
        at += match segment {
            Segment::Bytes(bytes) => {
                archive.write_at(bytes, at)?;
                bytes.len() as u64
            }
            Segment::File { length, .. } => *length,
        };
    }
    Ok(())
}

/// Writes whole blocks.
struct Writer<'a> {
    archive: &'a File,
    block: Block,
    filled: usize,
    at: u64,
}

impl Writer<'_> {
    /// Memory for at most `most` of the next bytes.
    fn room(&mut self, most: u64) -> &mut [u8] {
        let room = &mut self.block.bytes_mut()[self.filled..];
        let count = room.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        &mut room[..count]
    }

    /// Takes `count` bytes that were put there.
    fn advance(&mut self, count: usize) -> io::Result<()> {
        self.filled += count;
        if self.filled == self.block.capacity() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let filled = std::mem::take(&mut self.filled);
        self.archive.write_at(&self.block.bytes_mut()[..filled], self.at)?;
        self.at += filled as u64;
        Ok(())
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = self.room(bytes.len() as u64);
            let count = room.len();
            let (now, rest) = bytes.split_at(count);
            room.copy_from_slice(now);
            self.advance(count)?;
            bytes = rest;
        }
        Ok(())
    }

    fn zeros(&mut self, mut count: u64) -> io::Result<()> {
        while count > 0 {
            let room = self.room(count);
            let part = room.len();
            room.fill(0);
            self.advance(part)?;
            count -= part as u64;
        }
        Ok(())
    }
}
