//! Finds a key in a line.

use memchr::{memchr, memchr_iter};

/// Separator between fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    /// The empty string between a non-blank and a blank: blanks belong to the field that follows
    /// them.
    Blanks,
    /// Each occurrence of this byte (`-t`). The byte belongs to no field.
    Byte(u8),
}

/// The part of a line that is a key: POS1 and POS2 of `-k`, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Number of fields before the key; `None` if it starts with the line.
    pub(crate) first_field: Option<usize>,
    /// Number of bytes at the start of its first field that do not belong to the key.
    pub(crate) first_byte: usize,
    /// Leading blanks of the first field are skipped before these bytes are counted.
    pub(crate) skip_first: bool,
    /// Number of fields before the one that the key ends in; `None` if it ends with the line.
    pub(crate) last_field: Option<usize>,
    /// Number of bytes of its last field that belong to the key; 0 for all.
    pub(crate) last_byte: usize,
    /// Leading blanks of the last field are skipped before these bytes are counted.
    pub(crate) skip_last: bool,
}

/// The whole line.
pub(crate) const WHOLE: Span = Span {
    first_field: None,
    first_byte: 0,
    skip_first: false,
    last_field: None,
    last_byte: 0,
    skip_last: false,
};

/// A position that an earlier key of the same line has found, so that the next key need not start
/// over: `fields` fields lie before the byte at `at`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FoundField {
    fields: usize,
    at: usize,
}

/// Returns whether a byte is blank in the C locale. A newline can be within a line only if lines
/// end in NUL.
#[inline]
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n')
}

/// Position of the first non-blank byte from `at` on, or the end of the line.
#[inline]
fn skip_blanks(line: &[u8], mut at: usize) -> usize {
    while at < line.len() && is_blank(line[at]) {
        at += 1;
    }
    at
}

/// The text from its first non-blank byte on.
#[inline]
pub(super) fn without_blanks(text: &[u8]) -> &[u8] {
    &text[skip_blanks(text, 0)..]
}

impl Separator {
    /// Position after skipping `count` fields from `at` on, or the end of the line.
    #[inline]
    fn pass(self, line: &[u8], mut at: usize, count: usize) -> usize {
        match self {
            Separator::Byte(_) if count == 0 || at >= line.len() => at,
            Separator::Byte(byte) if count == 1 => {
                memchr(byte, &line[at..]).map_or(line.len(), |found| at + found + 1)
            }
            Separator::Byte(byte) => memchr_iter(byte, &line[at..])
                .nth(count - 1)
                .map_or(line.len(), |found| at + found + 1),
            Separator::Blanks => {
                for _ in 0..count {
                    if at >= line.len() {
                        break;
                    }
                    at = skip_blanks(line, at);
                    while at < line.len() && !is_blank(line[at]) {
                        at += 1;
                    }
                }
                at
            }
        }
    }

    /// End of the field that starts at `at`.
    #[inline]
    fn end(self, line: &[u8], at: usize) -> usize {
        match self {
            Separator::Byte(byte) => {
                memchr(byte, &line[at..]).map_or(line.len(), |found| at + found)
            }
            Separator::Blanks => self.pass(line, at, 1),
        }
    }
}

impl Span {
    /// Returns whether the key is the whole line without any change.
    pub(super) fn is_whole(&self) -> bool {
        *self == WHOLE
    }

    /// Returns the key of a line; it is empty if its end lies before its start. `found` is the
    /// position that the previous key of the same line has found.
    #[inline]
    pub(super) fn of<'l>(
        &self,
        line: &'l [u8],
        separator: Separator,
        found: &mut FoundField,
    ) -> &'l [u8] {
        let start = match self.first_field {
            None => 0,
            Some(fields) => {
                if found.fields > fields {
                    *found = FoundField::default();
                }
                let at = separator.pass(line, found.at, fields - found.fields);
                *found = FoundField { fields, at };
                at
            }
        };
        let start = if self.skip_first { skip_blanks(line, start) } else { start };
        let start = start.saturating_add(self.first_byte).min(line.len());
        let end = self.end(line, separator, *found);
        &line[start..end.max(start)]
    }

    #[inline]
    fn end(&self, line: &[u8], separator: Separator, found: FoundField) -> usize {
        let Some(fields) = self.last_field else { return line.len() };
        let from = if found.fields <= fields { found } else { FoundField::default() };
        let at = separator.pass(line, from.at, fields - from.fields);
        if self.last_byte == 0 {
            return separator.end(line, at);
        }
        let at = if self.skip_last { skip_blanks(line, at) } else { at };
        at.saturating_add(self.last_byte).min(line.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: (usize, usize), last: Option<(usize, usize)>, skip: bool) -> Span {
        Span {
            first_field: Some(first.0),
            first_byte: first.1,
            skip_first: skip,
            last_field: last.map(|last| last.0),
            last_byte: last.map_or(0, |last| last.1),
            skip_last: skip,
        }
    }

    fn of(span: &Span, line: &str, separator: Separator) -> String {
        let key = span.of(line.as_bytes(), separator, &mut FoundField::default());
        // A key does not depend on the position found before.
        for fields in 0..5 {
            let mut found = FoundField { fields, at: separator.pass(line.as_bytes(), 0, fields) };
            assert_eq!(span.of(line.as_bytes(), separator, &mut found), key, "{span:?} {line}");
        }
        String::from_utf8(key.to_vec()).unwrap()
    }

    #[test]
    fn blanks_belong_to_the_field_behind_them() {
        let line = "  ab c\td ";
        for (span, key) in [
            (span((0, 0), Some((0, 0)), false), "  ab"),
            (span((1, 0), Some((1, 0)), false), " c"),
            (span((1, 1), Some((1, 0)), false), "c"),
            (span((1, 0), Some((2, 0)), true), "c\td"),
            (span((0, 1), Some((0, 2)), true), "b"),
            (span((0, 1), Some((0, 2)), false), " "),
            (span((2, 0), None, false), "\td "),
            (span((3, 0), None, false), " "),
            (span((4, 0), None, false), ""),
            (span((2, 0), Some((0, 0)), false), ""),
        ] {
            assert_eq!(of(&span, line, Separator::Blanks), key, "{span:?}");
        }
    }

    #[test]
    fn a_separator_belongs_to_no_field() {
        let line = "a::bcd:";
        for (span, key) in [
            (span((0, 0), Some((0, 0)), false), "a"),
            (span((1, 0), Some((1, 0)), false), ""),
            (span((2, 1), Some((2, 0)), false), "cd"),
            (span((2, 0), Some((2, 2)), false), "bc"),
            (span((2, 5), Some((2, 0)), false), ""),
            (span((0, 0), Some((2, 1)), false), "a::b"),
            (span((3, 0), None, false), ""),
            (span((9, 0), Some((9, 0)), false), ""),
            (span((1, 0), None, false), ":bcd:"),
        ] {
            assert_eq!(of(&span, line, Separator::Byte(b':')), key, "{span:?}");
        }
    }
}
