//! Leaving no page behind: what this file brought into the page cache is written back and dropped, what others had
//! there stays. And noticing where direct I/O is not direct.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};

use rustix::io::Errno;

use super::routing::Routing;
use super::trial::{Sight, Trial, pages_of};
use crate::engine::{Medium, OpKind, OsMedium, Route};
use crate::geometry::Geometry;
use crate::residency::{Picture, ResidencyError, length_of, write_back};

/// Bytes through the cache after which they are dropped without waiting for a sync or close, so that a long transfer
/// never occupies more than this.
const MOST_TOUCHED: u64 = 16 << 20;

/// What one file of the system left in the page cache, and what its direct requests were seen to do.
#[derive(Debug)]
pub(super) struct Residue {
    /// What was resident before the first byte passed through; `None` where that is hidden from us (a file of another
    /// user: EPERM), and then nothing may be evicted.
    before: OnceLock<Option<Picture>>,
    touched: Mutex<Touched>,
    /// The kernel refused `RWF_DONTCACHE` for this file.
    no_dontcache: AtomicBool,
    reads: Trial,
    writes: Trial,
}

/// Most separate ranges remembered; past this the closest two become one, which may evict what others loaded between.
const MOST_RANGES: usize = 256;

#[derive(Debug, Default)]
struct Touched {
    /// Sorted, disjoint, none empty.
    ranges: Vec<Range<u64>>,
    bytes: u64,
    written: bool,
}

impl Touched {
    fn add(&mut self, range: Range<u64>) {
        let first = self.ranges.partition_point(|known| known.end < range.start);
        let last = self.ranges.partition_point(|known| known.start <= range.end);
        let joined = self.ranges[first..last].iter().fold(range, |a, b| a.start.min(b.start)..a.end.max(b.end));
        self.ranges.splice(first..last, [joined]);
        if self.ranges.len() > MOST_RANGES {
            let gap = |at: &usize| self.ranges[at + 1].start - self.ranges[*at].end;
            let closest = (0..self.ranges.len() - 1).min_by_key(gap).expect("there are several");
            let end = self.ranges.remove(closest + 1).end;
            self.ranges[closest].end = end;
        }
    }
}

