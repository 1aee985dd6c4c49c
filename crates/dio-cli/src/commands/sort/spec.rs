//! Keys as given on the command line: the argument of `-k`, and obsolete positions.

use super::key::{Ignore, KeyKind, Shuffle, SortKey, Span, View};
use crate::grammar::Refusal;
use crate::quote::marked;

/// Letters of a key, which say how it is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyLetters {
    pub(super) skip_first: bool,
    pub(super) skip_last: bool,
    pub(super) numeric: bool,
    pub(super) general: bool,
    pub(super) human: bool,
    pub(super) month: bool,
    pub(super) version: bool,
    pub(super) random: bool,
    pub(super) view: View,
    pub(super) reverse: bool,
}

/// Position of a letter: after POS1, after POS2, or for the whole key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LetterPosition {
    First,
    Last,
    Both,
}

impl KeyLetters {
    /// Adds a letter; returns `false` if it is not a letter of keys.
    pub(super) fn add(&mut self, letter: u8, at: LetterPosition) -> bool {
        match letter {
            b'b' => {
                self.skip_first |= at != LetterPosition::Last;
                self.skip_last |= at != LetterPosition::First;
            }
            b'd' => self.view.ignore = Ignore::Nondictionary,
            // `-d` ignores more than `-i`, so it stays in effect.
            b'i' if self.view.ignore == Ignore::Nondictionary => {}
            b'i' => self.view.ignore = Ignore::Nonprinting,
            b'f' => self.view.fold = true,
            b'g' => self.general = true,
            b'h' => self.human = true,
            b'M' => self.month = true,
            b'n' => self.numeric = true,
            b'R' => self.random = true,
            b'r' => self.reverse = true,
            b'V' => self.version = true,
            _ => return false,
        }
        true
    }

    /// Returns whether no letter was given except `r`.
    pub(super) fn is_default(&self) -> bool {
        *self == KeyLetters { reverse: self.reverse, ..KeyLetters::default() }
    }

    /// Returns whether the key is compared as text.
    pub(super) fn is_text(&self) -> bool {
        !(self.numeric || self.general || self.human || self.month || self.version || self.random)
    }

    /// Rejects letters that contradict each other, with GNU's message.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let other = self.version || self.random || self.view.ignore != Ignore::Nothing;
        let ways = [self.numeric, self.general, self.human, self.month, other];
        if ways.iter().filter(|way| **way).count() < 2 {
            return Ok(());
        }
        let letters = [
            (self.view.ignore == Ignore::Nondictionary, 'd'),
            (self.view.fold, 'f'),
            (self.general, 'g'),
            (self.human, 'h'),
            (self.view.ignore == Ignore::Nonprinting, 'i'),
            (self.month, 'M'),
            (self.numeric, 'n'),
            (self.random, 'R'),
            (self.version, 'V'),
        ];
        let told: String = letters.iter().filter(|(is, _)| *is).map(|(_, letter)| letter).collect();
        Err(Refusal::plain(format!("options '-{told}' are incompatible")))
    }
}

/// A key as given on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) span: Span,
    pub(super) letters: KeyLetters,
}

impl Spec {
    /// The key with its comparison. `shuffle` is the order of `-R`.
    pub(super) fn key(&self, shuffle: Option<&Shuffle>) -> SortKey {
        let letters = self.letters;
        let kind = match shuffle.filter(|_| letters.random) {
            _ if letters.numeric => KeyKind::Numeric,
            _ if letters.general => KeyKind::General,
            _ if letters.human => KeyKind::Human,
            _ if letters.month => KeyKind::Month,
            Some(shuffle) => KeyKind::Random(shuffle.clone()),
            None if letters.version => KeyKind::Version,
            None => KeyKind::Text,
        };
        let view = match kind {
            // These kinds are not affected by any letter.
            KeyKind::Numeric | KeyKind::General | KeyKind::Month => View::default(),
            _ => letters.view,
        };
        let span = Span {
            skip_first: letters.skip_first,
            skip_last: letters.skip_last,
            ..self.span.clone()
        };
        SortKey { span, kind, view, reverse: letters.reverse }
    }

    /// Reads the argument of `-k`.
    ///
    /// # Errors
    /// The argument is wrong; the message is GNU's.
    pub(super) fn of(text: &[u8]) -> Result<Spec, Refusal> {
        let mut letters = KeyLetters::default();
        let (field, rest) = count(text, "invalid number at field start")?;
        let first_field = field.checked_sub(1).ok_or_else(|| bad("field number is zero", text))?;
        let (mut first_byte, mut rest) = (0, rest);
        if let [b'.', behind @ ..] = rest {
            let (byte, behind) = count(behind, "invalid number after '.'")?;
            first_byte =
                byte.checked_sub(1).ok_or_else(|| bad("character offset is zero", text))?;
            rest = behind;
        }
        let mut span = Span { first_field: Some(first_field), first_byte, ..super::key::WHOLE };
        if (first_field, first_byte) == (0, 0) {
            span.first_field = None;
        }
        rest = add(rest, &mut letters, LetterPosition::First);
        if let [b',', behind @ ..] = rest {
            let (field, behind) = count(behind, "invalid number after ','")?;
            span.last_field =
                Some(field.checked_sub(1).ok_or_else(|| bad("field number is zero", text))?);
            rest = behind;
            if let [b'.', behind @ ..] = rest {
                (span.last_byte, rest) = count(behind, "invalid number after '.'")?;
            }
            rest = add(rest, &mut letters, LetterPosition::Last);
        }
        match rest {
            [] => Ok(Spec { span, letters }),
            _ => Err(bad("stray character in field spec", text)),
        }
    }

