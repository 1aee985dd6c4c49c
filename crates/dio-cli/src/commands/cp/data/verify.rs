//! `--verify`: reads the target back, past all caches of this machine, and compares it by digests.
//!
//! One process compares block by block. Several compare pieces, each of which goes to another
//! process than the one that has written it; what no other one can open, this one reads back.

use std::cell::Cell;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dio::file::{Class, Reason};
use dio::transfer::{Watch, data_ranges};
use dio::{File, Need, OpenOptions};
use dio_sys::fd_path;
use rustix::io::Errno;

use super::super::checks::{CheckedFile, WrittenPiece};
use super::super::error::{CopyError, ErrorContext, FailedOperation};
use super::super::open::OpenTarget;
use super::super::ranges::{Helpers, PIECE_BYTES, Rest};
use super::super::report::CopyLog;
use super::contents_file::ContentsFile;
use super::digests::Digests;
use super::path::{DataPath, Task, has_blocks};
use super::shared::facts;

/// A watcher that records the first byte that is not zero.
#[derive(Default)]
struct Zeros {
    first_other: Option<u64>,
}

impl Watch for Zeros {
    fn read(&mut self, offset: u64, bytes: &[u8]) {
        if let Some(place) = bytes.iter().position(|byte| *byte != 0) {
            let place = offset + place as u64;
            self.first_other = Some(self.first_other.map_or(place, |first| first.min(place)));
        }
    }
}

impl DataPath {
    /// Compares the target on the medium with what was read from the source. The target has been
    /// synced.
    pub(super) fn verify(
        &self,
        task: &Task<'_>,
        place: &mut ContentsFile,
    ) -> Result<(), CopyError> {
        if !place.target().fresh && !has_blocks(place.target()) {
            return Err(CopyError::Unverifiable(task.contents.target_path()));
        }
        let Some(helpers) = task.contents.helpers else {
            return match task.digests.take() {
                Some(expected) => self.verify_blocks(task, place.target(), expected),
                None => self.verify_whole(task, place.target()),
            };
        };
        let Some(shared) = task.shared.take() else {
            let (size, pieces) = self.pieces_of(task, helpers.rank())?;
            return self.verify_pieces(task, place, helpers, (size, pieces));
        };
        let size = task.contents.stat.st_size as u64;
        let verified = self.verify_pieces(task, place, helpers, (size, shared.pieces));
        if matches!(verified, Ok(()) | Err(CopyError::Differs { .. }))
            && let (Some(notes), Some(mark)) = (helpers.notes(), shared.complete)
        {
            notes.completed(mark);
        }
        verified
    }

    /// Compares a target that this process has written, block by block.
    fn verify_blocks(
        &self,
        task: &Task<'_>,
        target: &OpenTarget,
        mut expected: Digests,
    ) -> Result<(), CopyError> {
        let file = self.open_again(&target.fd)?;
        let ranges = std::mem::take(&mut expected.ranges);
        // A regular file may have had more contents than its size, as files of /proc do.
        let end = ranges.last().map_or(0, |last| last.end).max(task.contents.stat.st_size as u64);
        self.same_size(task, &file, end)?;
        self.forget(&file);
        let mut found = Digests::default();
        self.scan(&file, &ranges, &mut found)?;
        self.tell_cached(task.contents.report, &task.contents.target_path(), &file);
        if let Some(block) = expected.first_difference(found) {
            return self.differs(task, &file, block);
        }
        let other = self.first_beside(&file, &ranges)?;
        self.same(task, other)
    }

    /// Returns the size that the target of a task should have, and the pieces in which it is read
    /// back.
    fn pieces_of(
        &self,
        task: &Task<'_>,
        rank: usize,
    ) -> Result<(u64, Vec<WrittenPiece>), CopyError> {
        if let Some(digests) = task.digests.take() {
            let end = digests.ranges.last().map_or(0, |last| last.end);
            let size = end.max(task.contents.stat.st_size as u64);
            return Ok((size, digests.pieces(PIECE_BYTES, rank)));
        }
        // The source of a clone was not read.
        let size = self.open_again(&task.source)?.size()?;
        let mut rest = Rest::default();
        rest.give(std::iter::once(0..size));
        let mut pieces = Vec::new();
        loop {
            let ranges = rest.take_front(PIECE_BYTES);
            if ranges.is_empty() && !pieces.is_empty() {
                return Ok((size, pieces));
            }
            pieces.push(WrittenPiece { ranges, writer: Some(rank), ..WrittenPiece::default() });
        }
    }

