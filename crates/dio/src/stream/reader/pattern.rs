//! Predicts where a consumer reads next from where it has read. This module only keeps records and
//! does no I/O.
//!
//! A *run* is what the consumer reads without a seek. How a run lies to earlier runs decides the
//! pattern:
//!
//! | the run begins | pattern | read ahead |
//! |---|---|---|
//! | where an earlier run ended, or a little behind | forward | once or twice what it has read |
//! | shortly before the last run, for the second time | backward | the same, downwards |
//! | at the distance that the last run had | strided | the next runs, twice as many each time |
//! | anywhere else | random | nothing |
//!
//! Read-ahead therefore never exceeds about twice what has proved useful, and a broken pattern
//! costs nothing from then on. Each forward stream is identified by the offset at which it ended,
//! as in ZFS (`dmu_zfetch`: streams that expire). Linux's `mm/readahead.c` keeps one window for an
//! open file.
//!
//! Examples, with `unit` 512, `min` 64 KiB, `max` 8 MiB and `request` 1 MiB:
//!
//! - Forward: reads of 4096 bytes from offset 0. The first read waits for a request of `min` = 64
//!   KiB. When the stream has read 1 MiB, its window is 2 MiB (twice as much), filled by requests
//!   of a quarter of it, 512 KiB. When it has read 4 MiB or more, the window is `max` = 8 MiB,
//!   filled by requests of 1 MiB.
//! - Strided: runs of 5000 bytes at 0, 256 KiB, 512 KiB. The run at 512 KiB is the first at the
//!   same distance as the run before it (`repeats` = 1): 2 runs behind it are read ahead. At 768
//!   KiB it is 4, then 8, up to 64. A run of 5000 bytes at a multiple of 512 is a request of 5120
//!   bytes.
//! - Backward: runs of 4096 bytes at 1,000,000 − 4096 · *n*, *n* = 0, 1, 2. Run 2 is the second
//!   that begins shortly before the one before it, so the pattern is backward. The window is twice
//!   the distance that run 2 is from run 0, but at least `min`.

use std::ops::Range;

use crate::geometry::{align_down, align_up};

/// Most streams that are told apart. A consumer can be expected to alternate between 64 of them.
/// Beyond this number the stream that was not used for longest is forgotten.
const STREAMS_MAX: usize = 96;

/// A gap of up to so many bytes is cheaper to read than to leave out: about what a disk transfers
/// in the time of one request.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// Most runs of a strided pattern that are read ahead.
const RUNS_AHEAD_MAX: u64 = 64;

/// A stream that was resumed keeps its share of the memory until this many times `max` bytes have
/// been read elsewhere.
const STREAM_LIFETIME: u64 = 16;

/// The limits of a detector, in bytes, multiples of `unit`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadAheadBounds {
    /// Requests are multiples of this power of two.
    pub(super) unit: u64,
    /// First request of a presumed stream.
    pub(super) min: u64,
    /// Most bytes read ahead, for all streams together.
    pub(super) max: u64,
    /// Largest single request.
    pub(super) request: u64,
}

/// What the consumer of a [`super::Reader`] does, as far as its reads show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccessPattern {
    /// Its reads predict nothing.
    Random,
    /// It continues where it, or an earlier run, ended.
    Forward,
    /// Each run lies shortly before the last.
    Backward,
    /// Runs of `len` bytes at equal distances.
    Strided {
        /// From the start of one run to the start of the next, in bytes.
        stride: i64,
        /// Bytes of each run.
        len: u64,
    },
}

/// A sequence of runs that continue each other.
#[derive(Clone, Copy, Debug)]
struct Stream {
    id: u32,
    /// Start and end of the latest run.
    start: u64,
    end: u64,
    /// Bytes read in order, in all runs.
    total: u64,
    /// The window before anything is proven.
    initial: u64,
    /// Everything from `end` up to here has been requested. Invariant: a multiple of the unit once
    /// anything was.
    reached: u64,
    returns: u32,
    /// When it was last used: the number of runs then, and of bytes that the consumer had read.
    tick: u64,
    clock: u64,
}

