//! Bracket expressions in patterns, parsed into ranges of characters or translated to a part of a
//! regular expression.

use super::matching::Matching;

/// Matches one UTF-8 character, or a byte that is not part of one.
pub(in super::super) const ANY: &str = "(?:[\\x00-\\x7f]|[\\xc2-\\xdf][\\x80-\\xbf]|[\\xe0-\\xef][\\x80-\\xbf]{2}|[\\xf0-\\xf4][\\x80-\\xbf]{3}|[\\x80-\\xff])";

/// Appends a byte to a regular expression so that it matches itself.
pub(in super::super) fn literal(out: &mut String, byte: u8) {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'/' => out.push(char::from(byte)),
        _ => out.push_str(&format!("\\x{byte:02x}")),
    }
}

/// The characters that a bracket expression matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    pub(super) negated: bool,
    /// First and last character of each range. A byte that is no character of the locale is
    /// represented by [`byte_beyond`].
    ranges: Vec<(u32, u32)>,
}

/// Represents a byte that is no character by a number outside all ranges of characters.
pub(super) fn byte_beyond(byte: u8) -> u32 {
    0x11_0000 + u32::from(byte)
}

impl Set {
    /// Parses the bracket expression after `[`. Returns the set and the length of the expression,
    /// or `None` if it is not closed or names an unknown class.
    pub(super) fn parse(text: &[u8], utf8: bool) -> Option<(Set, usize)> {
        let negated = matches!(text.first(), Some(b'!' | b'^'));
        let first = usize::from(negated);
        let (mut at, mut ranges) = (first, Vec::new());
        loop {
            let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
            if rest[0] == b']' && at > first {
                return Some((Set { negated, ranges }, at + 1));
            }
            if let Some((class, length)) = class(rest) {
                ranges.extend(class?.iter().map(|&(from, to)| (u32::from(from), u32::from(to))));
                at += length;
                continue;
            }
            let (from, length) = element(rest, utf8)?;
            at += length;
            let to = match text.get(at..) {
                Some([b'-', next @ ..]) if !matches!(next.first(), None | Some(b']')) => {
                    let (to, length) = element(next, utf8)?;
                    at += 1 + length;
                    to
                }
                _ => from,
            };
            ranges.push((from, to));
        }
    }

    /// Whether a character is in the ranges of the set.
    pub(super) fn holds(&self, character: u32) -> bool {
        self.ranges.iter().any(|&(from, to)| from <= character && character <= to)
    }
}

/// Translates the bracket expression after `[` to a regular expression. Returns it with the length
/// of the bracket expression, or `None` if that is invalid.
pub(in super::super) fn bracket(text: &[u8], how: Matching, utf8: bool) -> Option<(String, usize)> {
    let (set, length) = Set::parse(text, utf8)?;
    let (mut bytes, mut longer) = (String::new(), Vec::new());
    for &(from, to) in &set.ranges {
        if to < 0x80 || !utf8 {
            if from <= to {
                bytes.push_str(&format!("\\x{from:02x}-\\x{to:02x}"));
            }
        } else {
            longer.push(characters(from, to));
        }
    }
    Some((expression(set.negated, &bytes, &longer, how, utf8), length))
}

/// Builds the regular expression for a set of single bytes and longer characters.
fn expression(negated: bool, bytes: &str, longer: &[String], how: Matching, utf8: bool) -> String {
    // If wildcards do not match a slash, only a slash in the pattern itself does.
    let slash = if how.match_slash { "" } else { "&&[^/]" };
    let positive = match (bytes.is_empty(), longer.is_empty()) {
        (true, true) => "[^\\x00-\\xff]".to_owned(),
        (true, false) => format!("(?:{})", longer.join("|")),
        (false, true) => format!("[[{bytes}]{slash}]"),
        (false, false) => format!("(?:[[{bytes}]{slash}]|{})", longer.join("|")),
    };
    if !negated {
        return positive;
    }
    if !utf8 {
        return if bytes.is_empty() { ".".to_owned() } else { format!("[[^{bytes}]{slash}]") };
    }
    // A negated set does not distinguish longer characters, because a short expression over bytes
    // cannot do so.
    let single = if bytes.is_empty() {
        "[\\x00-\\x7f]".to_owned()
    } else {
        format!("[[\\x00-\\x7f]&&[^{bytes}]{slash}]")
    };
    ANY.replace("[\\x00-\\x7f]", &single)
}

/// An expression for the UTF-8 characters from `from` to `to`.
fn characters(from: u32, to: u32) -> String {
    match (char::from_u32(from), char::from_u32(to)) {
        (Some(from), Some(to)) if from <= to => {
            let sequences = regex_syntax::utf8::Utf8Sequences::new(from, to);
            let parts = sequences.map(|sequence| {
                let ranges = sequence.as_slice().iter();
                ranges
                    .map(|range| format!("[\\x{:02x}-\\x{:02x}]", range.start, range.end))
                    .collect::<String>()
            });
            format!("(?:{})", parts.collect::<Vec<_>>().join("|"))
        }
        _ => "[^\\x00-\\xff]".to_owned(),
    }
}

/// Ranges of bytes, both ends included.
type Ranges = &'static [(u8, u8)];

/// Parses a class such as `[:alpha:]` at the start of the text. Returns its ranges (`None` for an
/// unknown name) and its length.
fn class(text: &[u8]) -> Option<(Option<Ranges>, usize)> {
    let name = text.strip_prefix(b"[:")?;
    let end = name.windows(2).position(|two| two == b":]")?;
    let class: &[(u8, u8)] = match &name[..end] {
        b"alpha" => &[(b'a', b'z'), (b'A', b'Z')],
        b"digit" => &[(b'0', b'9')],
        b"alnum" => &[(b'a', b'z'), (b'A', b'Z'), (b'0', b'9')],
        b"upper" => &[(b'A', b'Z')],
        b"lower" => &[(b'a', b'z')],
        b"space" => &[(9, 13), (b' ', b' ')],
        b"blank" => &[(9, 9), (b' ', b' ')],
        b"punct" => &[(b'!', b'/'), (b':', b'@'), (b'[', b'`'), (b'{', b'~')],
        b"print" => &[(b' ', b'~')],
        b"graph" => &[(b'!', b'~')],
        b"cntrl" => &[(0, 31), (127, 127)],
        b"xdigit" => &[(b'0', b'9'), (b'a', b'f'), (b'A', b'F')],
        _ => return Some((None, end + 4)),
    };
    Some((Some(class), end + 4))
}

/// Parses one character of a bracket expression. Returns it with its length.
fn element(text: &[u8], utf8: bool) -> Option<(u32, usize)> {
    let (escape, text) = match text {
        [b'\\', rest @ ..] => (1, rest),
        _ => (0, text),
    };
    let (character, length) = character(text, utf8)?;
    Some((character, escape + length))
}

/// The first character of a text and its length. A byte that is not part of a character counts as
/// one.
pub(super) fn character(text: &[u8], utf8: bool) -> Option<(u32, usize)> {
    let &first = text.first()?;
    if first < 0x80 || !utf8 {
        return Some((u32::from(first), 1));
    }
    let length = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    let whole = text
        .get(..length)
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .and_then(|text| text.chars().next());
    Some(whole.map_or((byte_beyond(first), 1), |one| (u32::from(one), length)))
}
