//! Whether direct I/O on a file is what it says, where the kernel does not tell.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::geometry::{align_down, align_up};

/// Pages of a request from which on one sighting of all of them decides: 64 KiB where pages have 4 KiB.
const DECISIVE_PAGES: u64 = 16;
/// Sightings among the last eight requests that decide.
const ENOUGH_SIGHTINGS: u32 = 3;

/// The verdict on the direct reads, or the direct writes, of a file. Numbers of the states are stored in an atomic.
///
/// Where the kernel does not say, no number of direct requests proves anything about the next: pages may have been
/// cached already, and btrfs buffers some extents of a file (compressed, inline) and not others. So the resident pages of
/// the range are counted before and after every request, blocks in flight included, until the verdict is "buffered",
/// which is final.
///
/// Pages may also be somebody else's, who reads the range at the same time. So the verdict is "buffered"
/// - at once when a request of at least [`DECISIVE_PAGES`] pages found none of them cached before and all of them after,
/// - else when [`ENOUGH_SIGHTINGS`] of the last eight requests saw pages come.
///
/// Of writes the verdict is known before the first one where [`super::held`] could try it: btrfs drops the pages itself, and
/// they are seen by chance only.
///
/// Whatever the verdict, the range of every sighting is dropped at the next sync or close, as what passed through the
/// cache.
#[derive(Debug)]
pub(super) struct Trial {
    state: AtomicU8,
    /// A bit for each of the last eight requests, the latest lowest: set where pages came.
    history: AtomicU8,
}

/// What was seen of one request, in pages of its range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sight {
    /// Cached before it.
    pub before: u64,
    /// Cached after it.
    pub after: u64,
    /// All there are.
    pub all: u64,
}

/// Pages that a range of bytes touches.
pub(super) fn pages_of(range: &Range<u64>) -> u64 {
    let page = rustix::param::page_size() as u64;
    (align_up(range.end, page) - align_down(range.start, page)) / page
}

impl Trial {
    const OPEN: u8 = 0;
    const DIRECT: u8 = 1;
    const BUFFERED: u8 = 2;

    pub(super) fn new(proven: bool) -> Trial {
        let state = if proven { Trial::DIRECT } else { Trial::OPEN };
        Trial { state: AtomicU8::new(state), history: AtomicU8::new(0) }
    }

    /// Requests were seen to be buffered before there was any.
    pub(super) fn buffered() -> Trial {
        Trial { state: AtomicU8::new(Trial::BUFFERED), history: AtomicU8::new(0) }
    }

    /// Whether what requests leave in the cache need not be watched.
    pub(super) fn is_proven(&self) -> bool {
        self.state.load(Ordering::Relaxed) == Trial::DIRECT
    }

    pub(super) fn is_open(&self) -> bool {
        self.state.load(Ordering::Relaxed) == Trial::OPEN
    }

    pub(super) fn is_buffered(&self) -> bool {
        self.state.load(Ordering::Relaxed) == Trial::BUFFERED
    }

    /// Takes a request into account; true if pages came.
    pub(super) fn judge(&self, sight: Sight) -> bool {
        let came = sight.after > sight.before;
        let push = |history: u8| history << 1 | u8::from(came);
        let before = self.history.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |history| Some(push(history)));
        let history = push(before.unwrap_or_else(|history| history));
        let decisive = sight.all >= DECISIVE_PAGES && sight.before == 0 && sight.after >= sight.all;
        if came && (decisive || history.count_ones() >= ENOUGH_SIGHTINGS) {
            self.state.store(Trial::BUFFERED, Ordering::Relaxed);
        }
        came
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_somebody_else_reads_do_not_decide() {
        let trial = Trial::new(false);
        for _ in 0..10 {
            // Two sightings in eight requests, for ever; one of them of a whole small request.
            trial.judge(Sight { before: 0, after: 1, all: 1 });
            trial.judge(Sight { before: 0, after: 40, all: 64 });
            (0..6).for_each(|_| assert!(!trial.judge(Sight { before: 3, after: 3, all: 64 })));
            assert!(trial.is_open());
        }
    }

    #[test]
    fn three_sightings_or_one_of_everything_decide() {
        let often = Trial::new(false);
        (0..3).for_each(|_| assert!(often.judge(Sight { before: 0, after: 1, all: 1 })));
        assert!(often.is_buffered());
        let whole = Trial::new(false);
        whole.judge(Sight { before: 0, after: 16, all: 16 });
        assert!(whole.is_buffered());
    }

    #[test]
    fn pages_are_counted_as_they_are_touched() {
        let page = rustix::param::page_size() as u64;
        assert_eq!(pages_of(&(0..page)), 1);
        assert_eq!(pages_of(&(page - 512..page + 512)), 2);
    }
}
