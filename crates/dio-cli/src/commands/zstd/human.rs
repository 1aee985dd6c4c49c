//! Formats sizes as the zstd command does.

/// Returns the number and its unit.
pub(super) fn human(bytes: u64) -> (String, &'static str) {
    let units = [" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"];
    let mut unit = 0;
    while unit < 6 && bytes >> (10 * (unit + 1)) > 0 {
        unit += 1;
    }
    let value = bytes as f64 / (1u64 << (10 * unit)) as f64;
    let places = match value {
        value if value >= 100.0 || value == bytes as f64 => 0,
        value if value >= 10.0 => 1,
        value if value > 1.0 => 2,
        _ => 3,
    };
    (format!("{value:.places$}"), units[unit as usize])
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn as_the_command_shows_them() {
        for (bytes, shown) in [
            (0, "0 B"),
            (13, "13 B"),
            (1023, "1023 B"),
            (1024, "1.000 KiB"),
            (43_993, "43.0 KiB"),
            (288_894, "282 KiB"),
            (2 << 20, "2.00 MiB"),
            (256 << 20, "256 MiB"),
        ] {
            let (number, unit) = human(bytes);
            assert_eq!(format!("{number}{unit}"), shown);
        }
    }
}
