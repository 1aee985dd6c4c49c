//! Where a consumer reads next, judged by where it has read: pure bookkeeping without I/O.
//!
//! A *run* is what the consumer reads without a seek. What a run is to the runs before it says what follows:
//!
//! | the run begins | pattern | worth reading ahead |
//! |---|---|---|
//! | where an earlier run came to, or a little behind it | forward | as much again as the stream has read, or twice |
//! | shortly before the run before it, three times | backward | the same, downwards |
//! | as far from the run before it as that from its own, twice | strided | the next runs, twice as many each time |
//! | anywhere else | random | nothing |
//!
//! So what is read ahead never exceeds about twice what has proved useful, and a pattern that breaks costs nothing from
//! then on. Several forward streams are told apart by where each has come to, as ZFS does (`dmu_zfetch`: streams that
//! expire); Linux's `mm/readahead.c` keeps one window for an open file.

use std::ops::Range;

use crate::geometry::{align_down, align_up};

/// Streams that are told apart. More than the 64 that a consumer can be expected to hop between; past this the one that
/// was not used for longest is forgotten.
const STREAMS: usize = 96;

/// A gap that is cheaper to read than to leave out, in bytes: about what a disk transfers in the time of one request.
const GAP: u64 = 16 << 10;

/// Most runs of a strided pattern that are read ahead.
const MOST_RUNS: u64 = 64;

/// A stream that came back keeps its share of the memory for this many times `max` bytes read elsewhere.
const PATIENCE: u64 = 16;

/// The numbers that a detector works within, in bytes, multiples of `unit`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// What requests are multiples of; a power of two.
    pub(super) unit: u64,
    /// First request of what is taken for a stream.
    pub(super) min: u64,
    /// Most that is read ahead, of all streams together.
    pub(super) max: u64,
    /// Largest single request.
    pub(super) request: u64,
}

/// What the consumer of a [`super::Reader`] is doing, as far as its reads tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Nothing that says where it goes next.
    Random,
    /// On from where it, or an earlier run, came to.
    Forward,
    /// Runs each shortly before the last.
    Backward,
    /// Runs of `len` bytes at equal distances.
    Strided {
        /// From the start of one run to that of the next, in bytes.
        stride: i64,
        /// Bytes of each.
        len: u64,
    },
}

/// A place up to which the consumer has read, and may continue.
#[derive(Clone, Copy, Debug)]
struct Stream {
    id: u32,
    /// The latest run.
    start: u64,
    end: u64,
    /// Bytes read in order, in all runs.
    total: u64,
    /// Window to begin with: before anything is proven.
    initial: u64,
    /// Everything from `end` up to here has been asked for. A multiple of the unit once anything was.
    reached: u64,
    returns: u32,
    /// When it was last used: in runs, and in bytes of the consumer.
    tick: u64,
    clock: u64,
}

/// What the starts of the latest runs say.
#[derive(Clone, Copy, Debug, Default)]
struct Leaps {
    id: u32,
    start: u64,
    /// Bytes of the run before this.
    len: u64,
    stride: i64,
    /// How often the stride has repeated.
    repeats: u32,
    /// Runs in succession that began shortly before the one before them, where the first of them began, and down to
    /// where everything has been asked for.
    descents: u32,
    origin: u64,
    floor: u64,
    /// Runs of the stride asked for, the present one included.
    asked: u64,
}

/// Watches a consumer.
#[derive(Debug)]
pub(super) struct Detector {
    bounds: Bounds,
    streams: Vec<Stream>,
    /// Index of the stream that the present run belongs to. Invariant: valid once there is any.
    current: usize,
    leaps: Leaps,
    pattern: Pattern,
    /// Streams whose read-ahead is worth keeping, the present one aside.
    alive: Vec<u32>,
    /// Read-ahead memory that the present stream is entitled to.
    share: u64,
    /// Up to here the consumer has said that it will read.
    expected: u64,
    tick: u64,
    clock: u64,
    ids: u32,
}

impl Detector {
    pub(super) fn new(bounds: Bounds) -> Detector {
        Detector {
            bounds,
            streams: Vec::new(),
            current: 0,
            leaps: Leaps::default(),
            pattern: Pattern::Random,
            alive: Vec::new(),
            share: bounds.max,
            expected: 0,
            tick: 0,
            clock: 0,
            ids: 0,
        }
    }

