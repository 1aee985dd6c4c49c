//! The user's locale.

use std::ffi::OsString;

/// Returns whether the environment selects a UTF-8 locale.
pub fn is_utf8() -> bool {
    chosen_is_utf8(|name| std::env::var_os(name))
}

/// Returns the quotation marks of GNU's messages in a UTF-8 locale, or in another one.
pub(crate) fn quotation_marks_in(utf8: bool) -> (char, char) {
    if utf8 { ('‘', '’') } else { ('\'', '\'') }
}

/// Does the same for the given environment (`locale(7)`: the first of these variables that is set).
fn chosen_is_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let Some(chosen) = chosen("LC_CTYPE", variable) else { return false };
    let Some(chosen) = chosen.to_str() else { return false };
    let codeset = chosen
        .split_once('.')
        .map_or("", |(_, codeset)| codeset.split('@').next().unwrap_or_default());
    codeset.eq_ignore_ascii_case("utf-8") || codeset.eq_ignore_ascii_case("utf8")
}

/// Returns the locale of a category (`locale(7)`: the first of these variables that is set); `None`
/// if the environment selects none.
pub(crate) fn chosen(
    category: &str,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Option<OsString> {
    ["LC_ALL", category, "LANG"].into_iter().filter_map(variable).find(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_is_the_first_that_is_set() {
        let utf8 = |set: &[(&str, &str)]| {
            chosen_is_utf8(|name| {
                set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).into())
            })
        };
        assert!(!utf8(&[]));
        assert!(!utf8(&[("LC_ALL", "C"), ("LANG", "C.UTF-8")]));
        assert!(utf8(&[("LC_ALL", ""), ("LANG", "en_GB.utf8")]));
        assert!(utf8(&[("LC_CTYPE", "de_DE.UTF-8@euro"), ("LANG", "C")]));
        assert!(!utf8(&[("LANG", "de_DE.ISO-8859-1")]));
    }
}
