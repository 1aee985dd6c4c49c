//! The order of the sorted lines.
//!
//! `field` finds a key in a line. `text`, `number`, `general` and `version` compare two keys of
//! their kind. They also put as much of a key's order as they can into 64 bits (`prefix`), so that
//! for most pairs of lines the bytes need not be compared.

mod field;
mod general;
mod number;
mod prefix;
#[cfg(test)]
mod tests;
mod text;
mod version;

use std::cmp::Ordering;

use md5::{Digest, Md5};

use field::FoundField;
use number::Number;
use prefix::PrefixBits;
use text::month;

pub(crate) use field::{Separator, Span, WHOLE};
pub(crate) use text::{Ignore, View};

/// The kind of a key, which says how keys are compared.
#[derive(Clone, Debug)]
pub(crate) enum KeyKind {
    /// Strings of bytes.
    Text,
    /// Numbers of any length (`-n`).
    Numeric,
    /// Floating-point numbers (`-g`).
    General,
    /// Numbers with units (`-h`).
    Human,
    /// Names of months (`-M`).
    Month,
    /// Versions (`-V`).
    Version,
    /// Pseudorandom order (`-R`).
    Random(Shuffle),
}

/// State of `-R`: keys are compared by the MD5 digest of a salt and the key.
#[derive(Clone, Debug)]
pub(crate) struct Shuffle {
    salted: Md5,
    /// A key that does not end with NUL gets one appended. GNU sort does that in locales other than
    /// `C` and `POSIX`.
    ends: bool,
}

impl Shuffle {
    /// Makes the order for a salt of 16 random bytes.
    pub(crate) fn new(salt: [u8; 16], ends: bool) -> Shuffle {
        Shuffle { salted: Md5::new_with_prefix(salt), ends }
    }

    fn digest(&self, text: &[u8]) -> [u8; 16] {
        let mut digest = self.salted.clone();
        digest.update(text);
        if self.ends && text.last().is_some_and(|last| *last != 0) {
            digest.update([0]);
        }
        digest.finalize().into()
    }
}

/// One key.
#[derive(Clone, Debug)]
pub(crate) struct SortKey {
    /// Position of the key in a line.
    pub(crate) span: Span,
    /// How two keys are compared.
    pub(crate) kind: KeyKind,
    /// Bytes that are ignored or folded in the comparison.
    pub(crate) view: View,
    /// The order is descending.
    pub(crate) reverse: bool,
}

impl SortKey {
    #[inline]
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let order = match &self.kind {
            KeyKind::Text => self.view.compare(a, b),
            KeyKind::Numeric => Number::of(a).compare(&Number::of(b)),
            _ => self.compare_others(a, b),
        };
        if self.reverse { order.reverse() } else { order }
    }

    fn compare_others(&self, a: &[u8], b: &[u8]) -> Ordering {
        if !self.view.is_plain() {
            let seen = |text| self.view.of(text).collect::<Vec<u8>>();
            return self.compare_kind(&seen(a), &seen(b));
        }
        self.compare_kind(a, b)
    }

    fn compare_kind(&self, a: &[u8], b: &[u8]) -> Ordering {
        match &self.kind {
            KeyKind::Text => a.cmp(b),
            KeyKind::Numeric => Number::of(a).compare(&Number::of(b)),
            KeyKind::General => general::place(a).cmp(&general::place(b)),
            KeyKind::Human => number::compare_human(a, b),
            KeyKind::Month => month(a).cmp(&month(b)),
            KeyKind::Version => version::compare(a, b),
            KeyKind::Random(shuffle) => {
                shuffle.digest(a).cmp(&shuffle.digest(b)).then_with(|| a.cmp(b))
            }
        }
    }

    /// Adds as much of a key's order as possible. Returns true if it is complete and more may
    /// follow.
    #[inline]
    fn put(&self, text: &[u8], bits: &mut PrefixBits) -> bool {
        match &self.kind {
            KeyKind::Text => self.view.put(text, bits, self.reverse),
            KeyKind::Numeric => Number::of(text).put(bits, self.reverse),
            _ if self.view.is_plain() => self.put_others(text, bits),
            _ => self.put_others(&self.view.of(text).collect::<Vec<u8>>(), bits),
        }
    }

    fn put_others(&self, text: &[u8], bits: &mut PrefixBits) -> bool {
        let reverse = self.reverse;
        match &self.kind {
            KeyKind::Text => bits.put_text(text, reverse),
            KeyKind::Numeric => Number::of(text).put(bits, reverse),
            KeyKind::General => general::put(text, bits, reverse),
            KeyKind::Human => number::put_human(text, bits, reverse),
            KeyKind::Month => bits.put(u64::from(month(text)), 4, reverse),
            KeyKind::Version => version::put(text, bits, reverse),
            KeyKind::Random(shuffle) => {
                let digest = shuffle.digest(text);
                let first = digest.first_chunk().expect("a digest has 16 bytes");
                bits.put(u64::from_be_bytes(*first), 64, reverse);
                false
            }
        }
    }
}