    /// What the present run is part of.
    pub(super) fn pattern(&self) -> Pattern {
        let proven = self.streams.get(self.current).is_some_and(|stream| stream.total > 0);
        if self.pattern == Pattern::Random && proven { Pattern::Forward } else { self.pattern }
    }

    /// A number that tells what is read ahead for one stream from what is for another.
    pub(super) fn plan(&self) -> u32 {
        match self.pattern {
            Pattern::Backward | Pattern::Strided { .. } => self.leaps.id,
            _ => self.streams.get(self.current).map_or(0, |stream| stream.id),
        }
    }

    /// Plans whose blocks are worth keeping although the consumer is elsewhere.
    pub(super) fn others(&self) -> &[u32] {
        &self.alive
    }

    /// A run begins: the first read, or the first after a seek.
    pub(super) fn begin(&mut self, offset: u64) {
        let last = self.streams.get(self.current).map(|stream| stream.end - stream.start);
        // Who has read a good deal in order will probably do so again elsewhere.
        let trusted = last.is_none_or(|len| len >= 4 * self.bounds.min);
        self.tick += 1;
        self.ids += 1;
        match last {
            Some(len) => self.leaps.leap(offset, len, self.ids, self.bounds.unit),
            None => self.leaps = Leaps { start: offset, ..Leaps::default() },
        }
        let (exact, near) = self.find(offset);
        self.pattern = match (exact, near) {
            (Some(_), _) => Pattern::Forward,
            _ if self.leaps.descends() => Pattern::Backward,
            _ if self.leaps.repeats > 0 && self.leaps.is_far() => {
                Pattern::Strided { stride: self.leaps.stride, len: self.leaps.len }
            }
            (_, Some(_)) => Pattern::Forward,
            _ => Pattern::Random,
        };
        match exact.or(near).filter(|_| self.pattern == Pattern::Forward) {
            Some(index) => self.resume(index, offset),
            None => self.add(offset, if trusted && self.pattern == Pattern::Random { self.bounds.min } else { 0 }),
        }
        self.expected = offset;
    }

    /// The stream that came to `offset`, and one that it continues with a small gap or within what was read ahead. Counts
    /// the streams that share the memory.
    fn find(&mut self, offset: u64) -> (Option<usize>, Option<usize>) {
        let (mut exact, mut near) = (None, None);
        self.alive.clear();
        for (index, stream) in self.streams.iter().enumerate() {
            let ahead = stream.reached > align_up(stream.end, self.bounds.unit);
            // Random reads come near the end of some earlier one often enough, but hardly of the last.
            let follows = offset > stream.end && offset - stream.end <= GAP;
            let known = index == self.current || stream.returns > 0;
            if stream.end == offset {
                exact = Some(index);
            } else if follows && known || ahead && (stream.end.saturating_sub(GAP)..stream.reached).contains(&offset) {
                near = Some(index);
            }
            let patience = if stream.returns > 0 { PATIENCE * self.bounds.max } else { self.bounds.max / 4 };
            if ahead && self.clock - stream.clock <= patience && exact != Some(index) {
                self.alive.push(stream.id);
            }
        }
        self.share = (self.bounds.max / (self.alive.len() as u64 + 1)).max(self.bounds.min);
        (exact, near)
    }

    fn resume(&mut self, index: usize, offset: u64) {
        let stream = &mut self.streams[index];
        match offset.checked_sub(stream.end) {
            Some(gap) if gap <= GAP => stream.total += gap,
            // It skips, or goes back: less of what is read ahead will be of use.
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
        let stream = Stream { id, start: offset, end: offset, total: 0, initial, reached, returns: 0, tick, clock };
        if self.streams.len() < STREAMS {
            self.current = self.streams.len();
            self.streams.push(stream);
        } else {
            let oldest = self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.tick);
            self.current = oldest.map_or(0, |(index, _)| index);
            self.streams[self.current] = stream;
        }
    }