    /// Reads `POS1` of an obsolete key, which is counted from 0; returns `None` if it is not one.
    pub(super) fn of_obsolete_start(text: &[u8]) -> Option<Spec> {
        let mut letters = KeyLetters::default();
        let (first_field, mut rest) = count(text, "").ok()?;
        let mut first_byte = 0;
        if let [b'.', behind @ ..] = rest {
            (first_byte, rest) = count(behind, "").ok()?;
        }
        let whole = (first_field, first_byte) == (0, 0) || first_field == usize::MAX;
        let span =
            Span { first_field: (!whole).then_some(first_field), first_byte, ..super::key::WHOLE };
        add(rest, &mut letters, LetterPosition::First).is_empty().then_some(Spec { span, letters })
    }

    /// Reads `POS2` of an obsolete key.
    ///
    /// # Errors
    /// The position is wrong; the message is GNU's.
    pub(super) fn with_obsolete_end(mut self, end: &[u8]) -> Result<Spec, Refusal> {
        let (mut field, mut rest) = count(end, "invalid number after '-'")?;
        if let [b'.', behind @ ..] = rest {
            (self.span.last_byte, rest) = count(behind, "invalid number after '.'")?;
        }
        // `-2` ends with the second field, and `-2.1` one byte into the third. By that rule `-0`
        // would end before the first byte of the first field, but it is read as the whole first
        // field.
        if self.span.last_byte == 0 && field > 0 {
            field -= 1;
        }
        self.span.last_field = (field != usize::MAX).then_some(field);
        match add(rest, &mut self.letters, LetterPosition::Last) {
            [] => Ok(self),
            _ => Err(bad("stray character in field spec", &[b"-", end].concat())),
        }
    }
}

/// Reads a number; returns it with the text behind it. A number that is too large becomes the
/// largest one.
fn count<'t>(text: &'t [u8], what: &str) -> Result<(usize, &'t [u8]), Refusal> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return Err(Refusal::plain(format!("{what}: invalid count at start of {}", marked(text))));
    }
    let value = text[..digits].iter().try_fold(0usize, |value, digit| {
        value.checked_mul(10).and_then(|value| value.checked_add(usize::from(digit - b'0')))
    });
    Ok((value.unwrap_or(usize::MAX), &text[digits..]))
}

/// Adds the letters at the start of the text; returns the rest.
fn add<'t>(text: &'t [u8], letters: &mut KeyLetters, at: LetterPosition) -> &'t [u8] {
    let count = text.iter().take_while(|letter| letters.add(**letter, at)).count();
    &text[count..]
}

fn bad(what: &str, text: &[u8]) -> Refusal {
    Refusal::plain(format!("{what}: invalid field specification {}", marked(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First field and byte, last field and byte.
    fn positions(span: &Span) -> (Option<usize>, usize, Option<usize>, usize) {
        (span.first_field, span.first_byte, span.last_field, span.last_byte)
    }

    #[test]
    fn positions_are_read() {
        for (text, expected) in [
            ("1", (None, 0, None, 0)),
            ("1.2", (Some(0), 1, None, 0)),
            ("2,2", (Some(1), 0, Some(1), 0)),
            ("3.4n,5.6b", (Some(2), 3, Some(4), 6)),
            ("2,1.0", (Some(1), 0, Some(0), 0)),
            ("99999999999999999999999", (Some(usize::MAX - 1), 0, None, 0)),
        ] {
            assert_eq!(positions(&Spec::of(text.as_bytes()).unwrap().span), expected, "{text}");
        }
        for (start, end, expected) in [
            ("0", None, (None, 0, None, 0)),
            ("1", None, (Some(1), 0, None, 0)),
            ("1.2", None, (Some(1), 2, None, 0)),
            ("1", Some("2"), (Some(1), 0, Some(1), 0)),
            ("1", Some("2.3"), (Some(1), 0, Some(2), 3)),
            ("0", Some("0"), (None, 0, Some(0), 0)),
        ] {
            let mut key = Spec::of_obsolete_start(start.as_bytes()).unwrap();
            if let Some(end) = end {
                key = key.with_obsolete_end(end.as_bytes()).unwrap();
            }
            assert_eq!(positions(&key.span), expected, "{start} {end:?}");
        }
        assert!(Spec::of_obsolete_start(b"1x").is_none() && Spec::of_obsolete_start(b"").is_none());
        let letters = Spec::of(b"1b,2n").unwrap().letters;
        assert_eq!((letters.skip_first, letters.skip_last, letters.numeric), (true, false, true));
    }
}
