//! Patterns of names, as GNU tar has them for what is excluded (`--exclude`) and for members (`tar x PATTERN`).
//!
//! They are those of the shell (`fnmatch(3)`, `glob(7)`), over bytes: `*`, `?`, brackets with ranges and classes, and `\`
//! before a character that means itself. What they match is decided by [`Matching`]; in every case but `--no-recursion` a
//! pattern that matches a directory matches all that is in it. A pattern is translated into a regular expression, so that
//! no pattern takes more than linear time.

use regex_automata::meta::Regex;
use regex_automata::util::syntax;

use crate::locale;

/// How patterns match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Matching {
    /// From the start of the name only; otherwise behind any `/` too.
    pub(super) anchored: bool,
    /// `*`, `?` and brackets have a meaning.
    pub(super) wildcards: bool,
    /// They match `/` too.
    pub(super) match_slash: bool,
    /// Upper and lower case of ASCII are the same.
    pub(super) ignore_case: bool,
    /// What is in a directory that matches does too.
    pub(super) recursion: bool,
}

/// One pattern, ready to match.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    matcher: Matcher,
}

#[derive(Clone, Debug)]
enum Matcher {
    /// A name as it is, from the start: the usual member.
    Exact { name: Vec<u8>, recursion: bool },
    /// Anything else.
    Regex(Box<Regex>),
    /// A pattern that is too large to be matched, or has a bracket that holds nothing.
    Nothing,
}

impl Pattern {
    /// A pattern. What `fnmatch(3)` takes literally because it makes no sense (an open bracket) is literal.
    pub(super) fn new(pattern: &[u8], how: Matching) -> Pattern {
        let exact = how.anchored && !how.ignore_case && !(how.wildcards && has_wildcards(pattern));
        let matcher = match exact {
            true => Matcher::Exact { name: pattern.to_vec(), recursion: how.recursion },
            false => regex(&expression(pattern, how, locale::is_utf8())),
        };
        Pattern { matcher }
    }

    /// Whether a name matches. Names of directories are given without a `/` at their end.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        match &self.matcher {
            Matcher::Exact { name: wanted, recursion } => match name.strip_prefix(&wanted[..]) {
                Some([]) => true,
                Some(rest) => *recursion && (rest[0] == b'/'),
                None => false,
            },
            Matcher::Regex(regex) => regex.is_match(name),
            Matcher::Nothing => false,
        }
    }
}

/// Several patterns, one of which has to match.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    expressions: Vec<String>,
    all: Option<Box<Regex>>,
    /// Those that did not fit into one expression.
    single: Vec<Pattern>,
}

impl Patterns {
    /// Adds a pattern; [`Patterns::build`] comes after the last one.
    pub(super) fn add(&mut self, pattern: &[u8], how: Matching) {
        self.expressions.push(expression(pattern, how, locale::is_utf8()));
    }

    /// Makes one expression of all patterns.
    pub(super) fn build(&mut self) {
        if self.expressions.is_empty() {
            return;
        }
        match compile(&self.expressions) {
            Some(all) => self.all = Some(Box::new(all)),
            None => self.single = self.expressions.iter().map(|one| Pattern { matcher: regex(one) }).collect(),
        }
    }

    /// Whether any of them matches.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        self.all.as_ref().is_some_and(|all| all.is_match(name)) || self.single.iter().any(|one| one.matches(name))
    }
}

fn compile<S: AsRef<str>>(expressions: &[S]) -> Option<Regex> {
    let syntax = syntax::Config::new().utf8(false).unicode(false).dot_matches_new_line(true);
    let config = regex_automata::meta::Config::new().utf8_empty(false);
    Regex::builder().syntax(syntax).configure(config).build_many(expressions).ok()
}

fn regex(expression: &str) -> Matcher {
    compile(&[expression]).map_or(Matcher::Nothing, |regex| Matcher::Regex(Box::new(regex)))
}

/// Whether a pattern has characters with a meaning.
pub(super) fn has_wildcards(pattern: &[u8]) -> bool {
    pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'))
}

/// One character of UTF-8, or a byte that is none.
pub(super) const ANY: &str = "(?:[\\x00-\\x7f]|[\\xc2-\\xdf][\\x80-\\xbf]|[\\xe0-\\xef][\\x80-\\xbf]{2}|[\\xf0-\\xf4][\\x80-\\xbf]{3}|[\\x80-\\xff])";

