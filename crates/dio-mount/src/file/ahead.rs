//! Reading ahead: bytes that a program reads in order are in memory, or being read, when it
//! requests them.
//!
//! A handle has a few streams, distinguished by the offset that each has reached. The server reads
//! ahead of a stream by twice the bytes that the stream has read, within the bounds of the
//! settings. So the bytes read in vain stay in proportion to those that were useful. The bytes are
//! used only while nothing of their range changes through this mount and no attributes show that
//! the source has changed. If no request reads the attributes, a change beside the mount shows
//! after [`FRESH`].

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use dio::File;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::behind::OpenTarget;
use super::changes::Watch;
use super::descriptors::Descriptors;
use super::freshness::Signature;
use super::inode::Inode;
use super::memory::{Chunk, LARGE, SIZES};
use crate::stats::{Event, FileStats};

/// How old read-ahead bytes may become, counted from when their read began, so that changes beside
/// the mount show. Bytes that a slow disk takes longer to deliver may be used for as long after
/// their arrival, if the attributes are those from before the read.
const FRESH: Duration = Duration::from_secs(1);

/// Most streams of a handle.
const STREAMS: usize = 8;

/// Bytes that a stream may leave out, or by which its requests may arrive out of order: threads
/// that share a handle, and the kernel's own read-ahead, do not request bytes in order.
const SLACK: u64 = 2 << 20;

/// Smallest and largest request, in bytes.
const REQUEST: (u64, u64) = (64 << 10, SIZES[LARGE] as u64);

/// The read-ahead of a handle.
#[derive(Debug, Default)]
pub(super) struct Ahead(Mutex<ReadStreams>);

#[derive(Debug, Default)]
struct ReadStreams {
    streams: Vec<Stream>,
    pieces: Vec<Arc<AheadPiece>>,
    /// Number of reads so far.
    clock: u64,
}

/// A sequence of reads in order.
#[derive(Clone, Copy, Debug)]
struct Stream {
    start: u64,
    next: u64,
    used: u64,
}

impl Stream {
    fn is_continued_by(&self, range: &Range<u64>) -> bool {
        let proven = self.next - self.start >= SLACK;
        let slack = if proven { SLACK } else { 0 };
        (self.next.saturating_sub(slack)..=self.next + slack).contains(&range.start)
    }
}

/// Bytes that were read, or are being read.
#[derive(Debug)]
pub(super) struct AheadPiece {
    range: Range<u64>,
    watch: Watch,
    descriptors: Arc<Descriptors>,
    figures: Arc<FileStats>,
    memory: Mutex<Option<Chunk>>,
    /// `None` if the read failed: a request for the bytes then reads them again and gets the error.
    fetched: OnceLock<Option<Fetched>>,
    done: Condvar,
    waiting: Mutex<()>,
    used: AtomicBool,
}

#[derive(Debug)]
struct Fetched {
    chunk: Chunk,
    len: usize,
    /// When the read began and when it ended.
    began: Instant,
    ended: Instant,
    /// The attributes of the source before the read.
    before: Option<Signature>,
}

impl Fetched {
    /// Whether the bytes are not too old, as far as that is known without reading attributes.
    fn may_be_fresh(&self) -> bool {
        self.ended.elapsed() <= FRESH
    }
}

impl AheadPiece {
    /// Reads the bytes, unless no other thread or handle refers to the piece any more.
    fn fetch(self: &Arc<Self>, file: &File) {
        let chunk = self.memory.lock().take();
        let wanted = Arc::strong_count(self) > 1;
        let fetched = chunk.filter(|_| wanted).and_then(|mut chunk| {
            let len = (self.range.end - self.range.start) as usize;
            let (began, before) = (Instant::now(), self.signature());
            let len = file.read_at(&mut chunk.bytes_mut()[..len], self.range.start).ok()?;
            Some(Fetched { chunk, len, began, ended: Instant::now(), before })
        });
        self.figures
            .count(Event::ReadAhead, fetched.as_ref().map_or(0, |fetched| fetched.len as u64));
        let waiting = self.waiting.lock();
        let _ = self.fetched.set(fetched);
        drop(waiting);
        self.done.notify_all();
    }

    fn wait(&self) -> Option<&Fetched> {
        if let Some(fetched) = self.fetched.get() {
            return fetched.as_ref();
        }
        self.figures.on_device(|| {
            let mut waiting = self.waiting.lock();
            while self.fetched.get().is_none() {
                self.done.wait(&mut waiting);
            }
        });
        self.fetched.get().and_then(Option::as_ref)
    }

