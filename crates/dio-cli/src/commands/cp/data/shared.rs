//! Large files whose ranges several processes copy.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dio::File;
use dio::transfer::Contents as Whole;
use rustix::fs::{AtFlags, FileType, statx};

use super::super::checks::{SharedPieces, WrittenPiece};
use super::super::error::{CopyError, ErrorContext, FailedOperation};
use super::super::facts::FileFacts;
use super::super::open::{OpenTarget, is_link};
use super::super::ranges::{
    Failure, Helpers, PIECE_BYTES, Rest, SHARED_BYTES_MIN, SharedFile, without_known,
};
use super::digests::Digests;
use super::path::{DataPath, Task};
use crate::tool::{Birth, Mark, Notes};

/// The ranges that an earlier attempt left to copy, and those that it noted as durable.
struct LeftByNotes {
    left: Vec<Range<u64>>,
    known: Vec<Range<u64>>,
}

impl DataPath {
    /// Returns whether other processes may copy ranges of a file: each finds it by its name, and
    /// copies plain blocks.
    pub(super) fn is_shared(&self, task: &Task<'_>, whole: &Whole<'_>) -> bool {
        let (dir, name) = task.contents.target_dir();
        whole.size >= SHARED_BYTES_MIN
            && !self.transfer.atomic
            && !task.striped
            && !whole.target.is_device()
            && FileType::from_raw_mode(task.contents.stat.st_mode) == FileType::RegularFile
            && !is_link(dir, name)
    }

    /// Copies a file together with other processes. Returns the number of bytes in holes.
    pub(super) fn copy_shared(
        &self,
        task: &Task<'_>,
        target: &OpenTarget,
        whole: &Whole<'_>,
        helpers: &dyn Helpers,
    ) -> Result<u64, CopyError> {
        let contents = task.contents;
        let facts = facts(task, target)?;
        let notes = helpers.notes().filter(|_| facts.target_born.is_some());
        let left = match notes {
            Some(notes) if !target.fresh => self.left_by_notes(task, whole, notes, &facts)?,
            _ => None,
        };
        if left.is_none() {
            self.empty(task, target)?;
        }
        let copied = whole.prepare()?;
        let (ranges, known) = match left {
            Some(LeftByNotes { left, known }) => (left, known),
            None => (copied.ranges.clone(), Vec::new()),
        };
        let names = (contents.entry.source.to_owned(), contents.entry.target.to_owned());
        let dir = Arc::clone(contents.entry.dir);
        let file = Arc::new(SharedFile::new(dir, names, facts, ranges));
        helpers.share(&file);
        let mut noting = Noting::new(notes, &facts, whole.target);
        let outcome = file.complete(helpers, |ranges| {
            self.copy_piece(whole, ranges, &file, helpers)?;
            noting.copied(ranges)
        });
        helpers.withdraw(&file);
        if let Err((missing, error)) = outcome {
            if notes.is_none() {
                // This error is reported. A target that stays too long is no worse.
                let _ = whole.target.cut_off(missing);
            }
            return Err(error);
        }
        whole.check_size()?;
        let complete = notes.map(|notes| (notes, Mark::of_complete(&facts)));
        if self.transfer.verify {
            let pieces = pieces_to_check(file.take_written(), known, copied.ranges);
            let complete = complete.map(|(_, mark)| mark);
            task.shared.set(Some(SharedPieces { pieces, complete }));
        } else if let Some((notes, mark)) = complete {
            notes.completed(mark);
        }
        Ok(copied.holes)
    }

    /// Copies one piece, and keeps its digest if it is to be read back.
    fn copy_piece(
        &self,
        whole: &Whole<'_>,
        ranges: &[Range<u64>],
        file: &SharedFile,
        helpers: &dyn Helpers,
    ) -> Result<(), CopyError> {
        let mut digests = self.transfer.verify.then(Digests::default);
        self.run_job(&whole.job(ranges), digests.as_mut()).map_err(|(error, _)| error)?;
        file.add_written(digests.map(|digests| WrittenPiece {
            ranges: ranges.to_vec(),
            digest: Some(digests.condensed()),
            writer: Some(helpers.rank()),
            transferred: None,
        }));
        Ok(())
    }

    /// Which ranges an earlier attempt has noted as durable in the target; `None` if it has noted
    /// nothing, or if the target was complete once.
    fn left_by_notes(
        &self,
        task: &Task<'_>,
        whole: &Whole<'_>,
        notes: &dyn Notes,
        facts: &FileFacts,
    ) -> Result<Option<LeftByNotes>, CopyError> {
        if notes.is_durable(&Mark::of_complete(facts)) {
            return Ok(None);
        }
        let is_known = |part: &Range<u64>| notes.is_durable(&Mark::of_piece(facts, part));
        let (left, known) = without_known(whole.ranges()?, is_known);
        let Some(last) = known.last() else { return Ok(None) };
        if !(last.end..=facts.size).contains(&whole.target.size()?) {
            return Err(CopyError::NotAsNoted(task.contents.target_path()));
        }
        let bytes = known.iter().map(|part| part.end - part.start).sum();
        self.progress.add(bytes);
        self.ledger.count_noted(bytes, 0);
        Ok(Some(LeftByNotes { left, known }))
    }

