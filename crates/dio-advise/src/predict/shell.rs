//! Command lines for a shell.

use dio::quote::quoted;

/// Words as a shell reads them.
pub(super) fn shell_line(words: &[String]) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./=,:+@%^".contains(letter);
    let word = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => quoted(word),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}
