//! Estimates the duration of a comparison by its newest record, and the remaining time.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Result;
use crate::readme::newest;

/// The longest duration of a comparison without `--runs` and `--record`.
const MOST: Duration = Duration::from_secs(300);

/// Seconds of rest between two runs, and seconds of a run whose time is not recorded.
const BETWEEN: f64 = 2.0;

/// The time at which the comparison began, and its expected duration.
static BEGUN: OnceLock<(Instant, Duration)> = OnceLock::new();

/// Seconds of one round of all groups in a record.
fn round_of(record: &Value) -> f64 {
    let all = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let groups = all(record, "groups");
    let contenders = groups.iter().flat_map(|group| all(group, "contenders"));
    let median = |contender: &Value, key: &str| contender["summary"][key]["median"].as_f64();
    let time = |contender: Value| {
        // The time from the beginning of a run to that of the next one, if it is recorded.
        let whole = median(&contender, "run_seconds");
        whole.unwrap_or_else(|| median(&contender, "wall_seconds").unwrap_or(BETWEEN) + BETWEEN)
    };
    contenders.map(time).sum()
}

/// The number of rounds that fit into `most`: at most `usual`, and at least one.
fn rounds_within(usual: u32, round: f64, most: Duration) -> u32 {
    let fit = most.as_secs_f64() / round.max(0.1);
    usual.min(fit as u32).max(1)
}

/// Prints the expected duration of the comparison, and returns its number of rounds: the requested
/// number, else the usual number for a record, else as many as end within five minutes.
pub(crate) fn begin(comparison: &str, asked: Option<u32>, record: bool) -> Result<u32> {
    const USUAL: u32 = 5;
    let Some((name, newest)) = newest()?.remove(comparison) else {
        let rounds = asked.unwrap_or(if record { USUAL } else { 1 });
        eprintln!(
            "benchsuite: {comparison}: {rounds} rounds; there is no record that tells how long one \
             takes"
        );
        return Ok(rounds);
    };
    let round = round_of(&newest);
    let usual = if record { USUAL } else { rounds_within(USUAL, round, MOST) };
    let rounds = asked.unwrap_or(usual);
    let expected = Duration::from_secs_f64(round * f64::from(rounds));
    eprintln!(
        "benchsuite: {comparison}: {rounds} rounds, about {} by the record {name}",
        words(expected)
    );
    // With `all`, each comparison prints its own line, but the remaining time is only shown for the
    // first.
    let _ = BEGUN.set((Instant::now(), expected));
    Ok(rounds)
}

/// Prints the expected duration of a comparison that can estimate it without a record; prints
/// nothing if a record has been used already.
pub(crate) fn expect(comparison: &str, time: Duration) {
    if BEGUN.set((Instant::now(), time)).is_ok() {
        eprintln!("benchsuite: {comparison}: about {}", words(time));
    }
}

/// The remaining time, for the line of a run; empty once the estimate is exceeded.
pub(crate) fn left() -> String {
    let left = BEGUN.get().and_then(|(begun, expected)| expected.checked_sub(begun.elapsed()));
    left.map_or(String::new(), |left| format!("; about {} left", words(left)))
}

fn words(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_tells_how_long_a_round_takes_and_how_many_fit() {
        let contender = |wall: f64| json!({"summary": {"wall_seconds": {"median": wall}}});
        let record = json!({"groups": [
            {"contenders": [contender(8.0), contender(28.0)]}, {"contenders": [{}]}
        ]});
        assert_eq!(round_of(&record), 10.0 + 30.0 + 4.0);
        let whole =
            json!({"groups": [{"contenders": [{"summary": {"run_seconds": {"median": 3.0}}}]}]});
        assert_eq!(round_of(&whole), 3.0);
        let rounds = |round| rounds_within(5, round, MOST);
        assert_eq!([10.0, 60.0, 100.0, 1000.0].map(rounds), [5, 5, 3, 1]);
        assert_eq!(words(Duration::from_secs(101)), "2 min");
    }
}
