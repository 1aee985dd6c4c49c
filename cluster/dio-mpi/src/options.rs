//! Options that only `dio-mpi` has. They are taken out of a command line before the grammar of
//! dio's own command reads the rest.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Names the journal of a job.
pub const JOURNAL: &str = "--journal";

/// Fixes the number of threads of each machine.
pub const THREADS: &str = "--threads";

/// Takes an option with a value out of a command line. Its value is not looked for.
#[must_use]
pub fn take_option(words: &mut Vec<OsString>, name: &str) -> Option<OsString> {
    let value_of = |word: &OsString| {
        let rest = word.as_bytes().strip_prefix(name.as_bytes())?;
        rest.strip_prefix(b"=").map(|value| OsStr::from_bytes(value).to_owned())
    };
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let at = words[..end].iter().position(|word| word == name || value_of(word).is_some())?;
    let word = words.remove(at);
    match value_of(&word) {
        Some(value) => Some(value),
        None if at < words.len() => Some(words.remove(at)),
        // The grammar has no such option, and says so.
        None => {
            words.push(word);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_out_with_their_values() {
        let words = |line: &str| -> Vec<OsString> { line.split(' ').map(Into::into).collect() };
        for (line, value, rest) in [
            ("-a --threads 3 x y", Some("3"), "-a x y"),
            ("--threads=12 x y", Some("12"), "x y"),
            ("x --threads=", Some(""), "x"),
            ("--threadsfoo x", None, "--threadsfoo x"),
            ("x -- --threads 3", None, "x -- --threads 3"),
            ("x y --threads", None, "x y --threads"),
        ] {
            let mut left = words(line);
            assert_eq!(take_option(&mut left, THREADS), value.map(Into::into), "{line}");
            assert_eq!(left, words(rest), "{line}");
        }
    }
}
