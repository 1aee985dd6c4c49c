//! The names of the files in a log's directory.

use crate::error::WalError;
use crate::format::{Layout, segment_name, segment_number};
use crate::storage::Storage;

/// The end of a spare segment's name.
const SPARE_SUFFIX: &str = ".spare";
/// The end of the name of a segment that is being made.
const UNFINISHED_SUFFIX: &str = ".new";

/// The name of segment `number` while it is being made.
pub(crate) fn unfinished_name(number: u64) -> String {
    segment_name(number) + UNFINISHED_SUFFIX
}

/// The name of segment `number` once it was truncated and waits to be reused.
pub(crate) fn spare_name(number: u64) -> String {
    segment_name(number) + SPARE_SUFFIX
}

/// How often a reader begins again when segments came and went meanwhile.
const ATTEMPTS: usize = 100;

/// The files in a log's directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Numbers of the segments, in ascending order.
    pub(crate) segments: Vec<u64>,
    /// Names of spare segments.
    pub(crate) spares: Vec<String>,
    /// Names of segments that were never finished.
    pub(crate) unfinished: Vec<String>,
}

impl Listing {
    /// Lists the directory.
    ///
    /// # Errors
    /// Errors of the storage.
    pub(crate) fn of(storage: &dyn Storage) -> Result<Listing, WalError> {
        let mut listing = Listing::default();
        for name in storage.list().map_err(|error| WalError::io("list", ".", None, error))? {
            let stem = |suffix| name.strip_suffix(suffix).and_then(segment_number);
            if let Some(number) = segment_number(&name) {
                listing.segments.push(number);
            } else if stem(SPARE_SUFFIX).is_some() {
                listing.spares.push(name);
            } else if stem(UNFINISHED_SUFFIX).is_some() {
                listing.unfinished.push(name);
            }
        }
        listing.segments.sort_unstable();
        listing.spares.sort_unstable();
        Ok(listing)
    }

    /// Lists the directory and calls `read`, and again on a newer listing if that fails while
    /// the segments change. Names are not read at one moment: beside a writer that truncates,
    /// a listing may have a segment older than one that it lacks, and what it has may be gone when
    /// it is read. A fault is one only if the segments are the same before and after it was found.
    ///
    /// # Errors
    /// Errors of the storage, and those of `read`.
    pub(crate) fn settled<T>(
        storage: &dyn Storage,
        mut read: impl FnMut(Listing) -> Result<T, WalError>,
    ) -> Result<T, WalError> {
        let mut listing = Listing::of(storage)?;
        for _ in 1..ATTEMPTS {
            let segments = listing.segments.clone();
            let outcome = read(listing);
            if outcome.is_ok() {
                return outcome;
            }
            listing = Listing::of(storage)?;
            if listing.segments == segments {
                return outcome;
            }
        }
        read(listing)
    }

    /// Omits the segments that no log with this layout can have.
    pub(crate) fn within(mut self, layout: &Layout) -> Listing {
        self.segments.retain(|number| layout.is_segment_possible(*number));
        self
    }

    /// The first segment of the last run.
    ///
    /// A run is a sequence of consecutive segments: segments 3, 9, 10 and 11 are two, and the last
    /// one begins with 9. Either segment 3 was truncated, and a power cut undid its removal, or
    /// segments 4 to 8 are missing. The marks in the last run say where the log starts, which
    /// decides between the two.
    pub(crate) fn last_run(&self) -> Option<u64> {
        self.segments.last().map(|last| self.run_at(*last))
    }

    /// The first segment of the run that `number` belongs to. If segment `number` does not exist,
    /// that is the next run; behind the last segment, the last run.
    pub(crate) fn run_at(&self, number: u64) -> u64 {
        let at = self
            .segments
            .partition_point(|listed| *listed < number)
            .min(self.segments.len().saturating_sub(1));
        let Some(mut first) = self.segments.get(at).copied() else { return 0 };
        for before in self.segments[..at].iter().rev() {
            if before + 1 != first {
                break;
            }
            first = *before;
        }
        first
    }

    /// The first segment of the run before the one that begins with `run`.
    pub(crate) fn run_before(&self, run: u64) -> Option<u64> {
        let before = self.segments.iter().rev().find(|listed| **listed < run)?;
        Some(self.run_at(*before))
    }

    /// The first number from `number` on that no segment has.
    pub(crate) fn first_missing(&self, number: u64) -> u64 {
        let behind = &self.segments[self.segments.partition_point(|listed| *listed < number)..];
        number
            + behind
                .iter()
                .zip(number..)
                .take_while(|(listed, expected)| *listed == expected)
                .count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(segments: &[u64]) -> Listing {
        Listing { segments: segments.to_vec(), ..Listing::default() }
    }

    #[test]
    fn the_last_run_ends_with_the_last_segment() {
        let run = |segments: &[u64]| listing(segments).last_run();
        assert_eq!(run(&[]), None);
        assert_eq!(run(&[0]), Some(0));
        assert_eq!(run(&[0, 1, 2]), Some(0));
        assert_eq!(run(&[0, 2, 3, 4]), Some(2));
        assert_eq!(run(&[3, 9]), Some(9));
    }

    #[test]
    fn a_segment_belongs_to_its_run_and_a_missing_one_to_the_next() {
        let listing = listing(&[3, 4, 9, 10, 12]);
        let runs =
            [(0, 3), (3, 3), (4, 3), (5, 9), (8, 9), (9, 9), (10, 9), (11, 12), (12, 12), (99, 12)];
        for (number, run) in runs {
            assert_eq!(listing.run_at(number), run, "{number}");
        }
        assert_eq!([12, 9, 3].map(|run| listing.run_before(run)), [Some(9), Some(3), None]);
        assert_eq!(
            [0, 3, 4, 9, 12, 99].map(|number| listing.first_missing(number)),
            [0, 5, 5, 11, 13, 99]
        );
    }
}
