//! `--transform`: changes names by sed expressions, as GNU tar does (`src/transform.c`):
//! `s/REGEX/TEXT/FLAGS`, several of them separated by `;`, and `flags=FLAGS` for later expressions.
//!
//! Regular expressions use POSIX syntax. They are translated for a matcher that runs in linear
//! time. If several alternatives match at the same position, the longest match is used, as POSIX
//! demands. Back-references within an expression (`\1`) cannot be translated and are rejected.

mod translate;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use regex_automata::meta::Regex;
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind, Span};

use crate::grammar::Refusal;
use translate::{escape, invalid, translate};

/// The role of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameRole {
    /// The name of a member.
    Member,
    /// The target of a symbolic link.
    Symlink,
    /// The target of a hard link.
    HardLink,
}

/// The roles of names that an expression applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scope {
    members: bool,
    symlinks: bool,
    hard_links: bool,
}

/// The default scope.
const ALL: Scope = Scope { members: true, symlinks: true, hard_links: true };

impl Scope {
    fn has(self, of: NameRole) -> bool {
        match of {
            NameRole::Member => self.members,
            NameRole::Symlink => self.symlinks,
            NameRole::HardLink => self.hard_links,
        }
    }

    /// Applies a flag letter: a lower-case letter includes a role, an upper-case one excludes it.
    fn set(&mut self, letter: u8) -> bool {
        let field = match letter.to_ascii_lowercase() {
            b'r' => &mut self.members,
            b's' => &mut self.symlinks,
            b'h' => &mut self.hard_links,
            _ => return false,
        };
        *field = letter.is_ascii_lowercase();
        true
    }
}

/// All expressions, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Transform {
    expressions: Vec<Expression>,
}

/// One `s/REGEX/TEXT/FLAGS`.
#[derive(Clone, Debug)]
struct Expression {
    matcher: Matcher,
    text: Vec<ReplacementPiece>,
    scope: Scope,
    /// Number of the first match to replace, counted from 1.
    first: usize,
    /// Whether later matches are replaced too.
    all: bool,
}

/// A part of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ReplacementPiece {
    Literal(Vec<u8>),
    /// The text that a group matched; group 0 is the whole match.
    Group(usize),
    Case(CaseChange),
}

/// A change of the case of letters that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaseChange {
    /// `\L`, `\U`, `\E`: in effect until the next of them.
    Lower,
    Upper,
    Stop,
    /// `\l`, `\u`: for a single letter.
    LowerOne,
    UpperOne,
}

impl Transform {
    /// Parses the arguments of all options.
    ///
    /// # Errors
    /// An argument is invalid, or contains a construct that cannot be translated.
    pub(super) fn of(arguments: &[std::ffi::OsString]) -> Result<Transform, Refusal> {
        let mut all = Transform::default();
        let mut scope = ALL;
        for argument in arguments {
            all.read(argument, &mut scope)?;
        }
        Ok(all)
    }

    fn read(&mut self, argument: &OsStr, scope: &mut Scope) -> Result<(), Refusal> {
        let mut rest = argument.as_bytes();
        loop {
            if let Some(flags) = rest.strip_prefix(b"flags=") {
                let end = flags.iter().position(|byte| *byte == b';').unwrap_or(flags.len());
                // The flags replace earlier ones entirely.
                *scope = Scope { members: false, symlinks: false, hard_links: false };
                if !flags[..end].iter().all(|letter| scope.set(*letter)) {
                    return Err(Refusal::usage("Unknown transform flag"));
                }
                rest = &flags[end..];
            } else {
                rest = self.substitution(rest, *scope)?;
            }
            match rest {
                [] => return Ok(()),
                [b';', more @ ..] => rest = more,
                _ => return Err(invalid()),
            }
        }
    }

    /// Parses one substitution, and returns the text behind it.
    fn substitution<'t>(&mut self, text: &'t [u8], mut scope: Scope) -> Result<&'t [u8], Refusal> {
        let [b's', delimiter, rest @ ..] = text else { return Err(invalid()) };
        let (regex, rest) = part(rest, *delimiter).ok_or_else(invalid)?;
        let (replacement, mut rest) = part(rest, *delimiter).ok_or_else(invalid)?;
        let (mut first, mut all, mut ignore_case, mut extended) = (1, false, false, false);
        while let [letter, more @ ..] = rest {
            match letter {
                b';' => break,
                b'g' => all = true,
                b'i' => ignore_case = true,
                b'x' => extended = true,
                b'0'..=b'9' => {
                    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    let number = std::str::from_utf8(&rest[..digits])
                        .ok()
                        .and_then(|digits| digits.parse().ok());
                    first = number.filter(|number| *number > 0).ok_or_else(invalid)?;
                    rest = &rest[digits..];
                    continue;
                }
                letter if scope.set(*letter) => {}
                _ => {
                    let what =
                        format!("Unknown flag in transform expression: {}", char::from(*letter));
                    return Err(Refusal::usage(what));
                }
            }
            rest = more;
        }
        let (matcher, groups) = Matcher::new(&regex, extended, ignore_case)?;
        let text = pieces(&replacement, groups)?;
        self.expressions.push(Expression { matcher, text, scope, first, all });
        Ok(rest)
    }

    /// Applies the expressions to a name.
    pub(super) fn apply(&self, name: &[u8], of: NameRole) -> Vec<u8> {
        let wanted = self.expressions.iter().filter(|expression| expression.scope.has(of));
        wanted.fold(name.to_vec(), |name, expression| expression.apply(&name))
    }
}

