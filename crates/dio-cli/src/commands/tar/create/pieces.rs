//! An archive that several processes write.
//!
//! The writer of process 0 knows the place of each byte, because a header says how many follow it.
//! Instead of bytes it puts together *segments*: headers and padding, and ranges of files. Those
//! that lie in one piece of the archive are a job of a [`Crew`]: whoever gets it reads the files
//! and writes the piece. Pieces begin at multiples of [`PIECE_BYTES`], so no block of the disk is
//! written by two processes. Reasons to complain about files are told in their order.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::Stat;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::super::run::{EarlyEnd, TarRun};
use super::note::Note;
use crate::tool::Crew;

/// Bytes of a piece of the archive.
pub(super) const PIECE_BYTES: u64 = 32 << 20;

/// A piece to write.
#[derive(Debug, Serialize, Deserialize)]
pub struct PieceJob {
    pub(super) archive: OsString,
    /// Whether the bytes have to be on the medium before the answer.
    pub(super) is_synced: bool,
    /// The place of the piece in the archive.
    pub(super) start: u64,
    pub(super) segments: Vec<Segment>,
}

/// A part of a piece.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Segment {
    Bytes(Vec<u8>),
    File { source: SourceFile, offset: u64, length: u64 },
}

/// A file that is archived, as it was when its header was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SourceFile {
    pub(super) path: OsString,
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) ctime: (i64, u64),
}

impl SourceFile {
    pub(super) fn new(path: OsString, stat: &Stat) -> SourceFile {
        let ctime = (stat.st_ctime, stat.st_ctime_nsec);
        SourceFile { path, inode: stat.st_ino, size: stat.st_size as u64, ctime }
    }

    /// Whether the file changed since, by GNU tar's criteria.
    pub(super) fn is_changed(&self, now: &Stat) -> bool {
        self.ctime != (now.st_ctime, now.st_ctime_nsec) || now.st_size as u64 > self.size
    }
}

/// The answer to a [`PieceJob`].
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct PieceAnswer {
    /// The reason why the archive cannot be written.
    pub(super) failed: Option<i32>,
    pub(super) troubles: Vec<Trouble>,
}

impl PieceAnswer {
    /// The answer of a process that cannot write the archive.
    pub(in super::super) fn failing(errno: Errno) -> PieceAnswer {
        PieceAnswer { failed: Some(errno.raw_os_error()), troubles: Vec::new() }
    }
}

/// A file that was not read as it was expected.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Trouble {
    /// Its position among the ranges of files of the piece.
    pub(super) index: usize,
    /// The first byte that is missing, and how many are.
    pub(super) offset: u64,
    pub(super) missing: u64,
    /// The reason, unless the file just ends there.
    pub(super) errno: Option<i32>,
    pub(super) is_changed: bool,
}

/// The crew of the processes that write an archive.
pub(super) type ArchiveCrew<'c> = &'c dyn Crew<PieceJob, PieceAnswer>;

/// A range of a file that was given out: the name of its member, and its extent.
type GivenRange = (Arc<Vec<u8>>, usize);

/// The archive as the writer of process 0 has it.
pub(super) struct SharedArchive<'c> {
    run: &'c TarRun,
    crew: ArchiveCrew<'c>,
    archive: OsString,
    is_synced: bool,
    /// Place and length of the piece that is being put together.
    start: u64,
    length: u64,
    segments: Vec<Segment>,
    ranges: Vec<GivenRange>,
    /// Pieces that are under way, in order: their ranges, and their answers. `taken` were before.
    given: VecDeque<(Vec<GivenRange>, Option<PieceAnswer>)>,
    taken: u64,
    /// A file that may go on in the next piece.
    troubled: Option<(GivenRange, Trouble)>,
}

impl std::fmt::Debug for SharedArchive<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedArchive({:?} at {})", self.archive, self.start + self.length)
    }
}

