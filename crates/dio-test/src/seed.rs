//! Random numbers that can be repeated.

use std::cell::Cell;
use std::ops::Range;
use std::panic::Location;
use std::time::{SystemTime, UNIX_EPOCH};

/// The seed of one random test.
///
/// When the test panics while it holds the seed, the seed is printed with the way to repeat it.
#[derive(Debug)]
pub struct Seed(u64);

impl Seed {
    /// The seed in `DIO_SEED` (decimal or `0x…`). Otherwise a new one if the run searches for
    /// unknown failures (`DIO_SOAK_SECONDS`, set by `cargo xtask soak`), else one that is the same
    /// in each run of the test.
    ///
    /// So whether a change passes does not depend on luck.
    ///
    /// # Panics
    /// When `DIO_SEED` is not a number.
    #[must_use]
    #[track_caller]
    pub fn new() -> Seed {
        match std::env::var("DIO_SEED") {
            Ok(text) => Seed(parse(&text).unwrap_or_else(|| panic!("DIO_SEED={text}: no number"))),
            Err(_) if std::env::var_os("DIO_SOAK_SECONDS").is_some() => Seed(from_clock()),
            Err(_) => Seed(of_caller(Location::caller())),
        }
    }

    /// A fixed seed, for tests that must run the same way every time.
    #[must_use]
    pub const fn fixed(value: u64) -> Seed {
        Seed(value)
    }

    /// The seed as a number.
    #[must_use]
    pub const fn value(&self) -> u64 {
        self.0
    }

    /// A generator that starts from this seed.
    #[must_use]
    pub const fn rng(&self) -> Rng {
        Rng::new(self.0)
    }

    /// The generator of one of several streams, for example of threads, which must differ from each
    /// other.
    #[must_use]
    pub fn stream(&self, number: u64) -> Rng {
        Rng::new(Rng::new(self.0 ^ number.wrapping_mul(GOLDEN)).next_u64())
    }
}

impl Default for Seed {
    fn default() -> Seed {
        Seed::new()
    }
}

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The test harness captures this message and shows it with the failed test.
            eprintln!("the seed was {0:#x}; repeat with DIO_SEED={0:#x}", self.0);
        }
    }
}

fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The next seed of this test. It depends on the test's file (not on the line, which moves), on the
/// name of its thread, and on the number of seeds that the thread had before.
fn of_caller(caller: &Location) -> u64 {
    /// The prime of the 64-bit hash by Fowler, Noll and Vo.
    const PRIME: u64 = 0x0100_0000_01b3;
    thread_local!(static BEFORE: Cell<u64> = const { Cell::new(0) });
    let before = BEFORE.replace(BEFORE.get() + 1);
    let thread = std::thread::current();
    let names = caller.file().bytes().chain(thread.name().unwrap_or_default().bytes());
    let start = names.fold(before, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(PRIME));
    Rng::new(start).next_u64()
}

fn from_clock() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    // Two tests of one process may read the same time; the addresses of their stacks differ.
    let here = std::ptr::from_ref(&now).addr() as u64;
    Rng::new(now as u64 ^ here.rotate_left(32)).next_u64()
}

/// 2⁶⁴ divided by the golden ratio, made odd: the step of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014,
/// with the constants of Vigna's reference version. Period 2⁶⁴; for tests, not for secrets.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator with this state; equal seeds give equal sequences.
    #[must_use]
    pub const fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of `range`, each about equally likely (the bias is below length / 2⁶⁴).
    ///
    /// # Panics
    /// When the range is empty.
    #[track_caller]
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        assert!(range.start < range.end, "an empty range has no number: {range:?}");
        let length = u128::from(range.end - range.start);
        range.start + ((u128::from(self.next_u64()) * length) >> 64) as u64
    }

    /// Like [`Rng::range`], for sizes and indices.
    #[track_caller]
    pub fn range_usize(&mut self, range: Range<usize>) -> usize {
        self.range(range.start as u64..range.end as u64) as usize
    }

    /// True with probability `p`, which is 0.0 (never) to 1.0 (always).
    pub fn bool(&mut self, p: f64) -> bool {
        // 53 bits are what an f64 holds exactly, so the quotient is below 1.0.
        ((self.next_u64() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.range_usize(0..choices.len())]
    }

    /// Fills `buffer` with bytes that do not compress.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }

    /// `length` bytes that do not compress.
    #[must_use]
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.fill(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First numbers of the published reference version for seed 1234567.
    #[test]
    fn the_sequence_is_that_of_the_reference() {
        let mut rng = Rng::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
        ];
        assert_eq!(expected.map(|_| rng.next_u64()), expected);
    }

    #[test]
    fn ranges_reach_both_ends_and_stay_inside() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 5];
        for _ in 0..1000 {
            seen[rng.range_usize(0..5)] = true;
            assert!((10..13).contains(&rng.range(10..13)));
        }
        assert_eq!(seen, [true; 5]);
        assert_eq!(rng.range(u64::MAX - 1..u64::MAX), u64::MAX - 1);
    }

    #[test]
    fn chances_are_kept() {
        let mut rng = Rng::new(2);
        let hits = (0..10_000).filter(|_| rng.bool(0.25)).count();
        assert!((2300..2700).contains(&hits), "{hits} of 10000 at p = 0.25");
        assert!((0..1000).all(|_| rng.bool(1.0) && !rng.bool(0.0)));
    }

    #[test]
    fn bytes_fill_odd_lengths_and_use_every_value() {
        let mut rng = Rng::new(3);
        let bytes = rng.bytes(65_537);
        assert_eq!(bytes.len(), 65_537);
        let mut counts = [0u32; 256];
        bytes.iter().for_each(|b| counts[usize::from(*b)] += 1);
        assert!(counts.iter().all(|c| (160..=360).contains(c)), "{counts:?}");
    }

    #[test]
    fn streams_differ_and_repeat() {
        let seed = Seed::fixed(7);
        assert_ne!(seed.stream(0).next_u64(), seed.stream(1).next_u64());
        assert_eq!(seed.stream(1).next_u64(), Seed::fixed(7).stream(1).next_u64());
    }

    #[test]
    fn an_ordinary_run_has_the_same_seeds_each_time() {
        if ["DIO_SEED", "DIO_SOAK_SECONDS"].iter().any(|name| std::env::var_os(name).is_some()) {
            return;
        }
        let run = |test: &str| {
            let three = || [(); 3].map(|()| Seed::new().value());
            std::thread::Builder::new().name(test.to_owned()).spawn(three).unwrap().join().unwrap()
        };
        let seeds = run("a test");
        assert_eq!(run("a test"), seeds);
        assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2]);
        assert!(run("another test").iter().all(|seed| !seeds.contains(seed)));
    }

    #[test]
    fn seeds_are_read_in_both_bases() {
        assert_eq!(parse("0xff"), Some(255));
        assert_eq!(parse("255"), Some(255));
        assert_eq!(parse("ff"), None);
    }
}
