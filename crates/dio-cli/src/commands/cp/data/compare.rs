//! Compares the contents of two files, read past all caches of this machine.

use std::ops::Range;
use std::os::fd::AsFd;

use dio::File;
use dio::transfer::data_ranges;

use super::super::error::CopyError;
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
        for window in windows(&data_of_either(&one, &other, size)?) {
            let (mut expected, mut found) = (Digests::default(), Digests::default());
            self.scan(&one, &window, &mut expected)?;
            self.scan(&other, &window, &mut found)?;
            if expected.first_difference(found).is_some() {
                return Ok(false);
            }
        }
        Ok(true)
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