    /// Waits for the piece, and returns its bytes from the start of the range on, and whether the
    /// file ends after them. Returns `None` if the bytes are no longer those of the file, or if the
    /// piece does not hold the start of the range.
    pub(super) fn get(&self, range: &Range<u64>) -> Option<(&[u8], bool)> {
        let fetched = self.wait()?;
        if !self.holds(fetched) || self.watch.has_changed(&self.range) {
            return None;
        }
        let end = self.range.start + fetched.len as u64;
        let upto = end.min(range.end);
        if range.start < self.range.start || range.start >= upto {
            return None;
        }
        self.used.store(true, Ordering::Relaxed);
        let bytes = &fetched.chunk.bytes()
            [(range.start - self.range.start) as usize..(upto - self.range.start) as usize];
        Some((bytes, upto < range.end && end < self.range.end))
    }

    fn signature(&self) -> Option<Signature> {
        Signature::now(self.descriptors.base()).ok()
    }

    /// Whether the bytes are still those of the file, with regard to changes beside the mount.
    fn holds(&self, fetched: &Fetched) -> bool {
        let young = fetched.began.elapsed() <= FRESH;
        young
            || fetched.may_be_fresh()
                && fetched.before.is_some()
                && fetched.before == self.signature()
    }

    /// Whether the piece may still be of use.
    fn is_fresh(&self) -> bool {
        match self.fetched.get() {
            None => true,
            Some(None) => false,
            Some(Some(fetched)) => fetched.may_be_fresh(),
        }
    }

    fn is_there(&self) -> bool {
        self.fetched.get().is_some()
    }
}

impl Drop for AheadPiece {
    fn drop(&mut self) {
        if let Some(Some(fetched)) = self.fetched.get()
            && !*self.used.get_mut()
        {
            self.figures.count(Event::ReadAheadWaste, fetched.len as u64);
        }
    }
}

impl ReadStreams {
    /// Notes a read. Returns how many bytes after it are worth reading ahead.
    fn note(&mut self, range: &Range<u64>, (min, max): (u64, u64)) -> u64 {
        self.clock += 1;
        let first = self.clock == 1;
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.is_continued_by(range)) {
            stream.next = stream.next.max(range.end);
            stream.used = self.clock;
            return (stream.next - stream.start).saturating_mul(2).clamp(min.min(max), max);
        }
        if self.streams.len() == STREAMS {
            let oldest = (0..STREAMS).min_by_key(|index| self.streams[*index].used).unwrap_or(0);
            self.streams.swap_remove(oldest);
        }
        self.streams.push(Stream { start: range.start, next: range.end, used: self.clock });
        // Most programs that begin at the start of a file continue in order.
        if first && range.start == 0 { min.min(max) } else { 0 }
    }

    fn holding(&self, at: u64) -> Option<&Arc<AheadPiece>> {
        self.pieces.iter().find(|piece| piece.range.contains(&at))
    }

    /// Returns the end of the bytes that the pieces hold without a gap from `at` on.
    fn reach(&self, mut at: u64) -> u64 {
        while let Some(piece) = self.holding(at) {
            at = piece.range.end;
        }
        at
    }

    fn covering(&self, range: &Range<u64>) -> Vec<Arc<AheadPiece>> {
        let mut pieces = Vec::new();
        let mut at = range.start;
        while at < range.end
            && let Some(piece) = self.holding(at)
        {
            at = piece.range.end;
            pieces.push(Arc::clone(piece));
        }
        pieces
    }
}

/// Size of the requests that fill a window, a power of two.
fn request(window: u64) -> u64 {
    let wanted = (window / 4).clamp(REQUEST.0, REQUEST.1);
    1 << wanted.ilog2()
}

