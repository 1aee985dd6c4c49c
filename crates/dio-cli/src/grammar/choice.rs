//! Values that are words, which may be abbreviated as long as they are unambiguous (gnulib's
//! `argmatch`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::Refusal;
use crate::quote::marked;

/// A word that an option accepts, its value, and its help text.
pub(crate) type Choice<T> = (&'static str, T, &'static str);

/// Returns the value of a word: a complete word, or a prefix of words that all have the same value.
///
/// # Errors
/// The word matches nothing, or words of several values; the message lists the choices. `option` is
/// the option that the word was given for.
pub(crate) fn meant<T: Copy + PartialEq>(
    option: &str,
    word: &OsStr,
    choices: &[Choice<T>],
) -> Result<T, Refusal> {
    let word = word.as_bytes();
    if let Some((_, whole, _)) = choices.iter().find(|(name, ..)| name.as_bytes() == word) {
        return Ok(*whole);
    }
    let mut begun = choices
        .iter()
        .filter(|(name, ..)| name.as_bytes().starts_with(word))
        .map(|(_, one, _)| *one);
    let what = match begun.next() {
        Some(first) if begun.all(|other| other == first) => return Ok(first),
        Some(_) => "ambiguous",
        None => "invalid",
    };
    let mut message =
        format!("{what} argument {} for {}\nValid arguments are:", marked(word), marked(option));
    let mut before = None;
    for (name, one, _) in choices {
        // Words of the same value share a line.
        message.push_str(if before == Some(one) { ", " } else { "\n  - " });
        message.push_str(&marked(name));
        before = Some(one);
    }
    // Every tool exits with its status for failures here.
    Err(Refusal::usage(message).with_status(1))
}

/// Returns the value of the complete word `text`.
///
/// # Errors
/// The word matches nothing; the message lists the choices.
pub(crate) fn exact<T: Copy>(text: &str, choices: &[Choice<T>]) -> Result<T, String> {
    let found = choices.iter().find(|(name, ..)| *name == text);
    let names = || choices.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
    found.map(|(_, one, _)| *one).ok_or_else(|| format!("it is one of {}", names()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHOICES: &[Choice<u8>] =
        &[("quiet", 0, ""), ("silent", 0, ""), ("quick", 1, ""), ("quickest", 2, "")];

    #[test]
    fn beginnings_of_one_meaning_are_words() {
        let meant = |word: &str| {
            meant("--x", word.as_ref(), CHOICES).map_err(|refusal| refusal.to_string())
        };
        for (word, value) in [("silent", 0), ("s", 0), ("quie", 0), ("quick", 1), ("quicke", 2)] {
            assert_eq!(meant(word), Ok(value), "{word}");
        }
        let list = ["quiet", "quick", "quickest"].map(marked);
        let list =
            format!("  - {}, {}\n  - {}\n  - {}", list[0], marked("silent"), list[1], list[2]);
        for (word, what) in
            [("", "ambiguous"), ("qui", "ambiguous"), ("Quiet", "invalid"), ("quiets", "invalid")]
        {
            let told = format!(
                "{what} argument {} for {}\nValid arguments are:\n{list}",
                marked(word),
                marked("--x")
            );
            assert_eq!(meant(word), Err(told), "{word}");
        }
    }
}
