//! Translates POSIX regular expressions.

use super::super::pattern::{self, Matching};
use crate::grammar::Refusal;
use crate::locale;

/// Translates a POSIX regular expression. Also returns the number of its groups.
pub(super) fn translate(regex: &[u8], extended: bool) -> Result<(String, usize), Refusal> {
    Translation {
        extended,
        utf8: locale::is_utf8(),
        out: String::new(),
        open: Vec::new(),
        groups: 0,
        atom: None,
    }
    .run(regex)
}

struct Translation {
    extended: bool,
    utf8: bool,
    out: String,
    /// Positions in `out` at which the open groups begin.
    open: Vec<usize>,
    groups: usize,
    /// Position in `out` at which the last repeatable part begins. `None` where `*` would be
    /// literal, and after an anchor.
    atom: Option<usize>,
}

/// A part of an expression, whether or not its syntax needs `\`.
enum Token {
    Open,
    Close,
    Or,
    Repeat(&'static str),
    Interval,
    Other(u8),
}

impl Translation {
    fn run(mut self, mut rest: &[u8]) -> Result<(String, usize), Refusal> {
        while let Some((&byte, after)) = rest.split_first() {
            let escaped = after.first().copied().filter(|_| byte == b'\\');
            let (token, mut behind) = match escaped {
                Some(letter) => (self.token(letter, !self.extended), &after[1..]),
                None => (self.token(byte, self.extended), after),
            };
            match token {
                Token::Open => {
                    self.open.push(self.out.len());
                    self.groups += 1;
                    self.out.push('(');
                    self.atom = None;
                }
                Token::Close => {
                    self.atom = Some(self.open.pop().ok_or_else(invalid)?);
                    self.out.push(')');
                }
                Token::Or => {
                    self.out.push('|');
                    self.atom = None;
                }
                Token::Repeat(how) => self.repeat(how, byte)?,
                Token::Interval => behind = self.interval(behind)?,
                Token::Other(letter) if escaped.is_some() => self.escaped(letter)?,
                Token::Other(_) => behind = self.plain(byte, behind)?,
            }
            rest = behind;
        }
        if self.open.is_empty() { Ok((self.out, self.groups)) } else { Err(invalid()) }
    }

    /// The meaning of a character; with `operators`, it may be an operator.
    fn token(&self, letter: u8, operators: bool) -> Token {
        match letter {
            b'(' if operators => Token::Open,
            b')' if operators && (!self.extended || !self.open.is_empty()) => Token::Close,
            b'|' if operators => Token::Or,
            b'{' if operators => Token::Interval,
            b'+' if operators => Token::Repeat("+"),
            b'?' if operators => Token::Repeat("?"),
            // The operator is written without `\` in both syntaxes.
            b'*' if operators == self.extended => Token::Repeat("*"),
            other => Token::Other(other),
        }
    }

    /// Repeats the last part. If there is none, the operator is literal in the basic syntax and an
    /// error in the extended one.
    fn repeat(&mut self, how: &str, byte: u8) -> Result<(), Refusal> {
        match self.atom {
            Some(start) => {
                self.out.insert_str(start, "(?:");
                self.out.push(')');
                self.out.push_str(how);
            }
            None if self.extended => return Err(invalid()),
            None => self.literal(if byte == b'\\' { how.as_bytes()[0] } else { byte }),
        }
        Ok(())
    }