impl Ahead {
    fn state(&self) -> MutexGuard<'_, ReadStreams> {
        self.0.lock()
    }

    /// Whether a read of the range would continue a stream.
    pub(super) fn is_stream(&self, range: &Range<u64>) -> bool {
        self.state().streams.iter().any(|stream| stream.is_continued_by(range))
    }

    /// Notes a read without reading ahead.
    pub(super) fn note(&self, range: &Range<u64>) {
        self.state().note(range, (0, 0));
    }

    /// Returns the pieces of the range that a program reads, in order and without a gap from its
    /// start, and starts to read the bytes that the program will read next. The caller reads the
    /// missing part of the range, unless this thread has just done so.
    pub(super) fn pieces(
        &self,
        inode: &Inode,
        from: &OpenTarget,
        range: &Range<u64>,
    ) -> Vec<Arc<AheadPiece>> {
        let file = &from.file;
        let (min, max) = inode.common.live.get().read_ahead;
        let paced = inode.common.throttle.read_ahead_max();
        // Larger requests are read-ahead already, the kernel's. What is read ahead of them would
        // be too old when programs that are slowed down ask for it.
        let paced = if range.end - range.start < paced { paced } else { 0 };
        let limits = (min, max.min(paced));
        let mut state = self.state();
        let window = state.note(range, limits);
        let next = range.end;
        state.pieces.retain(|piece| {
            // The last [`SLACK`] bytes stay for reads that arrive late.
            let passed = piece.range.end + SLACK <= next && piece.is_there();
            !passed && piece.is_fresh() && !piece.watch.has_changed(&piece.range)
        });
        let reached = state.reach(range.start);
        let request = request(window);
        if window == 0
            || reached >= range.end.saturating_add(window).saturating_sub(request)
                && reached >= range.end
        {
            return state.covering(range);
        }
        let unit = file.block_align().max(4096);
        let end = file.size().unwrap_or(0).next_multiple_of(unit);
        let mut mine = None;
        let mut at = reached - reached % unit;
        if at < range.end && range.end - at < request && at < end {
            // This thread needs these bytes at once, so it reads them itself, and a little more.
            mine = piece(
                inode,
                &from.descriptors,
                at..boundary(at, request).max(range.end.next_multiple_of(unit)).min(end),
                &mut at,
            );
            state.pieces.extend(mine.clone());
        } else {
            at = at.max(range.end - range.end % unit);
        }
        let target = range.end.saturating_add(window).min(end);
        while at < target {
            let Some(piece) =
                piece(inode, &from.descriptors, at..boundary(at, request).min(end), &mut at)
            else {
                break;
            };
            let (fetching, file) = (Arc::clone(&piece), Arc::clone(file));
            if !inode.common.crew.run(false, move || fetching.fetch(&file)) {
                break;
            }
            state.pieces.push(piece);
        }
        let pieces = state.covering(range);
        drop(state);
        if let Some(piece) = mine {
            inode.about.figures.on_device(|| piece.fetch(file));
        }
        pieces
    }

    /// Drops pieces that are too old; returns true while any are left.
    pub(super) fn tidy(&self) -> bool {
        let mut state = self.state();
        state.pieces.retain(|piece| piece.is_fresh());
        !state.pieces.is_empty()
    }
}

/// Returns the end of a request that starts at `at`: the next multiple of its size, so that the
/// requests become aligned.
fn boundary(at: u64, request: u64) -> u64 {
    (at + 1).next_multiple_of(request)
}

/// Creates a piece to be read, if there is memory for it, and moves `at` to its end.
fn piece(
    inode: &Inode,
    descriptors: &Arc<Descriptors>,
    range: Range<u64>,
    at: &mut u64,
) -> Option<Arc<AheadPiece>> {
    let range = range.start..range.end.min(range.start + REQUEST.1);
    let chunk = inode.memory((range.end - range.start) as usize)?;
    inode.common.janitor.wake_if_idle();
    *at = range.end;
    Some(Arc::new(AheadPiece {
        range,
        watch: inode.changes.watch(),
        descriptors: Arc::clone(descriptors),
        figures: Arc::clone(&inode.about.figures),
        memory: Mutex::new(Some(chunk)),
        fetched: OnceLock::new(),
        done: Condvar::new(),
        waiting: Mutex::new(()),
        used: AtomicBool::new(false),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(reads: impl IntoIterator<Item = Range<u64>>) -> Vec<u64> {
        let mut state = ReadStreams::default();
        reads.into_iter().map(|range| state.note(&range, (64 << 10, 8 << 20))).collect()
    }

    #[test]
    fn the_window_grows_with_what_was_read_in_order() {
        let found = windows((0..4096).map(|step| step * 4096..(step + 1) * 4096));
        assert_eq!(found[0], 64 << 10, "whoever begins at the beginning is given credit");
        assert!(found.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(found[1023], 8 << 20);
        assert_eq!(*found.last().unwrap(), 8 << 20);
    }

    #[test]
    fn random_reads_have_no_window() {
        let mut rng = dio_test::Seed::new().rng();
        let mut at = || rng.range(1..1 << 30) * 4096;
        let found = windows((0..1000).map(|_| at()).map(|at| at..at + 4096));
        assert!(found.iter().all(|window| *window == 0));
    }

    #[test]
    fn interleaved_streams_are_told_apart() {
        let reads =
            (0..100).flat_map(|step| (1..=4u64).map(move |stream| (stream << 30) + step * 8192));
        let found = windows(reads.map(|at| at..at + 8192));
        assert!(found[4..].iter().all(|window| *window >= 64 << 10));
    }

    #[test]
    fn requests_come_to_be_aligned() {
        assert_eq!(
            [request(0), request(1 << 20), request(8 << 20), request(u64::MAX)],
            [64 << 10, 256 << 10, 1 << 20, 1 << 20]
        );
        assert_eq!(
            [boundary(0, 1 << 20), boundary(4096, 1 << 20), boundary(1 << 20, 1 << 20)],
            [1 << 20, 1 << 20, 2 << 20]
        );
    }
}
