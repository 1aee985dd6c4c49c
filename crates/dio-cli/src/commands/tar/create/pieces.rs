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

use rustix::io::Errno;

use super::super::run::{EarlyEnd, TarRun};
use super::jobs::{PieceAnswer, PieceJob, Segment, SourceFile, Trouble};
use super::note::Note;
use super::noted::{Known, NotedArchive, PieceDigests};
use crate::tool::Crew;
use crate::tool::target::HiddenName;

/// Bytes of a piece of the archive.
pub(super) const PIECE_BYTES: u64 = 32 << 20;

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
    noted: Option<NotedArchive>,
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
        noted: Option<NotedArchive>,
    ) -> SharedArchive<'c> {
        SharedArchive {
            run,
            crew,
            archive,
            is_synced,
            noted,
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
        let (start, segments) = (self.start, std::mem::take(&mut self.segments));
        let digests = self.noted.as_ref().map(|_| PieceDigests::of(&segments));
        let known = match &digests {
            Some(digests) => self.look_up(digests, &segments)?,
            None => Known::Nothing,
        };
        let mut answer = None;
        if known == Known::All {
            answer = Some(PieceAnswer::default());
        } else {
            let noted = self.noted.as_ref().zip(digests);
            let job = PieceJob {
                archive: self.archive.clone(),
                is_synced: self.is_synced,
                start,
                segments,
                only_headers: known == Known::Files,
                note: noted.map(|(noted, digests)| noted.piece_note(start, &digests)),
            };
            self.crew.give(self.taken + self.given.len() as u64, job);
        }
        self.given.push_back((std::mem::take(&mut self.ranges), answer));
        self.start += self.length;
        self.length = 0;
        self.take_answered();
        Ok(())
    }

    /// Looks up how much of the piece that was put together is noted, and prepares to overwrite
    /// what is not so.
    fn look_up(&mut self, digests: &PieceDigests, segments: &[Segment]) -> Result<Known, EarlyEnd> {
        let Some(noted) = &mut self.noted else { return Ok(Known::Nothing) };
        let known = noted.known(self.start, self.length, digests);
        let of_files = segments.iter().map(|segment| match segment {
            Segment::Bytes(_) => 0,
            Segment::File { length, .. } => *length,
        });
        let ledger = self.run.tool.ledger();
        match known {
            Known::Nothing => {}
            Known::All => {
                ledger.count_noted(self.length, 0);
                noted.believe(self.start, digests);
            }
            Known::Files | Known::Other => {
                if known == Known::Files {
                    ledger.count_noted(of_files.sum(), 0);
                }
                self.renew()?;
            }
        }
        Ok(known)
    }

    /// Has the archive go on under another name, unless it has one already, when nothing is being
    /// written.
    fn renew(&mut self) -> Result<(), EarlyEnd> {
        if self.noted.as_ref().is_none_or(NotedArchive::is_renewed) {
            return Ok(());
        }
        while !self.given.is_empty() {
            self.wait()?;
        }
        if let Some(noted) = &mut self.noted {
            self.archive = noted.renew()?.into();
        }
        Ok(())
    }

    /// Pieces are noted, under this hidden name of the archive.
    pub(super) fn hidden(&self) -> Option<&HiddenName> {
        self.noted.as_ref().map(NotedArchive::hidden)
    }

    /// Waits for a piece, and tells what is known of those before which all are written.
    fn wait(&mut self) -> Result<(), EarlyEnd> {
        let (number, answer) = self.crew.answer().ok_or(EarlyEnd::Signal)?;
        if let Some(errno) = answer.failed {
            let errno = Errno::from_raw_os_error(errno);
            return Err(EarlyEnd::on(self.run.options.archive.as_bytes(), "write", errno));
        }
        self.given[(number - self.taken) as usize].1 = Some(answer);
        self.take_answered();
        Ok(())
    }

    /// Takes the answers before which all are known.
    fn take_answered(&mut self) {
        while let Some((_, Some(_))) = self.given.front() {
            let Some((ranges, Some(answer))) = self.given.pop_front() else { break };
            self.taken += 1;
            self.take(&ranges, answer.troubles);
        }
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
