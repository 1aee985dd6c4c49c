//! Versions of `-V`: digits compare as numbers, and a part that looks like a file name's suffix is
//! compared last.
//!
//! The rules are those of "Version sort ordering" in the manual of GNU coreutils.

use std::cmp::Ordering;

use super::prefix::PrefixBits;

/// Class of a name. Classes sort in this order: the empty name, `.`, `..`, names that start with a
/// point, all other names.
fn class(text: &[u8]) -> u8 {
    match text {
        [] => 0,
        b"." => 1,
        b".." => 2,
        [b'.', ..] => 3,
        _ => 4,
    }
}

/// The text without its suffix. A suffix is a point, then a letter or `~`, then letters, digits and
/// `~`. All suffixes at the end are removed, but never one that starts with the first byte.
fn without_suffix(text: &[u8]) -> &[u8] {
    let mut end = text.len();
    loop {
        let named = text[..end]
            .iter()
            .rev()
            .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'~')
            .count();
        let start = end - named;
        let is_suffix = start >= 2
            && text[start - 1] == b'.'
            && text.get(start).is_some_and(|byte| !byte.is_ascii_digit());
        if named == 0 || !is_suffix {
            return &text[..end];
        }
        end = start - 1;
    }
}

pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (first, second) = (class(a), class(b));
    if first != second || first < 3 {
        return first.cmp(&second);
    }
    compare_parts(without_suffix(a), without_suffix(b)).then_with(|| compare_parts(a, b))
}

/// Weight of a byte that is no digit: `~` comes before the end and digits, then letters, then all
/// other bytes.
#[inline]
fn weight(byte: u8) -> u16 {
    match byte {
        b'~' => 0,
        _ if byte.is_ascii_alphabetic() => u16::from(byte),
        _ => 256 + u16::from(byte),
    }
}

/// Weight of the end, or of a digit, among non-digit bytes.
const END: u16 = 1;

/// Compares non-digit parts and numbers in turn.
fn compare_parts(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while !(a.is_empty() && b.is_empty()) {
        loop {
            let text = |text: &[u8]| {
                text.first().filter(|byte| !byte.is_ascii_digit()).map_or(END, |byte| weight(*byte))
            };
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

/// Removes the digits at the start of the text, and returns them without leading zeros.
#[inline]
fn number<'t>(text: &mut &'t [u8]) -> &'t [u8] {
    let length = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(length);
    *text = rest;
    &digits[digits.iter().position(|digit| *digit != b'0').unwrap_or(length)..]
}

/// Adds bits that sort like versions. Returns true if they are complete.
pub(super) fn put(text: &[u8], bits: &mut PrefixBits, reverse: bool) -> bool {
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
            // There may be more digits, and the number of digits must sort before their values.
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
        for (a, b) in [
            ("a~", "a"),
            ("a", "a1"),
            ("a9", "a10"),
            ("a.tar", "a1.tar"),
            ("a1.b", "a1-"),
            ("1a", "1.0"),
            ("z", ".1"),
        ] {
            let expected = if (a, b) == ("z", ".1") { Ordering::Greater } else { Ordering::Less };
            assert_eq!(compare(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
        assert_eq!(compare(b"a0", b"a"), Ordering::Equal);
        assert_eq!(compare(b"a01", b"a1"), Ordering::Equal);
    }
}
