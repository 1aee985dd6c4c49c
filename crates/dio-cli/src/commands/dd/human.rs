//! Sizes, rates and seconds as GNU dd prints them.

/// Letters of the units, by power.
const POWERS: &[u8] = b"KMGTPEZYRQ";

/// Formats a size in units of a power of 1000 (`kB`) or 1024 (`KiB`), with one decimal below ten.
/// Rounds to nearest, halves to even.
pub(super) fn size(bytes: u64, base: u64) -> String {
    exact(u128::from(bytes), u128::from(base))
}

/// Formats the rate of `bytes` in `nanoseconds`, per second.
pub(super) fn rate(bytes: u64, nanoseconds: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let (long, odd) = (nanoseconds > SECOND, |a: u64, b: u64| a % b != 0);
    if nanoseconds == 0 {
        return "Infinity B/s".to_owned();
    }
    // If the division has no remainder, as for whole seconds, integers are used.
    if !long && !odd(SECOND, nanoseconds) {
        return exact(u128::from(bytes) * u128::from(SECOND / nanoseconds), 1000) + "/s";
    }
    let seconds = nanoseconds / SECOND;
    if long && !odd(nanoseconds, SECOND) && !odd(bytes, seconds) {
        return exact(u128::from(bytes / seconds), 1000) + "/s";
    }
    let mut amount = bytes as f64 * SECOND as f64 / nanoseconds as f64 / 1000.0;
    let mut power = 1;
    while amount >= 1000.0 && power < POWERS.len() {
        amount /= 1000.0;
        power += 1;
    }
    let mut text = format!("{amount:.1}");
    if text.len() > 4 {
        text = format!("{amount:.0}");
    }
    format!("{text} {}/s", unit(power, 1000))
}

/// Formats an integer, rounded, with its unit.
fn exact(amount: u128, base: u128) -> String {
    let mut power = 0;
    let mut scale = 1u128;
    while amount / scale >= base && power < POWERS.len() {
        scale *= base;
        power += 1;
    }
    if power > 0 && amount / scale < 10 {
        let tenths = rounded(amount * 10, scale);
        if tenths < 100 {
            return format!("{}.{} {}", tenths / 10, tenths % 10, unit(power, base));
        }
    }
    let whole = rounded(amount, scale);
    if whole == base && power < POWERS.len() {
        return format!("1.0 {}", unit(power + 1, base));
    }
    format!("{whole} {}", unit(power, base))
}

/// Computes `amount / scale`, rounded to nearest, halves to even.
fn rounded(amount: u128, scale: u128) -> u128 {
    let (whole, twice) = (amount / scale, amount % scale * 2);
    whole + u128::from(twice > scale || (twice == scale && whole % 2 == 1))
}

fn unit(power: usize, base: u128) -> String {
    let letter = match (power, base) {
        (0, _) => return "B".to_owned(),
        (1, 1000) => 'k',
        (power, _) => POWERS[power - 1] as char,
    };
    if base == 1024 { format!("{letter}iB") } else { format!("{letter}B") }
}

/// Formats seconds as `printf("%g")` does: six significant digits, without trailing zeros.
pub(super) fn seconds(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    if (-4..6).contains(&exponent) {
        let text = format!("{value:.*}", (5 - exponent) as usize);
        return without_noughts(&text).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_noughts(digits), exponent.abs())
}

fn without_noughts(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected strings are what GNU dd 9.1 prints for these amounts.
    #[test]
    fn sizes_are_rounded_as_gnu_does() {
        for (bytes, decimal, binary) in [
            (0, "0 B", "0 B"),
            (512, "512 B", "512 B"),
            (1000, "1.0 kB", "1000 B"),
            (1024, "1.0 kB", "1.0 KiB"),
            (1050, "1.0 kB", "1.0 KiB"),
            (1150, "1.2 kB", "1.1 KiB"),
            (9950, "10 kB", "9.7 KiB"),
            (10500, "10 kB", "10 KiB"),
            (11500, "12 kB", "11 KiB"),
            (999_950, "1.0 MB", "977 KiB"),
            (4_194_304, "4.2 MB", "4.0 MiB"),
            (3_221_225_472, "3.2 GB", "3.0 GiB"),
            (u64::MAX, "18 EB", "16 EiB"),
        ] {
            assert_eq!(
                (size(bytes, 1000).as_str(), size(bytes, 1024).as_str()),
                (decimal, binary),
                "{bytes}"
            );
        }
    }

    #[test]
    fn rates_are_rounded_as_gnu_does() {
        for (bytes, nanoseconds, shown) in [
            (0, 6630, "0.0 kB/s"),
            (12, 75_903, "158 kB/s"),
            (12, 162_000, "74.1 kB/s"),
            (512, 97_766, "5.2 MB/s"),
            (3_221_225_472, 631_015_000, "5.1 GB/s"),
            (15, 289_165_000, "0.1 kB/s"),
            (1_000_000, 1_000_000_000, "1.0 MB/s"),
            (500, 1_000_000_000, "500 B/s"),
            (1, 0, "Infinity B/s"),
        ] {
            assert_eq!(rate(bytes, nanoseconds), shown);
        }
    }

    #[test]
    fn seconds_are_those_of_printf() {
        for (value, shown) in [
            (0.0, "0"),
            (6.63e-6, "6.63e-06"),
            (0.000_109_423, "0.000109423"),
            (0.000_073_139, "7.3139e-05"),
            (0.781_689, "0.781689"),
            (1.0, "1"),
            (2.309_04, "2.30904"),
            (0.999_999_9, "1"),
            (123_456.7, "123457"),
            (1_234_567.0, "1.23457e+06"),
        ] {
            assert_eq!(seconds(value), shown);
        }
    }
}
