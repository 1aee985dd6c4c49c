//! Versions of `-V`: digits compare as numbers, and what looks like the suffix of a file name
//! counts last.
//!
//! The rules are those of "Version sort ordering" in the manual of GNU coreutils.

use std::cmp::Ordering;

use super::prefix::Bits;

/// The names that come first, in this order: none at all, `.`, `..`, what starts with a point, all
/// others.
fn class(text: &[u8]) -> u8 {
    match text {
        [] => 0,
        b"." => 1,
        b".." => 2,
        [b'.', ..] => 3,
        _ => 4,
    }
}

/// The text without its suffix: a point, a letter or `~`, letters, digits and `~`, as often as that
/// is there at the end, but never from the first byte on.
fn without_suffix(text: &[u8]) -> &[u8] {
    let mut end = text.len();
    loop {
        let named = text[..end].iter().rev().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'~').count();
        let start = end - named;
        let is_suffix =
            start >= 2 && text[start - 1] == b'.' && text.get(start).is_some_and(|byte| !byte.is_ascii_digit());
        if named == 0 || !is_suffix {
            return &text[..end];
        }
        end = start - 1;
    }
}

/// How two texts compare.
pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (first, second) = (class(a), class(b));
    if first != second || first < 3 {
        return first.cmp(&second);
    }
    compare_parts(without_suffix(a), without_suffix(b)).then_with(|| compare_parts(a, b))
}

/// Where a byte that is no digit stands: `~` before the end and digits, then letters, then all
/// others.
#[inline]
fn weight(byte: u8) -> u16 {
    match byte {
        b'~' => 0,
        _ if byte.is_ascii_alphabetic() => u16::from(byte),
        _ => 256 + u16::from(byte),
    }
}

/// The weight of the end, and of a digit, among bytes that are no digits.
const END: u16 = 1;

/// Parts without digits and numbers in turn.
fn compare_parts(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while !(a.is_empty() && b.is_empty()) {
        loop {
            let text =
                |text: &[u8]| text.first().filter(|byte| !byte.is_ascii_digit()).map_or(END, |byte| weight(*byte));
            let (first, second) = (text(a), text(b));
            if first != second {
                return first.cmp(&second);
            }
            if first == END {
                break;
            }
            (a, b) = (&a[1..], &b[1..]);
        }
        let (first, second) = (number(&mut a), number(&mut b));
        let order = first.len().cmp(&second.len()).then_with(|| first.cmp(second));
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

/// Takes the digits off the text, and returns them without leading zeros.
#[inline]
fn number<'t>(text: &mut &'t [u8]) -> &'t [u8] {
    let length = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(length);
    *text = rest;
    &digits[digits.iter().position(|digit| *digit != b'0').unwrap_or(length)..]
}

/// Adds what orders versions at first sight.
pub(super) fn put(text: &[u8], bits: &mut Bits, reverse: bool) -> bool {
    let class = class(text);
    if !bits.put(u64::from(class), 3, reverse) || class < 3 {
        return class < 3;
    }
    let mut text = without_suffix(text);
    let mut room = true;
    while room && !text.is_empty() {
        while let Some(byte) = text.first().filter(|byte| !byte.is_ascii_digit()) {
            room = bits.put(u64::from(weight(*byte)), 9, reverse);
            text = &text[1..];
            if !room {
                return false;
            }
        }
        let digits = number(&mut text);
        let count = digits.len().min(15);
        bits.put(u64::from(END), 9, reverse);
        bits.put(count as u64, 4, reverse);
        if count == 15 {
            // There may be more of them, which would come before their values.
            return false;
        }
        for digit in digits {
            room = bits.put(u64::from(digit - b'0'), 4, reverse);
        }
    }
    bits.put(u64::from(END), 9, reverse);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_cut_off() {
        for (text, kept) in [
            ("a.tar.gz", "a"),
            ("a-1.2.3.tar.gz", "a-1.2.3"),
            ("a.1", "a.1"),
            ("a.b.1", "a.b.1"),
            ("a..b", "a."),
            (".b", ".b"),
            (".b.c", ".b"),
            ("a.", "a."),
            ("a.~", "a"),
            ("a.b-c.d", "a.b-c"),
            ("a.b1~2.c", "a"),
            ("", ""),
        ] {
            assert_eq!(without_suffix(text.as_bytes()), kept.as_bytes(), "{text}");
        }
    }

    #[test]
    fn versions_are_in_order() {
        let ascending = [
            "",
            ".",
            "..",
            ".a",
            ".a1",
            ".b",
            "0",
            "1",
            "1a",
            "1.0",
            "9",
            "10",
            "010b",
            "a~",
            "a",
            "a.b",
            "a1",
            "a1~",
            "a1.2",
            "a1.10",
            "a2.tar.gz",
            "a10.tar",
            "ab",
            "a-",
            "b.c",
            "_",
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                let order = compare(a.as_bytes(), b.as_bytes());
                assert_eq!(order, compare(b.as_bytes(), a.as_bytes()).reverse(), "{a} {b}");
                if i == j {
                    assert_eq!(order, Ordering::Equal);
                }
            }
        }
        for (a, b) in
            [("a~", "a"), ("a", "a1"), ("a9", "a10"), ("a.tar", "a1.tar"), ("a1.b", "a1-"), ("1a", "1.0"), ("z", ".1")]
        {
            let expected = if (a, b) == ("z", ".1") { Ordering::Greater } else { Ordering::Less };
            assert_eq!(compare(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
        assert_eq!(compare(b"a0", b"a"), Ordering::Equal);
        assert_eq!(compare(b"a01", b"a1"), Ordering::Equal);
    }
}
