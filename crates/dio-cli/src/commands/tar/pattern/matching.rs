//! How patterns match.

/// How patterns match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Matching {
    /// From the start of the name only; otherwise behind any `/` too.
    pub(in super::super) anchored: bool,
    /// `*`, `?` and brackets have a meaning.
    pub(in super::super) wildcards: bool,
    /// They match `/` too.
    pub(in super::super) match_slash: bool,
    /// Upper and lower case of ASCII are the same.
    pub(in super::super) ignore_case: bool,
    /// What is in a directory that matches does too.
    pub(in super::super) recursion: bool,
}
