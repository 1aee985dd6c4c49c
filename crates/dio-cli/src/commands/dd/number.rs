//! Numbers as dd writes them: `4096`, `8M`, `2x80x18b`, `100kB`, and `512B`, which counts bytes
//! where blocks are counted.

/// A parsed number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    /// The value, which is at most the permitted maximum.
    pub(super) value: u64,
    /// The text contains a `B`, so that an amount of blocks becomes one of bytes.
    pub(super) bytes: bool,
    /// The text starts with `0x`, which multiplies by zero and does not mean hexadecimal.
    pub(super) zero_multiplier: bool,
}

/// The reason why a text is not a valid number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberError {
    /// The text has another form.
    Invalid,
    /// The value exceeds the permitted maximum.
    TooLarge,
}

/// Letters of the powers of 1024 or, if a `B` follows, of 1000. `k` counts as `K`.
const POWERS: &[u8] = b"KMGTPEZYRQ";

/// Parses a number of at most `max`. It consists of factors with `x` between them; each has digits
/// and a suffix, or a suffix alone.
pub(super) fn parse(text: &[u8], max: u64) -> Result<Number, NumberError> {
    let mut product = 1u128;
    for (place, factor) in text.split(|&byte| byte == b'x').enumerate() {
        let factor = match place {
            0 => unsigned(factor),
            _ => factor,
        };
        product = saturating(product, parse_factor(factor)?);
    }
    let value =
        u64::try_from(product).ok().filter(|value| *value <= max).ok_or(NumberError::TooLarge)?;
    Ok(Number { value, bytes: text.contains(&b'B'), zero_multiplier: text.starts_with(b"0x") })
}

/// Removes the white space and the `+` that `strtoumax(3)` skips.
fn unsigned(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii_start();
    text.strip_prefix(b"+")
        .filter(|rest| rest.first().is_some_and(u8::is_ascii_digit))
        .unwrap_or(text)
}

/// Multiplies. A product that is too large saturates, but a factor of zero makes it zero.
fn saturating(a: u128, b: u128) -> u128 {
    if a == 0 || b == 0 { 0 } else { a.saturating_mul(b) }
}

fn parse_factor(text: &[u8]) -> Result<u128, NumberError> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, suffix) = text.split_at(count);
    let number = digits.iter().fold(0u128, |number, digit| {
        number.saturating_mul(10).saturating_add(u128::from(digit - b'0'))
    });
    let Some((&letter, rest)) = suffix.split_first() else {
        return if count > 0 { Ok(number) } else { Err(NumberError::Invalid) };
    };
    let (unit, rest) = match letter {
        b'B' if count > 0 && rest.is_empty() => return Ok(number),
        b'c' => (1, rest),
        b'w' => (2, rest),
        b'b' => (512, rest),
        letter => {
            let letter = if letter == b'k' { b'K' } else { letter };
            let power =
                POWERS.iter().position(|&known| known == letter).ok_or(NumberError::Invalid)?
                    as u32
                    + 1;
            match rest {
                // This B is part of the unit, so another one must not follow.
                b"iB" => (1024u128.pow(power), &rest[2..]),
                b"B" => (1000u128.pow(power), &rest[1..]),
                _ => (1024u128.pow(power), rest),
            }
        }
    };
    match rest {
        b"" | b"B" => Ok(saturating(if count > 0 { number } else { 1 }, unit)),
        _ => Err(NumberError::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<u64, NumberError> {
        parse(text.as_bytes(), i64::MAX as u64).map(|number| number.value)
    }

    #[test]
    fn numbers_are_read_as_gnu_reads_them() {
        for (text, expected) in [
            ("0", 0),
            (" 1", 1),
            ("+1", 1),
            ("1c", 1),
            ("1w", 2),
            ("1b", 512),
            ("b", 512),
            ("k", 1024),
            ("2xk", 2048),
            ("1xM", 1 << 20),
            ("2x3", 6),
            ("2x3x4", 24),
            ("2bx2", 2048),
            ("1kB", 1000),
            ("1KB", 1000),
            ("1kiB", 1024),
            ("3GiB", 3 << 30),
            ("1cB", 1),
            ("1bB", 512),
            ("1MB", 1_000_000),
            ("9223372036854775807", i64::MAX as u64),
            ("99999999999999999999x0", 0),
            ("00x3", 0),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
        for text in [
            "", "-1", "1 ", "B", "BB", "1BB", "x1", "0x", "1x", "1xx2", "+", "1e3", "1d", "1m",
            "1KBB", "1Ki", "1KiBB",
        ] {
            assert_eq!(value(text), Err(NumberError::Invalid), "{text}");
        }
        for text in ["8E", "1Y", "9223372036854775808", "99999999999999999999"] {
            assert_eq!(value(text), Err(NumberError::TooLarge), "{text}");
        }
    }

    #[test]
    fn a_b_anywhere_counts_bytes() {
        for (text, bytes) in
            [("1B", true), ("1kB", true), ("1KiBx2", true), ("1b", false), ("7M", false)]
        {
            assert_eq!(parse(text.as_bytes(), u64::MAX).unwrap().bytes, bytes, "{text}");
        }
        assert!(
            parse(b"0x5", 9).unwrap().zero_multiplier
                && !parse(b"00x5", 9).unwrap().zero_multiplier
        );
    }
}