/// An order of lines: the keys, the last resort for lines with equal keys, and the direction.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Empty if whole lines are compared as bytes.
    keys: Vec<SortKey>,
    separator: Separator,
    /// If all keys are equal, the bytes of the lines decide.
    last_resort: bool,
    /// The bytes decide in descending order.
    reverse: bool,
}

impl Order {
    /// Lines compare as strings of bytes, ascending, or descending if `reverse`.
    pub(crate) fn bytes(reverse: bool) -> Order {
        Order { keys: Vec::new(), separator: Separator::Blanks, last_resort: true, reverse }
    }

    /// Makes an order by `keys` of fields with this separator. Lines with equal keys keep their
    /// input order if `stable`; else their bytes decide, in descending order if `reverse`.
    pub(crate) fn by_keys(
        keys: Vec<SortKey>,
        separator: Separator,
        stable: bool,
        reverse: bool,
    ) -> Order {
        let is_text = |key: &SortKey| {
            matches!(key.kind, KeyKind::Text) && key.view.is_plain() && key.span.is_whole()
        };
        if let [key] = &keys[..]
            && is_text(key)
            && (stable || key.reverse == reverse)
        {
            // The last resort gives the same order, so it can be left out.
            return Order::bytes(key.reverse);
        }
        let last_resort = keys.is_empty() || !stable;
        Order { keys, separator, last_resort, reverse }
    }

    /// Returns 64 bits that sort like the line: `prefix(a) < prefix(b)` implies that `a` comes
    /// before `b`. If they are equal, [`Order::compare_rest`] decides.
    #[inline]
    pub(crate) fn prefix(&self, line: &[u8]) -> u64 {
        if self.keys.is_empty() {
            return first_bytes(line, self.reverse);
        }
        let mut bits = PrefixBits::new();
        let mut found = FoundField::default();
        for key in &self.keys {
            if !key.put(key.span.of(line, self.separator, &mut found), &mut bits) {
                return bits.value();
            }
        }
        if self.last_resort {
            bits.put_text(line, self.reverse);
        }
        bits.value()
    }

    /// Compares two lines, without their terminators: by the keys, then, as GNU's last resort, by
    /// all bytes unless the order is stable. Lines that are `Equal` keep the order of the input.
    #[inline]
    pub(crate) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let order = self.compare_keys(a, b);
        if order.is_ne() || !self.last_resort {
            return order;
        }
        let order = a.cmp(b);
        if self.reverse { order.reverse() } else { order }
    }

    /// Works as [`Order::compare`] for two lines whose prefixes are equal, and skips the bytes that
    /// the prefixes have compared.
    #[inline]
    pub(crate) fn compare_rest(&self, a: &[u8], b: &[u8]) -> Ordering {
        match (self.keys.is_empty(), a.get(8..), b.get(8..)) {
            (true, Some(a), Some(b)) if self.reverse => b.cmp(a),
            (true, Some(a), Some(b)) => a.cmp(b),
            _ => self.compare(a, b),
        }
    }

    /// Returns whether the keys are equal; `-u` treats such lines as one.
    #[inline]
    pub(crate) fn same(&self, a: &[u8], b: &[u8]) -> bool {
        if self.keys.is_empty() { a == b } else { self.compare_keys(a, b).is_eq() }
    }

    /// Returns whether whole lines are compared as bytes, and if so whether in reverse. `prefix` is
    /// then the first eight bytes, padded with zeros (inverted if reversed).
    pub(crate) fn is_bytes(&self) -> Option<bool> {
        self.keys.is_empty().then_some(self.reverse)
    }

    #[inline]
    fn compare_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (mut in_a, mut in_b) = (FoundField::default(), FoundField::default());
        for key in &self.keys {
            let first = key.span.of(a, self.separator, &mut in_a);
            let second = key.span.of(b, self.separator, &mut in_b);
            let order = key.compare(first, second);
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }
}

/// The first eight bytes as a number, padded with zeros; inverted if `reverse`.
#[inline]
fn first_bytes(line: &[u8], reverse: bool) -> u64 {
    let prefix = match line.first_chunk::<8>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; 8];
            first[..line.len()].copy_from_slice(line);
            u64::from_be_bytes(first)
        }
    };
    if reverse { !prefix } else { prefix }
}
