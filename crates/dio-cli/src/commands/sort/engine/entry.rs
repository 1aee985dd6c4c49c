//! Entries: what the sort moves instead of lines. An entry holds a line's prefix in the order and
//! the position of its bytes.

/// A line in 16 bytes, which compare as one number. The prefix is in the upper half. The offset
/// follows, so that among equal prefixes the earlier line comes first. The length is last.
///
/// Lengths of [`LONG`] and more do not fit: such a line ends at the first terminator at or behind
/// `LONG` bytes from its start. All memory that entries refer to has that terminator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LineEntry(u128);

/// Width of the length, in bits.
const LENGTH_BITS: u32 = 24;

/// Lengths from this one on are not stored; they are found by searching for the terminator.
pub(super) const LONG: usize = (1 << LENGTH_BITS) - 1;

/// Maximum number of bytes that the offsets of entries can address.
pub(super) const MOST_BYTES: u64 = 1 << (64 - LENGTH_BITS);

/// Size of an entry in memory, in bytes.
pub(super) const SIZE: u64 = size_of::<LineEntry>() as u64;

impl LineEntry {
    /// Makes an entry for the line of `length` bytes, without its terminator, at `offset`.
    #[inline]
    pub(super) fn new(prefix: u64, offset: usize, length: usize) -> LineEntry {
        debug_assert!((offset as u64) < MOST_BYTES);
        let place = (offset as u64) << LENGTH_BITS | length.min(LONG) as u64;
        LineEntry(u128::from(prefix) << 64 | u128::from(place))
    }

    #[inline]
    pub(super) fn prefix(self) -> u64 {
        (self.0 >> 64) as u64
    }

    #[inline]
    pub(super) fn with_prefix(self, prefix: u64) -> LineEntry {
        LineEntry(u128::from(prefix) << 64 | self.0 & u128::from(u64::MAX))
    }

    #[inline]
    pub(super) fn offset(self) -> usize {
        (self.0 as u64 >> LENGTH_BITS) as usize
    }

    /// The line in `bytes`, without its terminator.
    #[inline]
    pub(super) fn line(self, bytes: &[u8], terminator: u8) -> &[u8] {
        let from = self.offset();
        &bytes[from..from + self.length(bytes, terminator)]
    }

    /// The line with its terminator.
    #[inline]
    pub(super) fn whole(self, bytes: &[u8], terminator: u8) -> &[u8] {
        let from = self.offset();
        &bytes[from..=from + self.length(bytes, terminator)]
    }

    #[inline]
    fn length(self, bytes: &[u8], terminator: u8) -> usize {
        match self.0 as usize & LONG {
            LONG => long(&bytes[self.offset()..], terminator),
            length => length,
        }
    }
}

#[cold]
fn long(bytes: &[u8], terminator: u8) -> usize {
    let rest = &bytes[LONG..];
    LONG + memchr::memchr(terminator, rest).expect("every line has its terminator")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_and_compare_by_prefix_then_place() {
        let bytes = b"first\nsecond\n\n";
        let entries = [LineEntry::new(7, 0, 5), LineEntry::new(7, 6, 6), LineEntry::new(9, 13, 0)];
        assert!(entries.is_sorted());
        let lines: Vec<&[u8]> = entries.iter().map(|entry| entry.line(bytes, b'\n')).collect();
        assert_eq!(lines, [b"first".as_slice(), b"second", b""]);
        assert_eq!(entries[1].whole(bytes, b'\n'), b"second\n");
        assert_eq!(
            (entries[1].with_prefix(u64::MAX).prefix(), entries[1].with_prefix(1).offset()),
            (u64::MAX, 6)
        );
    }

    #[test]
    fn lines_around_the_longest_length_end_at_their_terminator() {
        for length in [LONG - 1, LONG, LONG + 1, 3 * LONG] {
            let mut bytes = vec![b'x'; length + 10];
            bytes[3 + length] = 0;
            let entry = LineEntry::new(0, 3, length);
            assert_eq!(entry.line(&bytes, 0).len(), length);
            assert_eq!(entry.whole(&bytes, 0).last(), Some(&0));
        }
    }
}
