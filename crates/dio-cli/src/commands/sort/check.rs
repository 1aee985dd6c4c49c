//! Checks whether a file is sorted (`-c`, `-C`).

use std::io;

use memchr::memchr;

use super::key::Order;
use crate::tool::Source;

/// A line that is out of order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Disorder {
    /// The number of the line, counted from 1.
    pub(super) number: u64,
    pub(super) text: Vec<u8>,
}

/// Finds the first line that is out of order; with `unique`, also one whose keys equal those of the
/// line before.
///
/// # Errors
/// Reading failed.
pub(super) fn first_disorder(
    source: &mut Source,
    order: &Order,
    terminator: u8,
    unique: bool,
) -> io::Result<Option<Disorder>> {
    let mut check = Checker { order, unique, number: 0, last: Vec::new(), prefix: 0 };
    // The beginning of a line that ends in a later chunk.
    let mut begun: Vec<u8> = Vec::new();
    while let Some(chunk) = source.next_chunk()? {
        let mut rest = &chunk[..];
        if !begun.is_empty() {
            let Some(end) = memchr(terminator, rest) else {
                begun.extend_from_slice(rest);
                continue;
            };
            begun.extend_from_slice(&rest[..end]);
            let line = std::mem::take(&mut begun);
            if !check.is_next(None, &line) {
                return Ok(Some(check.disorder(&line)));
            }
            (check.last, begun) = (line, std::mem::take(&mut check.last));
            begun.clear();
            rest = &rest[end + 1..];
        }
        let mut before: Option<&[u8]> = None;
        while let Some(end) = memchr(terminator, rest) {
            let line = &rest[..end];
            if !check.is_next(before, line) {
                return Ok(Some(check.disorder(line)));
            }
            before = Some(line);
            rest = &rest[end + 1..];
        }
        if let Some(last) = before {
            check.last.clear();
            check.last.extend_from_slice(last);
        }
        begun.extend_from_slice(rest);
    }
    Ok((!begun.is_empty() && !check.is_next(None, &begun)).then(|| check.disorder(&begun)))
}

/// Compares each line with the one before.
struct Checker<'o> {
    order: &'o Order,
    unique: bool,
    /// Number of lines read so far.
    number: u64,
    /// The line before, if it is in an earlier chunk.
    last: Vec<u8>,
    /// The prefix of the line before.
    prefix: u64,
}

impl Checker<'_> {
    /// Returns whether `line` may follow the line before it: `before`, or else the last line of an
    /// earlier chunk.
    #[inline]
    fn is_next(&mut self, before: Option<&[u8]>, line: &[u8]) -> bool {
        self.number += 1;
        let prefix = self.order.prefix(line);
        let last = std::mem::replace(&mut self.prefix, prefix);
        if self.number == 1 || last < prefix {
            return true;
        }
        let before = before.unwrap_or(&self.last);
        let order = if last > prefix {
            std::cmp::Ordering::Greater
        } else {
            self.order.compare_rest(before, line)
        };
        if self.unique { order.is_lt() } else { order.is_le() }
    }

    fn disorder(&self, line: &[u8]) -> Disorder {
        Disorder { number: self.number, text: line.to_vec() }
    }
}