/// The regular expression, over bytes, of the whole names that match.
fn expression(pattern: &[u8], how: Matching, utf8: bool) -> String {
    let mut out = String::from(if how.ignore_case { "(?i)^" } else { "^" });
    if !how.anchored {
        out.push_str("(?:.*/)?");
    }
    let mut rest = pattern;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            _ if !how.wildcards => literal(&mut out, byte),
            b'*' => out.push_str(if how.match_slash { ".*" } else { "[^/]*" }),
            b'?' => match (how.match_slash, utf8) {
                (true, true) => out.push_str(ANY),
                (true, false) => out.push('.'),
                (false, true) => out.push_str(&ANY.replace("\\x00-\\x7f", "\\x00-\\x2e\\x30-\\x7f")),
                (false, false) => out.push_str("[^/]"),
            },
            b'[' => match bracket(rest, how, utf8) {
                Some((set, length)) => {
                    out.push_str(&set);
                    rest = &rest[length..];
                }
                None => literal(&mut out, b'['),
            },
            b'\\' => match rest.split_first() {
                Some((&escaped, after)) => {
                    literal(&mut out, escaped);
                    rest = after;
                }
                // It stands for nothing that a name could hold (fnmatch(3) of the GNU C library).
                None => out.push_str("[^\\x00-\\xff]"),
            },
            _ => literal(&mut out, byte),
        }
    }
    out.push_str(if how.recursion { "(?:/.*)?$" } else { "$" });
    out
}

/// A byte that means itself in an expression.
pub(super) fn literal(out: &mut String, byte: u8) {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'/' => out.push(char::from(byte)),
        _ => out.push_str(&format!("\\x{byte:02x}")),
    }
}

