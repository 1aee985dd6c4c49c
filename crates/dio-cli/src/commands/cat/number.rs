//! Line numbers, counted as decimal text.

/// Maximum number of digits. No input has so many lines.
const DIGITS: usize = 24;

/// GNU `cat` pads numbers to this width.
const WIDTH: usize = 6;

/// A line number as it is printed: right-aligned in at least six columns, and a tab.
///
/// An increment nearly always changes only one digit, which costs less than formatting a number.
#[derive(Debug)]
pub(super) struct LineNumber {
    /// Blanks, digits, and the tab at the end.
    text: [u8; DIGITS + 1],
    /// Index of the first digit. Before the first line, it is the index of the last digit.
    first: usize,
}

impl LineNumber {
    /// Makes a number that stands before the first line.
    pub(super) fn new() -> Self {
        let mut text = [b' '; DIGITS + 1];
        text[DIGITS] = b'\t';
        text[DIGITS - 1] = b'0';
        Self { text, first: DIGITS - 1 }
    }

    /// Counts one more line and appends its number to `out`.
    pub(super) fn next(&mut self, out: &mut Vec<u8>) {
        self.increment();
        // The usual width is a constant, so that the copy compiles to two moves.
        if self.first >= DIGITS - WIDTH {
            out.extend_from_slice(&self.text[DIGITS - WIDTH..]);
        } else {
            out.extend_from_slice(&self.text[self.first..]);
        }
    }

    fn increment(&mut self) {
        let mut at = DIGITS - 1;
        loop {
            if self.text[at] < b'9' {
                // A blank before the first digit counts as a zero.
                self.text[at] = self.text[at].max(b'0') + 1;
                self.first = self.first.min(at);
                return;
            }
            self.text[at] = b'0';
            at -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_padded_and_grow() {
        let mut number = LineNumber::new();
        for n in 1..=1_000_002u32 {
            let mut out = Vec::new();
            number.next(&mut out);
            if n < 2000 || n.is_multiple_of(10_007) || n > 999_990 {
                assert_eq!(String::from_utf8(out).unwrap(), format!("{n:6}\t"));
            }
        }
    }
}
