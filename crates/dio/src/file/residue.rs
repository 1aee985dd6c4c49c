//! Keeps the page cache as it was: pages that this file brought in are written back and dropped,
//! and pages that others had there stay. Also detects direct I/O that is not direct.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;

use super::error::errno_of;
use super::routing::Routing;
use super::trial::{DirectnessTrial, ResidencySample, pages_of};
use crate::engine::{Medium, OpKind, OsMedium, Route};
use crate::geometry::Geometry;
use crate::residency::{ResidencyError, ResidencySnapshot, length_of, write_back};

/// Bytes through the page cache after which they are dropped without waiting for a sync or close,
/// so that a long transfer never occupies more.
const TOUCHED_BYTES_MAX: u64 = 16 << 20;

/// What one file of the system left in the page cache, and how its direct requests turned out.
#[derive(Debug)]
pub(super) struct Residue {
    /// The resident pages before the first byte passed through the page cache. `None` if the kernel
    /// hides them (a file of another user: EPERM); then nothing may be evicted.
    snapshot: OnceLock<Option<ResidencySnapshot>>,
    touched: Mutex<TouchedRanges>,
    /// Whether the kernel refused `RWF_DONTCACHE` for this file.
    no_dontcache: AtomicBool,
    reads: DirectnessTrial,
    writes: DirectnessTrial,
}

/// Most separate ranges that are kept. Beyond them the closest two become one, which may evict
/// pages that others loaded in between.
const RANGES_MAX: usize = 256;

#[derive(Debug, Default)]
struct TouchedRanges {
    /// Ranges of bytes. Invariant: sorted, disjoint, none empty.
    ranges: Vec<Range<u64>>,
    bytes: u64,
    written: bool,
}

impl TouchedRanges {
    fn add(&mut self, range: Range<u64>) {
        let first = self.ranges.partition_point(|known| known.end < range.start);
        let last = self.ranges.partition_point(|known| known.start <= range.end);
        let joined = self.ranges[first..last]
            .iter()
            .fold(range, |a, b| a.start.min(b.start)..a.end.max(b.end));
        self.ranges.splice(first..last, [joined]);
        if self.ranges.len() > RANGES_MAX {
            let gap = |at: &usize| self.ranges[at + 1].start - self.ranges[*at].end;
            let closest = (0..self.ranges.len() - 1).min_by_key(gap).expect("there are several");
            let end = self.ranges.remove(closest + 1).end;
            self.ranges[closest].end = end;
        }
    }
}

impl Residue {
    /// `proven` says that the kernel reports directness, so that no trial is needed.
    pub(super) fn new(proven: bool) -> Residue {
        Residue {
            snapshot: OnceLock::new(),
            touched: Mutex::default(),
            no_dontcache: AtomicBool::new(false),
            reads: DirectnessTrial::new(proven),
            writes: DirectnessTrial::new(proven),
        }
    }

    /// For a file whose direct writes are known to be buffered.
    pub(super) fn of_buffered_writes(proven: bool) -> Residue {
        Residue { writes: DirectnessTrial::buffered(), ..Residue::new(proven) }
    }

    /// The trial of direct reads, or of direct writes.
    pub(super) fn trial(&self, kind: OpKind) -> &DirectnessTrial {
        if kind == OpKind::Read { &self.reads } else { &self.writes }
    }

    /// Must be called before a read or write that may leave pages in the page cache. Returns the
    /// number of resident pages of the range while direct requests are on trial.
    pub(super) fn before_request(
        &self,
        os: &OsMedium,
        kind: OpKind,
        routing: Routing,
        range: &Range<u64>,
    ) -> Option<u64> {
        match routing.route {
            Route::Buffered if !routing.drop_pages => None,
            Route::Buffered => {
                self.take_snapshot(os);
                None
            }
            Route::Direct if !self.trial(kind).is_proven() => {
                self.take_snapshot(os);
                pages_in(os, range)
            }
            Route::Direct => None,
        }
    }