/// What the starts of the latest runs show.
#[derive(Clone, Copy, Debug, Default)]
struct RunHistory {
    id: u32,
    start: u64,
    /// Bytes of the run before the latest.
    len: u64,
    stride: i64,
    /// How many times the stride has repeated.
    repeats: u32,
    /// Runs in succession that each began shortly before the one before it; the start of the run
    /// before the first of them; and the offset down to which everything has been requested.
    descents: u32,
    origin: u64,
    floor: u64,
    /// Runs of the stride that have been requested, the present one included.
    asked: u64,
}

/// Records the reads of a consumer and predicts the next ones.
#[derive(Debug)]
pub(super) struct PatternDetector {
    bounds: ReadAheadBounds,
    streams: Vec<Stream>,
    /// Index of the stream of the present run. Invariant: valid once there is any.
    current: usize,
    history: RunHistory,
    pattern: AccessPattern,
    /// Streams other than the present one whose read-ahead is worth keeping.
    live: Vec<u32>,
    /// Most bytes read ahead for the present stream.
    share: u64,
    /// Offset up to which the consumer has announced that it will read.
    expected: u64,
    tick: u64,
    clock: u64,
    ids: u32,
}

impl PatternDetector {
    pub(super) fn new(bounds: ReadAheadBounds) -> PatternDetector {
        PatternDetector {
            bounds,
            streams: Vec::new(),
            current: 0,
            history: RunHistory::default(),
            pattern: AccessPattern::Random,
            live: Vec::new(),
            share: bounds.max,
            expected: 0,
            tick: 0,
            clock: 0,
            ids: 0,
        }
    }

    /// The pattern that the present run belongs to.
    pub(super) fn pattern(&self) -> AccessPattern {
        let proven = self.streams.get(self.current).is_some_and(|stream| stream.total > 0);
        if self.pattern == AccessPattern::Random && proven {
            AccessPattern::Forward
        } else {
            self.pattern
        }
    }

    /// Identifies the stream that blocks are read ahead for.
    pub(super) fn stream_id(&self) -> u32 {
        match self.pattern {
            AccessPattern::Backward | AccessPattern::Strided { .. } => self.history.id,
            _ => self.streams.get(self.current).map_or(0, |stream| stream.id),
        }
    }

    /// Other streams whose blocks are worth keeping.
    pub(super) fn live_streams(&self) -> &[u32] {
        &self.live
    }

    /// Must be called when a run begins: at the first read, or the first after a seek.
    pub(super) fn begin(&mut self, offset: u64) {
        let last = self.streams.get(self.current).map(|stream| stream.end - stream.start);
        // A consumer that has read a good deal in order will probably do so again elsewhere.
        let trusted = last.is_none_or(|len| len >= 4 * self.bounds.min);
        self.tick += 1;
        self.ids += 1;
        match last {
            Some(len) => self.history.add_run(offset, len, self.ids, self.bounds.unit),
            None => self.history = RunHistory { start: offset, ..RunHistory::default() },
        }
        let (exact, near) = self.find(offset);
        self.pattern = match (exact, near) {
            (Some(_), _) => AccessPattern::Forward,
            _ if self.history.descends() => AccessPattern::Backward,
            _ if self.history.repeats > 0 && self.history.is_far() => {
                AccessPattern::Strided { stride: self.history.stride, len: self.history.len }
            }
            (_, Some(_)) => AccessPattern::Forward,
            _ => AccessPattern::Random,
        };
        match exact.or(near).filter(|_| self.pattern == AccessPattern::Forward) {
            Some(index) => self.resume(index, offset),
            None => self.add(
                offset,
                if trusted && self.pattern == AccessPattern::Random { self.bounds.min } else { 0 },
            ),
        }
        self.expected = offset;
    }

    /// Finds the stream that ended at `offset`, and one that `offset` continues with a small gap or
    /// within what was read ahead. Counts the streams that share the memory.
    fn find(&mut self, offset: u64) -> (Option<usize>, Option<usize>) {
        let (mut exact, mut near) = (None, None);
        self.live.clear();
        for (index, stream) in self.streams.iter().enumerate() {
            let ahead = stream.reached > align_up(stream.end, self.bounds.unit);
            // Random reads begin near the end of some earlier run often enough, but hardly of the
            // last.
            let follows = offset > stream.end && offset - stream.end <= GAP_BYTES_MAX;
            let known = index == self.current || stream.returns > 0;
            if stream.end == offset {
                exact = Some(index);
            } else if follows && known
                || ahead
                    && (stream.end.saturating_sub(GAP_BYTES_MAX)..stream.reached).contains(&offset)
            {
                near = Some(index);
            }
            let patience = if stream.returns > 0 {
                STREAM_LIFETIME * self.bounds.max
            } else {
                self.bounds.max / 4
            };
            if ahead && self.clock - stream.clock <= patience && exact != Some(index) {
                self.live.push(stream.id);
            }
        }
        self.share = (self.bounds.max / (self.live.len() as u64 + 1)).max(self.bounds.min);
        (exact, near)
    }

