//! Comparison of texts with some bytes ignored (`-d`, `-i`) or folded (`-f`), and names of months.

use std::cmp::Ordering;

use super::field::{is_blank, without_blanks};
use super::prefix::PrefixBits;

/// Bytes that are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ignore {
    /// No byte is ignored.
    #[default]
    Nothing,
    /// Bytes that cannot be printed are ignored (`-i`).
    Nonprinting,
    /// All but blanks, letters and digits are ignored (`-d`).
    Nondictionary,
}

/// Bytes of a key that are ignored or folded in comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) ignore: Ignore,
    /// Lowercase letters count as capitals.
    pub(crate) fold: bool,
}

impl View {
    /// Returns whether bytes are compared unchanged.
    pub(super) fn is_plain(self) -> bool {
        self == View::default()
    }

    #[inline]
    fn counts(self, byte: u8) -> bool {
        match self.ignore {
            Ignore::Nothing => true,
            Ignore::Nonprinting => matches!(byte, b' '..=b'~'),
            Ignore::Nondictionary => byte.is_ascii_alphanumeric() || is_blank(byte),
        }
    }

    /// The bytes that are not ignored, folded if requested.
    #[inline]
    pub(super) fn of(self, text: &[u8]) -> impl Iterator<Item = u8> + '_ {
        let counting = text.iter().copied().filter(move |byte| self.counts(*byte));
        counting.map(move |byte| if self.fold { byte.to_ascii_uppercase() } else { byte })
    }

    #[inline]
    pub(super) fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match (self.ignore, self.fold) {
            (Ignore::Nothing, false) => a.cmp(b),
            (Ignore::Nothing, true) => compare_folded(a, b),
            _ => self.of(a).cmp(self.of(b)),
        }
    }

    /// Adds a text. Returns whether it was added completely.
    #[inline]
    pub(super) fn put(self, text: &[u8], bits: &mut PrefixBits, reverse: bool) -> bool {
        if self.is_plain() {
            return bits.put_text(text, reverse);
        }
        let mut first = [0; 8];
        let mut length = 0;
        for (place, byte) in first.iter_mut().zip(self.of(text)) {
            *place = byte;
            length += 1;
        }
        // After eight bytes there is no room for the end.
        bits.put_text(&first[..length], reverse) && length < 8
    }
}

/// Compares two texts, with lowercase letters counted as capitals.
fn compare_folded(a: &[u8], b: &[u8]) -> Ordering {
    let same = a.chunks_exact(16).zip(b.chunks_exact(16)).take_while(|(a, b)| a == b).count() * 16;
    let (a, b) = (&a[same..], &b[same..]);
    for (a, b) in a.iter().zip(b) {
        let order = a.to_ascii_uppercase().cmp(&b.to_ascii_uppercase());
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// The number of the month that the text names, after blanks, by its first three letters; 0 for
/// none.
pub(super) fn month(text: &[u8]) -> u8 {
    const NAMES: [&[u8; 3]; 12] = [
        b"JAN", b"FEB", b"MAR", b"APR", b"MAY", b"JUN", b"JUL", b"AUG", b"SEP", b"OCT", b"NOV",
        b"DEC",
    ];
    let Some(name) = without_blanks(text).first_chunk::<3>().map(|name| name.to_ascii_uppercase())
    else {
        return 0;
    };
    NAMES.iter().position(|month| name == **month).map_or(0, |at| at as u8 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_bytes_do_not_count() {
        let seen =
            |ignore, fold, text: &[u8]| -> Vec<u8> { View { ignore, fold }.of(text).collect() };
        assert_eq!(seen(Ignore::Nonprinting, false, b"a\0b\x7f~ \xe9\n\t"), b"ab~ ");
        assert_eq!(seen(Ignore::Nondictionary, true, b"a.-b 9\t\n\xe9_"), b"AB 9\t\n");
        let folded = View { ignore: Ignore::Nothing, fold: true };
        assert_eq!(
            folded.compare(b"aaaaaaaaaaaaaaaaaaaB_", b"aaaaaaaaaaaaaaaaaaAb^"),
            Ordering::Greater
        );
        assert_eq!(folded.compare(b"aaaaaaaaaaaaaaaax", b"aaaaaaaaaaaaaaaaXy"), Ordering::Less);
    }

    #[test]
    fn months_are_named_by_three_letters() {
        for (text, number) in [
            ("jan", 1),
            (" \tDecember", 12),
            ("ma", 0),
            ("", 0),
            ("xjan", 0),
            ("mAy", 5),
            ("sept", 9),
        ] {
            assert_eq!(month(text.as_bytes()), number, "{text}");
        }
    }
}