    /// Must be called after a read or write of `count` bytes. Records what passed through the page
    /// cache. True when enough has gathered to be dropped now.
    pub(super) fn after_request(
        &self,
        os: &OsMedium,
        kind: OpKind,
        routing: Routing,
        range: &Range<u64>,
        resident_before: Option<u64>,
        count: u64,
    ) -> bool {
        let (trial, is_write) = (self.trial(kind), kind != OpKind::Read);
        let mut pages_came = false;
        if let (Some(before), true) = (resident_before, trial.is_open() && count > 0) {
            // A direct write evicts the cached pages of its range, so pages that are there now were
            // written through the page cache.
            let before = if is_write { 0 } else { before };
            let after = pages_in(os, range).unwrap_or(before);
            pages_came = trial.record(ResidencySample { before, after, all: pages_of(range) });
        }
        let passed_cache = match routing.route {
            Route::Buffered => routing.drop_pages,
            // Where the kernel may have buffered a write and dropped the pages itself, it has kept
            // pages that were in use at that moment.
            Route::Direct => pages_came || trial.is_buffered() || is_write && trial.is_open(),
        };
        passed_cache && self.touch(range.clone(), is_write)
    }

    /// Records that the kernel has no `RWF_DONTCACHE` for this file. [`Residue::settle`] drops the
    /// pages instead.
    pub(super) fn no_dontcache(&self) {
        self.no_dontcache.store(true, Ordering::Relaxed);
    }

    /// Takes the snapshot of residency, once, before anything passes through the page cache.
    pub(super) fn take_snapshot(&self, medium: &OsMedium) {
        self.snapshot.get_or_init(|| {
            length_of(medium.any()).and_then(|len| ResidencySnapshot::take(medium.any(), len)).ok()
        });
    }

    /// Records that a range passed through the page cache. True when enough has gathered to be
    /// dropped now.
    pub(super) fn touch(&self, range: Range<u64>, written: bool) -> bool {
        let mut touched = self.touched.lock();
        touched.bytes += range.end - range.start;
        touched.written |= written;
        if !range.is_empty() {
            touched.add(range);
        }
        touched.bytes >= TOUCHED_BYTES_MAX
    }

    /// Writes back dirty pages and drops the pages that this file brought in.
    pub(super) fn settle(&self, medium: &OsMedium) -> Result<(), Errno> {
        let touched = std::mem::take(&mut *self.touched.lock());
        if touched.ranges.is_empty() {
            return Ok(());
        }
        let fd = medium.descriptor(Route::Buffered).map_err(|error| errno_of(&error))?;
        if touched.written {
            let hull = touched.ranges[0].start..touched.ranges[touched.ranges.len() - 1].end;
            write_back(fd, hull).map_err(|error| residency_errno(&error))?;
        }
        if let Some(Some(before)) = self.snapshot.get() {
            for range in touched.ranges {
                // Pages that stay only cost memory, so a refusal to drop them fails nothing.
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

/// Number of resident pages of a range; `None` if it cannot be found out.
fn pages_in(medium: &OsMedium, range: &Range<u64>) -> Option<u64> {
    dio_sys::cachestat(medium.any(), range.start, range.end - range.start)
        .ok()
        .map(|stat| stat.cache)
}

/// Whether the resident pages must show if direct I/O on this file system is direct.
pub(super) fn needs_trial(geometry: &Geometry) -> bool {
    geometry.directness() == crate::geometry::Directness::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_where_they_meet_and_bounded() {
        let mut touched = TouchedRanges::default();
        [40..50, 0..10, 20..30, 10..12, 25..41].into_iter().for_each(|range| touched.add(range));
        assert_eq!(touched.ranges, [0..12, 20..50]);
        touched.add(0..100);
        assert!(touched.ranges.len() == 1 && touched.ranges[0] == (0..100), "{:?}", touched.ranges);
        let mut many = TouchedRanges::default();
        // The gaps are of 100 bytes, but for one of 3.
        many.add(1..98);
        (1..=RANGES_MAX as u64).for_each(|at| many.add(at * 100 + 1..at * 100 + 2));
        assert_eq!(many.ranges.len(), RANGES_MAX);
        assert_eq!(many.ranges[0], 1..102);
        assert!(many.ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
    }
}
