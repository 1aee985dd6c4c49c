//! Matches names against one pattern with wildcards without compiling a regular expression, so that
//! thousands of patterns need little memory.

use super::bracket::{Set, character};
use super::matching::Matching;

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// Literal bytes, in lower case if case is ignored.
    Text(Box<[u8]>),
    /// `?`
    Any,
    /// `*`
    Star,
    /// `[…]`
    Set(Box<Set>),
    /// Never matches.
    Never,
}

/// A pattern with wildcards.
#[derive(Clone, Debug)]
pub(super) struct Glob {
    tokens: Box<[Token]>,
    how: Matching,
    utf8: bool,
}

impl Glob {
    /// Parses a pattern. As in `fnmatch(3)`, an invalid bracket expression (one that is not closed)
    /// is literal text.
    pub(super) fn new(pattern: &[u8], how: Matching, utf8: bool) -> Glob {
        let (mut tokens, mut text) = (Vec::new(), Vec::new());
        let mut rest = pattern;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            let token = match byte {
                b'*' => Token::Star,
                b'?' => Token::Any,
                b'[' => match Set::parse(rest, utf8) {
                    Some((set, length)) => {
                        rest = &rest[length..];
                        Token::Set(Box::new(set))
                    }
                    None => {
                        text.push(b'[');
                        continue;
                    }
                },
                b'\\' => match rest.split_first() {
                    Some((&escaped, after)) => {
                        text.push(escaped);
                        rest = after;
                        continue;
                    }
                    // A backslash at the end matches no name (`fnmatch(3)` of the GNU C library).
                    None => Token::Never,
                },
                _ => {
                    text.push(byte);
                    continue;
                }
            };
            end_text(&mut tokens, &mut text, how);
            if token != Token::Star || tokens.last() != Some(&Token::Star) {
                tokens.push(token);
            }
        }
        end_text(&mut tokens, &mut text, how);
        Glob { tokens: tokens.into(), how, utf8 }
    }

    /// The longest literal text, which every matching name contains. `None` if case is ignored.
    pub(super) fn text(&self) -> Option<&[u8]> {
        if self.how.ignore_case {
            return None;
        }
        let texts = self
            .tokens
            .iter()
            .filter_map(|token| if let Token::Text(text) = token { Some(&text[..]) } else { None });
        texts.max_by_key(|text| text.len())
    }

    /// Whether a name matches, from its start or, unless the pattern is anchored, after any `/`.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        self.matches_from_start(name)
            || !self.how.anchored
                && memchr::memchr_iter(b'/', name)
                    .any(|slash| self.matches_from_start(&name[slash + 1..]))
    }

    /// Matches a name from its start. Only the last `*` so far is extended on a mismatch: extending
    /// an earlier one as well would not match any additional names.
    fn matches_from_start(&self, name: &[u8]) -> bool {
        let (mut token, mut rest) = (0, name);
        let mut star: Option<(usize, &[u8])> = None;
        loop {
            let next = match self.tokens.get(token) {
                Some(Token::Star) => {
                    token += 1;
                    star = Some((token, rest));
                    continue;
                }
                Some(one) => self.step(one, rest),
                None if rest.is_empty() || self.how.recursion && rest[0] == b'/' => return true,
                None => None,
            };
            if let Some(length) = next {
                (token, rest) = (token + 1, &rest[length..]);
                continue;
            }
            let Some((behind, from)) = star else { return false };
            match character(from, self.utf8) {
                Some((one, _)) if one == u32::from(b'/') && !self.how.match_slash => return false,
                Some((_, length)) => {
                    (token, rest) = (behind, &from[length..]);
                    star = Some((behind, rest));
                }
                None => return false,
            }
        }
    }

    /// Matches one token at the start of `rest`. Returns the number of bytes matched, or `None`.
    fn step(&self, token: &Token, rest: &[u8]) -> Option<usize> {
        match token {
            Token::Text(text) => {
                let start = rest.get(..text.len())?;
                let same = if self.how.ignore_case {
                    start.eq_ignore_ascii_case(text)
                } else {
                    start == &text[..]
                };
                same.then_some(text.len())
            }
            Token::Never | Token::Star => None,
            Token::Any | Token::Set(_) => {
                let (one, length) = character(rest, self.utf8)?;
                if one == u32::from(b'/') && !self.how.match_slash {
                    return None;
                }
                let Token::Set(set) = token else { return Some(length) };
                let held = set.holds(one)
                    || self.how.ignore_case
                        && other_case(one).is_some_and(|other| set.holds(other));
                (held != set.negated).then_some(length)
            }
        }
    }
}

fn end_text(tokens: &mut Vec<Token>, text: &mut Vec<u8>, how: Matching) {
    if text.is_empty() {
        return;
    }
    if how.ignore_case {
        text.make_ascii_lowercase();
    }
    tokens.push(Token::Text(std::mem::take(text).into()));
}

/// The same ASCII letter in the other case.
fn other_case(one: u32) -> Option<u32> {
    let byte = u8::try_from(one).ok().filter(u8::is_ascii_alphabetic)?;
    Some(u32::from(byte ^ 0x20))
}
