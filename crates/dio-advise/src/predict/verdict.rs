//! Which way is advised.

use super::model::{Advised, Confidence, WayEstimate};
use crate::speed::Way;

/// A time up to so many times another one is as good. Below a mount, the greatest time that is to
/// be expected must be no more than so many times what it takes as it is: requests to a server cost
/// more where all processors are busy, which the model does not know.
const AS_GOOD: f64 = 1.10;
const AS_GOOD_AT_WORST: f64 = 1.15;

/// The model is good, or usable, if it misses what was recorded by this part at most.
const GOOD: f64 = 0.15;
const USABLE: f64 = 0.30;

/// The bytes of the page cache that a way has to leave to others so that it is preferred among ways
/// that are as good: a thousandth of the memory.
pub(super) fn worth(memory: u64) -> u64 {
    memory / 1000
}

/// What a way would take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<W> {
    pub(super) way: W,
    pub(super) seconds: f64,
    /// The greatest time that is to be expected.
    pub(super) high: f64,
    pub(super) cache_bytes: u64,
}

impl Candidate<Advised> {
    /// A way that takes as long as it is expected to.
    pub(super) fn expected(estimate: &WayEstimate) -> Candidate<Advised> {
        let &WayEstimate { way, predicted_seconds: seconds, high, cache_bytes, .. } = estimate;
        let high = if way == Advised::Tool { seconds } else { high };
        Candidate { way, seconds, high, cache_bytes }
    }

    /// A way that took so many seconds.
    pub(super) fn measured(estimate: &WayEstimate, seconds: f64) -> Candidate<Advised> {
        let &WayEstimate { way, cache_bytes, .. } = estimate;
        Candidate { way, seconds, high: seconds, cache_bytes }
    }
}

/// Chooses among ways: the fastest, or of those that are as good the one that leaves the most of
/// the page cache to others, if that is worth anything; and otherwise what is. The first candidate
/// is how it is.
pub(super) fn choose<W: Copy>(candidates: &[Candidate<W>], memory: u64) -> W {
    let best = candidates.iter().map(|one| one.seconds).fold(f64::INFINITY, f64::min);
    let now = &candidates[0];
    let is_now = |one: &Candidate<W>| std::ptr::eq(one, now);
    let is_as_good = |one: &&Candidate<W>| {
        let at_worst = is_now(one) || one.high <= now.seconds * AS_GOOD_AT_WORST;
        one.seconds <= best * AS_GOOD && at_worst
    };
    let worth = worth(memory);
    let least = candidates.iter().filter(is_as_good).map(|one| one.cache_bytes).min().unwrap_or(0);
    let saves = |one: &&Candidate<W>| now.cache_bytes >= one.cache_bytes.saturating_add(worth);
    let leaves_most = candidates
        .iter()
        .filter(is_as_good)
        .find(|one| one.cache_bytes <= least.saturating_add(worth) && saves(one));
    match leaves_most {
        Some(one) => one.way,
        None if is_as_good(&now) => now.way,
        None => {
            let fastest = candidates.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
            fastest.map_or(now.way, |one| one.way)
        }
    }
}

/// How far a model is off that expects so many times what was recorded: 0 if it is right, 1 if it
/// expects twice or half of it.
pub(super) fn error_of(model_ratio: f64) -> f64 {
    model_ratio.max(1.0 / model_ratio.max(1e-9)) - 1.0
}

/// How sure predictions are of a model that expects so many times what was recorded.
pub(super) fn confidence(model_ratio: f64) -> Confidence {
    let error = error_of(model_ratio);
    match () {
        () if error <= GOOD => Confidence::High,
        () if error <= USABLE => Confidence::Medium,
        () => Confidence::Low,
    }
}

/// The way for the whole command, of those of its groups.
pub(super) fn together(ways: impl Iterator<Item = Way>) -> Advised {
    let mut ways: Vec<Way> = ways.collect();
    ways.sort_unstable();
    ways.dedup();
    match &ways[..] {
        [] => Advised::Cached,
        [way] => (*way).into(),
        _ => Advised::Mixed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 16 << 30;

    fn candidate(way: Way, seconds: f64, cache_bytes: u64) -> Candidate<Way> {
        Candidate { way, seconds, high: seconds, cache_bytes }
    }

    #[test]
    fn the_faster_way_wins_and_of_equals_the_one_that_leaves_the_cache() {
        let large = 4 << 30;
        let choice = |cached: f64, direct: f64, cache: u64| {
            let cached = candidate(Way::Cached, cached, cache);
            choose(&[cached, candidate(Way::Direct, direct, 0)], MEMORY)
        };
        assert_eq!(choice(1.0, 1.05, large), Way::Direct);
        assert_eq!(choice(1.0, 1.2, large), Way::Cached);
        assert_eq!(choice(1.0, 0.5, large), Way::Direct);
        assert_eq!(choice(1.0, 0.5, 0), Way::Direct);
        // Nothing is changed for nothing.
        assert_eq!(choice(1.0, 0.99, 4096), Way::Cached);
    }

    #[test]
    fn a_way_that_may_be_slower_is_not_as_good() {
        let choice = |seconds: f64, high: f64| {
            let direct = Candidate { high, ..candidate(Way::Direct, seconds, 0) };
            choose(&[candidate(Way::Cached, 1.0, 4 << 30), direct], MEMORY)
        };
        assert_eq!(choice(1.05, 1.14), Way::Direct);
        assert_eq!(choice(1.05, 1.2), Way::Cached);
        assert_eq!(choice(0.95, 1.12), Way::Direct);
        // A faster one is worth a risk.
        assert_eq!(choice(0.8, 1.5), Way::Direct);
    }

    #[test]
    fn a_model_may_be_off_to_either_side() {
        for (ratio, error) in [(1.0, 0.0), (2.0, 1.0), (0.5, 1.0), (0.1, 9.0)] {
            assert!((error_of(ratio) - error).abs() < 1e-9, "{ratio}");
        }
        assert_eq!(confidence(0.5), Confidence::Low);
        assert_eq!(confidence(0.9), Confidence::High);
    }

    #[test]
    fn groups_agree_or_are_mixed() {
        assert_eq!(together([Way::Direct, Way::Direct].into_iter()), Advised::Direct);
        assert_eq!(together([Way::Direct, Way::Cached].into_iter()), Advised::Mixed);
        assert_eq!(together([].into_iter()), Advised::Cached);
    }
}
