//! Finds out whether direct I/O on a file is direct, where the kernel does not report it.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::geometry::{align_down, align_up};

/// If a request of at least so many pages brings all of them in, one sample decides. It is 64 KiB
/// with pages of 4 KiB.
const DECISIVE_PAGES_MIN: u64 = 16;
/// So many of the last eight samples decide.
const DECISIVE_SAMPLES_MIN: u32 = 3;

/// The trial of the direct reads, or of the direct writes, of a file. The numbers of its states are
/// stored in an atomic.
///
/// Where the kernel reports nothing, no number of direct requests proves anything about the next
/// one: pages may have been cached already, and btrfs buffers some extents of a file (compressed,
/// inline) and not others. So the file counts the resident pages of the range before and after
/// every request, blocks in flight included, until the result is "buffered", which is final.
///
/// The pages may also belong to somebody else, who reads the range at the same time. So the result
/// is "buffered"
/// - at once when a request of at least [`DECISIVE_PAGES_MIN`] pages found none of them cached
///   before and all of them after,
/// - otherwise when pages came in [`DECISIVE_SAMPLES_MIN`] of the last eight requests.
///
/// For writes the result is known before the first one where [`super::held`] could try it: btrfs
/// drops the pages itself, so counting finds them by chance only.
///
/// Whatever the result, the range of every request that brought pages in is dropped at the next
/// sync or close, as if it had passed through the page cache.
#[derive(Debug)]
pub(super) struct DirectnessTrial {
    state: AtomicU8,
    /// One bit for each of the last eight requests, the latest lowest: set if pages came.
    history: AtomicU8,
}

/// The resident pages of the range of one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResidencySample {
    /// Resident before the request.
    pub before: u64,
    /// Resident after the request.
    pub after: u64,
    /// All pages of the range.
    pub all: u64,
}

/// Number of pages that a range of bytes touches.
pub(super) fn pages_of(range: &Range<u64>) -> u64 {
    let page = rustix::param::page_size() as u64;
    (align_up(range.end, page) - align_down(range.start, page)) / page
}

impl DirectnessTrial {
    const OPEN: u8 = 0;
    const DIRECT: u8 = 1;
    const BUFFERED: u8 = 2;

    pub(super) fn new(proven: bool) -> DirectnessTrial {
        let state = if proven { DirectnessTrial::DIRECT } else { DirectnessTrial::OPEN };
        DirectnessTrial { state: AtomicU8::new(state), history: AtomicU8::new(0) }
    }

    /// A trial that was decided before the first request.
    pub(super) fn buffered() -> DirectnessTrial {
        DirectnessTrial {
            state: AtomicU8::new(DirectnessTrial::BUFFERED),
            history: AtomicU8::new(0),
        }
    }

    /// Whether the pages that requests leave in the page cache need not be counted.
    pub(super) fn is_proven(&self) -> bool {
        self.state.load(Ordering::Relaxed) == DirectnessTrial::DIRECT
    }

    pub(super) fn is_open(&self) -> bool {
        self.state.load(Ordering::Relaxed) == DirectnessTrial::OPEN
    }

    pub(super) fn is_buffered(&self) -> bool {
        self.state.load(Ordering::Relaxed) == DirectnessTrial::BUFFERED
    }

    /// Records the sample of a request. True if pages came.
    pub(super) fn record(&self, sample: ResidencySample) -> bool {
        let came = sample.after > sample.before;
        let push = |history: u8| history << 1 | u8::from(came);
        let before = self
            .history
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |history| Some(push(history)));
        let history = push(before.unwrap_or_else(|history| history));
        let decisive =
            sample.all >= DECISIVE_PAGES_MIN && sample.before == 0 && sample.after >= sample.all;
        if came && (decisive || history.count_ones() >= DECISIVE_SAMPLES_MIN) {
            self.state.store(DirectnessTrial::BUFFERED, Ordering::Relaxed);
        }
        came
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_somebody_else_reads_do_not_decide() {
        let trial = DirectnessTrial::new(false);
        for _ in 0..10 {
            // Pages come in two of eight requests, for ever. One of these is a whole small request.
            trial.record(ResidencySample { before: 0, after: 1, all: 1 });
            trial.record(ResidencySample { before: 0, after: 40, all: 64 });
            (0..6).for_each(|_| {
                assert!(!trial.record(ResidencySample { before: 3, after: 3, all: 64 }))
            });
            assert!(trial.is_open());
        }
    }

    #[test]
    fn three_sightings_or_one_of_everything_decide() {
        let often = DirectnessTrial::new(false);
        (0..3).for_each(|_| assert!(often.record(ResidencySample { before: 0, after: 1, all: 1 })));
        assert!(often.is_buffered());
        let whole = DirectnessTrial::new(false);
        whole.record(ResidencySample { before: 0, after: 16, all: 16 });
        assert!(whole.is_buffered());
    }

    #[test]
    fn pages_are_counted_as_they_are_touched() {
        let page = rustix::param::page_size() as u64;
        assert_eq!(pages_of(&(0..page)), 1);
        assert_eq!(pages_of(&(page - 512..page + 512)), 2);
    }
}