/// Splits the text at the delimiter. Returns the part before it and the text behind it. A delimiter
/// preceded by `\` is literal.
fn part(text: &[u8], delimiter: u8) -> Option<(Vec<u8>, &[u8])> {
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        match text.get(at..)? {
            [first, rest @ ..] if *first == delimiter => return Some((out, rest)),
            [b'\\', escaped, ..] if *escaped == delimiter => {
                out.push(delimiter);
                at += 2;
            }
            [b'\\', escaped, ..] => {
                out.extend([b'\\', *escaped]);
                at += 2;
            }
            [byte, ..] => {
                out.push(*byte);
                at += 1;
            }
            [] => return None,
        }
    }
}

/// Parses the replacement.
fn pieces(text: &[u8], groups: usize) -> Result<Vec<ReplacementPiece>, Refusal> {
    let (mut pieces, mut literal) = (Vec::new(), Vec::new());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        let piece = match byte {
            b'&' => ReplacementPiece::Group(0),
            b'\\' => match bytes.next() {
                Some(digit @ b'0'..=b'9') => {
                    let group = usize::from(digit - b'0');
                    if group > groups {
                        return Err(Refusal::usage(
                            "Invalid transform replacement: back reference out of range",
                        ));
                    }
                    ReplacementPiece::Group(group)
                }
                Some(b'L') => ReplacementPiece::Case(CaseChange::Lower),
                Some(b'U') => ReplacementPiece::Case(CaseChange::Upper),
                Some(b'E') => ReplacementPiece::Case(CaseChange::Stop),
                Some(b'l') => ReplacementPiece::Case(CaseChange::LowerOne),
                Some(b'u') => ReplacementPiece::Case(CaseChange::UpperOne),
                Some(other) => {
                    literal.push(escape(other).unwrap_or(other));
                    continue;
                }
                None => b'\\'.into(),
            },
            other => {
                literal.push(other);
                continue;
            }
        };
        if !literal.is_empty() {
            pieces.push(ReplacementPiece::Literal(std::mem::take(&mut literal)));
        }
        pieces.push(piece);
    }
    if !literal.is_empty() {
        pieces.push(ReplacementPiece::Literal(literal));
    }
    Ok(pieces)
}

impl From<u8> for ReplacementPiece {
    fn from(byte: u8) -> ReplacementPiece {
        ReplacementPiece::Literal(vec![byte])
    }
}

impl Expression {
    fn apply(&self, name: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(name.len());
        let (mut rest, mut count) = (name, 0);
        // Each search after a match treats the rest as a new string, also for `^`. An empty name
        // matches nothing.
        while !rest.is_empty() {
            let Some(groups) = self.matcher.find(rest) else { break };
            let Some(Some(found)) = groups.first().copied() else { break };
            count += 1;
            out.extend(&rest[..found.start]);
            match count >= self.first {
                true => self.replace(rest, &groups, &mut out),
                false => out.extend(&rest[found.range()]),
            }
            rest = &rest[found.end..];
            if count >= self.first && !self.all {
                break;
            }
            if found.is_empty()
                && let Some((next, behind)) = rest.split_first()
            {
                out.push(*next);
                rest = behind;
            }
        }
        out.extend(rest);
        out
    }

    fn replace(&self, name: &[u8], groups: &[Option<Span>], out: &mut Vec<u8>) {
        let (mut case, mut one) = (CaseChange::Stop, None);
        for piece in &self.text {
            let bytes = match piece {
                ReplacementPiece::Literal(bytes) => &bytes[..],
                ReplacementPiece::Group(group) => {
                    groups[*group].map_or(&b""[..], |span| &name[span.range()])
                }
                ReplacementPiece::Case(once @ (CaseChange::LowerOne | CaseChange::UpperOne)) => {
                    one = Some(*once);
                    continue;
                }
                ReplacementPiece::Case(from_here) => {
                    case = *from_here;
                    continue;
                }
            };
            for byte in bytes {
                out.push(match one.take().unwrap_or(case) {
                    CaseChange::Lower | CaseChange::LowerOne => byte.to_ascii_lowercase(),
                    CaseChange::Upper | CaseChange::UpperOne => byte.to_ascii_uppercase(),
                    CaseChange::Stop => *byte,
                });
            }
        }
    }
}