    /// The present run has come to `end`.
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
            Pattern::Backward | Pattern::Strided { .. } => self.leaps.len,
            Pattern::Random | Pattern::Forward => return,
        };
        if stream.end - stream.start > 2 * usual.max(self.bounds.min) {
            self.pattern = Pattern::Forward;
        }
    }

    /// The consumer will read up to `end`.
    pub(super) fn expect(&mut self, end: u64) {
        self.expected = end;
    }

    /// Bytes from `position` that a request should hold for which the consumer waits, which wants `hint` of them now.
    pub(super) fn demand(&self, position: u64, hint: u64) -> u64 {
        let likely = match self.pattern {
            Pattern::Strided { len, .. } => (self.leaps.start + len).saturating_sub(position),
            Pattern::Backward => 0,
            Pattern::Random | Pattern::Forward => match self.streams.get(self.current) {
                Some(stream) if stream.total == 0 => stream.initial,
                _ => self.piece(self.window()),
            },
        };
        likely.max(hint)
    }

    /// What is missing was asked for, up to `end`, by the consumer itself: what was asked for before has been dropped.
    pub(super) fn fetched(&mut self, end: u64) {
        self.leaps.floor = self.leaps.floor.max(align_down(self.leaps.start, self.bounds.unit));
        self.leaps.asked = self.leaps.asked.min(1);
        if let Some(stream) = self.streams.get_mut(self.current) {
            stream.reached = align_up(end, self.bounds.unit);
        }
    }

    /// How far the present stream is worth reading ahead.
    fn window(&self) -> u64 {
        let Some(stream) = self.streams.get(self.current) else { return 0 };
        let proven = if stream.total >= self.bounds.min { stream.total.saturating_mul(2) } else { stream.total };
        proven.max(stream.initial).min(self.share)
    }

    /// Size of the requests that fill a window: several, unless it is small.
    fn piece(&self, window: u64) -> u64 {
        let piece = (window / 4).clamp(self.bounds.min, self.bounds.request).min(window / 2);
        align_up(piece, self.bounds.unit).max(self.bounds.unit)
    }

    /// What to read ahead next, if anything, of a file of `size` bytes; [`Detector::asked`] says that it was done.
    pub(super) fn wanted(&self, size: u64) -> Option<Range<u64>> {
        match self.pattern {
            Pattern::Strided { stride, len } => self.wanted_stride(stride, len, size),
            Pattern::Backward => {
                let window = (self.leaps.origin - self.leaps.start).saturating_mul(2);
                let window = window.clamp(self.bounds.min, self.bounds.max);
                let (low, floor) = (self.leaps.start.saturating_sub(window), self.leaps.floor);
                let piece = self.piece(window).min(floor);
                let due = floor > 0 && floor - piece >= align_down(low, self.bounds.unit);
                due.then(|| align_down(floor - piece, self.bounds.unit)..floor)
            }
            Pattern::Random | Pattern::Forward => self.wanted_forward(size),
        }
    }

    fn wanted_forward(&self, size: u64) -> Option<Range<u64>> {
        let stream = self.streams.get(self.current)?;
        let size = align_up(size, self.bounds.unit);
        if stream.reached >= size {
            return None;
        }
        if stream.reached < self.expected {
            let end = align_up(self.expected, self.bounds.unit).min(stream.reached + self.bounds.request);
            return Some(stream.reached..end.min(size));
        }
        // Nothing beyond what the consumer waits for before it has read anything.
        let window = if stream.total > 0 { self.window() } else { 0 };
        let target = align_up(stream.end.saturating_add(window), self.bounds.unit).min(size);
        let piece = self.piece(window).min(size - stream.reached);
        (window > 0 && target >= stream.reached + piece).then(|| stream.reached..stream.reached + piece)
    }

    fn wanted_stride(&self, stride: i64, len: u64, size: u64) -> Option<Range<u64>> {
        let unit = self.bounds.unit;
        let most = (self.bounds.max / align_up(len.max(1), unit)).clamp(1, MOST_RUNS);
        let due = 1u64.checked_shl(self.leaps.repeats).unwrap_or(MOST_RUNS).min(most);
        if self.leaps.asked > due || len == 0 {
            return None;
        }
        let ahead = stride.checked_mul(self.leaps.asked as i64)?;
        let start = self.leaps.start.checked_add_signed(ahead).filter(|start| *start < size)?;
        Some(align_down(start, unit)..align_up(start + len, unit).min(align_up(size, unit)))
    }

    /// What was wanted has been asked for.
    pub(super) fn asked(&mut self, range: &Range<u64>) {
        match self.pattern {
            Pattern::Strided { .. } => self.leaps.asked += 1,
            Pattern::Backward => self.leaps.floor = range.start,
            Pattern::Random | Pattern::Forward => self.streams[self.current].reached = range.end,
        }
    }
}

