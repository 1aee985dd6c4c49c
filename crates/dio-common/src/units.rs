//! Formats sizes, times and rates for people.

/// Formats a number of bytes: exactly up to 1023, then with up to three digits and a binary unit.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // A value that would be printed as 1024 gets the next unit.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value < 9.95 { 1 } else { 0 };
    let number = format!("{value:.decimals$}");
    format!("{} {}", number.trim_end_matches(".0"), UNITS[unit])
}

/// Formats a time in the unit that needs few digits.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 100.0 => format!("{s:.0} s"),
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 0.1 => format!("{s:.3} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

/// Formats a rate in bytes per second; `-` if no time has passed.
pub fn rate(bytes: u64, seconds: f64) -> String {
    if seconds <= 0.0 {
        return "-".to_owned();
    }
    format!("{}/s", size((bytes as f64 / seconds) as u64))
}

/// Formats a quotient as a factor; `-` if it is not finite.
pub fn factor(numerator: f64, denominator: f64) -> String {
    let factor = numerator / denominator;
    match factor {
        f if !f.is_finite() => "-".to_owned(),
        f if f >= 100.0 => format!("{f:.0}×"),
        f if f >= 10.0 => format!("{f:.1}×"),
        f => format!("{f:.2}×"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact_or_short() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(10 << 20), "10 MiB");
        assert_eq!(size((1 << 20) - 1), "1 MiB");
    }

    #[test]
    fn factors_have_three_digits() {
        assert_eq!(factor(521.0, 23.9), "21.8×");
        assert_eq!(factor(1.0, 0.0), "-");
        assert_eq!(seconds(0.000_07), "70.0 µs");
        assert_eq!(seconds(0.0123), "12.3 ms");
    }
}
