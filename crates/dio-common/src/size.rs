//! Parses sizes and rates as the GNU tools do: `4096`, `64K`, `8MiB`, `1GB`.

/// Bytes in a kibibyte.
pub const KIB: u64 = 1 << 10;
/// Bytes in a mebibyte.
pub const MIB: u64 = 1 << 20;
/// Bytes in a gibibyte.
pub const GIB: u64 = 1 << 30;

/// The reasons why a size is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// There is no number at the start.
    #[error("a size is a number with an optional suffix such as K, M, G, KiB or MB")]
    NoNumber,
    /// The suffix is unknown.
    #[error(
        "unknown suffix '{0}': use K, M, G, T, P or E (powers of 1024), also as KiB …, or KB, MB … \
         (powers of 1000)"
    )]
    Suffix(String),
    /// The value does not fit 64 bits.
    #[error("the size is too large")]
    TooLarge,
    /// The size is zero where it must not be.
    #[error("the size must not be zero")]
    Zero,
}

/// Parses a size in bytes.
///
/// `K`, `M`, `G`, `T`, `P`, `E`, alone or with `iB`, are powers of 1024; with `B` they are powers
/// of 1000 (as in `numfmt` and the other GNU coreutils). The case of the letter does not matter. A
/// bare `B` means bytes.
///
/// # Errors
/// [`SizeError`] says what is wrong with `text`.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Err(SizeError::NoNumber);
    }
    let number: u64 = text[..digits].parse().map_err(|_| SizeError::TooLarge)?;
    let suffix = &text[digits..];
    let unknown = || SizeError::Suffix(suffix.to_owned());
    let mut rest = suffix.chars();
    let Some(letter) = rest.next() else { return Ok(number) };
    if suffix == "B" {
        return Ok(number);
    }
    let power = 1 + "KMGTPE".find(letter.to_ascii_uppercase()).ok_or_else(unknown)? as u32;
    let base: u64 = match rest.as_str() {
        "" | "iB" => 1024,
        "B" => 1000,
        _ => return Err(unknown()),
    };
    base.checked_pow(power).and_then(|unit| number.checked_mul(unit)).ok_or(SizeError::TooLarge)
}

/// Parses a size that must not be zero.
///
/// # Errors
/// As [`parse_size`], and [`SizeError::Zero`].
pub fn parse_positive_size(text: &str) -> Result<u64, SizeError> {
    match parse_size(text)? {
        0 => Err(SizeError::Zero),
        size => Ok(size),
    }
}

/// Formats a size in the shortest exact form, which [`parse_size`] reads back: `256M`, `1025`.
#[must_use]
pub fn exact(bytes: u64) -> String {
    let unit = [(GIB, "G"), (MIB, "M"), (KIB, "K")]
        .into_iter()
        .find(|(unit, _)| bytes >= *unit && bytes % unit == 0);
    unit.map_or_else(|| bytes.to_string(), |(unit, letter)| format!("{}{letter}", bytes / unit))
}

/// Parses a rate in bytes per second: a size that is not zero, optionally followed by `/s`.
///
/// # Errors
/// As [`parse_positive_size`].
pub fn parse_rate(text: &str) -> Result<u64, SizeError> {
    parse_positive_size(text.strip_suffix("/s").unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes() {
        for (text, bytes) in [
            ("0", 0),
            ("41", 41),
            ("41B", 41),
            ("1K", 1024),
            ("1k", 1024),
            ("4KiB", 4096),
            ("8M", 8 << 20),
            ("3MB", 3_000_000),
            ("2kB", 2000),
            ("1G", 1 << 30),
            ("15E", 15 << 60),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn exact_sizes_go_both_ways() {
        for (text, bytes) in
            [("1", 1), ("512K", 512 << 10), ("256M", 256 << 20), ("4G", 4 << 30), ("1025", 1025)]
        {
            assert_eq!((parse_size(text), exact(bytes)), (Ok(bytes), text.to_owned()));
        }
    }

    #[test]
    fn refusals() {
        assert_eq!(parse_size(""), Err(SizeError::NoNumber));
        assert_eq!(parse_size("K"), Err(SizeError::NoNumber));
        assert_eq!(parse_size("-1"), Err(SizeError::NoNumber));
        assert_eq!(parse_size("1X"), Err(SizeError::Suffix("X".into())));
        assert_eq!(parse_size("1Ki"), Err(SizeError::Suffix("Ki".into())));
        assert_eq!(parse_size("1é"), Err(SizeError::Suffix("é".into())));
        assert_eq!(parse_size("16E"), Err(SizeError::TooLarge));
        assert_eq!(parse_size("99999999999999999999"), Err(SizeError::TooLarge));
        assert_eq!(parse_positive_size("0K"), Err(SizeError::Zero));
    }

    #[test]
    fn rates() {
        assert_eq!(parse_rate("100MB/s"), Ok(100_000_000));
        assert_eq!(parse_rate("1M"), Ok(1 << 20));
        assert_eq!(parse_rate("0"), Err(SizeError::Zero));
    }
}