    fn resume(&mut self, index: usize, offset: u64) {
        let stream = &mut self.streams[index];
        match offset.checked_sub(stream.end) {
            Some(gap) if gap <= GAP_BYTES_MAX => stream.total += gap,
            // It skips forward or goes back, so less of what is read ahead will be used.
            _ => (stream.total, stream.initial) = (stream.total.min(self.bounds.max) / 4, 0),
        }
        (stream.start, stream.end) = (offset, offset);
        stream.reached = stream.reached.max(align_down(offset, self.bounds.unit));
        stream.returns += 1;
        (stream.tick, stream.clock) = (self.tick, self.clock);
        self.current = index;
    }

    fn add(&mut self, offset: u64, initial: u64) {
        let reached = align_down(offset, self.bounds.unit);
        let (id, tick, clock) = (self.ids.wrapping_add(1 << 31), self.tick, self.clock);
        let stream = Stream {
            id,
            start: offset,
            end: offset,
            total: 0,
            initial,
            reached,
            returns: 0,
            tick,
            clock,
        };
        if self.streams.len() < STREAMS_MAX {
            self.current = self.streams.len();
            self.streams.push(stream);
        } else {
            let oldest = self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.tick);
            self.current = oldest.map_or(0, |(index, _)| index);
            self.streams[self.current] = stream;
        }
    }

    /// Must be called when the present run has come to `end`.
    pub(super) fn ran_to(&mut self, end: u64) {
        let Some(stream) = self.streams.get_mut(self.current) else { return };
        let more = end.saturating_sub(stream.end);
        self.clock += more;
        stream.total += more;
        stream.end = stream.end.max(end);
        stream.reached = stream.reached.max(align_down(end, self.bounds.unit));
        (stream.tick, stream.clock) = (self.tick, self.clock);
        // A run that goes on much longer than the others of its pattern is a stream of its own.
        let usual = match self.pattern {
            AccessPattern::Backward | AccessPattern::Strided { .. } => self.history.len,
            AccessPattern::Random | AccessPattern::Forward => return,
        };
        if stream.end - stream.start > 2 * usual.max(self.bounds.min) {
            self.pattern = AccessPattern::Forward;
        }
    }

    /// Must be called when the consumer announces that it will read up to `end`.
    pub(super) fn expect(&mut self, end: u64) {
        self.expected = end;
    }

    /// How many bytes from `position` a request should read for which the consumer waits. It wants
    /// `hint` bytes now.
    pub(super) fn demand(&self, position: u64, hint: u64) -> u64 {
        let likely = match self.pattern {
            AccessPattern::Strided { len, .. } => {
                (self.history.start + len).saturating_sub(position)
            }
            AccessPattern::Backward => 0,
            AccessPattern::Random | AccessPattern::Forward => {
                match self.streams.get(self.current) {
                    Some(stream) if stream.total == 0 => stream.initial,
                    _ => self.request_len(self.window()),
                }
            }
        };
        likely.max(hint)
    }

    /// Must be called when the consumer itself requested missing bytes, up to `end`. Blocks
    /// requested earlier have been dropped.
    pub(super) fn fetched(&mut self, end: u64) {
        self.history.floor =
            self.history.floor.max(align_down(self.history.start, self.bounds.unit));
        self.history.asked = self.history.asked.min(1);
        if let Some(stream) = self.streams.get_mut(self.current) {
            stream.reached = align_up(end, self.bounds.unit);
        }
    }

    /// How many bytes the present stream is worth reading ahead.
    fn window(&self) -> u64 {
        let Some(stream) = self.streams.get(self.current) else { return 0 };
        let proven = if stream.total >= self.bounds.min {
            stream.total.saturating_mul(2)
        } else {
            stream.total
        };
        proven.max(stream.initial).min(self.share)
    }

    /// Size of the requests that fill a window: several, unless the window is small.
    fn request_len(&self, window: u64) -> u64 {
        let request_len = (window / 4).clamp(self.bounds.min, self.bounds.request).min(window / 2);
        align_up(request_len, self.bounds.unit).max(self.bounds.unit)
    }

    /// The next range to read ahead in a file of `size` bytes, if any. The caller then reports by
    /// [`PatternDetector::asked`] that it was requested.
    pub(super) fn wanted(&self, size: u64) -> Option<Range<u64>> {
        match self.pattern {
            AccessPattern::Strided { stride, len } => self.wanted_stride(stride, len, size),
            AccessPattern::Backward => {
                let window = (self.history.origin - self.history.start).saturating_mul(2);
                let window = window.clamp(self.bounds.min, self.bounds.max);
                let (low, floor) = (self.history.start.saturating_sub(window), self.history.floor);
                let request_len = self.request_len(window).min(floor);
                let due = floor > 0 && floor - request_len >= align_down(low, self.bounds.unit);
                due.then(|| align_down(floor - request_len, self.bounds.unit)..floor)
            }
            AccessPattern::Random | AccessPattern::Forward => self.wanted_forward(size),
        }
    }

    fn wanted_forward(&self, size: u64) -> Option<Range<u64>> {
        let stream = self.streams.get(self.current)?;
        let size = align_up(size, self.bounds.unit);
        if stream.reached >= size {
            return None;
        }
        if stream.reached < self.expected {
            let end =
                align_up(self.expected, self.bounds.unit).min(stream.reached + self.bounds.request);
            return Some(stream.reached..end.min(size));
        }
        // Before the consumer has read anything, nothing is read beyond what it waits for.
        let window = if stream.total > 0 { self.window() } else { 0 };
        let target = align_up(stream.end.saturating_add(window), self.bounds.unit).min(size);
        let request_len = self.request_len(window).min(size - stream.reached);
        (window > 0 && target >= stream.reached + request_len)
            .then(|| stream.reached..stream.reached + request_len)
    }

    fn wanted_stride(&self, stride: i64, len: u64, size: u64) -> Option<Range<u64>> {
        let unit = self.bounds.unit;
        let runs_max = (self.bounds.max / align_up(len.max(1), unit)).clamp(1, RUNS_AHEAD_MAX);
        let due = 1u64.checked_shl(self.history.repeats).unwrap_or(RUNS_AHEAD_MAX).min(runs_max);
        if self.history.asked > due || len == 0 {
            return None;
        }
        let ahead = stride.checked_mul(self.history.asked as i64)?;
        let start = self.history.start.checked_add_signed(ahead).filter(|start| *start < size)?;
        Some(align_down(start, unit)..align_up(start + len, unit).min(align_up(size, unit)))
    }

    /// Must be called when a wanted range has been requested.
    pub(super) fn asked(&mut self, range: &Range<u64>) {
        match self.pattern {
            AccessPattern::Strided { .. } => self.history.asked += 1,
            AccessPattern::Backward => self.history.floor = range.start,
            AccessPattern::Random | AccessPattern::Forward => {
                self.streams[self.current].reached = range.end
            }
        }
    }
}

impl RunHistory {
    /// Must be called when a run begins at `offset`, after one of `len` bytes.
    fn add_run(&mut self, offset: u64, len: u64, id: u32, unit: u64) {
        let stride = offset.wrapping_sub(self.start).cast_signed();
        let repeats = stride == self.stride && stride != 0;
        let descends =
            offset < self.start && self.start - offset <= 4 * len.max(unit) + GAP_BYTES_MAX;
        if !(repeats || descends && self.descents > 0) {
            self.id = id;
        }
        self.repeats = if repeats { self.repeats + 1 } else { 0 };
        self.asked = if repeats { self.asked.saturating_sub(1) } else { 0 };
        self.len = len;
        let below = align_down(offset, unit);
        if !descends {
            self.descents = 0;
        } else if self.descents == 0 {
            (self.descents, self.origin, self.floor) = (1, self.start, below);
        } else {
            self.descents += 1;
            self.floor = self.floor.min(below);
        }
        (self.start, self.stride) = (offset, stride);
    }

    fn descends(&self) -> bool {
        self.descents >= 2
    }

    /// Whether it is better to read the runs one by one than to read everything between them too.
    fn is_far(&self) -> bool {
        self.stride.unsigned_abs() > self.len.saturating_add(GAP_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests;