    /// Has other processes read back the pieces of a target of `size` bytes, and reads back here
    /// what none of them could open.
    fn verify_pieces(
        &self,
        task: &Task<'_>,
        place: &mut ContentsFile,
        helpers: &dyn Helpers,
        (size, mut pieces): (u64, Vec<WrittenPiece>),
    ) -> Result<(), CopyError> {
        let contents = task.contents;
        let mut lowest = None;
        if helpers.has_others() {
            if let Some(name) = place.name_for_others(contents)? {
                let facts = facts(task, place.target())?;
                let names = (contents.entry.source.to_owned(), name);
                let file = CheckedFile { dir: Arc::clone(contents.entry.dir), names, facts, size };
                let found = helpers.check(file, pieces)?;
                (lowest, pieces) = (found.difference, found.unchecked);
            }
            if !pieces.is_empty() && !self.told_own.swap(true, Ordering::Relaxed) {
                let path = crate::quote::quoted(contents.target_path());
                contents.report.note(format_args!(
                    "{path}: verified by the process that wrote it, since no other one could open \
                     it"
                ));
            }
        }
        if !pieces.is_empty() {
            let target = self.open_again(&place.target().fd)?;
            for piece in pieces {
                let source = || self.open_again(&task.source);
                let found = self.check_piece(&target, &source, &piece, size)?;
                self.verified.add(piece.bytes(), piece.writer == Some(helpers.rank()));
                lowest = lowest.into_iter().chain(found).min();
            }
            self.tell_cached(contents.report, &contents.target_path(), &target);
        }
        self.same(task, lowest)
    }

    /// Reads back a piece that another process has written. Returns the first byte that differs;
    /// nothing at all if this process cannot open what it has to read. Another one may have the
    /// descriptors, the memory or the engine that this one lacks.
    pub(crate) fn check_for_others(
        &self,
        (report, path): (&CopyLog, &Path),
        target: &impl AsFd,
        source: &dyn Fn() -> Result<OwnedFd, Errno>,
        (piece, size): (&WrittenPiece, u64),
    ) -> Result<Option<Option<u64>>, CopyError> {
        let Ok(target) = self.open_again(target) else { return Ok(None) };
        let open_source = || {
            let fd = source().at(FailedOperation::OpenSource, || path.to_owned())?;
            self.open_again(&fd)
        };
        let opened = Cell::new(None);
        if piece.digest.is_none() {
            let Ok(source) = open_source() else { return Ok(None) };
            opened.set(Some(source));
        }
        let source = || opened.take().map_or_else(open_source, Ok);
        let found = match self.check_piece(&target, &source, piece, size) {
            Err(error) if error.is_shortage() => return Ok(None),
            checked => checked?,
        };
        self.verified.add(piece.bytes(), false);
        self.tell_cached(report, path, &target);
        Ok(Some(found))
    }

    /// Returns the first byte of a piece that differs, or beside all ranges if the piece is the
    /// last one. `size` is that which the target should have.
    fn check_piece(
        &self,
        target: &File,
        source: &dyn Fn() -> Result<File, CopyError>,
        piece: &WrittenPiece,
        size: u64,
    ) -> Result<Option<u64>, CopyError> {
        if let Some(end) = wrong_size(target, size)? {
            return Ok(Some(end));
        }
        self.forget(target);
        let found = match piece.digest {
            Some(expected) => {
                let mut found = Digests::default();
                self.scan(target, &piece.ranges, &mut found)?;
                if found.condensed() == expected {
                    None
                } else {
                    // What was copied is known by its digest only, so the source tells where.
                    let byte = source()
                        .and_then(|source| self.differing_byte((&source, target), &piece.ranges));
                    Some(byte.ok().flatten().unwrap_or(piece.start()))
                }
            }
            None => self.differing_byte((&source()?, target), &piece.ranges)?,
        };
        match &piece.transferred {
            Some(ranges) if found.is_none() => self.first_beside(target, ranges),
            _ => Ok(found),
        }
    }

    /// Makes the error for the first byte that differs, if there is one.
    fn same(&self, task: &Task<'_>, difference: Option<u64>) -> Result<(), CopyError> {
        difference.map_or(Ok(()), |offset| {
            Err(CopyError::Differs { path: task.contents.target_path(), offset })
        })
    }

