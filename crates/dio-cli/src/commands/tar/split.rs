//! Splits a line into words, as GNU tar does for `TAR_OPTIONS`, lists and commands.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::terms::fatal;
use crate::grammar::Refusal;

/// Splits `text`, the value of an option or a line of a list, into words.
///
/// # Errors
/// A quote is not closed.
pub(super) fn split_string(text: &[u8]) -> Result<Vec<OsString>, Refusal> {
    let failed =
        |why| fatal(format!("cannot split string '{}': {why}", String::from_utf8_lossy(text)));
    split_words(text).map_err(failed)
}

/// Splits a line at blanks. Quotes work as in a shell. C escapes are interpreted everywhere in a
/// word, even within single quotes, unless the word begins with a single quote; then they are not
/// interpreted at all.
///
/// # Errors
/// A quote is not closed; the error is GNU tar's text for that.
pub(super) fn split_words(line: &[u8]) -> Result<Vec<OsString>, &'static str> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<ShellWord>, None);
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match (quote, byte) {
            (None, byte) if byte.is_ascii_whitespace() => {
                words.extend(word.take().map(ShellWord::finish));
                continue;
            }
            (None, b'\'' | b'"') => {
                word.get_or_insert_with(|| ShellWord::new(byte));
                quote = Some(byte);
                continue;
            }
            (Some(open), byte) if byte == open => {
                quote = None;
                continue;
            }
            _ => {}
        }
        let word = word.get_or_insert_with(|| ShellWord::new(byte));
        word.bytes.push(byte);
        // A backslash protects the next byte, except within single quotes.
        if byte == b'\\'
            && quote != Some(b'\'')
            && let Some((&next, after)) = rest.split_first()
        {
            word.bytes.push(next);
            rest = after;
        }
    }
    if quote.is_some() {
        return Err("missing closing quote");
    }
    words.extend(word.map(ShellWord::finish));
    Ok(words)
}

/// A word, without its quotes.
struct ShellWord {
    bytes: Vec<u8>,
    has_escapes: bool,
}

impl ShellWord {
    /// Starts a word whose first byte in the line, possibly a quote, is `first`.
    fn new(first: u8) -> ShellWord {
        ShellWord { bytes: Vec::new(), has_escapes: first != b'\'' }
    }

    fn finish(self) -> OsString {
        if !self.has_escapes {
            return OsString::from_vec(self.bytes);
        }
        let mut bytes = Vec::with_capacity(self.bytes.len());
        let mut rest = &self.bytes[..];
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            if byte == b'\\' {
                let (escaped, length) = escape_of_c(rest);
                bytes.extend(escaped);
                rest = &rest[length..];
            } else {
                bytes.push(byte);
            }
        }
        OsString::from_vec(bytes)
    }
}

/// Decodes an escape; `rest` begins after the backslash. Returns the byte it stands for and its
/// length.
fn escape_of_c(rest: &[u8]) -> (Option<u8>, usize) {
    let Some(&first) = rest.first() else { return (None, 0) };
    let digits = |from: usize, most: usize, radix: u32| {
        let digits = rest[from..]
            .iter()
            .take(most)
            .take_while(|byte| char::from(**byte).is_digit(radix))
            .count();
        let text = std::str::from_utf8(&rest[from..from + digits]).unwrap_or_default();
        u32::from_str_radix(text, radix).ok().map(|number| (Some(number as u8), from + digits))
    };
    match first {
        b'a' => (Some(7), 1),
        b'b' => (Some(8), 1),
        b'f' => (Some(12), 1),
        b'n' => (Some(b'\n'), 1),
        b'r' => (Some(b'\r'), 1),
        b't' => (Some(b'\t'), 1),
        b'v' => (Some(11), 1),
        b'x' => digits(1, 2, 16).unwrap_or((Some(b'x'), 1)),
        b'0'..=b'7' => digits(0, 3, 8).unwrap_or((Some(first), 1)),
        _ => (Some(first), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parted_as_by_a_shell() {
        let split = |line: &str| {
            let words = split_words(line.as_bytes());
            words.map(|words| {
                words.into_iter().map(|word| word.into_string().unwrap()).collect::<Vec<_>>()
            })
        };
        assert_eq!(
            split(r#" a  'b c'"d e"f \\\* '\n' "\n" \x2e\101 '' "#).unwrap(),
            ["a", "b cd ef", "\\*", "\\n", "\n", ".A", ""]
        );
        assert_eq!(
            split(r#"a='\t' "b"'\n' 'c'"\t" d='"\"'"#).unwrap(),
            ["a=\t", "b\n", "c\\t", "d=\"\""]
        );
        assert_eq!(split("a 'b").unwrap_err(), "missing closing quote");
        assert!(split("").unwrap().is_empty());
    }
}