fn guard<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Residue {
    /// `proven` says that what is direct is known.
    pub(super) fn new(proven: bool) -> Residue {
        Residue {
            before: OnceLock::new(),
            touched: Mutex::default(),
            no_dontcache: AtomicBool::new(false),
            reads: Trial::new(proven),
            writes: Trial::new(proven),
        }
    }

    /// Of a file whose direct writes are known to be buffered.
    pub(super) fn of_buffered_writes(proven: bool) -> Residue {
        Residue { writes: Trial::buffered(), ..Residue::new(proven) }
    }

    /// The verdict on direct reads, or on direct writes.
    pub(super) fn trial(&self, kind: OpKind) -> &Trial {
        if kind == OpKind::Read { &self.reads } else { &self.writes }
    }

    /// Before a read or write that may leave pages: notes what is there. Returns the pages of the range where direct
    /// requests are on trial.
    pub(super) fn before(&self, os: &OsMedium, kind: OpKind, routing: Routing, range: &Range<u64>) -> Option<u64> {
        match routing.route {
            Route::Buffered if !routing.forget => None,
            Route::Buffered => {
                self.prepare(os);
                None
            }
            Route::Direct if !self.trial(kind).is_proven() => {
                self.prepare(os);
                pages_in(os, range)
            }
            Route::Direct => None,
        }
    }

    /// After a read or write of `count` bytes: notes what passed through the cache. True when enough has gathered to be
    /// dropped now.
    pub(super) fn after(
        &self,
        os: &OsMedium,
        kind: OpKind,
        routing: Routing,
        range: &Range<u64>,
        pages: Option<u64>,
        count: u64,
    ) -> bool {
        let (trial, is_write) = (self.trial(kind), kind != OpKind::Read);
        let mut came = false;
        if let (Some(before), true) = (pages, trial.is_open() && count > 0) {
            // A direct write evicts what was cached of its range: pages that are there now were written through.
            let before = if is_write { 0 } else { before };
            let after = pages_in(os, range).unwrap_or(before);
            came = trial.judge(Sight { before, after, all: pages_of(range) });
        }
        let passed = match routing.route {
            Route::Buffered => routing.forget,
            // Where the kernel may have buffered a write and dropped the pages itself, it keeps those in use at that moment.
            Route::Direct => came || trial.is_buffered() || is_write && trial.is_open(),
        };
        passed && self.touch(range.clone(), is_write)
    }

    /// The kernel has no `RWF_DONTCACHE` for this file: [`Residue::settle`] drops the pages instead.
    pub(super) fn no_dontcache(&self) {
        self.no_dontcache.store(true, Ordering::Relaxed);
    }

    /// Takes the picture of residency, once, before anything passes through the cache.
    pub(super) fn prepare(&self, medium: &OsMedium) {
        self.before.get_or_init(|| length_of(medium.any()).and_then(|len| Picture::take(medium.any(), len)).ok());
    }

    /// Notes that a range passed through the cache. True when enough has gathered to be dropped now.
    pub(super) fn touch(&self, range: Range<u64>, written: bool) -> bool {
        let mut touched = guard(&self.touched);
        touched.bytes += range.end - range.start;
        touched.written |= written;
        if !range.is_empty() {
            touched.add(range);
        }
        touched.bytes >= MOST_TOUCHED
    }

    /// Writes back what is dirty and drops what is ours.
    pub(super) fn settle(&self, medium: &OsMedium) -> Result<(), Errno> {
        let touched = std::mem::take(&mut *guard(&self.touched));
        if touched.ranges.is_empty() {
            return Ok(());
        }
        let fd =
            medium.descriptor(Route::Buffered).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        if touched.written {
            let hull = touched.ranges[0].start..touched.ranges[touched.ranges.len() - 1].end;
            write_back(fd, hull).map_err(|error| residency_errno(&error))?;
        }
        if let Some(Some(before)) = self.before.get() {
            for range in touched.ranges {
                // Pages that stay only cost memory: a refusal to drop them fails nothing.
                let _ = before.drop_new(fd, range);
            }
        }
        Ok(())
    }

    pub(super) fn dontcache(&self) -> bool {
        !self.no_dontcache.load(Ordering::Relaxed)
    }
}

fn residency_errno(error: &ResidencyError) -> Errno {
    match error {
        ResidencyError::System { source, .. } => Errno::from_io_error(source).unwrap_or(Errno::IO),
        _ => Errno::IO,
    }
}

/// Pages of a range in the cache, or `None` where that cannot be known.
fn pages_in(medium: &OsMedium, range: &Range<u64>) -> Option<u64> {
    dio_sys::cachestat(medium.any(), range.start, range.end - range.start).ok().map(|stat| stat.cache)
}

/// Whether direct I/O on this file system has to be seen to be believed.
pub(super) fn unproven(geometry: &Geometry) -> bool {
    geometry.directness() == crate::geometry::Directness::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_where_they_meet_and_bounded() {
        let mut touched = Touched::default();
        [40..50, 0..10, 20..30, 10..12, 25..41].into_iter().for_each(|range| touched.add(range));
        assert_eq!(touched.ranges, [0..12, 20..50]);
        touched.add(0..100);
        assert!(touched.ranges.len() == 1 && touched.ranges[0] == (0..100), "{:?}", touched.ranges);
        let mut many = Touched::default();
        // Gaps of 100, but one of 3.
        many.add(1..98);
        (1..=MOST_RANGES as u64).for_each(|at| many.add(at * 100 + 1..at * 100 + 2));
        assert_eq!(many.ranges.len(), MOST_RANGES);
        assert_eq!(many.ranges[0], 1..102);
        assert!(many.ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
    }
}