/// Finds matches as POSIX demands: the leftmost, and among those the longest.
#[derive(Clone, Debug)]
struct Matcher {
    /// Finds the start of a match.
    first: Box<Regex>,
    /// Finds the end of the longest match that begins at a given position.
    longest: Box<Regex>,
    /// Finds the groups of a match that extends to the end of the text.
    whole: Box<Regex>,
}

impl Matcher {
    /// Translates an expression. Also returns the number of its groups.
    fn new(regex: &[u8], extended: bool, ignore_case: bool) -> Result<(Matcher, usize), Refusal> {
        let (translated, groups) = translate(regex, extended)?;
        let build = |expression: &str, kind: MatchKind| {
            let syntax = syntax::Config::new()
                .utf8(false)
                .unicode(false)
                .dot_matches_new_line(true)
                .case_insensitive(ignore_case);
            let config = regex_automata::meta::Config::new().utf8_empty(false).match_kind(kind);
            let built = Regex::builder().syntax(syntax).configure(config).build(expression);
            built.map(Box::new).map_err(|_| invalid())
        };
        let matcher = Matcher {
            first: build(&translated, MatchKind::LeftmostFirst)?,
            longest: build(&translated, MatchKind::All)?,
            whole: build(&format!("(?:{translated})\\z"), MatchKind::LeftmostFirst)?,
        };
        Ok((matcher, groups))
    }

    /// Returns the groups of the first match.
    fn find(&self, name: &[u8]) -> Option<Vec<Option<Span>>> {
        let start = self.first.search(&Input::new(name))?.start();
        let anchored = Input::new(name).span(start..name.len()).anchored(Anchored::Yes);
        let end = self.longest.search(&anchored)?.end();
        let mut captures: Captures = self.whole.create_captures();
        self.whole.search_captures(
            &Input::new(&name[..end]).span(start..end).anchored(Anchored::Yes),
            &mut captures,
        );
        captures.is_match().then(|| captures.iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(expression: &str, name: &str) -> String {
        let transform = Transform::of(&[expression.into()]).unwrap();
        String::from_utf8(transform.apply(name.as_bytes(), NameRole::Member)).unwrap()
    }

    #[test]
    fn names_are_changed_as_sed_changes_them() {
        for (expression, name, wanted) in [
            ("s/a/b/", "aa", "ba"),
            ("s/a/b/g", "aa", "bb"),
            ("s/a/b/2", "aaa", "aba"),
            ("s/a/b/2g", "aaa", "abb"),
            ("s,^,pre/,", "x/y", "pre/x/y"),
            ("s/$/.bak/", "x", "x.bak"),
            ("s,/,_,g", "a/b/c", "a_b_c"),
            (r"s/\/b/-/", "a/b", "a-"),
            (r"s/\(.*\)\/\(.*\)/\2-\1/", "a/b/c", "c-a/b"),
            ("s/(.)(.)/\\2\\1/x", "ab", "ba"),
            ("s/a+/x/", "aa+", "ax"),
            (r"s/a\+/x/", "aa+", "x+"),
            ("s/a*/x/", "baa", "xbaa"),
            ("s/*a/x/", "b*a", "bx"),
            ("s/a|ab/x/x", "ab", "x"),
            (r"s/a\{2,3\}/x/", "aaaa", "xa"),
            ("s/[^]a]/x/g", "]ab", "]ax"),
            ("s/[a\\]/x/g", "a\\b", "xxb"),
            ("s/[[:digit:]]*$//", "ab12", "ab"),
            ("s/A/x/i", "ba", "bx"),
            (r"s/.*/\U&\E-\u&-\l&/", "aB", "AB-AB-aB"),
            ("s/a/[&]/;s/b/c/", "ab", "[a]c"),
            (r"s/x/\&/", "x", "&"),
            ("s/a*?/x/x", "aab", "xb"),
        ] {
            assert_eq!(changed(expression, name), wanted, "{expression} {name}");
        }
    }

    #[test]
    fn flags_say_which_names_are_changed() {
        let of = |expression: &str, of| {
            let transform = Transform::of(&[expression.into()]).unwrap();
            transform.apply(b"a", of) == b"b"
        };
        assert!(of("s/a/b/", NameRole::Symlink) && of("s/a/b/", NameRole::HardLink));
        assert!(!of("s/a/b/S", NameRole::Symlink) && of("s/a/b/S", NameRole::Member));
        assert!(
            !of("flags=sh;s/a/b/", NameRole::Member) && of("flags=sh;s/a/b/", NameRole::Symlink)
        );
        assert!(
            !of("flags=R;s/a/b/", NameRole::HardLink)
                && !of("flags=s;flags=h;s/a/b/", NameRole::Symlink)
        );
        assert!(of("flags=R;s/a/b/r", NameRole::Member));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for expression in [
            "",
            "x",
            "s/a",
            "s/a/b",
            "s/a/b/q",
            r"s/\(a/b/",
            r"s/a/\1/",
            r"s/\(a\)\1/b/",
            "s/[a/b/",
            "s/a/b/0",
        ] {
            assert!(Transform::of(&[expression.into()]).is_err(), "{expression}");
        }
    }
}
