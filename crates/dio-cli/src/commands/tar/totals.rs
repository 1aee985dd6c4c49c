//! Formats the line of `--totals`.

use std::time::Duration;

/// Returns a line like `Total bytes read: 10240 (10KiB, 5.9MiB/s)`.
pub(super) fn line(what: &str, bytes: u64, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let rate = if seconds > 0.0 { human((bytes as f64 / seconds) as u64) } else { "?".to_owned() };
    format!("Total bytes {what}: {bytes} ({}, {rate}/s)", human(bytes))
}

/// Formats a size in units of powers of 1024, rounded up, with one decimal below ten (gnulib's
/// `human_readable`).
fn human(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let bytes = u128::from(bytes);
    let mut power = 0;
    while power + 1 < UNITS.len() && bytes >= 1 << (10 * (power + 1)) {
        power += 1;
    }
    let unit = 1u128 << (10 * power);
    let tenths = (bytes * 10).div_ceil(unit);
    if power > 0 && tenths < 100 {
        return format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[power]);
    }
    let whole = bytes.div_ceil(unit);
    if whole == 1024 && power + 1 < UNITS.len() {
        // Rounding up reached the next unit.
        return format!("1.0{}", UNITS[power + 1]);
    }
    format!("{whole}{}", UNITS[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes are those that GNU tar prints.
    #[test]
    fn sizes_are_rounded_up() {
        for (bytes, text) in [
            (0, "0B"),
            (512, "512B"),
            (10_240, "10KiB"),
            (1024, "1.0KiB"),
            (1025, "1.1KiB"),
            (1_003_520, "980KiB"),
            (1_001_984, "979KiB"),
            (10_241, "11KiB"),
            ((1 << 20) - 1, "1.0MiB"),
            (u64::MAX, "16EiB"),
        ] {
            assert_eq!(human(bytes), text, "{bytes}");
        }
        assert_eq!(
            line("read", 10_240, Duration::from_secs(1)),
            "Total bytes read: 10240 (10KiB, 10KiB/s)"
        );
        assert_eq!(line("written", 0, Duration::ZERO), "Total bytes written: 0 (0B, ?/s)");
    }
}
