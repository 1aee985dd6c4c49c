//! Names and error numbers in messages, in the words users of the GNU tools know.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

pub use dio::file::words;

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
                    c.encode_utf8(&mut bytes).bytes().for_each(|b| escape(&mut out, &mut escaping, b));
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

/// `name` at the start of a message, before a colon: as it is where a shell would take it so, else as [`quoted`]
/// (gnulib's `quotef`).
pub fn named(name: impl AsRef<OsStr>) -> String {
    let name = name.as_ref();
    match name.to_str() {
        Some(text) if plain(text) => text.to_owned(),
        _ => quoted(name),
    }
}

/// Whether a shell would take the text as it is, and a reader would not take a part of it for the message.
fn plain(text: &str) -> bool {
    let special = |(i, c): (usize, char)| match c {
        '#' | '~' => i == 0,
        '{' | '}' => text.len() == 1,
        '!' | '"' | '$' | '&' | '\'' | '(' | ')' | '*' | ':' | ';' | '<' | '=' | '>' | '[' | '\\' | '^' | '`' | '|'
        | '?' => true,
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
        '!' | '"' | '$' | '&' | '(' | ')' | '*' | ';' | '<' | '=' | '>' | '[' | '^' | '`' | '|' | '?' | '\\' => false,
        c => !c.is_control(),
    })
}

/// `text` in the quotation marks of the user's locale: `‘x’` where that is UTF-8, else `'x'` (gnulib's `quote`).
pub(crate) fn marked(text: &str) -> String {
    if locale_is_utf8(|name| std::env::var_os(name)) { format!("‘{text}’") } else { format!("'{text}'") }
}

/// Whether the environment chooses a locale whose characters are UTF-8 (`locale(7)`: the first of these that is set).
fn locale_is_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let chosen = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty());
    let Some(chosen) = chosen.as_deref().and_then(OsStr::to_str) else { return false };
    let codeset = chosen.split_once('.').map_or("", |(_, codeset)| codeset.split('@').next().unwrap_or_default());
    codeset.eq_ignore_ascii_case("utf-8") || codeset.eq_ignore_ascii_case("utf8")
}

fn escape(out: &mut String, escaping: &mut bool, byte: u8) {
    if !*escaping {
        out.push_str("'$'");
        *escaping = true;
    }
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
    fn names_before_a_colon_are_quoted_where_they_must_be() {
        for (name, shown) in
            [("a", "a"), ("a b", "'a b'"), ("", "''"), ("a:b", "'a:b'"), ("#a", "'#a'"), ("a#", "a#"), ("a=b", "'a=b'")]
        {
            assert_eq!(named(name), shown, "{name:?}");
        }
    }

    #[test]
    fn the_first_variable_that_is_set_chooses_the_locale() {
        for (all, ctype, lang, utf8) in [
            ("", "", "", false),
            ("C", "", "en_GB.UTF-8", false),
            ("", "C.utf8", "C", true),
            ("", "", "de_DE.UTF-8@euro", true),
            ("de_DE.ISO-8859-1", "", "C.UTF-8", false),
            ("utf-8", "", "", false),
        ] {
            let set = |name: &str| match name {
                "LC_ALL" => Some(all.into()),
                "LC_CTYPE" => Some(ctype.into()),
                _ => Some(lang.into()),
            };
            assert_eq!(locale_is_utf8(set), utf8, "{all:?} {ctype:?} {lang:?}");
        }
    }

    #[test]
    fn error_words_have_no_number() {
        assert_eq!(words(rustix::io::Errno::NOENT), "No such file or directory");
    }
}
