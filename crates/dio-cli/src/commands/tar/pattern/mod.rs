//! Patterns for names, as in GNU tar, for exclusions (`--exclude`) and members (`tar x PATTERN`).
//!
//! The syntax is that of the shell (`fnmatch(3)`, `glob(7)`), applied to bytes: `*`, `?`, brackets
//! with ranges and classes, and `\\` before a literal character. [`Matching`] controls the details.
//! Except with `--no-recursion`, a pattern that matches a directory matches everything in it.
//!
//! There may be as many patterns as files. Patterns without wildcards are looked up by name
//! ([`Literals`]). Of the patterns with wildcards, an automaton selects those whose longest literal
//! text occurs in the name; only these are tried, and the few without literal text.

mod bracket;
mod glob;
mod matching;

use std::collections::HashMap;

use aho_corasick::AhoCorasick;

use crate::locale;
use glob::Glob;

pub(super) use bracket::{ANY, bracket, literal};
pub(super) use matching::Matching;

/// From this number of patterns with wildcards on, an automaton searches for their texts. With
/// fewer, trying each pattern is as fast.
const MANY_GLOBS: usize = 16;

/// Several patterns, numbered in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub(super) struct Patterns {
    count: usize,
    literals: Vec<Literals>,
    /// Patterns with wildcards and their numbers, in ascending order.
    globs: Vec<(usize, Glob)>,
    texts: Option<GlobIndex>,
}

/// Patterns without wildcards that match in the same manner.
#[derive(Clone, Debug)]
struct Literals {
    how: Matching,
    /// The number of the first pattern with each text; the text is in lower case if case is
    /// ignored.
    first: HashMap<Vec<u8>, usize>,
}

/// Finds the globs that may match a name. Indices refer to [`Patterns::globs`].
#[derive(Clone, Debug)]
struct GlobIndex {
    automaton: AhoCorasick,
    /// The globs that contain each text of the automaton.
    having: Vec<Vec<usize>>,
    /// The globs without literal text.
    without: Vec<usize>,
}

impl Patterns {
    /// Adds a pattern. After the last one, [`Patterns::build`] must be called.
    pub(super) fn add(&mut self, pattern: &[u8], how: Matching) {
        let number = self.count;
        self.count += 1;
        if how.wildcards && has_wildcards(pattern) {
            self.globs.push((number, Glob::new(pattern, how, locale::is_utf8())));
            return;
        }
        let mut text = if how.wildcards { unescaped(pattern) } else { pattern.to_vec() };
        if how.ignore_case {
            text.make_ascii_lowercase();
        }
        // `match_slash` only affects wildcards.
        let how = Matching { wildcards: false, match_slash: true, ..how };
        let group = self.literals.iter().position(|group| group.how == how).unwrap_or_else(|| {
            self.literals.push(Literals { how, first: HashMap::new() });
            self.literals.len() - 1
        });
        self.literals[group].first.entry(text).or_insert(number);
    }

    /// Prepares for matching.
    pub(super) fn build(&mut self) {
        if self.globs.len() < MANY_GLOBS {
            return;
        }
        let mut by_text: HashMap<&[u8], Vec<usize>> = HashMap::new();
        let mut without = Vec::new();
        for (at, (_, glob)) in self.globs.iter().enumerate() {
            match glob.text() {
                Some(text) => by_text.entry(text).or_default().push(at),
                None => without.push(at),
            }
        }
        let (texts, having): (Vec<&[u8]>, Vec<Vec<usize>>) = by_text.into_iter().unzip();
        // If there are too many texts for an automaton, each pattern is tried.
        let Ok(automaton) = AhoCorasick::new(texts) else { return };
        self.texts = Some(GlobIndex { automaton, having, without });
    }

    /// The number of patterns.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The number of the first pattern below `limit` that matches. Names of directories must not
    /// end in `/`.
    pub(super) fn first(&self, name: &[u8], limit: usize) -> Option<usize> {
        let literal = self
            .literals
            .iter()
            .filter_map(|group| group.first(name))
            .filter(|number| *number < limit)
            .min();
        let limit = literal.unwrap_or(limit);
        let tried = |at: &usize| {
            let (number, glob) = &self.globs[*at];
            (*number < limit && glob.matches(name)).then_some(*number)
        };
        let glob = match &self.texts {
            // The numbers are in ascending order.
            None => (0..self.globs.len()).find_map(|at| tried(&at)),
            Some(texts) => {
                let found = texts
                    .automaton
                    .find_overlapping_iter(name)
                    .flat_map(|text| &texts.having[text.pattern()]);
                found.chain(&texts.without).filter_map(tried).min()
            }
        };
        glob.or(literal)
    }

    /// Whether any pattern matches.
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        self.first(name, self.count).is_some()
    }
}

impl Literals {
    /// The number of the first pattern that matches.
    fn first(&self, name: &[u8]) -> Option<usize> {
        let lower = self.how.ignore_case.then(|| name.to_ascii_lowercase());
        let name = lower.as_deref().unwrap_or(name);
        let behind_slashes =
            memchr::memchr_iter(b'/', name).map(|slash| slash + 1).filter(|_| !self.how.anchored);
        std::iter::once(0)
            .chain(behind_slashes)
            .filter_map(|start| self.first_from(&name[start..]))
            .min()
    }

    /// The number of the first pattern that equals this name or, with recursion, a directory above
    /// it.
    fn first_from(&self, name: &[u8]) -> Option<usize> {
        let ends = memchr::memchr_iter(b'/', name).filter(|_| self.how.recursion);
        ends.chain([name.len()]).filter_map(|end| self.first.get(&name[..end])).min().copied()
    }
}

