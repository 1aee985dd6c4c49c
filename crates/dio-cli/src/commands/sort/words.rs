//! Arguments that are words, which may be abbreviated.

use std::ffi::OsStr;
use std::fmt::Write as _;

use super::options::Refusal;
use crate::quote::marked;

/// The words of `--sort`, each with those that mean the same.
pub(super) const SORTS: &[&[&str]] =
    &[&["general-numeric"], &["human-numeric"], &["month"], &["numeric"], &["random"], &["version"]];

/// The words of `--check`.
pub(super) const CHECKS: &[&[&str]] = &[&["quiet", "silent"], &["diagnose-first"]];

/// Which of `all` the word means.
///
/// # Errors
/// It means none or several; the text names those there are, as GNU's tools do.
pub(super) fn meant(word: &OsStr, all: &[&[&str]], option: &str) -> Result<usize, Refusal> {
    let text = word.as_encoded_bytes();
    let whole = |names: &&[&str]| names.iter().any(|name| name.as_bytes() == text);
    let begun = |names: &&[&str]| names.iter().any(|name| name.as_bytes().starts_with(text));
    let mut possible = all.iter().enumerate().filter(|(_, names)| begun(names)).map(|(at, _)| at);
    let what = match (all.iter().position(whole), possible.next(), possible.next()) {
        (Some(at), ..) | (None, Some(at), None) => return Ok(at),
        (None, Some(_), Some(_)) => "ambiguous",
        (None, None, _) => "invalid",
    };
    let mut message = format!("{what} argument {} for {}\nValid arguments are:", marked(text), marked(option));
    for names in all {
        let names: Vec<String> = names.iter().map(marked).collect();
        let _ = write!(message, "\n  - {}", names.join(", "));
    }
    Err(Refusal::Word(message))
}
