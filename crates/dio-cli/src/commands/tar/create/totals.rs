//! `--totals`.

use std::io::Write;
use std::time::Duration;

/// Tells what was written, in GNU tar's words.
pub(in super::super) fn tell(bytes: u64, elapsed: Duration) {
    let rate = match elapsed.as_secs_f64() {
        seconds if seconds > 0.0 => human((bytes as f64 / seconds) as u64),
        _ => "?".to_owned(),
    };
    let line = format!("Total bytes written: {bytes} ({}, {rate}/s)\n", human(bytes));
    // Nobody can be told that standard error is closed.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// A size in powers of 1024, rounded up, with a tenth below 10.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut power = (bytes.ilog2() / 10) as usize;
    loop {
        let unit = 1u128 << (10 * power);
        let tenths = (u128::from(bytes) * 10).div_ceil(unit);
        let whole = u128::from(bytes).div_ceil(unit);
        if whole >= 1024 && power + 1 < UNITS.len() {
            power += 1;
            continue;
        }
        // What rounds up to 10 has no tenth any more.
        return match tenths < 100 {
            true => format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[power]),
            false => format!("{whole}{}", UNITS[power]),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn sizes_are_rounded_up() {
        let sizes = [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.0KiB"),
            (10240, "10KiB"),
            (10241, "11KiB"),
            (1 << 20, "1.0MiB"),
            (1_100_000, "1.1MiB"),
        ];
        for (bytes, shown) in sizes {
            assert_eq!(human(bytes), shown);
        }
        assert_eq!(human((1 << 20) - 1), "1.0MiB");
    }
}
