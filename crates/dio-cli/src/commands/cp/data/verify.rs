//! `--verify`: reads the target back, past all caches of this machine, and compares it block by
//! block by digest.

use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use dio::file::{Class, Reason};
use dio::transfer::{Watch, data_ranges};
use dio::{File, Need, OpenOptions};
use dio_sys::fd_path;

use super::super::error::CopyError;
use super::super::open::OpenTarget;
use super::digests::Digests;
use super::path::{DataPath, Task, has_blocks};

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
    pub(super) fn verify(&self, task: &Task<'_>, target: &OpenTarget) -> Result<(), CopyError> {
        if !target.fresh && !has_blocks(target) {
            return Err(CopyError::Unverifiable(task.contents.target_path()));
        }
        let Some(mut expected) = task.digests.take() else {
            return self.verify_whole(task, target);
        };
        let file = self.open_again(&target.fd)?;
        let ranges = std::mem::take(&mut expected.ranges);
        // A regular file may have had more contents than its size, as files of /proc do.
        let end = ranges.last().map_or(0, |last| last.end).max(task.contents.stat.st_size as u64);
        self.same_size(task, &file, end)?;
        self.forget(&file);
        let mut found = Digests::default();
        self.scan(&file, &ranges, &mut found)?;
        self.tell_cached(task, &file);
        match expected.first_difference(found) {
            Some(block) => self.differs(task, &file, block),
            // A device has no holes, and the bytes behind the copy do not belong to it.
            None if file.is_device() => Ok(()),
            None => self.verify_holes(task, &file, &ranges),
        }
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
        self.tell_cached(task, &file);
        match expected.first_difference(found) {
            Some(block) => self.differs(task, &file, block),
            None => Ok(()),
        }
    }

    /// Checks that the target is as long as the source. A device may be longer; the bytes behind
    /// the copy do not belong to it.
    fn same_size(&self, task: &Task<'_>, file: &File, size: u64) -> Result<(), CopyError> {
        let found = file.size()?;
        if found == size || (file.is_device() && found > size) {
            return Ok(());
        }
        Err(CopyError::Differs { path: task.contents.target_path(), offset: found.min(size) })
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
    fn tell_cached(&self, task: &Task<'_>, file: &File) {
        let (Class::Uncached | Class::Cached, reason) = file.read_class() else { return };
        if !self.told_cached.swap(true, Ordering::Relaxed) {
            let reason = reason.map_or("", Reason::text);
            let path = crate::quote::quoted(task.contents.target_path());
            task.contents
                .report
                .note(format_args!("{path}: verified through the page cache: {reason}"));
        }
    }

    /// Checks that ranges that were not transferred read as zeros.
    fn verify_holes(
        &self,
        task: &Task<'_>,
        file: &File,
        ranges: &[Range<u64>],
    ) -> Result<(), CopyError> {
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
        zeros.first_other.map_or(Ok(()), |offset| {
            Err(CopyError::Differs { path: task.contents.target_path(), offset })
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found_whatever_the_order() {
        let digests = |blocks: &[(u64, &[u8])]| {
            let mut digests = Digests::default();
            blocks.iter().for_each(|(offset, bytes)| digests.add(*offset, bytes));
            digests
        };
        let one = || digests(&[(8, b"b"), (0, b"a"), (16, b"c")]);
        assert_eq!(one().first_difference(digests(&[(0, b"a"), (16, b"c"), (8, b"b")])), None);
        assert_eq!(one().first_difference(digests(&[(0, b"a"), (16, b"x"), (8, b"y")])), Some(8));
        assert!(one().first_difference(digests(&[(0, b"a"), (8, b"b")])).is_some());
    }
}
