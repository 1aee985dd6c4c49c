//! Parses times.

use std::time::Duration;

/// The units of a time, in seconds. A longer name comes before one that it ends with.
const UNITS: [(&str, f64); 5] =
    [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// Parses a time: seconds, or a number with us, ms, s, m or h.
///
/// # Errors
/// A message that says what a time is.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let unit = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)));
    let (digits, unit) = unit.unwrap_or((text, 1.0));
    let number: f64 =
        digits.parse().map_err(|_| "a time is a number, or one with us, ms, s, m or h")?;
    Duration::try_from_secs_f64(number * unit).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        for (text, micros) in [
            ("2", 2_000_000),
            ("0.5", 500_000),
            ("2s", 2_000_000),
            ("5ms", 5000),
            ("1.5ms", 1500),
            ("250us", 250),
            ("2m", 120_000_000),
            ("1h", 3_600_000_000),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for text in ["", "s", "ms", "5x", "-1", "1e999", "nan"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