    /// Parses `{2}`, `{2,}`, `{,2}` or `{2,3}`, and returns the text behind it.
    fn interval<'t>(&mut self, text: &'t [u8]) -> Result<&'t [u8], Refusal> {
        let end: &[u8] = if self.extended { b"}" } else { b"\\}" };
        let length = memchr::memmem::find(text, end).ok_or_else(invalid)?;
        let numbers = std::str::from_utf8(&text[..length]).map_err(|_| invalid())?;
        let (least, most) = numbers.split_once(',').unwrap_or((numbers, numbers));
        let number = |text: &str| text.is_empty() || text.parse::<u8>().is_ok();
        if !number(least) || !number(most) || numbers.is_empty() || self.atom.is_none() {
            return Err(invalid());
        }
        let least = if least.is_empty() { "0" } else { least };
        self.repeat(&format!("{{{least},{most}}}"), b'{')?;
        Ok(&text[length + end.len()..])
    }

    fn literal(&mut self, byte: u8) {
        self.atom = Some(self.out.len());
        pattern::literal(&mut self.out, byte);
    }

    /// Handles a character after `\` that is no operator.
    fn escaped(&mut self, letter: u8) -> Result<(), Refusal> {
        let class = match letter {
            b'w' => "[0-9A-Za-z_]",
            b'W' => "[^0-9A-Za-z_]",
            b's' => "[\\x09-\\x0d\\x20]",
            b'S' => "[^\\x09-\\x0d\\x20]",
            b'b' => "(?-u:\\b)",
            b'B' => "(?-u:\\B)",
            b'<' => "(?-u:\\b{start})",
            b'>' => "(?-u:\\b{end})",
            b'`' => "\\A",
            b'\'' => "\\z",
            b'1'..=b'9' => {
                return Err(Refusal::usage(
                    "Invalid transform expression: back references are not supported",
                ));
            }
            other => {
                self.literal(escape(other).unwrap_or(other));
                return Ok(());
            }
        };
        self.atom = Some(self.out.len());
        self.out.push_str(class);
        Ok(())
    }

    /// Handles a character without `\`, and returns the text behind it.
    fn plain<'t>(&mut self, byte: u8, behind: &'t [u8]) -> Result<&'t [u8], Refusal> {
        let begins = self.out.is_empty() || self.out.ends_with('(') || self.out.ends_with('|');
        let ends = behind.is_empty() || behind.starts_with(b"\\)") || behind.starts_with(b"\\|");
        match byte {
            b'^' if self.extended || begins => {
                self.out.push('^');
                self.atom = None;
            }
            b'$' if self.extended || ends => {
                self.out.push('$');
                self.atom = None;
            }
            b'.' => {
                self.atom = Some(self.out.len());
                self.out.push_str(if self.utf8 { pattern::ANY } else { "." });
            }
            b'[' => {
                let length = bracket_length(behind).ok_or_else(invalid)?;
                // Patterns for names give a meaning to `\` and `!`, so these are escaped.
                let (negation, set) =
                    behind[..length].split_at(usize::from(behind.first() == Some(&b'^')));
                let mut text = negation.to_vec();
                for byte in set {
                    text.extend((matches!(byte, b'\\' | b'!')).then_some(b'\\'));
                    text.push(*byte);
                }
                let how = Matching {
                    anchored: true,
                    wildcards: true,
                    match_slash: true,
                    ignore_case: false,
                    recursion: false,
                };
                let (set, _) = pattern::bracket(&text, how, self.utf8).ok_or_else(invalid)?;
                self.atom = Some(self.out.len());
                self.out.push_str(&set);
                return Ok(&behind[length..]);
            }
            _ => self.literal(byte),
        }
        Ok(behind)
    }
}

/// Number of bytes after `[` up to and including the closing `]`. A `]` that comes first or belongs
/// to a class does not close the bracket.
fn bracket_length(text: &[u8]) -> Option<usize> {
    let mut at = usize::from(text.first() == Some(&b'^'));
    at += usize::from(text.get(at) == Some(&b']'));
    loop {
        match text.get(at..)? {
            [b']', ..] => return Some(at + 1),
            [b'[', b':', rest @ ..] => at += 4 + memchr::memmem::find(rest, b":]")?,
            [_, ..] => at += 1,
            [] => return None,
        }
    }
}

pub(super) fn invalid() -> Refusal {
    Refusal::usage("Invalid transform expression")
}

/// The control character that a letter after `\` stands for.
pub(super) fn escape(letter: u8) -> Option<u8> {
    Some(match letter {
        b'a' => 7,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        _ => return None,
    })
}
