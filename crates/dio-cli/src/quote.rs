//! Names and error numbers in messages, in the words users of the GNU tools know.

use crate::locale;

pub use dio::file::words;
use dio::quote::push_escape;
pub use dio::quote::{named, quoted};

/// `text` in the quotation marks of the user's locale: `‘x’` where that is UTF-8, else `'x'`, with the escapes of C for what
/// cannot be printed (gnulib's `quote`).
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
    fn error_words_have_no_number() {
        assert_eq!(words(rustix::io::Errno::NOENT), "No such file or directory");
    }

    /// What the GNU tools print for these in `C.UTF-8` and in `C`.
    #[test]
    fn marks_are_those_of_the_locale() {
        assert_eq!(in_marks(b"it's", false), "'it\\'s'");
        assert_eq!(in_marks("é’".as_bytes(), false), "'\\303\\251\\342\\200\\231'");
        assert_eq!(in_marks("it's ’é\\ '".as_bytes(), true), "‘it's \\’é\\\\ '’");
        assert_eq!(in_marks(b"\x01\x7f\t\xff", false), "'\\001\\177\\t\\377'");
        assert_eq!(in_marks(b"\x01\xff", true), "‘\\001\\377’");
    }
}
