//! Quotes around operands in messages: those of the locale, as GNU's `quote` sets them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// `text` between the quotation marks of the locale, with C escapes for what cannot be printed.
pub(super) fn quoted(text: &OsStr) -> String {
    quoted_in(text.as_bytes(), utf8())
}

/// Whether the locale's characters are UTF-8, by the variables in the order of `locale(7)`.
fn utf8() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| {
        let value = std::env::var(name).ok()?;
        (!value.is_empty()).then_some(value)
    });
    set.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.ends_with("utf-8") || locale.ends_with("utf8")
    })
}

fn quoted_in(text: &[u8], utf8: bool) -> String {
    let mut out = String::from(if utf8 { "‘" } else { "'" });
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\'' if !utf8 => out.push_str("\\'"),
                '’' if utf8 => out.push_str("\\’"),
                c if c.is_control() || (!utf8 && !c.is_ascii()) => {
                    let mut bytes = [0; 4];
                    c.encode_utf8(&mut bytes).bytes().for_each(|byte| escape(&mut out, byte));
                }
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|&byte| escape(&mut out, byte));
    }
    out.push(if utf8 { '’' } else { '\'' });
    out
}

fn escape(out: &mut String, byte: u8) {
    match byte {
        7 => out.push_str("\\a"),
        8 => out.push_str("\\b"),
        9 => out.push_str("\\t"),
        10 => out.push_str("\\n"),
        11 => out.push_str("\\v"),
        12 => out.push_str("\\f"),
        13 => out.push_str("\\r"),
        byte => out.push_str(&format!("\\{byte:03o}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_quoted_as_the_locale_does() {
        for (text, utf8, c) in [
            (&b"foo"[..], "‘foo’", "'foo'"),
            (b"it's", "‘it's’", "'it\\'s'"),
            (b"a\nb", "‘a\\nb’", "'a\\nb'"),
            (b"a\xff\\\"", "‘a\\377\\\\\"’", "'a\\377\\\\\"'"),
            ("aé".as_bytes(), "‘aé’", "'a\\303\\251'"),
        ] {
            assert_eq!((quoted_in(text, true).as_str(), quoted_in(text, false).as_str()), (utf8, c));
        }
    }
}
