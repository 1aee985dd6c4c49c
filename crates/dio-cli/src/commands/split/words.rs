//! How GNU split quotes what it was given: in the quotation marks of the locale.

use crate::locale;

/// `text` in the quotation marks of the user's locale: `‘x’` where that is UTF-8, else `'x'`.
pub(super) fn told(text: &[u8]) -> String {
    in_marks(text, locale::is_utf8())
}

fn in_marks(text: &[u8], utf8: bool) -> String {
    let (open, close) = if utf8 { ('‘', '’') } else { ('\'', '\'') };
    let mut out = String::with_capacity(text.len() + 6);
    out.push(open);
    for part in text.utf8_chunks() {
        for c in part.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c if c == close => out.extend(['\\', c]),
                '\u{7}' => out.push_str("\\a"),
                '\u{8}' => out.push_str("\\b"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\u{b}' => out.push_str("\\v"),
                '\u{c}' => out.push_str("\\f"),
                '\r' => out.push_str("\\r"),
                c if c.is_control() || !(utf8 || c.is_ascii()) => {
                    octal(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes())
                }
                c => out.push(c),
            }
        }
        octal(&mut out, part.invalid());
    }
    out.push(close);
    out
}

fn octal(out: &mut String, bytes: &[u8]) {
    bytes.iter().for_each(|byte| out.push_str(&format!("\\{byte:03o}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What GNU split printed for these in `C.UTF-8` and in `C`.
    #[test]
    fn marks_are_those_of_the_locale() {
        assert_eq!(in_marks(b"it's", false), "'it\\'s'");
        assert_eq!(in_marks("é’".as_bytes(), false), "'\\303\\251\\342\\200\\231'");
        assert_eq!(in_marks("it's ’é\\ '".as_bytes(), true), "‘it's \\’é\\\\ '’");
        assert_eq!(in_marks(b"\x01\x7f\t\xff", false), "'\\001\\177\\t\\377'");
        assert_eq!(in_marks(b"\x01\xff", true), "‘\\001\\377’");
    }
}
