//! Numbers of `-n` and `-h`: an optional minus sign, digits, a point and digits, of any length.

use std::cmp::Ordering;

use super::field::without_blanks;
use super::prefix::PrefixBits;

/// A number without the bytes that do not change its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number<'a> {
    /// False if the value is zero.
    negative: bool,
    /// Digits before the point, without leading zeros.
    whole: &'a [u8],
    /// Digits behind the point, without trailing zeros.
    fraction: &'a [u8],
}

/// Length of the digits that the text starts with.
#[inline]
fn digits(text: &[u8]) -> usize {
    text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len())
}

impl<'a> Number<'a> {
    /// Reads the number at the start of the text, after blanks; zero if there is none.
    #[inline]
    pub(super) fn of(text: &'a [u8]) -> Number<'a> {
        let text = without_blanks(text);
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let zeros = text.iter().position(|byte| *byte != b'0').unwrap_or(text.len());
        let text = &text[zeros..];
        let (whole, rest) = text.split_at(digits(text));
        let mut fraction = match rest {
            [b'.', rest @ ..] => &rest[..digits(rest)],
            _ => &[],
        };
        while let [before @ .., b'0'] = fraction {
            fraction = before;
        }
        Number { negative: negative && !(whole.is_empty() && fraction.is_empty()), whole, fraction }
    }

    /// Compares the values.
    #[inline]
    pub(super) fn compare(&self, other: &Number<'_>) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.compare_magnitude(other),
            (true, true) => other.compare_magnitude(self),
        }
    }

    #[inline]
    fn compare_magnitude(&self, other: &Number<'_>) -> Ordering {
        let length = self.whole.len().cmp(&other.whole.len());
        length
            .then_with(|| self.whole.cmp(other.whole))
            .then_with(|| self.fraction.cmp(other.fraction))
    }

    /// Adds bits that sort like the number: the sign, the number of digits before the point, the
    /// first digits. Returns true if they are the complete number.
    #[inline]
    pub(super) fn put(&self, bits: &mut PrefixBits, reverse: bool) -> bool {
        let (code, width, complete) = self.magnitude();
        let (code, sign) = if self.negative { (!code & mask(width), 0) } else { (code, 1) };
        bits.put(sign << width | code, width + 1, reverse) && complete
    }

    /// Returns a code of at most 63 bits for the magnitude, its width, and whether it is complete.
    #[inline]
    fn magnitude(&self) -> (u64, u32, bool) {
        let count = self.whole.len();
        if count > PLACES {
            // Adds the first digits, unless the number of digits is too large to be stored exactly.
            let known = count.min(MANY);
            let first = if count < MANY { value(&self.whole[..PLACES]) } else { 0 };
            let width = WIDTHS[PLACES];
            return ((known as u64) << width | first, COUNT + width, false);
        }
        let width = WIDTHS[count];
        let code = (count as u64) << width | value(self.whole);
        // One bit says whether there is a fraction.
        let left = 63 - COUNT - width;
        if left == 0 {
            return (code, COUNT + width, false);
        }
        if self.fraction.is_empty() {
            return (code << 1, COUNT + width + 1, true);
        }
        let places = WIDTHS.iter().rposition(|width| *width < left).unwrap_or(0);
        let known = places.min(self.fraction.len());
        let first = value(&self.fraction[..known]) * 10u64.pow((places - known) as u32);
        let room = WIDTHS[places];
        (((code << 1) | 1) << room | first, COUNT + width + 1 + room, false)
    }
}

/// Width in bits of the number of digits before the point. `MANY` digits or more are stored as
/// `MANY`.
const COUNT: u32 = 6;
const MANY: usize = 63;

/// Maximum number of digits that fit in a prefix.
const PLACES: usize = 17;

/// `WIDTHS[n]` is the width in bits of the largest number of `n` digits.
const WIDTHS: [u32; PLACES + 1] = {
    let mut widths = [0; PLACES + 1];
    let mut places = 0;
    let mut most: u64 = 1;
    while places < PLACES {
        places += 1;
        most *= 10;
        widths[places] = u64::BITS - (most - 1).leading_zeros();
    }
    widths
};

#[inline]
fn mask(width: u32) -> u64 {
    if width == 0 { 0 } else { u64::MAX >> (64 - width) }
}

/// The value of at most 19 digits.
#[inline]
fn value(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'))
}

/// Rank of a number's unit for `-h`: K is 1. It is negative for a negative number, and 0 if there
/// is no unit or the value is zero.
#[inline]
fn unit(text: &[u8]) -> i8 {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (whole, rest) = text.split_at(digits(text));
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => rest.split_at(digits(rest)),
        _ => (&[][..], rest),
    };
    if !whole.iter().chain(fraction).any(|digit| *digit != b'0') {
        return 0;
    }
    let unit = match rest.first() {
        Some(b'K' | b'k') => 1,
        Some(b'M') => 2,
        Some(b'G') => 3,
        Some(b'T') => 4,
        Some(b'P') => 5,
        Some(b'E') => 6,
        Some(b'Z') => 7,
        Some(b'Y') => 8,
        Some(b'R') => 9,
        Some(b'Q') => 10,
        _ => 0,
    };
    if negative { -unit } else { unit }
}

/// Compares two texts for `-h`: by unit, then by number.
pub(super) fn compare_human(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (without_blanks(a), without_blanks(b));
    unit(a).cmp(&unit(b)).then_with(|| Number::of(a).compare(&Number::of(b)))
}

/// Adds bits that sort like such texts. Returns true if they are complete.
pub(super) fn put_human(text: &[u8], bits: &mut PrefixBits, reverse: bool) -> bool {
    let text = without_blanks(text);
    bits.put((i64::from(unit(text)) + 10) as u64, 5, reverse) && Number::of(text).put(bits, reverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order() {
        let long = format!("{}1", "9".repeat(70));
        let longer = format!("{}2", "9".repeat(70));
        let ascending = [
            "-99999999999999999999.5",
            "-1234567890123456789",
            "-12.50001",
            "-12.5",
            "-1",
            "-.5",
            "-0.001",
            "0",
            "0.0000000000000000000000000001",
            ".001",
            "0.5",
            "1",
            "1.5",
            "1.50000000000000000000000000001",
            "9",
            "10",
            "12345678901234567",
            "12345678901234567.5",
            "12345678901234568",
            "123456789012345678901",
            "123456789012345678902",
            &long,
            &longer,
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(
                    Number::of(a.as_bytes()).compare(&Number::of(b.as_bytes())),
                    i.cmp(&j),
                    "{a} {b}"
                );
            }
        }
        for (a, b) in [
            ("-0", ""),
            ("-", "0"),
            ("007", " \t7.0"),
            ("-00.10x", "-.1"),
            ("+5", "0"),
            ("1.x", "1"),
        ] {
            assert_eq!(
                Number::of(a.as_bytes()).compare(&Number::of(b.as_bytes())),
                Ordering::Equal,
                "{a} {b}"
            );
        }
    }

    #[test]
    fn units_come_before_values() {
        let ascending = [
            "-1M", "-2K", "-9", "-1", "0G", "1", "1025", "1k", "2K", ".1M", "1.G", "3T", "1E",
            "9Z", "1Y",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare_human(a.as_bytes(), b.as_bytes()), i.cmp(&j), "{a} {b}");
            }
        }
    }
}
