//! Hybrid I/O: chooses for each request whether it goes past the page cache or through it.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use dio_common::recent::{PIECES, slot};

use crate::stats::Event;

/// Recently used pieces of a file; see [`slot`].
#[derive(Debug)]
pub(super) struct Habits(Box<[AtomicU32]>);

impl Default for Habits {
    fn default() -> Habits {
        Habits((0..PIECES).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Habits {
    /// Returns whether the first piece of the range was used recently, and marks it as used.
    fn reuse(&self, range: &Range<u64>) -> bool {
        let (slot, mark) = slot(range.start);
        self.0[slot].swap(mark, Ordering::Relaxed) == mark
    }

    /// Returns why a read goes past the page cache or through it; see [`through_cache`].
    pub(super) fn of_read(
        &self,
        source: BorrowedFd<'_>,
        range: &Range<u64>,
        from: u64,
        stream: bool,
    ) -> Event {
        if range.end - range.start >= from {
            return Event::HybridLarge;
        }
        if stream {
            return Event::HybridStream;
        }
        let reused = self.reuse(range);
        if has_pages(source, range) {
            Event::HybridResident
        } else if reused {
            Event::HybridReread
        } else {
            Event::HybridFirst
        }
    }

    /// Does the same for a write. Small writes go through the page cache if their range is cached
    /// or was used before, since it will be read or written again.
    pub(super) fn of_write(
        &self,
        source: BorrowedFd<'_>,
        range: &Range<u64>,
        from: u64,
        stream: bool,
    ) -> Event {
        match self.of_read(source, range, from, stream) {
            Event::HybridReread => Event::HybridSmall,
            other => other,
        }
    }
}

/// Whether a request goes through the page cache for this reason.
pub(super) fn through_cache(event: Event) -> bool {
    matches!(event, Event::HybridResident | Event::HybridReread | Event::HybridSmall)
}

/// Whether any page of the range is in the page cache.
pub(super) fn has_pages(source: BorrowedFd<'_>, range: &Range<u64>) -> bool {
    dio_sys::cachestat(source, range.start, range.end - range.start)
        .is_ok_and(|stat| stat.cache > 0)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use dio_common::recent::PIECE;

    use super::*;

    #[test]
    fn small_requests_go_through_the_cache_when_they_come_again() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        let habits = Habits::default();
        let read =
            |range: Range<u64>, stream| habits.of_read(file.as_fd(), &range, 1 << 20, stream);
        assert_eq!(read(0..4096, false), Event::HybridFirst);
        assert_eq!(read(0..4096, false), Event::HybridReread);
        assert_eq!(read(1 << 20..(1 << 20) + 4096, true), Event::HybridStream);
        assert_eq!(read(0..1 << 20, false), Event::HybridLarge);
        file.write_all_at(&[1; 4096], 64 << 10).unwrap();
        assert_eq!(read(64 << 10..(64 << 10) + 10, false), Event::HybridResident);
        assert!(!through_cache(Event::HybridFirst) && !through_cache(Event::HybridLarge));
    }

    #[test]
    fn what_is_read_once_is_never_taken_for_read_again() {
        let habits = Habits::default();
        let again =
            (0..100_000).filter(|piece| habits.reuse(&(piece * PIECE..piece * PIECE + 1))).count();
        assert_eq!(again, 0);
    }
}
