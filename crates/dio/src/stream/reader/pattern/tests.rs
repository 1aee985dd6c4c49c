//! Tests of the recognition of access patterns.

use super::*;

const BOUNDS: ReadAheadBounds =
    ReadAheadBounds { unit: 512, min: 64 << 10, max: 8 << 20, request: 1 << 20 };
const SIZE: u64 = 1 << 30;

/// A consumer of a detector with unlimited memory.
struct Consumer {
    detector: PatternDetector,
    /// The requested ranges, in order.
    asked: Vec<Range<u64>>,
}

impl Consumer {
    fn new() -> Consumer {
        Consumer { detector: PatternDetector::new(BOUNDS), asked: Vec::new() }
    }

    fn holds(&self, at: u64) -> bool {
        self.asked.iter().any(|range| range.contains(&at))
    }

    /// Reads a run. True if its start had been requested.
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
    assert_eq!(consumer.detector.pattern(), AccessPattern::Forward);
    let reached = consumer.asked.last().unwrap().end;
    let runs_max = (16 << 20) + BOUNDS.max;
    assert!((runs_max - BOUNDS.request..=runs_max).contains(&reached), "{reached}");
    assert!(consumer.asked[25..].iter().all(|range| range.end - range.start == BOUNDS.request));
    assert!(
        consumer.asked.windows(2).all(|pair| pair[0].end == pair[1].start),
        "without gap or overlap"
    );
}

#[test]
fn backward_reading_grows_too() {
    let mut consumer = Consumer::new();
    let start = 512 << 20;
    let misses = (1..8192).filter(|step| !consumer.read(start - step * 4096, 4096)).count();
    assert!(misses <= 4, "{misses}");
    assert_eq!(consumer.detector.pattern(), AccessPattern::Backward);
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
        let offset_of_run = |step: i64| (SIZE / 2).checked_add_signed(step * stride).unwrap();
        let misses = (0..1000).filter(|step| !consumer.read(offset_of_run(*step), 5000)).count();
        assert!(misses <= 3, "{misses}");
        assert_eq!(consumer.detector.pattern(), AccessPattern::Strided { stride, len: 5000 });
        let ahead = (1000..1100).take_while(|step| consumer.holds(offset_of_run(*step))).count();
        assert!((32..=64).contains(&ahead), "{ahead} runs ahead");
        // Runs of 5000 bytes touch 5120 or 5632. The first is taken for the start of a stream.
        assert!(consumer.bytes() <= 1070 * 5632 + BOUNDS.min, "{}", consumer.bytes());
    }
}

#[test]
fn runs_close_together_are_read_as_one() {
    let mut consumer = Consumer::new();
    let misses = (0..5000).filter(|step| !consumer.read(step * 8192, 1000)).count();
    assert!(misses <= 6, "{misses}");
    assert_eq!(consumer.detector.pattern(), AccessPattern::Forward);
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
    // The consumer turns sequential, and the window grows again. It turns random, and reading
    // ahead stops.
    consumer.detector.begin(4096);
    let misses = (1..4096).filter(|step| !consumer.go_on(step * 4096, 4096)).count();
    assert!(misses <= 5, "{misses}");
    let (before, grown) = (consumer.bytes(), consumer.asked.last().unwrap().end);
    assert!(grown > (16 << 20) + BOUNDS.max / 8, "{grown}");
    read(&mut consumer, 5000, &mut numbers);
    // Now and then it reads near the place of the stream.
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

/// Whatever the consumer does, requests are valid, end, and stay in proportion to what it
/// reads.
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
        let runs_max = 4 * read + 400 * 1024 + BOUNDS.max;
        assert!(consumer.bytes() <= runs_max, "{} bytes asked for, {read} read", consumer.bytes());
    }
}
