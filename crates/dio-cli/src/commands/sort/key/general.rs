//! Numbers of `-g`: what `strtold(3)` reads, in the 80-bit format of x86 (IEEE 754 extended: 15
//! bits of exponent, 64 of significand), rounded to nearest, ties to even.

mod big;

use big::WholeNumber;

use super::prefix::PrefixBits;

/// Maximum number of significant digits that can affect the result: a midpoint between two values
/// of the format has fewer. If a nonzero digit follows them, one more digit 1 stands for the rest.
const PLACES: usize = 12_000;

/// Decimal exponents of the first digit beyond these limits certainly give infinity or zero.
const LARGEST: i64 = 4940;
const SMALLEST: i64 = -4990;

/// The exponent field of infinity, and the exponent bias.
const INFINITE: i64 = 0x7fff;
const BIAS: i64 = 16383;

/// Maps a text to an integer that compares in the order of `-g`: 0 for text that is no number, then
/// the two kinds of NaN, then the numbers in ascending order.
pub(super) fn place(text: &[u8]) -> u128 {
    let blanks = text.iter().position(|b| !matches!(b, b' ' | b'\t'..=b'\r')).unwrap_or(text.len());
    let (negative, text) = match &text[blanks..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        text => (false, text),
    };
    if starts_with(text, b"nan") {
        return if negative { 1 } else { 2 };
    }
    let magnitude = if starts_with(text, b"inf") {
        Some((INFINITE as u128) << 64 | 1 << 63)
    } else if starts_with(text, b"0x") {
        // Without a digit after it, `0x` is the number 0.
        Some(hexadecimal(&text[2..]).unwrap_or(0))
    } else {
        decimal(text)
    };
    match magnitude {
        None => 0,
        Some(magnitude) if negative => 3 + (1 << 79) - magnitude,
        Some(magnitude) => 3 + (1 << 79) + magnitude,
    }
}

/// Adds the first 64 bits of the place. Returns false, because they are not the complete place.
pub(super) fn put(text: &[u8], bits: &mut PrefixBits, reverse: bool) -> bool {
    // A place has at most 81 bits.
    bits.put((place(text) >> 17) as u64, 64, reverse);
    false
}

