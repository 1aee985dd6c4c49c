//! The names of the outputs: a prefix, a counting suffix, and the user's additional suffix.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The digits of a suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// `aa`, `ab` …
    Letters,
    /// `00`, `01` …
    Decimal,
    /// `00` … `0f` …
    Hex,
}

impl Alphabet {
    /// Returns the digits, the smallest first.
    pub(super) fn digits(self) -> &'static [u8] {
        match self {
            Alphabet::Letters => b"abcdefghijklmnopqrstuvwxyz",
            Alphabet::Decimal => b"0123456789",
            Alphabet::Hex => b"0123456789abcdef",
        }
    }

    fn base(self) -> u64 {
        self.digits().len() as u64
    }

    fn value(self, digit: u8) -> Option<usize> {
        self.digits().iter().position(|d| *d == digit)
    }
}

/// The options for suffixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SuffixRules {
    pub(super) alphabet: Alphabet,
    /// The requested length; 0 lets split choose.
    pub(super) length: u64,
    /// The first number, in digits of the alphabet, without leading zeros.
    pub(super) from: Option<Vec<u8>>,
    /// The number of outputs, if it is known beforehand.
    pub(super) count: Option<u64>,
    /// The text behind the suffix.
    pub(super) additional: OsString,
}

/// Why no names can be made by the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SuffixError {
    /// The requested length has too few numbers for the outputs; this length would be enough.
    TooShort(u64),
    /// The first number has more digits than the suffix.
    FromTooLong,
}

/// Makes names until the suffixes are exhausted. A suffix without a fixed length grows instead.
#[derive(Debug)]
pub(super) struct OutputNames {
    prefix: Vec<u8>,
    alphabet: Alphabet,
    /// The length of the suffix. It is a `u64`, because a length that is too large is rejected only
    /// when the first name is made.
    length: u64,
    /// Whether the suffix grows. Invariant: if so, its first digit is never the last of the
    /// alphabet, which marks longer suffixes.
    grows: bool,
    from: Vec<u8>,
    additional: OsString,
    /// The digits of the latest name, as values; empty before the first name.
    latest: Vec<usize>,
}

impl OutputNames {
    /// Decides the length of the suffixes.
    pub(super) fn new(prefix: &OsStr, rules: &SuffixRules) -> Result<OutputNames, SuffixError> {
        let needed = rules.count.map_or(0, |count| needed_length(rules, count));
        if rules.length > 0 && rules.length < needed {
            return Err(SuffixError::TooShort(needed));
        }
        let length = if rules.length > 0 { rules.length } else { needed.max(2) };
        let from = rules.from.clone().unwrap_or_default();
        if from.len() as u64 > length {
            return Err(SuffixError::FromTooLong);
        }
        Ok(OutputNames {
            prefix: prefix.as_bytes().to_vec(),
            alphabet: rules.alphabet,
            length,
            grows: rules.length == 0 && rules.count.is_none() && rules.from.is_none(),
            from,
            additional: rules.additional.clone(),
            latest: Vec::new(),
        })
    }

    /// Returns the next name; `None` when the suffixes are exhausted.
    pub(super) fn next(&mut self) -> Option<OsString> {
        if self.latest.is_empty() {
            self.first()?;
        } else {
            self.increment()?;
        }
        let mut name = self.prefix.clone();
        name.extend(self.latest.iter().map(|value| self.alphabet.digits()[*value]));
        name.extend_from_slice(self.additional.as_bytes());
        Some(OsString::from_vec(name))
    }

    fn first(&mut self) -> Option<()> {
        // Linux allows at most 255 bytes in a file name, and rejects paths of 4096 bytes and more.
        // Names of this length fail when they are opened, with the system's message.
        let length = usize::try_from(self.length.min(1 << 20)).ok()?;
        self.latest = vec![0; length];
        let start = length - self.from.len();
        for (place, digit) in self.latest[start..].iter_mut().zip(&self.from) {
            *place = self.alphabet.value(*digit)?;
        }
        Some(())
    }

    fn increment(&mut self) -> Option<()> {
        let last = self.alphabet.digits().len() - 1;
        let place = self.latest.iter().rposition(|value| *value < last)?;
        self.latest[place] += 1;
        self.latest[place + 1..].fill(0);
        if self.grows && place == 0 && self.latest[0] == last {
            self.prefix.push(self.alphabet.digits()[last]);
            self.latest = vec![0; self.latest.len() + 1];
        }
        Some(())
    }
}