impl Leaps {
    /// A run begins at `offset`, after one of `len` bytes.
    fn leap(&mut self, offset: u64, len: u64, id: u32, unit: u64) {
        let stride = offset.wrapping_sub(self.start).cast_signed();
        let repeats = stride == self.stride && stride != 0;
        let descends = offset < self.start && self.start - offset <= 4 * len.max(unit) + GAP;
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

    /// Whether reading the runs one by one is better than everything between them too.
    fn is_far(&self) -> bool {
        self.stride.unsigned_abs() > self.len.saturating_add(GAP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { unit: 512, min: 64 << 10, max: 8 << 20, request: 1 << 20 };
    const SIZE: u64 = 1 << 30;

    /// A consumer of a detector, with all the memory it may want.
    struct Consumer {
        detector: Detector,
        /// What was asked for, in order.
        asked: Vec<Range<u64>>,
    }

    impl Consumer {
        fn new() -> Consumer {
            Consumer { detector: Detector::new(BOUNDS), asked: Vec::new() }
        }

        fn holds(&self, at: u64) -> bool {
            self.asked.iter().any(|range| range.contains(&at))
        }

        /// Reads a run; true if its start had been asked for.
        fn read(&mut self, offset: u64, len: u64) -> bool {
            self.detector.begin(offset);
            self.go_on(offset, len)
        }

        fn go_on(&mut self, offset: u64, len: u64) -> bool {
            self.detector.expect(offset + len);
            let held = self.holds(offset);
            if !held {
                let end = offset + self.detector.demand(offset, len).min(BOUNDS.request);
                self.detector.fetched(end);
                self.asked.push(align_down(offset, 512)..align_up(end, 512));
            }
            self.ahead();
            self.detector.ran_to(offset + len);
            held
        }

        fn ahead(&mut self) -> u64 {
            let mut bytes = 0;
            while let Some(range) = self.detector.wanted(SIZE) {
                assert!(range.start < range.end && range.end <= SIZE, "{range:?}");
                assert!(range.start % 512 == 0 && range.end % 512 == 0, "{range:?}");
                bytes += range.end - range.start;
                self.detector.asked(&range);
                self.asked.push(range);
                assert!(bytes <= 2 * BOUNDS.max, "no end of reading ahead: {:?}", self.detector);
            }
            bytes
        }

        fn bytes(&self) -> u64 {
            self.asked.iter().map(|range| range.end - range.start).sum()
        }
    }

    #[test]
    fn forward_reading_grows_to_the_limit() {
        let mut consumer = Consumer::new();
        consumer.detector.begin(0);
        let misses = (0..4096).filter(|step| !consumer.go_on(step * 4096, 4096)).count();
        assert_eq!(misses, 1, "only the first request is waited for");
        assert_eq!(consumer.detector.pattern(), Pattern::Forward);
        let reached = consumer.asked.last().unwrap().end;
        let most = (16 << 20) + BOUNDS.max;
        assert!((most - BOUNDS.request..=most).contains(&reached), "{reached}");
        assert!(consumer.asked[25..].iter().all(|range| range.end - range.start == BOUNDS.request));
        assert!(consumer.asked.windows(2).all(|pair| pair[0].end == pair[1].start), "without gap or overlap");
    }

    #[test]
    fn backward_reading_grows_too() {
        let mut consumer = Consumer::new();
        let start = 512 << 20;
        let misses = (1..8192).filter(|step| !consumer.read(start - step * 4096, 4096)).count();
        assert!(misses <= 4, "{misses}");
        assert_eq!(consumer.detector.pattern(), Pattern::Backward);
        let lowest = consumer.asked.iter().map(|range| range.start).min().unwrap();
        let behind = start - 8191 * 4096 - lowest;
        assert!(behind > BOUNDS.max / 2 && behind <= BOUNDS.max, "{behind}");
        let overshoot = consumer.bytes() - 8191 * 4096;
        assert!(overshoot <= BOUNDS.max + BOUNDS.min, "{overshoot}");
    }

    #[test]
    fn backward_reading_ends_at_the_start() {
        let mut consumer = Consumer::new();
        (1..=1024).for_each(|step| {
            consumer.read((4 << 20) - step * 4096, 4096);
        });
        assert_eq!(consumer.asked.iter().map(|range| range.start).min(), Some(0));
        assert!(consumer.bytes() <= (4 << 20) + BOUNDS.min, "{}", consumer.bytes());
    }

    #[test]
    fn strides_are_read_run_by_run() {
        for stride in [256 << 10, -(256 << 10)] {
            let mut consumer = Consumer::new();
            let place = |step: i64| (SIZE / 2).checked_add_signed(step * stride).unwrap();
            let misses = (0..1000).filter(|step| !consumer.read(place(*step), 5000)).count();
            assert!(misses <= 3, "{misses}");
            assert_eq!(consumer.detector.pattern(), Pattern::Strided { stride, len: 5000 });
            let ahead = (1000..1100).take_while(|step| consumer.holds(place(*step))).count();
            assert!((32..=64).contains(&ahead), "{ahead} runs ahead");
            // Runs of 5000 bytes touch 5120 or 5632; the first is taken for the start of a stream.
            assert!(consumer.bytes() <= 1070 * 5632 + BOUNDS.min, "{}", consumer.bytes());
        }
    }

    #[test]
    fn runs_close_together_are_read_as_one() {
        let mut consumer = Consumer::new();
        let misses = (0..5000).filter(|step| !consumer.read(step * 8192, 1000)).count();
        assert!(misses <= 6, "{misses}");
        assert_eq!(consumer.detector.pattern(), Pattern::Forward);
    }

    #[test]
    fn random_reading_reads_nothing_in_vain() {
        let seed = dio_test::Seed::new();
        let mut numbers = seed.rng();
        let mut consumer = Consumer::new();
        let read = |consumer: &mut Consumer, count: u64, rng: &mut dio_test::Rng| {
            (0..count).for_each(|_| {
                consumer.read(rng.range(0..SIZE / 4096 - 1) * 4096, 4096);
            });
        };
        read(&mut consumer, 5000, &mut numbers);
        assert!(consumer.bytes() <= 5000 * 4096 * 101 / 100 + BOUNDS.min, "{}", consumer.bytes());
        // It turns sequential, and grows again; it turns random, and stops.
        consumer.detector.begin(4096);
        let misses = (1..4096).filter(|step| !consumer.go_on(step * 4096, 4096)).count();
        assert!(misses <= 5, "{misses}");
        let (before, grown) = (consumer.bytes(), consumer.asked.last().unwrap().end);
        assert!(grown > (16 << 20) + BOUNDS.max / 8, "{grown}");
        read(&mut consumer, 5000, &mut numbers);
        // Now and then it comes by where the stream was.
        assert!(consumer.bytes() - before <= 5000 * 4096 * 102 / 100 + BOUNDS.max);
    }

    #[test]
    fn sixty_four_streams_are_told_apart() {
        let mut consumer = Consumer::new();
        let step = 32 << 10;
        let mut late = 0;
        for round in 0..200 {
            for stream in 0..64 {
                let held = consumer.read(stream * (SIZE / 64) + round * step, step);
                late += u64::from(!held && round >= 8);
            }
        }
        assert_eq!(late, 0, "after the first rounds everything is there");
        let surplus = consumer.bytes() - 200 * 64 * step;
        assert!(surplus <= 2 * BOUNDS.max, "{surplus} bytes ahead of all streams");
    }

    /// Whatever the consumer does, requests are sane, end, and stay in proportion to what it reads.
    #[test]
    fn no_consumer_makes_it_read_much_more_than_it_does() {
        let seed = dio_test::Seed::new();
        for round in 0..50 {
            let mut rng = seed.stream(round);
            let mut consumer = Consumer::new();
            let (mut at, mut read) = (rng.range(0..SIZE / 2), 0);
            for _ in 0..400 {
                let len = rng.range(1..20_000);
                match rng.range(0..5) {
                    0 => at = rng.range(0..SIZE - 20_000),
                    1 => at = at.saturating_sub(2 * len),
                    2 => at = (at + rng.range(0..1 << 20)).min(SIZE - 20_000),
                    _ => {}
                }
                if at + len > SIZE {
                    at = 0;
                }
                consumer.read(at, len);
                at += len;
                read += len;
            }
            let most = 4 * read + 400 * 1024 + BOUNDS.max;
            assert!(consumer.bytes() <= most, "{} bytes asked for, {read} read", consumer.bytes());
        }
    }
}
