//! Compares the contents of two files, read past all caches of this machine.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use dio::File;
use dio::transfer::data_ranges;

use super::super::error::CopyError;
use super::super::ranges::{Failure, Helpers, SHARED_BYTES_MIN, SharedFile};
use super::digests::Digests;
use super::path::DataPath;

/// Bytes that are compared at a time: their digests are kept in memory.
const WINDOW_BYTES: u64 = 1 << 30;

/// Ranges begin and end at multiples of this, or at the end of the file.
const EDGE_BYTES: u64 = 1 << 20;

impl DataPath {
    /// Returns whether two regular files have the same contents.
    pub(crate) fn is_equal(&self, one: &impl AsFd, other: &impl AsFd) -> Result<bool, CopyError> {
        let (one, other) = (self.open_again(one)?, self.open_again(other)?);
        let size = one.size()?;
        if size != other.size()? {
            return Ok(false);
        }
        let ranges = data_of_either(&one, &other, size)?;
        Ok(self.differing_block((&one, &other), &ranges)?.is_none())
    }

    /// Compares two files together with other processes, if they are large. Returns the first byte
    /// that differs, and both sizes.
    pub(crate) fn compare(
        &self,
        (one, other): (&impl AsFd, &impl AsFd),
        shared: impl FnOnce(Vec<Range<u64>>) -> Arc<SharedFile>,
        helpers: Option<&dyn Helpers>,
    ) -> Result<(Option<u64>, [u64; 2]), CopyError> {
        let files = (&self.open_again(one)?, &self.open_again(other)?);
        let sizes = [files.0.size()?, files.1.size()?];
        let size = sizes[0].min(sizes[1]);
        let ranges = data_of_either(files.0, files.1, size)?;
        let plain = files.0.layout().is_none() && files.1.layout().is_none();
        let found = match helpers.filter(|_| plain && size >= SHARED_BYTES_MIN) {
            Some(helpers) => {
                self.compare_shared(files, &shared(ranges), helpers).map_err(|(_, error)| error)?
            }
            None => self.differing_byte(files, &ranges)?,
        };
        Ok((found.or((sizes[0] != sizes[1]).then_some(size)), sizes))
    }

    /// Compares ranges of two files of another process, and lets further processes take of them.
    pub(crate) fn compare_ranges(
        &self,
        (one, other): (OwnedFd, OwnedFd),
        file: &Arc<SharedFile>,
        helpers: &dyn Helpers,
    ) -> Result<Option<u64>, Failure> {
        let open = |fd: &OwnedFd| self.open_again(fd).map_err(|error| (0, error));
        self.compare_shared((&open(&one)?, &open(&other)?), file, helpers)
    }

    fn compare_shared(
        &self,
        files: (&File, &File),
        file: &Arc<SharedFile>,
        helpers: &dyn Helpers,
    ) -> Result<Option<u64>, Failure> {
        helpers.share(file);
        let compared = file.complete(helpers, |ranges| {
            if let Some(at) = self.differing_byte(files, ranges)? {
                file.differs_at(at);
            }
            Ok(())
        });
        helpers.withdraw(file);
        compared.map(|()| file.difference())
    }

    /// The first byte in some ranges that differs.
    pub(super) fn differing_byte(
        &self,
        files: (&File, &File),
        ranges: &[Range<u64>],
    ) -> Result<Option<u64>, CopyError> {
        let Some(block) = self.differing_block(files, ranges)? else { return Ok(None) };
        let [mut one, mut other] = [(); 2].map(|()| vec![0; self.copiers.block()]);
        let read = files.0.read_at(&mut one, block)?.min(files.1.read_at(&mut other, block)?);
        let byte = (0..read).find(|at| one[*at] != other[*at]);
        // It may have been changed since.
        Ok(Some(block + byte.unwrap_or(0) as u64))
    }

    /// The first block in some ranges that differs.
    fn differing_block(
        &self,
        (one, other): (&File, &File),
        ranges: &[Range<u64>],
    ) -> Result<Option<u64>, CopyError> {
        for window in windows(ranges) {
            let (mut expected, mut found) = (Digests::default(), Digests::default());
            self.scan(one, &window, &mut expected)?;
            self.scan(other, &window, &mut found)?;
            if let Some(block) = expected.first_difference(found) {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }
}

/// The ranges of the first `size` bytes in which one of the files has data, ascending.
fn data_of_either(one: &File, other: &File, size: u64) -> Result<Vec<Range<u64>>, CopyError> {
    let mut data = data_ranges(one, size)?;
    data.extend(data_ranges(other, size)?);
    Ok(merged(data, size))
}

/// Widens ranges to whole edges, and joins those that touch.
fn merged(mut ranges: Vec<Range<u64>>, size: u64) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        let start = range.start / EDGE_BYTES * EDGE_BYTES;
        let end = range.end.next_multiple_of(EDGE_BYTES).min(size);
        match joined.last_mut() {
            Some(last) if last.end >= start => last.end = last.end.max(end),
            _ => joined.push(start..end),
        }
    }
    joined
}

/// Divides ranges into groups of [`WINDOW_BYTES`] at most.
fn windows(ranges: &[Range<u64>]) -> Vec<Vec<Range<u64>>> {
    let (mut groups, mut group, mut room) = (Vec::new(), Vec::new(), WINDOW_BYTES);
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + room);
            group.push(start..end);
            room -= end - start;
            start = end;
            if room == 0 {
                groups.push(std::mem::take(&mut group));
                room = WINDOW_BYTES;
            }
        }
    }
    groups.push(group);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_divided_without_loss() {
        let edge = EDGE_BYTES;
        let size = 5 * WINDOW_BYTES + 3;
        let data = vec![2 * edge + 1..3 * edge, 0..1, 3 * edge..3 * edge + 5, edge * 100..size];
        let joined = merged(data, size);
        assert_eq!(joined, [0..edge, 2 * edge..4 * edge, 100 * edge..size]);
        let groups = windows(&joined);
        let bytes = |ranges: &[Range<u64>]| ranges.iter().map(|r| r.end - r.start).sum::<u64>();
        assert!(groups.iter().all(|group| bytes(group) <= WINDOW_BYTES));
        assert_eq!(groups.iter().map(|group| bytes(group)).sum::<u64>(), bytes(&joined));
        assert_eq!(merged(groups.concat(), size), joined);
    }
}