/// Returns the length of the shortest suffix that has `count` numbers, counted from the first
/// number if that is smaller than `count`.
///
/// A larger first number does not lengthen the suffix: it shows the length that the user wants (GNU
/// does the same).
fn needed_length(rules: &SuffixRules, count: u64) -> u64 {
    let base = rules.alphabet.base();
    let from = rules.from.as_deref().unwrap_or_default().iter().try_fold(0u64, |number, digit| {
        number.checked_mul(base)?.checked_add(rules.alphabet.value(*digit)? as u64)
    });
    let mut last = count - 1;
    if let Some(from) = from.filter(|from| *from < count) {
        last = last.saturating_add(from);
    }
    let mut length = 1;
    while last >= base {
        last /= base;
        length += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use dio_test::Seed;

    use super::*;

    fn rules(alphabet: Alphabet) -> SuffixRules {
        SuffixRules { alphabet, length: 0, from: None, count: None, additional: OsString::new() }
    }

    fn names(prefix: &str, rules: &SuffixRules) -> OutputNames {
        OutputNames::new(OsStr::new(prefix), rules).unwrap()
    }

    fn nth(rules: &SuffixRules, index: usize) -> String {
        let mut names = names("x", rules);
        (0..index).for_each(|_| drop(names.next().unwrap()));
        names.next().unwrap().into_string().unwrap()
    }

    #[test]
    fn suffixes_grow() {
        for (alphabet, index, name) in [
            (Alphabet::Letters, 0, "xaa"),
            (Alphabet::Letters, 649, "xyz"),
            (Alphabet::Letters, 650, "xzaaa"),
            (Alphabet::Letters, 650 + 25 * 676 - 1, "xzyzz"),
            (Alphabet::Letters, 650 + 25 * 676, "xzzaaaa"),
            (Alphabet::Decimal, 89, "x89"),
            (Alphabet::Decimal, 90, "x9000"),
            (Alphabet::Decimal, 989, "x9899"),
            (Alphabet::Decimal, 990, "x990000"),
            (Alphabet::Hex, 239, "xef"),
            (Alphabet::Hex, 240, "xf000"),
        ] {
            assert_eq!(nth(&rules(alphabet), index), name);
        }
    }

    /// Writes a number in the digits of a base, by the obvious algorithm.
    fn written(mut number: u64, alphabet: Alphabet, length: usize) -> Option<String> {
        let mut text = Vec::new();
        for _ in 0..length {
            text.push(alphabet.digits()[(number % alphabet.base()) as usize]);
            number /= alphabet.base();
        }
        text.reverse();
        (number == 0).then(|| String::from_utf8(text).unwrap())
    }

    #[test]
    fn names_of_fixed_length_count_up_until_they_are_exhausted() {
        let seed = Seed::new();
        let mut rng = seed.stream(0);
        for _ in 0..300 {
            let alphabet =
                [Alphabet::Letters, Alphabet::Decimal, Alphabet::Hex][rng.range_usize(0..3)];
            let length = rng.range_usize(1..4);
            let from = match alphabet {
                Alphabet::Letters => None,
                _ if rng.bool(0.5) => None,
                _ => Some(rng.range(0..alphabet.base().pow(length as u32))),
            };
            let rules = SuffixRules {
                length: length as u64,
                from: from.map(|from| {
                    let text = written(from, alphabet, length).unwrap();
                    let digits = text.trim_start_matches('0');
                    if digits.is_empty() { "0" } else { digits }.as_bytes().to_vec()
                }),
                additional: ".end".into(),
                ..rules(alphabet)
            };
            let mut names = names("p", &rules);
            let mut expected = from.unwrap_or_default();
            while let Some(suffix) = written(expected, alphabet, length) {
                assert_eq!(
                    names.next().unwrap().into_string().unwrap(),
                    format!("p{suffix}.end"),
                    "{rules:?}"
                );
                expected += 1;
            }
            assert_eq!(names.next(), None, "{rules:?}");
        }
    }

    #[test]
    fn growing_names_are_sorted_and_never_repeat() {
        for alphabet in [Alphabet::Letters, Alphabet::Decimal, Alphabet::Hex] {
            let mut names = names("x", &rules(alphabet));
            let all: Vec<OsString> = (0..20_000).map(|_| names.next().unwrap()).collect();
            assert!(all.is_sorted_by(|a, b| a < b), "{alphabet:?}");
        }
    }

    #[test]
    fn a_known_number_of_outputs_sets_the_length() {
        for (alphabet, count, from, length) in [
            (Alphabet::Letters, 1, None, 2),
            (Alphabet::Letters, 676, None, 2),
            (Alphabet::Letters, 677, None, 3),
            (Alphabet::Letters, 17577, None, 4),
            (Alphabet::Decimal, 100, None, 2),
            (Alphabet::Decimal, 101, None, 3),
            (Alphabet::Decimal, 96, Some("5"), 3),
            (Alphabet::Decimal, 95, Some("5"), 2),
            (Alphabet::Decimal, 5, Some("99"), 2),
            (Alphabet::Hex, 250, Some("10"), 3),
            (Alphabet::Hex, 241, Some("f0"), 3),
            (Alphabet::Hex, 240, Some("f0"), 2),
        ] {
            let from = from.map(|f: &str| f.as_bytes().to_vec());
            let rules = SuffixRules { count: Some(count), from, ..rules(alphabet) };
            assert_eq!(names("", &rules).length, length, "{rules:?}");
        }
    }

    #[test]
    fn refusals() {
        let short = SuffixRules { count: Some(11), length: 1, ..rules(Alphabet::Decimal) };
        assert_eq!(
            OutputNames::new(OsStr::new("x"), &short).unwrap_err(),
            SuffixError::TooShort(2)
        );
        let long = SuffixRules { from: Some(b"100".to_vec()), ..rules(Alphabet::Decimal) };
        assert_eq!(OutputNames::new(OsStr::new("x"), &long).unwrap_err(), SuffixError::FromTooLong);
        assert!(OutputNames::new(OsStr::new("x"), &SuffixRules { length: 3, ..long }).is_ok());
    }
}