/// The set behind `[`, and the length of what describes it; none where it is not closed.
pub(super) fn bracket(text: &[u8], how: Matching, utf8: bool) -> Option<(String, usize)> {
    let negated = matches!(text.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let (mut bytes, mut longer): (String, Vec<String>) = (String::new(), Vec::new());
    let first = at;
    loop {
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        if rest[0] == b']' && at > first {
            break;
        }
        if let Some((class, length)) = class(rest) {
            bytes.push_str(class?);
            at += length;
            continue;
        }
        let (from, length) = element(rest, utf8)?;
        at += length;
        let to = match text.get(at..) {
            Some([b'-', next @ ..]) if !matches!(next.first(), None | Some(b']')) => {
                let (to, length) = element(next, utf8)?;
                at += 1 + length;
                Some(to)
            }
            _ => None,
        };
        match (from, to) {
            (from, None) if from < 0x80 || !utf8 => bytes.push_str(&format!("\\x{from:02x}")),
            (from, Some(to)) if to < 0x80 || !utf8 && to < 0x100 => {
                if from <= to {
                    bytes.push_str(&format!("\\x{from:02x}-\\x{to:02x}"));
                }
            }
            (from, to) => longer.push(characters(from, to.unwrap_or(from))),
        }
    }
    Some((set(negated, &bytes, &longer, how, utf8), at + 1))
}

/// A set of bytes and longer characters as an expression.
fn set(negated: bool, bytes: &str, longer: &[String], how: Matching, utf8: bool) -> String {
    // A slash is matched by itself alone where wildcards do not match it.
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
    // Longer characters in a set that is turned round are not told from others: bytes cannot express it shortly.
    let single =
        if bytes.is_empty() { "[\\x00-\\x7f]".to_owned() } else { format!("[[\\x00-\\x7f]&&[^{bytes}]{slash}]") };
    ANY.replace("[\\x00-\\x7f]", &single)
}

/// The characters of UTF-8 from one to another.
fn characters(from: u32, to: u32) -> String {
    match (char::from_u32(from), char::from_u32(to)) {
        (Some(from), Some(to)) if from <= to => {
            let sequences = regex_syntax::utf8::Utf8Sequences::new(from, to);
            let parts = sequences.map(|sequence| {
                let ranges = sequence.as_slice().iter();
                ranges.map(|range| format!("[\\x{:02x}-\\x{:02x}]", range.start, range.end)).collect::<String>()
            });
            format!("(?:{})", parts.collect::<Vec<_>>().join("|"))
        }
        _ => "[^\\x00-\\xff]".to_owned(),
    }
}

/// A class such as `[:alpha:]` at the start of the text, with its length; the class is none if it has no such name.
fn class(text: &[u8]) -> Option<(Option<&'static str>, usize)> {
    let name = text.strip_prefix(b"[:")?;
    let end = name.windows(2).position(|two| two == b":]")?;
    let class = match &name[..end] {
        b"alpha" => "a-zA-Z",
        b"digit" => "0-9",
        b"alnum" => "a-zA-Z0-9",
        b"upper" => "A-Z",
        b"lower" => "a-z",
        b"space" => "\\x09-\\x0d\\x20",
        b"blank" => "\\x09\\x20",
        b"punct" => "!-/:-@\\[-`{-~",
        b"print" => "\\x20-\\x7e",
        b"graph" => "!-~",
        b"cntrl" => "\\x00-\\x1f\\x7f",
        b"xdigit" => "0-9a-fA-F",
        _ => return Some((None, end + 4)),
    };
    Some((Some(class), end + 4))
}

/// One character of a bracket, with its length.
fn element(text: &[u8], utf8: bool) -> Option<(u32, usize)> {
    let (escape, text) = match text {
        [b'\\', rest @ ..] => (1, rest),
        _ => (0, text),
    };
    let byte = *text.first()?;
    if utf8 && byte >= 0x80 {
        let chunk = text.utf8_chunks().next()?;
        if let Some(c) = chunk.valid().chars().next() {
            return Some((u32::from(c), escape + c.len_utf8()));
        }
    }
    Some((u32::from(byte), escape + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCLUDE: Matching =
        Matching { anchored: false, wildcards: true, match_slash: true, ignore_case: false, recursion: true };
    const MEMBER: Matching = Matching { anchored: true, wildcards: false, ..EXCLUDE };

    fn matches(pattern: &[u8], name: &[u8], how: Matching, utf8: bool) -> bool {
        regex_matches(&expression(pattern, how, utf8), name)
    }

    fn regex_matches(expression: &str, name: &[u8]) -> bool {
        Pattern { matcher: regex(expression) }.matches(name)
    }

    #[test]
    fn exclusion_is_that_of_gnu() {
        let yes: &[(&[u8], &[u8])] = &[
            (b"*.o", b"a/b.o"),
            (b"*.o", b"a.o/b"),
            (b"a/*", b"x/a/b/c"),
            (b"b", b"a/b/c"),
            (b"a*c", b"a/b/c"),
            (b"[a-c]x", b"d/bx"),
            (b"[!a-c]x", b"d/zx"),
            (b"[[:digit:]]*", b"7up"),
            (b"[]x]", b"]"),
            (b"a\\*b", b"a*b"),
            (b"[ab", b"[ab"),
            (b"{a,b}", b"{a,b}"),
            (b"?", b"a"),
            (b"\xff*", b"\xffrest"),
            (b"*\n*", b"a\nb"),
            (b"a", b"//a"),
        ];
        for (pattern, name) in yes {
            assert!(matches(pattern, name, EXCLUDE, false), "{} {}", pattern.escape_ascii(), name.escape_ascii());
            assert!(matches(pattern, name, EXCLUDE, true), "{} {}", pattern.escape_ascii(), name.escape_ascii());
        }
        let no: &[(&[u8], &[u8])] = &[
            (b"*.o", b"a.oo"),
            (b"b", b"ab"),
            (b"{a,b}", b"a"),
            (b"a\\*b", b"axb"),
            (b"[[:digit:]]", b"x"),
            (b"?", b"ab"),
            (b"a/b", b"b"),
        ];
        for (pattern, name) in no {
            assert!(!matches(pattern, name, EXCLUDE, false), "{} {}", pattern.escape_ascii(), name.escape_ascii());
        }
    }

    #[test]
    fn a_character_is_one_of_the_locale() {
        let e = "é".as_bytes();
        assert!(matches(b"?", e, EXCLUDE, true) && !matches(b"?", e, EXCLUDE, false));
        assert!(matches("[à-ï]".as_bytes(), e, EXCLUDE, true));
        assert!(!matches("[!à-ï]x".as_bytes(), b"a", EXCLUDE, true));
        assert!(matches(b"?", b"\xff", EXCLUDE, true));
    }

    #[test]
    fn flags_change_what_matches() {
        let anchored = Matching { anchored: true, ..EXCLUDE };
        assert!(!matches(b"b", b"a/b", anchored, false) && matches(b"a", b"a/b", anchored, false));
        let within = Matching { match_slash: false, ..EXCLUDE };
        assert!(!matches(b"a*c", b"a/b/c", within, false) && matches(b"a*", b"abc/d", within, false));
        assert!(!matches(b"a?c", b"a/c", within, true) && !matches(b"a[.-9]c", b"a/c", within, true));
        let caseless = Matching { ignore_case: true, ..EXCLUDE };
        assert!(matches(b"A*", b"abc", caseless, false));
        let flat = Matching { recursion: false, ..EXCLUDE };
        assert!(!matches(b"a", b"a/b", flat, false));
    }

    #[test]
    fn members_are_names() {
        let member = Pattern::new(b"a*", MEMBER);
        assert!(member.matches(b"a*") && member.matches(b"a*/b") && !member.matches(b"ab") && !member.matches(b"a*b"));
        let mut all = Patterns::default();
        assert!(!all.matches(b"x"));
        all.add(b"x*", EXCLUDE);
        all.add(b"y", EXCLUDE);
        all.build();
        assert!(all.matches(b"q/xx") && all.matches(b"y/z") && !all.matches(b"z"));
    }
}
