//! Settings for the matching of patterns.

/// Settings for the matching of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Matching {
    /// Whether a pattern matches from the start of the name only, instead of after any `/` too.
    pub(in super::super) anchored: bool,
    /// Whether `*`, `?` and brackets are wildcards.
    pub(in super::super) wildcards: bool,
    /// Whether wildcards match `/`.
    pub(in super::super) match_slash: bool,
    /// Whether the case of ASCII letters is ignored.
    pub(in super::super) ignore_case: bool,
    /// Whether a pattern that matches a directory also matches its contents.
    pub(in super::super) recursion: bool,
}