/// Whether a pattern contains wildcards.
pub(super) fn has_wildcards(pattern: &[u8]) -> bool {
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'*' | b'?' | b'[' => return true,
            _ => {}
        }
    }
    false
}

/// Removes the backslashes of a pattern without wildcards, except one at the end.
fn unescaped(pattern: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(pattern.len());
    let mut bytes = pattern.iter();
    while let Some(&byte) = bytes.next() {
        name.push(if byte == b'\\' { bytes.next().copied().unwrap_or(byte) } else { byte });
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXCLUDE: Matching = Matching {
        anchored: false,
        wildcards: true,
        match_slash: true,
        ignore_case: false,
        recursion: true,
    };
    const MEMBER: Matching = Matching { anchored: true, wildcards: false, ..EXCLUDE };

    fn matches(pattern: &[u8], name: &[u8], how: Matching, utf8: bool) -> bool {
        if how.wildcards && has_wildcards(pattern) {
            return Glob::new(pattern, how, utf8).matches(name);
        }
        let mut one = Patterns::default();
        one.add(pattern, how);
        one.matches(name)
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
            assert!(
                matches(pattern, name, EXCLUDE, false),
                "{} {}",
                pattern.escape_ascii(),
                name.escape_ascii()
            );
            assert!(
                matches(pattern, name, EXCLUDE, true),
                "{} {}",
                pattern.escape_ascii(),
                name.escape_ascii()
            );
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
            assert!(
                !matches(pattern, name, EXCLUDE, false),
                "{} {}",
                pattern.escape_ascii(),
                name.escape_ascii()
            );
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
        assert!(
            !matches(b"a*c", b"a/b/c", within, false) && matches(b"a*", b"abc/d", within, false)
        );
        assert!(
            !matches(b"a?c", b"a/c", within, true) && !matches(b"a[.-9]c", b"a/c", within, true)
        );
        let caseless = Matching { ignore_case: true, ..EXCLUDE };
        assert!(matches(b"A*", b"abc", caseless, false));
        let flat = Matching { recursion: false, ..EXCLUDE };
        assert!(!matches(b"a", b"a/b", flat, false));
    }

    #[test]
    fn members_are_names() {
        let member = |name: &[u8]| matches(b"a*", name, MEMBER, false);
        assert!(member(b"a*") && member(b"a*/b") && !member(b"ab") && !member(b"a*b"));
        let mut all = Patterns::default();
        assert!(!all.matches(b"x"));
        all.add(b"x*", EXCLUDE);
        all.add(b"y", EXCLUDE);
        all.build();
        assert!(all.matches(b"q/xx") && all.matches(b"y/z") && !all.matches(b"z"));
    }

    #[test]
    fn a_star_takes_what_the_rest_leaves() {
        let yes: &[(&[u8], &[u8])] = &[
            (b"*a*b*c", b"xaxbxbxc"),
            (b"*ab", b"aab"),
            (b"a**b", b"ab"),
            (b"*?c", b"abc"),
            (b"*/c", b"a/b/c"),
            (b"a*", b"a"),
            (b"*c", b"xc/c/d"),
            (b"*[!x]y", b"xxay"),
        ];
        for (pattern, name) in yes {
            assert!(
                matches(pattern, name, EXCLUDE, true),
                "{} {}",
                pattern.escape_ascii(),
                name.escape_ascii()
            );
        }
        for (pattern, name) in [
            (&b"*ab*c"[..], &b"acb"[..]),
            (b"a*b?", b"aab"),
            (b"??", "é".as_bytes()),
            (b"a*\\", b"ab"),
        ] {
            assert!(
                !matches(pattern, name, EXCLUDE, true),
                "{} {}",
                pattern.escape_ascii(),
                name.escape_ascii()
            );
        }
        let within = Matching { match_slash: false, anchored: true, recursion: false, ..EXCLUDE };
        assert!(matches(b"*/*c", b"a/bc", within, true) && !matches(b"*c", b"a/c", within, true));
        // The time must be quadratic at most, not exponential.
        assert!(!matches(&b"*a".repeat(200), &b"a".repeat(199), EXCLUDE, true));
    }

    /// The automaton does not change the result: the first matching pattern below the limit.
    #[test]
    fn many_patterns_match_as_each_does() {
        let words = [
            "ab", "abc", "b*", "*c", "a?c", "[ab]*", "*", "a/b*", "*/c", "B*", "x*y", "*ab*", "é*",
            "*.o",
        ];
        let names = ["ab", "abc", "a/b/c", "xy", "xzzy", "q", "é/b", "a.o", "cab/q", "", "b"];
        for shift in 0..words.len() {
            for how in [EXCLUDE, MEMBER, Matching { ignore_case: true, ..EXCLUDE }] {
                let patterns: Vec<&str> =
                    words.iter().cycle().skip(shift).take(3 * words.len()).copied().collect();
                let mut all = Patterns::default();
                patterns.iter().for_each(|pattern| all.add(pattern.as_bytes(), how));
                all.build();
                for name in names {
                    let expected = patterns.iter().position(|one| {
                        matches(one.as_bytes(), name.as_bytes(), how, locale::is_utf8())
                    });
                    assert_eq!(
                        all.first(name.as_bytes(), usize::MAX),
                        expected,
                        "{name} in {patterns:?}"
                    );
                    let limit = expected.unwrap_or(5);
                    assert_eq!(all.first(name.as_bytes(), limit), None, "{name} in {patterns:?}");
                }
            }
        }
    }
}
