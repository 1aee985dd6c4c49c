//! Random tests that run for a requested time.

use std::time::{Duration, Instant};

use crate::Seed;

/// How often a long run prints its progress. The harness kills test programs that are silent for
/// three minutes.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// The cases of a random test, each with a seed of its own.
///
/// An ordinary run tries a small number of cases, the same each time, so that whether a change
/// passes does not depend on luck. With `DIO_SOAK_SECONDS` (set by `cargo xtask soak`), new cases
/// are tried for that time, in order to find unknown failures. `DIO_SEED`, as printed by the case
/// that failed, repeats that one case alone.
///
/// Tests that use it must have names that begin with `soak_`, by which `cargo xtask soak` finds
/// them.
///
/// ```
/// # use dio_test::Soak;
/// for seed in Soak::of(20) {
///     let mut rng = seed.rng();
///     assert!(rng.range(0..10) < 10);
/// }
/// ```
#[derive(Debug)]
pub struct Soak {
    /// Cases tried so far.
    cases: u64,
    limit: Limit,
    started: Instant,
    said: Instant,
}

#[derive(Debug, Clone, Copy)]
enum Limit {
    Cases(u64),
    Time(Duration),
}

impl Soak {
    /// Makes an iterator over `cases` cases, unless the environment says otherwise.
    ///
    /// # Panics
    /// When `DIO_SOAK_SECONDS` is not a number.
    #[must_use]
    pub fn of(cases: u64) -> Soak {
        let seconds = std::env::var("DIO_SOAK_SECONDS").ok();
        let seconds = seconds.map(|text| {
            text.parse().unwrap_or_else(|_| panic!("DIO_SOAK_SECONDS={text}: no number"))
        });
        let limit = match seconds {
            _ if std::env::var_os("DIO_SEED").is_some() => Limit::Cases(1),
            Some(seconds) => Limit::Time(Duration::from_secs(seconds)),
            None => Limit::Cases(cases),
        };
        let now = Instant::now();
        Soak { cases: 0, limit, started: now, said: now }
    }

    fn is_over(&self) -> bool {
        match self.limit {
            Limit::Cases(cases) => self.cases >= cases,
            Limit::Time(time) => self.started.elapsed() >= time,
        }
    }
}

impl Iterator for Soak {
    type Item = Seed;

    fn next(&mut self) -> Option<Seed> {
        let over = self.is_over();
        if matches!(self.limit, Limit::Time(_)) && (over || self.said.elapsed() >= SAY_EVERY) {
            let name = std::thread::current().name().unwrap_or("soak").to_owned();
            eprintln!("{name}: {} cases in {} s", self.cases, self.started.elapsed().as_secs());
            self.said = Instant::now();
        }
        if over {
            return None;
        }
        self.cases += 1;
        Some(Seed::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_run_has_the_cases_asked_for_each_with_its_seed() {
        if ["DIO_SEED", "DIO_SOAK_SECONDS"].iter().any(|name| std::env::var_os(name).is_some()) {
            return;
        }
        let mut seeds: Vec<u64> = Soak::of(5).chain(Soak::of(4)).map(|seed| seed.value()).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 9);
    }
}