    /// Copies ranges of a file of another process, and lets further processes take of them.
    pub(crate) fn copy_ranges(
        &self,
        (source, target): (OwnedFd, OwnedFd),
        (source_path, target_path): (PathBuf, PathBuf),
        file: &Arc<SharedFile>,
        helpers: &dyn Helpers,
    ) -> Result<(), Failure> {
        let whole = |error: CopyError| (0, error);
        let options = self.open_options().map_err(whole)?;
        let open = |fd, path, write: bool| -> Result<File, Failure> {
            let mut options = options.clone();
            options.read(!write).write(write).adopt(fd, path).map_err(|error| whole(error.into()))
        };
        let (source, target) =
            (open(source, source_path, false)?, open(target, target_path, true)?);
        let contents = self.whole(&source, &target, file.facts.size);
        helpers.share(file);
        let notes = helpers.notes().filter(|_| file.facts.target_born.is_some());
        let mut noting = Noting::new(notes, &file.facts, &target);
        let copied = file.complete(helpers, |ranges| {
            self.copy_piece(&contents, ranges, file, helpers)?;
            noting.copied(ranges)
        });
        helpers.withdraw(file);
        let settled = target.settle().and(source.settle());
        self.ledger.count(&source.counters());
        self.ledger.count(&target.counters());
        copied?;
        settled.map_err(|error| whole(error.into()))?;
        if self.durable || self.transfer.verify {
            // The process that lent them may be on another machine, where a sync of the file would
            // not write what is cached on this one.
            noting.sync().map_err(whole)?;
            self.ledger.count_syncs(1);
        }
        Ok(())
    }
}

/// The pieces of a file, ascending: those that were written in this attempt, and what an earlier
/// one noted.
fn pieces_to_check(
    mut pieces: Vec<WrittenPiece>,
    known: Vec<Range<u64>>,
    transferred: Vec<Range<u64>>,
) -> Vec<WrittenPiece> {
    let mut rest = Rest::default();
    rest.give(known);
    while rest.bytes() > 0 {
        let ranges = rest.take_front(PIECE_BYTES);
        pieces.push(WrittenPiece { ranges, ..WrittenPiece::default() });
    }
    pieces.sort_unstable_by_key(WrittenPiece::start);
    if pieces.is_empty() {
        // The whole file is a hole.
        pieces.push(WrittenPiece {
            digest: Some(Digests::default().condensed()),
            ..WrittenPiece::default()
        });
    }
    if let Some(last) = pieces.last_mut() {
        last.transferred = Some(transferred);
    }
    pieces
}

/// What another process must find to copy or to check ranges of a file, and what marks of them are
/// about.
pub(super) fn facts(task: &Task<'_>, target: &OpenTarget) -> Result<FileFacts, CopyError> {
    let made = statx(&target.fd, c"", AtFlags::EMPTY_PATH, Birth::WANTED)
        .at(FailedOperation::Stat, || task.contents.target_path())?;
    Ok(FileFacts::of(task.contents.stat, Birth::of(&made), task.contents.follow))
}

/// How long pieces wait at least for a sync, after which they are noted.
const SYNC_EVERY: Duration = Duration::from_millis(200);

/// Notes the pieces of a file that this process has copied.
struct Noting<'a> {
    notes: Option<&'a dyn Notes>,
    facts: &'a FileFacts,
    target: &'a File,
    /// Marks of pieces that were copied since the last sync.
    waiting: Vec<Mark>,
    synced: Instant,
    /// The next sync is so long after the last one.
    pause: Duration,
}

impl<'a> Noting<'a> {
    fn new(notes: Option<&'a dyn Notes>, facts: &'a FileFacts, target: &'a File) -> Noting<'a> {
        let (waiting, synced, pause) = (Vec::new(), Instant::now(), SYNC_EVERY);
        Noting { notes, facts, target, waiting, synced, pause }
    }

    /// Pieces were copied. Now and then all of them are made durable, and noted.
    fn copied(&mut self, pieces: &[Range<u64>]) -> Result<(), CopyError> {
        if self.notes.is_none() {
            return Ok(());
        }
        self.waiting.extend(pieces.iter().map(|piece| Mark::of_piece(self.facts, piece)));
        if self.synced.elapsed() < self.pause { Ok(()) } else { self.sync() }
    }

    fn sync(&mut self) -> Result<(), CopyError> {
        let begun = Instant::now();
        self.target.sync_data()?;
        // Syncs take a tenth of the time at most.
        self.pause = SYNC_EVERY.max(begun.elapsed() * 10);
        let waiting = self.waiting.drain(..);
        if let Some(notes) = self.notes {
            let begun = (waiting.len() > 0).then(|| Mark::of_begun(self.facts));
            begun.into_iter().chain(waiting).for_each(|mark| notes.completed(mark));
        }
        self.synced = Instant::now();
        Ok(())
    }
}
