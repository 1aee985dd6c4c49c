//! Numbers as GNU split parses them: optional blanks and a plus sign before them, a suffix after
//! them.

/// Letters that multiply a number of bytes.
pub(super) const SIZES: &str = "bEGKkMmPQRTYZ";

/// Why a number was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberError {
    /// The text is not a number, or is followed by invalid text.
    Invalid,
    /// It does not fit 64 bits.
    Overflow,
}

/// Parses a number, optionally followed by one of the letters `units`. A letter that means a power
/// of 1024 may be followed by `iB` (the same), `B` or `D` (the power of 1000). A letter alone means
/// one of its unit; `b` is 512.
///
/// # Errors
/// [`NumberError`]; text that is both too large and malformed is [`NumberError::Invalid`].
pub(super) fn parse(text: &[u8], units: &str) -> Result<u64, NumberError> {
    let blanks = text.iter().take_while(|b| b.is_ascii_whitespace() || **b == 0x0b).count();
    let signed = usize::from(text.get(blanks) == Some(&b'+'));
    let digits = &text[blanks + signed..];
    let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let (mut value, suffix) = match count {
        // Without digits, the text is a suffix from its first byte.
        0 => (Some(1), text),
        _ => (decimal(&digits[..count]), &digits[count..]),
    };
    match suffix.split_first() {
        None if count > 0 => {}
        Some((letter, rest)) if units.as_bytes().contains(letter) => {
            value =
                value.zip(unit(*letter, rest)?).and_then(|(number, unit)| number.checked_mul(unit));
            // Zero stays zero, however large the unit.
            if count > 0 && digits[..count].iter().all(|b| *b == b'0') {
                value = Some(0);
            }
        }
        _ => return Err(NumberError::Invalid),
    }
    value.ok_or(NumberError::Overflow)
}

/// Returns the value of decimal digits; `None` if it does not fit.
fn decimal(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0u64, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// Returns the factor of a letter and the bytes after it; `None` if it does not fit.
fn unit(letter: u8, rest: &[u8]) -> Result<Option<u64>, NumberError> {
    let power = match letter.to_ascii_uppercase() {
        b'B' if rest.is_empty() => return Ok(Some(512)),
        b'K' => 1,
        b'M' => 2,
        b'G' => 3,
        b'T' => 4,
        b'P' => 5,
        b'E' => 6,
        b'Z' => 7,
        b'Y' => 8,
        b'R' => 9,
        b'Q' => 10,
        _ => return Err(NumberError::Invalid),
    };
    let base: u64 = match rest {
        b"" | b"iB" => 1024,
        b"B" | b"D" => 1000,
        _ => return Err(NumberError::Invalid),
    };
    Ok(base.checked_pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers() {
        for (text, value) in [
            ("0", Ok(0)),
            ("+5", Ok(5)),
            (" \t7", Ok(7)),
            ("18446744073709551615", Ok(u64::MAX)),
            ("18446744073709551616", Err(NumberError::Overflow)),
            ("18446744073709551616x", Err(NumberError::Invalid)),
            ("", Err(NumberError::Invalid)),
            ("-1", Err(NumberError::Invalid)),
            ("1 ", Err(NumberError::Invalid)),
            ("1K", Err(NumberError::Invalid)),
            ("0x10", Err(NumberError::Invalid)),
        ] {
            assert_eq!(parse(text.as_bytes(), ""), value, "{text:?}");
        }
    }

    #[test]
    fn sizes() {
        for (text, value) in [
            ("K", Ok(1024)),
            ("kB", Ok(1000)),
            (" K", Err(NumberError::Invalid)),
            ("+K", Err(NumberError::Invalid)),
            ("1b", Ok(512)),
            ("1bB", Err(NumberError::Invalid)),
            ("1B", Err(NumberError::Invalid)),
            ("2m", Ok(2 << 20)),
            ("2MiB", Ok(2 << 20)),
            ("2MD", Ok(2_000_000)),
            ("1Ki", Err(NumberError::Invalid)),
            ("1KBB", Err(NumberError::Invalid)),
            ("1g", Err(NumberError::Invalid)),
            ("15E", Ok(15 << 60)),
            ("16E", Err(NumberError::Overflow)),
            ("1Y", Err(NumberError::Overflow)),
            ("1Q", Err(NumberError::Overflow)),
            ("0Q", Ok(0)),
            ("99999999999999999999Kx", Err(NumberError::Invalid)),
        ] {
            assert_eq!(parse(text.as_bytes(), SIZES), value, "{text:?}");
        }
    }
}
