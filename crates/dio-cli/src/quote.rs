//! Names and error numbers in messages, as the GNU tools print them.

use std::borrow::Cow;
use std::io::IsTerminal;

use crate::locale;

pub use dio::file::words;
use dio::quote::push_escape;
pub use dio::quote::{named, quoted};

/// Returns a message or listing that contains raw names, as gzip and zstd print them, in the form
/// for `stream`. On a terminal, control characters other than line feeds and tabs are escaped,
/// because the terminal would interpret them.
pub(crate) fn as_shown_on<'t>(stream: &impl IsTerminal, text: &'t [u8]) -> Cow<'t, [u8]> {
    if stream.is_terminal() { Cow::Owned(without_controls(text)) } else { Cow::Borrowed(text) }
}

fn without_controls(text: &[u8]) -> Vec<u8> {
    let mut out = String::new();
    let mut bytes = Vec::with_capacity(text.len());
    for part in text.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '\n' | '\t' => out.push(c),
                c if c.is_control() => {
                    c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_escape(&mut out, byte))
                }
                c => out.push(c),
            }
        }
        bytes.extend_from_slice(std::mem::take(&mut out).as_bytes());
        for &byte in part.invalid() {
            match byte {
                // The control characters of ISO 8859.
                0x80..0xa0 => bytes.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
                byte => bytes.push(byte),
            }
        }
    }
    bytes
}

/// Returns `text` in the quotation marks of the user's locale: `‘x’` in UTF-8, else `'x'`.
/// Unprintable characters become C escapes (gnulib's `quote`).
pub fn marked(text: impl AsRef<[u8]>) -> String {
    in_marks(text.as_ref(), locale::is_utf8())
}

fn in_marks(text: &[u8], utf8: bool) -> String {
    let (open, close) = locale::quotation_marks_in(utf8);
    let mut out = String::with_capacity(text.len() + 6);
    out.push(open);
    for part in text.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if c == close => out.extend(['\\', c]),
                c if c.is_control() || !(utf8 || c.is_ascii()) => {
                    c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_escape(&mut out, byte));
                }
                c => out.push(c),
            }
        }
        part.invalid().iter().for_each(|&byte| push_escape(&mut out, byte));
    }
    out.push(close);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(
            without_controls(b"a\x1b[2J\rb\t\x7f\x9b\xff\n"),
            b"a\\033[2J\\rb\t\\177\\233\xff\n"
        );
        assert_eq!(without_controls("é\u{9b}".as_bytes()), "é\\302\\233".as_bytes());
    }

    #[test]
    fn error_words_have_no_number() {
        assert_eq!(words(rustix::io::Errno::NOENT), "No such file or directory");
    }

    /// The expected values are the output of the GNU tools in `C.UTF-8` and in `C`.
    #[test]
    fn marks_are_those_of_the_locale() {
        assert_eq!(in_marks(b"it's", false), "'it\\'s'");
        assert_eq!(in_marks("é’".as_bytes(), false), "'\\303\\251\\342\\200\\231'");
        assert_eq!(in_marks("it's ’é\\ '".as_bytes(), true), "‘it's \\’é\\\\ '’");
        assert_eq!(in_marks(b"\x01\x7f\t\xff", false), "'\\001\\177\\t\\377'");
        assert_eq!(in_marks(b"\x01\xff", true), "‘\\001\\377’");
    }
}
