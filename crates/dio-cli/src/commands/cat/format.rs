//! The formatting of `cat`: line numbers, `$` at line ends, `^I`, `M-^X`, squeezed empty lines.
//!
//! [`Formatter`] is a state machine over bytes. The input may come in pieces of any size; the
//! output is the same. Runs that need no change are found quickly and copied whole.

use memchr::{memchr, memchr_iter};

use super::number::LineNumber;
use super::visible;

/// Rule for numbering lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Numbered {
    /// No lines.
    #[default]
    None,
    /// All lines (`-n`).
    All,
    /// Lines that are not empty (`-b`).
    NonBlank,
}

/// Formatting options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Format {
    /// Lines that get a number.
    pub(super) numbered: Numbered,
    /// Only the first of several empty lines in a row is kept.
    pub(super) squeeze: bool,
    /// A `$` is put before each newline, or `^M$` in place of a carriage return before it.
    pub(super) ends: bool,
    /// Tabs become `^I`.
    pub(super) tabs: bool,
    /// Control characters become `^X` and bytes with the high bit `M-`; tabs and newlines stay.
    pub(super) nonprinting: bool,
}

impl Format {
    /// Returns whether the text is not changed.
    pub(super) fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether the formatting depends on where lines begin and end.
    fn by_line(&self) -> bool {
        self.numbered != Numbered::None || self.squeeze || self.ends
    }
}

/// Position in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinePosition {
    /// Inside a line.
    Inside,
    /// At the beginning of a line, after this many empty lines (counted up to two).
    Start(u8),
}

/// Formats text that comes in pieces. It continues from one file to the next, as GNU `cat` does.
#[derive(Debug)]
pub(super) struct Formatter {
    format: Format,
    number: LineNumber,
    position: LinePosition,
    /// The last byte was a carriage return. The next byte determines how it is shown.
    carriage_return: bool,
}

