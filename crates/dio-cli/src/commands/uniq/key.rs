//! The part of a line that is compared, and the comparison.

/// The part of a line that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ComparedPart {
    /// Number of fields to skip. A field is a run of blanks and the text that follows it, up to the
    /// next blank.
    pub(super) fields: u64,
    /// Number of bytes to skip after the fields.
    pub(super) skip: u64,
    /// Maximum number of bytes to compare.
    pub(super) width: u64,
    /// Upper and lower case of ASCII letters are equal.
    pub(super) fold: bool,
}

impl ComparedPart {
    /// The whole line without any change.
    pub(super) const WHOLE: ComparedPart =
        ComparedPart { fields: 0, skip: 0, width: u64::MAX, fold: false };
}

impl Default for ComparedPart {
    fn default() -> ComparedPart {
        ComparedPart::WHOLE
    }
}

/// A rule for comparing lines.
pub(super) trait CompareRule: Copy {
    /// The compared part of a line, which is given without its delimiter.
    fn of(self, line: &[u8]) -> &[u8];
    /// Returns whether two such parts are equal.
    fn same(self, one: &[u8], other: &[u8]) -> bool;
}

/// Whole lines, byte for byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeLine;

impl CompareRule for WholeLine {
    #[inline(always)]
    fn of(self, line: &[u8]) -> &[u8] {
        line
    }

    #[inline(always)]
    fn same(self, one: &[u8], other: &[u8]) -> bool {
        same(one, other)
    }
}

impl CompareRule for ComparedPart {
    #[inline]
    fn of(self, line: &[u8]) -> &[u8] {
        let mut at = 0;
        for _ in 0..self.fields {
            if at == line.len() {
                break;
            }
            at += line[at..].iter().take_while(|byte| is_blank(**byte)).count();
            at += line[at..].iter().take_while(|byte| !is_blank(**byte)).count();
        }
        let rest = &line[at..];
        let rest = &rest[at_most(self.skip, rest.len())..];
        &rest[..at_most(self.width, rest.len())]
    }

    #[inline]
    fn same(self, one: &[u8], other: &[u8]) -> bool {
        if self.fold { one.eq_ignore_ascii_case(other) } else { same(one, other) }
    }
}

/// Neighbours often differ in length or within the first bytes. This is checked without a call.
#[inline(always)]
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && match (one.first_chunk::<8>(), other.first_chunk::<8>()) {
            (Some(a), Some(b)) => a == b && one[8..] == other[8..],
            _ => one == other,
        }
}

fn at_most(count: u64, there_are: usize) -> usize {
    usize::try_from(count).map_or(there_are, |count| count.min(there_are))
}

/// Returns whether a byte is blank. A newline can occur in a line if lines end in NUL.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_before_bytes() {
        for (fields, skip, width, line, compared) in [
            (0, 0, u64::MAX, "a b", "a b"),
            (1, 0, u64::MAX, " a\t\tb c", "\t\tb c"),
            (2, 0, u64::MAX, "a b c", " c"),
            (2, 1, u64::MAX, "a b c", "c"),
            (1, 2, 1, "a bcd", "c"),
            (3, 0, 1, "a b", ""),
            (u64::MAX, u64::MAX, u64::MAX, "a b ", ""),
            (0, u64::MAX, 1, "ab", ""),
            (0, 1, 0, "ab", ""),
            (1, 0, u64::MAX, "a\nb", "\nb"),
            (1, 0, u64::MAX, "a\rb\u{a0}", ""),
        ] {
            let part = ComparedPart { fields, skip, width, fold: false };
            assert_eq!(part.of(line.as_bytes()), compared.as_bytes(), "{part:?} {line:?}");
        }
    }

    #[test]
    fn only_letters_of_ascii_have_two_cases() {
        let fold = ComparedPart { fold: true, ..ComparedPart::WHOLE };
        assert!(fold.same(b"aBz{", b"AbZ{"));
        assert!(!fold.same(b"[", b"{") && !fold.same(b"a", b"ab") && !fold.same(b"\xe9", b"\xc9"));
        assert!(
            !ComparedPart::WHOLE.same(b"a", b"A") && !WholeLine.same(b"12345678a", b"12345678b")
        );
        assert!(
            WholeLine.same(b"12345678a", b"12345678a")
                && !WholeLine.same(b"02345678a", b"12345678a")
        );
    }
}