impl<'c> SharedArchive<'c> {
    pub(super) fn new(
        run: &'c TarRun,
        crew: ArchiveCrew<'c>,
        archive: OsString,
        is_synced: bool,
    ) -> SharedArchive<'c> {
        SharedArchive {
            run,
            crew,
            archive,
            is_synced,
            start: 0,
            length: 0,
            segments: Vec::new(),
            ranges: Vec::new(),
            given: VecDeque::new(),
            taken: 0,
            troubled: None,
        }
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// An earlier piece could not be written; a signal was caught.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), EarlyEnd> {
        while !bytes.is_empty() {
            let room = usize::try_from(PIECE_BYTES - self.length).unwrap_or(usize::MAX);
            let (now, rest) = bytes.split_at(bytes.len().min(room));
            match self.segments.last_mut() {
                Some(Segment::Bytes(last)) => last.extend_from_slice(now),
                _ => self.segments.push(Segment::Bytes(now.to_vec())),
            }
            self.grow(now.len() as u64)?;
            bytes = rest;
        }
        Ok(())
    }

    /// Adds a range of a file, which is the extent of that number of the member `name`.
    ///
    /// # Errors
    /// Errors of [`SharedArchive::write`].
    pub(super) fn file(
        &mut self,
        (name, extent): (&Arc<Vec<u8>>, usize),
        source: &SourceFile,
        (mut offset, mut length): (u64, u64),
    ) -> Result<(), EarlyEnd> {
        while length > 0 {
            let now = length.min(PIECE_BYTES - self.length);
            let source = source.clone();
            self.segments.push(Segment::File { source, offset, length: now });
            self.ranges.push((Arc::clone(name), extent));
            self.run.tool.progressed(now);
            (offset, length) = (offset + now, length - now);
            self.grow(now)?;
        }
        Ok(())
    }

    fn grow(&mut self, bytes: u64) -> Result<(), EarlyEnd> {
        self.length += bytes;
        if self.length == PIECE_BYTES { self.give() } else { Ok(()) }
    }

    /// Gives out the piece that was put together.
    fn give(&mut self) -> Result<(), EarlyEnd> {
        while self.given.len() >= self.crew.jobs_max() {
            self.wait()?;
        }
        let job = PieceJob {
            archive: self.archive.clone(),
            is_synced: self.is_synced,
            start: self.start,
            segments: std::mem::take(&mut self.segments),
        };
        self.crew.give(self.taken + self.given.len() as u64, job);
        self.given.push_back((std::mem::take(&mut self.ranges), None));
        self.start += self.length;
        self.length = 0;
        Ok(())
    }

    /// Waits for a piece, and tells what is known of those before which all are written.
    fn wait(&mut self) -> Result<(), EarlyEnd> {
        let (number, answer) = self.crew.answer().ok_or(EarlyEnd::Signal)?;
        if let Some(errno) = answer.failed {
            let errno = Errno::from_raw_os_error(errno);
            return Err(EarlyEnd::on(self.run.options.archive.as_bytes(), "write", errno));
        }
        self.given[(number - self.taken) as usize].1 = Some(answer);
        while let Some((_, Some(_))) = self.given.front() {
            let Some((ranges, Some(answer))) = self.given.pop_front() else { break };
            self.taken += 1;
            self.take(&ranges, answer.troubles);
        }
        Ok(())
    }

    fn take(&mut self, ranges: &[GivenRange], troubles: Vec<Trouble>) {
        for trouble in troubles {
            let Some(range) = ranges.get(trouble.index) else { continue };
            match &mut self.troubled {
                Some((before, sum)) if Arc::ptr_eq(&before.0, &range.0) => {
                    sum.is_changed |= trouble.is_changed;
                    if sum.missing == 0 {
                        (sum.offset, sum.errno) = (trouble.offset, trouble.errno);
                        before.1 = range.1;
                    }
                    // As in one process, only the first extent that ends early is told.
                    if before.1 == range.1 {
                        sum.missing += trouble.missing;
                    }
                }
                _ => {
                    self.tell();
                    self.troubled = Some((range.clone(), trouble));
                }
            }
        }
        let goes_on = |(range, _): &(GivenRange, Trouble)| {
            ranges.last().is_some_and(|last| Arc::ptr_eq(&last.0, &range.0))
        };
        if !self.troubled.as_ref().is_some_and(goes_on) {
            self.tell();
        }
    }

    /// Tells what was wrong with a file.
    fn tell(&mut self) {
        let Some(((name, _), trouble)) = self.troubled.take() else { return };
        let Trouble { offset, missing, errno, .. } = trouble;
        let options = &self.run.options;
        let note = match errno.map(Errno::from_raw_os_error) {
            Some(errno) => Note::read_error(options, &name, offset, missing, errno),
            None if missing > 0 => Note::shrank(options, &name, missing),
            None => Note::changed(&name),
        };
        note.tell(self.run);
    }

    /// Waits until all is written.
    ///
    /// # Errors
    /// Errors of [`SharedArchive::write`].
    pub(super) fn finish(&mut self) -> Result<(), EarlyEnd> {
        if self.length > 0 {
            self.give()?;
        }
        while !self.given.is_empty() {
            self.wait()?;
        }
        self.tell();
        Ok(())
    }
}
