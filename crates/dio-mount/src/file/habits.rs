//! Hybrid I/O: chooses for each request whether it goes past the page cache or through it.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::stats::Event;

/// Bytes of a piece, the unit in which uses of a file are remembered.
const PIECE: u64 = 16 << 10;

/// Number of pieces that are remembered.
const REMEMBERED: usize = 2048;

/// Recently used pieces of a file: a ghost list without order. A piece replaces another one with
/// the same hash. So a piece that is read again within some thousand requests is found, and one
/// that is read once costs nothing.
#[derive(Debug)]
pub(super) struct Habits(Box<[AtomicU32]>);

impl Default for Habits {
    fn default() -> Habits {
        Habits((0..REMEMBERED).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Habits {
    /// Returns whether the first piece of the range was used recently, and marks it as used.
    fn reuse(&self, range: &Range<u64>) -> bool {
        // 0 marks a slot that was never used, so bit 31 of a piece is always set.
        let piece = (range.start / PIECE) as u32 | 1 << 31;
        let place =
            (u64::from(piece).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize % REMEMBERED;
        self.0[place].swap(piece, Ordering::Relaxed) == piece
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