impl Formatter {
    /// Starts at the beginning of a line, with line number 1.
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            number: LineNumber::new(),
            position: LinePosition::Start(0),
            carriage_return: false,
        }
    }

    /// Formats `text` and appends it to `out`.
    pub(super) fn push(&mut self, text: &[u8], out: &mut Vec<u8>) {
        if !self.format.by_line() {
            return self.body(text, out);
        }
        if self.format == (Format { numbered: Numbered::All, ..Format::default() }) {
            return self.only_numbers(text, out);
        }
        let mut start = 0;
        for end in memchr_iter(b'\n', text) {
            self.line(&text[start..end], true, out);
            start = end + 1;
        }
        if start < text.len() {
            self.line(&text[start..], false, out);
        }
    }

    /// Appends the byte that was held back, if any. Called after the last file.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.carriage_return) {
            out.push(b'\r');
        }
    }

    /// Handles the most common case, `-n` alone: every line is preceded by its number.
    fn only_numbers(&mut self, mut text: &[u8], out: &mut Vec<u8>) {
        if self.position == LinePosition::Inside {
            let end = memchr(b'\n', text).map_or(text.len(), |at| at + 1);
            out.extend_from_slice(&text[..end]);
            if text[..end].ends_with(b"\n") {
                self.position = LinePosition::Start(0);
            }
            text = &text[end..];
        }
        let mut start = 0;
        for end in memchr_iter(b'\n', text) {
            self.number.next(out);
            out.extend_from_slice(&text[start..=end]);
            start = end + 1;
        }
        if start < text.len() {
            self.number.next(out);
            out.extend_from_slice(&text[start..]);
            self.position = LinePosition::Inside;
        }
    }

    /// Formats a line, or as much of it as is available; `ended` says that a newline follows.
    fn line(&mut self, text: &[u8], ended: bool, out: &mut Vec<u8>) {
        let mut text = text;
        if !text.is_empty() {
            if std::mem::take(&mut self.carriage_return) {
                out.push(b'\r');
            }
            if self.position != LinePosition::Inside && self.format.numbered != Numbered::None {
                self.number.next(out);
            }
            self.position = LinePosition::Inside;
            if self.format.ends && !self.format.nonprinting && text.ends_with(b"\r") {
                self.carriage_return = true;
                text = &text[..text.len() - 1];
            }
            self.body(text, out);
        }
        if ended {
            self.end(out);
        }
    }

    /// Handles a newline.
    fn end(&mut self, out: &mut Vec<u8>) {
        let empty_before = match self.position {
            LinePosition::Inside => None,
            LinePosition::Start(empty) => Some(empty),
        };
        if let Some(empty) = empty_before {
            self.position = LinePosition::Start((empty + 1).min(2));
            if self.format.squeeze && empty > 0 {
                return;
            }
            if self.format.numbered == Numbered::All {
                self.number.next(out);
            }
        } else {
            self.position = LinePosition::Start(0);
        }
        if self.format.ends {
            let cr = std::mem::take(&mut self.carriage_return);
            out.extend_from_slice(if cr { b"^M$" } else { b"$" });
        }
        out.push(b'\n');
    }

    /// Formats text in which line ends do not matter.
    fn body(&self, text: &[u8], out: &mut Vec<u8>) {
        match (self.format.nonprinting, self.format.tabs) {
            (true, tabs) => visible::all(text, tabs, out),
            (false, true) => visible::tabs(text, out),
            (false, false) => out.extend_from_slice(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use dio_test::{Rng, Seed};

    use super::*;

    /// The rules as the manual states them, applied byte by byte.
    fn model(format: Format, input: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let (mut number, mut empty_lines) = (0, 0);
        for line in input.split_inclusive(|&b| b == b'\n') {
            let (text, ended) = line.strip_suffix(b"\n").map_or((line, false), |text| (text, true));
            empty_lines = if text.is_empty() { empty_lines + 1 } else { 0 };
            if format.squeeze && empty_lines > 1 {
                continue;
            }
            if format.numbered == Numbered::All
                || format.numbered == Numbered::NonBlank && !text.is_empty()
            {
                number += 1;
                out.extend(format!("{number:6}\t").bytes());
            }
            for (at, &byte) in text.iter().enumerate() {
                let before_end = ended && at + 1 == text.len();
                match byte {
                    b'\t' if format.tabs => out.extend(b"^I"),
                    b'\t' => out.push(byte),
                    b'\r' if before_end && format.ends => out.extend(b"^M"),
                    _ if format.nonprinting => out.extend(shown(byte).bytes()),
                    _ => out.push(byte),
                }
            }
            if ended {
                out.extend(if format.ends { &b"$\n"[..] } else { b"\n" });
            }
        }
        out
    }

    fn shown(byte: u8) -> String {
        match byte {
            0..32 => format!("^{}", (byte + 64) as char),
            127 => "^?".into(),
            32..127 => (byte as char).into(),
            _ => format!("M-{}", shown(byte - 128)),
        }
    }

    fn formats() -> impl Iterator<Item = Format> {
        [Numbered::None, Numbered::NonBlank, Numbered::All].into_iter().flat_map(|numbered| {
            (0..16).map(move |bits| Format {
                numbered,
                squeeze: bits & 1 != 0,
                ends: bits & 2 != 0,
                tabs: bits & 4 != 0,
                nonprinting: bits & 8 != 0,
            })
        })
    }

    /// Makes text with many of the bytes that matter, and sometimes long plain runs.
    fn text(rng: &mut Rng) -> Vec<u8> {
        let mut text = Vec::new();
        for _ in 0..rng.range(0..60) {
            match rng.range(0..8) {
                0 | 1 => text.push(b'\n'),
                2 => text.extend(b"\r\n"),
                3 => text.push(*rng.pick(b"\r\t\0\x7f\x80\xff\xa0\x1f ")),
                4 => text.push(rng.next_u64() as u8),
                5 => text.extend(std::iter::repeat_n(b'x', rng.range_usize(0..100))),
                _ => text.push(b'a'),
            }
        }
        text
    }

    #[test]
    fn pieces_of_any_size_give_what_the_whole_gives() {
        let seed = Seed::new();
        let mut rng = seed.rng();
        for round in 0..400 {
            let text = text(&mut rng);
            let longest = *rng.pick(&[1, 2, 7, 50, 5000]);
            for format in formats() {
                let (mut formatter, mut out) = (Formatter::new(format), Vec::new());
                let mut rest = &text[..];
                while !rest.is_empty() {
                    let (piece, left) =
                        rest.split_at(rng.range_usize(0..longest.min(rest.len()) + 1));
                    formatter.push(piece, &mut out);
                    rest = left;
                }
                formatter.finish(&mut out);
                let expected = model(format, &text);
                assert!(
                    out == expected,
                    "round {round} {format:?}\n{:?}\ngave {:?}\nnot  {:?}",
                    text.escape_ascii().to_string(),
                    out.escape_ascii().to_string(),
                    expected.escape_ascii().to_string()
                );
            }
        }
    }

    #[test]
    fn every_byte_is_shown_as_documented() {
        let text: Vec<u8> = (0..=255).collect();
        for format in formats() {
            let (mut formatter, mut out) = (Formatter::new(format), Vec::new());
            formatter.push(&text, &mut out);
            formatter.finish(&mut out);
            assert_eq!(out, model(format, &text), "{format:?}");
        }
    }

    #[test]
    fn a_carriage_return_waits_for_what_follows() {
        let ends = Format { ends: true, ..Format::default() };
        for (pieces, shown) in [
            (&["a\r", "\n"][..], "a^M$\n"),
            (&["a\r", "b\n"], "a\rb$\n"),
            (&["a\r", "\r", "\n"], "a\r^M$\n"),
            (&["a\r"], "a\r"),
            (&["\r", "", "\n"], "^M$\n"),
        ] {
            let (mut formatter, mut out) = (Formatter::new(ends), Vec::new());
            pieces.iter().for_each(|piece| formatter.push(piece.as_bytes(), &mut out));
            formatter.finish(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), shown, "{pieces:?}");
        }
    }
}
