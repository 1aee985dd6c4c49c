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
    /// The storage's.
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

    /// Omits the segments that no log with this layout can have.
    pub(crate) fn within(mut self, layout: &Layout) -> Listing {
        self.segments.retain(|number| layout.is_segment_possible(*number));
        self
    }

    /// The first segment of the run of consecutive segments that ends with the last one.
    ///
    /// Of segments 3, 9, 10 and 11 the run begins with 9. Segment 3 was truncated, and a power cut
    /// undid its removal; or else segments 4 to 8 are missing, which the marks behind them show.
    pub(crate) fn first_of_run(&self) -> Option<u64> {
        let mut first = *self.segments.last()?;
        for number in self.segments.iter().rev().skip(1) {
            if number + 1 != first {
                break;
            }
            first = *number;
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_run_ends_with_the_last_segment() {
        let run = |segments: &[u64]| Listing { segments: segments.to_vec(), ..Listing::default() }.first_of_run();
        assert_eq!(run(&[]), None);
        assert_eq!(run(&[0]), Some(0));
        assert_eq!(run(&[0, 1, 2]), Some(0));
        assert_eq!(run(&[0, 2, 3, 4]), Some(2));
        assert_eq!(run(&[3, 9]), Some(9));
    }
}
