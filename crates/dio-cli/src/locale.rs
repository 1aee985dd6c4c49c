//! What the user's locale says about text.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::quote::marked;
use crate::tool::Tool;

/// Whether the environment chooses a locale whose characters are UTF-8.
pub fn is_utf8() -> bool {
    chosen_is_utf8(|name| std::env::var_os(name))
}

/// The quotation marks that messages have in a locale whose characters are UTF-8, or are not, as GNU's.
pub(crate) fn quotation_marks_in(utf8: bool) -> (char, char) {
    if utf8 { ('‘', '’') } else { ('\'', '\'') }
}

/// The same for the environment given (`locale(7)`: the first of these that is set).
fn chosen_is_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let Some(chosen) = chosen("LC_CTYPE", variable) else { return false };
    let Some(chosen) = chosen.to_str() else { return false };
    let codeset = chosen.split_once('.').map_or("", |(_, codeset)| codeset.split('@').next().unwrap_or_default());
    codeset.eq_ignore_ascii_case("utf-8") || codeset.eq_ignore_ascii_case("utf8")
}

/// The locale of a category (`locale(7)`: the first of these that is set); none if the environment chooses none.
fn chosen(category: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<OsString> {
    ["LC_ALL", category, "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty())
}

/// Says, if the environment asks for a collation of its own, that lines are compared as bytes all the same. For tools whose
/// model compares by `strcoll(3)`; to be called once.
pub fn note_collation(tool: &Tool) {
    if let Some(name) = own_collation(|name| std::env::var_os(name)) {
        let name = marked(name.as_bytes());
        tool.note(format_args!("the collation of locale {name} is not supported: bytes are compared"));
    }
}

/// The locale asked for, if its order is not that of bytes: which is that of C and POSIX and, since glibc 2.35, of C.UTF-8.
fn own_collation(variable: impl Fn(&str) -> Option<OsString>) -> Option<OsString> {
    let plain = |name: &OsStr| matches!(name.as_bytes(), b"C" | b"POSIX") || name.as_bytes().starts_with(b"C.");
    chosen("LC_COLLATE", variable).filter(|name| !plain(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_is_the_first_that_is_set() {
        let utf8 = |set: &[(&str, &str)]| {
            chosen_is_utf8(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).into()))
        };
        assert!(!utf8(&[]));
        assert!(!utf8(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")]));
        assert!(utf8(&[("LC_ALL", ""), ("LANG", "en_GB.utf8")]));
        assert!(utf8(&[("LC_CTYPE", "de_DE.UTF-8@euro"), ("LANG", "C")]));
        assert!(!utf8(&[("LANG", "de_DE.ISO-8859-1")]));
    }

    #[test]
    fn only_the_order_of_bytes_is_supported() {
        let own = |set: &[(&str, &str)]| {
            own_collation(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).into()))
        };
        for plain in ["C", "POSIX", "C.UTF-8", "C.utf8", ""] {
            assert_eq!(own(&[("LC_ALL", plain), ("LC_CTYPE", "de_DE.UTF-8")]), None, "{plain}");
        }
        assert_eq!(own(&[("LC_COLLATE", "C"), ("LANG", "de_DE.UTF-8")]), None);
        assert_eq!(own(&[("LC_CTYPE", "C"), ("LANG", "de_DE.UTF-8")]), Some("de_DE.UTF-8".into()));
        assert_eq!(own(&[("LC_ALL", "sv_SE"), ("LC_COLLATE", "C")]), Some("sv_SE".into()));
    }
}