    /// Makes the error for a difference in the block at offset `block`. Gives the exact byte if the
    /// source can still be read.
    fn differs(&self, task: &Task<'_>, file: &File, block: u64) -> Result<(), CopyError> {
        let mut place = None;
        if let Ok(source) = self.open_again(&task.source) {
            let (mut ours, mut theirs) =
                (vec![0; self.copiers.block()], vec![0; self.copiers.block()]);
            if let (Ok(read), Ok(found)) =
                (source.read_at(&mut ours, block), file.read_at(&mut theirs, block))
            {
                let least = read.min(found);
                place = (0..least)
                    .find(|at| ours[*at] != theirs[*at])
                    .or((read != found).then_some(least));
            }
        }
        let offset = block + place.unwrap_or(0) as u64;
        Err(CopyError::Differs { path: task.contents.target_path(), offset })
    }

    /// Verifies a copy whose source was not read while copying (a clone, a resumed copy): reads
    /// both files.
    fn verify_whole(&self, task: &Task<'_>, target: &OpenTarget) -> Result<(), CopyError> {
        let (source, file) = (self.open_again(&task.source)?, self.open_again(&target.fd)?);
        let (mut expected, mut found) = (Digests::default(), Digests::default());
        let size = source.size()?;
        let all: Vec<_> = std::iter::once(0..size).filter(|all| !all.is_empty()).collect();
        self.scan(&source, &all, &mut expected)?;
        self.same_size(task, &file, size)?;
        self.forget(&file);
        self.scan(&file, &all, &mut found)?;
        self.tell_cached(task.contents.report, &task.contents.target_path(), &file);
        match expected.first_difference(found) {
            Some(block) => self.differs(task, &file, block),
            None => Ok(()),
        }
    }

    /// Checks that the target is as long as the source.
    fn same_size(&self, task: &Task<'_>, file: &File, size: u64) -> Result<(), CopyError> {
        self.same(task, wrong_size(file, size)?)
    }

    /// Drops the target's pages, which are clean, so that even a read that is not direct comes from
    /// the medium.
    fn forget(&self, file: &File) {
        if let Some(fd) = file.descriptor() {
            // An error is ignored: a read through the page cache is reported by `tell_cached`.
            let _ = rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::DontNeed);
        }
    }

    /// Reports, once, that verification read the page cache, whose contents may differ from the
    /// medium.
    fn tell_cached(&self, report: &CopyLog, path: &Path, file: &File) {
        let (Class::Uncached | Class::Cached, reason) = file.read_class() else { return };
        if !self.told_cached.swap(true, Ordering::Relaxed) {
            let reason = reason.map_or("", Reason::text);
            let path = crate::quote::quoted(path);
            report.note(format_args!("{path}: verified through the page cache: {reason}"));
        }
    }

    /// Returns the first byte beside the ranges that were transferred which is not zero.
    fn first_beside(&self, file: &File, ranges: &[Range<u64>]) -> Result<Option<u64>, CopyError> {
        if file.is_device() {
            // A device has no holes, and the bytes behind the copy do not belong to it.
            return Ok(None);
        }
        let size = file.size()?;
        let mut gaps = Vec::new();
        for data in data_ranges(file, size)? {
            let mut at = data.start;
            for range in
                ranges.iter().filter(|range| range.end > data.start && range.start < data.end)
            {
                gaps.push(at..range.start.max(at));
                at = at.max(range.end);
            }
            gaps.push(at.min(data.end)..data.end);
        }
        gaps.retain(|gap| !gap.is_empty());
        let mut zeros = Zeros::default();
        self.scan(file, &gaps, &mut zeros)?;
        Ok(zeros.first_other)
    }

    /// Opens an open file once more, to read it past the cache. It may have no name yet.
    pub(super) fn open_again(&self, fd: impl AsFd) -> Result<File, CopyError> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .mode(dio::Mode::Direct)
            .need(Need::Preferred)
            .io(self.copiers.try_io()?);
        Ok(options.open(fd_path(fd))?)
    }
}

/// Returns where a file of another size than `size` ends, or should. A device may be longer; the
/// bytes behind the copy do not belong to it.
fn wrong_size(file: &File, size: u64) -> Result<Option<u64>, CopyError> {
    let found = file.size()?;
    let is_right = found == size || (file.is_device() && found > size);
    Ok((!is_right).then_some(found.min(size)))
}
