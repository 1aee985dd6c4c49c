//! Reports where the user's locale would have sorted differently. Lines are always compared as in
//! the C locale; a note says so if the difference matters.

use std::ffi::OsString;

use super::key::Ignore;
use super::spec::Spec;
use crate::locale::chosen;

/// The categories of the locale that an order depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocaleNeeds {
    collation: bool,
    digits: bool,
    months: bool,
    classes: bool,
}

/// Names of categories, with the message for each if it is not supported.
const CATEGORIES: [(&str, &str); 4] = [
    ("LC_COLLATE", "the collation of this locale is not supported: text is compared as bytes"),
    (
        "LC_NUMERIC",
        "the numbers of this locale are not supported: they are read with a point and ungrouped",
    ),
    ("LC_TIME", "the months of this locale are not supported: they are the English ones"),
    (
        "LC_CTYPE",
        "the characters of this locale are not supported: only those of ASCII are letters, blank \
         or printable",
    ),
];

impl LocaleNeeds {
    /// The needs of an order by `keys`, with or without a last resort.
    pub(super) fn of(keys: &[Spec], last_resort: bool) -> LocaleNeeds {
        let any = |is: fn(&Spec) -> bool| keys.iter().any(is);
        LocaleNeeds {
            collation: last_resort || any(|key| key.letters.is_text()),
            digits: any(|key| key.letters.numeric || key.letters.general || key.letters.human),
            months: any(|key| key.letters.month),
            classes: any(|key| key.letters.view.fold || key.letters.view.ignore != Ignore::Nothing),
        }
    }

    /// Returns the note for the given environment, if a needed category has a locale other than C
    /// and `C.UTF-8`. The latter behaves like C in everything that matters here.
    pub(super) fn told(self, variable: impl Fn(&str) -> Option<OsString>) -> Option<String> {
        let needed = [self.collation, self.digits, self.months, self.classes];
        let mut told = Vec::new();
        let mut name = None;
        for ((category, words), _) in CATEGORIES.iter().zip(needed).filter(|(_, needed)| *needed) {
            let locale = chosen(category, &variable);
            if let Some(locale) = locale.filter(|locale| !is_like_c(locale)) {
                told.push(*words);
                name.get_or_insert(locale);
            }
        }
        let name = name?;
        Some(format!(
            "locale {}: {}",
            crate::quote::marked(name.as_encoded_bytes()),
            told.join("; ")
        ))
    }
}

fn is_like_c(locale: &OsString) -> bool {
    let Some(name) = locale.to_str() else { return false };
    match name.split_once('.') {
        Some(("C" | "POSIX", codeset)) => {
            matches!(&*codeset.to_ascii_lowercase(), "utf-8" | "utf8")
        }
        Some(_) => false,
        None => matches!(name, "C" | "POSIX"),
    }
}

/// Returns whether text is collated by the `C` or `POSIX` locale itself, and not by `C.UTF-8`.
pub(super) fn is_posix() -> bool {
    chosen("LC_COLLATE", |name| std::env::var_os(name))
        .is_none_or(|locale| locale == "C" || locale == "POSIX")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_is_told() {
        let told = |needs: LocaleNeeds, set: &[(&str, &str)]| {
            needs
                .told(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).into()))
        };
        let bytes = LocaleNeeds::of(&[], true);
        for quiet in [
            &[][..],
            &[("LANG", "C")],
            &[("LC_ALL", "C.UTF-8"), ("LANG", "de_DE.UTF-8")],
            &[("LANG", "C.utf8")],
        ] {
            assert_eq!(told(bytes, quiet), None);
        }
        assert_eq!(told(bytes, &[("LC_NUMERIC", "de_DE.UTF-8"), ("LANG", "C")]), None);
        let text = told(bytes, &[("LANG", "de_DE.UTF-8")]).unwrap();
        assert!(
            text.contains("de_DE.UTF-8") && text.ends_with("text is compared as bytes"),
            "{text}"
        );
        let numbers = LocaleNeeds::of(&[Spec::of(b"1n").unwrap()], false);
        assert_eq!(told(numbers, &[("LC_COLLATE", "sv_SE")]), None);
        assert!(told(numbers, &[("LC_NUMERIC", "sv_SE")]).unwrap().contains("numbers"));
        let months = LocaleNeeds::of(&[Spec::of(b"1M").unwrap(), Spec::of(b"2f").unwrap()], false);
        let text = told(months, &[("LC_ALL", "sv_SE")]).unwrap();
        assert!(
            text.contains("months") && text.contains("characters") && text.contains("collation"),
            "{text}"
        );
    }
}
