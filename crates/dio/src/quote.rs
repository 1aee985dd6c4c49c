//! Names in messages. A name may hold any byte but `/` and NUL, and whoever names a file may be
//! somebody else: printed as it is, it could steer the reader's terminal.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// `name` in quotes as the GNU tools print it: `'a b'`, `"it's"`, `'line'$'\n''break'`.
///
/// The result can be pasted into a shell. Bytes that are not UTF-8 and characters that cannot be
/// printed become `$'…'` escapes, so it is always valid text.
pub fn quoted(name: impl AsRef<OsStr>) -> String {
    let name = name.as_ref().as_bytes();
    if name.contains(&b'\'') && plain_in_double_quotes(name) {
        return format!("\"{}\"", String::from_utf8_lossy(name));
    }
    let mut out = String::with_capacity(name.len() + 2);
    out.push('\'');
    let mut escaping = false;
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' => {
                    close_escape(&mut out, &mut escaping);
                    out.push_str("'\\''");
                }
                c if c.is_control() => {
                    let mut bytes = [0; 4];
                    c.encode_utf8(&mut bytes)
                        .bytes()
                        .for_each(|b| escape(&mut out, &mut escaping, b));
                }
                c => {
                    close_escape(&mut out, &mut escaping);
                    out.push(c);
                }
            }
        }
        chunk.invalid().iter().for_each(|&b| escape(&mut out, &mut escaping, b));
    }
    out.push('\'');
    out
}

/// `name` at the start of a message, before a colon: as it is where a shell would take it so, else
/// as [`quoted`] (gnulib's `quotef`).
pub fn named(name: impl AsRef<OsStr>) -> String {
    let name = name.as_ref();
    match name.to_str() {
        Some(text) if plain(text) => text.to_owned(),
        _ => quoted(name),
    }
}

/// Whether a shell would take the text as it is, and a reader would not take a part of it for the
/// message.
fn plain(text: &str) -> bool {
    let special = |(i, c): (usize, char)| match c {
        '#' | '~' => i == 0,
        '{' | '}' => text.len() == 1,
        '!' | '"' | '$' | '&' | '\'' | '(' | ')' | '*' | ':' | ';' | '<' | '=' | '>' | '['
        | '\\' | '^' | '`' | '|' | '?' => true,
        c => c == ' ' || c.is_control(),
    };
    !text.is_empty() && !text.char_indices().any(special)
}

/// Whether a name that contains `'` means the same between double quotes.
fn plain_in_double_quotes(name: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(name) else { return false };
    text.char_indices().all(|(i, c)| match c {
        '#' | '~' => i == 0,
        '{' | '}' => text.len() == 1,
        '!' | '"' | '$' | '&' | '(' | ')' | '*' | ';' | '<' | '=' | '>' | '[' | '^' | '`' | '|'
        | '?' | '\\' => false,
        c => !c.is_control(),
    })
}

/// `text` with the escapes of C for characters that cannot be printed, and without quotes: words of
/// somebody else, which may name anything.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| push_escape(&mut out, byte))
            }
            c => out.push(c),
        }
    }
    out
}

fn escape(out: &mut String, escaping: &mut bool, byte: u8) {
    if !*escaping {
        out.push_str("'$'");
        *escaping = true;
    }
    push_escape(out, byte);
}

/// Appends the escape that C has for a byte.
pub fn push_escape(out: &mut String, byte: u8) {
    match byte {
        7 => out.push_str("\\a"),
        8 => out.push_str("\\b"),
        9 => out.push_str("\\t"),
        10 => out.push_str("\\n"),
        11 => out.push_str("\\v"),
        12 => out.push_str("\\f"),
        13 => out.push_str("\\r"),
        b => out.push_str(&format!("\\{b:03o}")),
    }
}

fn close_escape(out: &mut String, escaping: &mut bool) {
    if std::mem::take(escaping) {
        out.push_str("''");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The right-hand sides are what `ls --quoting-style=shell-escape-always` prints in C.UTF-8.
    #[test]
    fn names_are_quoted_as_gnu_does() {
        for (name, shown) in [
            ("a", "'a'"),
            ("a b", "'a b'"),
            ("", "''"),
            ("it's", "\"it's\""),
            ("it's $x", "'it'\\''s $x'"),
            ("#'", "\"#'\""),
            ("'#", "''\\''#'"),
            ("a\nb", "'a'$'\\n''b'"),
            ("a\n", "'a'$'\\n'"),
            ("\n'x", "''$'\\n'''\\''x'"),
            ("tab\tesc\u{1b}", "'tab'$'\\t''esc'$'\\033'"),
            ("grüße", "'grüße'"),
            ("back\\slash", "'back\\slash'"),
        ] {
            assert_eq!(quoted(name), shown, "{name:?}");
        }
        assert_eq!(quoted(OsStr::from_bytes(b"a\xffb")), "'a'$'\\377''b'");
    }

    #[test]
    fn words_cannot_steer_a_terminal() {
        assert_eq!(
            printable("it's 'ü'\u{1b}[2J\u{9b}2J\r\n"),
            "it's 'ü'\\033[2J\\302\\2332J\\r\\n"
        );
    }

    #[test]
    fn names_before_a_colon_are_quoted_where_they_must_be() {
        for (name, shown) in [
            ("a", "a"),
            ("a b", "'a b'"),
            ("", "''"),
            ("a:b", "'a:b'"),
            ("#a", "'#a'"),
            ("a#", "a#"),
            ("a=b", "'a=b'"),
        ] {
            assert_eq!(named(name), shown, "{name:?}");
        }
    }
}