fn starts_with(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Reads digits with an optional point among them. Calls `add` with the value of each digit and
/// whether it is behind the point. Returns the rest, or `None` if there is no digit.
fn scan(text: &[u8], radix: u32, mut add: impl FnMut(u8, bool)) -> Option<&[u8]> {
    let (mut behind, mut any) = (false, false);
    for (at, byte) in text.iter().enumerate() {
        match char::from(*byte).to_digit(radix) {
            Some(digit) => {
                any = true;
                add(digit as u8, behind);
            }
            None if *byte == b'.' && !behind => behind = true,
            None => return any.then_some(&text[at..]),
        }
    }
    any.then_some(&[])
}

/// Reads the exponent after a significand, as in `e-5`; 0 if there is none. The value is capped far
/// beyond the exponents that matter.
fn exponent(text: &[u8], letter: u8) -> i64 {
    let Some((first, rest)) = text.split_first() else { return 0 };
    if !first.eq_ignore_ascii_case(&letter) {
        return 0;
    }
    let (negative, rest) = match rest {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
    let value =
        digits.fold(0i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(1 << 50));
    if negative { -value } else { value }
}

/// The magnitude of the decimal number at the start of the text.
fn decimal(text: &[u8]) -> Option<u128> {
    // The significand is the integer formed by all digits from the first nonzero one on; it is
    // multiplied by a power of ten.
    let (mut short, mut power, mut count) = (0u64, 0i64, 0usize);
    let rest = scan(text, 10, |digit, behind| {
        power -= i64::from(behind);
        if count > 0 || digit != 0 {
            count += 1;
            if count <= 19 {
                short = short * 10 + u64::from(digit);
            }
        }
    })?;
    let power = power + exponent(rest, b'e');
    let first = power.saturating_add(count as i64);
    Some(match () {
        () if count == 0 || first < SMALLEST => 0,
        () if first > LARGEST => (INFINITE as u128) << 64 | 1 << 63,
        () if count <= 19 => short_decimal(short, power),
        () => long_decimal(text, count, power),
    })
}

/// Computes `significand * 10^power`.
fn short_decimal(significand: u64, power: i64) -> u128 {
    match power {
        0..=27 => {
            let product = u128::from(significand) * u128::from(5u64.pow(power as u32));
            round(product, false, power)
        }
        -27..0 => {
            let divisor = u128::from(5u64.pow(-power as u32));
            let shift = u128::from(significand).leading_zeros();
            let dividend = u128::from(significand) << shift;
            round(dividend / divisor, dividend % divisor != 0, power - i64::from(shift))
        }
        _ => scaled(WholeNumber::from(significand), power),
    }
}

/// Computes the same for a significand that does not fit in 64 bits.
fn long_decimal(text: &[u8], count: usize, power: i64) -> u128 {
    let mut digits = Vec::with_capacity(count.min(PLACES) + 1);
    let mut more = false;
    scan(text, 10, |digit, _| {
        if digits.len() < PLACES {
            if digit != 0 || !digits.is_empty() {
                digits.push(digit);
            }
        } else {
            more |= digit != 0;
        }
    });
    let mut power = power + (count - digits.len()) as i64;
    if more {
        digits.push(1);
        power -= 1;
    }
    let mut significand = WholeNumber::from(0);
    for part in digits.chunks(19) {
        let value = part.iter().fold(0u64, |value, digit| value * 10 + u64::from(*digit));
        significand.multiply_add(10u64.pow(part.len() as u32), value);
    }
    scaled(significand, power)
}

/// Computes `significand * 10^power` for any power within the limits.
fn scaled(mut significand: WholeNumber, power: i64) -> u128 {
    let mut fives = WholeNumber::from(1);
    let times = power.unsigned_abs();
    for _ in 0..times / 27 {
        fives.multiply_add(5u64.pow(27), 0);
    }
    fives.multiply_add(5u64.pow((times % 27) as u32), 0);
    if power >= 0 {
        significand.multiply(&fives);
        let (top, sticky, shift) = significand.top();
        return round(top, sticky, power + shift);
    }
    let (quotient, sticky, shift) = significand.divide(fives);
    round(quotient, sticky, power + shift)
}

/// The magnitude of the hexadecimal number after `0x`.
fn hexadecimal(text: &[u8]) -> Option<u128> {
    let (mut significand, mut sticky, mut power) = (0u128, false, 0i64);
    let rest = scan(text, 16, |digit, behind| {
        if significand >> 124 == 0 {
            significand = significand << 4 | u128::from(digit);
            power -= 4 * i64::from(behind);
        } else {
            sticky |= digit != 0;
            power += 4 * i64::from(!behind);
        }
    })?;
    Some(round(significand, sticky, power + exponent(rest, b'p')))
}

/// Rounds `significand * 2^power` to the format: the exponent field and the 64 bits of the
/// significand, 79 bits without the sign. `sticky` means that the exact value is slightly larger.
fn round(significand: u128, sticky: bool, power: i64) -> u128 {
    if significand == 0 {
        return 0;
    }
    let shift = significand.leading_zeros();
    let significand = significand << shift;
    let exponent = (power - i64::from(shift)) + 127 + BIAS;
    if exponent >= INFINITE {
        return (INFINITE as u128) << 64 | 1 << 63;
    }
    // Below the smallest normal number, the significand has fewer bits.
    let dropped = 64 + (1 - exponent).max(0);
    let mut exponent = exponent.max(1) as u128;
    if dropped > 128 {
        return 0;
    }
    let kept = significand.checked_shr(dropped as u32).unwrap_or(0);
    let rest = significand << (128 - dropped);
    let half = 1 << 127;
    let up = rest > half || (rest == half && (sticky || kept & 1 == 1));
    let mut kept = kept + u128::from(up);
    if kept >> 64 != 0 {
        kept >>= 1;
        exponent += 1;
    }
    if kept >> 63 == 0 {
        exponent = 0;
    }
    if exponent >= INFINITE as u128 {
        kept = 1 << 63;
    }
    exponent << 64 | kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) {
        assert_eq!(place(a.as_bytes()), place(b.as_bytes()), "{a} {b}");
    }

    #[test]
    fn what_is_read_is_in_order() {
        let ascending = [
            "x",
            "-nan",
            "nan",
            "-inf",
            "-1e5000",
            "-2.5e4000",
            "-1e10",
            "-1",
            "-1e-4930",
            "-0",
            "3.6e-4951",
            "1e-4940",
            "3.3621031431120935062e-4932",
            "1e-4000",
            "0x.8p-30",
            "0.1",
            "0.10000000000000000001",
            "0x1p-2",
            "1",
            "1.00000000000000000011",
            "0x1.8",
            "10",
            "18446744073709551615",
            "18446744073709551616",
            "1e100",
            "1.18973149535723176502e+4932",
            "1e5000",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate().filter(|(j, _)| i < *j) {
                let infinite = (i, j) == (3, 4);
                assert!(place(a.as_bytes()) < place(b.as_bytes()) || infinite, "{a} {b}");
            }
        }
    }

    #[test]
    fn values_are_rounded_to_the_nearest() {
        for (a, b) in [
            ("0", "-0"),
            ("1e3", "1000"),
            (" \t\u{b}1x", "+1"),
            ("1e", "1"),
            ("1e+", "1"),
            ("0x", "0"),
            ("0xg", "0"),
            ("0x1p", "1"),
            ("0X1.8P3z", "12"),
            ("inf", "INFINITY"),
            ("inf", "1e99999999999999999999"),
            ("0", "1e-99999999999999999999"),
            ("nan(12)", "NaN"),
            (".5", "5e-1"),
            ("1.", "1"),
            ("1e-4951", "1e-4951"),
            // 2^64 + 1 lies in the middle and is rounded to its even neighbour. With any digit more
            // it is rounded up.
            ("18446744073709551617", "18446744073709551616"),
            ("18446744073709551617.000000000000000000000000000001", "18446744073709551618"),
            ("18446744073709551619", "18446744073709551620"),
            ("0x10000000000000001", "0x10000000000000000"),
            ("0x1000000000000000100000000000000001p-68", "0x10000000000000002"),
            ("1e27", "1000000000000000000000000000"),
            ("123456789e28", "1234567890000000000000000000000000000"),
            ("123456789e-30", "0.000000000000000000000123456789"),
            ("1.7e-4951", "0"),
            ("1.9e-4951", "3.6e-4951"),
        ] {
            same(a, b);
        }
        assert_eq!(place(b"."), 0);
        assert_eq!(place(b"-"), 0);
        assert_eq!(place(b"e5"), 0);
        same(&format!("1{}", "0".repeat(30000)), "inf");
        same(&format!("0.{}1e30001", "0".repeat(30000)), "1");
        same(&format!("1.{}1", "0".repeat(30000)), "1");
    }

    /// Bits of some numbers as a C compiler produces them.
    #[test]
    fn bits_are_those_of_the_format() {
        for (text, bits) in [
            ("1", 0x3fff_8000_0000_0000_0000_u128),
            ("0.1", 0x3ffb_cccc_cccc_cccc_cccd),
            ("3.141592653589793238462643383279502884", 0x4000_c90f_daa2_2168_c235),
            ("1e4932", 0x7ffe_d72c_b2a9_5c7e_f6cd),
            ("3.6451995318824746025e-4951", 1),
        ] {
            assert_eq!(
                place(text.as_bytes()) - 3 - (1 << 79),
                bits,
                "{text}: {:x}",
                place(text.as_bytes()) - 3 - (1 << 79)
            );
        }
    }
}
